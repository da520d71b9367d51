"""The NPU under PYNQ, on a board and on a simulated one."""
