"""A floor under the cycles of a layer in one plan, for many arrays at once: what the exact model cannot undercut. Vectorised; no loop over cycles.

Every term counts something of which a cycle does one at most: input beats, segments, weight beats, port words of each memory port, output beats. The
greatest of them bounds the layer; the tests hold it below the exact cycles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fluidnpu.models import Kind, LayerShape

from ..design import BatchPlan, Mode, Stack, pool_beats
from ..hardware.dram import DramModel
from ..hardware.roofline import awake, input_words
from ..hardware.row_buffer import WORD_BYTES, row_bytes
from ..hardware.row_buffer import rows as image_rows

Floats = npt.NDArray[np.float64]
SET_UP_CYCLES = 200  # descriptor and planner take more
BLOCK_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 112)


@dataclass(frozen=True, kw_only=True)
class Arrays:
    """Arrays side by side: each field a number or an array of one length; `dram` behind the ports."""

    t_r: Floats
    t_p: Floats
    t_c: Floats
    weight_slots: Floats
    out_words: float
    port_words: float
    stripes: int = 1
    dram: DramModel

    @property
    def words_per_cycle(self) -> float:
        """Words that all ports together move in a cycle, refresh counted; infinite without a limit."""
        return self.dram.total_words * awake(self.dram) if self.dram.total_words else np.inf

    @property
    def link_words(self) -> float:
        """Words that one port moves in a cycle in one direction."""
        return float(min(self.port_words, self.dram.link_words * self.stripes or np.inf)) * awake(self.dram)

    @property
    def burst_words(self) -> float:
        """The same between two refreshes, when no other port moves any."""
        return min(self.link_words, self.words_per_cycle) / awake(self.dram)


@dataclass(frozen=True, kw_only=True)
class Way:
    """A mode with its lanes: everything of a plan but the block."""

    mode: Mode
    b_r: int
    row_lanes: bool = False

    @property
    def lanes(self) -> int:
        """Output rows of a beat."""
        return 2 if self.mode is Mode.LANES else 1

    def plan(self, block: int) -> BatchPlan:
        """The FBCB entry."""
        k = Stack.TWO if self.mode is Mode.WIDE else Stack.ONE
        return BatchPlan(k=k, b_r=self.b_r, row_lanes=self.row_lanes, block=block)


def ways(layer: LayerShape, batch: int) -> tuple[Way, ...]:
    """How two lanes can run a layer: plain, k = 2, neighbouring rows or two halves of the batch side by side."""
    if layer.kind is Kind.MAX_POOL:
        return (Way(mode=Mode.MAX_POOL, b_r=batch),)
    if layer.kind is Kind.SUM_POOL:
        return (Way(mode=Mode.SUM_POOL, b_r=batch),)
    side = Way(mode=Mode.LANES, b_r=-(-batch // 2)) if batch > 1 else Way(mode=Mode.LANES, b_r=1, row_lanes=True)
    return Way(mode=Mode.NORMAL, b_r=batch), Way(mode=Mode.WIDE, b_r=batch), side


def beats_of(layer: LayerShape, way: Way, batch: int) -> int:
    """Rows of lane 0 in the whole layer."""
    return -(-batch * layer.r // 2) if way.row_lanes else way.b_r * layer.r


def block_sizes(layer: LayerShape, way: Way, batch: int) -> tuple[int, ...]:
    """Blocks worth a look: so many image rows, and all of the layer. A bank may hold less."""
    assert layer.window is not None
    line = -(-layer.window.out[1] // 2) if way.row_lanes else layer.window.out[1]
    beats = beats_of(layer, way, batch)
    return tuple(sorted({min(beats, rows * line) for rows in BLOCK_ROWS} | {beats}))


def _up(value: npt.ArrayLike, by: npt.ArrayLike) -> Floats:
    return np.asarray(np.ceil(np.divide(value, by)))


def floor_cycles(
    layer: LayerShape, batch: int, way: Way, block: Floats, on: Arrays, least: Floats | None = None
) -> Floats:
    """Cycles that a layer takes at the least, for every array and block (broadcast together).

    With `least` in any block from `least` to `block`, and the wait for the first block's input rows counts. That is nearer to the truth, but worse
    at ranking plans: it favours small blocks, which then meet the weights that they send more often.
    """
    window = layer.window
    assert window is not None
    rows, beats = float(batch * layer.r), float(beats_of(layer, way, batch))
    block = np.minimum(np.minimum(block, on.t_r), beats)
    out = rows * layer.groups * layer.c
    outputs = layer.c if layer.kind is not Kind.GEMM else layer.groups * layer.c
    unique = float(batch * input_words(layer))
    if layer.kind is not Kind.GEMM:
        core = (
            rows
            * pool_beats(layer.p, maximum=layer.kind is Kind.MAX_POOL)
            * _up(np.asarray(float(layer.c)), np.maximum(2 * on.t_p, on.port_words))
        )
        busy = np.maximum(core, np.maximum(unique, rows * outputs) / on.link_words)
        return np.asarray(SET_UP_CYCLES + np.maximum(busy, (unique + out) / on.words_per_cycle))
    width = on.t_p * (2 if way.mode is Mode.WIDE else 1)
    columns = np.maximum(1, on.t_c // 2) if way.mode in (Mode.WIDE, Mode.LANES) else on.t_c
    p_tiles = _up(np.asarray(float(layer.p)), width)
    full = np.ceil(layer.c / columns) - 1
    last = layer.c - full * columns
    per_column = 2 if way.mode is Mode.WIDE else 1
    tile_full, tile_last = _up(per_column * columns, on.weight_slots), _up(per_column * last, on.weight_slots)
    biases = on.t_p // 3 * on.weight_slots
    weight_beats = layer.groups * (
        full * (p_tiles * tile_full + _up(columns, biases)) + p_tiles * tile_last + _up(last, biases)
    )
    tiles = layer.groups * (full + 1)
    blocks = np.ceil(beats / block)
    turn = on.t_p + 3
    # The last P-tile of a command has nobody behind it to wait.
    core = blocks * tiles * (p_tiles - 1) * np.maximum(block, np.maximum(np.minimum(tile_full, tile_last), turn))
    core = np.maximum(core - (blocks * block - beats) * tiles * (p_tiles - 1), p_tiles * tiles * beats)
    words = window.run_words(layer)
    runs = layer.p // words
    together = width // np.gcd(words, width.astype(np.int64))
    segments = rows * tiles * (p_tiles + (runs - 1) - (runs - 1) // together) / 2  # two a cycle
    drained = rows * layer.groups * (full * _up(columns, on.out_words) + _up(last, on.out_words))
    weights = blocks * weight_beats * on.weight_slots * on.t_p
    residual = out if layer.residual else 0.0
    ports = np.maximum(np.maximum(weights, unique), out) / on.link_words
    together_words = (weights + unique + out + residual) / on.words_per_cycle
    most = np.maximum(np.maximum(core, segments), np.maximum(drained, blocks * weight_beats))
    most = np.maximum(most, np.maximum(ports, together_words))
    if least is not None:
        # Before all rows of the first block are there nothing goes but its first P-tile, and before its last P-tile there is nothing to write.
        least = np.minimum(least, block)
        first = _first_rows(layer, way, least) * row_bytes(layer, window) / WORD_BYTES / on.burst_words
        sums = np.where(p_tiles > 1, first + (p_tiles - 2) * least, 0.0)
        most = np.maximum(most, np.maximum(first + core - block, sums + np.maximum(drained, out / on.burst_words)))
        most += 2 * on.dram.latency_cycles + on.dram.write_latency_cycles - on.dram.refresh_cycles
    return np.asarray(SET_UP_CYCLES + most)


def _first_rows(layer: LayerShape, way: Way, block: Floats) -> Floats:
    """Input rows that the windows of the first `block` beats need, those of lane 0 alone where lanes are samples."""
    window = layer.window
    assert window is not None
    rise, span, sample_rows = image_rows(window)
    samples, left = np.divmod(block * (2 if way.row_lanes else 1), layer.r)
    lines = np.ceil(left / window.out[1])
    return np.asarray(samples * sample_rows + np.where(lines > 0, (lines - 1) * rise + span, 0))
