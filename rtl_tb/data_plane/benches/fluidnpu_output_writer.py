"""Output writer against `hls.core.scatter_output`: every word of the stream reaches its place."""

from __future__ import annotations

import random

import numpy as np
from cocotb.triggers import RisingEdge

from fluidnpu.hls.core import left_output, scatter_output
from fluidnpu.hls.formats import TILE
from fluidnpu.models.graph import Filtering
from fluidnpu.models.numeric import WORDS

from ...common.benches.clock import Dut, begin, bench, reset, setting
from ...common.benches.streams import Sink, StreamSource, pulse, running, until
from ...common.benches.words import beats_of
from ..environment.cases import PORT_BYTES, Case, random_case
from ..environment.jobs import MOST_FILTERED, Shape, array_under_test

DESIGN = array_under_test(weight_slots=2, out_words=3, filter=setting("FILTERS", 1) and 5)


@bench(50_000)
async def outputs_reach_their_places(dut: Dut) -> None:
    """Every word of the stream is stored once, where `hls.core.scatter_output` stores it, and no other is."""
    rng = await begin(dut)
    for _ in range(25):
        await write_back(dut, rng, random_case(rng, DESIGN))


@bench(100_000)
async def windows_reach_their_places(dut: Dut) -> None:
    """So does what leaves a filter; a layer is not over before the last position behind its windows."""
    rng, filtered, early = await begin(dut), 0, 0
    while DESIGN.has_filter and (filtered < 25 or not early):
        case = random_case(rng, DESIGN)
        d = case.descriptor
        if d.filter_kernel or rng.random() < 0.2:
            await write_back(dut, rng, case, again=rng.random() < 0.9)
        if d.filter_kernel:
            filtered += 1
            early += (d.pooled_hw[0] - 1) * d.filter_stride - d.filter_top + d.filter_kernel < d.walk_h


@bench(50_000)
async def a_row_that_no_window_reads(dut: Dut) -> None:
    """A layer is not over before it is visited, though all is handed over long before; the next is whole."""
    rng = await begin(dut)
    filtering = Filtering(kernel=2, stride=2, padded=(0, 0), out=(1, MOST_FILTERED // 2))
    for _ in range(8 if DESIGN.has_filter else 0):
        shape = Shape(out=(3, MOST_FILTERED), columns=1, filter=filtering)
        await write_back(dut, rng, random_case(rng, DESIGN, shape), again=True, pace=1.0)


async def write_back(dut: Dut, rng: random.Random, case: Case, *, again: bool = False, pace: float = 0.7) -> None:
    """Write one layer back and compare memory; `again`: behind another without a reset."""
    program, memory = case.program, case.padded_memory()
    if again:
        for name, value in case.reset_inputs().items():
            getattr(dut, name).value = value
        await RisingEdge(dut.clk_i)
    else:
        await reset(dut, **case.reset_inputs())
    assert dut.layer_done_o.value
    await pulse(dut, "layer_start_i")
    shape = (case.streams.outputs, DESIGN.out_words)
    word = WORDS[DESIGN.word_bits]
    answer = np.random.default_rng(rng.getrandbits(32)).integers(word.lowest, word.highest, shape).astype(word.dtype)
    words = program.slot_words(want := bytearray(program.memory))
    slots = words[case.active]
    scatter_output(case.descriptor, case.word, DESIGN, answer, slots, program.image)
    words[case.active] = slots
    commands = StreamSource(dut, rng, "command_valid_i", "command_ready_o", ("command_i",), pace)
    commands.items.extend((TILE.pack(command),) for command in case.commands())
    beats = StreamSource(dut, rng, "beat_valid_i", "beat_ready_o", ("beat_i",), pace)
    if case.descriptor.ordered:  # what is left of it behind fluidnpu_output_pool or fluidnpu_output_filter
        answer = left_output(case.descriptor, case.word, DESIGN, answer, len(case.active), program.image)
    beats.items.extend((beat,) for beat in beats_of(answer))
    ports = ("word_addr_o", "word_data_o", "word_strb_o")
    out = Sink(dut, rng, "word_valid_o", "word_ready_i", ports, pace, steady=False)
    with running(commands, beats, out):
        await RisingEdge(dut.clk_i)
        await RisingEdge(dut.clk_i)
        await until(dut, lambda: dut.layer_done_o.value, 30 * max(len(answer), shape[0]) + 2_000, "the layer's end")
    stored: set[int] = set()
    for address, data, strobe in out.got:
        for i in range(PORT_BYTES):
            if strobe >> i & 1:
                assert address + i not in stored, f"{address + i:#x} is written twice"
                stored.add(address + i)
                memory[address + i - program.base] = data >> 8 * i & 0xFF
    assert memory[: len(want)] == want
    assert not [*beats.items, *commands.items]
    for name in ("beat_valid_i", "command_valid_i", "word_ready_i"):
        getattr(dut, name).value = 0
