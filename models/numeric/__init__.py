"""Numbers of a network: quantisation to int16, the golden model, the float reference, the accuracy guard."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
