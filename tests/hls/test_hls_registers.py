"""The register map: no overlaps, fields are exact inverses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.hls import REGISTERS, WINDOW_BYTES, Access, Cause, Register, register


def test_registers_stand_apart_within_the_window() -> None:
    offsets = [register.offset for register in REGISTERS]
    assert len(set(offsets)) == len(offsets) == len({register.name for register in REGISTERS})
    assert all(offset % 4 == 0 and offset < WINDOW_BYTES for offset in offsets)
    assert WINDOW_BYTES & (WINDOW_BYTES - 1) == 0


@pytest.mark.parametrize("entry", REGISTERS, ids=lambda entry: entry.name)
def test_fields_do_not_overlap(entry: Register) -> None:
    used = 0
    for field in entry.fields:
        assert not used & field.mask
        assert field.mask < 1 << 32
        used |= field.mask
    assert entry.access in set(Access)
    assert register(entry.name) is entry


@given(st.data())
def test_fields_give_back_what_they_are_given(data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from([entry for entry in REGISTERS if entry.fields]))
    field = data.draw(st.sampled_from(entry.fields))
    value = data.draw(st.integers(0, (1 << field.width) - 1))
    assert field.get(field.put(value)) == value
    with pytest.raises(ValueError, match=f"field {field.name} takes {field.width} bits"):
        field.put(1 << field.width)


def test_causes_fit_their_field() -> None:
    field = register("ERROR").field("CAUSE")
    assert all(cause <= field.mask for cause in Cause)
    with pytest.raises(KeyError, match="has no field NONE"):
        register("ERROR").field("NONE")
