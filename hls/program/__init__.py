"""NPU programs: descriptors, FBCB words and memory layout, compiled from a quantised network."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
