"""Row walker against the address model: the place of every row, in every order that lanes give, again for passes that do not commit."""

from __future__ import annotations

import random

import cocotb

from .common import Dut, begin, bench, reset
from .jobs import bench_design
from .parts import Case, Sink, Source, pulse, random_case, until

DESIGN = bench_design(
    {"t_r": 7, "t_p": 4, "t_c": 8, "b_max": 4, "stackable": 1, "split": 1, "weight_slots": 1, "out_words": 4}
)


RISE, SPAN = 3, 5


def rows_of(case: Case, number: int) -> list[tuple[int, int, int, int, int, int, int]]:
    """(offset, sample, index, top, lane, ends beat, ends pass) of every row of command `number`, without the command's own shift."""
    d, tile = case.descriptor, case.tiles[number]
    lanes = [list(map(int, lane)) for lane in tile.lanes]
    order = []
    for beat, row in enumerate(lanes[0]):
        two = beat < len(lanes[1])
        order.append((row, 0, int(not two)))
        if two:
            order.append((lanes[1][beat], 1, 1))
    out = []
    for at, (row, lane, ends) in enumerate(order):
        sample, place = divmod(row, d.out_h * d.out_w)
        y, x = divmod(place, d.out_w)
        index = sample - case.run.b_r * (lane and case.by_samples)
        top = index * ((d.out_h - 1) * RISE + SPAN) + y * RISE
        offset = y * d.out_row_bytes + x * d.out_pixel_bytes
        out.append((offset, sample, index, top, lane, ends, int(at + 1 == len(order))))
    return out


async def walk(dut: Dut, rng: random.Random, case: Case) -> None:
    """One layer: every command's pass once or several times, only the last of a block's last command commits."""
    d, run = case.descriptor, case.run
    inputs = {
        "rise_i": RISE, "span_i": SPAN, "out_h_i": d.out_h, "out_w_i": d.out_w, "b_r_i": run.b_r, "step_h_i": d.out_row_bytes,
        "step_w_i": d.out_pixel_bytes, "row_lanes_i": case.layer()["row_lanes"], "sample_lanes_i": case.layer()["sample_lanes"],
    }  # fmt: skip
    await reset(dut, **inputs)
    await pulse(dut, "layer_start_i")
    passes = Source(dut, rng, "pass_valid_i", "pass_ready_o", ("beats_i", "lane1_beats_i", "shift_i", "commit_i"))
    ports = ("offset", "sample", "index", "top", "lane", "ends_beat", "ends_pass")
    rows = Sink(dut, rng, "row_valid_o", "row_ready_i", tuple(f"row_{port}_o" for port in ports))
    expected = []
    for number, command in enumerate(case.commands()):
        repeats = rng.randrange(1, 4)
        for repeat in range(repeats):
            shift = rng.randrange(0, 1000, 2)
            commit = int(bool(command["block_last"]) and repeat + 1 == repeats)
            passes.items.append((command["beats"], command["lane1_beats"], shift, commit))
            expected += [(offset + shift, *rest) for offset, *rest in rows_of(case, number)]
    tasks = [cocotb.start_soon(passes.run()), cocotb.start_soon(rows.run())]
    await until(dut, lambda: len(rows.got) >= len(expected), 20 * len(expected) + 100, "the last row")
    for _ in range(3):
        await pulse(dut, "layer_start_i")
    assert rows.got == expected
    for task in tasks:
        task.cancel()


@bench(50_000)
async def every_row_has_its_place(dut: Dut) -> None:
    """Random layers in random modes; rows that one cycle offers stay until they are taken."""
    rng = await begin(dut)
    seen = set()
    for _ in range(40):
        case = random_case(rng, DESIGN)
        await walk(dut, rng, case)
        seen.add((case.run.mode, case.run.row_lanes))
    assert len(seen) >= 5, f"only {seen} were met"
