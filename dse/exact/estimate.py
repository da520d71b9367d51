"""How a layer should run on the hardware that is built: its mode and its row blocks, by an estimate of the RTL's cycles. Pure arithmetic.

The `paper` model knows neither windows nor the input buffer. A block's windows must fit that buffer. Large blocks send weights less often, small ones
let loading, computing and writing overlap. The estimate ranks plans; it is no figure to report: `exact` counts.

>>> from fluidnpu.models import LayerShape, Window
>>> window = Window(kernel=(3, 3), out=(56, 56), channels=64)
>>> layer = LayerShape(name="conv", r=3136, p=576, c=64, window=window)
>>> path = Path(t_r=2048, t_p=7, t_c=128, weight_slots=1, input_words=14, out_words=8, port_words=8, buffer_words=1 << 16)
>>> estimated_plan(layer, window, path, batch=1)[1]
BatchPlan(k=<Stack.TWO: '2'>, b_r=1, row_lanes=False, block=224)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np

from fluidnpu.models import Kind, LayerShape, Window

from ..design import BatchPlan, Mode, Stack, pool_beats
from ..hardware.dram import DramModel
from ..hardware.roofline import awake, awake_words
from ..hardware.row_buffer import WORD_BYTES, needed_bytes, row_bytes, rows
from .model import Machine

LAYER_CYCLES = 300  # descriptor, plan, and the way through an empty pipeline
WAITING = 6  # of `_both`; found by hand on ResNet-50, both boards, B = 1 and 8


@dataclass(frozen=True, kw_only=True)
class Path:
    """What a layer meets on its way. One port each for weights, inputs, outputs and residuals carries `port_words` words a cycle, all together
    `total_words`, the time in which memory refreshes itself taken off.
    """

    t_r: int
    t_p: int
    t_c: int
    weight_slots: int
    input_words: int
    out_words: int
    port_words: float
    buffer_words: int
    total_words: float = inf
    stackable: bool = True

    @classmethod
    def of(cls, machine: Machine, t_r: int, dram: DramModel) -> Path:
        """Of an NPU behind whose ports a memory stands."""
        return cls(
            t_r=t_r, t_p=machine.t_p, t_c=machine.t_c, weight_slots=machine.weight_slots, input_words=machine.input_words,
            out_words=machine.out_words, stackable=machine.stackable, buffer_words=machine.buffer_words,
            port_words=min(machine.port_words, dram.link_words * machine.stripes or inf) * awake(dram),
            total_words=awake_words(dram) or inf,
        )  # fmt: skip

    def tile(self, mode: Mode) -> tuple[int, int]:
        """Width of a P-tile in words and of a column tile in columns (ADR 4)."""
        if mode is Mode.WIDE:
            return 2 * self.t_p, self.t_c // 2
        if mode in (Mode.MAX_POOL, Mode.SUM_POOL):
            return self.input_words, self.input_words
        return self.t_p, self.t_c // 2 if mode is Mode.LANES else self.t_c


@dataclass(frozen=True)
class _Run:
    """A layer in one mode at one batch size; every block size shares it."""

    layer: LayerShape
    window: Window
    path: Path
    mode: Mode
    batch: int
    lanes: int = 1

    @property
    def pool(self) -> bool:
        return self.mode >= Mode.MAX_POOL

    @property
    def by_samples(self) -> bool:
        return self.mode is Mode.LANES and self.batch > 1

    @property
    def row_lanes(self) -> bool:
        return self.mode is Mode.LANES and self.batch == 1

    @property
    def b_r(self) -> int:
        return -(-self.batch // 2) if self.by_samples else self.batch

    @property
    def beats(self) -> int:
        """Beats of the whole layer, a P-tile."""
        return -(-self.layer.r * self.b_r // (2 if self.row_lanes else 1))

    @cached_property
    def p_tiles(self) -> int:
        """Beats of a row: P-tiles, or of a pool its taps, of a max pool two at once."""
        if self.pool:
            return pool_beats(self.layer.p, maximum=self.mode is Mode.MAX_POOL)
        return -(-self.layer.p // self.path.tile(self.mode)[0])

    @cached_property
    def cuts(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Segments that each beat of a row is cut into, those of both lanes; two of a row or one of each lane are cut in a cycle."""
        if self.pool:
            taps = np.full(self.p_tiles, 2 if self.mode is Mode.MAX_POOL else 1)
            taps[-1] = self.layer.p - int(taps[:-1].sum())
            return taps
        width, run = self.path.tile(self.mode)[0], self.window.run_words(self.layer)
        starts = np.arange(0, self.layer.p, width)
        return self.lanes * ((np.minimum(starts + width, self.layer.p) - 1) // run - starts // run + 1)

    @cached_property
    def feed(self) -> int:
        """Cycles in which the beats of a row are cut out of the input buffer."""
        each = self.cuts // self.lanes
        return int(np.sum(np.where(each == 1, 1, self.lanes * -(-each // 2))))

    @cached_property
    def paired(self) -> float:
        """Share of the beats that want two segments at once; while memory gives words they get one."""
        return float(np.mean(self.cuts > 1))

    @cached_property
    def cols(self) -> int:
        return min(self.layer.c, self.path.tile(self.mode)[1])

    @cached_property
    def tiles(self) -> int:
        """Column tiles of all groups."""
        return self.layer.groups * -(-self.layer.c // self.path.tile(self.mode)[1])

    def fits(self, block: int) -> bool:
        needed = needed_bytes(self.layer, batch=self.batch, block=block, row_lanes=self.row_lanes, b_r=self.b_r)
        return needed <= WORD_BYTES * self.path.buffer_words

    @cached_property
    def tile_beats(self) -> int:
        """Beats of a tile of weights."""
        return -(-self.cols * (2 if self.mode is Mode.WIDE else 1) // self.path.weight_slots)

    @cached_property
    def tile_words(self) -> int:
        return 0 if self.pool else self.tile_beats * self.path.weight_slots * self.path.t_p

    def column_cycles(self, block: int) -> float:
        """Cycles of a column tile of a block when its inputs are there."""
        feed = block * self.feed
        if self.pool:
            return max(feed, block * -(-self.cols // self.path.out_words))
        longest = max(_both(block, self.tile_words / self.path.port_words), self.tile_beats, self.path.t_p + 4)
        return max(feed, self.p_tiles * longest)

    def busy_cycles(self, block: int) -> float:
        """Cycles in which a block keeps the array or the way of its outputs busy."""
        # A row is a burst where column tiles lie between, and bursts are a cycle apart.
        row = max(-(-self.cols // self.path.out_words), self.cols / self.path.port_words + (self.tiles > 1))
        return self.tiles * max(self.column_cycles(block), block * self.lanes * row)

    def cycles(self, block: int) -> float:
        """Estimated cycles of the layer in blocks of that many beats."""
        port, layer = self.path.port_words, self.layer
        _, span, sample_rows = rows(self.window)
        row_words = row_bytes(layer, self.window) / WORD_BYTES
        blocks, rest = divmod(self.beats, block)
        loaded = self.batch * sample_rows * row_words / port
        busy = blocks * self.busy_cycles(block) + (self.busy_cycles(rest) if rest else 0.0) + self.paired * loaded / 2
        height = (
            min(self.window.out[0], -(-block * self.lanes // self.window.out[1])) * self.window.stride[0] + span - 1
        )
        first = max(0.0, height * row_words / port - block)
        last = (rest or block) * self.lanes * self.cols / port
        own = max(busy + first, loaded + self.busy_cycles(rest or block)) + last
        outputs = self.batch * layer.r * layer.groups * layer.c
        words = (
            self.batch * sample_rows * row_words + (blocks + (rest > 0)) * self.tiles * self.p_tiles * self.tile_words
        )
        words += (2 if layer.residual else 1) * outputs
        return _both(own, words / self.path.total_words) + LAYER_CYCLES


def _both(a: float, b: float) -> float:
    """Cycles of two that go on at the same time, which wait for each other now and then where both are about as long."""
    return float((a**WAITING + b**WAITING) ** (1 / WAITING))


def layer_key(layer: LayerShape) -> LayerShape:
    """The layer without name and stage: what its cycles depend on."""
    return replace(layer, name="", stage=0)


def estimated_plan(layer: LayerShape, window: Window, path: Path, batch: int) -> tuple[float, BatchPlan]:
    """Fewest estimated cycles, infinite when no plan fits the buffer, and their plan.

    A tie goes to k = 1 without lanes, then k = 2, then the larger block. Where not even single image rows fit the buffer the smallest block is given,
    and whoever builds must refuse it.
    """
    found = [
        (not run.fits(block), run.cycles(block), order, -block, run)
        for order, run in enumerate(_runs(layer, window, path, batch))
        for block in _blocks(run)
    ]
    too_large, cycles, _, block, run = min(found, key=lambda one: one[:4])
    k = Stack.TWO if run.mode is Mode.WIDE else Stack.ONE
    return inf if too_large else cycles, BatchPlan(k=k, b_r=run.b_r, row_lanes=run.row_lanes, block=-block)


def _runs(layer: LayerShape, window: Window, path: Path, batch: int) -> Iterator[_Run]:
    if layer.kind is not Kind.GEMM:
        yield _Run(layer, window, path, Mode.MAX_POOL if layer.kind is Kind.MAX_POOL else Mode.SUM_POOL, batch)
        return
    yield _Run(layer, window, path, Mode.NORMAL, batch)
    if path.stackable:
        yield _Run(layer, window, path, Mode.WIDE, batch)
        yield _Run(layer, window, path, Mode.LANES, batch, lanes=2)


def _blocks(run: _Run) -> Iterator[int]:
    """Whole image rows, fewer and fewer; the smallest is one, the largest what a bank holds."""
    deepest = min(run.path.t_r, run.beats)
    line = min(deepest, -(-run.window.out[1] // (2 if run.row_lanes else 1)))
    yield deepest
    most = deepest // line
    for count in sorted({most // part for part in range(1, 33)} - {0}):
        yield count * line
