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
from .dram import DramModel
from .exact import LayerCycles, LayerJob, Machine, job_cycles
from .exact_search import EVALUATIONS, ExactRanking, search_exact
from .explore import OBJECTIVES, Exploration, build_design, explore
from .fbcb import buildable_plan, plan_all, published_plan
from .front import Front
from .geometry import CORES, HLS_BEAT_BITS, Fit, FitError, fit, ramb18_count, stream_words, ultra_banks, uram_count
from .jit import Jit, has_numba
from .latency import latency_table, pool_cycles, stage_latency
from .logic import LOGIC_KINDS, Estimate, interval_pct, logic_table, logic_terms, npu_logic, part_logic
from .paper_model import Batching, Point, gops, layer_ticks, total_ticks
from .resources import BUFFER_WORDS, PARTS, NpuShape, part_primitives
from .roofline import awake_words, layer_words, roofline_cycles
from .row_buffer import needed_bytes
from .search import Ranking, evaluate, legal_space, search
from .virtual_exits import equidistant_exits, exits_after

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
