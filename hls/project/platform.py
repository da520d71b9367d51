"""The processing systems of the boards in a block design: cells, pins and settings. Facts only.

>>> PLATFORMS["zynq7000"].registers_base == 0x43C0_0000
True

Sources: PG082 (Zynq-7000 processing system), PG201 (Zynq UltraScale+ processing system), UG586 (7 series
memory interface), PG065 (Clocking Wizard), all for Vivado 2019.2; UG585 and UG1085 for the PLLs, which the
boards' presets feed with 33.333 MHz (the PYNQ-Z2's with 50).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NPU_VLNV = "fluidnpu:npu:fluid_npu:1.0"  # by which the driver finds the NPU in the hardware description
NPU_CELL = "npu_0"
REGISTERS_RANGE = 4096  # a page
# Inputs of the processing system's GPIO controller: a pattern that nothing else shows, then one line each.
# They tell of the NPU before an access to it, which would halt the processor where it has no clock.
STATUS_SIGNATURE = (0, 1, 0, 1)
STATUS_LINES = ("clock_locked", "out_of_reset", "memory_ready")
# An integer division of the PS's IO PLL, 1000 MHz on Zynq-7000 and 1500 MHz on UltraScale+. The clocking
# wizard derives the NPU's clock from it: a division alone only approximates most clocks (150 MHz: 142.857).
PS_CLOCK_MHZ = 100
CLOCK_VLNV = "xilinx.com:ip:clk_wiz:6.0"
CLOCK_CELL = "clock_0"
MASTERS = 3  # of the NPU: program and weights, inputs, outputs


@dataclass(frozen=True, kw_only=True)
class PlMemory:
    """A memory controller in the programmable logic, set up by `mig.prj`, and the PS's port to it.

    Processors and NPU see it at the same addresses: `base`, `bytes`. `data_bits`: of its AXI port. `clock`
    and `pads`: the board's clock (interface, port, Hz) and memory (interface, port) that it is joined to.
    `clock_places`: package pins of the clock's two halves. Pads and parameters are those of one board, whose
    files the vendor's tools know as `board_files`.
    """

    board_files: str
    vlnv: str
    port: str
    data_bits: int
    clock: tuple[str, str, int]
    clock_places: tuple[str, str]
    pads: tuple[str, str]
    system_reset_pin: str
    temperature_pin: tuple[str, int]
    calibrated_pin: str
    clock_pin: str
    reset_pin: str
    locked_pin: str
    resetn_pin: str
    segment: str
    host_port: str
    host_clock: str
    settings: Mapping[str, str]
    base: int
    bytes: int
    cell: str = "mig_0"


@dataclass(frozen=True, kw_only=True)
class Platform:
    """One family's processing system in a block design.

    `memory_ports`: the AXI_HP ports with their clocks, in order. `settings` hold format fields. `compatible`
    and `interrupt` (number of a shared peripheral, flags) are those of a device tree.
    """

    cell: str
    vlnv: str
    automation_rule: str
    automation_config: str
    clock_pin: str
    reset_pin: str
    interrupt_pin: str
    control_port: str
    control_clock: str
    memory_ports: tuple[tuple[str, str], ...]
    settings: Mapping[str, str]
    data_space: str
    registers_base: int
    compatible: str
    interrupt: tuple[int, int]
    status_pin: str
    pl_memory: PlMemory | None = None

    def ports_used(self, axi_ports: int, stripes: int) -> int:
        """The number of memory ports in use on a board with `axi_ports`, with masters on `stripes` each."""
        return min(axi_ports, len(self.memory_ports), MASTERS if stripes == 1 else stripes)

    def settings_for(self, memory_ports: int, port_bits: int, status_lines: int) -> tuple[tuple[str, str], ...]:
        """(name, value) of every setting, with the first `memory_ports` memory ports enabled."""
        pairs = []
        for name, value in self.settings.items():
            ports = range(memory_ports) if "{port}" in name or "{gp}" in name else range(1)
            for port in ports:
                filled = name.format(port=port, gp=port + 2)
                pairs.append((filled, value.format(clock=PS_CLOCK_MHZ, bits=port_bits, lines=status_lines)))
        return tuple(pairs)


PLATFORMS: Mapping[str, Platform] = {
    "zynq7000": Platform(
        cell="processing_system7_0",
        vlnv="xilinx.com:ip:processing_system7:5.5",
        automation_rule="xilinx.com:bd_rule:processing_system7",
        automation_config='make_external "FIXED_IO, DDR" apply_board_preset "1" Master "Disable" Slave "Disable"',
        clock_pin="FCLK_CLK0",
        reset_pin="FCLK_RESET0_N",
        interrupt_pin="IRQ_F2P",
        control_port="M_AXI_GP0",
        control_clock="M_AXI_GP0_ACLK",
        memory_ports=tuple((f"S_AXI_HP{port}", f"S_AXI_HP{port}_ACLK") for port in range(4)),
        settings={
            "CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ": "{clock}",
            "CONFIG.PCW_GPIO_EMIO_GPIO_ENABLE": "1",
            "CONFIG.PCW_GPIO_EMIO_GPIO_IO": "{lines}",
            "CONFIG.PCW_USE_M_AXI_GP0": "1",
            "CONFIG.PCW_USE_FABRIC_INTERRUPT": "1",
            "CONFIG.PCW_IRQ_F2P_INTR": "1",
            "CONFIG.PCW_USE_S_AXI_HP{port}": "1",
            "CONFIG.PCW_S_AXI_HP{port}_DATA_WIDTH": "{bits}",
        },
        data_space="processing_system7_0/Data",
        registers_base=0x43C0_0000,
        compatible="xlnx,zynq-7000",
        interrupt=(29, 4),
        status_pin="GPIO_I",
        pl_memory=PlMemory(
            board_files="xilinx.com:zc706:part0",
            vlnv="xilinx.com:ip:mig_7series:4.2",
            port="S_AXI",
            data_bits=512,
            clock=("SYS_CLK", "sys_clk", 200_000_000),
            clock_places=("H9", "G9"),
            pads=("DDR3", "ddr3"),
            system_reset_pin="sys_rst",
            temperature_pin=("device_temp_i", 12),
            calibrated_pin="init_calib_complete",
            clock_pin="ui_clk",
            reset_pin="ui_clk_sync_rst",
            locked_pin="mmcm_locked",
            resetn_pin="aresetn",
            segment="memmap/memaddr",
            host_port="M_AXI_GP1",
            host_clock="M_AXI_GP1_ACLK",
            settings={"CONFIG.PCW_USE_M_AXI_GP1": "1"},
            base=0x8000_0000,
            bytes=1 << 30,
        ),
    ),
    "zynquplus": Platform(
        cell="zynq_ultra_ps_e_0",
        vlnv="xilinx.com:ip:zynq_ultra_ps_e:3.3",
        automation_rule="xilinx.com:bd_rule:zynq_ultra_ps_e",
        automation_config='apply_board_preset "1"',
        clock_pin="pl_clk0",
        reset_pin="pl_resetn0",
        interrupt_pin="pl_ps_irq0",
        control_port="M_AXI_HPM0_FPD",
        control_clock="maxihpm0_fpd_aclk",
        memory_ports=tuple((f"S_AXI_HP{port}_FPD", f"saxihp{port}_fpd_aclk") for port in range(4)),
        settings={
            "CONFIG.PSU__FPGA_PL0_ENABLE": "1",
            "CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ": "{clock}",
            "CONFIG.PSU__GPIO_EMIO__PERIPHERAL__ENABLE": "1",
            "CONFIG.PSU__GPIO_EMIO__PERIPHERAL__IO": "{lines}",
            "CONFIG.PSU__USE__M_AXI_GP0": "1",
            "CONFIG.PSU__USE__M_AXI_GP1": "0",
            "CONFIG.PSU__USE__M_AXI_GP2": "0",
            "CONFIG.PSU__USE__IRQ0": "1",
            "CONFIG.PSU__USE__S_AXI_GP{gp}": "1",
            "CONFIG.PSU__SAXIGP{gp}__DATA_WIDTH": "{bits}",
        },
        data_space="zynq_ultra_ps_e_0/Data",
        registers_base=0xA000_0000,
        compatible="xlnx,zynqmp",
        interrupt=(89, 4),
        status_pin="emio_gpio_i",
    ),
}
