"""Networks as graphs of layers: shapes, tensors, parameters, outputs, and layer tables."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
