"""Runs cocotb benches on Verilator models; a failing test raises with its name.

A bench is a cocotb module of a subject's `benches/`, named as the module that it drives; pytest chooses the
parameters.

>>> model = Model(top="common_fifo", parameters={"Width": 8, "Depth": 4})
>>> model.verilated.folder == Model(top="common_fifo", parameters={"Depth": 4, "Width": 8}).verilated.folder
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
from .verilator import BENCH, Build, visible


@dataclass(frozen=True, kw_only=True)
class Model:
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
        if room.joinpath(subject).joinpath("benches").joinpath(f"{bench}.py").is_file():
            return f"fluidnpu.rtl_tb.{subject}.benches.{bench}"
    raise SimulationError(f"no bench is named '{bench}'")


def run_folder(
    model: Model,
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


def run(
    model: Model,
    bench: str | None = None,
    *,
    seed: int = 1,
    tests: str | None = None,
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """Run the tests of a bench on a model and return their names; SimulationError when one fails.

    `bench` is the one named as the model's top by default. `tests` is a regular expression that chooses among
    its tests. `env` is passed to the bench, and so are the model's parameters.
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
    return _passed(results, log)


def _passed(results: Path, log: Path) -> list[str]:
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-60:]) if log.exists() else "(no log)"
    if not results.exists():
        raise SimulationError(f"the simulator left no results; its log ends:\n{tail}")
    cases = list(ET.parse(results).getroot().iter("testcase"))
    failed = [
        case.get("name", "?") for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    if failed or not cases:
        raise SimulationError(f"failed: {', '.join(failed) or 'no test was found'}; the log ends:\n{tail}")
    return [case.get("name", "?") for case in cases if case.find("skipped") is None]
