"""SystemVerilog of the data plane and reference core, cocotb benches, proofs, open synthesis."""

from .data_plane import TOP as DATA_PLANE_TOP
from .data_plane import data_plane_parameters
from .formal import Proof, ProofError, Seed, prove
from .npu import DramModel, LayerRun, NpuModel, RtlNpu
from .proofs import PROOFS
from .sim import Model, SimulationError, run
from .sources import sources

__all__ = [
    "DATA_PLANE_TOP",
    "PROOFS",
    "DramModel",
    "LayerRun",
    "Model",
    "NpuModel",
    "Proof",
    "ProofError",
    "RtlNpu",
    "Seed",
    "SimulationError",
    "data_plane_parameters",
    "prove",
    "run",
    "sources",
]
