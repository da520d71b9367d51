"""Descriptors: packing is exactly invertible, damage is found."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.hls import DescriptorError
from fluidnpu.hls.program import DESCRIPTOR_BYTES, Descriptor

ONE = Descriptor(
    kind=0, in_offset=0, in_row_bytes=8, in_pixel_bytes=2, kernel_h=1, kernel_w=1, stride_h=1, stride_w=1, dilation_h=1,
    dilation_w=1, out_h=4, out_w=4, group_words=1, groups=1, columns=1, out_offset=64, out_row_bytes=8, out_pixel_bytes=2,
)  # fmt: skip


WORD32 = st.integers(0, (1 << 32) - 1)


BYTE, HALF = st.integers(1, 255), st.integers(1, 65535)


BOUNDS = st.tuples(st.integers(-32768, 32767), st.integers(-32768, 32767)).map(sorted)


@settings(max_examples=200)
@given(st.data())
def test_descriptors_come_back_as_they_were(data: st.DataObject) -> None:
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
        weights=data.draw(st.tuples(WORD32, WORD32, WORD32, WORD32)),
    )
    assert Descriptor.unpack(one.pack()) == one
    assert struct.unpack("<32I", one.pack())[31] == zlib.crc32(one.pack()[:124])


@given(bit=st.integers(0, 8 * DESCRIPTOR_BYTES - 1))
def test_every_flipped_bit_is_found(bit: int) -> None:
    data = bytearray(ONE.pack())
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DescriptorError):
        Descriptor.unpack(bytes(data))


def test_descriptors_refuse_nonsense() -> None:
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"kernel_h": 0}, "kernel_h must lie in"),
        ({"columns": 65536}, "columns must lie in"),
        ({"kind": 3}, "kind must be"),
        ({"shift": 48}, "shifts must lie in"),
        ({"lo": 1, "hi": 0}, "must be ordered"),
    )
    for change, match in refused:
        with pytest.raises(DescriptorError, match=match):
            replace(ONE, **change)
    with pytest.raises(DescriptorError, match="has 128 bytes, not 127"):
        Descriptor.unpack(ONE.pack()[:-1])
