"""Flips operators, constants and conditions in the batching RTL and counts the mutants that benches and
proofs kill.

    python -m fluidnpu.rtl_tb.proving.mutation             every mutant of the batching RTL (long)
    python -m fluidnpu.rtl_tb.proving.mutation --sample 20 fluidnpu_sequencer.sv      a seeded sample

A mutant is one change in one place. It is killed when the module's own bench fails (also by its deadline), or
when a proof of the module no longer passes. One that does not build does not count. Survivors are listed with
their line, and with the reason where `EXPLAINED` knows that no bench can see them.

>>> [mutant.new for mutant in mutants("assign x = a && b == 2'd1;")]
['||', '!=', "2'd2"]
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..common.sources import sources
from ..errors import ProofError, RtlError, SimulationError
from ..simulation.model import Model, run
from ..simulation.units import UNITS
from .catalogue import PROOFS
from .prover import prove

# The engine in three shapes: with everything; without pairs and with banks too shallow to be halved; without
# split trees.
_ENGINE = tuple(
    {**UNITS["fluidnpu_batching_engine"], "TR": depth, "Stackable": stackable, "Split": split}
    for stackable, split, depth in ((1, 1, 64), (0, 1, 1), (1, 0, 16))
)
_ENV = {"COMMANDS": "2000"}  # of the engine's bench: fewer find the same mutants
# File -> proofs that detect a change of it, beside its own bench.
BATCHING: Mapping[str, tuple[str, ...]] = {
    "fluidnpu_batching_engine.sv": ("engine",),
    "fluidnpu_sequencer.sv": ("sequencer",),
    "fluidnpu_planner.sv": (),
    "fluidnpu_row_walker.sv": (),
    "fluidnpu_window_segments.sv": (),
    "fluidnpu_row_buffer.sv": ("guard", "buffer"),
    "fluidnpu_unpack.sv": ("unpack",),
    "fluidnpu_residual_reader.sv": ("residuals",),
    "fluidnpu_output_writer.sv": ("outputs",),
}
# (file, mutated line) -> reason why no bench can see it.
_NO_TOP = "it leads to the walker's row_top_o only, which is left open here"
EXPLAINED: Mapping[tuple[str, str], str] = {
    (file, f".step_h_i({step_h}), .step_w_i({step_w}), .rise_i({rise}), .span_i({span}),"): _NO_TOP
    for file, step_h, step_w in (
        ("fluidnpu_residual_reader.sv", "layer_i.residual_row", "layer_i.residual_pixel"),
        ("fluidnpu_output_writer.sv", "layer_i.out_row", "layer_i.out_pixel"),
    )
    for rise, span in (("'1", "'0"), ("'0", "'1"))
}

_SWAPS = {
    "&&": "||", "||": "&&", "==": "!=", "!=": "==", " < ": " <= ", " > ": " >= ", " + ": " - ", " - ": " + ",
    " & ": " | ", " | ": " & ", "1'b0": "1'b1", "1'b1": "1'b0", "'0": "'1", "~": "", "!": "",
}  # fmt: skip
_TOKEN = re.compile(
    "|".join(re.escape(token) for token in sorted(_SWAPS, key=len, reverse=True)) + r"|(?P<n>\d+)'d(?P<v>\d+)"
)
_SKIP = re.compile(
    r"^\s*(///?|assert|localparam|parameter|input|output|logic|module|end|if \(.*assert|if \(.*begin : gen_)|\$fatal|assert"
)


@dataclass(frozen=True)
class Mutant:
    """One change: at `start` of a text, `old` becomes `new`; `line` counts from 1."""

    start: int
    line: int
    old: str
    new: str

    def apply(self, text: str) -> str:
        """Return the changed text."""
        return text[: self.start] + self.new + text[self.start + len(self.old) :]


def mutants(text: str) -> Iterator[Mutant]:
    """Yield every change of a SystemVerilog text outside declarations, comments, assertions and checks."""
    at = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        code = line.split("//")[0]
        if not _SKIP.search(code):
            for match in _TOKEN.finditer(code):
                old = match[0]
                if old == "!" and code[match.end() :].startswith("="):
                    continue
                new = _SWAPS.get(old)
                if new is None:
                    width, value = int(match["n"]), int(match["v"])
                    new = f"{width}'d{(value + 1) % (1 << width)}"
                yield Mutant(at + match.start(), number, old, new)
        at += len(line)


@dataclass
class Tally:
    """The verdicts on a file's mutants."""

    file: str
    places: int
    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("bench", "proof", "build", "survived"), 0))
    survivors: list[Mutant] = field(default_factory=list)

    @property
    def real(self) -> int:
        """Mutants that build."""
        return sum(self.verdicts.values()) - self.verdicts["build"]

    @property
    def killed(self) -> int:
        """Mutants that a bench or a proof detected."""
        return self.verdicts["bench"] + self.verdicts["proof"]

    def __str__(self) -> str:
        share = 100 * self.killed / max(self.real, 1)
        return (
            f"{self.file:32} {self.places:6} {self.real:8} {self.verdicts['bench']:6} {self.verdicts['proof']:6} "
            f"{self.verdicts['survived']:9} {share:8.1f} %"
        )


def shapes_of(file: str) -> tuple[Mapping[str, int], ...]:
    """The parameters at which a file's module meets its bench; KeyError when it has none of its own."""
    return _ENGINE if file == "fluidnpu_batching_engine.sv" else (UNITS[file.removesuffix(".sv")],)


def judge(file: str, text: str) -> str:
    """Return what kills this version of a file: bench, proof, build, or nothing ("survived")."""
    for parameters in shapes_of(file):
        model = Model(top=file.removesuffix(".sv"), parameters=parameters, override={file: text})
        try:
            model.build()
        except RtlError:
            return "build"
        try:
            run(model, env=_ENV)
        except SimulationError:
            return "bench"
    try:
        proofs = [prove(PROOFS[name], override={file: text}) for name in BATCHING.get(file, ())]
    except ProofError:
        return "survived"
    return "survived" if all(verdict == "PASS" for verdict in proofs) else "proof"


def explain(file: str, text: str, mutant: Mutant) -> str:
    """Return the reason why a survivor is no gap, or ""."""
    line = text.splitlines()[mutant.line - 1]
    at = mutant.start - sum(len(line) + 1 for line in text.splitlines()[: mutant.line - 1])
    changed = line[:at] + mutant.new + line[at + len(mutant.old) :]
    return EXPLAINED.get((file, changed.split("//")[0].strip()), "")


def campaign(file: str, sample: int | None = None, seed: int = 1) -> Tally:
    """Judge all mutants of a file, or a seeded sample of them; prints survivors as they come."""
    text = sources()[file]
    every = list(mutants(text))
    chosen = every
    if sample is not None and sample < len(every):
        chosen = sorted(random.Random(seed).sample(every, sample), key=lambda mutant: mutant.start)
    tally = Tally(file, len(every))
    for mutant in chosen:
        verdict = judge(file, mutant.apply(text))
        tally.verdicts[verdict] += 1
        if verdict == "survived":
            tally.survivors.append(mutant)
            why = explain(file, text, mutant) or "NOT EXPLAINED"
            change = f"{mutant.old.strip()} -> {mutant.new.strip() or 'nothing'}"
            print(
                f"survived: {file}:{mutant.line}: {change} in: {text.splitlines()[mutant.line - 1].strip()}: {why}",
                flush=True,
            )
    return tally


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m fluidnpu.rtl_tb.proving.mutation", description="mutation of the batching RTL"
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"of {', '.join(BATCHING)}; all by default")
    parser.add_argument("--sample", type=int, help="mutants of each file, all by default")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    chosen = parser.parse_args()
    for file in chosen.files:
        if file not in BATCHING:
            parser.error(f"FILE must be one of {', '.join(BATCHING)}, not {file}")
    tallies = [campaign(file, chosen.sample, chosen.seed) for file in chosen.files or BATCHING]
    print(f"{'file':32} {'places':>6} {'mutants':>8} {'bench':>6} {'proof':>6} {'survived':>9} {'killed':>10}")
    for tally in tallies:
        print(tally)
    killed, real = sum(tally.killed for tally in tallies), sum(tally.real for tally in tallies)
    print(f"{killed} of {real} mutants killed ({100 * killed / max(real, 1):.1f} %)")


if __name__ == "__main__":
    main()
