"""The discrete-event simulator, its traffic, its metrics and a lower bound."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
