"""The files around a server: units, a container, alert rules, a dashboard and a first configuration."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
