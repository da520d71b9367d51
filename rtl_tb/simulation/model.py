"""Runs cocotb benches on Verilator models; a failing test raises with its name.

A bench is a cocotb module of a subject's `benches/`, named as the module that it drives; pytest chooses the
parameters.

>>> model = RtlModel(top="common_fifo", parameters={"Width": 8, "Depth": 4})
>>> same = RtlModel(top="common_fifo", parameters={"Depth": 4, "Width": 8})
>>> model.verilated.folder == same.verilated.folder
True
"""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from ..common.cache import digest
from ..common.sources import SUBJECTS, needed, sources, texts_of
from ..errors import SimulationError
from .fst import write_fst
from .verilator import BENCH, Build, visible


@dataclass(frozen=True, kw_only=True)
class RtlModel:
    """One top module with parameters as a simulator for cocotb; the top may be a harness that stands beside
    its bench.

    `waves` adds VCD tracing; `override` replaces the text of source files.
    """

    top: str
    parameters: Mapping[str, int] = field(default_factory=dict)
    waves: bool = False
    override: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def verilated(self) -> Build:
        """The build, of the files that the top needs only: an edit elsewhere rebuilds nothing.

        VPI sees the ports and registers of the top module only, which runs faster than all.
        """
        return Build(
            top=self.top,
            texts=needed({**sources(), **texts_of("benches"), **self.override}, self.top),
            parameters=self.parameters,
            kind=BENCH,
            harness={"public.vlt": "`verilator_config\n" + visible(self.top, "*", write=True)},
            lenient=bool(self.override),
            waves=self.waves,
        )

    def build(self) -> Path:
        """The simulator, built unless it is there already. Raises SimulationError."""
        return self.verilated.make()


def bench_module(bench: str) -> str:
    """The dotted name of a bench in any subject. Raises SimulationError.

    >>> bench_module("axi_masters_top")
    'fluidnpu.rtl_tb.axi.benches.axi_masters_top'
    """
    room = files("fluidnpu.rtl_tb")
    for subject in SUBJECTS:
        for folder in ("benches", "environment"):  # of one module, or of the whole data plane
            if room.joinpath(subject).joinpath(folder).joinpath(f"{bench}.py").is_file():
                return f"fluidnpu.rtl_tb.{subject}.{folder}.{bench}"
    raise SimulationError(f"no bench is named '{bench}'")


def run_folder(
    model: RtlModel,
    bench: str | None = None,
    *,
    seed: int = 1,
    tests: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Path:
    """The folder in which `run` with the same arguments leaves log, results and files of the bench."""
    bench = bench or model.top
    label = digest(bench, seed, tests, sorted((env or {}).items()))
    return model.verilated.folder / "runs" / f"{bench}-{label}"


@dataclass(frozen=True, kw_only=True)
class CaseRun:
    """One test of a bench as it ended; `message` says why it failed."""

    name: str
    passed: bool
    seconds: float
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class BenchRun:
    """A bench as it ended: its tests, its log, and its waveform where the model has `waves`."""

    cases: tuple[CaseRun, ...]
    log: Path
    waveform: Path | None = None

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the tests that failed."""
        return tuple(case.name for case in self.cases if not case.passed)

    def tail(self) -> str:
        """The last lines of the log."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-60:])


def play(
    model: RtlModel,
    bench: str | None = None,
    *,
    seed: int = 1,
    tests: str | None = None,
    env: Mapping[str, str] | None = None,
    keep_vcd: bool = False,
) -> BenchRun:
    """Run the tests of a bench on a model and return how each of them ended.

    `bench` is the one named as the model's top by default. `tests` is a regular expression that chooses among
    its tests. `env` is passed to the bench, and so are the model's parameters. A model with `waves` leaves an
    FST, and with `keep_vcd` the VCD that it was made from. Raises SimulationError when no test was run.
    """
    module = bench_module(bench or model.top)
    folder = model.build().parent
    from cocotb_tools.runner import get_runner

    out = run_folder(model, bench, seed=seed, tests=tests, env=env)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    results, log = out / "results.xml", out / "log.txt"
    with suppress(SystemExit, RuntimeError):  # raised by the runner on a failure; the results name it
        get_runner("verilator").test(
            test_module=module,
            hdl_toplevel=model.top,
            hdl_toplevel_lang="verilog",
            build_dir=folder,
            test_dir=out,
            results_xml=str(results),
            log_file=str(log),
            seed=seed,
            test_filter=tests,
            waves=model.waves,
            extra_env={"COCOTB_LOG_LEVEL": "INFO", "PARAMETERS": json.dumps(dict(model.parameters)), **(env or {})},
        )
    done = BenchRun(cases=_cases(results), log=log, waveform=_waveform(out, keep_vcd) if model.waves else None)
    if not done.cases:
        why = "no test was found" if results.exists() else "the simulator left no results"
        seen = f"; waveform up to there: {done.waveform}" if done.waveform else ""
        raise SimulationError(f"failed: {why}{seen}; the log {log} ends:\n{done.tail()}")
    return done


def run(
    model: RtlModel,
    bench: str | None = None,
    *,
    seed: int = 1,
    tests: str | None = None,
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """Run the tests of a bench as `play` does and return their names. Raises SimulationError when one
    fails.
    """
    done = play(model, bench, seed=seed, tests=tests, env=env)
    if done.failed:
        raise SimulationError(f"failed: {', '.join(done.failed)}; the log ends:\n{done.tail()}")
    return [case.name for case in done.cases]


def _cases(results: Path) -> tuple[CaseRun, ...]:
    """The tests in a report of cocotb, without those that were skipped."""
    if not results.exists():
        return ()
    cases = []
    for entry in ET.parse(results).getroot().iter("testcase"):
        if entry.find("skipped") is not None:
            continue
        failure = next((element for kind in ("failure", "error") if (element := entry.find(kind)) is not None), None)
        message = "" if failure is None else f"{failure.get('type', 'failed')}: {failure.get('message', '')}"
        cases.append(
            CaseRun(
                name=entry.get("name", "?"),
                passed=failure is None,
                seconds=float(entry.get("time", "0")),
                message=message,
            )
        )
    return tuple(cases)


def _waveform(folder: Path, keep_vcd: bool) -> Path | None:
    """The FST of a run that was traced; None when the simulator ended before it wrote anything."""
    vcd, fst = folder / "dump.vcd", folder / "dump.fst"
    if not vcd.exists():
        return None
    write_fst(vcd, fst)
    if not keep_vcd:
        vcd.unlink()
    return fst
