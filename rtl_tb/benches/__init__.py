"""cocotb benches: each module is run inside a simulator by `rtl_tb.sim.run`, never imported by the rooms."""
