"""The hardware description (.hwh) of the simulated PYNQ device. Pure text; no PYNQ needed.

For a board Vivado writes this file. Here it is a view of `hls.REGISTERS` with the minimum that PYNQ's parser
needs: a processing system with its clocks and address map, the NPU with its registers, and the interrupt
between them.

>>> text = hardware_description("zynq7000", clock_hz=150_000_000)
>>> ElementTree.fromstring(text).find(".//MODULE[@INSTANCE='npu_0']").get("VLNV") == NPU_VLNV
True
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from fluidnpu.hls import REGISTERS, Access, Register
from fluidnpu.hls.project import NPU_CELL, NPU_VLNV, PLATFORMS

IRQ_PIN = "irq"
NPU_RANGE = 0x1000  # a page: the smallest range a PS address map holds

_ACCESS = {Access.RO: "read-only", Access.RW: "read-write", Access.W1S: "read-write", Access.W1C: "read-write"}


@dataclass(frozen=True, kw_only=True)
class Ps:
    """A processing system for PYNQ's parsers, beyond the facts in `hls.PLATFORMS`.

    `source_hz` is the PLL behind the PL clocks of the simulated PS; `resets` maps the addresses that PYNQ's
    clock code reads to their values after boot.
    """

    arch: str
    divisor: str
    enable: str
    source_hz: int
    resets: dict[int, int]


PS = {
    "zynq7000": Ps(
        arch="armv7l",
        divisor="PCW_FCLK{clock}_PERIPHERAL_DIVISOR{divisor}",
        enable="PCW_FPGA_FCLK{clock}_ENABLE",
        source_hz=1_200_000_000,
        resets={0xF800_0108: 24 << 12},  # IO PLL: 24 x 50 MHz
    ),
    "zynquplus": Ps(
        arch="aarch64",
        divisor="PSU__CRL_APB__PL{clock}_REF_CTRL__DIVISOR{divisor}",
        enable="PSU__FPGA_PL{clock}_ENABLE",
        source_hz=1_199_988_000,
        resets={0xFF5E_0020: 36 << 8},  # IO PLL: 36 x 33.333 MHz
    ),
}


def clock_divisor(family: str, clock_hz: int) -> int:
    """Return the divisor of the simulated PLL whose clock is nearest to `clock_hz`."""
    return min(range(1, 64), key=lambda n: abs(PS[family].source_hz / n - clock_hz))


def hardware_description(family: str, *, clock_hz: int) -> str:
    """Render the .hwh of one NPU behind a PS of `family` (as in `Board.family`)."""
    root = Element("EDKSYSTEM", {"EDWVERSION": "1.2", "VIVADOVERSION": "2019.2"})
    SubElement(root, "EXTERNALPORTS")
    modules = SubElement(root, "MODULES")
    _add_ps(modules, family, clock_divisor(family, clock_hz))
    _add_npu(modules)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _module(parent: Element, instance: str, vlnv: str) -> Element:
    names = {"FULLNAME": f"/{instance}", "INSTANCE": instance, "MODTYPE": vlnv.split(":")[2], "VLNV": vlnv}
    return SubElement(parent, "MODULE", names)


def _add_ps(parent: Element, family: str, divisor: int) -> None:
    ps, platform = PS[family], PLATFORMS[family]
    module = _module(parent, platform.cell, platform.vlnv)
    parameters = SubElement(module, "PARAMETERS")
    for clock in range(4):
        values = {
            ps.divisor.format(clock=clock, divisor=0): divisor if clock == 0 else 12,
            ps.divisor.format(clock=clock, divisor=1): 1,
            ps.enable.format(clock=clock): int(clock == 0),
        }
        for name, value in values.items():
            SubElement(parameters, "PARAMETER", {"NAME": name, "VALUE": str(value)})
    ports = SubElement(module, "PORTS")
    SubElement(ports, "PORT", {"DIR": "I", "NAME": platform.interrupt_pin, "SIGNAME": f"{NPU_CELL}_{IRQ_PIN}"})
    where = {
        "BASENAME": "C_BASEADDR",
        "BASEVALUE": f"0x{platform.registers_base:08X}",
        "HIGHNAME": "C_HIGHADDR",
        "HIGHVALUE": f"0x{platform.registers_base + NPU_RANGE - 1:08X}",
        "INSTANCE": NPU_CELL,
        "MEMTYPE": "REGISTER",
        "SLAVEBUSINTERFACE": "s_axil",
    }
    SubElement(SubElement(module, "MEMORYMAP"), "MEMRANGE", where)


def _add_npu(parent: Element) -> None:
    module = _module(parent, NPU_CELL, NPU_VLNV)
    block = SubElement(SubElement(module, "ADDRESSBLOCKS"), "ADDRESSBLOCK", {"NAME": "registers", "USAGE": "register"})
    registers = SubElement(block, "REGISTERS")
    for register in REGISTERS:
        _add_register(registers, register)
    SubElement(module, "PARAMETERS")
    ports = SubElement(module, "PORTS")
    port = {"DIR": "O", "NAME": IRQ_PIN, "SIGIS": "INTERRUPT", "SIGNAME": f"{NPU_CELL}_{IRQ_PIN}"}
    SubElement(ports, "PORT", port)


def _add_register(parent: Element, register: Register) -> None:
    element = SubElement(parent, "REGISTER", {"NAME": register.name})
    access = _ACCESS[register.access]
    _properties(
        element, DESCRIPTION=register.meaning, ADDRESS_OFFSET=f"0x{register.offset:02X}", SIZE="32", ACCESS=access
    )
    fields = SubElement(element, "FIELDS")
    for field in register.fields:
        child = SubElement(fields, "FIELD", {"NAME": field.name})
        _properties(
            child, DESCRIPTION=field.meaning, BIT_OFFSET=str(field.low), BIT_WIDTH=str(field.width), ACCESS=access
        )


def _properties(element: Element, **values: str) -> None:
    for name, value in values.items():
        SubElement(element, "PROPERTY", {"NAME": name, "VALUE": value})
