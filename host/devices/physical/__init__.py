"""The NPU of a board without PYNQ: its physical addresses, u-dma-buf, and the checks before an access."""
