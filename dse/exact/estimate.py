"""A closed-form estimate of a layer's cycles, by which mode and row blocks are chosen. Pure arithmetic.

The `paper` model knows neither windows nor the input buffer. A block's windows must fit that buffer. Large
blocks send weights less often, small ones let loading, computing and writing overlap. The estimate ranks
plans; figures to report come from the exact model.

>>> from fluidnpu.models import LayerShape, Window
>>> window = Window(kernel=(3, 3), out=(56, 56), channels=64)
>>> layer = LayerShape(name="conv", r=3136, p=576, c=64, window=window)
>>> array = Array(t_r=2048, t_p=7, t_c=128, weight_slots=1, in_words=14, out_words=8)
>>> machine = Machine(array=array, port_bytes=16, buffer_words=1 << 16)
>>> estimated_plan(layer, machine, DramModel.IDEAL, batch=1)[1]
BatchPlan(k=<Stack.TWO: '2'>, b_r=1, row_lanes=False, block=224)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
import numpy.typing as npt

from fluidnpu.models import LayerShape, Window, Workload
from fluidnpu.models.graph import FilterPair

from ..design import BatchPlan, Plans
from ..hardware.activation import LANE_PIECES, TABLE_PIECES, piece_rows, pieces, residual_reads
from ..hardware.array import Array, Floats, Ints, Mode, ceil_div, pool_beats
from ..hardware.dram import DramModel, Rates
from ..hardware.filtering import filter_bytes, filter_cycles, filter_rows
from ..hardware.row_buffer import row_bytes, rows
from .bound import block_sizes
from .mapping import LayerMapping, joins, layer_key, mappings
from .model import Machine

FILL_CYCLES = 80  # the way through an empty pipeline
PLAN_CYCLES = 300  # descriptor and plan, which are made while the layer before runs


@dataclass(frozen=True)
class _Run:
    """A layer under one mapping; every block size shares it."""

    layer: LayerShape
    mapping: LayerMapping
    machine: Machine
    rates: Rates

    @cached_property
    def array(self) -> Array[int]:
        return self.machine.array

    @cached_property
    def word_bytes(self) -> int:
        return self.array.word_bytes

    @cached_property
    def window(self) -> Window:
        assert self.layer.window is not None
        return self.layer.window

    @cached_property
    def lanes(self) -> int:
        return self.mapping.lanes

    @cached_property
    def beats(self) -> int:
        """Beats of the whole layer, a P-tile."""
        return self.mapping.beats(self.layer)

    @cached_property
    def tile(self) -> tuple[int, int]:
        return self.array.tile(self.mapping.mode)

    @cached_property
    def p_tiles(self) -> int:
        """Beats of a row: P-tiles, or of a pool its taps, of a max pool two at once."""
        if self.mapping.pool:
            return pool_beats(self.layer.p, maximum=self.mapping.mode is Mode.MAX_POOL)
        return ceil_div(self.layer.p, self.tile[0])

    @cached_property
    def cuts(self) -> Ints:
        """Segments that each beat of a row is cut into, those of both lanes.

        Two of a row or one of each lane are cut in a cycle.
        """
        if self.mapping.pool:
            taps = np.full(self.p_tiles, 2 if self.mapping.mode is Mode.MAX_POOL else 1)
            taps[-1] = self.layer.p - int(taps[:-1].sum())
            return taps
        width, run = self.tile[0], self.window.run_words(self.layer)
        starts = np.arange(0, self.layer.p, width)
        return self.lanes * ((np.minimum(starts + width, self.layer.p) - 1) // run - starts // run + 1)

    @cached_property
    def feed(self) -> int:
        """Cycles in which the beats of a row are cut out of the input buffer."""
        cuts = self.cuts // self.lanes
        return int(np.sum(np.where(cuts == 1, 1, self.lanes * -(-cuts // 2))))

    @cached_property
    def paired(self) -> float:
        """Share of the beats that want two segments at once; while memory gives words they get one."""
        return float(np.mean(self.cuts > 1))

    @cached_property
    def cols(self) -> int:
        return min(self.layer.c, self.tile[1])

    @cached_property
    def kept(self) -> float:
        """Share of the outputs that is stored: less than all where they pass a pool."""
        return self.layer.stored / (self.layer.r * self.layer.c * self.layer.groups)

    @cached_property
    def slower(self) -> float:
        """Cycles of a beat of outputs on average.

        More than one where a filter visits more positions than pixels, or takes several steps for a window.
        """
        return filter_cycles(self.layer) / self.layer.r

    @cached_property
    def tiles(self) -> int:
        """Column tiles of all groups."""
        return self.layer.groups * ceil_div(self.layer.c, self.tile[1])

    def fits(self, blocks: Ints) -> npt.NDArray[np.bool_]:
        """Tell of each number of beats whether the windows of such blocks fit the input buffer."""
        return np.asarray(self.needed_words(blocks) <= self.machine.buffer_words)

    @cached_property
    def tile_beats(self) -> int:
        """Beats of a tile of weights."""
        return self.array.tile_beats(self.mapping.mode, self.cols)

    @cached_property
    def tile_words(self) -> int:
        return 0 if self.mapping.pool else self.tile_beats * self.array.weight_words

    def column_cycles(self, block: Floats) -> Floats:
        """Return the cycles of a column tile for each number of beats of a block, its inputs given."""
        feed = block * self.feed
        if self.mapping.pool:
            return np.maximum(feed, block * ceil_div(self.cols, self.array.out_words))
        sent = max(self.tile_beats, self.machine.row_distance or min(self.array.turnaround, self.array.t_p + 4))
        longest = np.maximum(_both(block, np.asarray(self.tile_words / self.rates.port)), sent)
        return np.maximum(feed, self.p_tiles * longest)

    def busy_cycles(self, block: Floats) -> Floats:
        """Cycles in which a block keeps the array or the way of its outputs busy."""
        # A row is a burst where column tiles lie between, and bursts are a cycle apart.
        sent = (self.cols / self.rates.port + (self.tiles > 1)) * self.kept
        row = max(ceil_div(self.cols, self.array.out_words) * self.slower, sent)
        return np.asarray(float(self.tiles) * np.maximum(self.column_cycles(block), block * (self.lanes * row)))

    def needed_words(self, blocks: Ints) -> Floats:
        """Words of the input buffer that the windows of such blocks take."""
        return np.asarray(self.mapping.needed_bytes_of(self.layer, blocks, self.word_bytes) / self.word_bytes)

    @cached_property
    def input_words(self) -> float:
        """Words of all input rows."""
        _, _, sample_rows = rows(self.window)
        return self.mapping.batch * sample_rows * row_bytes(self.layer, self.window, self.word_bytes) / self.word_bytes

    @cached_property
    def residual(self) -> float:
        """Words of the residual that are read."""
        rows = float(self.mapping.batch * self.layer.r)
        return float(residual_reads(self.layer, rows, self.tiles, self.machine.port_words))

    @cached_property
    def lead(self) -> float:
        """Cycles in which descriptor, plan and constants of the layer come while the one before runs."""
        table = TABLE_PIECES if self.layer.filtering is not None and self.layer.filtering.activation else 0
        return PLAN_CYCLES + pieces(self.layer, self.array) + self.filter_words / self.machine.port_words + table

    @cached_property
    def filter_words(self) -> float:
        """Words of the weights of a filter."""
        rows = int(filter_rows(self.layer, self.array))
        return filter_bytes(rows, self.array.out_words, self.machine.port_bytes) / self.word_bytes

    @cached_property
    def burst(self) -> float:
        """Words a cycle of input rows while nothing else moves."""
        return min(self.rates.port, self.rates.total)

    def stall_cycles(self, blocks: Ints) -> Floats:
        """Cycles in which a block waits for rows that found no room while the block before it was computed.

        Rows leave the buffer in the last pass over them, a P-tile of the last column tile or all of a pool.
        Until then there is room for what the windows of that block leave, and only that last pass hides more.
        """
        needed = self.needed_words(blocks)
        fresh = self.input_words * np.minimum(1.0, blocks / self.beats)
        room = np.maximum(0.0, self.machine.buffer_words - needed)
        passes = self.tiles * (1 if self.mapping.pool else self.p_tiles)
        hidden = self.busy_cycles(blocks.astype(float)) / passes
        return np.asarray(np.maximum(0.0, (fresh - room) / self.burst - hidden))

    def cycles(self, blocks: Ints) -> Floats:
        """Estimate the cycles of the layer for each of many numbers of beats of a block."""
        if self.layer.merged:
            return np.full(np.shape(blocks), float(PLAN_CYCLES))
        port, layer, block = self.rates.port, self.layer, blocks.astype(float)
        whole, rest = np.divmod(float(self.beats), block)
        loaded = self.input_words / port
        ends = np.where(rest > 0, rest, block)
        count = whole + (rest > 0)
        per_block, end = self.busy_cycles(block), self.busy_cycles(ends)
        busy = whole * per_block + np.where(rest > 0, end, 0.0) + self.paired * loaded / 2
        busy += (count - 1) * self.stall_cycles(blocks)
        first = np.maximum(0.0, self.needed_words(blocks) / self.burst - block)
        last = ends * (self.lanes * self.cols) * self.kept / port
        alone = np.maximum(busy + first, loaded + end) + last
        words = self.input_words + count * (self.tiles * self.p_tiles * self.tile_words)
        words += self.mapping.batch * layer.stored + self.residual + self.filter_words
        if self.mapping.pool:
            alone = np.maximum(alone, self.residual / port)
        return np.maximum(_both(alone, words / self.rates.total) + FILL_CYCLES, self.lead)


def _both(a: Floats, b: Floats) -> Floats:
    """Durations of two overlapping activities: a smooth maximum, slightly above `max(a, b)` when close.

    The norm of order six, found by hand on ResNet-50, both boards, B = 1 and 8.
    """
    return np.asarray(np.cbrt(np.sqrt(_sixth_power(a) + _sixth_power(b))))


def _sixth_power(value: Floats) -> Floats:
    square = np.square(value)
    return np.asarray(square * square * square)


@dataclass(frozen=True)
class RankedPlan:
    """A mapping with its block, and its estimated cycles; infinite where no row fits the buffer."""

    cycles: float
    mapping: LayerMapping
    block: int

    @property
    def plan(self) -> BatchPlan:
        """The FBCB entry."""
        return self.mapping.plan(self.block)


def ranked_plans(layer: LayerShape, machine: Machine, dram: DramModel, batch: int) -> list[RankedPlan]:
    """All plans worth a look whose rows fit the input buffer, those of fewest estimated cycles first.

    A tie goes to k = 1 without lanes, then k = 2, then the larger block. Where not even single image rows fit
    the buffer, or the pieces of channels a lane, the smallest block is given, and a caller that builds must
    refuse it.
    """
    held = piece_rows(layer, machine.array) <= LANE_PIECES
    rates = dram.rates(machine.port_words, machine.stripes, machine.array.word_bytes)
    ranked: list[tuple[float, int, int, RankedPlan]] = []
    smallest: tuple[int, int, LayerMapping] | None = None
    for order, mapping in enumerate(mappings(layer, batch, stackable=machine.array.stackable)):
        run = _Run(layer, mapping, machine, rates)
        blocks = np.array(_blocks(run))
        fitting = blocks[run.fits(blocks) & held]
        for block, cycles in zip(fitting.tolist(), run.cycles(fitting).tolist() if len(fitting) else (), strict=True):
            ranked.append((cycles, order, -block, RankedPlan(cycles, mapping, block)))
        if smallest is None or blocks[0] < smallest[0]:
            smallest = int(blocks[0]), order, mapping
    if not ranked:
        assert smallest is not None
        return [RankedPlan(inf, smallest[2], smallest[0])]
    return [plan for *_, plan in sorted(ranked, key=lambda row: row[:3])]


def estimated_plan(layer: LayerShape, machine: Machine, dram: DramModel, batch: int) -> tuple[float, BatchPlan]:
    """Fewest estimated cycles, infinite when no plan fits the buffer, and their plan."""
    best = ranked_plans(layer, machine, dram, batch)[0]
    return best.cycles, best.plan


@dataclass(frozen=True, kw_only=True)
class EstimatedPlans:
    """The FBCB of fewest estimated cycles, with the groups of each layer that are joined for it.

    `total`: the cycles of all layers and batch sizes, those of batch b over b; infinite when a layer's rows
    do not fit the input buffer. `filtered`: the layers whose outputs pass a filter, of the pairs that may.
    """

    total: float
    plans: Plans
    joins: tuple[int, ...]
    filtered: tuple[int, ...] = ()


def estimated_plans(
    workload: Workload,
    machine: Machine,
    dram: DramModel,
    b_max: int,
    shares: Sequence[float] | None = None,
    *,
    pairs: Sequence[FilterPair] = (),
) -> EstimatedPlans:
    """The plan of each layer at each batch size, and its joined groups, by the estimate.

    `shares`: of requests that run each layer, all by default. `pairs`: of the workload's, those that the
    NPU's filter may merge.
    """
    by_shape: dict[LayerShape, tuple[float, int, tuple[BatchPlan, ...]]] = {}

    def best(layer: LayerShape) -> tuple[float, int, tuple[BatchPlan, ...]]:
        if (key := layer_key(layer)) not in by_shape:
            by_shape[key] = min(
                (_all_batches(layer, count, machine, dram, b_max) for count in joins(layer, machine.array)),
                key=lambda ranked: ranked[:2],
            )
        return by_shape[key]

    layers, filtered = workload.layers, []
    for pair in pairs:
        members = pair.producer, pair.depthwise
        merged = workload.filtered([pair.producer])
        if sum(best(merged[at])[0] for at in members) < sum(best(layers[at])[0] for at in members):
            filtered.append(pair.producer)
    rows = [best(layer) for layer in workload.filtered(filtered)]
    return EstimatedPlans(
        total=sum(share * total for share, (total, _, _) in zip(shares or (1,) * len(rows), rows, strict=True)),
        plans=tuple(plans for _, _, plans in rows),
        joins=tuple(count for _, count, _ in rows),
        filtered=tuple(filtered),
    )


def _all_batches(
    layer: LayerShape, count: int, machine: Machine, dram: DramModel, b_max: int
) -> tuple[float, int, tuple[BatchPlan, ...]]:
    """The cycles over b, the number of joined groups, and the plans of a layer."""
    row = [estimated_plan(layer.joined(count), machine, dram, batch) for batch in range(1, b_max + 1)]
    return sum(cycles / batch for batch, (cycles, _) in enumerate(row, 1)), count, tuple(plan for _, plan in row)


def _blocks(run: _Run) -> list[int]:
    """A bank full, some numbers of image rows, and the fewest rows that make so many blocks, in rising order.

    More rows in as many blocks would only be longer loaded and longer written.
    """
    deepest = min(run.array.t_r, run.beats)
    line = min(deepest, ceil_div(run.window.out[1], 2 if run.mapping.row_lanes else 1))
    lines = ceil_div(run.beats, line)
    even = np.unique(-(-lines // np.arange(1, lines + 1))) * line
    blocks = {*even.tolist(), *block_sizes(run.layer, run.mapping), line, deepest}
    return sorted(block for block in blocks if block <= deepest)
