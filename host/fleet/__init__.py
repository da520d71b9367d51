"""Many boards behind one server: a dispatcher routes, asks again and audits; clients see one front."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
