"""Records of the exact model's twin: the same fields for Numba and for plain Python."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np
import pytest

from fluidnpu.dse.exact.twin import loop, records
from fluidnpu.dse.exact.twin.bus.stripes import Stripes
from fluidnpu.dse.exact.twin.parameters import Counts, LayerConstants, Setup


@dataclass(slots=True)
class Entry:
    """A record inside another."""

    due: int
    beats: int


@dataclass(slots=True)
class Port:
    """A number, an array, a record and an array of records."""

    level: int
    words: Annotated[list[int], 3]
    head: Entry
    entries: Annotated[list[Entry], 2]


def numbers(kind: type[Any]) -> int:
    """How many integers a record holds."""
    dtype = records.layout(kind)
    assert dtype.itemsize % 8 == 0
    return dtype.itemsize // 8


def test_a_record_is_as_large_as_its_fields() -> None:
    assert numbers(Port) == 1 + 3 + 2 + 2 * 2
    assert records.layout(Port)["entries"].subdtype == (records.layout(Entry), (2,))
    for kind in (loop.NpuState, Stripes, Setup, LayerConstants, Counts):
        assert records.layout(kind).names == tuple(field.name for field in fields(kind))
        assert records.layout(kind).isalignedstruct


def flat(value: Any) -> list[int]:
    """All integers of a plain record, in order."""
    if isinstance(value, int):
        return [value]
    parts = value if isinstance(value, list) else [getattr(value, name) for name in value.__slots__]
    return [number for part in parts for number in flat(part)]


@pytest.mark.parametrize("kind", [Port, loop.NpuState, Stripes, Counts])
def test_a_plain_record_has_the_same_numbers(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "COMPILED", False)
    one, other = records.zeros(kind, 2)
    assert flat(one) == [0] * numbers(kind)
    name = fields(kind)[0].name
    setattr(one, name, 7)
    assert getattr(other, name) != 7
    assert records.ints(3) == [0, 0, 0]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_table_has_the_values_of_its_rows_by_name(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "COMPILED", compiled)
    rows = [{"due": 3, "beats": 4, "other": 5}, {"beats": 2, "due": 1}]
    assert [records.values(row) for row in records.table(Entry, rows)] == [
        {"due": 3, "beats": 4},
        {"due": 1, "beats": 2},
    ]
    (counts,) = records.zeros(Counts, 1)
    assert records.values(counts)["read_beats"] == (0, 0, 0)
    with pytest.raises(KeyError, match="beats"):
        records.table(Entry, [{"due": 3}])


def test_numba_gets_one_block_of_memory() -> None:
    if not records.COMPILED:
        pytest.skip("without Numba records are plain objects")
    (array,) = (records.zeros(Port, 1),)
    assert isinstance(array, np.ndarray)
    assert array.flags["C_CONTIGUOUS"]
    assert not array.view(np.int64).any()
