"""Descriptor fetch, weight streamer, residual reader and output writer, each against the address model; the runner chooses the test of its top."""

from __future__ import annotations

import random

import cocotb
import numpy as np

from fluidnpu.hls import scatter_output

from ...common.benches.clock import Dut, begin, bench, reset
from .jobs import bench_design
from .parts import Case, Reader, Sink, Source, as_ints, pack, pulse, random_case, until

PORT_BYTES = 16
DESIGN = bench_design(
    {"t_r": 7, "t_p": 4, "t_c": 8, "b_max": 4, "stackable": 1, "split": 1, "weight_slots": 2, "out_words": 3}
)


def padded(case: Case) -> bytearray:
    """Memory with room for a port word that begins before its end."""
    return bytearray(case.program.memory) + bytes(64)


def blocks(case: Case) -> int:
    """Row blocks of the layer."""
    return sum(command["block_first"] for command in case.commands())


@bench(20_000)
async def descriptors_come_whole(dut: Dut) -> None:
    """Every layer's 32 words, one layer after another."""
    rng = await begin(dut)
    data = bytearray(rng.randbytes(128 * 20))
    base = 0x4_0000
    reader = Reader(dut, rng, data, base, PORT_BYTES)
    dut.program_i.value = base
    cocotb.start_soon(reader.run())
    for _ in range(30):
        layer = rng.randrange(20)
        dut.layer_i.value, dut.fetch_i.value = layer, 1
        await until(dut, lambda: dut.fetched_o.value, 200, "the descriptor")
        assert int(dut.words_o.value) == int.from_bytes(data[128 * layer : 128 * layer + 128], "little")
        assert reader.asked[-1] == (base + 128 * layer, 128 // PORT_BYTES)
        dut.fetch_i.value = 0
        for _ in range(2 + rng.randrange(3)):
            await cocotb.triggers.RisingEdge(dut.clk_i)


@bench(50_000)
async def weights_are_copied_for_every_block(dut: Dut) -> None:
    """Nothing is read beyond the layer's part of the image."""
    rng = await begin(dut)
    for _ in range(25):
        case = random_case(rng, DESIGN, kind=0)
        program, layer = case.program, case.layer()
        await reset(dut, layer_i=pack("layer_t", layer), image_i=program.weights)
        reader = Reader(dut, rng, padded(case), program.base, PORT_BYTES)
        jobs = Source(dut, rng, "block_valid_i", "block_ready_o", ())
        beats = Sink(dut, rng, "beat_valid_o", "beat_ready_i", ("beat_o",))
        jobs.items.extend([()] * blocks(case))
        expected = as_ints(case.streams.weight)
        tasks = [cocotb.start_soon(part.run()) for part in (reader, jobs, beats)]
        await until(dut, lambda: len(beats.got) >= len(expected), 20 * len(expected) + 500, "the last beat")  # noqa: B023
        await until(dut, lambda: dut.idle_o.value, 10, "idle")
        assert [beat for (beat,) in beats.got] == expected
        port_words = -(-2 * layer["block_words"] // PORT_BYTES)
        assert reader.asked == [(program.weights + layer["weights"], port_words)] * blocks(case)
        for task in tasks:
            task.cancel()


@bench(50_000)
async def residuals_come_in_the_order_of_outputs(dut: Dut) -> None:
    """Rows at any word of a port word."""
    rng = await begin(dut)
    for _ in range(25):
        case = random_case(rng, DESIGN, residual=True)
        await reset(dut, **case.reset_inputs())
        await pulse(dut, "layer_start_i")
        reader = Reader(dut, rng, padded(case), case.program.base, PORT_BYTES)
        commands = Source(dut, rng, "command_valid_i", "command_ready_o", ("command_i",))
        commands.items.extend((pack("command_t", command),) for command in case.commands())
        beats = Sink(dut, rng, "beat_valid_o", "beat_ready_i", ("beat_o",))
        expected = as_ints(case.streams.residual)
        tasks = [cocotb.start_soon(part.run()) for part in (reader, commands, beats)]
        await until(dut, lambda: len(beats.got) >= len(expected), 20 * len(expected) + 500, "the last beat")  # noqa: B023
        assert [beat for (beat,) in beats.got] == expected
        for task in tasks:
            task.cancel()


@bench(50_000)
async def outputs_reach_their_places(dut: Dut) -> None:
    """Every word of the stream is stored where `hls.scatter_output` stores it, once, and no other word."""
    rng = await begin(dut)
    for _ in range(25):
        await write_back(dut, rng, random_case(rng, DESIGN))


async def write_back(dut: Dut, rng: random.Random, case: Case) -> None:
    """One layer."""
    program, memory = case.program, padded(case)
    await reset(dut, **case.reset_inputs())
    assert dut.layer_done_o.value
    await pulse(dut, "layer_start_i")
    shape = (case.streams.outputs, DESIGN.out_words)
    answer = np.random.default_rng(rng.getrandbits(32)).integers(-32768, 32767, shape).astype(np.int16)
    words = program.slot_words(want := bytearray(program.memory))
    slots = words[case.active]
    scatter_output(case.descriptor, case.word, DESIGN, answer, slots)
    words[case.active] = slots
    commands = Source(dut, rng, "command_valid_i", "command_ready_o", ("command_i",))
    commands.items.extend((pack("command_t", command),) for command in case.commands())
    beats = Source(dut, rng, "beat_valid_i", "beat_ready_o", ("beat_i",))
    beats.items.extend((beat,) for beat in as_ints(answer))
    out = Sink(dut, rng, "word_valid_o", "word_ready_i", ("word_addr_o", "word_data_o", "word_strb_o"), steady=False)
    tasks = [cocotb.start_soon(part.run()) for part in (commands, beats, out)]
    await cocotb.triggers.RisingEdge(dut.clk_i)
    await cocotb.triggers.RisingEdge(dut.clk_i)
    await until(dut, lambda: dut.layer_done_o.value, 30 * shape[0] + 500, "the layer's end")
    stored: set[int] = set()
    for address, data, strobe in out.got:
        for i in range(PORT_BYTES):
            if strobe >> i & 1:
                assert address + i not in stored, f"{address + i:#x} is written twice"
                stored.add(address + i)
                memory[address + i - program.base] = data >> 8 * i & 0xFF
    assert memory[: len(want)] == want
    assert not beats.items
    for task in tasks:
        task.cancel()
