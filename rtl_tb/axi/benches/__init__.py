"""cocotb benches of the AXI masters; loaded inside the simulator."""
