"""cocotb benches of the reference core; loaded inside the simulator."""
