"""The inputs that a resize reads along an axis, and their weights, in the words of ONNX; exact.

>>> half = Sampling(linear=True, coordinates="half_pixel")
>>> half.weights(1, size=2, outputs=4, scale=Fraction(2))
(0, (Fraction(3, 4), Fraction(1, 4)))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

COORDINATES = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
MOST_DENOMINATOR = 128  # of a scale that a file has as a float32


def exact_scale(scale: float) -> Fraction:
    """Return the fraction that a float32 scale stands for: 1/3 and not the float beside it."""
    near = Fraction(scale).limit_denominator(MOST_DENOMINATOR)
    return near if np.float32(float(near)) == np.float32(scale) else Fraction(scale)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """The way in which a resize finds and weighs inputs, in the words of ONNX."""

    linear: bool
    coordinates: str
    rounding: str = "round_prefer_floor"

    def rate(self, size: int, outputs: int, scale: Fraction) -> Fraction:
        """Return the inputs from an output to the next, along an axis of more than one input and output."""
        return Fraction(size - 1, outputs - 1) if self.coordinates == "align_corners" else 1 / scale

    def weights(self, output: int, size: int, outputs: int, scale: Fraction) -> tuple[int, tuple[Fraction, ...]]:
        """Return the first input that an output reads, and the weights from there on."""
        at = self._at(output, size, outputs, scale)
        if not self.linear:
            return min(size - 1, max(0, self._rounded(at))), (Fraction(1),)
        at = min(Fraction(size - 1), max(Fraction(0), at))
        first, part = math.floor(at), at - math.floor(at)
        return first, (Fraction(1),) if part == 0 else (1 - part, part)

    def _at(self, output: int, size: int, outputs: int, scale: Fraction) -> Fraction:
        half = Fraction(1, 2)
        if self.coordinates == "align_corners":
            return output * Fraction(size - 1, max(1, outputs - 1))
        if self.coordinates == "asymmetric":
            return output / scale
        if self.coordinates == "pytorch_half_pixel" and outputs == 1:
            return Fraction(0)
        at = (output + half) / scale - half
        if self.coordinates == "half_pixel_symmetric":
            at += Fraction(size, 2) * (1 - Fraction(outputs) / (scale * size))
        return at

    def _rounded(self, at: Fraction) -> int:
        half = Fraction(1, 2)
        return {
            "round_prefer_floor": lambda: math.ceil(at - half),
            "round_prefer_ceil": lambda: math.floor(at + half),
            "floor": lambda: math.floor(at),
            "ceil": lambda: math.ceil(at),
        }[self.rounding]()
