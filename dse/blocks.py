"""How a layer should run on the hardware that is built: its mode and its row blocks, by an estimate of the RTL's cycles. Pure arithmetic.

The `paper` model knows neither windows nor the input buffer. Here a row block is as large as the buffer allows its windows to be kept across column
tiles, and as small as weights allow, which are sent again for every block. The estimate ranks plans; it is no figure to report: `exact` counts.

>>> from models import LayerShape, Window
>>> window = Window(kernel=(3, 3), out=(56, 56), channels=64)
>>> layer = LayerShape(name="conv", r=3136, p=576, c=64, window=window)
>>> path = Path(t_r=2048, t_p=7, t_c=128, weight_slots=1, out_words=8, port_words=8)
>>> best_plan(layer, path, batch=1)
BatchPlan(k=<Stack.TWO: '2'>, b_r=1, row_lanes=False, block=224)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from models import Kind, LayerShape, Window

from .design import BatchPlan, Mode, Stack
from .geometry import INPUT_BUFFER_SETS

LINE_WORDS = 16
USABLE = 0.8  # of the input buffer's lines before sets collide often
LAYER_CYCLES = 260  # descriptor, plan, and the way through an empty pipeline


@dataclass(frozen=True, kw_only=True)
class Path:
    """What a layer meets on its way. One port each for weights, inputs, outputs and residuals carries `port_words` words a cycle."""

    t_r: int
    t_p: int
    t_c: int
    weight_slots: int
    out_words: int
    port_words: int
    stackable: bool = True
    buffer_lines: int = 2 * INPUT_BUFFER_SETS

    def tile(self, mode: Mode) -> tuple[int, int]:
        """Width of a P-tile in words and of a column tile in columns (ADR 4)."""
        if mode is Mode.WIDE:
            return 2 * self.t_p, self.t_c // 2
        return self.t_p, self.t_c // 2 if mode is Mode.LANES else self.t_c


@dataclass(frozen=True)
class _Run:
    """A layer in one mode at one batch size; every block size shares it."""

    layer: LayerShape
    window: Window
    path: Path
    mode: Mode
    batch: int
    beats: int  # of the whole layer, a P-tile
    lanes: int

    @cached_property
    def p_tiles(self) -> int:
        return -(-self.layer.p // self.path.tile(self.mode)[0])

    @cached_property
    def segments(self) -> int:
        """Runs of words that a row's P-tiles are cut into: a tile that straddles kernel rows or taps takes one for each."""
        width, words = self.path.tile(self.mode)[0], self.window.run_words(self.layer)
        runs = self.layer.p // words
        return self.p_tiles + (runs - 1) - (runs - 1) // (width // gcd(words, width))

    @cached_property
    def tiles(self) -> int:
        """Column tiles of all groups."""
        return self.layer.groups * -(-self.layer.c // self.path.tile(self.mode)[1])

    @cached_property
    def cols(self) -> int:
        return min(self.layer.c, self.path.tile(self.mode)[1])

    def lines(self, rows: int) -> tuple[int, int]:
        """Lines of the windows of neighbouring `rows`, and how many of them the rows before have not touched."""
        window = self.window
        high, step = -(-rows // window.out[1]), window.stride[0]
        extent = (window.kernel[0] - 1) * window.dilation[0] + 1
        wide = min(rows, window.out[1])
        if window.kernel[1] == 1 and window.stride[1] > 1:
            words = wide * max(LINE_WORDS, window.channels)
        else:
            words = ((wide - 1) * window.stride[1] + (window.kernel[1] - 1) * window.dilation[1] + 1) * window.channels
        per_row = -(-words // LINE_WORDS) + (words % LINE_WORDS != 0)
        if step >= extent:
            return high * extent * per_row, high * extent * per_row
        return ((high - 1) * step + extent) * per_row, high * step * per_row

    def input_lines(self, block: int) -> float:
        """Lines read from memory for a block: each once where the buffer keeps the block, else again for every column tile, or for every P-tile."""
        room, samples = self.path.buffer_lines * USABLE, self.lanes if self.by_samples else 1
        all_lines, new_lines = (samples * n for n in self.lines(block * self.lanes // samples))
        if all_lines <= room:
            return new_lines
        rows = block * self.lanes
        if 1.5 * rows <= room:
            return self.tiles * min(all_lines * self.window.kernel[0], rows * self.segments)
        return self.tiles * rows * self.segments * 1.5

    @property
    def by_samples(self) -> bool:
        return self.mode is Mode.LANES and self.batch > 1

    def cycles(self, block: int) -> float:
        """Estimated cycles of the layer in blocks of that many beats."""
        path, port = self.path, self.path.port_words
        slots = self.cols * (2 if self.mode is Mode.WIDE else 1)
        tile_beats = -(-slots // path.weight_slots)
        tile_words = tile_beats * path.weight_slots * path.t_p
        column = max(self.p_tiles * max(block, tile_beats, path.t_p + 4), block * self.lanes * self.segments)
        compute = self.tiles * max(column, self.p_tiles * tile_words / port)
        rows = block * self.lanes
        outputs = rows * self.layer.groups * self.layer.c / port
        drained = self.tiles * rows * -(-self.cols // path.out_words)
        inputs = self.input_lines(block) * LINE_WORDS / port
        first = min(inputs, rows * -(-path.t_p // LINE_WORDS) * LINE_WORDS / port)
        last = rows * max(self.cols / port, -(-self.cols // path.out_words))
        return -(-self.beats // block) * max(compute, inputs, outputs, drained) + first + last + LAYER_CYCLES


def best_plan(layer: LayerShape, path: Path, batch: int) -> BatchPlan:
    """The plan of fewest estimated cycles for a layer whose windows are known; a tie goes to R-batching, then k = 2, then the larger block.

    A pool goes over its windows once for every T_P channels, so its blocks are the largest whose windows stay in the buffer meanwhile.
    """
    if layer.window is None:
        return BatchPlan(b_r=batch)
    if layer.kind is not Kind.GEMM:
        run = _Run(layer, layer.window, path, Mode.NORMAL, batch, batch * layer.r, 1)
        kept = [block for block in _blocks(run) if run.lines(block)[0] <= USABLE * path.buffer_lines]
        return BatchPlan(b_r=batch, block=max(kept, default=min(_blocks(run))))
    return min(
        (
            (run.cycles(block), order, -block, BatchPlan(k=k, b_r=b_r, row_lanes=rows, block=block))
            for order, (run, k, b_r, rows) in enumerate(_runs(layer, layer.window, path, batch))
            for block in _blocks(run)
        ),
        key=lambda found: found[:3],
    )[3]


def _runs(layer: LayerShape, window: Window, path: Path, batch: int) -> Iterator[tuple[_Run, Stack, int, bool]]:
    rows = batch * layer.r
    yield _Run(layer, window, path, Mode.NORMAL, batch, rows, 1), Stack.ONE, batch, False
    if not path.stackable:
        return
    yield _Run(layer, window, path, Mode.WIDE, batch, rows, 1), Stack.TWO, batch, False
    if batch == 1:
        yield _Run(layer, window, path, Mode.LANES, batch, -(-rows // 2), 2), Stack.ONE, batch, True
    else:
        half = -(-batch // 2)
        yield _Run(layer, window, path, Mode.LANES, batch, half * layer.r, 2), Stack.ONE, half, False


def _blocks(run: _Run) -> Iterator[int]:
    """Whole image rows, fewer and fewer; the smallest is one, the largest what a bank holds."""
    deepest = min(run.path.t_r, run.beats)
    yield deepest
    line = -(-run.window.out[1] // run.lanes) if not run.by_samples else run.window.out[1]
    most = deepest // line
    for rows in sorted({most // part for part in range(1, 33)} - {0}):
        yield rows * line
