"""Tensors of the protocol: datatypes, their NumPy dtypes, and arrays from JSON lists, raw bytes and contents.

Every refusal is a ProtocolError of one sentence that names the tensor. BF16 becomes float32, which holds all
of its numbers; BYTES are texts, in arrays of objects.

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

from ...errors import ProtocolError, TooLargeError

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
}  # of the datatypes with a dtype of their own
OF_PIXELS = ("UINT8", "FP16", "BF16", "FP32", "FP64")  # the datatypes of an image's tensor
KNOWN = (*DTYPES, "BF16", "BYTES")  # in the order of the specification's table, and Triton's BF16
_DATATYPES = {dtype: name for name, dtype in DTYPES.items()}
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
}  # the field of InferTensorContents; FP16 and BF16 have none and travel as raw bytes only
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


def check_shape(name: str, shape: Any, most: int = MOST_ELEMENTS) -> tuple[int, ...]:
    """Return a shape of at most `most` elements. Raises ProtocolError, TooLargeError."""
    if not isinstance(shape, Sequence) or isinstance(shape, str) or not 1 <= len(shape) <= MOST_DIMENSIONS:
        raise ProtocolError(f"tensor '{name}' must have a shape of 1 to {MOST_DIMENSIONS} dimensions")
    if set(map(type, shape)) != {int} or min(shape) < 0:
        raise ProtocolError(f"tensor '{name}' must have a shape of whole numbers from 0, not {list(shape)!r:.80}")
    if max(shape) > MOST_ELEMENTS or math.prod(shape) > most:
        raise TooLargeError(f"tensor '{name}' must have at most {most} elements, and its shape has more")
    return tuple(shape)


def check_datatype(name: str, datatype: Any, taken: Sequence[str]) -> None:
    """Raise ProtocolError for a datatype that an input does not take."""
    if datatype not in taken:
        *others, last = taken
        listed = f"{', '.join(others)} or {last}" if others else last
        raise ProtocolError(f"tensor '{name}' must have a datatype of {listed}, not {datatype!r:.40}")


def datatype_of(array: Array) -> str:
    """Return the datatype of an array of any shape; texts are BYTES."""
    return "BYTES" if array.dtype.kind in "OU" else _DATATYPES[array.dtype]


def to_bytes(array: Array) -> bytes:
    """Return the little-endian bytes of an array of any shape; each text has its length in four bytes before
    it.

    >>> to_bytes(np.array(["cat"])) == bytes([3, 0, 0, 0]) + b"cat"
    True
    """
    if datatype_of(array) != "BYTES":
        return array.tobytes()
    texts = [str(text).encode() for text in array.reshape(-1)]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def _texts(name: str, sizes: tuple[int, ...], raw: bytes | memoryview) -> Array:
    """Invert `to_bytes` for texts. Raises ProtocolError."""
    at, texts = 0, list[str]()
    while at < len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 4], "little")
        texts.append(bytes(raw[at + 4 : end]).decode(errors="replace"))
        at = end
    if at != len(raw) or len(texts) != math.prod(sizes):
        raise ProtocolError(f"tensor '{name}' must hold {math.prod(sizes)} texts in its {len(raw)} bytes")
    return np.array(texts, np.object_).reshape(sizes)


def _dtype(name: str, datatype: Any) -> np.dtype[Any]:
    """Return the dtype in which numbers are kept. Raises ProtocolError."""
    check_datatype(name, datatype, KNOWN[:-1])
    return DTYPES["FP32" if datatype == "BF16" else datatype]


def from_bytes(name: str, datatype: Any, shape: Any, raw: bytes | memoryview, most: int = MOST_ELEMENTS) -> Array:
    """Return the array of this shape over little-endian bytes; BF16 and BYTES are copied, others read-only.

    Raises ProtocolError.
    """
    sizes = check_shape(name, shape, most)
    if datatype == "BYTES":
        return _texts(name, sizes, raw)
    dtype = _dtype(name, datatype)
    stored = np.dtype(np.uint16) if datatype == "BF16" else dtype
    wanted = math.prod(sizes) * stored.itemsize
    if len(raw) != wanted:
        raise ProtocolError(
            f"tensor '{name}' must hold {wanted} bytes for {datatype} of shape {list(sizes)}, not {len(raw)}"
        )
    numbers = np.frombuffer(raw, stored).reshape(sizes)
    return numbers if stored is dtype else (numbers.astype(np.uint32) << 16).view(dtype)  # BF16: the upper half of FP32


def from_list(name: str, datatype: Any, shape: Any, data: Any, most: int = MOST_ELEMENTS) -> Array:
    """Return the array of numbers in a flat or nested list. Raises ProtocolError.

    NumPy sees nothing but numbers, and no more of them than the shape has: it would pad texts to the longest.
    """
    dtype, sizes = _dtype(name, datatype), check_shape(name, shape, most)
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
    return _convert(name, datatype, dtype, sizes, data, kinds)


def from_contents(name: str, datatype: Any, shape: Any, contents: Any, most: int = MOST_ELEMENTS) -> Array:
    """Return the array, of this shape, of an InferTensorContents. Raises ProtocolError."""
    dtype, sizes = _dtype(name, datatype), check_shape(name, shape, most)
    if datatype not in CONTENTS:
        raise ProtocolError(f"tensor '{name}' must come as raw bytes, since {datatype} has no field in the contents")
    data = getattr(contents, CONTENTS[datatype])
    _check_count(name, sizes, len(data))
    return _convert(name, datatype, dtype, sizes, data, {{"b": bool, "f": float}.get(dtype.kind, int)})


def _check_count(name: str, sizes: tuple[int, ...], count: int) -> None:
    if count != math.prod(sizes):
        raise ProtocolError(
            f"tensor '{name}' must have {math.prod(sizes)} elements for shape {list(sizes)}, not {count}"
        )


def _convert(
    name: str, datatype: str, dtype: np.dtype[Any], sizes: tuple[int, ...], data: Sequence[Any], kinds: set[type]
) -> Array:
    """Check kind and range of numbers, and convert them without losing anything but float digits."""
    count = math.prod(sizes)
    fits = kinds <= ({bool} if dtype.kind == "b" else {int, float})
    wide = np.dtype(np.float64) if float in kinds or dtype.kind == "f" else dtype
    if wide.kind in "iu":  # so that what is out of range is told, or overflows
        wide = np.dtype(np.uint64 if datatype == "UINT64" else np.int64)
    try:
        values = np.fromiter(data, wide, count) if fits else None
    except OverflowError:
        raise ProtocolError(f"tensor '{name}' must hold {datatype}, and a number of its data is too large") from None
    if values is not None and dtype.kind in "iu" and wide.kind == "f" and not (np.rint(values) == values).all():
        values = None
    if values is None:
        kind = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise ProtocolError(f"tensor '{name}' must hold {datatype}, and its data are {kind}")
    if count and dtype.kind in "iu":
        limits, low, high = np.iinfo(dtype), values.min(), values.max()
        if low < limits.min or high > limits.max:
            raise ProtocolError(
                f"tensor '{name}' must hold {datatype} in {limits.min}..{limits.max}, "
                f"and its data reach from {low:g} to {high:g}"
            )
    with np.errstate(over="ignore"):
        return values.astype(dtype).reshape(sizes)
