"""The AXI ports of the NPU and of its data plane. Facts only."""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def range(self) -> str:
        """The Verilog range with a space after it; empty for one bit."""
        return f"[{self.bits - 1}:0] " if self.bits > 1 else ""


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
