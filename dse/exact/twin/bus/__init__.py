"""The memory ports and what is behind them: twins of the AXI masters, the stripes and the DRAM model."""
