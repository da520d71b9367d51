"""Renders the SystemVerilog package of the register map from `hls.REGISTERS`. Pure text; no I/O.

>>> "localparam logic [7:0] StatusOffset = 8'h04;" in render_package()
True
"""

from __future__ import annotations

import re

from fluidnpu.hls import REGISTERS, WINDOW_BYTES, Access, Cause

PACKAGE = "fluidnpu_registers_pkg"


def camel(name: str) -> str:
    """UpperCamelCase of a register's or field's name.

    >>> camel("SLOT_BASE_LO")
    'SlotBaseLo'
    """
    return "".join(part.capitalize() for part in re.split(r"_+", name) if part)


def render_package() -> str:
    """Render the package: offsets, access classes, field positions, reset values, causes."""
    lines = [
        "/// Offsets, fields and causes of the register map; generated from hls/registers.py by rtl_tb/common/package.py.",
        f"package {PACKAGE};",
        f"  localparam int unsigned WindowBytes = {WINDOW_BYTES};",
        f"  localparam int unsigned Registers = {len(REGISTERS)};",
    ]
    for register in REGISTERS:
        name = camel(register.name)
        lines.append(f"  // {register.name}, {register.access}: {register.meaning}")
        lines.append(f"  localparam logic [7:0] {name}Offset = 8'h{register.offset:02X};")
        lines.append(f"  localparam logic [31:0] {name}Reset = 32'h{register.reset:08X};")
        for field in register.fields:
            lines.append(f"  localparam int unsigned {name}{camel(field.name)}Low = {field.low};")
            lines.append(f"  localparam int unsigned {name}{camel(field.name)}Width = {field.width};")
    exists = sum(1 << register.offset // 4 for register in REGISTERS)
    writable = sum(1 << r.offset // 4 for r in REGISTERS if r.access is not Access.RO)
    words = WINDOW_BYTES // 4
    lines.append("  // Bit i: there is a register at word i; it may be written.")
    lines.append(f"  localparam logic [{words - 1}:0] Exists = {words}'h{exists:X};")
    lines.append(f"  localparam logic [{words - 1}:0] Writable = {words}'h{writable:X};")
    lines.append("  typedef enum logic [7:0] {")
    causes = [f"    Cause{camel(cause.name)} = 8'd{cause.value}" for cause in Cause]
    lines.append(",\n".join(causes))
    lines.append("  } cause_e;")
    lines.append("endpackage")
    return "\n".join(lines) + "\n"
