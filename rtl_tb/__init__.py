"""SystemVerilog of the data plane and reference core, cocotb benches, proofs, open synthesis."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
