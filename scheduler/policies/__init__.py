"""Serving policies, their tables and weights, and the registry that makes them by name."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
