"""Networks that ship: residual networks to train, ResNet-50 and Inception-v3, and random ones."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
