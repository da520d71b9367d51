"""One call of an operator: its attributes, its opset and the arrays that it reads.

An operator of the tail is a function of an `OperatorCall` that returns an array, or a tuple of them. It
never writes into what it reads. Every result is bounded before it is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MOST_VALUES = 1 << 26  # of one array

DTYPES: Mapping[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "float32",
}  # fmt: skip  # by ONNX's number of an element type; bfloat16 is held as float32


@dataclass(frozen=True)
class OperatorCall:
    """The inputs and attributes of one call. `inputs` has None where an optional input is left out."""

    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 17
    outputs: int = 1

    def __getitem__(self, index: int) -> Array:
        """Return an input that must be there. Raises ValueError."""
        array = self.optional(index)
        if array is None:
            raise ValueError(f"input {index} is left out")
        return array

    def optional(self, index: int) -> Array | None:
        """Return an input, in its own shape, or None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def integer(self, name: str, default: int) -> int:
        """Return a whole number among the attributes."""
        return int(self.attributes.get(name, default))

    def number(self, name: str, default: float) -> float:
        """Return a number among the attributes."""
        return float(self.attributes.get(name, default))

    def text(self, name: str, default: str) -> str:
        """Return a text among the attributes."""
        return str(self.attributes.get(name, default))

    def integers(self, name: str, index: int | None = None) -> list[int] | None:
        """Return whole numbers of an attribute, or else of an input; None where neither is there."""
        if name in self.attributes:
            return [int(value) for value in self.attributes[name]]
        array = None if index is None else self.optional(index)
        return None if array is None else [int(value) for value in array.reshape(-1)]


Operator = Callable[[OperatorCall], "Array | tuple[Array, ...]"]


def bounded(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape of at most MOST_VALUES values. Raises ValueError for any other."""
    sizes = tuple(int(size) for size in shape)
    if min(sizes, default=0) < 0 or math.prod(sizes) > MOST_VALUES:
        raise ValueError(f"an array must have sizes from 0 and at most {MOST_VALUES} values, not the shape {sizes}")
    return sizes


def together(*arrays: Array) -> tuple[int, ...]:
    """Return the shape that arrays are broadcast to, bounded."""
    return bounded(np.broadcast_shapes(*(array.shape for array in arrays)))


def axis_of(axis: int, rank: int) -> int:
    """Return an axis from 0. Raises ValueError for one that the array has not."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} must be one of {rank}")
    return axis % max(rank, 1)
