"""A whole bitstream project as text: HLS C++, RTL, Tcl, constraints, software, bundle, manifest. Pure; `write_project` writes it.

Vivado and Vivado HLS are needed only to turn it into a bitstream, and nothing here runs them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fluidnpu.boards import Board
from fluidnpu.dse import Design
from fluidnpu.dse.resources import NpuShape, ultra_banks

from ..core.banks import hls_core_lacks, hls_ultra_banks
from ..core.render import render, render_core, row_distance
from ..core.vectors import vector_files
from ..errors import ProjectError
from ..formats.table import CORE_COMMAND
from ..program.program import Program, digest_build_id
from ..registers import REGISTERS, Register
from ..views.names import one_word
from ..views.registers import render_c_header, render_register_table
from .checks.pragmas import check_pragmas
from .checks.tcl import check_tcl
from .design_views import render_register_json, render_sv_package
from .platform import CLOCK_CELL, CLOCK_VLNV, NPU_CELL, NPU_VLNV, PLATFORMS, REGISTERS_RANGE, Platform, PlMemory

MANIFEST = "manifest.json"
MANIFEST_SCHEMA = 1
TOOL_VERSION = "2019.2"
ADDRESS_BITS = 40
DATA_PLANE = "fluidnpu_data_plane"
REFERENCE_CORE = "fluidnpu_core"
CORES = ("hls", "rtl")
DSP_CELLS = {"DSP48E1": 1, "DSP48E2": 2}  # `Cells` of fluidnpu_core.sv
MEMORY_MASTERS = ("m0_axi", "m1_axi", "m2_axi")  # AXI4 masters of the data plane: program and weights, inputs, outputs
WRITING_MASTERS = ("m2_axi",)

Files = dict[str, str | bytes]


@dataclass(frozen=True)
class Stream:
    """One of the core's streams as wires; `to_core` tells which way its data go."""

    name: str
    bits: int
    to_core: bool

    @property
    def core_suffix(self) -> str:
        """Suffix of data and valid at the core."""
        return "i" if self.to_core else "o"

    @property
    def core_ready_suffix(self) -> str:
        """Suffix of ready at the core."""
        return "o" if self.to_core else "i"

    @property
    def plane_name(self) -> str:
        """What the data plane calls it."""
        return f"{'m' if self.to_core else 's'}_axis_{self.name}"

    def direction(self, what: str) -> str:
        """Verilog direction of `what` ("data" or "ready") at the core."""
        return "input  wire" if self.to_core == (what == "data") else "output wire"


@dataclass(frozen=True)
class BusPort:
    """One port of an AXI interface."""

    name: str
    direction: str
    bits: int

    @property
    def range(self) -> str:
        """Its range with a space after it; nothing for one bit."""
        return f"[{self.bits - 1}:0] " if self.bits > 1 else ""


@dataclass(frozen=True)
class MemoryLink:
    """One memory port of the processing system with its clock, the masters that share it and the interconnect cell between."""

    cell: str
    masters: tuple[str, ...]
    port: str
    clock: str


@dataclass(frozen=True)
class ProjectText:
    """What the project's templates may ask."""

    design: Design
    board: Board
    core: str
    has_program: bool
    missing: tuple[str, ...]

    tool_version = TOOL_VERSION
    vlnv = NPU_VLNV
    npu_cell = NPU_CELL
    clock_vlnv = CLOCK_VLNV
    clock_cell = CLOCK_CELL
    address_bits = ADDRESS_BITS
    registers_range = REGISTERS_RANGE

    @property
    def hls(self) -> bool:
        """Whether the core is the HLS one."""
        return self.core == "hls"

    @property
    def core_instance(self) -> str:
        """The module that stands for the core."""
        return "fluidnpu_hls_core" if self.hls else REFERENCE_CORE

    @property
    def ps(self) -> Platform:
        """The board's processing system."""
        return PLATFORMS[self.board.family]

    @property
    def network(self) -> str:
        """The network's name as one word."""
        return one_word(self.design.network)

    @property
    def title(self) -> str:
        """The board's title on one line of printable text."""
        return " ".join("".join(char if char.isprintable() else " " for char in self.board.title).split())

    @property
    def vendor(self) -> str:
        """Vendor part of the NPU's name."""
        return self.vlnv.split(":")[0]

    @property
    def library(self) -> str:
        """Library part."""
        return self.vlnv.split(":")[1]

    @property
    def ip_name(self) -> str:
        """Name part."""
        return self.vlnv.split(":")[2]

    @property
    def ip_version(self) -> str:
        """Version part."""
        return self.vlnv.split(":")[3]

    @property
    def digest12(self) -> str:
        """First digits of the design's digest, enough to tell designs apart."""
        return self.design.digest[:12]

    @property
    def build_id(self) -> str:
        """BUILD_ID in hexadecimal."""
        return f"{digest_build_id(self.design.digest):08x}"

    @property
    def clock_mhz(self) -> str:
        """The PL clock in MHz."""
        return f"{self.design.clock_hz / 1e6:g}"

    @property
    def period_ns(self) -> str:
        """Its period."""
        return f"{1e9 / self.design.clock_hz:.3f}"

    @property
    def row_distance(self) -> int:
        """The HLS core's array must be less deep a pipeline."""
        return row_distance(self.design, hls_ultra_banks(self.design, self.board))

    @property
    def registers(self) -> tuple[Register, ...]:
        """The register map."""
        return REGISTERS

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The five streams of ADR 4."""
        d = self.design
        return (
            Stream("cmd", CORE_COMMAND.wire_bits, True),
            Stream("input", 16 * d.input_words, True),
            Stream("weight", 16 * d.t_p * d.weight_slots, True),
            Stream("residual", 16 * d.out_words, True),
            Stream("output", 16 * d.out_words, False),
        )

    @property
    def bus_interfaces(self) -> tuple[str, ...]:
        """AXI interfaces of the NPU."""
        return ("s_axil", *self.masters)

    @property
    def bus_ports(self) -> tuple[BusPort, ...]:
        """Their ports; without stripes those of the data plane."""
        bits = self.design.port_bits // self.design.stripes
        return (*_axi_lite("s_axil"), *(port for name in self.masters for port in _axi_master(name, bits)))

    @property
    def data_plane_parameters(self) -> tuple[tuple[str, int], ...]:
        """Parameters of the data plane: the design's, its build id, and where the input buffer lies."""
        own = {"BuildId": digest_build_id(self.design.digest)} | ({"UltraBuffer": 1} if self.board.uram288 else {})
        return tuple((self.design.rtl_parameters() | own).items())

    @property
    def core_parameters(self) -> tuple[tuple[str, int], ...]:
        """Parameters of the reference core, its multiply-accumulates as the board's own cells and its banks in UltraRAM as far as that goes;
        the HLS core has its numbers in its text.
        """
        wanted = ("TR", "TP", "TC", "AccBits", "WeightSlots", "OutWords", "InWords", "Stackable", "Split")
        given = self.design.rtl_parameters() | {"Cells": DSP_CELLS[self.board.dsp_primitive]}
        banks = int(ultra_banks(NpuShape.of(self.design, self.board), self.board))
        ultra = (("UltraBanks", banks),) if banks else ()
        return () if self.hls else (*((name, given[name]) for name in (*wanted, "Cells")), *ultra)

    @property
    def pl_memory(self) -> PlMemory | None:
        """The memory controller of the programmable logic, where the design's memory is there."""
        return self.ps.pl_memory if self.board.memory(self.design.memory).side == "pl" else None

    @property
    def masters(self) -> tuple[str, ...]:
        """The NPU's memory masters: those of the data plane, or the ports that they are spread over."""
        if self.design.stripes == 1:
            return MEMORY_MASTERS
        return tuple(_stripe(name, port) for port in range(self.design.stripes) for name in MEMORY_MASTERS)

    @property
    def striped(self) -> tuple[tuple[str, bool], ...]:
        """The data plane's masters that are spread over several ports, and whether they write."""
        return () if self.design.stripes == 1 else tuple((name, name in WRITING_MASTERS) for name in MEMORY_MASTERS)

    def stripes_of(self, name: str, signal: str) -> str:
        """The ports' signals of a master, side by side, the last port's first."""
        ports = range(self.design.stripes)
        return "{" + ", ".join(f"{_stripe(name, port)}_{signal}" for port in reversed(ports)) + "}"

    @property
    def plane_ports(self) -> tuple[BusPort, ...]:
        """AXI ports of the data plane."""
        return (
            *_axi_lite("s_axil"),
            *(port for name in MEMORY_MASTERS for port in _axi_master(name, self.design.port_bits)),
        )

    @property
    def memory_links(self) -> tuple[MemoryLink, ...]:
        """How memory masters reach the processing system."""
        if self.pl_memory:
            return ()
        stripes, masters = self.design.stripes, self.masters
        count = min(self.board.axi_ports, len(self.ps.memory_ports), len(masters) if stripes == 1 else stripes)
        share = {i: masters[i::count] if stripes == 1 else masters[3 * i : 3 * i + 3] for i in range(count)}
        return tuple(
            MemoryLink(f"memory_{index}", share[index], port, clock)
            for index, (port, clock) in enumerate(self.ps.memory_ports[:count])
        )

    @property
    def ps_settings(self) -> tuple[tuple[str, str], ...]:
        """The processing system's settings."""
        own = self.ps.settings_for(len(self.memory_links), self.design.port_bits // self.design.stripes)
        return (*own, *(self.pl_memory.settings.items() if self.pl_memory else ()))

    @property
    def clocked_pins(self) -> tuple[str, ...]:
        """Everything that the NPU's clock drives."""
        links, pl = self.memory_links, self.pl_memory
        return (
            f"{NPU_CELL}/aclk",
            "reset_0/slowest_sync_clk",
            "control_0/aclk",
            *(f"{link.cell}/aclk" for link in links),
            f"{self.ps.cell}/{self.ps.control_clock}",
            *(f"{self.ps.cell}/{link.clock}" for link in links),
            *(("memory_0/aclk", f"{self.ps.cell}/{pl.host_clock}") if pl else ()),
        )

    @property
    def reset_pins(self) -> tuple[str, ...]:
        """Everything that the one reset reaches."""
        cells = ("memory_0",) if self.pl_memory else tuple(link.cell for link in self.memory_links)
        return (f"{NPU_CELL}/aresetn", "control_0/aresetn", *(f"{cell}/aresetn" for cell in cells))


def render_project(
    design: Design,
    program: Program | None,
    board: Board,
    core: str = "hls",
    rtl: Mapping[str, str] | None = None,
) -> Files:
    """Path -> content of the whole project, the manifest included; the same arguments give the same bytes.

    `rtl`: file name -> text of the SystemVerilog in compile order, as `rtl_tb.sources()` gives it; without it, or as long as it lacks
    the data plane, the project's README says that no bitstream can be made. `core`: "hls", or "rtl" for the reference core.
    """
    rtl = {} if rtl is None else rtl
    _check(design, program, board, core, rtl)
    p = ProjectText(design, board, core, program is not None, ())
    p = ProjectText(design, board, core, program is not None, _missing(p, rtl))
    files: Files = {}
    if p.hls:
        files |= _hls_files(p)
    files |= {f"rtl/{name}": text for name, text in rtl.items() if p.core == "rtl" or not _is_reference_core(name)}
    files["rtl/fluidnpu_design_pkg.sv"] = render_sv_package(design)
    for path in ("rtl/fluid_npu.v", *(("rtl/fluidnpu_hls_core.v",) if p.hls else ())):
        files[path] = _text(path.split("/")[1], p)
    for name in ("package.tcl", "block_design.tcl", "build.tcl", "fluidnpu.xdc"):
        files[f"vivado/{name}"] = _text(name, p)
    files |= {"Makefile": _text("Makefile", p), "README.md": _text("README.md", p)}
    files |= {"software/fluidnpu_registers.h": render_c_header(), "docs/registers.md": render_register_table()}
    files["bundle/design.json"] = design.dumps()
    files["bundle/registers.json"] = render_register_json(design, p.ps.registers_base)
    if program is not None:
        files |= {f"bundle/{name}": content for name, content in program.files().items()}
    _check_texts(files)
    files[MANIFEST] = _manifest(p, files)
    return dict(sorted(files.items()))


def _check(design: Design, program: Program | None, board: Board, core: str, rtl: Mapping[str, str]) -> None:
    if core not in CORES:
        raise ProjectError(f"core must be one of {', '.join(CORES)}, not '{core}'")
    if core == "rtl" and f"{REFERENCE_CORE}.sv" not in rtl:
        raise ProjectError(
            f"the reference core must be among the RTL sources to be built, and {REFERENCE_CORE}.sv is not"
        )
    if design.board != board.name:
        raise ProjectError(f"the design must be made for board '{board.name}', and it was made for '{design.board}'")
    memory = board.memory(design.memory)
    if memory.side == "pl" and PLATFORMS[board.family].pl_memory is None:
        raise ProjectError(
            f"memory '{memory.name}' of board '{board.name}' needs a controller in the programmable logic, which projects have for zynq7000 only"
        )
    if (memory.port_bits, memory.stripes) != (design.port_bits, design.stripes):
        raise ProjectError(
            f"masters of memory '{memory.name}' of board '{board.name}' must be as wide as the design's, {design.port_bits} bits on "
            f"{design.stripes} ports, and they have {memory.port_bits} on {memory.stripes}"
        )
    for name in (board.part, board.board_part):
        if not re.fullmatch(r"[A-Za-z0-9_.:-]+", name):
            raise ProjectError(
                f"part and board_part must be letters, digits and _.:- to stand in a script, not {name!r}"
            )
    if program is not None and program.design_digest != design.digest:
        raise ProjectError("the program must be compiled for this very design, and it was compiled for another")


def _check_texts(files: Mapping[str, str | bytes]) -> None:
    """No project leaves this room with a pragma or a Tcl command that its own checkers do not know."""
    for path, content in files.items():
        problems: list[str] = []
        if isinstance(content, str) and path.endswith(".tcl"):
            problems = check_tcl(content, "vivado_hls" if path.startswith("hls/") else "vivado")
        elif isinstance(content, str) and path.startswith("hls/"):
            problems = check_pragmas(content)
        if problems:
            raise ProjectError(f"the generated {path} must pass its own checks: {problems[0]}")


def _is_reference_core(name: str) -> bool:
    return name.startswith("core_") or name == f"{REFERENCE_CORE}.sv"


def _missing(p: ProjectText, rtl: Mapping[str, str]) -> tuple[str, ...]:
    """Why no bitstream can be made yet, in words."""
    if p.hls and (lacks := hls_core_lacks(p.design, p.board)):
        return (lacks,)
    source = rtl.get(f"{DATA_PLANE}.sv")
    if source is None:
        return (f"the data plane (`{DATA_PLANE}.sv`) is not among its sources",)
    wrapper = _text("fluid_npu.v", p)
    wanted = set(
        re.findall(r"\.(\w+)\(", wrapper[wrapper.index(DATA_PLANE) : wrapper.index(f"    {p.core_instance} ")])
    )
    odd = sorted(name for name in wanted if not re.search(rf"\b{name}\b", source))
    return (f"`{DATA_PLANE}.sv` lacks what `fluid_npu.v` joins: {', '.join(odd)}",) if odd else ()


def _hls_files(p: ProjectText) -> Files:
    texts = render_core(p.design, hls_ultra_banks(p.design, p.board))
    bench = texts.pop("tb_core.cpp")
    files: Files = {f"hls/src/{name}": text for name, text in texts.items()}
    files["hls/tb/tb_core.cpp"] = bench
    files |= {f"hls/tb/{name}": content for name, content in vector_files(p.design).items()}
    return files | {"hls/synth.tcl": _text("hls_synth.tcl", p), "hls/csim.tcl": _text("hls_csim.tcl", p)}


def _text(template: str, p: ProjectText) -> str:
    return render(f"project/{template}", {"p": p})


def _manifest(p: ProjectText, files: Mapping[str, str | bytes]) -> str:
    digests = {
        name: hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
        for name, content in files.items()
    }
    body = {
        "schema": MANIFEST_SCHEMA,
        "network": p.design.network,
        "board": p.board.name,
        "core": p.core,
        "design": p.design.digest,
        "build_id": p.build_id,
        "missing": list(p.missing),
        "files": digests,
    }
    return json.dumps(body, sort_keys=True, indent=1, allow_nan=False) + "\n"


def _axi_lite(name: str) -> tuple[BusPort, ...]:
    address = REGISTERS_RANGE.bit_length() - 1
    ports = (
        ("awaddr", "input ", address), ("awvalid", "input ", 1), ("awready", "output", 1),
        ("wdata", "input ", 32), ("wstrb", "input ", 4), ("wvalid", "input ", 1), ("wready", "output", 1),
        ("bresp", "output", 2), ("bvalid", "output", 1), ("bready", "input ", 1),
        ("araddr", "input ", address), ("arvalid", "input ", 1), ("arready", "output", 1),
        ("rdata", "output", 32), ("rresp", "output", 2), ("rvalid", "output", 1), ("rready", "input ", 1),
    )  # fmt: skip
    return tuple(BusPort(f"{name}_{port}", direction, bits) for port, direction, bits in ports)


def _stripe(master: str, port: int) -> str:
    """Name of one of the ports that a master is spread over."""
    return master.replace("_axi", f"_{port}_axi")


def _axi_master(name: str, data_bits: int) -> tuple[BusPort, ...]:
    """Read channels, and write channels where the data plane writes."""
    address = (("addr", "output", ADDRESS_BITS), ("len", "output", 8), ("size", "output", 3), ("burst", "output", 2),
               ("valid", "output", 1), ("ready", "input ", 1))  # fmt: skip
    reads = (
        *((f"ar{port}", direction, bits) for port, direction, bits in address),
        ("rdata", "input ", data_bits), ("rresp", "input ", 2), ("rlast", "input ", 1), ("rvalid", "input ", 1),
        ("rready", "output", 1),
    )  # fmt: skip
    writes = (
        *((f"aw{port}", direction, bits) for port, direction, bits in address),
        ("wdata", "output", data_bits), ("wstrb", "output", data_bits // 8), ("wlast", "output", 1),
        ("wvalid", "output", 1), ("wready", "input ", 1),
        ("bresp", "input ", 2), ("bvalid", "input ", 1), ("bready", "output", 1),
    )  # fmt: skip
    writing = {
        stripe for master in WRITING_MASTERS for stripe in (master, *(_stripe(master, port) for port in range(4)))
    }
    ports = (*reads, *(writes if name in writing else ()))
    return tuple(BusPort(f"{name}_{port}", direction, bits) for port, direction, bits in ports)
