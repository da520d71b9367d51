"""The PE array and the memory behind it: geometry, DRAM model, input buffer, roofline."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
