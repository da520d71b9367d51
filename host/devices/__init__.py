"""Every NPU behind one protocol: simulated, RTL, PYNQ and /dev/mem, with their clocks and memories."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
