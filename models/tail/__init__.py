"""The host tail: what of a network runs on the host behind the NPU, as plain records and in NumPy alone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
