"""Multi-exit networks: training, ONNX in and out, quantisation to int16 and the bit-exact golden model.

Knows nothing of hardware. ONNX and torch are loaded when first asked for: a serving board has NumPy alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
