"""The `paper` cycle model of Fluid Batching, its exhaustive search, its plans and its latency tables."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
