"""The twin of the RTL: the NPU cycle by cycle, without its data, as one loop that Numba compiles."""
