"""Window segments against the address model: beats put together from the segments are the input stream, guard words included."""

from __future__ import annotations

import random

import cocotb

from .common import Dut, begin, bench, reset, setting
from .jobs import bench_design
from .parts import PORT_BYTES, Case, Sink, Source, as_ints, pack, pulse, random_case, until

LINE_WORDS = setting("LINE_WORDS", 16)
DESIGN = bench_design(
    {"t_r": 7, "t_p": 4, "t_c": 8, "b_max": 4, "stackable": 1, "split": 1, "weight_slots": 1, "out_words": 4}
)


def put_together(case: Case, segments: list[tuple[int, ...]]) -> list[int]:
    """The beats that these (address, lane, rows, words, place, ends beat) make; a word that no segment covers is zero."""
    lanes, beats, beat = case.buffered(), [], 0
    for address, lane, rows, words, place, ends in segments:
        assert 0 < words <= LINE_WORDS
        assert place + words <= 2 * DESIGN.t_p
        sample, row = divmod(rows - 1, case.rows.sample_rows)
        end = sample * case.rows.sample_pitch + (row + 1) * case.rows.pitch + PORT_BYTES
        assert address + 2 * words <= end, "a segment needs no row but those that it names"
        beat |= int.from_bytes(lanes[lane][address : address + 2 * words], "little") << 16 * place
        if ends:
            beats.append(beat)
            beat = 0
    return beats


async def walk(dut: Dut, rng: random.Random, case: Case) -> None:
    """One layer."""
    await reset(dut, base_i=case.base_port, layer_i=pack("layer_t", case.layer()))
    await pulse(dut, "layer_start_i")
    commands = Source(dut, rng, "command_valid_i", "command_ready_o", ("command_i",))
    commands.items.extend((pack("command_t", command),) for command in case.commands())
    ports = ("addr", "lane", "rows", "words", "place", "ends_beat")
    segments = Sink(dut, rng, "segment_valid_o", "segment_ready_i", tuple(f"segment_{port}_o" for port in ports))
    expected = as_ints(case.streams.input)
    tasks = [cocotb.start_soon(commands.run()), cocotb.start_soon(segments.run())]
    await until(
        dut,
        lambda: sum(segment[-1] for segment in segments.got) >= len(expected),
        60 * len(expected) + 500,
        "the last beat",
    )
    for _ in range(20):
        await pulse(dut, "layer_start_i")
    assert put_together(case, segments.got) == expected
    for task in tasks:
        task.cancel()


@bench(100_000)
async def segments_make_the_toeplitz_rows(dut: Dut) -> None:
    """Random layers of every kind."""
    rng = await begin(dut)
    seen: set[tuple[int, bool, bool]] = set()
    while len(seen) < 8:
        case = random_case(rng, DESIGN)
        if len(case.streams.input) < 400:
            await walk(dut, rng, case)
            seen.add((int(case.run.mode), case.run.row_lanes, case.descriptor.groups > 1 and case.run.mode < 2))
