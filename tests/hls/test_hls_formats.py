"""The table of bit formats: inverses, refusals, records and cost models that agree, one more row."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.boards import load_board
from fluidnpu.dse import Mode
from fluidnpu.dse.testing import tiny_design
from fluidnpu.hls import COUNTERS, DescriptorError, FormatError, register
from fluidnpu.hls.core.streams import Command
from fluidnpu.hls.formats import DESCRIPTOR, FBCB, LAYER, TILE, Bits, Value
from fluidnpu.hls.formats.format import Format
from fluidnpu.hls.formats.table import CORE_COMMAND, FORMATS
from fluidnpu.hls.program import DESCRIPTOR_BYTES, Descriptor
from fluidnpu.hls.views.formats import render_format_header, render_format_package, render_format_table

# -- packing


def some_value(bits: Bits) -> st.SearchStrategy[Value]:
    """Any value that fits a field, whether the hardware obeys it or not."""
    lowest = -(1 << bits.width - 1) if bits.signed else 0
    number = st.integers(lowest, lowest + (1 << bits.width) - 1)
    return number if bits.count == 1 else st.tuples(*[number] * bits.count)


@given(st.data())
def test_every_format_gives_back_what_it_is_given(data: st.DataObject) -> None:
    packed = data.draw(st.sampled_from(FORMATS))
    values = {bits.name: data.draw(some_value(bits)) for bits in packed.fields}
    word = packed.pack(values)
    assert packed.unpack(word) == values
    assert word >> packed.bits == 0
    assert sum(width for _, width in packed.gaps()) + sum(b.count * b.width for b in packed.fields) == packed.bits
    assert all(word >> low & (1 << width) - 1 == 0 for low, width in packed.gaps())


@given(st.data())
def test_a_field_lies_where_the_table_says(data: st.DataObject) -> None:
    packed = data.draw(st.sampled_from(FORMATS))
    bits = data.draw(st.sampled_from(packed.fields))
    word = packed.pack({bits.name: data.draw(some_value(bits))})
    assert word & ~((1 << bits.end) - (1 << bits.start)) == 0


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"cols": 4096}, "field cols takes 12 bits, so 4096 does not fit"),
        ({"cols": -1}, "field cols takes 12 bits, so -1 does not fit"),
        ({"lo": 32768}, "field lo takes 16 bits, so 32768 does not fit"),
        ({"lo": -32769}, "field lo takes 16 bits, so -32769 does not fit"),
        ({"rows": 1}, "core_command has no field rows"),
        ({"cols": (1, 2)}, "field cols takes 1 numbers, not 2"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, Value], match: str) -> None:
    with pytest.raises(FormatError, match=match):
        CORE_COMMAND.pack(values)


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ((Bits("a", 0, 0, 4, ""), Bits("b", 0, 3, 4, "")), "field b of x must begin at bit 4 or above, not 3"),
        ((Bits("a", 0, 0, 4, ""), Bits("a", 0, 4, 4, "")), "the names of the fields of x must differ"),
        ((Bits("a", 1, 0, 4, "", count=8),), "x has 63 bits, and its fields need 64"),
    ],
)
def test_a_format_that_contradicts_itself_is_refused(rows: tuple[Bits, ...], match: str) -> None:
    with pytest.raises(FormatError, match=match):
        Format("x", 63, "", rows)


# -- others that agree with the table


def test_the_records_have_the_fields_of_their_formats() -> None:
    assert {field.name for field in fields(Descriptor)} | {"magic", "checksum"} == {b.name for b in DESCRIPTOR.fields}
    assert [field.name for field in fields(Command)] == [bits.name for bits in CORE_COMMAND.fields]


def test_a_descriptor_is_words_and_its_fields_stay_within_them() -> None:
    assert DESCRIPTOR.bits == DESCRIPTOR.wire_bits == 8 * DESCRIPTOR_BYTES
    assert all(bits.low + bits.width <= 32 for bits in DESCRIPTOR.fields)


def test_the_register_takes_the_whole_fbcb_word() -> None:
    data = register("FBCB_DATA")
    assert [(f.name.lower(), f.low, f.width) for f in data.fields] == [(b.name, b.start, b.width) for b in FBCB.fields]
    assert FBCB.wire_bits == 32


def test_what_a_layer_takes_from_its_descriptor_fits() -> None:
    """A field of the same name in both holds every value that the descriptor allows."""
    shared = {bits.name for bits in DESCRIPTOR.fields} & {bits.name for bits in LAYER.fields}
    assert {"shift", "lo", "kernel_h", "in_offset"} <= shared
    for name in shared - {"weights"}:
        assert 1 << LAYER.field(name).width > DESCRIPTOR.field(name).limits[1] - DESCRIPTOR.field(name).limits[0], name


def test_modes_fit_their_code() -> None:
    modes = CORE_COMMAND.field("mode").codes
    assert modes is not None
    assert max(Mode) < 1 << modes.width
    assert all(bits.width == bits.codes.width for packed in FORMATS for bits in packed.fields if bits.codes)


def test_the_cost_model_counts_the_bits_of_the_formats() -> None:
    """`dse` may not know this room, so its widths of queues and tables are held to the table here."""
    from fluidnpu.dse.resources.primitives import NpuShape, core_memories, data_plane_memories, data_plane_queues

    shape = NpuShape.of(tiny_design(), load_board("zc706"))
    memories = (*core_memories(shape), *data_plane_memories(shape), *data_plane_queues(shape))
    widths = {memory.name: memory.width for memory in memories}

    def together(*names: str) -> int:
        return sum(CORE_COMMAND.field(name).width for name in names)

    assert widths["fbcb"] == FBCB.bits
    assert {m.depth for m in memories if m.name == "counters"} == {shape.layers * len(COUNTERS)}
    assert widths["drain commands"] == CORE_COMMAND.field("residual_multiplier").start  # which int16 words leave out
    assert widths["load commands"] == together("mode", "p_tiles", "cols")
    assert widths["beat commands"] == together("mode", "beats", "p_tiles")
    assert widths["core commands"] == CORE_COMMAND.wire_bits
    assert widths["input commands"] == widths["other commands"] == TILE.bits


# -- one more row

PADDING = Bits("padding", 21, 8, 4, "rows above the first that windows touch", least=1, most=9)


def with_row(packed: Format, row: Bits) -> Format:
    """The format with one more field."""
    return replace(packed, fields=tuple(sorted((*packed.fields, row), key=lambda bits: bits.start)))


@dataclass(frozen=True, kw_only=True)
class Padded(Descriptor):
    """A descriptor with one more field: its row, and the attribute that uses it."""

    layout: ClassVar[Format] = with_row(DESCRIPTOR, PADDING)
    padding: int = 1


def padded(**changes: int) -> Padded:
    sizes = dict.fromkeys(
        ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "out_h", "out_w"), 1
    )
    counts = dict.fromkeys(("group_words", "groups", "columns"), 1)
    places = {f"{side}_{part}": 2 for side in ("in", "out") for part in ("offset", "row_bytes", "pixel_bytes")}
    return Padded(**{"kind": 0, **sizes, **counts, **places, **changes})  # type: ignore[arg-type]


def test_one_more_row_is_packed_and_checked_in_python() -> None:
    wide = padded(padding=5)
    assert Padded.unpack(wide.pack()) == wide
    words = struct.unpack("<32I", wide.pack())
    assert words[21] == 5 << 8
    assert words[31] == zlib.crc32(wide.pack()[:124])
    with pytest.raises(DescriptorError, match=r"padding must lie in 1\.\.9, not 10"):
        padded(padding=10)
    assert Descriptor.unpack(wide.pack()).kernel_h == 1, "a reader of the old table reads the old fields"


def test_one_more_row_is_rendered_in_every_view() -> None:
    changed = tuple(Padded.layout if packed is DESCRIPTOR else packed for packed in FORMATS)
    package, page = render_format_package(changed), render_format_table(changed)
    assert "logic [3:0]        padding;  // rows above the first" in package
    assert "localparam logic [3:0] DescriptorPaddingMost = 4'd9;" in package
    assert "| 21 | 11:8 | padding | 1..9 | rows above the first that windows touch |" in page
    header = render_format_header(with_row(CORE_COMMAND, Bits("padding", 0, 125, 3, "rows above the first")))
    assert "inline ap_uint<3> core_command_padding(" in header
    assert "return beat.range(127, 125);" in header
    # Nothing else moved: without its lines, and the gap that it splits, the texts are those of the table.
    kept = [line for line in render_format_package().splitlines() if "reserved_676" not in line]
    assert set(kept) <= set(package.splitlines())
    assert set(render_format_table().splitlines()) <= set(page.splitlines())
