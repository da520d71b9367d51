"""Stored words, int16 or int8, and the scale that gives their real numbers (ADR 3, 75)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Int16s = npt.NDArray[np.int16]
Stored = npt.NDArray[Any]  # int16 or int8, by the network's words
# As strings, since NumPy 1.21, that of PYNQ v3 images, cannot subscript these types.
Integers = npt.NDArray["np.integer[Any]"]
Doubles = npt.NDArray[np.float64]

MOST_FRACTION_BITS = 200
HEADROOM = 1.5  # unseen images may exceed the calibrated range by this factor before anything saturates


@dataclass(frozen=True, kw_only=True)
class Word:
    """A width of the stored words of a network, which are signed, and that of their sums.

    >>> INT8.lowest, INT8.highest, INT8.bytes
    (-128, 127, 1)
    """

    bits: int
    sum_bits: int  # of an accumulator, sign included
    largest_shift: int
    headroom: float  # by which unseen images may exceed the calibrated range before anything saturates

    @property
    def bytes(self) -> int:
        """Bytes of a word."""
        return self.bits // 8

    @property
    def lowest(self) -> int:
        """The least word."""
        return -(1 << (self.bits - 1))

    @property
    def highest(self) -> int:
        """The largest word."""
        return (1 << (self.bits - 1)) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the words."""
        return np.dtype(f"i{self.bytes}")

    def beyond(self, values: npt.NDArray[Any]) -> int:
        """Count the values, of any shape, that a word cannot hold."""
        if not values.size or (values.min() >= self.lowest and values.max() <= self.highest):
            return 0
        return int(np.count_nonzero((values < self.lowest) | (values > self.highest)))


INT16 = Word(bits=16, sum_bits=48, largest_shift=47, headroom=HEADROOM)
INT8 = Word(bits=8, sum_bits=32, largest_shift=31, headroom=1.0)
WORDS: Mapping[int, Word] = {word.bits: word for word in (INT16, INT8)}


@dataclass(frozen=True, kw_only=True)
class TensorFormat:
    """The scale of a tensor's stored values, and the one that means zero.

    >>> TensorFormat(fraction_bits=8).real(np.array([256, -128], np.int16))
    array([ 1. , -0.5])
    """

    fraction_bits: int
    gain: float = 1.0
    zero: int = 0

    def facts(self) -> dict[str, Any]:
        """Return the fields in plain types; a zero point only where there is one."""
        scale = {"fraction_bits": self.fraction_bits, "gain": self.gain}
        return {**scale, "zero": self.zero} if self.zero else scale

    def real(self, stored: Integers) -> npt.NDArray[np.float64]:
        """Return the real values of stored integers, in their shape."""
        steps = np.asarray(stored, np.float64) - self.zero if self.zero else np.asarray(stored, np.float64)
        return steps * (math.ldexp(1.0, -self.fraction_bits) * self.gain)

    def steps(self, real: Doubles) -> Doubles:
        """Return real values in steps of a stored integer, not rounded, in their shape."""
        steps = np.asarray(real, np.float64) * (math.ldexp(1.0, self.fraction_bits) / self.gain)
        return steps + self.zero if self.zero else steps

    def bounds(self, clip: tuple[float | None, float | None], word: Word = INT16) -> tuple[int, int]:
        """Return real bounds in stored integers, within a word; an end of it where there is none.

        >>> TensorFormat(fraction_bits=8).bounds((0.0, 6.0))
        (0, 1536)
        """
        low, high = clip
        factor = math.ldexp(1.0, self.fraction_bits) / self.gain
        least, most = word.lowest, word.highest
        lo = least if low is None else round(max(least, min(most, low * factor + self.zero)))
        hi = most if high is None else round(max(least, min(most, high * factor + self.zero)))
        return lo, hi


def fraction_bits(magnitude: float, largest: int) -> int:
    """Return the most fraction bits with which `magnitude` still fits `largest`; 15 for a magnitude of
    zero.

    >>> fraction_bits(1.0, 32767), fraction_bits(0.0, 32767), fraction_bits(40000.0, 32767)
    (14, 15, -1)
    """
    if magnitude == 0:
        return 15
    bits = math.floor(math.log2(largest / magnitude))
    while magnitude * 2.0**bits > largest:
        bits -= 1
    return min(bits, MOST_FRACTION_BITS)
