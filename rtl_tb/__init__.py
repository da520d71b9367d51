"""SystemVerilog of the data plane and reference core, cocotb benches, proofs, open synthesis."""

from .data_plane.parameters import TOP as DATA_PLANE_TOP
from .data_plane.parameters import data_plane_parameters
from .proving.prover import Proof, ProofError, Seed, prove
from .npu.model import DramModel, LayerRun, NpuModel, RtlNpu
from .common.package import render_package
from .proving.catalogue import PROOFS
from .simulation.model import Model, SimulationError, run
from .common.sources import sources

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
    "render_package",
    "run",
    "sources",
]
