"""A lower bound of a layer's cycles under one mapping, for many arrays at once. No loop over cycles.

Every term counts something of which a cycle does one at most: input beats, segments, weight beats, port words
of each memory port, output beats. The greatest of them bounds the layer; the tests hold it below the exact
cycles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fluidnpu.models import Kind, LayerShape

from ..hardware.activation import residual_reads
from ..hardware.array import Array, Floats, ceil_div, floor_div, pool_beats
from ..hardware.dram import DramModel, Rates
from ..hardware.filtering import filter_cycles
from ..hardware.roofline import touched_words
from ..hardware.row_buffer import row_bytes
from ..hardware.row_buffer import rows as image_rows
from .mapping import LayerMapping
from .model import Machine

LEAST_PLAN_CYCLES = 200  # descriptor and planner take more
BLOCK_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 112)


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Arrays side by side, in float64, behind the ports to one memory."""

    array: Array[Floats]
    port_words: int
    stripes: int = 1
    hls: bool = False  # with the HLS core
    dram: DramModel

    @classmethod
    def of(cls, machine: Machine, dram: DramModel) -> Candidates:
        """The array of one NPU alone."""
        return cls(
            array=machine.array.side_by_side(),
            port_words=machine.port_words,
            stripes=machine.stripes,
            hls=machine.row_distance > 0,
            dram=dram,
        )

    @cached_property
    def rates(self) -> Rates:
        """Words that the memory moves in a cycle."""
        return self.dram.rates(self.port_words, self.stripes, self.array.word_bytes)


def block_sizes(layer: LayerShape, mapping: LayerMapping) -> tuple[int, ...]:
    """Blocks worth a look: some numbers of image rows, and all of the layer. A bank may hold less."""
    assert layer.window is not None
    line = ceil_div(layer.window.out[1], 2) if mapping.row_lanes else layer.window.out[1]
    beats = mapping.beats(layer)
    return tuple(sorted({min(beats, rows * line) for rows in BLOCK_ROWS} | {beats}))


def lower_bound(
    layer: LayerShape, mapping: LayerMapping, block: Floats, on: Candidates, least: Floats | None = None
) -> Floats:
    """Least cycles of a layer, for every array and block (broadcast together).

    The plan of a job's first layer is made before it begins, those of the others while the one before runs.
    So layers take no less than the sum of their bounds, none of which is below the time of a plan.

    With `least` in any block from `least` to `block`, and the wait for the first block's input rows counts.
    That is nearer to the truth, but worse at ranking plans: it favours small blocks, which then meet the
    weights that they send more often. The result has the shape that blocks and arrays broadcast to.
    """
    if layer.merged:
        return np.full(np.broadcast_shapes(np.shape(block), np.shape(on.array.t_p)), float(LEAST_PLAN_CYCLES))
    if mapping.pool:
        return _pool_bound(layer, mapping, on)
    window, array = layer.window, on.array
    assert window is not None
    rows, beats = float(mapping.batch * layer.r), float(mapping.beats(layer))
    block = np.minimum(np.minimum(block, array.t_r), beats)
    stored = float(mapping.batch * layer.stored)
    unique = float(mapping.batch * touched_words(layer))
    width, columns = array.tile(mapping.mode)
    p_tiles = np.ceil(layer.p / width)
    full = np.ceil(layer.c / columns) - 1
    last = layer.c - full * columns
    tile_full, tile_last = array.tile_beats(mapping.mode, columns), array.tile_beats(mapping.mode, last)
    weight_beats = layer.groups * (
        full * (p_tiles * tile_full + array.bias_beats(columns)) + p_tiles * tile_last + array.bias_beats(last)
    )
    tiles = layer.groups * (full + 1)
    blocks = np.ceil(beats / block)
    turn = array.row_distance() if on.hls else np.minimum(array.turnaround, array.t_p + 3)
    # The last P-tile of a command has nothing behind it to wait for.
    core = blocks * tiles * (p_tiles - 1) * np.maximum(block, np.maximum(np.minimum(tile_full, tile_last), turn))
    core = np.maximum(core - (blocks * block - beats) * tiles * (p_tiles - 1), p_tiles * tiles * beats)
    words = window.run_words(layer)
    runs = layer.p // words
    together = floor_div(width, np.gcd(words, width.astype(np.int64)).astype(np.float64))
    segments = rows * tiles * (p_tiles + (runs - 1) - np.floor((runs - 1) / together)) / 2  # two a cycle
    beats_of_pixel = layer.groups * (full * ceil_div(columns, array.out_words) + ceil_div(last, array.out_words))
    drained = mapping.batch * filter_cycles(layer) * beats_of_pixel
    weights = blocks * weight_beats * array.weight_words
    residual = residual_reads(layer, rows, tiles, on.port_words)
    ports = np.maximum(np.maximum(weights, unique), np.maximum(stored, residual)) / on.rates.port
    together_words = (weights + unique + stored + residual) / on.rates.total
    most = np.maximum(np.maximum(core, segments), np.maximum(drained, blocks * weight_beats))
    most = np.maximum(most, np.maximum(ports, together_words))
    if least is not None:
        # A P-tile goes when the input rows of its own kernel row are there. So before the rows that kernel
        # row j of the first block needs, only the P-tiles up to the one in which j begins have gone; the
        # first and the last kernel row bound it well. And before its last P-tile nothing is written.
        least = np.minimum(least, block)
        for kernel_row in sorted({0, window.kernel[0] - 1}):
            needed = _first_rows(layer, mapping, least, kernel_row)
            first = needed * row_bytes(layer, window, array.word_bytes) / array.word_bytes / on.rates.burst
            begins = np.floor(kernel_row * layer.p / window.kernel[0] / width)
            sums = np.where(p_tiles > 1, first + np.maximum(p_tiles - 2 - begins, 0.0) * least, 0.0)
            most = np.maximum(most, first + core - (begins + 1) * block)
            most = np.maximum(most, sums + np.maximum(drained, stored / on.rates.burst))
        most += on.dram.latency_cycles + on.dram.write_latency_cycles - on.dram.refresh_cycles
    return np.asarray(np.maximum(LEAST_PLAN_CYCLES, most))


def moving_bound(layer: LayerShape, batch: int, on: Candidates) -> float:
    """Least cycles in which the maps of a layer move, under any mapping and with any groups joined."""
    unique, stored = float(batch * touched_words(layer)), float(batch * layer.stored)
    return max(LEAST_PLAN_CYCLES, unique / on.rates.port, stored / on.rates.port, (unique + stored) / on.rates.total)


def _pool_bound(layer: LayerShape, mapping: LayerMapping, on: Candidates) -> Floats:
    rows = float(mapping.batch * layer.r)
    unique, outputs = float(mapping.batch * touched_words(layer)), rows * layer.c
    beats = pool_beats(layer.p, maximum=layer.kind is Kind.MAX_POOL)
    core = rows * beats * np.ceil(layer.c / on.array.tile(mapping.mode)[1])
    busy = np.maximum(core, max(unique, outputs) / on.rates.port)
    moved = np.asarray((unique + outputs) / on.rates.total)
    if layer.p == 1:  # a pass element by element
        columns = on.array.tile(mapping.mode)[1]
        full = np.ceil(layer.c / columns) - 1
        last = layer.c - full * columns
        drained = rows * (full * ceil_div(columns, on.array.out_words) + ceil_div(last, on.array.out_words))
        residual = residual_reads(layer, rows, full + 1, on.port_words)
        busy = np.maximum(busy, np.maximum(drained, residual / on.rates.port))
        moved = moved + residual / on.rates.total
    return np.asarray(np.maximum(LEAST_PLAN_CYCLES, np.maximum(busy, moved)))


def _first_rows(layer: LayerShape, mapping: LayerMapping, block: Floats, kernel_row: int) -> Floats:
    """Input rows up to those of `kernel_row` in the windows of the first `block` beats; lane 0's with
    lanes.
    """
    window = layer.window
    assert window is not None
    rise, _, sample_rows = image_rows(window)
    starts = block * (2 if mapping.row_lanes else 1)
    samples = floor_div(starts, layer.r)
    lines = np.ceil((starts - samples * layer.r) / window.out[1])
    reach = kernel_row * window.dilation[0] + 1
    # The last sample of whole images ends with the rows of its last line, too.
    whole = np.maximum(samples - 1, 0) * sample_rows + (window.out[0] - 1) * rise + reach
    rest = samples * sample_rows + (lines - 1) * rise + reach
    return np.asarray(np.where(lines > 0, rest, np.where(samples > 0, whole, 0.0)))
