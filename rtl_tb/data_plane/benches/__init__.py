"""cocotb benches of the data plane; loaded inside the simulator."""
