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


FILTERED = replace(
    ONE, filter_kernel=5, filter_stride=2, filter_top=2, filter_left=2, filter_rows=3, walk_h=5, walk_w=5, pool_pitch=1,
    filter_shift=11, filter_lo=-7, filter_hi=9, filter_table=1, filter_window=8, filter_unit_shift=3, filter_unit_lo=-3,
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"filter_kernel": 0}, "filter_rows and filter_table must be 0 without a filter, not 3 and 1"),
        ({"filter_kernel": 8}, "2 to 7 taps a side and a stride of 1 or 2, not 8 and 2"),
        ({"filter_kernel": 1}, "2 to 7 taps a side and a stride of 1 or 2, not 1 and 2"),
        ({"filter_stride": 3}, "a stride of 1 or 2, not 5 and 3"),
        ({"groups": 2}, "behind a GEMM of one group .* groups 2"),
        ({"kind": 1}, "behind a GEMM of one group .* kind 1"),
        ({"merged": 1}, "a GEMM of one group that runs .* merged 1"),
        ({"pool_kernel": 2}, "a GEMM of one group that runs and has no pool, .* pool_kernel 2"),
        ({"filter_top": 5}, "less than 5 rows and columns of padding, not 5 and 2"),
        ({"filter_left": 6}, "less than 5 rows and columns of padding, not 2 and 6"),
        ({"walk_h": 3}, r"walk_h must lie in 4\.\.8, not 3"),
        ({"walk_w": 9}, r"walk_w must lie in 4\.\.8, not 9"),
        ({"filter_rows": 0}, "filter_rows of 1 or more, not 0"),
        ({"filter_shift": 48}, "filter_shift must be at most 47, not 48"),
        ({"filter_window": 7}, r"filter_window must be 8\.\.15 with a table and 0 without, not 7 with filter_table 1"),
        ({"filter_table": 0}, "0 without, not 8 with filter_table 0"),
        ({"filter_table": 0, "filter_window": 7}, "0 without, not 7 with filter_table 0"),
        ({"filter_hi": -8}, r"filter_lo and filter_hi must be ordered int16, not -7\.\.-8"),
        ({"filter_unit_hi": -4}, r"filter_unit_lo and filter_unit_hi must be ordered int16, not -3\.\.-4"),
    ],
)
def test_a_filter_that_contradicts_itself_is_refused(change: dict[str, Any], match: str) -> None:
    assert Descriptor.unpack(FILTERED.pack()) == FILTERED
    assert FILTERED.pooled_hw == (2, 2)
    with pytest.raises(DescriptorError, match=match):
        replace(FILTERED, **change)


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
