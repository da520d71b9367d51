"""Flips operators, constants and conditions in the batching RTL and counts what proofs and benches kill: `python -m rtl_tb.mutation`.

A mutant is one change in one place. It is killed when the proof has a counterexample, the bench fails, or it no longer builds (told apart).
A bench that hits its deadline fails too. Survivors are listed with their line.

>>> [mutant.new for mutant in mutants("assign x = a && b == 2'd1;")]
['||', '!=', "2'd2"]
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from .data_plane import TOP, data_plane_parameters
from .formal import PROOFS, ProofError, prove
from .sim import Model, SimulationError, run
from .sources import sources

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
        """The changed text."""
        return text[: self.start] + self.new + text[self.start + len(self.old) :]


def mutants(text: str) -> Iterator[Mutant]:
    """Every change of a SystemVerilog text outside declarations, comments, assertions and parameter checks."""
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


def judge(file: str, text: str) -> str:
    """What kills this version of a file: proof, bench, build, or nothing ("survived")."""
    if file == "fluid_batching_engine.sv":
        model = Model(top="fluid_batching_engine", parameters={"BMax": 4, "Layers": 3}, override={file: text})
        verdict = _bench(model, "engine", None, {"COMMANDS": "2000"})
        try:
            return (
                "proof"
                if verdict == "survived" and prove(PROOFS["engine"], override={file: text}) == "FAIL"
                else verdict
            )
        except ProofError:
            return verdict
    from .benches.jobs import bench_design

    sizes = {"t_r": 16, "t_p": 4, "t_c": 8, "b_max": 4, "stackable": 1, "split": 0, "weight_slots": 1, "out_words": 4}
    parameters = data_plane_parameters(bench_design(sizes)) | {"Layers": 4, "BuildId": 0}
    model = Model(top=TOP, parameters=parameters, override={file: text})
    return _bench(
        model, "data_plane", "every_plan|random_layers|refused", {"SIZES": json.dumps(sizes), "PROGRAMS": "3"}
    )


def _bench(model: Model, bench: str, tests: str | None, env: dict[str, str]) -> str:
    try:
        model.build()
    except SimulationError:
        return "build"
    try:
        run(model, bench, tests=tests, env=env)
    except SimulationError:
        return "bench"
    return "survived"


def main() -> None:
    """`python -m rtl_tb.mutation [FILE [SAMPLE]]`: all mutants of the engine, or a seeded sample of those of a file."""
    file = sys.argv[1] if len(sys.argv) > 1 else "fluid_batching_engine.sv"
    text = sources()[file]
    every = list(mutants(text))
    chosen = (
        every if len(sys.argv) < 3 else sorted(random.Random(1).sample(every, int(sys.argv[2])), key=lambda m: m.start)
    )
    verdicts: Counter[str] = Counter()
    for mutant in chosen:
        verdict = judge(file, mutant.apply(text))
        verdicts[verdict] += 1
        if verdict == "survived":
            print(
                f"survived: {file}:{mutant.line}: {mutant.old.strip()} -> {mutant.new.strip() or 'nothing'}", flush=True
            )
    real = len(chosen) - verdicts["build"]
    killed = verdicts["proof"] + verdicts["bench"]
    print(
        f"{file}: {killed} of {real} mutants killed ({100 * killed / max(real, 1):.1f} %): {dict(verdicts)}; {len(every)} places in all"
    )


if __name__ == "__main__":
    main()
