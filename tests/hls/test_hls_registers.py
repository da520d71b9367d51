"""The register map and the descriptor: no overlaps, exact inverses, damage found; and what importing this room costs a board."""

from __future__ import annotations

import struct
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.hls import REGISTERS, WINDOW_BYTES, Access, Cause, DescriptorError, register
from fluidnpu.hls.program import DESCRIPTOR_BYTES, Descriptor

ONE = Descriptor(
    kind=0, in_offset=0, in_row_bytes=8, in_pixel_bytes=2, kernel_h=1, kernel_w=1, stride_h=1, stride_w=1, dilation_h=1,
    dilation_w=1, out_h=4, out_w=4, group_words=1, groups=1, columns=1, out_offset=64, out_row_bytes=8, out_pixel_bytes=2,
)  # fmt: skip


def test_registers_stand_apart_within_the_window():
    offsets = [register.offset for register in REGISTERS]
    assert len(set(offsets)) == len(offsets) == len({register.name for register in REGISTERS})
    assert all(offset % 4 == 0 and offset < WINDOW_BYTES for offset in offsets)
    assert WINDOW_BYTES & (WINDOW_BYTES - 1) == 0


@pytest.mark.parametrize("entry", REGISTERS, ids=lambda entry: entry.name)
def test_fields_do_not_overlap(entry):
    used = 0
    for field in entry.fields:
        assert not used & field.mask
        assert field.mask < 1 << 32
        used |= field.mask
    assert entry.access in set(Access)
    assert register(entry.name) is entry


@given(st.data())
def test_fields_give_back_what_they_are_given(data):
    entry = data.draw(st.sampled_from([entry for entry in REGISTERS if entry.fields]))
    field = data.draw(st.sampled_from(entry.fields))
    value = data.draw(st.integers(0, (1 << field.width) - 1))
    assert field.get(field.put(value)) == value
    with pytest.raises(ValueError, match=f"field {field.name} takes {field.width} bits"):
        field.put(1 << field.width)


def test_causes_fit_their_field():
    field = register("ERROR").field("CAUSE")
    assert all(cause <= field.mask for cause in Cause)
    with pytest.raises(KeyError, match="has no field NONE"):
        register("ERROR").field("NONE")


WORD32 = st.integers(0, (1 << 32) - 1)
BYTE, HALF = st.integers(1, 255), st.integers(1, 65535)
BOUNDS = st.tuples(st.integers(-32768, 32767), st.integers(-32768, 32767)).map(sorted)


@settings(max_examples=200)
@given(st.data())
def test_descriptors_come_back_as_they_were(data):
    low, high = data.draw(BOUNDS)
    sizes = {
        name: data.draw(BYTE) for name in ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w")
    }
    shapes = {name: data.draw(HALF) for name in ("out_h", "out_w", "group_words", "groups", "columns")}
    places = [f"{what}_{part}" for what in ("in", "out", "residual") for part in ("offset", "row_bytes", "pixel_bytes")]
    one = Descriptor(
        kind=data.draw(st.integers(0, 2)),
        **sizes,
        **shapes,
        **{name: data.draw(WORD32) for name in places},
        has_residual=data.draw(st.integers(0, 1)),
        shift=data.draw(st.integers(0, 47)),
        residual_shift=data.draw(st.integers(0, 31)),
        lo=low,
        hi=high,
        weights=tuple(data.draw(WORD32) for _ in range(4)),
    )
    assert Descriptor.unpack(one.pack()) == one
    assert sum(struct.unpack("<32I", one.pack())) % (1 << 32) == 0


@given(bit=st.integers(0, 8 * DESCRIPTOR_BYTES - 1))
def test_every_flipped_bit_is_found(bit):
    data = bytearray(ONE.pack())
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DescriptorError):
        Descriptor.unpack(bytes(data))


def test_descriptors_refuse_nonsense():
    for change, match in (
        ({"kernel_h": 0}, "kernel_h must lie in"),
        ({"columns": 65536}, "columns must lie in"),
        ({"kind": 3}, "kind must be"),
        ({"shift": 48}, "shifts must lie in"),
        ({"lo": 1, "hi": 0}, "must be ordered"),
    ):
        with pytest.raises(DescriptorError, match=match):
            replace(ONE, **change)
    with pytest.raises(DescriptorError, match="has 128 bytes, not 127"):
        Descriptor.unpack(ONE.pack()[:-1])


def test_a_board_needs_numpy_alone():
    """Importing the room must not load what only a workstation has."""
    code = "import fluidnpu.hls, sys; print(sorted({'jinja2', 'onnx', 'hls4ml', 'torch', 'pynq', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
