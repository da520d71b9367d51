"""Training of multi-exit networks: data sets and the training loop, the one file that needs torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
