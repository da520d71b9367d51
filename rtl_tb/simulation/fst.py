"""Turns the VCD that Verilator writes into FST, through `pylibfst` of the extra `rtl`.

Verilator's own FST wants headers of liblz4 and zlib.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import SimulationError


def write_fst(vcd: Path, fst: Path) -> None:
    """Copy a VCD of Verilator to FST, line by line in bounded memory.

    A last line that was cut off is left out. Raises ValueError on anything that Verilator does not write for
    our RTL (reals, strings), and SimulationError where the FST cannot be written.
    """
    try:
        from pylibfst import ffi, lib
    except ImportError:
        raise SimulationError(
            "a waveform needs the extra `rtl` (pip install 'fluidnpu[rtl]'): no pylibfst is installed"
        ) from None
    out = lib.fstWriterCreate(os.fsencode(fst), 1)
    if out == ffi.NULL:
        raise SimulationError(f"{fst} cannot be written")
    try:
        lib.fstWriterSetPackType(out, lib.FST_WR_PT_LZ4)
        with vcd.open("rb") as lines:
            _changes(lines, _declarations(lines, out, lib), out, lib)
    finally:
        lib.fstWriterClose(out)


def _declarations(lines: Iterable[bytes], out: Any, lib: Any) -> dict[bytes, tuple[int, int]]:
    """Declare scopes and signals; returns (handle, width) of each identifier."""
    signals: dict[bytes, tuple[int, int]] = {}
    for line in lines:
        match line.split():
            case [b"$scope", kind, name, b"$end"]:
                lib.fstWriterSetScope(out, getattr(lib, f"FST_ST_VCD_{kind.decode().upper()}"), name, b"")
            case [b"$upscope", b"$end"]:
                lib.fstWriterSetUpscope(out)
            case [b"$var", (b"wire" | b"reg" | b"integer" | b"parameter") as kind, width, code, *name, b"$end"]:
                alias, _ = signals.get(code, (0, 0))
                kind_number = getattr(lib, f"FST_VT_VCD_{kind.decode().upper()}")
                handle = lib.fstWriterCreateVar(
                    out, kind_number, lib.FST_VD_IMPLICIT, int(width), b" ".join(name), alias
                )
                signals.setdefault(code, (handle, int(width)))
            case [b"$timescale", step, b"$end"]:
                lib.fstWriterSetTimescaleFromString(out, step)
            case [b"$version", *words, b"$end"]:
                lib.fstWriterSetVersion(out, b" ".join(words))
            case [b"$enddefinitions", b"$end"]:
                return signals
            case [] | [b"$date", *_]:
                pass
            case _:
                raise ValueError(f"a VCD must declare scopes and logic, not {line.decode(errors='replace').strip()}")
    raise ValueError("a VCD must have $enddefinitions")


def _changes(lines: Iterable[bytes], signals: dict[bytes, tuple[int, int]], out: Any, lib: Any) -> None:
    """Copy times and values; a short vector is extended by the rule of VCD, with its first digit or 0."""
    for line in lines:
        kind = line[:1]
        if not line.endswith(b"\n"):
            return
        if kind == b"b":
            value, code = line[1:].split()
            handle, width = signals[code]
            lib.fstWriterEmitValueChange(out, handle, value.rjust(width, b"0" if value[:1] in b"01" else value[:1]))
        elif kind in b"01xz":
            lib.fstWriterEmitValueChange(out, signals[line[1:].strip()][0], kind)
        elif kind == b"#":
            lib.fstWriterEmitTimeChange(out, int(line[1:]))
        elif kind not in b"$\n":
            raise ValueError(f"a VCD must give times, bits and vectors, not {line.decode(errors='replace').strip()}")
