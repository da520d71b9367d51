"""Vivado projects: rendering, writing, checks of the generated text, and reports read back."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
