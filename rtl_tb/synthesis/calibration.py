"""Calibrates `dse.logic` against Yosys and checks all predicted primitives on other designs.

    python -m fluidnpu.rtl_tb.synthesis.calibration fit|check

`fit` synthesises designs (random ones of FIT_SEED and wide ones) and writes `dse/resources/logic.json`.
`check` synthesises other ones (of CHECK_SEED), prints every design's counts beside the predicted ones and
ends with 1 when a DSP or a RAM differs or LUTs or flip-flops are off by more than MOST_MAPE_PCT on average.
Both take minutes to an hour; counts are cached by digest of the sources, so that a second run takes seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design
from fluidnpu.dse.resources import LOGIC_KINDS, PARTS, NpuShape, logic_table, logic_terms, part_logic, part_primitives

from ..common.command import ended
from ..common.sources import needed, sources
from ..data_plane.parameters import data_plane_parameters
from .core import synthesise_core
from .random_designs import random_designs, wide_designs
from .yosys import Cells, sources_digest, synthesise

Floats = npt.NDArray[np.float64]
TOPS = {"core": "fluidnpu_core", "data_plane": "fluidnpu_data_plane"}
FIT_SEED, CHECK_SEED = 1, 2
FIT_DESIGNS = {"core": 14, "data_plane": 4}
CHECK_DESIGNS = 30
MOST_MAPE_PCT = 5.0
# How firmly a term's coefficient is held at 1, which it is where the term counts LUTs or flip-flops
# themselves: the relative error that a departure by one is worth. Other coefficients are free.
_HELD = 0.3
_COUNTED = {
    ("core", "lut"): (
        "slice bits", "memory LUTs", "shift registers", "gather bits", "bias bits", "pool bits", "choice bits", "pair bits", "bank bits",
        "load comparators",
    ),
    ("core", "ff"): ("slice bits", "lane bits", "gather bits", "pool bits", "skews", "load bits", "pair bits", "bank selects"),
    ("data_plane", "lut"): ("unpacked bits", "packed bits", "input bits", "slot bits", "memory LUTs"),
    ("data_plane", "ff"): ("word bits", "beat bits", "line bits", "slot bits"),
}  # fmt: skip
# The interval: this many times the largest error of the fit, and no less than so many per cent, since other
# designs err more than those fitted to.
_COVERAGE, _LEAST_INTERVAL_PCT = 1.5, 5.0


@dataclass(frozen=True, kw_only=True)
class CalibrationSample:
    """Counts of Yosys and predicted counts of one part of one design's NPU."""

    part: str
    design: Design
    shape: NpuShape
    cells: Cells

    def measured(self, kind: str) -> int:
        """LUTs of logic and memory, or flip-flops."""
        return self.cells.lut + self.cells.lutram if kind == "lut" else self.cells.ff

    @property
    def predicted_primitives(self) -> tuple[int, int, int]:
        """Predicted DSPs, RAMB18s and URAMs."""
        counts = part_primitives(self.part, self.shape)
        return int(counts["dsp"]), int(counts["ramb18"]), int(counts["uram288"])

    @property
    def primitives(self) -> tuple[int, int, int]:
        """DSPs, RAMB18s and URAMs that Yosys uses."""
        return self.cells.dsp, self.cells.ramb18, self.cells.uram288


def sample(part: str, design: Design, family: str = "xc7", *, ultra_banks: int = 0) -> CalibrationSample:
    """Synthesise one part of a design's NPU."""
    shape = NpuShape.on(design, family, ultra_banks=ultra_banks)
    if part == "core":
        cells = synthesise_core(design, family, ultra_banks=ultra_banks)
    else:
        cells = synthesise(TOPS[part], data_plane_parameters(design) | {"BuildId": 0}, family)
    return CalibrationSample(part=part, design=design, shape=shape, cells=cells)


def samples(part: str, count: int, seed: int, *, announce: bool = False) -> list[CalibrationSample]:
    """Synthesise `count` random designs of a seed for 7-series."""
    return _synthesise_all(part, random_designs(count, seed), announce)


def fitted_samples(part: str, *, announce: bool = False) -> list[CalibrationSample]:
    """Synthesise the designs that the coefficients are fitted to: random ones and wide ones."""
    random = samples(part, FIT_DESIGNS[part], FIT_SEED, announce=announce)
    return [*random, *_synthesise_all(part, wide_designs(part), announce)]


def _synthesise_all(part: str, designs: Sequence[Design], announce: bool) -> list[CalibrationSample]:
    synthesised = []
    for index, design in enumerate(designs):
        synthesised.append(sample(part, design))
        if announce:
            print(f"{part} {index + 1} of {len(designs)}", file=sys.stderr, flush=True)
    return synthesised


def fit(part: str, kind: str, fitted: Sequence[CalibrationSample]) -> dict[str, Any]:
    """Fit coefficients by least relative squares, none negative, those of counted terms held near 1.

    The result holds the errors that are left too.
    """
    terms = [logic_terms(part, kind, sample.shape) for sample in fitted]
    names = list(terms[0])
    matrix = np.array([[float(row[name]) for name in names] for row in terms])
    target = np.array([sample.measured(kind) for sample in fitted], dtype=np.float64)
    held = np.array([_HELD if name in _COUNTED[part, kind] else 0.0 for name in names])
    weights = _least_squares(
        np.vstack([matrix / target[:, None], np.diag(held)]), np.concatenate([np.ones(len(fitted)), held])
    )
    errors = 100 * (matrix @ weights / target - 1)
    return {
        "coefficients": {name: round(float(value), 4) for name, value in zip(names, weights, strict=True)},
        "designs": len(fitted),
        "mape_pct": round(float(np.abs(errors).mean()), 3),
        "worst_pct": round(float(np.abs(errors).max()), 3),
        "interval_pct": round(max(_LEAST_INTERVAL_PCT, float(_COVERAGE * np.abs(errors).max())), 1),
    }


def _least_squares(matrix: Floats, target: Floats) -> Floats:
    """Least squares without negative coefficients: the most negative one is dropped until none is left."""
    kept = np.arange(matrix.shape[1])
    while True:
        part, *_ = np.linalg.lstsq(matrix[:, kept], target, rcond=None)
        if (part >= 0).all():
            weights = np.zeros(matrix.shape[1])
            weights[kept] = part
            return weights
        kept = np.delete(kept, int(part.argmin()))


def calibrate(parts: Sequence[str] = PARTS) -> dict[str, Any]:
    """Make the table of `dse/resources/logic.json`; parts that are not asked for stay as they are there."""
    table: dict[str, Any] = {
        **logic_table(),
        "made_by": "python -m fluidnpu.rtl_tb.synthesis.calibration fit",
        "synthesiser": "Yosys synth_xilinx -family xc7 -flatten",
        "seed": FIT_SEED,
    }
    for part in parts:
        fitted = fitted_samples(part, announce=True)
        table[part] = {"sources": sources_digest(needed(sources(), TOPS[part]))} | {
            kind: fit(part, kind, fitted) for kind in LOGIC_KINDS
        }
    return table


def report(checked: Sequence[CalibrationSample], table: Mapping[str, Any] | None = None) -> tuple[str, bool]:
    """(Text, verdict): a line a sample with measured and predicted counts, mean errors, and whether all are
    in their limits.
    """
    lines = [
        f"{'part':10} {'t_r':>5} {'t_p':>3} {'t_c':>3} {'acc':>3} {'slots':>5} {'out':>3} {'k2':>2} {'k1/2':>4} "
        f"{'DSP':>9} {'RAMB18':>9} {'LUT':>13} {'%':>6} {'FF':>13} {'%':>6}"
    ]
    errors: dict[tuple[str, str], list[float]] = {}
    same = True
    for sample in checked:
        shape, design = sample.shape, sample.design
        same &= sample.primitives == sample.predicted_primitives
        text = (
            f"{sample.part:10} {design.t_r:5} {design.t_p:3} {design.t_c:3} {design.acc_bits:3} {design.weight_slots:5} "
            f"{design.out_words:3} {int(design.stackable):2} {int(design.split):4} "
            f"{sample.cells.dsp:4}/{sample.predicted_primitives[0]:4} {sample.cells.ramb18:4}/{sample.predicted_primitives[1]:4}"
        )
        for kind in LOGIC_KINDS:
            value, measured = float(part_logic(sample.part, kind, shape, table)), sample.measured(kind)
            errors.setdefault((sample.part, kind), []).append(100 * (value / measured - 1))
            text += f" {measured:6}/{value:6.0f} {errors[sample.part, kind][-1]:+6.2f}"
        lines.append(text)
    good = same
    for (part, kind), values in errors.items():
        mape = float(np.abs(values).mean())
        good &= mape <= MOST_MAPE_PCT
        lines.append(f"{part} {kind}: {len(values)} designs, MAPE {mape:.2f} %, worst {max(values, key=abs):+.2f} %")
    lines.append("DSP and RAM: " + ("all equal" if same else "DIFFERENT"))
    logic = logic_table() if table is None else table
    changed = [
        part
        for part in PARTS
        if logic[part].get("sources") not in (None, sources_digest(needed(sources(), TOPS[part])))
    ]
    if changed:
        lines.append(
            f"the RTL of {' and '.join(changed)} has changed since the fit: run it again if the errors have grown"
        )
    return "\n".join(lines), good


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m fluidnpu.rtl_tb.synthesis.calibration", description=__doc__)
    parser.add_argument("what", choices=("fit", "check"))
    parser.add_argument("--designs", type=int, default=CHECK_DESIGNS, help="how many to check")
    parser.add_argument("--part", choices=PARTS, help="this part only")
    given = parser.parse_args(arguments)
    parts = PARTS if given.part is None else (given.part,)
    if given.what == "fit":
        path = Path(str(files("fluidnpu.dse.resources").joinpath("logic.json")))
        path.write_text(json.dumps(calibrate(parts), indent=1) + "\n")
        print(path.read_text())
        return 0
    checked = [sample for part in parts for sample in samples(part, given.designs, CHECK_SEED, announce=True)]
    text, good = report(checked)
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.synthesis.calibration"))
