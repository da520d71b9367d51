"""Devices (simulated, PYNQ), the driver, the runtime loop and the inference server."""
