"""Devices (simulated, RTL, PYNQ, /dev/mem), the driver, the runtime loop and the inference server."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
