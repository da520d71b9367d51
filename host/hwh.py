"""The hardware description (.hwh) that PYNQ reads, made by hand for the simulated device only. Text in, text out; no PYNQ needed.

On a board Vivado writes this file. Here it is a view of `hls.REGISTERS` with the least that PYNQ's parser asks for: a processing
system with its clocks and address map, the NPU with its registers, and the interrupt between them.

>>> text = hardware_description("zynq7000", clock_hz=150_000_000)
>>> ElementTree.fromstring(text).find(".//MODULE[@INSTANCE='npu_0']").get("VLNV") == NPU_VLNV
True
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from hls import REGISTERS, Access, Register

NPU_VLNV = "fluidnpu:npu:fluid_npu:1.0"
NPU_NAME = "npu_0"
IRQ_PIN = "irq"
NPU_RANGE = 0x1000  # a page: the smallest range a PS address map holds

_ACCESS = {Access.RO: "read-only", Access.RW: "read-write", Access.W1S: "read-write", Access.W1C: "read-write"}


@dataclass(frozen=True, kw_only=True)
class Ps:
    """A processing system as PYNQ's parsers know it. `source_hz` is the PLL that the PL clocks are divided from in the simulated PS."""

    instance: str
    modtype: str
    vlnv: str
    arch: str
    npu_base: int
    irq_port: str
    divisor: str
    enable: str
    source_hz: int
    resets: dict[int, int]  # PS registers that PYNQ's clock code reads: address -> value after boot


PS = {
    "zynq7000": Ps(
        instance="processing_system7_0",
        modtype="processing_system7",
        vlnv="xilinx.com:ip:processing_system7:5.5",
        arch="armv7l",
        npu_base=0x43C0_0000,
        irq_port="IRQ_F2P",
        divisor="PCW_FCLK{clock}_PERIPHERAL_DIVISOR{divisor}",
        enable="PCW_FPGA_FCLK{clock}_ENABLE",
        source_hz=1_200_000_000,
        resets={0xF800_0108: 24 << 12},  # IO PLL: 24 x 50 MHz
    ),
    "zynquplus": Ps(
        instance="zynq_ultra_ps_e_0",
        modtype="zynq_ultra_ps_e",
        vlnv="xilinx.com:ip:zynq_ultra_ps_e:3.3",
        arch="aarch64",
        npu_base=0xA000_0000,
        irq_port="pl_ps_irq0",
        divisor="PSU__CRL_APB__PL{clock}_REF_CTRL__DIVISOR{divisor}",
        enable="PSU__FPGA_PL{clock}_ENABLE",
        source_hz=1_199_988_000,
        resets={0xFF5E_0020: 36 << 8},  # IO PLL: 36 x 33.333 MHz
    ),
}


def clock_divisor(family: str, clock_hz: int) -> int:
    """The divisor of the simulated PLL that comes nearest to a PL clock."""
    return min(range(1, 64), key=lambda n: abs(PS[family].source_hz / n - clock_hz))


def hardware_description(family: str, *, clock_hz: int) -> str:
    """The .hwh text of one NPU behind a PS of `family` (as in `Board.family`)."""
    ps = PS[family]
    root = Element("EDKSYSTEM", {"EDWVERSION": "1.2", "VIVADOVERSION": "2019.2"})
    SubElement(root, "EXTERNALPORTS")
    modules = SubElement(root, "MODULES")
    _add_ps(modules, ps, clock_divisor(family, clock_hz))
    _add_npu(modules, ps)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _module(parent: Element, instance: str, vlnv: str, modtype: str) -> Element:
    names = {"FULLNAME": f"/{instance}", "INSTANCE": instance, "MODTYPE": modtype, "VLNV": vlnv}
    return SubElement(parent, "MODULE", names)


def _add_ps(parent: Element, ps: Ps, divisor: int) -> None:
    module = _module(parent, ps.instance, ps.vlnv, ps.modtype)
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
    SubElement(ports, "PORT", {"DIR": "I", "NAME": ps.irq_port, "SIGNAME": f"{NPU_NAME}_{IRQ_PIN}"})
    where = {
        "BASENAME": "C_BASEADDR",
        "BASEVALUE": f"0x{ps.npu_base:08X}",
        "HIGHNAME": "C_HIGHADDR",
        "HIGHVALUE": f"0x{ps.npu_base + NPU_RANGE - 1:08X}",
        "INSTANCE": NPU_NAME,
        "MEMTYPE": "REGISTER",
        "SLAVEBUSINTERFACE": "s_axil",
    }
    SubElement(SubElement(module, "MEMORYMAP"), "MEMRANGE", where)


def _add_npu(parent: Element, ps: Ps) -> None:
    module = _module(parent, NPU_NAME, NPU_VLNV, NPU_VLNV.split(":")[2])
    block = SubElement(SubElement(module, "ADDRESSBLOCKS"), "ADDRESSBLOCK", {"NAME": "registers", "USAGE": "register"})
    registers = SubElement(block, "REGISTERS")
    for register in REGISTERS:
        _add_register(registers, register)
    SubElement(module, "PARAMETERS")
    ports = SubElement(module, "PORTS")
    port = {"DIR": "O", "NAME": IRQ_PIN, "SIGIS": "INTERRUPT", "SIGNAME": f"{NPU_NAME}_{IRQ_PIN}"}
    SubElement(ports, "PORT", port)


def _add_register(parent: Element, register: Register) -> None:
    element = SubElement(parent, "REGISTER", {"NAME": register.name})
    access = _ACCESS[register.access]
    _properties(
        element, DESCRIPTION=register.meaning, ADDRESS_OFFSET=f"0x{register.offset:02X}", SIZE="32", ACCESS=access
    )
    fields = SubElement(element, "FIELDS")
    for field in register.fields:
        one = SubElement(fields, "FIELD", {"NAME": field.name})
        _properties(
            one, DESCRIPTION=field.meaning, BIT_OFFSET=str(field.low), BIT_WIDTH=str(field.width), ACCESS=access
        )


def _properties(element: Element, **values: str) -> None:
    for name, value in values.items():
        SubElement(element, "PROPERTY", {"NAME": name, "VALUE": value})
