"""Early exits: the exit rule, heads, cuts of a workload, thresholds given, chosen and measured."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
