"""How a layer should run on the hardware that is built: its mode and its row blocks, by an estimate of the RTL's cycles. Pure arithmetic.

The `paper` model knows neither windows nor the input buffer. A block's windows must fit that buffer. Large blocks send weights less often, small ones
let loading, computing and writing overlap. The estimate ranks plans; it is no figure to report: `exact` counts.

>>> from models import LayerShape, Window
>>> window = Window(kernel=(3, 3), out=(56, 56), channels=64)
>>> layer = LayerShape(name="conv", r=3136, p=576, c=64, window=window)
>>> path = Path(t_r=2048, t_p=7, t_c=128, weight_slots=1, out_words=8, port_words=8, buffer_words=1 << 16)
>>> best_plan(layer, path, batch=1)
BatchPlan(k=<Stack.TWO: '2'>, b_r=1, row_lanes=False, block=224)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, inf

from models import Kind, LayerShape, Window

from .design import BatchPlan, Mode, Stack
from .row_buffer import WORD_BYTES, needed_bytes, row_bytes, rows

LAYER_CYCLES = 300  # descriptor, plan, and the way through an empty pipeline


@dataclass(frozen=True, kw_only=True)
class Path:
    """What a layer meets on its way. One port each for weights, inputs, outputs and residuals carries `port_words` words a cycle, all together
    `total_words`.
    """

    t_r: int
    t_p: int
    t_c: int
    weight_slots: int
    out_words: int
    port_words: float
    buffer_words: int
    total_words: float = inf
    stackable: bool = True

    def tile(self, mode: Mode) -> tuple[int, int]:
        """Width of a P-tile in words and of a column tile in columns (ADR 4)."""
        if mode is Mode.WIDE:
            return 2 * self.t_p, self.t_c // 2
        if mode in (Mode.MAX_POOL, Mode.SUM_POOL):
            words = (2 if self.stackable else 1) * self.t_p
            return words, words
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
        return self.layer.p if self.pool else -(-self.layer.p // self.path.tile(self.mode)[0])

    @cached_property
    def segments(self) -> int:
        """Runs of words that a row's P-tiles are cut into: a tile that straddles kernel rows or taps takes one for each."""
        if self.pool:
            return self.layer.p
        width, words = self.path.tile(self.mode)[0], self.window.run_words(self.layer)
        runs = self.layer.p // words
        return self.p_tiles + (runs - 1) - (runs - 1) // (width // gcd(words, width))

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
        feed = block * self.lanes * self.segments
        if self.pool:
            return max(feed, block * -(-self.cols // self.path.out_words))
        longest = max(block, self.tile_beats, self.path.t_p + 4, self.tile_words / self.path.port_words)
        return max(feed, self.p_tiles * longest)

    def cycles(self, block: int) -> float:
        """Estimated cycles of the layer in blocks of that many beats."""
        port, layer = self.path.port_words, self.layer
        _, span, sample_rows = rows(self.window)
        row_words = row_bytes(layer, self.window) / WORD_BYTES
        blocks = -(-self.beats // block)
        compute = self.tiles * self.column_cycles(block)
        height = (
            min(self.window.out[0], -(-block * self.lanes // self.window.out[1])) * self.window.stride[0] + span - 1
        )
        first = max(0.0, height * row_words / port - block)
        loaded = self.batch * sample_rows * row_words / port
        beat_rows = block * self.lanes
        drained = self.tiles * beat_rows * max(-(-self.cols // self.path.out_words), self.cols / port)
        last = drained / self.tiles
        own = max(blocks * max(compute, drained) + first, loaded + compute) + last
        outputs = self.batch * layer.r * layer.groups * layer.c
        words = self.batch * sample_rows * row_words + blocks * self.tiles * self.p_tiles * self.tile_words
        words += (2 if layer.residual else 1) * outputs
        return max(own, words / self.path.total_words) + LAYER_CYCLES


def layer_key(layer: LayerShape) -> LayerShape:
    """The layer without name and stage: what its cycles depend on."""
    return replace(layer, name="", stage=0)


def best_plan(layer: LayerShape, path: Path, batch: int) -> BatchPlan:
    """The plan of fewest estimated cycles for a layer whose window is known; a tie goes to k = 1 without lanes, then k = 2, then the larger block.

    Where not even single image rows fit the buffer the smallest block is given, and whoever builds must refuse it.
    """
    return BatchPlan(b_r=batch) if layer.window is None else estimated_plan(layer, layer.window, path, batch)[1]


def estimated_plan(layer: LayerShape, window: Window, path: Path, batch: int) -> tuple[float, BatchPlan]:
    """That plan with its estimated cycles, infinite when it does not fit the buffer."""
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
