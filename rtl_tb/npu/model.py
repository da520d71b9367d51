"""The whole NPU in RTL (data plane and core) behind a DRAM model, as a shared library for each design.

Needs the extra `rtl`, a C++ compiler and make.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from fluidnpu.dse import Design
from fluidnpu.dse.exact import Machine
from fluidnpu.hls.core import compile_shared_core, core_texts, hls_ultra_banks
from fluidnpu.hls.formats import BATCH, CONTROL, FAULT, LAYER, PROGRESS

from ..common.cache import digest, versions
from ..common.sources import edited, needed, sources
from ..data_plane.parameters import data_plane_parameters
from ..simulation.verilator import LIBRARY, Build, visible

TOP = "fluidnpu_npu"
_HARNESS = "npu_model.cpp"
_HLS_CORE = ("hls_core.cpp", "hls_core.h")
_PROBES = {
    "fluidnpu_data_plane": (
        "idle", "m0_error", "m1_error", "m2_read_error", "m2_write_error", "watchdog", "stuck", "refused", "written",
        "control", "progress", "batch", "layer_start", "running",
        "command_valid", "cmd_ready", "input_ready", "output_ready", "residual_ready", "block_ready",
        "plan_whole", "pieces_loaded", "r_valid",
    ),
    "fluidnpu_sequencer": ("state_q", "ahead_q", "plan_refused"),
    TOP: ("input_valid", "input_ready", "weight_valid", "weight_ready", "residual_valid", "residual_ready",
          "output_valid", "output_ready"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NpuModel:
    """The NPU with its parameters as a shared library.

    `edits` (file, old, new) put bugs in, to test the tests. `hls_core`: file name -> text of the core's C++,
    which then replaces the core in SystemVerilog, a call a cycle.
    """

    parameters: Mapping[str, int] = field(default_factory=dict)
    edits: tuple[tuple[str, str, str], ...] = ()
    hls_core: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, design: Design, *, core: str = "rtl", **memory: int) -> NpuModel:
        """The NPU of a design with the core in SystemVerilog ("rtl") or C++ ("hls").

        The C++ has its banks in UltraRAM where the design's board has some. `memory` is passed to
        `data_plane_parameters`.
        """
        plane = data_plane_parameters(design, **memory)
        if core == "hls":
            ultra = 0 if design.facts is None else hls_ultra_banks(design, design.facts)
            return cls(parameters=plane, hls_core=core_texts(design, ultra))
        return cls(parameters=plane | design.core_parameters())

    @cached_property
    def machine(self) -> Machine:
        """The same NPU in the exact model; the distance of rows is the one that the C++ was rendered with."""
        machine = Machine.of_parameters(self.parameters)
        distance = re.search(r"RowDistance = (\d+);", self.hls_core.get("params.h", ""))
        return machine if distance is None else replace(machine, row_distance=int(distance[1]))

    @cached_property
    def verilated(self) -> Build:
        """The build; with `hls_core`, the C++ stands in the place of the core in SystemVerilog."""
        core = {"fluidnpu_core.sv": _text("hls_core.sv")} if self.hls_core else {}
        texts = needed({**sources(), **core, f"{TOP}.sv": _text(f"{TOP}.sv")}, TOP)
        harness = {name: _text(name) for name in (_HARNESS, *(_HLS_CORE if self.hls_core else ()))}
        ports = {"PORT_BYTES": self.parameters.get("PortBytes", 16), "STRIPES": self.parameters.get("Stripes", 1)}
        fields = [
            *((LAYER, field) for field in ("mode", "row_lanes", "has_residual", "multiplies")),
            *((CONTROL, field) for field in ("start", "exit", "merge", "soft_reset")),
            *((PROGRESS, field) for field in ("busy", "done", "start_refused", "layer")),
            *((BATCH, field) for field in ("active", "b_act")),
            (FAULT, "valid"),
        ]
        renamed = {"has_residual": "ADDS", "valid": "FAULT"}
        places = {f"{renamed.get(name, name.upper())}_AT": packed.field(name).start for packed, name in fields}
        defines = {name: str(number) for name, number in (ports | places).items()}
        if self.hls_core:
            loaded = digest(
                sorted(self._core_texts().items()), versions("hls4ml")
            )  # compiled apart: another core is another build
            defines |= {"HLS_CORE": '"\\"{folder}/core.so\\""', "HLS_CORE_DIGEST": loaded}
        return Build(
            top=TOP,
            texts=edited(texts, self.edits),
            parameters=self.parameters,
            kind=LIBRARY,
            harness={"probes.vlt": _probes(), **harness},
            defines=defines,
            lenient=bool(self.edits),
        )

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits over everything that decides the library."""
        return self.verilated.digest

    def build(self) -> Path:
        """The library, built unless it is there already. Raises SimulationError."""
        return self.verilated.make(self._compile_hls_core)

    def _compile_hls_core(self, folder: Path) -> None:
        if self.hls_core:
            compile_shared_core(self._core_texts(), folder / "core.so")

    def _core_texts(self) -> dict[str, str]:
        """The C++ of the library that hls_core.cpp loads."""
        harness = {"harness.cpp": _text("hls_core_harness.cpp"), "hls_core.h": _text("hls_core.h")}
        return {**self.hls_core, **harness}


def _text(name: str) -> str:
    return files("fluidnpu.rtl_tb").joinpath("npu").joinpath(name).read_text()


def _probes() -> str:
    """The signals inside the RTL that the harness may look at."""
    return "`verilator_config\n" + "".join(visible(module, *names) for module, names in _PROBES.items())
