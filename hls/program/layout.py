"""Packing of weights into the weight stream for every mode of the core, and its inverse. Arrays only; no I/O.

The order is that of ADR 4: for each column tile a bias header, then one P-tile after another, each part
padded with zero slots to whole beats. The image in memory has the same order, so the data plane only copies.

>>> import numpy as np
>>> from fluidnpu.dse import Mode
>>> from fluidnpu.dse.testing import tiny_design
>>> weights, bias = np.arange(90, dtype=np.int16).reshape(9, 10), np.arange(10)
>>> words = pack_weights(weights, bias, Mode.WIDE, tiny_design())
>>> back = unpack_weights(words, p=9, columns=10, mode=Mode.WIDE, design=tiny_design())
>>> bool((back[0] == weights).all() and (back[1] == bias).all())
True
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode

from ..errors import LayoutError

Int16 = npt.NDArray[np.int16]
Int64 = npt.NDArray[np.int64]

GEMM_MODES = (Mode.NORMAL, Mode.WIDE, Mode.LANES, Mode.SPLIT)
BIAS_WORDS = 3  # a bias has 48 bits


@dataclass(frozen=True, kw_only=True)
class TileLayout:
    """Sizes of one command's weights: `cols` columns of `p` words in `mode`.

    A slot is t_p words, a beat weight_slots slots.
    """

    p: int
    cols: int
    mode: Mode
    design: Design

    @property
    def p_tiles(self) -> int:
        """Number of P-tiles."""
        return -(-self.p // self.design.tile(self.mode)[0])

    @property
    def biases_per_slot(self) -> int:
        """Biases in one header slot; a design with t_p < 3 has none and cannot be built."""
        return self.design.t_p // BIAS_WORDS

    @property
    def bias_slots(self) -> int:
        """Used slots of the bias header."""
        return -(-self.cols // self.biases_per_slot)

    @property
    def tile_slots(self) -> int:
        """Used slots of one P-tile."""
        return {Mode.WIDE: 2 * self.cols, Mode.SPLIT: -(-self.cols // 2)}.get(self.mode, self.cols)

    @property
    def bias_beats(self) -> int:
        """Beats of the bias header."""
        return -(-self.bias_slots // self.design.weight_slots)

    @property
    def tile_beats(self) -> int:
        """Beats of one P-tile."""
        return -(-self.tile_slots // self.design.weight_slots)

    @property
    def beats(self) -> int:
        """Beats of the whole command."""
        return self.bias_beats + self.p_tiles * self.tile_beats

    @property
    def words(self) -> int:
        """Words of the whole command."""
        return self.beats * self.design.weight_slots * self.design.t_p


def column_tiles(columns: int, mode: Mode, design: Design) -> Iterator[tuple[int, int]]:
    """(first column, columns) of every column tile of a group.

    >>> from fluidnpu.dse.testing import tiny_design
    >>> list(column_tiles(10, Mode.WIDE, tiny_design()))
    [(0, 4), (4, 4), (8, 2)]
    """
    width = design.tile(mode)[1]
    for first in range(0, columns, width):
        yield first, min(width, columns - first)


def part_words(*, p: int, columns: int, groups: int, mode: Mode, design: Design) -> int:
    """Words of all weights of one layer in one mode: every group, every column tile."""
    tiles = (TileLayout(p=p, cols=cols, mode=mode, design=design) for _, cols in column_tiles(columns, mode, design))
    return groups * sum(tile.words for tile in tiles)


def pack_weights(weights: Int16, bias: Int64, mode: Mode, design: Design) -> Int16:
    """Pack one group's weights (P, C) and biases (C,) into words in the order of the weight stream."""
    p, columns = weights.shape
    _check(mode, design)
    if bias.shape != (columns,):
        raise LayoutError(f"a group of {columns} columns needs as many biases, not an array of shape {bias.shape}")
    parts = []
    for first, cols in column_tiles(columns, mode, design):
        tile = TileLayout(p=p, cols=cols, mode=mode, design=design)
        parts.append(_pack_bias(bias[first : first + cols], tile))
        parts.append(_pack_tile(weights[:, first : first + cols], tile))
    return np.concatenate(parts)


def join_groups(weights: Int16, taps: int, count: int) -> Int16:
    """Join every `count` groups of weights (groups, P, C) into one, with zeros where groups do not meet.

    P is ordered (tap, channel of the group), so the channels of joined groups stand side by side in each tap.

    >>> join_groups(np.array([[[1], [2]], [[3], [4]]], np.int16), taps=2, count=2)[0].tolist()
    [[1, 0], [0, 3], [2, 0], [0, 4]]
    """
    groups, p, columns = weights.shape
    apart = weights.reshape(groups // count, count, taps, p // taps, columns)
    whole = np.zeros((groups // count, taps, count, p // taps, count, columns), weights.dtype)
    for at in range(count):
        whole[:, :, at, :, at] = apart[:, at]
    return whole.reshape(groups // count, count * p, count * columns)


def unpack_weights(words: Int16, *, p: int, columns: int, mode: Mode, design: Design) -> tuple[Int16, Int64]:
    """Inverse of `pack_weights`: (weights (P, C) int16, biases (C,) int64) of one group."""
    _check(mode, design)
    expected = part_words(p=p, columns=columns, groups=1, mode=mode, design=design)
    if words.shape != (expected,):
        raise LayoutError(f"{columns} columns of {p} words take {expected} words in this mode, not {words.shape}")
    weights, bias = np.empty((p, columns), np.int16), np.empty(columns, np.int64)
    at = 0
    for first, cols in column_tiles(columns, mode, design):
        tile = TileLayout(p=p, cols=cols, mode=mode, design=design)
        header = tile.bias_beats * design.weight_slots * design.t_p
        bias[first : first + cols] = _unpack_bias(words[at : at + header], tile)
        weights[:, first : first + cols] = _unpack_tile(words[at + header : at + tile.words], tile)
        at += tile.words
    return weights, bias


def _check(mode: Mode, design: Design) -> None:
    if mode not in GEMM_MODES:
        raise LayoutError(f"only GEMM modes have weights, not {mode.name}")
    if design.t_p < BIAS_WORDS:
        raise LayoutError(f"t_p must be at least {BIAS_WORDS} to carry a 48-bit bias in one slot, not {design.t_p}")


def _axes(tile: TileLayout) -> tuple[int, int]:
    """(halves of the beat that a column spans, columns that share a slot)."""
    return (2, 1) if tile.mode is Mode.WIDE else (1, 2) if tile.mode is Mode.SPLIT else (1, 1)


def _pack_tile(weights: Int16, tile: TileLayout) -> Int16:
    """(P, cols) -> words of all P-tiles of one command."""
    span, share = _axes(tile)
    width = tile.design.tile(tile.mode)[0] // span
    pairs = -(-tile.cols // share)
    padded = np.zeros((tile.p_tiles * span * width, pairs * share), np.int16)
    padded[: tile.p, : tile.cols] = weights
    slots = padded.reshape(tile.p_tiles, span, width, pairs, share).transpose(0, 3, 1, 4, 2)
    beats = np.zeros((tile.p_tiles, tile.tile_beats * tile.design.weight_slots, tile.design.t_p), np.int16)
    beats[:, : tile.tile_slots] = slots.reshape(tile.p_tiles, tile.tile_slots, tile.design.t_p)
    return beats.reshape(-1)


def _unpack_tile(words: Int16, tile: TileLayout) -> Int16:
    span, share = _axes(tile)
    width = tile.design.tile(tile.mode)[0] // span
    pairs = -(-tile.cols // share)
    slots = words.reshape(tile.p_tiles, -1, tile.design.t_p)[:, : tile.tile_slots]
    padded = slots.reshape(tile.p_tiles, pairs, span, share, width).transpose(0, 2, 4, 1, 3)
    return padded.reshape(tile.p_tiles * span * width, pairs * share)[: tile.p, : tile.cols]


def _pack_bias(bias: Int64, tile: TileLayout) -> Int16:
    """(cols,) -> words of the bias header."""
    if np.any((bias < -(1 << 47)) | (bias >= 1 << 47)):
        raise LayoutError("a bias must fit 48 bits")
    numbers = np.zeros(tile.bias_slots * tile.biases_per_slot, np.int64)
    numbers[: tile.cols] = bias
    words = (numbers[:, None] >> np.array([0, 16, 32])).astype(np.uint16).view(np.int16)
    header = np.zeros((tile.bias_beats * tile.design.weight_slots, tile.design.t_p), np.int16)
    header[: tile.bias_slots, : BIAS_WORDS * tile.biases_per_slot] = words.reshape(tile.bias_slots, -1)
    return header.reshape(-1)


def _unpack_bias(words: Int16, tile: TileLayout) -> Int64:
    slots = words.reshape(-1, tile.design.t_p)[: tile.bias_slots, : BIAS_WORDS * tile.biases_per_slot]
    low, middle, high = slots.reshape(-1, BIAS_WORDS)[: tile.cols].astype(np.int64).T
    bias: Int64 = (low & 0xFFFF) | (middle & 0xFFFF) << 16 | high << 32
    return bias
