"""Verilator builds, runs of cocotb benches, waveforms."""
