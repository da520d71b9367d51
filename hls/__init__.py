"""From a design to hardware: register map, NPU programs, Vivado HLS C++, projects and C simulation.

Inner doors: `hls.formats` (bit formats), `hls.program`, `hls.core` (streams, C++, C simulation),
`hls.project`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
