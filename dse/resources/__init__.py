"""DSPs, RAM primitives, LUTs and flip-flops of a design, and what fits a board."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
