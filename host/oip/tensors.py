"""Tensors of the protocol: datatypes, their NumPy dtypes, and arrays from JSON lists, raw bytes and contents.

Every refusal is a ProtocolError of one sentence that names the tensor.

>>> from_list("x", "UINT8", [1, 2], [[7, 255]]).tolist()
[[7, 255]]
>>> from_list("x", "UINT8", [2], [7, 256])
Traceback (most recent call last):
fluidnpu.host.errors.ProtocolError: tensor 'x' must hold UINT8 in 0..255, and its data reach from 7 to 256
>>> from_bytes("x", "FP32", [2], bytes(7))
Traceback (most recent call last):
fluidnpu.host.errors.ProtocolError: tensor 'x' must hold 8 bytes for FP32 of shape [2], not 7
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ProtocolError, TooLargeError

Array = npt.NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
}
CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}  # the field of InferTensorContents; FP16 has none and travels as raw bytes only
MOST_DIMENSIONS = 8
MOST_ELEMENTS = 1 << 28


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Name, datatype and shape of a model's input or output; -1 is any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the metadata as the protocol writes it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


def checked_shape(name: str, shape: Any, most: int = MOST_ELEMENTS) -> tuple[int, ...]:
    """Return a shape of at most `most` elements. Raises ProtocolError, TooLargeError."""
    if not isinstance(shape, Sequence) or isinstance(shape, str) or not 1 <= len(shape) <= MOST_DIMENSIONS:
        raise ProtocolError(f"tensor '{name}' must have a shape of 1 to {MOST_DIMENSIONS} dimensions")
    if set(map(type, shape)) != {int} or min(shape) < 0:
        raise ProtocolError(f"tensor '{name}' must have a shape of whole numbers from 0, not {list(shape)!r:.80}")
    if max(shape) > MOST_ELEMENTS or math.prod(shape) > most:
        raise TooLargeError(f"tensor '{name}' must have at most {most} elements, and its shape has more")
    return tuple(shape)


def dtype_of(name: str, datatype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of a datatype. Raises ProtocolError."""
    if not isinstance(datatype, str) or datatype not in DTYPES:
        raise ProtocolError(f"tensor '{name}' must have a datatype of {', '.join(DTYPES)}, not {datatype!r:.40}")
    return DTYPES[datatype]


def from_bytes(name: str, datatype: Any, shape: Any, raw: bytes | memoryview, most: int = MOST_ELEMENTS) -> Array:
    """Return the array over little-endian bytes, without a copy; it is read-only. Raises ProtocolError."""
    dtype, sizes = dtype_of(name, datatype), checked_shape(name, shape, most)
    wanted = math.prod(sizes) * dtype.itemsize
    if len(raw) != wanted:
        raise ProtocolError(
            f"tensor '{name}' must hold {wanted} bytes for {datatype} of shape {list(sizes)}, not {len(raw)}"
        )
    return np.frombuffer(raw, dtype).reshape(sizes)


def from_list(name: str, datatype: Any, shape: Any, data: Any, most: int = MOST_ELEMENTS) -> Array:
    """Return the array of numbers in a flat or nested list. Raises ProtocolError.

    NumPy sees nothing but numbers, and no more of them than the shape has: it would pad texts to the longest.
    """
    dtype, sizes = dtype_of(name, datatype), checked_shape(name, shape, most)
    if not isinstance(data, list):
        raise ProtocolError(f"tensor '{name}' must have its data as a list, not {type(data).__name__}")
    count = math.prod(sizes)
    kinds = set(map(type, data))
    while kinds == {list}:
        lengths = set(map(len, data))
        if len(lengths) > 1 or len(data) * max(lengths) > count:
            raise ProtocolError(f"tensor '{name}' must have {count} numbers in a regular list for shape {list(sizes)}")
        data = list(chain.from_iterable(data))
        kinds = set(map(type, data))
    if not kinds <= {int, float, bool}:
        raise ProtocolError(f"tensor '{name}' must have data that are numbers in a regular list")
    _check_count(name, sizes, len(data))
    return _converted(name, datatype, dtype, sizes, data, kinds)


def from_contents(name: str, datatype: Any, shape: Any, contents: Any, most: int = MOST_ELEMENTS) -> Array:
    """Return the array of an InferTensorContents. Raises ProtocolError."""
    dtype, sizes = dtype_of(name, datatype), checked_shape(name, shape, most)
    if datatype not in CONTENTS:
        raise ProtocolError(f"tensor '{name}' must come as raw bytes, since {datatype} has no field in the contents")
    data = getattr(contents, CONTENTS[datatype])
    _check_count(name, sizes, len(data))
    return _converted(name, datatype, dtype, sizes, data, {{"b": bool, "f": float}.get(dtype.kind, int)})


def _check_count(name: str, sizes: tuple[int, ...], count: int) -> None:
    if count != math.prod(sizes):
        raise ProtocolError(
            f"tensor '{name}' must have {math.prod(sizes)} elements for shape {list(sizes)}, not {count}"
        )


def _converted(
    name: str, datatype: str, dtype: np.dtype[Any], sizes: tuple[int, ...], data: Sequence[Any], kinds: set[type]
) -> Array:
    """Check kind and range of numbers, and convert them without losing anything but float digits."""
    count = math.prod(sizes)
    fits = kinds <= ({bool} if dtype.kind == "b" else {int, float})
    wide = np.dtype(np.float64) if float in kinds or dtype.kind == "f" else dtype
    if wide.kind in "iu":  # so that what is out of range is told, or overflows
        wide = np.dtype(np.uint64 if datatype == "UINT64" else np.int64)
    try:
        found = np.fromiter(data, wide, count) if fits else None
    except OverflowError:
        raise ProtocolError(f"tensor '{name}' must hold {datatype}, and a number of its data is too large") from None
    if found is not None and dtype.kind in "iu" and wide.kind == "f" and not (np.rint(found) == found).all():
        found = None
    if found is None:
        kind = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise ProtocolError(f"tensor '{name}' must hold {datatype}, and its data are {kind}")
    if count and dtype.kind in "iu":
        limits, low, high = np.iinfo(dtype), found.min(), found.max()
        if low < limits.min or high > limits.max:
            raise ProtocolError(
                f"tensor '{name}' must hold {datatype} in {limits.min}..{limits.max}, "
                f"and its data reach from {low:g} to {high:g}"
            )
    with np.errstate(over="ignore"):
        return found.astype(dtype).reshape(sizes)
