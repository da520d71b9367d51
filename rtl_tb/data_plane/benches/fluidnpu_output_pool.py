"""Output pool against the address model: every beat that is left, with the largest words of its window."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
from cocotb.triggers import RisingEdge

from fluidnpu.hls.core import left_output
from fluidnpu.hls.formats import TILE
from fluidnpu.models.graph import LEAST_POOLED
from fluidnpu.models.numeric import WORDS, Stored

from ...common.benches.clock import Dut, begin, bench, reset
from ...common.benches.streams import Sink, StreamSource, pulse, running, until
from ...common.benches.words import beats_of
from ..environment.cases import NARROW_DESIGN, Case, random_case
from ..environment.jobs import MOST_POOLED, random_shape

WORD = WORDS[NARROW_DESIGN.word_bits]
# What meets in a layer: its pool, whether it has several rows of windows, several tiles in a row block.
Cross = tuple[int, bool, bool]
CROSSES: tuple[Cross, ...] = tuple(product((2, 3), (False, True), (False, True)))


@bench(60_000)
async def beats_are_pooled(dut: Dut) -> None:
    """Of layers with either pool exactly the beats that end a window leave, in order."""
    rng = await begin(dut)
    for cross in CROSSES:
        for _ in range(4):
            await pool(dut, rng, crossing(rng, cross))


@bench(60_000)
async def beats_of_other_layers_pass(dut: Dut) -> None:
    """Beats of a layer without a pool pass as they are, also between two layers that have one."""
    rng = await begin(dut)
    for _ in range(6):
        await pool(dut, rng, random_case(rng, NARROW_DESIGN, pool=(0, 0, 0)))
        await pool(dut, rng, crossing(rng, rng.choice(CROSSES)))


def cross_of(case: Case) -> Cross:
    """Return the cross that a layer is."""
    several_tiles = not case.commands()[0]["block_last"]
    return case.descriptor.pool_kernel, case.descriptor.pooled_hw[0] > 1, several_tiles


def crossing(rng: random.Random, cross: Cross) -> Case:
    """Draw a layer that is this cross."""
    kernel, windows, tiles = cross
    while True:
        shape = random_shape(rng, NARROW_DESIGN)
        high = rng.randrange(3, MOST_POOLED[0] + 1) if windows else rng.randrange(1, 4)
        shape = replace(
            shape,
            kind=0,
            merged=False,
            columns=shape.columns if tiles else rng.randrange(1, NARROW_DESIGN.t_c // 2 + 1),
            groups=shape.groups if tiles else 1,
            out=(high, rng.randrange(LEAST_POOLED, MOST_POOLED[1] + 1)),
            pool=(kernel, rng.randrange(2), rng.randrange(2)),
        )
        if shape.pools:
            case = random_case(rng, NARROW_DESIGN, shape)
            if cross_of(case) == cross:
                return case


async def pool(dut: Dut, rng: random.Random, case: Case) -> None:
    """Send one layer's outputs through."""
    await reset(dut, **case.reset_inputs())
    await pulse(dut, "layer_start_i")
    left = answer = outputs(rng, case)
    if case.descriptor.pool_kernel:
        left = left_output(case.descriptor, case.word, NARROW_DESIGN, answer, len(case.active))
    commands = StreamSource(dut, rng, "command_valid_i", "command_ready_o", ("command_i",))
    if case.descriptor.pool_kernel:  # the others get none
        commands.items.extend((TILE.pack(command),) for command in case.commands())
    beats = StreamSource(dut, rng, "beat_valid_i", "beat_ready_o", ("beat_i",))
    beats.items.extend((beat,) for beat in beats_of(answer))
    out = Sink(dut, rng, "pooled_valid_o", "pooled_ready_i", ("pooled_o",))
    with running(commands, beats, out):
        await RisingEdge(dut.clk_i)
        await until(dut, lambda: len(out.got) >= len(left) and not beats.items, 40 * len(answer) + 500, "the last beat")
        for _ in range(20):
            await RisingEdge(dut.clk_i)
    assert [beat for (beat,) in out.got] == beats_of(left)
    assert not commands.items


def outputs(rng: random.Random, case: Case) -> Stored:
    """An output stream (beats, out_words) of a layer; unused words are zero. Few values meet often."""
    most, words = rng.choice([3, WORD.highest]), NARROW_DESIGN.out_words
    source = np.random.default_rng(rng.getrandbits(32))
    beats = [np.zeros((0, words), WORD.dtype)]
    for tile in case.tiles:
        cols = tile.command.cols
        rows = np.zeros((tile.command.rows, -(-cols // words) * words), WORD.dtype)
        rows[:, :cols] = source.integers(-most - 1, most, (len(rows), cols))
        beats.append(rows.reshape(-1, words))
    return np.concatenate(beats)
