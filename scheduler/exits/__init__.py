"""Criteria and rules of exits, their profiles, and recorded confidences of real samples."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
