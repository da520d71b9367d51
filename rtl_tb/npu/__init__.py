"""The whole NPU as a shared library behind a DRAM model."""
