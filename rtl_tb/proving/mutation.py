"""Flips operators, constants and conditions in the RTL and counts the mutants that are noticed.

    python -m fluidnpu.rtl_tb.proving.mutation [FILE ...] [--sample N] [--seed N] [--jobs N] [--log PATH]

A mutant is one change in one place. It is killed when a test of a bench fails, when the campaign of the
whole NPU or the streams of the core find a difference, or when a proof has a run from reset that breaks it;
where a solver does not end in time, that is counted apart, as undecided. A check that kills must pass on the
RTL as it is, or nothing is counted. A mutant that does not build, or that Verilator warns of, is none.
Survivors are listed with their line, and with the reason where `explained` knows that nothing can see them.
With `--log`, verdicts are kept, and the same command goes on where it was stopped.

>>> [mutant.new for mutant in mutants("assign x = a && b == 2'd1;")]
['||', '!=', "2'd2"]
>>> low, high = interval(26, 27)
>>> f"{100 * low:.1f} to {100 * high:.1f} %"
'81.7 to 99.3 %'
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import random
import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from fluidnpu.dse import Design

from ..common.command import ended
from ..common.sources import sources
from ..errors import ParameterError, ProofError, RtlError, SimulationError
from ..npu.model import NpuModel
from ..npu.world import ARRAY, LEAST, model_of
from ..simulation.model import RtlModel, play
from ..simulation.units import UNITS, met_in
from .catalogue import PROOFS
from .explained import reason
from .prover import refute

# The engine in three shapes: with everything; without pairs and with banks too shallow to be halved; without
# split trees.
_ENGINE = tuple(
    {**UNITS["fluidnpu_batching_engine"], "TR": depth, "Stackable": stackable, "Split": split}
    for stackable, split, depth in ((1, 1, 64), (0, 1, 1), (1, 0, 16))
)
# Fewer commands of the engine's bench find the same mutants. Those that hang take all the time that they are
# given: so one test that fails is enough, and none takes more than some times what the longest needs.
_ENV = {"COMMANDS": "2000", "COCOTB_MAX_FAILURES": "1", "MOST_US": "2000"}
_ROUNDS = 4  # of the campaign
_LIMIT_S = 600  # of the search for a run that breaks a proof; that of the engine takes minutes
_STRIPED = 2  # ports of each master, in the campaign that comes last
FILES = tuple(name for name in sources() if not name.endswith("_pkg.sv"))

_SWAPS = {
    "&&": "||", "||": "&&", "==": "!=", "!=": "==", " < ": " <= ", " > ": " >= ", " >= ": " > ", " + ": " - ", " - ": " + ",
    " & ": " | ", " | ": " & ", "1'b0": "1'b1", "1'b1": "1'b0", "'0": "'1", "'1": "'0", "~": "", "!": "", " <= ": " < ",
}  # fmt: skip
_TOKEN = re.compile(
    "|".join(re.escape(token) for token in sorted(_SWAPS, key=len, reverse=True)) + r"|(?P<n>\d+)'d(?P<v>\d+)"
)
# Comments, declarations without a value, checks at elaboration and assertions are no hardware.
_NO_HARDWARE = re.compile(r"^\s*(//|module\b|endmodule|parameter\b|(input|output)\b)|\bassert\b|\$fatal")


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
    """Yield every change of the hardware in a SystemVerilog text."""
    at = 0
    lines = [*text.splitlines(keepends=True), ""]
    for number, (line, after) in enumerate(pairwise(lines), 1):
        code = line.split("//")[0]
        if not _NO_HARDWARE.search(code) and "$fatal" not in after:
            for match in _TOKEN.finditer(code):
                old = match[0]
                if old == " <= " and not _compares(code, match.start()):
                    continue
                new = _SWAPS.get(old)
                if new is None:
                    width, value = int(match["n"]), int(match["v"])
                    new = f"{width}'d{(value + 1) % (1 << width)}"
                yield Mutant(at + match.start(), number, old, new)
        at += len(line)


def _compares(code: str, at: int) -> bool:
    """Tell a comparison from an assignment: it stands in brackets or behind an equals sign."""
    before = code[:at]
    return before.count("(") > before.count(")") or re.search(r"[^<>=!]=[^=]", before) is not None


def interval(part: int, whole: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    if not whole:
        return 0.0, 1.0
    z, share = 1.959964, part / whole
    middle, spread = (
        share + z * z / (2 * whole),
        z * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole)),
    )
    return (middle - spread) / (1 + z * z / whole), (middle + spread) / (1 + z * z / whole)


Check = Callable[[str, str], str]  # the name of a file and a text in its place -> one of VERDICTS
VERDICTS = ("bench", "core", "npu", "proof", "undecided", "survived", "build")


@dataclass
class MutationTally:
    """The verdicts on some mutants."""

    name: str
    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    survivors: list[tuple[str, Mutant]] = field(default_factory=list)

    @property
    def real(self) -> int:
        """Mutants that build."""
        return sum(self.verdicts.values()) - self.verdicts["build"]

    @property
    def killed(self) -> int:
        """Mutants that were noticed."""
        return sum(self.verdicts[how] for how in ("bench", "core", "npu", "proof"))

    @property
    def gaps(self) -> list[tuple[str, Mutant]]:
        """Survivors without a reason: something could see them, and nothing did."""
        return [(file, mutant) for file, mutant in self.survivors if not explain(file, sources()[file], mutant)]

    def score(self) -> str:
        """The mutation score (Jia, Harman 2011) in words: the share killed of what something can see."""
        equivalent = len(self.survivors) - len(self.gaps)
        seen = self.real - equivalent
        low, high = interval(self.killed, seen)
        return (
            f"mutation score {100 * self.killed / max(1, seen):.1f} % ({100 * low:.1f} to {100 * high:.1f} %): "
            f"{self.killed} of {seen}, without the {equivalent} that nothing can see, for the reasons in explained.toml"
        )

    def __str__(self) -> str:
        low, high = interval(self.killed, self.real)
        return (
            f"{self.name:32} {self.real:7} {' '.join(f'{self.verdicts[how]:9}' for how in VERDICTS[:-1])}   "
            f"{100 * low:5.1f} to {100 * high:5.1f} %"
        )


def judge(file: str, text: str) -> str:
    """Return what notices this version of a file, of VERDICTS; RtlError when a check cannot be made."""
    verdict = "survived"
    for check in _checks(file):
        verdict = check(file, text)
        if verdict not in ("survived", "undecided"):
            if check is not _by_proofs:  # which asks the proof that kills
                baseline(check, file)
            break
    return verdict


def _checks(file: str) -> list[Check]:
    """What meets a file, cheap checks first; each is asked about what those before it did not notice."""
    top = met_in(file.removesuffix(".sv"))
    if top == "fluidnpu_core":
        return [_by_lint, _by_core, _by_other_lints, _by_proofs]
    benches = [] if top in (None, "fluidnpu_data_plane") else [_by_bench]
    return [_by_lint, *benches, _by_campaign, _by_other_lints, _by_other_campaigns, _by_proofs]


def _npu_models(file: str, text: str) -> tuple[NpuModel, NpuModel, NpuModel]:
    """The whole NPU with this version: as the campaign has it, of the least array, with striped ports."""
    edits = ((file, sources()[file], text),)
    return model_of(edits=edits), model_of(LEAST, edits), model_of(edits=edits, stripes=_STRIPED)


def _by_lint(file: str, text: str) -> str:
    """What Verilator warns of does not build: its warnings are errors."""
    return _lint(_npu_models(file, text)[:1])


def _by_other_lints(file: str, text: str) -> str:
    return _lint(_npu_models(file, text)[1:])


def _lint(models: Sequence[NpuModel]) -> str:
    for model in models:
        try:
            replace(model.verilated, lenient=False).lint()
        except RtlError:
            return "build"
    return "survived"


def _by_bench(file: str, text: str) -> str:
    top = met_in(file.removesuffix(".sv"))
    assert top is not None
    for parameters in _ENGINE if file == "fluidnpu_batching_engine.sv" else (UNITS[top],):
        model = RtlModel(top=top, parameters=parameters, override={file: text})
        try:
            model.build()
        except RtlError:
            return "build"
        try:
            failed = play(model, env=_ENV).failed
        except SimulationError as error:
            if "Assertion failed" not in str(error):
                raise
            failed = ("an assertion of the RTL",)
        if failed:
            return "bench"
    return "survived"


def _by_campaign(file: str, text: str) -> str:
    return _play(_npu_models(file, text)[0], ARRAY, _ROUNDS)


def _by_other_campaigns(file: str, text: str) -> str:
    _, least, striped = _npu_models(file, text)
    verdict = _play(least, LEAST, 1)
    return verdict if verdict != "survived" else _play(striped, ARRAY, 1)


def _play(model: NpuModel, design: Design, rounds: int) -> str:
    from ..npu.campaign import campaign

    try:
        model.build()
    except RtlError:
        return "build"
    try:
        campaign(1, rounds, model=model, design=design)
    except SimulationError:
        return "npu"
    return "survived"


def _by_core(file: str, text: str) -> str:
    from ..core.cells import SLICES
    from ..core.edges import ALIGNED, BYTES, PIECES, first_difference

    edits = ((file, sources()[file], text),)
    # Only one file knows DSP slices.
    forms: list[dict[str, Any]] = [{"drawn": 300}, {"drawn": 20, "numbers": ALIGNED}, {"drawn": 20, "numbers": PIECES}]
    forms.append({"drawn": 20, "numbers": BYTES})
    forms += [{"drawn": 20, "cells": cells} for cells in SLICES if file == "core_mac.sv"]
    for form in forms:
        try:
            if first_difference(edits, **form):
                return "core"
        except SimulationError as error:
            # A build that fails begins with the tool's name; all else is a core that hangs or breaks rules.
            return "build" if re.match(r"(verilator|make) ended", str(error)) else "core"
        except RtlError:
            return "build"
    return "survived"


def _by_proofs(file: str, text: str) -> str:
    """A run from reset that breaks a proof; undecided where a solver has no answer in time."""
    undecided = False
    for name, proof in PROOFS.items():
        if file in proof.reads:
            try:
                verdict = refute(proof, timeout_s=_LIMIT_S, override={file: text}).verdict
            except ProofError:
                undecided = True
                continue
            if verdict == "FAIL":
                _must_hold(name)
                return "proof"
    return "undecided" if undecided else "survived"


@cache
def _must_hold(name: str) -> None:
    """Check that no run breaks a proof of the RTL as it is. Where none comes in time, its test decides."""
    with contextlib.suppress(ProofError):
        if refute(PROOFS[name], timeout_s=_LIMIT_S).verdict == "FAIL":
            raise SimulationError(f"proof {name} must hold of the RTL before it is changed, and a run breaks it")


@cache
def baseline(check: Check, file: str) -> None:
    """Check that a check does not notice the file as it is. Raises RtlError when it does."""
    verdict = check(file, sources()[file])
    if verdict not in ("survived", "undecided"):
        raise SimulationError(f"{file} must pass its checks before it is changed, and the verdict is '{verdict}'")


def explain(file: str, text: str, mutant: Mutant) -> str:
    """Return the reason why a survivor is no gap, or ""."""
    return reason(file, mutant.apply(text).splitlines()[: mutant.line])


Drawn = tuple[str, Mutant]  # the name of a file and a change of it


def draw(files: Sequence[str], sample: int | None, seed: int) -> list[Drawn]:
    """Draw mutants from all places of some files alike, in the order drawn; all of them without `sample`."""
    every = [(file, mutant) for file in files for mutant in mutants(sources()[file])]
    return random.Random(seed).sample(every, len(every) if sample is None else min(sample, len(every)))


def campaign(
    files: Sequence[str], sample: int | None = None, seed: int = 1, jobs: int = 1, log: Path | None = None
) -> list[MutationTally]:
    """Judge mutants of some files, `jobs` at a time; prints those that are not noticed as they come.

    Ctrl-C ends it with a tally of what was judged: mutants come in the order drawn, so that is a sample, too.
    `log` keeps each verdict as it comes; those that it has are not asked again.

    Returns:
        A tally for each file that was changed, by name.

    Raises:
        ParameterError: `log` is of another version of the RTL or its checks.
    """
    tallies: dict[str, MutationTally] = {}
    drawn = draw(files, sample, seed)
    with contextlib.suppress(KeyboardInterrupt), closing(_kept(drawn, jobs, log)) as judged:
        for number, (file, mutant, verdict) in enumerate(judged, 1):
            tally = tallies.setdefault(file, MutationTally(file))
            tally.verdicts[verdict] += 1
            if verdict in ("survived", "undecided"):
                tally.survivors.append((file, mutant))
                _show(file, mutant, verdict)
            total = summary([*tallies.values()])
            print(
                f"{number} of {len(drawn)} judged, {total.killed} of {total.real} killed", file=sys.stderr, flush=True
            )
    return [tallies[file] for file in sorted(tallies)]


def _kept(drawn: Sequence[Drawn], jobs: int, log: Path | None) -> Generator[tuple[str, Mutant, str]]:
    """Yield each mutant with its verdict, first those that a log has; the others are added to it."""
    if log is None:
        yield from _judged(drawn, jobs)
        return
    with VerdictLog(log) as verdicts:
        yield from ((*mutant, verdicts.verdicts[mutant]) for mutant in drawn if mutant in verdicts.verdicts)
        with closing(_judged([mutant for mutant in drawn if mutant not in verdicts.verdicts], jobs)) as judged:
            for file, mutant, verdict in judged:
                verdicts.add((file, mutant), verdict)
                yield file, mutant, verdict


class VerdictLog:
    """Verdicts in a file, a JSON object in each line; the first line tells what was judged, and how.

    Raises:
        ParameterError: The file is of another version of the RTL or its checks, or no log.
    """

    def __init__(self, path: Path) -> None:
        self.verdicts: dict[Drawn, str] = {}
        head = {"mutants of": _version()}
        try:
            text = path.read_text() if path.exists() else ""
            # The last line may have been cut when a campaign was killed; the first is there from the start.
            whole = text[: text.rfind("\n") + 1] or text
            entries = [json.loads(line) for line in whole.splitlines()]
            for entry in entries[1:]:
                mutant = Mutant(entry["start"], entry["line"], entry["old"], entry["new"])
                self.verdicts[entry["file"], mutant] = entry["verdict"]
        except (ValueError, KeyError, TypeError) as error:
            raise ParameterError(f"{path} must be a log of mutants; its lines cannot be read: {error!r}") from None
        if entries and entries[0] != head:
            raise ParameterError(f"{path} must be of the RTL and its checks as they are; they changed since it began")
        if whole != text:
            path.write_text(whole)
        self._file = path.open("a", buffering=1)  # a line at a time
        if not entries:
            self._write(head)

    def add(self, drawn: Drawn, verdict: str) -> None:
        """Write one verdict, so that nothing is lost when the campaign is stopped after it."""
        file, mutant = drawn
        self.verdicts[drawn] = verdict
        self._write({"file": file, **asdict(mutant), "verdict": verdict})

    def _write(self, entry: Mapping[str, object]) -> None:
        self._file.write(json.dumps(entry) + "\n")

    def __enter__(self) -> VerdictLog:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _version() -> str:
    """Return a digest of the RTL and of all that judges it: the files of this room."""
    digest = hashlib.sha256()
    room = Path(__file__).parents[1]
    for path in sorted(room.rglob("*")):
        if path.suffix in (".py", ".pyi", ".sv", ".toml") and path.name not in ("explained.toml", "explained.py"):
            digest.update(f"{path.relative_to(room)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _judged(drawn: Sequence[Drawn], jobs: int) -> Generator[tuple[str, Mutant, str]]:
    """Yield each mutant with its verdict: in their order with one job, as they come with more."""
    if jobs == 1:
        for file, mutant in drawn:
            yield file, mutant, _verdict(file, mutant)
        return
    with ProcessPoolExecutor(jobs) as pool:
        waited = {pool.submit(_verdict, file, mutant): (file, mutant) for file, mutant in drawn}
        try:
            for future in as_completed(waited):
                yield *waited[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _verdict(file: str, mutant: Mutant) -> str:
    return judge(file, mutant.apply(sources()[file]))


def _show(file: str, mutant: Mutant, verdict: str) -> None:
    text = sources()[file]
    change = f"{mutant.old.strip()} -> {mutant.new.strip() or 'nothing'}"
    line = text.splitlines()[mutant.line - 1].strip()
    why = explain(file, text, mutant) or "NOT EXPLAINED"
    print(f"{verdict}: {file}:{mutant.line}: {change} in: {line}: {why}", flush=True)


def summary(tallies: Sequence[MutationTally]) -> MutationTally:
    """Add up tallies."""
    total = MutationTally("all")
    for tally in tallies:
        total.survivors += tally.survivors
        for how, count in tally.verdicts.items():
            total.verdicts[how] += count
    return total


def seed_of_today() -> int:
    """Return a seed that changes every day, so that the same tests draw other mutants."""
    return date.today().toordinal()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and print its table; returns 1 when a survivor has no reason."""
    parser = argparse.ArgumentParser(
        prog="python -m fluidnpu.rtl_tb.proving.mutation",
        description="Change the RTL in one place at a time, and count the changes that are noticed.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"of {', '.join(FILES)}; all by default")
    parser.add_argument("--sample", type=int, metavar="N", help="mutants, drawn from all places alike; all by default")
    parser.add_argument("--seed", type=int, metavar="N", help="of the sample, another one every day by default")
    parser.add_argument("--jobs", type=int, metavar="N", default=1, help="mutants judged at a time, one by default")
    parser.add_argument(
        "--log", type=Path, metavar="PATH", help="keep the verdicts there, and go on with those that it has"
    )
    chosen = parser.parse_args(arguments)
    for file in chosen.files:
        if file not in FILES:
            parser.error(f"FILE must be one of {', '.join(FILES)}, not {file}")
    if chosen.sample is not None and chosen.sample < 1:
        parser.error(f"--sample must be at least 1, not {chosen.sample}")
    if chosen.log is not None and chosen.seed is None:
        parser.error("--log must come with --seed, since other mutants are drawn every day")
    if chosen.jobs < 1:
        parser.error(f"--jobs must be at least 1, not {chosen.jobs}")
    seed = seed_of_today() if chosen.seed is None else chosen.seed
    try:
        tallies = campaign(chosen.files or FILES, chosen.sample, seed, chosen.jobs, chosen.log)
    except (RtlError, OSError) as error:
        print(f"FAIL  {error}", file=sys.stderr)
        return 1
    print(
        f"{'file':32} {'mutants':>7} {' '.join(f'{how:>9}' for how in VERDICTS[:-1])}   95 % interval of the share killed"
    )
    for tally in [*tallies, summary(tallies)]:
        print(tally)
    total = summary(tallies)
    print(f"{total.killed} of {total.real} mutants killed, {total.verdicts['build']} more do not build; seed {seed}")
    print(total.score())
    return int(bool(total.gaps))


if __name__ == "__main__":
    sys.exit(ended(main, "python -m fluidnpu.rtl_tb.proving.mutation"))
