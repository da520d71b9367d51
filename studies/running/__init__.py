"""Runs a study: its tasks in processes, and the answers that outlive a stop."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
