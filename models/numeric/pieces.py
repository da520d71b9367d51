"""Pieces of the activation unit: of a table those that come nearest to its function, of channels their lines.

Each piece of a table is the line through the ends of its words, moved by half of what it is off: the best
line for what bends one way. The window is one of all eight whose largest error is least, to half a step, and
of these the one with the least root mean square (ADR 69); where a function is a factor, errors are shares.

>>> from ..graph.activations import Activation, Use
>>> nine = TensorFormat(fraction_bits=9)  # words of +-64
>>> unit = table(Activation(use=Use.TABLE, function="silu"), nine, nine)
>>> unit.window, round(unit.error, 2)
(13, 1.09)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..errors import QuantisationError
from ..graph.activations import Activation, Use
from .unit import LARGEST_UNIT_SHIFT, PIECES, SEGMENTS, WINDOWS, Unit, place_words
from .words import INT16, Doubles, TensorFormat, Word, fraction_bits

ROUNDING = 0.5  # steps that rounding alone is off by
PLACES = 4096  # of a range where a function is looked at


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelLines:
    """Lines of channels from a word to what is stored, before fraction bits; all are (channels,)."""

    slopes: Doubles
    offsets: Doubles

    def unit(self, use: Use, word_bits: int, bits: int, lo: int, hi: int, width: Word = INT16) -> Unit:
        """Return the unit for these lines, with the fraction bits of words and of what is stored.

        Raises QuantisationError for a slope that int16 does not hold.
        """
        slopes = np.ldexp(self.slopes, bits - word_bits)
        shift = min(LARGEST_UNIT_SHIFT, fraction_bits(float(np.abs(slopes).max()), INT16.highest))
        if shift < 0:
            raise QuantisationError(f"a slope of the activation unit must be within int16, not {np.abs(slopes).max()}")
        exact = np.stack([np.ldexp(self.offsets, bits), np.ldexp(slopes, shift)], axis=1)
        pieces = np.rint(exact)
        off = np.abs(pieces - exact).max(axis=0)
        error = ROUNDING + float(off[0]) + float(off[1]) * 2.0 ** (width.bits - 1 - shift)
        return Unit(use=use, shift=shift, lo=lo, hi=hi, pieces=pieces.astype(np.int16), error=error, bits=width.bits)


@lru_cache(maxsize=256)
def table(activation: Activation, source: TensorFormat, target: TensorFormat, width: Word = INT16) -> Unit:
    """Return the unit for a table's function of words of one format, stored in another.

    The smallest window has a piece for every two words of 8 bits, and a slope between them: it is exact.
    """
    lo, hi = target.bounds(activation.bounds, width)
    exact = target.steps(activation.real(source.real(_words(width))))
    windows = WINDOWS if width is INT16 else WINDOWS[:1]
    exact = exact if width is INT16 else np.rint(np.clip(exact, lo, hi))  # which two words and a line meet
    tables = [_fitted(exact, window, lo, hi, width) for window in windows]
    if activation.of.factor:
        size = np.maximum(np.abs(np.clip(exact, lo, hi)), 1)
        return min(tables, key=lambda fit: float((fit[1] / size).max()))[0]
    most = min(unit.error for unit, _ in tables) + ROUNDING
    return min((fit for fit in tables if fit[0].error <= most), key=lambda fit: float(np.square(fit[1]).mean()))[0]


def _words(width: Word) -> npt.NDArray[np.int32]:
    return np.arange(width.lowest, width.highest + 1, dtype=np.int32)


def _fitted(exact: Doubles, window: int, lo: int, hi: int, width: Word) -> tuple[Unit, Doubles]:
    """Return the table with a window for the exact values, in steps, of every word; and what each is off by.

    A segment may begin beyond int16 and come back, and its base cannot: its words count as saturated.
    """
    words = _words(width)
    piece, rest = place_words(words, window)
    begins = np.flatnonzero(np.diff(piece, prepend=-1))  # words lie in the order of their pieces
    counts = np.diff(begins, append=len(words))
    clipped = np.clip(exact, lo, hi)
    reached = np.abs(exact - clipped) <= ROUNDING  # the others are clipped: any line that goes on beyond will do
    reached |= np.repeat(~np.logical_or.reduceat(reached, begins), counts)
    first = np.minimum.reduceat(np.where(reached, np.arange(len(words)), len(words)), begins)
    last = np.maximum.reduceat(np.where(reached, np.arange(len(words)), -1), begins)
    lines = (clipped[last] - clipped[first]) / np.maximum(last - first, 1)
    shift = max(0, min(LARGEST_UNIT_SHIFT, fraction_bits(float(np.abs(lines).max()), INT16.highest)))
    slopes = np.clip(np.rint(np.ldexp(lines, shift)), INT16.lowest, INT16.highest)
    left = clipped - np.ldexp(np.repeat(slopes, counts) * rest, -shift)
    highest = np.maximum.reduceat(np.where(reached, left, -np.inf), begins)
    lowest = np.minimum.reduceat(np.where(reached, left, np.inf), begins)
    bases = np.rint((highest + lowest) / 2)
    held = (bases >= INT16.lowest) & (bases <= INT16.highest) | (piece[begins] >= SEGMENTS)
    pieces = np.zeros((PIECES, 2), np.int16)
    pieces[piece[begins], 0] = np.clip(bases, INT16.lowest, INT16.highest)
    pieces[piece[begins], 1] = slopes
    unit = Unit(use=Use.TABLE, window=window, shift=shift, lo=lo, hi=hi, pieces=pieces, bits=width.bits)
    stored, _ = unit.run(words.astype(width.dtype))
    off = np.abs(stored - clipped) * np.repeat(held, counts)
    return replace(unit, error=float(off.max())), off


def bits_to_constant(
    activation: Activation, target: TensorFormat, gain: float = 1.0, width: Word = INT16
) -> int | None:
    """Return the most fraction bits of words at whose ends a saturating function is constant.

    It is so to half a step of what is stored; `gain` is that of the words. None of other functions.

    >>> bits_to_constant(Activation(use=Use.TABLE, function="tanh"), TensorFormat(fraction_bits=14))
    12
    """
    if not activation.saturating or activation.below is None or activation.above is None:
        return None
    for bits in range(15, -16, -1):
        ends = TensorFormat(fraction_bits=bits, gain=gain).real(np.array([width.lowest, width.highest], np.int16))
        constants = np.array([activation.below.offset, activation.above.offset])
        if np.all(np.abs(target.steps(activation.real(ends) - constants)) <= ROUNDING):
            return bits
    return None


def awake(activation: Activation, size: float, largest: float, width: Word) -> float:
    """Return how far words of a size must reach for a function that is constant far below zero.

    Above zero that is where the function reaches what is stored at most, `largest`; below it where it is
    constant to half a step. All of `size` for other functions.

    >>> from .words import INT8
    >>> round(awake(Activation(use=Use.TABLE, function="silu"), 40.0, 8.0, INT8), 1)
    8.0
    """
    if activation.use is not Use.TABLE or activation.below is None or activation.below.slope or not 0 < size < np.inf:
        return size
    places = np.linspace(0, size, PLACES)
    above, below = activation.real(places), activation.real(-places)
    reached = places[np.maximum.accumulate(above) <= largest]
    asleep = np.abs(below - activation.below.offset) <= ROUNDING * largest / width.highest
    last = np.flatnonzero(~asleep)
    least = places[min(last[-1] + 1, PLACES - 1)] if len(last) else 0.0
    return float(min(size, max(least, reached[-1] if len(reached) else 0.0, size / PLACES)))
