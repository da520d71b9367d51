"""The activation unit in integers: what it makes of the core's words, exactly (ADR 69, 75).

>>> unit = Unit(use=Use.SLOPE, shift=15, pieces=np.array([[0, 8192]], np.int16))  # a quarter where negative
>>> unit.run(np.array([[-100], [-99], [7]], np.int16))[0].ravel().tolist()
[-25, -25, 7]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..errors import QuantisationError
from ..graph.activations import Use
from .words import INT16, WORDS, Int16s, Stored, Word

Int32s = npt.NDArray[np.int32]

SEGMENTS = 256  # of a table's window
BELOW, ABOVE = SEGMENTS, SEGMENTS + 1  # the pieces on either side of it
PIECES = SEGMENTS + 2
WINDOWS = range(8, 16)  # p: segments cover [-2**p, 2**p)
LARGEST_UNIT_SHIFT = 31


@dataclass(frozen=True, kw_only=True, eq=False)
class Unit:
    """The unit's work for one layer.

    `pieces` int16 (n, 2) hold base and slope: the 258 pieces of a table, one for each channel of a slope
    (whose bases are 0) or an affine, none for a product. `window` is a table's p. `shift` is that of all
    products. `lo` and `hi` clip what is stored, words of so many `bits`. `error` is the largest, in steps of
    what is stored, beside what the activation makes of the same word, where that fits a word; half a step is
    rounding alone.
    """

    use: Use
    window: int = 0
    shift: int = 0
    lo: int = INT16.lowest
    hi: int = INT16.highest
    pieces: Int16s = field(default_factory=lambda: np.zeros((0, 2), np.int16), repr=False)
    error: float = 0.5
    bits: int = INT16.bits

    def __post_init__(self) -> None:
        """Refuse what the hardware cannot hold. Raises QuantisationError."""
        if self.bits not in WORDS:
            raise QuantisationError(f"the activation unit has words of 16 or 8 bits, not {self.bits}")
        table = self.use is Use.TABLE
        count = PIECES if table else 0 if self.use is Use.PRODUCT else max(1, len(self.pieces))
        if self.pieces.shape != (count, 2) or self.pieces.dtype != np.int16:
            raise QuantisationError(
                f"the activation unit needs int16 pieces {(count, 2)} for a {self.use}, not {self.pieces.dtype} "
                f"{self.pieces.shape}"
            )
        if self.use is Use.SLOPE and self.pieces[:, 0].any():
            raise QuantisationError("the activation unit adds no base to a slope, and its pieces have one")
        if not (self.window in WINDOWS if table else self.window == 0):
            raise QuantisationError(
                f"a table's window must be {WINDOWS[0]}..{WINDOWS[-1]}, and 0 without a table, not {self.window}"
            )
        if not 0 <= self.shift <= LARGEST_UNIT_SHIFT:
            raise QuantisationError(f"the activation unit needs a shift of 0..{LARGEST_UNIT_SHIFT}, not {self.shift}")
        if not self.word.lowest <= self.lo <= self.hi <= self.word.highest:
            raise QuantisationError(
                f"the activation unit needs int{self.bits} bounds lo <= hi, not {self.lo} and {self.hi}"
            )

    @property
    def word(self) -> Word:
        """The kind of its words."""
        return WORDS[self.bits]

    def run(self, x: Stored, residual: Stored | None = None) -> tuple[Stored, int]:
        """Return what the unit stores for words (..., channels), and how many of them saturated.

        A product takes its `residual`, of a shape that broadcasts to x's. What is stored saturates where a
        word cannot hold it before the clip.
        """
        if self.use is Use.TABLE:
            out, beyond = self._table
            at = np.ascontiguousarray(x, np.int16).view(np.uint16)
            return out[at], int(np.count_nonzero(beyond[at])) if beyond.any() else 0
        return self._stored(self._lines(x, residual))

    def _lines(self, x: Stored, residual: Stored | None) -> Int32s:
        if self.use is Use.PRODUCT:
            if residual is None:
                raise QuantisationError("the activation unit must be given what it multiplies by, and none came")
            return _rounded(np.multiply(x, residual, dtype=np.int32), self.shift)
        base, slope = self.pieces.T
        value = _rounded(np.multiply(x, slope, dtype=np.int32), self.shift)
        return np.where(x < 0, value, x).astype(np.int32) if self.use is Use.SLOPE else value + base

    def _stored(self, value: Int32s) -> tuple[Stored, int]:
        return np.clip(value, self.lo, self.hi).astype(self.word.dtype), self.word.beyond(value)

    @cached_property
    def _table(self) -> tuple[Stored, npt.NDArray[np.bool_]]:
        """What is stored for every int16, and whether it saturated, both (65536,) by its bits."""
        words = np.arange(1 << 16, dtype=np.uint16).view(np.int16).astype(np.int32)
        piece, rest = place_words(words, self.window)
        base, slope = self.pieces.astype(np.int32).T
        value = base[piece] + _rounded(slope[piece] * rest, self.shift)
        return self._stored(value)[0], np.asarray((value < self.word.lowest) | (value > self.word.highest))


def place_words(words: Int32s, window: int) -> tuple[Int32s, Int32s]:
    """Return the piece of a table that each word belongs to, and its distance from where that piece begins.

    Both have the shape of the words. The piece below the window begins where the window does, and its
    distances are negative.

    >>> [part.tolist() for part in place_words(np.array([-300, -256, -253, 255, 256]), 8)]
    [[256, 0, 1, 255, 257], [-44, 0, 1, 1, 0]]
    """
    half, bits = 1 << window, window - 7
    piece = np.where(words < -half, BELOW, np.where(words >= half, ABOVE, (words + half) >> bits))
    begin = np.where(piece == BELOW, -half, np.where(piece == ABOVE, half, (piece << bits) - half))
    return piece, words - begin


def _rounded(value: Int32s, shift: int) -> Int32s:
    """Return (value + (1 << shift >> 1)) >> shift, without that sum, which may need a 33rd bit."""
    return value if shift == 0 else ((value >> (shift - 1)) + 1) >> 1
