"""Views of the bit formats: SystemVerilog package, C++ header of the core, page of Markdown. Text only.

>>> "ModeMaxPool = 4'd4" in render_format_package()
True
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ..formats.format import Bits, Codes, Format
from ..formats.table import CODES, CORE_COMMAND, FORMATS, MODES
from .names import camel

FORMATS_PACKAGE = "fluidnpu_formats_pkg"
_SOURCE = "generated from hls/formats/table.py by hls/views/formats.py"


def members(codes: Codes) -> list[tuple[str, int]]:
    """Name and number of every member of an enumeration, as SystemVerilog and C++ have them."""
    return [(codes.prefix + camel(code.name), code.value) for code in codes.values]


def render_format_package(formats: Sequence[Format] = FORMATS, codes: Sequence[Codes] = CODES) -> str:
    """The SystemVerilog package: an enumeration for each set of codes, a packed struct for each format."""
    lines = [f"/// Bit formats and codes of the NPU; {_SOURCE}.", f"package {FORMATS_PACKAGE};"]
    for enumeration in codes:
        lines += [*_comment(enumeration.meaning), f"  typedef enum logic [{enumeration.width - 1}:0] {{"]
        lines.append(",\n".join(f"    {name} = {enumeration.width}'d{code}" for name, code in members(enumeration)))
        lines.append(f"  }} {enumeration.name}_e;")
    for packed in formats:
        lines += ["", *_comment(packed.meaning), *_constants(packed), "  typedef struct packed {"]
        lines += [
            f"    {kind:<18} {name};  // {meaning}" for kind, name, meaning in reversed(list(_members_of(packed)))
        ]
        lines.append(f"  }} {packed.name}_t;")
    return "\n".join([*lines, "endpackage", ""])


def _comment(text: str) -> list[str]:
    return [f"  // {line}" for line in textwrap.wrap(text, 105)]


def _constants(packed: Format) -> Iterator[str]:
    """The named numbers of a format: its widths, its constants, and limits below those of a field's width."""
    name = camel(packed.name)
    yield f"  localparam int unsigned {name}Bits = {packed.bits};"
    if packed.wire_bits != packed.bits:
        yield f"  localparam int unsigned {name}WireBits = {packed.wire_bits};  // those above are zero"
    for constant in packed.constants:
        value = f"{constant.width}'h{constant.value:0{-(-constant.width // 4)}X}"
        full_name = name + camel(constant.name)
        yield f"  localparam {_logic(constant.width)} {full_name} = {value};  // {constant.meaning}"
    for field in packed.fields:
        if field.most is not None:
            yield f"  localparam {_logic(field.width)} {name}{camel(field.name)}Most = {field.width}'d{field.most};"


def _logic(width: int) -> str:
    return f"logic [{width - 1}:0]" if width > 1 else "logic"


def _members_of(packed: Format) -> Iterator[tuple[str, str, str]]:
    """Type, name and meaning of each struct member, the lowest first; unused bits are members too."""
    end, gaps = 0, dict(packed.gaps())
    for field in packed.fields:
        if end in gaps:
            yield _logic(gaps[end]), f"reserved_{end}", "zero"
        kind = f"{field.codes.name}_e" if field.codes else _logic(field.width)
        if field.count > 1:
            kind = f"logic [{field.count - 1}:0][{field.width - 1}:0]"
        yield kind, field.name, field.meaning
        end = field.end


def render_format_header(command: Format = CORE_COMMAND) -> str:
    """`formats.h` of the core: modes, and an accessor for each field of a command beat. Needs `ap_int.h`."""
    enumerators = ", ".join(f"{name} = {code}" for name, code in members(MODES))
    lines = [
        f"// Modes and fields of a command beat; {_SOURCE}.",
        "#ifndef FLUIDNPU_FORMATS_H",
        "#define FLUIDNPU_FORMATS_H",
        "",
        f"enum {MODES.name}_e {{ {enumerators} }};",
        "",
        f"const int {camel(command.name)}WireBits = {command.wire_bits};",
    ]
    for field in command.fields:
        lines += ["", f"// {field.meaning[0].upper()}{field.meaning[1:]}.", *_accessor(command, field)]
    return "\n".join([*lines, "", "#endif", ""])


def _accessor(packed: Format, field: Bits) -> list[str]:
    """The C++ function that reads one field of a beat."""
    kind = "bool" if field.width == 1 else f"{'ap_int' if field.signed else 'ap_uint'}<{field.width}>"
    bits = f"[{field.start}]" if field.width == 1 else f".range({field.end - 1}, {field.start})"
    return [
        f"inline {kind} {packed.name}_{field.name}(const ap_uint<{camel(packed.name)}WireBits>& beat) {{",
        "#pragma HLS INLINE",
        f"    return beat{bits};",
        "}",
    ]


def render_format_table(formats: Sequence[Format] = FORMATS, codes: Sequence[Codes] = CODES) -> str:
    """The bit formats as a page of Markdown."""
    origin = (
        "Generated from `hls/formats/table.py`. The SystemVerilog package `fluidnpu_formats_pkg` and the header `formats.h` "
        "of the HLS core are generated from the same table, and the Python packers are driven by it. Bit 0 is the lowest; "
        "bits of no field are zero."
    )
    lines = ["# Bit formats", "", *textwrap.wrap(origin, 110)]
    for packed in formats:
        size = f"{packed.bits} of {packed.wire_bits}" if packed.bits < packed.wire_bits else f"{packed.bits}"
        lines += ["", f"## {packed.name} ({size} bits)", "", *textwrap.wrap(packed.meaning, 110), "", *_rows(packed)]
        if packed.constants:
            lines += ["", "| constant | value | meaning |", "|---|---|---|"]
            lines += [f"| {c.name} | 0x{c.value:0{-(-c.width // 4)}X} | {c.meaning} |" for c in packed.constants]
    for enumeration in codes:
        lines += ["", f"## Codes of {enumeration.name}", "", *textwrap.wrap(enumeration.meaning, 110), ""]
        lines += ["| code | name |", "|---|---|"]
        lines += [f"| {code.value} | {code.name} |" for code in enumeration.values]
    return "\n".join([*lines, ""])


def _rows(packed: Format) -> Iterator[str]:
    """The table of a format's fields; formats of several words have a column for the word."""
    words = any(field.word for field in packed.fields)
    yield f"|{' word |' if words else ''} bits | field | values | meaning |"
    yield f"|{'---|' if words else ''}---|---|---|---|"
    for field in packed.fields:
        low = field.low if words else field.start
        bits = f"{low + field.width - 1}:{low}" if field.width > 1 else f"{low}"
        place = f" {field.word}{f'..{field.word + field.count - 1}' if field.count > 1 else ''} |" if words else ""
        yield f"|{place} {bits} | {field.name} | {_values(field)} | {field.meaning} |"


def _values(field: Bits) -> str:
    """The values that the hardware obeys."""
    if field.codes:
        return f"codes of {field.codes.name}"
    least, most = field.limits
    return "any" if (least, most) == (0, 0xFFFF_FFFF) else f"{least}..{most}"
