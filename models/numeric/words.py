"""Stored words: int16, and the scale that gives their real numbers (ADR 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any  # noqa: F401 -- in a string

import numpy as np
import numpy.typing as npt

Int16s = npt.NDArray[np.int16]
# As strings, since NumPy 1.21, that of PYNQ v3 images, cannot subscript these types.
Integers = npt.NDArray["np.integer[Any]"]
Doubles = npt.NDArray[np.float64]

INT16_MIN, INT16_MAX = -(1 << 15), (1 << 15) - 1
MOST_FRACTION_BITS = 200
HEADROOM = 1.5  # unseen images may exceed the calibrated range by this factor before anything saturates


@dataclass(frozen=True, kw_only=True)
class Format:
    """The scale of a tensor's int16 values.

    >>> Format(fraction_bits=8).real(np.array([256, -128], np.int16))
    array([ 1. , -0.5])
    """

    fraction_bits: int
    gain: float = 1.0

    def real(self, stored: Integers) -> npt.NDArray[np.float64]:
        """The real values of stored integers."""
        return np.asarray(stored, np.float64) * (math.ldexp(1.0, -self.fraction_bits) * self.gain)

    def steps(self, real: Doubles) -> Doubles:
        """Return real values in steps of a stored integer, not rounded."""
        return np.asarray(real, np.float64) * (math.ldexp(1.0, self.fraction_bits) / self.gain)

    def bounds(self, clip: tuple[float | None, float | None]) -> tuple[int, int]:
        """Return real bounds in stored integers, within int16; an end of int16 where there is none.

        >>> Format(fraction_bits=8).bounds((0.0, 6.0))
        (0, 1536)
        """
        low, high = clip
        factor = math.ldexp(1.0, self.fraction_bits) / self.gain
        lo = INT16_MIN if low is None else round(max(INT16_MIN, min(INT16_MAX, low * factor)))
        hi = INT16_MAX if high is None else round(max(INT16_MIN, min(INT16_MAX, high * factor)))
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
