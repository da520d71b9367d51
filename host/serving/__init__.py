"""The runtime loop over a driver, the server around it, and the records of requests that ended."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
