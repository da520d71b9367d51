"""Runs whole streams through the verilated reference core, a shared library for each design.

Faster than a cocotb bench by two orders of magnitude, so volume goes through here. Needs the extra `rtl`, a
C++ compiler and make. Simulated cycles are cycles of the RTL with the streams as given: always valid and
ready unless `stalls` says otherwise.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design
from fluidnpu.hls.core import LayerStreams
from fluidnpu.models.numeric import Stored

from ..common.sources import edited, needed, sources
from ..errors import SimulationError
from ..simulation.verilator import LIBRARY, Build

Cycles = npt.NDArray[np.uint64]

TOP = "fluidnpu_core"
STREAMS = ("cmd", "input", "weight", "residual", "output")
_DRIVER = "core_driver.cpp"
_FAILURES = {
    1: "no end came within the limit of cycles",
    2: "an output beat changed or vanished before it was taken",
    3: "more output beats came than expected",
    4: "an assertion in the RTL failed",
}


def core_parameters(design: Design) -> dict[str, int]:
    """The parameters of `fluidnpu_core`."""
    return design.core_parameters()


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
    """The result of one run.

    `cycles[stream]`: the cycle of every handshake, cycle 0 being the first after reset.
    """

    output: Stored  # (beats, out_words)
    saturations: int
    cycles: Mapping[str, Cycles]

    @property
    def total_cycles(self) -> int:
        """Cycles from the first command's handshake to the last output's, both counted."""
        return int(self.cycles["output"][-1]) - int(self.cycles["cmd"][0]) + 1


@dataclass(frozen=True, kw_only=True)
class CoreModel:
    """The reference core with its parameters as a shared library.

    `edits` (file, old, new) put bugs in, to test the tests; `cells` (file, text) are models of cells that the
    core instantiates.
    """

    parameters: Mapping[str, int] = field(default_factory=dict)
    edits: tuple[tuple[str, str, str], ...] = ()
    cells: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, design: Design) -> CoreModel:
        """The core of a design."""
        return cls(parameters=core_parameters(design))

    @cached_property
    def verilated(self) -> Build:
        """The build; bugs and foreign cells are not linted."""
        texts = edited({**dict(self.cells), **needed(sources(), TOP)}, self.edits)
        driver = files("fluidnpu.rtl_tb").joinpath("core").joinpath(_DRIVER).read_text()
        return Build(
            top=TOP,
            texts=texts,
            parameters=self.parameters,
            kind=LIBRARY,
            harness={_DRIVER: driver},
            lenient=bool(self.edits or self.cells),
        )

    def build(self) -> Path:
        """The library, built unless it is there already. Raises SimulationError."""
        return self.verilated.make()

    def lint(self) -> None:
        """Elaborate only; ParameterError on illegal parameters, SimulationError with Verilator's message on
        doubtful code.
        """
        self.verilated.lint()

    def run(
        self,
        streams: LayerStreams,
        *,
        stalls: Mapping[str, float] | None = None,
        seed: int = 1,
        limit_cycles: int | None = None,
    ) -> CoreRun:
        """Drive the streams through the core and return outputs, saturations and the cycles of all
        handshakes.

        `stalls`: for each stream of STREAMS the share of cycles in which an idle one stays idle, 0 where it
        is left out. Raises SimulationError when the core hangs, breaks the handshake or leaves input untaken.
        """
        shares = {name: float((stalls or {}).get(name, 0.0)) for name in STREAMS}
        data = {
            "cmd": streams.command_words(),
            "input": streams.input,
            "weight": streams.weight,
            "residual": streams.residual,
            "output": np.zeros((streams.outputs, self.parameters["OutWords"]), streams.input.dtype),
        }
        cycles = {name: np.zeros(len(words), np.uint64) for name, words in data.items()}
        work = sum(len(words) for words in data.values())
        # Sixteen a beat: tiles of few rows wait for the sums of the one before.
        limit = limit_cycles or int((work * 16 + 4000) / (1.0 - min(0.99, max(shares.values()))))
        beats = {name: np.ascontiguousarray(words) for name, words in data.items()}
        ports = {
            name: _Stream(words.ctypes.data, len(words), words.strides[0], int(shares[name] * 65536), 0,
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


@cache
def _library(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))
