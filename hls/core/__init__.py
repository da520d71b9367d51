"""The compute core: its five streams, a NumPy reference, the HLS C++ and its C simulation."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
