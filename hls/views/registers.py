"""Views of the register map: C header, page of Markdown, SystemVerilog package. Text only.

>>> "#define FLUIDNPU_CTRL 0x00u" in render_c_header()
True
>>> "localparam logic [7:0] StatusOffset = 8'h04;" in render_register_package()
True
"""

from __future__ import annotations

from ..registers import (
    COUNTERS,
    COUNTERS_OFFSET,
    REGISTERS,
    VERSION,
    WINDOW_BYTES,
    Access,
    Cause,
    Register,
    WhileBusy,
    fields,
)
from .names import camel

REGISTERS_PACKAGE = "fluidnpu_registers_pkg"


def render_c_header() -> str:
    """The register map as C macros: register offsets, shift and mask of each field, causes of ERROR."""
    lines = [
        "/* Register map of the NPU; generated from hls/registers.py. Offsets are bytes on the AXI4-Lite port. */",
        "#ifndef FLUIDNPU_REGISTERS_H",
        "#define FLUIDNPU_REGISTERS_H",
        "",
        f"#define FLUIDNPU_WINDOW_BYTES 0x{WINDOW_BYTES:02X}u",
        "",
    ]
    for register in REGISTERS:
        lines.append(f"/* {register.access}: {register.meaning} */")
        lines.append(f"#define FLUIDNPU_{register.name} 0x{register.offset:02X}u")
    lines.append("")
    for register, field in fields():
        name = f"FLUIDNPU_{register.name}_{field.name}"
        if field.meaning:
            lines.append(f"/* {field.meaning} */")
        lines.append(f"#define {name}_SHIFT {field.low}")
        lines.append(f"#define {name}_MASK 0x{field.mask:08X}u")
    lines.append("")
    lines += [f"#define FLUIDNPU_CAUSE_{cause.name} {cause.value}u" for cause in Cause]
    return "\n".join([*lines, "", "#endif", ""])


def render_register_table() -> str:
    """The register map as a page of Markdown."""
    lines = [
        "# Registers",
        "",
        "Generated from `hls/registers.py`. Access: RO is the hardware's, RW the software's, W1S starts an action and",
        "reads 0, W1C clears what is set.",
        "",
        "While busy: what a write does while a job runs or is dropped. *At once*: it acts then. *Next START*: the job",
        "keeps what it found at its own. *BUSY*: nothing is written and ERROR tells BUSY, but the job goes on; only",
        "CTRL.SOFT_RESET is obeyed. The settings that are refused lead the addresses of a job: to hold their 112 bits a",
        "second time would cost as many flip-flops, a refusal costs a gate.",
        "",
        "| offset | register | access | reset | while busy | meaning |",
        "|---|---|---|---|---|---|",
    ]
    for register in REGISTERS:
        lines.append(
            f"| 0x{register.offset:02X} | {register.name} | {register.access} | 0x{register.reset:X} | {_busy(register)} | {register.meaning} |"
        )
    lines += ["", "| register | field | bits | meaning |", "|---|---|---|---|"]
    for register, field in fields():
        high = field.low + field.width - 1
        bits = f"{high}:{field.low}" if field.width > 1 else f"{field.low}"
        lines.append(f"| {register.name} | {field.name} | {bits} | {field.meaning} |")
    lines += ["", "| cause | name |", "|---|---|", *(f"| {cause.value} | {cause.name} |" for cause in Cause)]
    return "\n".join([*lines, ""])


def _busy(register: Register) -> str:
    return "" if register.access is Access.RO else str(register.busy)


def render_register_package() -> str:
    """The SystemVerilog package: offsets, access classes, field positions, reset values, causes."""
    lines = [
        "/// Offsets, fields and causes of the register map; generated from hls/registers.py by hls/views/registers.py.",
        f"package {REGISTERS_PACKAGE};",
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
    refused = sum(1 << r.offset // 4 for r in REGISTERS if r.busy is WhileBusy.REFUSED and r.access is Access.RW)
    words = WINDOW_BYTES // 4
    lines.append("  // Bit i: there is a register at word i; it may be written.")
    lines.append(f"  localparam logic [{words - 1}:0] Exists = {words}'h{exists:X};")
    lines.append(f"  localparam logic [{words - 1}:0] Writable = {words}'h{writable:X};")
    lines.append("  // Bit i: the setting at word i is not written while a job runs.")
    lines.append(f"  localparam logic [{words - 1}:0] Settled = {words}'h{refused:X};")
    lines.append(f"  localparam int unsigned Version = {VERSION};  // in SHAPE")
    lines.append("  // Counters of a layer: how many, and the most that each counts in a cycle.")
    lines.append(f"  localparam int unsigned Counters = {len(COUNTERS)};")
    lines.append(f"  localparam logic [7:0] CountersOffset = 8'h{COUNTERS_OFFSET:02X};")
    lines += [f"  localparam int unsigned Count{camel(c.name)} = {index};" for index, c in enumerate(COUNTERS)]
    lines.append("  typedef enum logic [7:0] {")
    causes = [f"    Cause{camel(cause.name)} = 8'd{cause.value}" for cause in Cause]
    lines.append(",\n".join(causes))
    lines.append("  } cause_e;")
    lines.append("endpackage")
    return "\n".join(lines) + "\n"
