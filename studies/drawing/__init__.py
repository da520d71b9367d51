"""Figures and pages, for the studies and for the front door's reports.

Figures are SVG text, pages are HTML text.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
