"""The row walker against the address model: the place of every row, in every order that lanes give.

Rows are taken one a cycle or both of a beat; passes that do not commit are walked again. With a filter they
are positions, those around the map as well.
"""

from __future__ import annotations

import random
from typing import Any

from cocotb.triggers import ReadWrite, RisingEdge

from fluidnpu.dse import Mode
from fluidnpu.hls.formats import LAYER, PASS, STEPS, WALKED

from ...common.benches.clock import Dut, begin, bench, reset, setting
from ...common.benches.streams import StreamSource, pulse, running, until
from ..environment.cases import Case, random_case
from ..environment.jobs import array_under_test

DESIGN = array_under_test(filter=setting("FILTERS", 1) and 5)
RISE, SPAN = 3, 5
POOLED = {0, 2, 3}
FILTERED = {0, *range(2, DESIGN.filter_room.kernel + 1)}
WAYS = 3 + 2 * DESIGN.stackable  # of the six that there are
PAIRS = 2 * (DESIGN.stackable and DESIGN.b_max > 1)  # by rows and by samples
Row = tuple[int, ...]


def ends(size: int, kernel: int, before: int) -> list[int]:
    """Tell of each row or column of a map if it is the last of a window of its pool; all are without one.

    >>> ends(5, 3, 1), ends(4, 2, 0), ends(3, 0, 0)
    ([0, 1, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1])
    """
    if not kernel:
        return [1] * size
    last = {min(first + kernel, size) - 1 for first in range(-before, size - 1, 2)}
    return [int(at in last) for at in range(size)]


def leaves(size: int, kernel: int, stride: int, before: int) -> list[int]:
    """Tell of each row or column that a filter visits if one of its windows leaves there.

    >>> leaves(6, 3, 2, 1)
    [0, 1, 0, 1, 0, 1]
    """
    return [int(at >= kernel - 1 - before and (at - kernel + 1 + before) % stride == 0) for at in range(size)]


def positions(case: Case, y: int, x: int) -> list[tuple[int, int]]:
    """The positions of a pixel: itself, and with a filter those that follow it."""
    d = case.descriptor
    if not d.filter_kernel or x + 1 < d.out_w:
        return [(y, x)]
    visited = [(y, at) for at in range(x, d.walk_w)]
    return visited + [(row, at) for row in range(d.out_h, d.walk_h) for at in range(d.walk_w) if y + 1 == d.out_h]


def rows_of(case: Case, number: int) -> list[Row]:
    """(offset, sample, index, top, lane, ends beat, ends pass, windows, filter) of each row of a command.

    The command's own shift is left out.
    """
    d, tile = case.descriptor, case.tiles[number]
    lanes = [list(map(int, lane)) for lane in tile.lanes]
    order = []
    for beat, row in enumerate(lanes[0]):
        two = beat < len(lanes[1])
        order.append((row, 0, int(not two)))
        if two:
            order.append((lanes[1][beat], 1, 1))
    high, wide = d.out_h, d.out_w
    if d.filter_kernel:
        high, wide = d.walk_h, d.walk_w
        down = leaves(high, d.filter_kernel, d.filter_stride, d.filter_top)
        along = leaves(wide, d.filter_kernel, d.filter_stride, d.filter_left)
    else:
        down, along = ends(high, d.pool_kernel, d.pool_top), ends(wide, d.pool_kernel, d.pool_left)
    out = list[Row]()
    for at, (row, lane, last) in enumerate(order):
        sample, pixel = divmod(row, d.out_h * d.out_w)
        index = sample - case.run.b_r * (lane and case.by_samples)
        visited = positions(case, *divmod(pixel, d.out_w))
        for y, x in visited:
            top = index * ((high - 1) * RISE + SPAN) + y * RISE
            offset = sum(down[:y]) * d.out_row_bytes + sum(along[:x]) * d.out_pixel_bytes
            is_last = at + 1 == len(order) and (y, x) == visited[-1]
            ended = down[y] and along[x] and sample + 1 == len(case.active) and not any(down[y + 1 :] + along[x + 1 :])
            bits = (x == 0, y == 0, x >= d.out_w, y >= d.out_h, ended)
            place = sum(bool(bit) << 4 - i for i, bit in enumerate(bits)) if d.filter_kernel else 0
            out.append((offset, sample, index, top, lane, last, int(is_last), along[x] << 3 | down[y], place))
    return out


ENDS = 0b001_001  # of `pooling_t`: the bits that say which windows a row ends


def walked(port: Any) -> dict[str, int]:
    """Return the fields of `row_o` or `other_o`."""
    return WALKED.numbers(int(port))


class WalkerTaker:
    """Takes rows, sometimes both of a beat at once; an offer must not change before it is taken."""

    def __init__(self, dut: Dut, rng: random.Random, case: Case) -> None:
        self.dut, self.rng, self.case, self.got, self.pairs = dut, rng, case, list[Row](), 0

    def _other(self, row: Row) -> Row:
        """The row of lane 1, as it would be offered next."""
        index, other = int(self.dut.other_index_o.value), walked(self.dut.other_o.value)
        sample = index + self.case.run.b_r * self.case.by_samples
        return other["offset"], sample, index, other["top"], 1, 1, other["ends_pass"], ENDS, 0

    def _shown(self) -> Row:
        """Return the row at hand."""
        sample, index, lane, last, pooling = (
            int(getattr(self.dut, f"row_{port}_o").value)
            for port in ("sample", "index", "lane", "ends_beat", "pooling")
        )
        row = walked(self.dut.row_o.value)
        place = int(self.dut.row_filtering_o.value) if self.case.descriptor.filter_kernel else 0
        return row["offset"], sample, index, row["top"], lane, last, row["ends_pass"], pooling & ENDS, place

    async def run(self) -> None:
        """Drive the ports until cancelled."""
        dut, held, ready, both = self.dut, None, 0, 0
        while True:
            await RisingEdge(dut.clk_i)
            row = self._shown() if dut.row_valid_o.value else None
            if held is not None:
                assert row == held, f"{held} was offered and became {row} before it was taken"
            held = None if ready else row
            if row is not None and ready:
                self.got += [row, self._other(row)] if both else [row]
                self.pairs += both
            ready = int(self.rng.random() < 0.7)
            dut.row_ready_i.value, dut.row_both_i.value = ready, 0
            await ReadWrite()
            both = int(ready and dut.row_valid_o.value and not dut.row_ends_beat_o.value and self.rng.random() < 0.5)
            passed = self.case.descriptor.pool_kernel or self.case.descriptor.filter_kernel
            both &= not passed  # windows alone take both, and they pass no pool and no filter
            dut.row_both_i.value = both


async def walk(dut: Dut, rng: random.Random, case: Case) -> int:
    """Walk one layer, every command's pass one to three times; returns the number of pairs of rows taken.

    Only the last pass of a block's last command commits.
    """
    d = case.descriptor
    steps = {"rise": RISE, "span": SPAN, "step_h": d.out_row_bytes, "step_w": d.out_pixel_bytes}
    inputs = {
        "layer_i": LAYER.pack(case.layer()),
        "steps_i": STEPS.pack(steps),
        "pool_i": d.pool_kernel << 2 | d.pool_top << 1 | d.pool_left,
    }
    await reset(dut, **inputs)
    await pulse(dut, "layer_start_i")
    passes = StreamSource(dut, rng, "pass_valid_i", "pass_ready_o", ("pass_i",))
    rows = WalkerTaker(dut, rng, case)
    expected = []
    for number, command in enumerate(case.commands()):
        repeats = rng.randrange(1, 4)
        for repeat in range(repeats):
            shift = rng.randrange(0, 1000, 2)
            commit = int(bool(command["block_last"]) and repeat + 1 == repeats)
            beats = {name: command[name] for name in ("beats", "lane1_beats")}
            passes.items.append((PASS.pack(beats | {"shift": shift, "commit": commit}),))
            expected += [(offset + shift, *rest) for offset, *rest in rows_of(case, number)]
    with running(passes, rows):
        await until(dut, lambda: len(rows.got) >= len(expected), 20 * len(expected) + 100, "the last row")
        for _ in range(3):
            await pulse(dut, "layer_start_i")
    assert rows.got == expected
    return rows.pairs


@bench(50_000)
async def every_row_has_its_place(dut: Dut) -> None:
    """Random layers in random modes give every row its place; offers stay until they are taken."""
    rng = await begin(dut)
    seen, paired, pooled, filtered = set[tuple[Mode, bool]](), set[bool](), set[int](), set[int]()
    for number in range(400):
        passed = pooled == POOLED and filtered == FILTERED
        if number >= 40 and len(seen) >= WAYS and len(paired) == PAIRS and passed:
            break
        case = random_case(rng, DESIGN)
        if await walk(dut, rng, case):
            paired.add(case.run.row_lanes)
        seen.add((case.run.mode, case.run.row_lanes))
        pooled.add(case.descriptor.pool_kernel)
        filtered.add(case.descriptor.filter_kernel)
    assert filtered == FILTERED, f"only filters {filtered} were met"
    assert pooled == POOLED, f"only pools {pooled} were met"
    assert len(seen) >= WAYS, f"only {seen} were met"
    assert len(paired) == PAIRS, "lanes by rows and by samples"
