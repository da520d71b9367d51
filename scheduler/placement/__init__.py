"""Networks on many devices: the fleet file, the planner, ensembles, and the twin of a whole fleet."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
