"""Design-space exploration: legal designs, cycle and resource models, search, and the design file everyone else works from."""

from .design import (
    B_MAX_LIMIT,
    BatchPlan,
    Design,
    DesignError,
    LatencyTable,
    Mode,
    Stack,
    line_words,
    pool_beats,
)
from .exact.model import LayerCycles, LayerJob, Machine, job_cycles
from .exact.search import EVALUATIONS, ExactRanking, search_exact
from .exploration.explore import OBJECTIVES, Exploration, build_design, explore
from .exploration.front import Front
from .hardware.dram import DramModel
from .hardware.roofline import awake_words, layer_words, roofline_cycles
from .hardware.row_buffer import needed_bytes
from .jit import Jit, has_numba
from .paper.ablation import AblationRow, ablation
from .paper.latency import latency_table, pool_cycles, stage_latency
from .paper.model import Batching, Point, gops, layer_ticks, total_ticks
from .paper.plans import buildable_plan, plan_all, published_plan
from .paper.search import Ranking, evaluate, legal_space, search
from .resources.buildable import Buildable, buildable, ram_bits
from .resources.calibration import Calibrated, Calibration, Measure, apply_calibration, calibrated_board
from .resources.fit import CORES, HLS_BEAT_BITS, Fit, FitError, fit, ramb18_count, stream_words, ultra_banks, uram_count
from .resources.logic import LOGIC_KINDS, Estimate, interval_pct, logic_table, logic_terms, npu_logic, part_logic
from .resources.primitives import BUFFER_WORDS, PARTS, NpuShape, part_primitives

__all__ = [
    "BUFFER_WORDS",
    "B_MAX_LIMIT",
    "CORES",
    "EVALUATIONS",
    "HLS_BEAT_BITS",
    "LOGIC_KINDS",
    "OBJECTIVES",
    "PARTS",
    "AblationRow",
    "BatchPlan",
    "Batching",
    "Buildable",
    "Calibrated",
    "Calibration",
    "Design",
    "DesignError",
    "DramModel",
    "Estimate",
    "ExactRanking",
    "Exploration",
    "Fit",
    "FitError",
    "Front",
    "Jit",
    "LatencyTable",
    "LayerCycles",
    "LayerJob",
    "Machine",
    "Measure",
    "Mode",
    "NpuShape",
    "Point",
    "Ranking",
    "Stack",
    "ablation",
    "apply_calibration",
    "awake_words",
    "build_design",
    "buildable",
    "buildable_plan",
    "calibrated_board",
    "evaluate",
    "explore",
    "fit",
    "gops",
    "has_numba",
    "interval_pct",
    "job_cycles",
    "latency_table",
    "layer_ticks",
    "layer_words",
    "legal_space",
    "line_words",
    "logic_table",
    "logic_terms",
    "needed_bytes",
    "npu_logic",
    "part_logic",
    "part_primitives",
    "plan_all",
    "pool_beats",
    "pool_cycles",
    "published_plan",
    "ram_bits",
    "ramb18_count",
    "roofline_cycles",
    "search",
    "search_exact",
    "stage_latency",
    "stream_words",
    "total_ticks",
    "ultra_banks",
    "uram_count",
]
