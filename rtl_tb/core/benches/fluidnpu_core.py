"""The reference core under any handshake: random pauses, random data on idle streams, resets in the middle of
a command.

`CoreModel` runs the volume; this bench drives the ports cycle by cycle. Expected outputs come from
`hls.core.core_vectors`.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator

import cocotb
from cocotb.task import Task
from cocotb.triggers import RisingEdge

from fluidnpu.dse import Design
from fluidnpu.dse.testing import tiny_design
from fluidnpu.hls.core import LayerStreams, core_vectors
from fluidnpu.models.numeric import Stored

from ...common.benches.clock import Dut, begin, bench, reset
from ...common.benches.words import beats_of


def draw_pause(rng: random.Random) -> float:
    """Draw the share of cycles in which an idle stream stays idle."""
    return rng.choice((0.0, 0.2, 0.8))


def design_under_test() -> Design:
    """The small design with the fields that the runner test passed."""
    fields = json.loads(os.environ.get("DESIGN", "{}"))
    return tiny_design(fields.pop("b_max", 4)).changed(**fields)


def drawn(rng: random.Random, design: Design) -> Iterator[tuple[LayerStreams, Stored, int]]:
    """Yield streams of every mode and of all modes mixed, twice, with their outputs and saturations.

    Outputs are (beats, out_words).
    """
    for _ in range(2):
        yield from core_vectors(design, seed=rng.getrandbits(32))


async def offer(dut: Dut, name: str, beats: list[int], rng: random.Random, pause: float) -> None:
    """Send beats; the data are random while the stream is idle."""
    valid, ready, data = (getattr(dut, f"{name}_{end}") for end in ("valid_i", "ready_o", "i"))
    for beat in beats:
        while rng.random() < pause:
            data.value = rng.getrandbits(len(data))
            await RisingEdge(dut.clk_i)
        valid.value, data.value = 1, beat
        await RisingEdge(dut.clk_i)
        while not ready.value:
            await RisingEdge(dut.clk_i)
        valid.value = 0
    data.value = rng.getrandbits(len(data))


async def collect(dut: Dut, count: int, rng: random.Random, pause: float) -> list[int]:
    """Receive `count` output beats; a beat that waits must not change."""
    beats: list[int] = []
    waiting: int | None = None
    while len(beats) < count:
        dut.output_ready_i.value = taking = int(rng.random() >= pause)
        await RisingEdge(dut.clk_i)
        shown = int(dut.output_o.value) if dut.output_valid_o.value else None
        assert waiting is None or shown == waiting, "an output beat changed before it was taken"
        if shown is not None and taking:
            beats.append(shown)
        waiting = None if taking else shown
    dut.output_ready_i.value = 0
    return beats


def start(dut: Dut, streams: LayerStreams, rng: random.Random) -> list[Task[None]]:
    """Begin to send every stream."""
    words = {
        "cmd": streams.command_words(),
        "input": streams.input,
        "weight": streams.weight,
        "residual": streams.residual,
    }
    return [cocotb.start_soon(offer(dut, name, beats_of(w), rng, draw_pause(rng))) for name, w in words.items()]


@bench(timeout_us=20_000)
async def any_handshake(dut: Dut) -> None:
    """Every beat is right under any pauses."""
    design = design_under_test()
    rng = await begin(dut)
    for streams, expected, saturations in drawn(rng, design):
        before = int(dut.saturations_o.value)
        senders = start(dut, streams, rng)
        assert await collect(dut, len(expected), rng, draw_pause(rng)) == beats_of(expected)
        for sender in senders:
            await sender
        for _ in range(3):
            await RisingEdge(dut.clk_i)
        assert int(dut.saturations_o.value) - before == saturations


@bench(timeout_us=20_000)
async def reset_anywhere(dut: Dut) -> None:
    """A reset in the middle leaves nothing behind: the next streams are answered as after power-up."""
    design = design_under_test()
    rng = await begin(dut)
    for streams, expected, saturations in drawn(rng, design):
        for interrupted in (True, False):
            senders = start(dut, streams, rng)
            if interrupted:
                dut.output_ready_i.value = 1
                for _ in range(rng.randrange(1, 200)):
                    await RisingEdge(dut.clk_i)
                for sender in senders:
                    sender.cancel()
                await reset(dut)
                continue
            assert await collect(dut, len(expected), rng, draw_pause(rng)) == beats_of(expected)
            for _ in range(3):
                await RisingEdge(dut.clk_i)
            assert int(dut.saturations_o.value) == saturations
            await reset(dut)
