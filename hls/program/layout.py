"""Packing of weights into the weight stream for every mode of the core, and its inverse. Arrays only; no I/O.

The order is that of ADR 4: for each column tile a header, then one P-tile after another, each part padded
with zero slots to whole beats. The image in memory has the same order, so the data plane only copies. A
column's header is its bias; with words of 8 bits its multiplier and shift lie above it (ADR 75).

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
from fluidnpu.models.numeric import INT8, MULTIPLIER_BITS, WORDS, Stored, Word

from ..errors import LayoutError

Int64 = npt.NDArray[np.int64]

GEMM_MODES = (Mode.NORMAL, Mode.WIDE, Mode.LANES, Mode.SPLIT)
SHIFT_AT, SHIFT_BITS = 56, 6  # of a header of 64 bits; its multiplier follows the bias


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
        """Biases in one header slot; none where t_p is less than a header, which cannot be built."""
        return self.design.t_p // self.design.array.bias_words

    @property
    def bias_slots(self) -> int:
        """Used slots of the bias header."""
        return -(-self.cols // self.biases_per_slot)

    @property
    def tile_slots(self) -> int:
        """Used slots of one P-tile."""
        span, chain, share = _axes(self)
        return span * chain * -(-self.cols // (chain * share))

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


def headers(bias: Int64, multipliers: Int64, shifts: Int64) -> Int64:
    """The header of each column, int64 (C,): its bias, below a multiplier and a shift where there are some.

    Raises LayoutError for numbers that do not fit their bits, or are not one for each bias.

    >>> [hex(number) for number in headers(np.array([-1]), np.array([1 << 16]), np.array([3]))]
    ['0x3010000ffffffff']
    """
    if not len(multipliers):
        return bias
    for name, numbers, bits in (("multiplier", multipliers, MULTIPLIER_BITS), ("shift", shifts, SHIFT_BITS)):
        if numbers.shape != bias.shape or np.any((numbers < 0) | (numbers >> bits > 0)):
            raise LayoutError(f"a {name} of {bits} bits must come with each of {len(bias)} biases, and others do")
    _check_bias(bias, INT8)
    return (bias & (1 << INT8.sum_bits) - 1) | multipliers << INT8.sum_bits | shifts << SHIFT_AT


def scales(header: Int64, design: Design) -> tuple[Int64, Int64, Int64]:
    """Invert `headers`: (biases, multipliers, shifts), each (C,); the last two are empty at 16 bits."""
    if design.array.chain_columns == 1:
        return header, header[:0], header[:0]
    bias = (header & (1 << INT8.sum_bits) - 1).astype(np.uint32).view(np.int32).astype(np.int64)
    multipliers = header >> INT8.sum_bits & (1 << MULTIPLIER_BITS) - 1
    return bias, multipliers, header >> SHIFT_AT & (1 << SHIFT_BITS) - 1


def _check_bias(bias: Int64, word: Word) -> None:
    bits = word.sum_bits
    if np.any((bias < -(1 << bits - 1)) | (bias >= 1 << bits - 1)):
        raise LayoutError(f"a bias must fit {bits} bits")


def pack_weights(weights: Stored, header: Int64, mode: Mode, design: Design) -> Stored:
    """Pack one group's weights (P, C) and `headers` (C,) into words in the order of the weight stream.

    Raises LayoutError for other numbers of headers, and for weights of other words.
    """
    p, columns = weights.shape
    _check(mode, design)
    if header.shape != (columns,):
        raise LayoutError(f"a group of {columns} columns needs as many biases, not an array of shape {header.shape}")
    if weights.dtype != WORDS[design.word_bits].dtype:
        raise LayoutError(f"weights must be {WORDS[design.word_bits].dtype} for this design, not {weights.dtype}")
    parts = []
    for first, cols in column_tiles(columns, mode, design):
        tile = TileLayout(p=p, cols=cols, mode=mode, design=design)
        parts.append(_pack_headers(header[first : first + cols], tile))
        parts.append(_pack_tile(weights[:, first : first + cols], tile))
    return np.concatenate(parts)


def join_groups(weights: Stored, taps: int, count: int) -> Stored:
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


def unpack_weights(words: Stored, *, p: int, columns: int, mode: Mode, design: Design) -> tuple[Stored, Int64]:
    """Inverse of `pack_weights`: (weights (P, C) of the design's words, `headers` (C,)) of one group.

    Raises LayoutError for another number of words.
    """
    _check(mode, design)
    expected = part_words(p=p, columns=columns, groups=1, mode=mode, design=design)
    if words.shape != (expected,):
        raise LayoutError(f"{columns} columns of {p} words take {expected} words in this mode, not {words.shape}")
    weights, header = np.empty((p, columns), words.dtype), np.empty(columns, np.int64)
    at = 0
    for first, cols in column_tiles(columns, mode, design):
        tile = TileLayout(p=p, cols=cols, mode=mode, design=design)
        size = tile.bias_beats * design.weight_slots * design.t_p
        header[first : first + cols] = _unpack_headers(words[at : at + size], tile)
        weights[:, first : first + cols] = _unpack_tile(words[at + size : at + tile.words], tile)
        at += tile.words
    return weights, header


def _check(mode: Mode, design: Design) -> None:
    if mode not in GEMM_MODES:
        raise LayoutError(f"only GEMM modes have weights, not {mode.name}")
    if design.t_p < design.array.bias_words:
        raise LayoutError(
            f"t_p must be at least {design.array.bias_words} to carry a header of {header_bits(design)} bits in one "
            f"slot, not {design.t_p}"
        )


def header_bits(design: Design) -> int:
    """Bits of a column's header."""
    return design.array.bias_words * design.word_bits


def _axes(tile: TileLayout) -> tuple[int, int, int]:
    """(halves of the beat that a column spans, columns whose halves come together, columns that share a
    slot).
    """
    if tile.mode is Mode.WIDE:
        return 2, tile.design.array.chain_columns, 1
    return 1, 1, 2 if tile.mode is Mode.SPLIT else 1


def _pack_tile(weights: Stored, tile: TileLayout) -> Stored:
    """(P, cols) -> words of all P-tiles of one command."""
    span, chain, share = _axes(tile)
    width = tile.design.tile(tile.mode)[0] // span
    padded = np.zeros((tile.p_tiles * span * width, tile.tile_slots * share // span), weights.dtype)
    padded[: tile.p, : tile.cols] = weights
    slots = padded.reshape(tile.p_tiles, span, width, -1, chain, share).transpose(0, 3, 1, 4, 5, 2)
    beats = np.zeros((tile.p_tiles, tile.tile_beats * tile.design.weight_slots, tile.design.t_p), weights.dtype)
    beats[:, : tile.tile_slots] = slots.reshape(tile.p_tiles, tile.tile_slots, tile.design.t_p)
    return beats.reshape(-1)


def _unpack_tile(words: Stored, tile: TileLayout) -> Stored:
    span, chain, share = _axes(tile)
    width = tile.design.tile(tile.mode)[0] // span
    slots = words.reshape(tile.p_tiles, -1, tile.design.t_p)[:, : tile.tile_slots]
    padded = slots.reshape(tile.p_tiles, -1, span, chain, share, width).transpose(0, 2, 5, 1, 3, 4)
    return padded.reshape(tile.p_tiles * span * width, -1)[: tile.p, : tile.cols]


def _pack_headers(numbers: Int64, tile: TileLayout) -> Stored:
    """(cols,) -> words of the header."""
    bits, count = tile.design.word_bits, tile.design.array.bias_words
    if header_bits(tile.design) == WORDS[bits].sum_bits:
        _check_bias(numbers, WORDS[bits])
    padded = np.zeros(tile.bias_slots * tile.biases_per_slot, np.int64)
    padded[: tile.cols] = numbers
    words = (padded[:, None] >> bits * np.arange(count)).astype(WORDS[bits].dtype)
    header = np.zeros((tile.bias_beats * tile.design.weight_slots, tile.design.t_p), words.dtype)
    header[: tile.bias_slots, : count * tile.biases_per_slot] = words.reshape(tile.bias_slots, -1)
    return header.reshape(-1)


def _unpack_headers(words: Stored, tile: TileLayout) -> Int64:
    bits, count = tile.design.word_bits, tile.design.array.bias_words
    slots = words.reshape(-1, tile.design.t_p)[: tile.bias_slots, : count * tile.biases_per_slot]
    columns = slots.reshape(-1, count)[: tile.cols].astype(np.int64)
    columns[:, :-1] &= (1 << bits) - 1  # the last word has the sign
    numbers: Int64 = (columns << bits * np.arange(count)).sum(axis=1)
    return numbers
