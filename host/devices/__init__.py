"""Every NPU behind one protocol: simulated, RTL, PYNQ and /dev/mem, with their clocks and memories."""
