"""SystemVerilog of the data plane and reference core, cocotb benches, proofs, open synthesis."""

from .formal import PROOFS, Proof, ProofError, Seed, prove
from .package import render_package
from .sim import Model, SimulationError, run
from .sources import sources

__all__ = [
    "PROOFS",
    "Model",
    "Proof",
    "ProofError",
    "Seed",
    "SimulationError",
    "prove",
    "render_package",
    "run",
    "sources",
]
