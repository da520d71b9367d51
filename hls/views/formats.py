"""Views of the bit formats: SystemVerilog package, C++ header of the core, page of Markdown. Text only.

>>> "ModeMaxPool = 4'd4" in render_format_package()
True
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ..formats import CODES, CORE_COMMAND, FORMATS, MODES, Bits, Codes, Format

FORMATS_PACKAGE = "fluidnpu_formats_pkg"
_SOURCE = "generated from hls/formats.py by hls/views/formats.py"


def camel(name: str) -> str:
    """The UpperCamelCase of a name.

    >>> camel("SLOT_BASE_LO"), camel("core_command")
    ('SlotBaseLo', 'CoreCommand')
    """
    return "".join(part.capitalize() for part in name.split("_") if part)


def render_format_package(formats: Sequence[Format] = FORMATS, codes: Sequence[Codes] = CODES) -> str:
    """The SystemVerilog package: an enumeration for each set of codes, a packed struct for each format."""
    lines = [f"/// Bit formats and codes of the NPU; {_SOURCE}.", f"package {FORMATS_PACKAGE};"]
    for one in codes:
        lines += [f"  // {one.meaning}", f"  typedef enum logic [{one.width - 1}:0] {{"]
        lines.append(",\n".join(f"    {name} = {one.width}'d{value}" for name, value in _members(one)))
        lines.append(f"  }} {one.name}_e;")
    for format in formats:
        lines += ["", f"  // {format.meaning}", *_constants(format), "  typedef struct packed {"]
        lines += [f"    {declaration};  // {meaning}" for declaration, meaning in reversed(list(_declared(format)))]
        lines.append(f"  }} {format.name}_t;")
    return "\n".join([*lines, "endpackage", ""])


def _members(codes: Codes) -> list[tuple[str, int]]:
    """Name and number of every member as SystemVerilog and C++ have them."""
    return [(codes.prefix + camel(value.name), value.value) for value in codes.values]


def _constants(format: Format) -> Iterator[str]:
    """The named numbers of a format: its widths, its constants and the limits that its width does not give."""
    name = camel(format.name)
    yield f"  localparam int unsigned {name}Bits = {format.bits};"
    if format.wire_bits != format.bits:
        yield f"  localparam int unsigned {name}WireBits = {format.wire_bits};  // those above are zero"
    for constant in format.constants:
        digits = -(-constant.width // 4)
        value = f"{constant.width}'h{constant.value:0{digits}X}"
        yield f"  localparam logic [{constant.width - 1}:0] {name}{camel(constant.name)} = {value};  // {constant.meaning}"
    for field in format.fields:
        if field.most is not None:
            yield f"  localparam {_logic(field.width)} {name}{camel(field.name)}Most = {field.width}'d{field.most};"


def _logic(width: int) -> str:
    return f"logic [{width - 1}:0]" if width > 1 else "logic"


def _declared(format: Format) -> Iterator[tuple[str, str]]:
    """Declaration and meaning of every member of a packed struct, the lowest first; unused bits have members too."""
    end = 0
    gaps = dict(format.gaps())
    for field in format.fields:
        if end in gaps:
            yield f"{_logic(gaps[end])} reserved_{end}", "zero"
        if field.codes:
            kind = f"{field.codes.name}_e"
        elif field.count > 1:
            kind = f"logic [{field.count - 1}:0][{field.width - 1}:0]"
        else:
            kind = _logic(field.width)
        yield f"{kind} {field.name}", field.meaning
        end = field.end


def render_format_header() -> str:
    """`formats.h` of the core: the modes, and an accessor for each field of a command beat. Needs `ap_int.h`."""
    members = ", ".join(f"{name} = {value}" for name, value in _members(MODES))
    beat = f"ap_uint<{CORE_COMMAND.wire_bits}>"
    lines = [
        f"// Modes and fields of a command beat; {_SOURCE}.",
        "#ifndef FLUIDNPU_FORMATS_H",
        "#define FLUIDNPU_FORMATS_H",
        "",
        f"// {MODES.meaning}",
        f"enum {MODES.name}_e {{ {members} }};",
        "",
        f"// {CORE_COMMAND.meaning}",
        f"typedef {beat} {CORE_COMMAND.name}_t;",
    ]
    for field in CORE_COMMAND.fields:
        lines += ["", f"// {_capitalised(field.meaning)}.", *_accessor(CORE_COMMAND, field)]
    return "\n".join([*lines, "", "#endif", ""])


def _accessor(format: Format, field: Bits) -> list[str]:
    """The C++ function that gives one field of a beat."""
    kind = "bool" if field.width == 1 else f"{'ap_int' if field.signed else 'ap_uint'}<{field.width}>"
    value = f"beat[{field.start}]" if field.width == 1 else f"beat.range({field.end - 1}, {field.start})"
    return [
        f"static {kind} {format.name}_{field.name}(const {format.name}_t& beat) {{",
        "#pragma HLS INLINE",
        f"    return {value};",
        "}",
    ]


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def render_format_table(formats: Sequence[Format] = FORMATS, codes: Sequence[Codes] = CODES) -> str:
    """The bit formats as a page of Markdown."""
    lines = [
        "# Bit formats",
        "",
        "Generated from `hls/formats.py`, which the SystemVerilog package `fluidnpu_formats_pkg`, the core's `formats.h` and the",
        "Python packers read too. Bit 0 is the lowest; bits that no field has are zero.",
    ]
    for format in formats:
        words = any(field.word for field in format.fields)
        size = f"{format.bits} of {format.wire_bits} bits" if format.bits < format.wire_bits else f"{format.bits} bits"
        lines += ["", f"## {format.name} ({size})", "", *_wrapped(format.meaning), ""]
        lines += ["| word | bits | field | values | meaning |" if words else "| bits | field | values | meaning |"]
        lines += ["|---|---|---|---|---|" if words else "|---|---|---|---|"]
        for field in format.fields:
            last = (field.end - 1) // 32
            place = f"| {field.word}{f'..{last}' if last > field.word else ''} " if words else ""
            low = field.low if words else field.start
            bits = f"{low + field.width - 1}:{low}" if field.width > 1 else f"{low}"
            lines.append(f"{place}| {bits} | {field.name} | {_values(field)} | {field.meaning} |")
        if format.constants:
            lines += ["", "| constant | value | meaning |", "|---|---|---|"]
            lines += [f"| {one.name} | 0x{one.value:X} | {one.meaning} |" for one in format.constants]
    for one in codes:
        lines += ["", f"## Codes: {one.name}", "", *_wrapped(one.meaning), "", "| code | name |", "|---|---|"]
        lines += [f"| {value.value} | {value.name} |" for value in one.values]
    return "\n".join([*lines, ""])


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 110)


def _values(field: Bits) -> str:
    """The values that the hardware obeys, in words."""
    least, most = field.limits
    if field.codes:
        return f"code of {field.codes.name}"
    if field.width == 32 and field.most is None:
        return "any"
    return f"{least}..{most}"
