"""The AXI ports of the NPU and of its data plane. Facts only."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fluidnpu.dse.exact import Machine

from .platform import REGISTERS_RANGE

ADDRESS_BITS = 40
MEMORY_MASTERS = ("m0_axi", "m1_axi", "m2_axi")  # of the data plane: program and weights, inputs, outputs
WRITING_MASTERS = ("m2_axi",)


@dataclass(frozen=True)
class BusPort:
    """One port of an AXI interface."""

    name: str
    direction: str
    bits: int
    constant: int | None = None  # that it drives, when the data plane has no such port
    parameters: str = ""  # of its interface, said once, at its first port

    @property
    def range(self) -> str:
        """The Verilog range with a space after it; empty for one bit."""
        return f"[{self.bits - 1}:0] " if self.bits > 1 else ""

    @property
    def interface(self) -> str:
        """The name of its interface."""
        return self.name.rpartition("_")[0]

    @property
    def signal(self) -> str:
        """The name of its signal in IP-XACT."""
        return self.name.rpartition("_")[2].upper()


def axi_lite(name: str) -> tuple[BusPort, ...]:
    """The ports of an AXI4-Lite slave that holds the registers."""
    address = REGISTERS_RANGE.bit_length() - 1
    ports = (
        ("awaddr", "input ", address), ("awvalid", "input ", 1), ("awready", "output", 1),
        ("wdata", "input ", 32), ("wstrb", "input ", 4), ("wvalid", "input ", 1), ("wready", "output", 1),
        ("bresp", "output", 2), ("bvalid", "output", 1), ("bready", "input ", 1),
        ("araddr", "input ", address), ("arvalid", "input ", 1), ("arready", "output", 1),
        ("rdata", "output", 32), ("rresp", "output", 2), ("rvalid", "output", 1), ("rready", "input ", 1),
    )  # fmt: skip
    return tuple(BusPort(f"{name}_{port}", direction, bits) for port, direction, bits in ports)


# Bursts in flight: what a master's queue holds of the longest. Unsaid, an interconnect may take it for one.
OUTSTANDING = Machine.queue_beats // Machine.max_burst
WAYS = {"ar": "READ", "aw": "WRITE"}  # address channel -> what Vivado calls its way

# ARM IHI 0022: normal, non-cacheable and bufferable; unprivileged, secure, data
MASTER_CONSTANTS = (("cache", 4, 0b0011), ("prot", 3, 0b000))


def npu_ports(data_bits: int, masters: tuple[str, ...]) -> tuple[BusPort, ...]:
    """The ports of the NPU as an IP: those of its interfaces, with what they tell Vivado, and constants."""
    address = REGISTERS_RANGE.bit_length() - 1
    lite = _described(axi_lite("s_axil"), f"PROTOCOL AXI4LITE, DATA_WIDTH 32, ADDR_WIDTH {address}, HAS_PROT 0")
    return (*lite, *(port for name in masters for port in _described_master(name, data_bits)))


def _described_master(name: str, data_bits: int) -> tuple[BusPort, ...]:
    ports = axi_master(name, data_bits)
    channels = [channel for channel in ("ar", "aw") if any(port.name == f"{name}_{channel}addr" for port in ports)]
    mode = "READ_WRITE" if len(channels) == 2 else "READ_ONLY"
    reads = (
        f"PROTOCOL AXI4, READ_WRITE_MODE {mode}, DATA_WIDTH {data_bits}, ADDR_WIDTH {ADDRESS_BITS}, ID_WIDTH 0, HAS_CACHE 1, "
        f"HAS_PROT 1, HAS_LOCK 0, HAS_QOS 0, HAS_REGION 0, SUPPORTS_NARROW_BURST 0, MAX_BURST_LENGTH {Machine.max_burst}"
        + "".join(f", NUM_{WAYS[channel]}_OUTSTANDING {OUTSTANDING}" for channel in channels)
    )
    constants = tuple(
        BusPort(f"{name}_{channel}{signal}", "output", bits, value)
        for channel in channels
        for signal, bits, value in MASTER_CONSTANTS
    )
    return _described((*ports, *constants), reads)


def _described(ports: tuple[BusPort, ...], parameters: str) -> tuple[BusPort, ...]:
    first = replace(ports[0], parameters=f"XIL_INTERFACENAME {ports[0].interface}, {parameters}")
    return (first, *ports[1:])


def stripe(master: str, port: int) -> str:
    """The name of one of the ports over which a master is striped."""
    return master.replace("_axi", f"_{port}_axi")


def axi_master(name: str, data_bits: int) -> tuple[BusPort, ...]:
    """The ports of an AXI4 master: read channels, and write channels where the data plane writes."""
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
    writing = {name for master in WRITING_MASTERS for name in (master, *(stripe(master, port) for port in range(4)))}
    ports = (*reads, *(writes if name in writing else ()))
    return tuple(BusPort(f"{name}_{port}", direction, bits) for port, direction, bits in ports)
