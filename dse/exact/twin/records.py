"""Records: the registers of a module by name, laid out for Numba where it is installed.

A module's registers are a dataclass of integers, of other records, and of arrays whose size stands in the
annotation: `Annotated[list[int], 64]`. Numba gets a nested structured type of NumPy with the same fields,
and plain Python the dataclass itself, with lists for arrays. The functions of this package are written for
both, and a type checker knows every field.

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
jit = Jit(__package__, forceinline=True, **_OPTIONS)  # what runs in every cycle
jit_apart = Jit(__package__, forceinline=False, **_OPTIONS)  # what does not, or is long and called from several places


def _parts(kind: type[Any]) -> Iterator[tuple[str, type[Any], int]]:
    """Each field of a record: name, type of an element, size (0: no array)."""
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
    """Return NumPy's structured type with the fields of a record class; integers have 64 bits."""
    if kind not in _LAYOUTS:
        places: list[tuple[Any, ...]] = []
        for name, element, size in _parts(kind):
            dtype = np.dtype(np.int64) if element is int else layout(element)
            places.append((name, dtype, (size,)) if size else (name, dtype))
        _LAYOUTS[kind] = np.dtype(places, align=True)
    return _LAYOUTS[kind]


def zeros(kind: type[R], size: int) -> Sequence[R]:
    """Make an array of records whose fields are all zero, in the form that the loop takes."""
    if COMPILED:
        return cast(Sequence[R], np.zeros(size, layout(kind)))
    return [_zero(kind) for _ in range(size)]


def _zero(kind: type[R]) -> R:
    def value(element: type[Any]) -> Any:
        return 0 if element is int else _zero(element)

    return kind(**{n: [value(e) for _ in range(size)] if size else value(e) for n, e, size in _parts(kind)})


def values(record: Any) -> dict[str, Any]:
    """Give the fields of a record by name, with tuples for arrays."""
    names = record.dtype.names if COMPILED else record.__slots__
    pairs = zip(names, record.item(), strict=True) if COMPILED else ((name, getattr(record, name)) for name in names)
    return {name: value if isinstance(value, int) else tuple(int(v) for v in value) for name, value in pairs}


def table(kind: type[R], rows: Sequence[Mapping[str, Any]]) -> Sequence[R]:
    """Make an array of records from values by name; a row may hold more than the record has fields."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # records are dataclasses
    if COMPILED:
        return cast(Sequence[R], np.array([tuple(row[name] for name in names) for row in rows], layout(kind)))
    return [kind(**{name: row[name] for name in names}) for row in rows]


def ints(size: int) -> list[int]:
    """Make an array of zeros, for what has another size in every design."""
    if COMPILED:
        return cast(list[int], np.zeros(size, np.int64))
    return [0] * size
