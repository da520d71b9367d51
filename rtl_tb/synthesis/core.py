"""Synthesises the reference core with Yosys and prints its primitives beside the predicted ones.

    python -m fluidnpu.rtl_tb.synthesis.core

Multiply-accumulates are the device's own cells (`Cells` of `fluidnpu_core`): Yosys leaves registers and
cascades of inferred ones outside the slices, on UltraScale+ the adders too. Needs the extra `rtl`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import asdict

from fluidnpu.dse import Design
from fluidnpu.dse.resources import NpuShape, part_primitives
from fluidnpu.dse.testing import tiny_design

from ..common.command import ended
from ..core.model import core_parameters
from .yosys import Cells, synthesise

TOP = "fluidnpu_core"
CELLS = {"inferred": 0, "dsp48e1": 1, "dsp48e2": 2}  # parameter Cells of fluidnpu_core
FAMILY_CELLS = {"xc7": "dsp48e1", "xcup": "dsp48e2"}


def synthesise_core(design: Design, family: str = "xc7", *, cells: str | None = None, ultra_banks: int = 0) -> Cells:
    """Primitives of the core of a design.

    `cells`: how multiply-accumulates are written, a key of CELLS; the family's own by default.
    """
    extra = {"Cells": CELLS[FAMILY_CELLS[family] if cells is None else cells]}
    extra |= {"UltraBanks": ultra_banks} if ultra_banks else {}
    return synthesise(TOP, core_parameters(design) | extra, family)


def predicted(design: Design, family: str = "xc7", *, ultra_banks: int = 0) -> dict[str, int]:
    """DSPs, RAMB18s and URAMs of the core of a design by `dse.resources`."""
    shape = NpuShape.on(design, family, ultra_banks=ultra_banks)
    return {name: int(count) for name, count in part_primitives("core", shape).items()}


def examples() -> dict[str, Design]:
    """The designs of the table, by name."""
    tiny = tiny_design().changed(t_r=512, weight_slots=2, out_words=4)
    larger = tiny.changed(t_p=7, t_c=16, t_r=1024)
    return {
        "4x8": tiny,
        "4x8, one lane": tiny.changed(stackable=False),
        "4x8, split trees": tiny.changed(split=True),
        "7x16": larger,
        "7x16, 36 bits": larger.changed(acc_bits=36, t_r=2048),
    }


def table(designs: Mapping[str, Design]) -> str:
    """Format one line of counts for each design."""
    names = ("dsp", "ramb18", "uram288", "lut", "lutram", "ff", "carry")
    lines = [f"{'design':18} {'t_r':>5} " + " ".join(f"{name:>8}" for name in names)]
    for label, design in designs.items():
        counts = asdict(synthesise_core(design))
        lines.append(f"{label:18} {design.t_r:5} " + " ".join(f"{counts[name]:8}" for name in names))
    return "\n".join(lines)


def main() -> None:
    """Print the table of the example designs."""
    argparse.ArgumentParser(prog="python -m fluidnpu.rtl_tb.synthesis.core", description=__doc__).parse_args()
    print(table(examples()))


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.synthesis.core"))
