"""Design-space exploration: designs, cycle and resource models, searches, and the design file.

Inner doors: `hardware` (array, input buffer, roofline), `paper` and `exact` (the cycle models and their
searches), `resources` (primitives, logic, fit, calibration).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
