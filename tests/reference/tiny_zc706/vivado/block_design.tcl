# The block design: processing system, NPU, and the interconnect between them. Sourced by build.tcl.
create_bd_design system

set ps [create_bd_cell -type ip -vlnv xilinx.com:ip:processing_system7:5.5 processing_system7_0]
apply_bd_automation -rule xilinx.com:bd_rule:processing_system7 -config {make_external "FIXED_IO, DDR" apply_board_preset "1" Master "Disable" Slave "Disable"} $ps
set_property -dict [list \
    CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ {100} \
    CONFIG.PCW_GPIO_EMIO_GPIO_ENABLE {1} \
    CONFIG.PCW_GPIO_EMIO_GPIO_IO {7} \
    CONFIG.PCW_USE_M_AXI_GP0 {1} \
    CONFIG.PCW_USE_FABRIC_INTERRUPT {1} \
    CONFIG.PCW_IRQ_F2P_INTR {1} \
    CONFIG.PCW_USE_S_AXI_HP0 {1} \
    CONFIG.PCW_USE_S_AXI_HP1 {1} \
    CONFIG.PCW_USE_S_AXI_HP2 {1} \
    CONFIG.PCW_S_AXI_HP0_DATA_WIDTH {64} \
    CONFIG.PCW_S_AXI_HP1_DATA_WIDTH {64} \
    CONFIG.PCW_S_AXI_HP2_DATA_WIDTH {64} \
] $ps

create_bd_cell -type ip -vlnv fluidnpu:npu:fluid_npu:1.0 npu_0
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset:5.0 reset_0

set status [create_bd_cell -type ip -vlnv xilinx.com:ip:xlconcat:2.1 status_0]
set_property -dict [list CONFIG.NUM_PORTS {4} CONFIG.IN0_WIDTH {4} CONFIG.IN1_WIDTH {1} CONFIG.IN2_WIDTH {1} CONFIG.IN3_WIDTH {1}] $status

# The NPU's clock: an MMCM derives it from the processing system's, whose frequency comes with its net.
set wizard [create_bd_cell -type ip -vlnv xilinx.com:ip:clk_wiz:6.0 clock_0]
set_property -dict [list \
    CONFIG.PRIMITIVE {MMCM} \
    CONFIG.PRIM_SOURCE {Global_buffer} \
    CONFIG.CLKOUT1_REQUESTED_OUT_FREQ {150} \
    CONFIG.USE_LOCKED {true} \
    CONFIG.USE_RESET {true} \
    CONFIG.RESET_TYPE {ACTIVE_LOW} \
] $wizard
connect_bd_net [get_bd_pins processing_system7_0/FCLK_CLK0] [get_bd_pins clock_0/clk_in1]
connect_bd_net [get_bd_pins clock_0/locked] [get_bd_pins reset_0/dcm_locked] [get_bd_pins status_0/In1]

# Lines that the processors read before they touch the NPU: a signature, then clock, reset and memory.
set signature [create_bd_cell -type ip -vlnv xilinx.com:ip:xlconstant:1.1 signature_0]
set_property -dict [list CONFIG.CONST_WIDTH {4} CONFIG.CONST_VAL {10}] $signature
connect_bd_net [get_bd_pins signature_0/dout] [get_bd_pins status_0/In0]
connect_bd_net [get_bd_pins status_0/dout] [get_bd_pins processing_system7_0/GPIO_I]
set ready [create_bd_cell -type ip -vlnv xilinx.com:ip:xlconstant:1.1 ready_0]
set_property -dict [list CONFIG.CONST_WIDTH {1} CONFIG.CONST_VAL {1}] $ready
connect_bd_net [get_bd_pins ready_0/dout] [get_bd_pins status_0/In3]

# Registers: one master, one slave.
set control [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect:1.0 control_0]
set_property -dict [list CONFIG.NUM_SI {1} CONFIG.NUM_MI {1}] $control
connect_bd_intf_net [get_bd_intf_pins processing_system7_0/M_AXI_GP0] [get_bd_intf_pins control_0/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins control_0/M00_AXI] [get_bd_intf_pins npu_0/s_axil]

# Memory port 0: m0_axi.
set memory [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect:1.0 memory_0]
set_property -dict [list CONFIG.NUM_SI {1} CONFIG.NUM_MI {1}] $memory
connect_bd_intf_net [get_bd_intf_pins npu_0/m0_axi] [get_bd_intf_pins memory_0/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins memory_0/M00_AXI] [get_bd_intf_pins processing_system7_0/S_AXI_HP0]

# Memory port 1: m1_axi.
set memory [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect:1.0 memory_1]
set_property -dict [list CONFIG.NUM_SI {1} CONFIG.NUM_MI {1}] $memory
connect_bd_intf_net [get_bd_intf_pins npu_0/m1_axi] [get_bd_intf_pins memory_1/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins memory_1/M00_AXI] [get_bd_intf_pins processing_system7_0/S_AXI_HP1]

# Memory port 2: m2_axi.
set memory [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect:1.0 memory_2]
set_property -dict [list CONFIG.NUM_SI {1} CONFIG.NUM_MI {1}] $memory
connect_bd_intf_net [get_bd_intf_pins npu_0/m2_axi] [get_bd_intf_pins memory_2/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins memory_2/M00_AXI] [get_bd_intf_pins processing_system7_0/S_AXI_HP2]

# That clock and one reset for the whole design.
set clock [get_bd_pins clock_0/clk_out1]
foreach pin {
    npu_0/aclk
    reset_0/slowest_sync_clk
    control_0/aclk
    memory_0/aclk
    memory_1/aclk
    memory_2/aclk
    processing_system7_0/M_AXI_GP0_ACLK
    processing_system7_0/S_AXI_HP0_ACLK
    processing_system7_0/S_AXI_HP1_ACLK
    processing_system7_0/S_AXI_HP2_ACLK
} {
    connect_bd_net $clock [get_bd_pins $pin]
}
connect_bd_net [get_bd_pins processing_system7_0/FCLK_RESET0_N] [get_bd_pins clock_0/resetn] [get_bd_pins reset_0/ext_reset_in]
foreach pin {
    npu_0/aresetn
    control_0/aresetn
    status_0/In2
    memory_0/aresetn
    memory_1/aresetn
    memory_2/aresetn
} {
    connect_bd_net [get_bd_pins reset_0/peripheral_aresetn] [get_bd_pins $pin]
}
connect_bd_net [get_bd_pins npu_0/irq] [get_bd_pins processing_system7_0/IRQ_F2P]

# Addresses: registers where the driver expects them without PYNQ, memory
# as the processing system lays it out.
create_bd_addr_seg -range 0x1000 -offset 0x43C00000 [get_bd_addr_spaces processing_system7_0/Data] [get_bd_addr_segs npu_0/s_axil/reg0] SEG_npu_0_registers
assign_bd_address
# The NPU reads and writes DRAM alone: on-chip memory, where the firmware lies, and flash are out of its reach.
foreach master {m0_axi m1_axi m2_axi} {
    foreach segment [get_bd_addr_segs -of_objects [get_bd_addr_spaces npu_0/$master]] {
        if {![regexp DDR $segment]} {
            exclude_bd_addr_seg $segment
        }
    }
}
validate_bd_design
save_bd_design
