"""Output pool against the address model: every beat that is left, with the largest words of its window."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
from cocotb.triggers import RisingEdge

from fluidnpu.hls.core import pooled_output
from fluidnpu.hls.formats import TILE

from ...common.benches.clock import Dut, begin, bench, reset
from ...common.benches.streams import Sink, Source, pulse, running, until
from ...common.benches.words import beats_of
from .cases import NARROW_DESIGN, Case, random_case

Int16 = npt.NDArray[np.int16]
POOLED = {0, 2, 3}


@bench(60_000)
async def beats_are_pooled(dut: Dut) -> None:
    """Of layers with either pool, and with none, exactly the beats that end a window leave, in order."""
    rng = await begin(dut)
    met = set[int]()
    for number in range(400):
        if number >= 40 and met == POOLED:
            break
        case = random_case(rng, NARROW_DESIGN)
        if number % 4 and not case.descriptor.pool_kernel:
            continue
        met.add(case.descriptor.pool_kernel)
        await pool(dut, rng, case)
    assert met == POOLED, f"only pools {met} were met"


async def pool(dut: Dut, rng: random.Random, case: Case) -> None:
    """Send one layer's outputs through."""
    await reset(dut, **case.reset_inputs())
    await pulse(dut, "layer_start_i")
    left = answer = outputs(rng, case)
    if case.descriptor.pool_kernel:
        left = pooled_output(case.descriptor, case.word, NARROW_DESIGN, answer, len(case.active))
    commands = Source(dut, rng, "command_valid_i", "command_ready_o", ("command_i",))
    if case.descriptor.pool_kernel:  # the others get none
        commands.items.extend((TILE.pack(command),) for command in case.commands())
    beats = Source(dut, rng, "beat_valid_i", "beat_ready_o", ("beat_i",))
    beats.items.extend((beat,) for beat in beats_of(answer))
    out = Sink(dut, rng, "pooled_valid_o", "pooled_ready_i", ("pooled_o",))
    with running(commands, beats, out):
        await RisingEdge(dut.clk_i)
        await until(dut, lambda: len(out.got) >= len(left) and not beats.items, 40 * len(answer) + 500, "the last beat")
        for _ in range(20):
            await RisingEdge(dut.clk_i)
    assert [beat for (beat,) in out.got] == beats_of(left)
    assert not commands.items


def outputs(rng: random.Random, case: Case) -> Int16:
    """An output stream (beats, out_words) of a layer; unused words are zero. Few values meet often."""
    most, words = rng.choice([3, 32767]), NARROW_DESIGN.out_words
    source = np.random.default_rng(rng.getrandbits(32))
    beats = [np.zeros((0, words), np.int16)]
    for tile in case.tiles:
        cols = tile.command.cols
        rows = np.zeros((tile.command.rows, -(-cols // words) * words), np.int16)
        rows[:, :cols] = source.integers(-most - 1, most, (len(rows), cols))
        beats.append(rows.reshape(-1, words))
    return np.concatenate(beats)
