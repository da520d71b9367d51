"""Serving policies, the discrete-event simulator they are judged in, traffic and metrics."""

from typing import TYPE_CHECKING, Any

from .anytime import Anytime
from .basic import Adaptive, Greedy, Serial
from .bound import least_violations
from .compare import Comparison, Serving, Truth, compare, draw_stream, serve, serve_tally
from .confidences import read_confidence_file, read_confidences
from .counts import CountTable, solve_counts
from .credit import Credit, Optimal, Weights
from .decision_log import Replayed, record, replay
from .engine import simulate
from .errors import PolicyError, SchedulerError, TrafficError
from .fast import available
from .fluid import Fluid
from .guarded import Guarded
from .metrics import Interval, Metrics, Tally, interval, measure, merge_metrics
from .others import Lazy, Staged, layered, layered_rates
from .policy import Action, Answer, Policy, Request, Run, Shed, View, Wait
from .recorded import Recorded
from .registry import REGISTRY, make_policy
from .schedule import Outcome, Record, Replay, RunRecord, Schedule, read_log
from .setting import Setting
from .shedding import Shedding, innermost
from .streams import Drawn, Source, StreamComparison, compare_streams
from .traffic import (
    bursty,
    diurnal,
    draw_exits,
    exits_from_confidences,
    generate,
    halve_early_exits,
    poisson,
    read_trace,
    requests_at,
)
from .units import format_ms, parse_duration_ns

if TYPE_CHECKING:
    from .compiled import Trace, serve_compiled

__all__ = [
    "REGISTRY",
    "Action",
    "Adaptive",
    "Answer",
    "Anytime",
    "Comparison",
    "CountTable",
    "Credit",
    "Drawn",
    "Fluid",
    "Greedy",
    "Guarded",
    "Interval",
    "Lazy",
    "Metrics",
    "Optimal",
    "Outcome",
    "Policy",
    "PolicyError",
    "Record",
    "Recorded",
    "Replay",
    "Replayed",
    "Request",
    "Run",
    "RunRecord",
    "Schedule",
    "SchedulerError",
    "Serial",
    "Serving",
    "Setting",
    "Shed",
    "Shedding",
    "Source",
    "Staged",
    "StreamComparison",
    "Tally",
    "Trace",
    "TrafficError",
    "Truth",
    "View",
    "Wait",
    "Weights",
    "available",
    "bursty",
    "compare",
    "compare_streams",
    "diurnal",
    "draw_exits",
    "draw_stream",
    "exits_from_confidences",
    "format_ms",
    "generate",
    "halve_early_exits",
    "innermost",
    "interval",
    "layered",
    "layered_rates",
    "least_violations",
    "make_policy",
    "measure",
    "merge_metrics",
    "parse_duration_ns",
    "poisson",
    "read_confidence_file",
    "read_confidences",
    "read_log",
    "read_trace",
    "record",
    "replay",
    "requests_at",
    "serve",
    "serve_compiled",
    "serve_tally",
    "simulate",
    "solve_counts",
]


def __getattr__(name: str) -> Any:
    """What loads Numba comes when it is asked for: a board does without."""
    if name not in ("Trace", "serve_compiled"):
        raise AttributeError(f"module 'fluidnpu.scheduler' has no attribute {name!r}")
    from . import compiled

    return getattr(compiled, name)
