"""Design-space exploration: legal designs, cycle and resource models, search, and the design file everyone else works from."""

from .ablation import AblationRow, ablation
from .calibration import Calibrated, Calibration, Measure, apply_calibration
from .design import (
    B_MAX_LIMIT,
    BatchPlan,
    Design,
    DesignError,
    LatencyTable,
    Mode,
    Stack,
)
from .dram import DramModel
from .exact import LayerCycles, LayerJob, Machine, job_cycles
from .explore import Exploration, build_design, explore
from .fbcb import buildable_plan, plan_all, published_plan
from .geometry import BUFFER_WORDS, Fit, FitError, fit, ramb18_count, uram_count
from .latency import latency_table, pool_cycles, stage_latency
from .paper_model import Batching, Point, gops, layer_ticks, total_ticks
from .row_buffer import needed_bytes
from .search import Ranking, evaluate, legal_space, search
from .virtual_exits import equidistant_exits, exits_after

__all__ = [
    "BUFFER_WORDS",
    "B_MAX_LIMIT",
    "AblationRow",
    "BatchPlan",
    "Batching",
    "Calibrated",
    "Calibration",
    "Design",
    "DesignError",
    "DramModel",
    "Exploration",
    "Fit",
    "FitError",
    "LatencyTable",
    "LayerCycles",
    "LayerJob",
    "Machine",
    "Measure",
    "Mode",
    "Point",
    "Ranking",
    "Stack",
    "ablation",
    "apply_calibration",
    "build_design",
    "buildable_plan",
    "equidistant_exits",
    "evaluate",
    "exits_after",
    "explore",
    "fit",
    "gops",
    "job_cycles",
    "latency_table",
    "layer_ticks",
    "legal_space",
    "needed_bytes",
    "plan_all",
    "pool_cycles",
    "published_plan",
    "ramb18_count",
    "search",
    "stage_latency",
    "total_ticks",
    "uram_count",
]
