"""FPGA boards as data: one TOML file each, every fact with the document it comes from."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
