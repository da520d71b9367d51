"""Choices before serving: exits and thresholds; policies solved, chosen or tuned, and written for a board."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
