"""The values that the project's templates read, derived from a design and a board. Pure; no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from fluidnpu.boards import Board
from fluidnpu.dse import Design
from fluidnpu.dse.resources import NpuShape, Place, ultra_banks

from ..core.banks import hls_ultra_banks
from ..core.render import row_distance
from ..formats.table import CORE_COMMAND
from ..program.program import digest_build_id
from ..registers import REGISTERS, Register
from ..views.names import one_word
from .axi import ADDRESS_BITS, MEMORY_MASTERS, WRITING_MASTERS, BusPort, axi_lite, axi_master, npu_ports, stripe
from .chains import chain_places
from .platform import (
    CLOCK_CELL,
    CLOCK_VLNV,
    NPU_CELL,
    NPU_VLNV,
    PLATFORMS,
    PS_CLOCK_MHZ,
    REGISTERS_RANGE,
    STATUS_LINES,
    STATUS_SIGNATURE,
    Platform,
    PlMemory,
)
from .tools import TOOLS, Tools

REFERENCE_CORE = "fluidnpu_core"
MEMORY_BYTES = 1 << 28
DSP_CELLS = {"DSP48E1": 1, "DSP48E2": 2}  # `Cells` of fluidnpu_core.sv


@dataclass(frozen=True)
class StreamWires:
    """One of the core's streams as wires; `to_core`: its data flow towards the core."""

    name: str
    bits: int
    to_core: bool

    @property
    def core_suffix(self) -> str:
        """The suffix of data and valid at the core."""
        return "i" if self.to_core else "o"

    @property
    def core_ready_suffix(self) -> str:
        """The suffix of ready at the core."""
        return "o" if self.to_core else "i"

    @property
    def plane_name(self) -> str:
        """The stream's name at the data plane."""
        return f"{'m' if self.to_core else 's'}_axis_{self.name}"

    def direction(self, what: str) -> str:
        """The Verilog direction of `what` ("data" or "ready") at the core."""
        return "input  wire" if self.to_core == (what == "data") else "output wire"


@dataclass(frozen=True)
class MemoryLink:
    """One memory port of the processing system with its interconnect, its masters and its clock."""

    cell: str
    masters: tuple[str, ...]
    port: str
    clock: str


@dataclass(frozen=True)
class ProjectText:
    """The values that the project's templates read."""

    design: Design
    board: Board
    core: str
    has_program: bool
    missing: tuple[str, ...]
    tools: Tools = TOOLS["2019.2"]
    has_wheel: bool = False
    first_run: bool = False

    vlnv = NPU_VLNV
    npu_cell = NPU_CELL
    clock_vlnv = CLOCK_VLNV
    clock_cell = CLOCK_CELL
    address_bits = ADDRESS_BITS
    registers_range = REGISTERS_RANGE

    @property
    def hls(self) -> bool:
        """True for the HLS core."""
        return self.core == "hls"

    @property
    def core_instance(self) -> str:
        """The module that instantiates or is the core."""
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
        """The board's title as one line of printable text."""
        return " ".join("".join(char if char.isprintable() else " " for char in self.board.title).split())

    @property
    def vendor(self) -> str:
        """The vendor in the NPU's VLNV."""
        return self.vlnv.split(":")[0]

    @property
    def library(self) -> str:
        """The library in the NPU's VLNV."""
        return self.vlnv.split(":")[1]

    @property
    def ip_name(self) -> str:
        """The name in the NPU's VLNV."""
        return self.vlnv.split(":")[2]

    @property
    def ip_version(self) -> str:
        """The version in the NPU's VLNV."""
        return self.vlnv.split(":")[3]

    @property
    def digest12(self) -> str:
        """The first digits of the design's digest, enough to distinguish designs."""
        return self.design.hardware_digest[:12]

    @property
    def build_id(self) -> str:
        """BUILD_ID in hexadecimal."""
        return f"{digest_build_id(self.design.hardware_digest):08x}"

    @property
    def clock_mhz(self) -> str:
        """The PL clock in MHz."""
        return f"{self.design.clock_hz / 1e6:g}"

    @property
    def period_ns(self) -> str:
        """The period of the PL clock in ns."""
        return f"{1e9 / self.design.clock_hz:.3f}"

    @property
    def row_distance(self) -> int:
        """The depth in cycles that the pipeline of the HLS core's array must stay below."""
        return row_distance(self.design, hls_ultra_banks(self.design, self.board))

    @property
    def registers(self) -> tuple[Register, ...]:
        """The register map."""
        return REGISTERS

    @property
    def streams(self) -> tuple[StreamWires, ...]:
        """The five streams of ADR 4."""
        d = self.design
        return (
            StreamWires("cmd", CORE_COMMAND.wire_bits, True),
            StreamWires("input", d.word_bits * d.input_words, True),
            StreamWires("weight", d.word_bits * d.t_p * d.weight_slots, True),
            StreamWires("residual", d.word_bits * d.out_words, True),
            StreamWires("output", d.word_bits * d.out_words, False),
        )

    @property
    def bus_interfaces(self) -> tuple[str, ...]:
        """The AXI interfaces of the NPU."""
        return ("s_axil", *self.masters)

    @property
    def bus_ports(self) -> tuple[BusPort, ...]:
        """The ports of the NPU's AXI interfaces: those of data plane or stripes, and constants."""
        return npu_ports(self.port_bits, self.masters)

    @property
    def port_bits(self) -> int:
        """The width of each of the NPU's memory ports: a master's, or its share of one."""
        return self.design.port_bits // self.design.stripes

    @property
    def pynq_command(self) -> str:
        """The command that serves with PYNQ: a shell of root's reads the profiles of PYNQ and XRT first."""
        profiles = "; ".join(f". /etc/profile.d/{name}.sh" for name in ("pynq_venv", "xrt_setup"))
        return f"sudo bash -c '{profiles}; fluidnpu stream bundle --device pynq --rate 100 --slo 50ms'"

    @property
    def data_plane_parameters(self) -> tuple[tuple[str, int | str], ...]:
        """Parameters of the data plane: the design's, its build id, and the RAM of the input buffer.

        The build id has its width with it: half of them are too large for a number without one.
        """
        ultra = {"UltraBuffer": 1} if self.board.uram288 else {}
        given: dict[str, int | str] = {**self.design.rtl_parameters(), "BuildId": f"32'h{self.build_id}", **ultra}
        return tuple(given.items())

    @property
    def core_parameters(self) -> tuple[tuple[str, int], ...]:
        """Parameters of the reference core, with the board's DSP cells and UltraRAM.

        Empty for the HLS core, whose text holds its numbers.
        """
        banks = int(ultra_banks(NpuShape.of(self.design, self.board), self.board))
        given = self.design.core_parameters() | {"Cells": DSP_CELLS[self.board.dsp_primitive]}
        return () if self.hls else tuple((given | ({"UltraBanks": banks} if banks else {})).items())

    @property
    def dsp_columns(self) -> tuple[tuple[int, int], ...]:
        """The board's columns of DSP slices as (height, number), the highest first, each height once."""
        counts: dict[int, int] = {}
        for height, count in self.board.dsp_columns:
            counts[height] = counts.get(height, 0) + count
        return tuple(sorted(counts.items(), reverse=True))

    @property
    def board_files(self) -> str:
        """The name of the board's files for the vendor's tools, of any version."""
        return self.board.board_part.rpartition(":")[0]

    @property
    def breaks(self) -> bool:
        """True where chains of the reference core break into pieces for the columns of DSP slices."""
        return not self.hls and self.design.array.broken > 0 and bool(self.board.dsp_columns)

    @property
    def chain_places(self) -> tuple[Place, ...]:
        """The place of every piece of every chain."""
        return chain_places(self.design, self.board)

    @property
    def pl_memory(self) -> PlMemory | None:
        """The memory controller in the programmable logic; None when the design's memory is at the PS."""
        return self.ps.pl_memory if self.board.memory(self.design.memory).side == "pl" else None

    @property
    def masters(self) -> tuple[str, ...]:
        """The NPU's memory masters: those of the data plane, or the ports over which they are striped."""
        if self.design.stripes == 1:
            return MEMORY_MASTERS
        return tuple(stripe(name, port) for port in range(self.design.stripes) for name in MEMORY_MASTERS)

    @property
    def striped(self) -> tuple[tuple[str, bool], ...]:
        """(name, writes) of the data plane's masters that are striped over several ports."""
        return () if self.design.stripes == 1 else tuple((name, name in WRITING_MASTERS) for name in MEMORY_MASTERS)

    def stripes_of(self, name: str, signal: str) -> str:
        """The concatenation of a master's signals at all its ports, the last port first."""
        ports = range(self.design.stripes)
        return "{" + ", ".join(f"{stripe(name, port)}_{signal}" for port in reversed(ports)) + "}"

    @property
    def plane_ports(self) -> tuple[BusPort, ...]:
        """The AXI ports of the data plane."""
        return (
            *axi_lite("s_axil"),
            *(port for name in MEMORY_MASTERS for port in axi_master(name, self.design.port_bits)),
        )

    @property
    def memory_links(self) -> tuple[MemoryLink, ...]:
        """The links from memory masters to the processing system; empty with a controller in the logic."""
        if self.pl_memory:
            return ()
        stripes, masters = self.design.stripes, self.masters
        count = self.ps.ports_used(self.board.axi_ports, stripes)
        share = {i: masters[i::count] if stripes == 1 else masters[3 * i : 3 * i + 3] for i in range(count)}
        return tuple(
            MemoryLink(f"memory_{index}", share[index], port, clock)
            for index, (port, clock) in enumerate(self.ps.memory_ports[:count])
        )

    @property
    def ps_settings(self) -> tuple[tuple[str, str], ...]:
        """The processing system's settings."""
        lines = len(STATUS_SIGNATURE) + len(STATUS_LINES)
        settings = self.ps.settings_for(len(self.memory_links), self.port_bits, lines)
        return (*settings, *(self.pl_memory.settings.items() if self.pl_memory else ()))

    @property
    def clocked_pins(self) -> tuple[str, ...]:
        """Every pin that the NPU's clock drives."""
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
    def ps_vlnv(self) -> str:
        """The VLNV of the processing system in the tools."""
        return self.tools.vlnv(self.ps.vlnv)

    @property
    def status_signature(self) -> int:
        """The value of the constant on the first status lines, the first line its bit 0."""
        return sum(bit << place for place, bit in enumerate(STATUS_SIGNATURE))

    @property
    def signature_bits(self) -> int:
        """The number of status lines that carry the signature."""
        return len(STATUS_SIGNATURE)

    @property
    def memory_bytes(self) -> int:
        """The memory that the device tree keeps for the NPU."""
        return MEMORY_BYTES

    @property
    def ps_clock_hz(self) -> int:
        """The rate of the processing system's clock for the logic."""
        return PS_CLOCK_MHZ * 1_000_000

    @property
    def reset_pins(self) -> tuple[str, ...]:
        """Every pin that the reset drives."""
        cells = ("memory_0",) if self.pl_memory else tuple(link.cell for link in self.memory_links)
        return (f"{NPU_CELL}/aresetn", "control_0/aresetn", "status_0/In2", *(f"{cell}/aresetn" for cell in cells))
