"""Records: the registers of a module as named fields, for Numba and for plain Python.

A record is a dataclass whose fields are integers, records, or arrays with their size in the annotation, as in
`Annotated[list[int], 64]`. Numba gets a nested structured type of NumPy with the same fields, and plain
Python the dataclass itself. The functions of this package run on both, and a type checker knows the fields.

>>> from dataclasses import dataclass
>>> @dataclass(slots=True)
... class Fifo:
...     level: int
...     words: Annotated[list[int], 4]
>>> layout(Fifo)["words"].shape
(4,)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np

from ...jit import Jit, has_numba

R = TypeVar("R")
COMPILED = has_numba()
_OPTIONS = {"error_model": "numpy", "nogil": True, "_nrt": False}
jit = Jit(__package__, forceinline=True, **_OPTIONS)  # most functions: a call costs more than many of them do
jit_apart = Jit(__package__, forceinline=False, **_OPTIONS)  # those not called in each cycle, and long ones of stripes


def _parts(kind: type[Any]) -> Iterator[tuple[str, type[Any], int]]:
    """Yield name, type of an element, and size (0: no array) of each field."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint = hints[field.name]
        if get_origin(hint) is Annotated:
            array, size = get_args(hint)
            yield field.name, get_args(array)[0], size
        else:
            yield field.name, hint, 0


_LAYOUTS: dict[type[Any], np.dtype[Any]] = {}


def layout(kind: type[Any]) -> np.dtype[Any]:
    """Lay out a record as a structured type of NumPy; integers have 64 bits."""
    if kind not in _LAYOUTS:
        places: list[tuple[Any, ...]] = []
        for name, element, size in _parts(kind):
            dtype = np.dtype(np.int64) if element is int else layout(element)
            places.append((name, dtype, (size,)) if size else (name, dtype))
        _LAYOUTS[kind] = np.dtype(places, align=True)
    return _LAYOUTS[kind]


def zeros(kind: type[R], size: int) -> Sequence[R]:
    """Make an array of records with all fields zero, in the form that the loop takes."""
    if COMPILED:
        records: Any = np.zeros(size, layout(kind))
        return cast("Sequence[R]", records)
    return [_zero(kind) for _ in range(size)]


def _zero(kind: type[R]) -> R:
    def value(element: type[Any]) -> Any:
        return 0 if element is int else _zero(element)

    return kind(**{n: [value(e) for _ in range(size)] if size else value(e) for n, e, size in _parts(kind)})


def values(record: Any) -> dict[str, Any]:
    """Read the fields of a record by name; arrays become tuples."""
    names = record.dtype.names if COMPILED else record.__slots__
    pairs = zip(names, record.item(), strict=True) if COMPILED else ((name, getattr(record, name)) for name in names)
    return {name: value if isinstance(value, int) else tuple(int(v) for v in value) for name, value in pairs}


def table(kind: type[R], rows: Sequence[Mapping[str, Any]]) -> Sequence[R]:
    """Make an array of records from values by name; names without a field are ignored."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # records are dataclasses
    if COMPILED:
        records: Any = np.array([tuple(row[name] for name in names) for row in rows], layout(kind))
        return cast("Sequence[R]", records)
    return [kind(**{name: row[name] for name in names}) for row in rows]


def ints(size: int) -> list[int]:
    """Make an array of zeros whose size depends on the design."""
    if COMPILED:
        return cast("list[int]", np.zeros(size, np.int64))
    return [0] * size
