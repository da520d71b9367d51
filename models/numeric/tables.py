"""Tables of the activation unit: pieces that come nearest to a function, and how near they come (ADR 69).

Each piece is the line through the ends of its words, moved by half of what it is off: the best line for what
bends one way. The window is the one of all eight whose largest error is least.

>>> from ..graph.activations import Activation, Use
>>> unit = table(Activation(use=Use.TABLE, function="silu"), Scale(bits=9), Scale(bits=9))  # words of +-64
>>> unit.window, round(unit.error, 2)
(12, 0.86)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..graph.activations import Activation, Clip
from .unit import INT16_MAX, INT16_MIN, LARGEST_UNIT_SHIFT, PIECES, WINDOWS, Unit, placed

Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

WORDS = np.arange(INT16_MIN, INT16_MAX + 1, dtype=np.int32)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The scale of stored words: a real number is the word times 2**-bits times the gain."""

    bits: int
    gain: float = 1.0

    def stored(self, real: Doubles) -> Doubles:
        """Return real numbers in steps of the word, not rounded."""
        return np.ldexp(real / self.gain, self.bits)

    def real(self, words: Integers) -> Doubles:
        """Return the real numbers of words."""
        return np.ldexp(words.astype(np.float64), -self.bits) * self.gain

    def bounds(self, clip: Clip) -> tuple[int, int]:
        """Return real bounds in whole steps, within int16."""
        low, high = (None if bound is None else float(self.stored(np.float64(bound))) for bound in clip)  # type: ignore[arg-type]
        lo = INT16_MIN if low is None else round(max(INT16_MIN, min(INT16_MAX, low)))
        hi = INT16_MAX if high is None else round(max(INT16_MIN, min(INT16_MAX, high)))
        return lo, hi


@lru_cache(maxsize=256)
def table(activation: Activation, source: Scale, target: Scale) -> Unit:
    """Return the unit for a table's function of words of one scale, stored in another."""
    lo, hi = target.bounds(activation.bounds)
    exact = target.stored(activation.real(source.real(WORDS)))
    tables = (_fitted(exact, window, lo, hi, activation) for window in WINDOWS)
    return min(tables, key=lambda unit: unit.error)


def _fitted(exact: Doubles, window: int, lo: int, hi: int, activation: Activation) -> Unit:
    """Return the table with a window for the exact values, in steps, of every word."""
    piece, rest = placed(WORDS, window)
    begins = np.flatnonzero(np.diff(piece, prepend=-1))  # words lie in the order of their pieces
    counts = np.diff(begins, append=len(WORDS))
    clipped = np.clip(exact, lo, hi)
    reached = np.abs(exact - clipped) <= 0.5  # the others are clipped: any line that goes on beyond will do
    none = np.maximum.reduceat(reached, begins) == 0
    reached |= np.repeat(none, counts)
    first = np.minimum.reduceat(np.where(reached, np.arange(len(WORDS)), len(WORDS)), begins)
    last = np.maximum.reduceat(np.where(reached, np.arange(len(WORDS)), -1), begins)
    lines = (clipped[last] - clipped[first]) / np.maximum(last - first, 1)
    steepest = float(np.abs(lines).max())
    shift = LARGEST_UNIT_SHIFT if steepest == 0 else math.floor(math.log2(INT16_MAX / steepest))
    shift = max(0, min(LARGEST_UNIT_SHIFT, shift))
    slopes = np.clip(np.rint(np.ldexp(lines, shift)), INT16_MIN, INT16_MAX)
    off = clipped - np.ldexp(np.repeat(slopes, counts) * rest, -shift)
    highest = np.maximum.reduceat(np.where(reached, off, -np.inf), begins)
    lowest = np.minimum.reduceat(np.where(reached, off, np.inf), begins)
    pieces = np.zeros((PIECES, 2), np.int16)
    pieces[piece[begins], 0] = np.clip(np.rint((highest + lowest) / 2), INT16_MIN, INT16_MAX)
    pieces[piece[begins], 1] = slopes
    unit = Unit(use=activation.use, window=window, shift=shift, lo=lo, hi=hi, pieces=pieces)
    stored, _ = unit.run(WORDS.astype(np.int16))
    return replace(unit, error=float(np.abs(stored - clipped).max()))
