"""The project file of the memory controller for ZC706's SODIMM, 64 bits at 1600 MT/s. Text only.

The board files of Vivado bring one of their own, whose version 1.4 kept CAS latencies 6 and 5 of a slower
clock (github.com/Xilinx/XilinxBoardStore, 2019.2, boards/Xilinx/zc706/1.4/mig.prj). Pads and parameters
here are those of a design that is in daily use on this board: github.com/analogdevicesinc/hdl, e57851ffc,
projects/common/zc706/zc706_plddr3_mig.prj; UG954 lists the same pads, UG586 the parameters' meanings.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

AXI_BITS = 512  # eight of each memory bit, at a quarter of the memory's clock

# Of a signal: its I/O standard, its package pins from bit 0 on; signals of one bit have no index.
_SSTL, _DQ = "SSTL15", "SSTL15_T_DCI"
PADS = (
    ("addr", _SSTL, "E10 B9 E11 A9 D11 B6 F9 E8 B10 J8 D6 B7 H12 A10"),
    ("ba", _SSTL, "F8 H7 A7"),
    ("ck_n", f"DIFF_{_SSTL}", "F10"),
    ("ck_p", f"DIFF_{_SSTL}", "G10"),
    ("cke", _SSTL, "D10"),
    ("cs_n", _SSTL, "J11"),
    ("dm", _SSTL, "J3 F2 E1 C2 L12 G14 C16 C11"),
    (
        "dq",
        _DQ,
        "L1 L2 K5 J4 K1 L3 J5 K6 G6 H4 H6 H3 G1 H2 G5 G4 E2 E3 D4 E5 F4 F3 D1 D3 A2 B2 B4 B5 A3 B1 C1 C4 "
        "K10 L9 K12 J9 K11 L10 J10 L7 F14 F15 F13 G16 G15 E12 D13 E13 D15 E15 D16 E16 C17 B16 D14 B17 B12 C12 A12 A14 "
        "A13 B11 C14 B14",
    ),
    ("dqs_n", f"DIFF_{_DQ}", "K2 H1 D5 A4 K8 F12 E17 A15"),
    ("dqs_p", f"DIFF_{_DQ}", "K3 J1 E6 A5 L8 G12 F17 B15"),
    ("odt", _SSTL, "G7"),
)
SINGLE_PADS = (
    ("cas_n", _SSTL, "E7"),
    ("ras_n", _SSTL, "H11"),
    ("reset_n", "LVCMOS15", "G17"),
    ("we_n", _SSTL, "F7"),
)
PROJECT = {
    "ModuleName": "system_mig_0_0",
    "dci_inouts_inputs": "1",
    "dci_inputs": "1",
    "Debug_En": "OFF",
    "DataDepth_En": "1024",
    "LowPower_En": "ON",
    "XADC_En": "Disabled",  # Linux' driver wants the converter; the temperature input is tied low instead
    "TargetFPGA": "xc7z045-ffg900/-2",
    "Version": "4.0",
    "SystemClock": "Differential",
    "ReferenceClock": "Use System Clock",
    "SysResetPolarity": "ACTIVE HIGH",
    "BankSelectionFlag": "FALSE",
    "InternalVref": "0",
    "dci_hr_inouts_inputs": "50 Ohms",
    "dci_cascade": "1",
}
CONTROLLER = {
    "MemoryDevice": "DDR3_SDRAM/SODIMMs/MT8JTF12864HZ-1G6",
    "TimePeriod": "1250",  # ps
    "VccAuxIO": "2.0V",
    "PHYRatio": "4:1",
    "InputClkFreq": "200",
    "UIExtraClocks": "1",
    "MMCM_VCO": "800",
    "MMCMClkOut0": " 1.000",
    "MMCMClkOut1": "1",
    "MMCMClkOut2": "1",
    "MMCMClkOut3": "1",
    "MMCMClkOut4": "1",
    "DataWidth": "64",
    "DeepMemory": "1",
    "DataMask": "1",
    "ECC": "Disabled",
    "Ordering": "Normal",
    "CustomPart": "FALSE",
    "NewPartName": "",
    "RowAddress": "14",
    "ColAddress": "10",
    "BankAddress": "3",
    "MemoryVoltage": "1.5V",
    "C0_MEM_SIZE": "1073741824",
    "UserMemoryAddressMap": "BANK_ROW_COLUMN",
}
TIMING = {  # ns
    "twtr": "7.5", "trrd": "6", "trefi": "7.8", "tfaw": "30", "trtp": "7.5", "tcke": "5", "trfc": "110",
    "trp": "13.125", "tras": "35", "trcd": "13.125",
}  # fmt: skip
MODES = (
    ("mrBurstLength", "Burst Length", "8 - Fixed"),
    ("mrBurstType", "Read Burst Type and Length", "Sequential"),
    ("mrCasLatency", "CAS Latency", "11"),
    ("mrMode", "Mode", "Normal"),
    ("mrDllReset", "DLL Reset", "No"),
    ("mrPdMode", "DLL control for precharge PD", "Slow Exit"),
    ("emrDllEnable", "DLL Enable", "Enable"),
    ("emrOutputDriveStrength", "Output Driver Impedance Control", "RZQ/7"),
    ("emrMirrorSelection", "Address Mirroring", "Disable"),
    ("emrCSSelection", "Controller Chip Select Pin", "Enable"),
    ("emrRTT", "RTT (nominal) - On Die Termination (ODT)", "RZQ/6"),
    ("emrPosted", "Additive Latency (AL)", "0"),
    ("emrOCD", "Write Leveling Enable", "Disabled"),
    ("emrDQS", "TDQS enable", "Enabled"),
    ("emrRDQS", "Qoff", "Output Buffer Enabled"),
    ("mr2PartialArraySelfRefresh", "Partial-Array Self Refresh", "Full Array"),
    ("mr2CasWriteLatency", "CAS write latency", "8"),
    ("mr2AutoSelfRefresh", "Auto Self Refresh", "Enabled"),
    ("mr2SelfRefreshTempRange", "High Temparature Self Refresh Rate", "Normal"),  # the tool's own spelling
    ("mr2RTTWR", "RTT_WR - Dynamic On Die Termination (ODT)", "Dynamic ODT off"),
)
AXI = {
    "C0_C_RD_WR_ARB_ALGORITHM": "RD_PRI_REG",
    "C0_S_AXI_ADDR_WIDTH": "30",
    "C0_S_AXI_DATA_WIDTH": f"{AXI_BITS}",
    "C0_S_AXI_ID_WIDTH": "4",
    "C0_S_AXI_SUPPORTS_NARROW_BURST": "1",
}


def pads() -> Iterator[tuple[str, str, str]]:
    """Give (signal, I/O standard, package pin) of every pad but the clock's."""
    for name, standard, places in PADS:
        for bit, place in enumerate(places.split()):
            yield f"ddr3_{name}[{bit}]", standard, place
    for name, standard, place in SINGLE_PADS:
        yield f"ddr3_{name}", standard, place


def memory_project() -> str:
    """Render `mig.prj`, the XML that the memory interface generator reads."""
    root = Element("Project", {"NoOfControllers": "1"})
    _texts(root, PROJECT)
    controller = SubElement(root, "Controller", {"number": "0"})
    _texts(controller, CONTROLLER)
    pins = SubElement(controller, "PinSelection")
    for name, standard, place in pads():
        pad = {"VCCAUX_IO": "HIGH", "IOSTANDARD": standard, "PADName": place, "SLEW": "", "name": name, "IN_TERM": ""}
        SubElement(pins, "Pin", pad)
    clock = {"PADName": "H9/G9(CC_P/N)", "Bank": "34", "name": "sys_clk_p/n"}
    SubElement(SubElement(controller, "System_Clock"), "Pin", clock)
    control = SubElement(controller, "System_Control")
    for name in ("sys_rst", "init_calib_complete", "tg_compare_error"):
        SubElement(control, "Pin", {"PADName": "No connect", "Bank": "Select Bank", "name": name})
    SubElement(SubElement(controller, "TimingParameters"), "Parameters", TIMING)
    for name, title, value in MODES:
        SubElement(controller, name, {"name": title}).text = value
    SubElement(controller, "PortInterface").text = "AXI"
    _texts(SubElement(controller, "AXIParameters"), AXI)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{text}\n"


def _texts(parent: Element, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        SubElement(parent, name).text = text
