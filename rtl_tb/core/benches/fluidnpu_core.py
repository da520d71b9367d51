"""The reference core under any handshake: random pauses, rubbish on idle streams, a reset in the middle of a command.

Volume goes through `CoreModel`; this bench drives the ports cycle by cycle. The expectation is `hls`'s stream model.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace

import cocotb
import numpy as np
from cocotb.task import Task
from cocotb.triggers import RisingEdge

from fluidnpu.dse import Design
from fluidnpu.dse.testing import tiny_design
from fluidnpu.hls import LayerStreams, execute_streams_reference

from ...common.benches.clock import Dut, begin, bench, reset
from ...common.benches.words import beats_of
from ..streams import random_streams


def draw_pause(rng: random.Random) -> float:
    """Share of cycles in which an idle stream stays idle."""
    return rng.choice((0.0, 0.2, 0.8))


def design_under_test() -> Design:
    """The small design whose fields the runner test passed."""
    return replace(tiny_design(), **json.loads(os.environ.get("DESIGN", "{}")))


async def offer(dut: Dut, name: str, beats: list[int], rng: random.Random, pause: float) -> None:
    """Send beats; rubbish stands on the data while the stream is idle."""
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
    """Receive that many output beats; one that waits must not change."""
    found: list[int] = []
    waiting: int | None = None
    while len(found) < count:
        dut.output_ready_i.value = taking = int(rng.random() >= pause)
        await RisingEdge(dut.clk_i)
        shown = int(dut.output_o.value) if dut.output_valid_o.value else None
        assert waiting is None or shown == waiting, "an output beat changed before it was taken"
        if shown is not None and taking:
            found.append(shown)
        waiting = None if taking else shown
    dut.output_ready_i.value = 0
    return found


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
    """Every beat is right whatever the pauses."""
    design = design_under_test()
    rng = await begin(dut)
    for _ in range(12):
        streams = random_streams(np.random.default_rng(rng.getrandbits(32)), design, commands=5)
        expected, saturations = execute_streams_reference(streams, design)
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
    for _ in range(12):
        streams = random_streams(np.random.default_rng(rng.getrandbits(32)), design, commands=4)
        expected, saturations = execute_streams_reference(streams, design)
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
