"""Images: sets of them, the files that hold them, and their way into a network's input."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
