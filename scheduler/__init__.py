"""Serving policies, the discrete-event simulator they are judged in, traffic and metrics."""

from typing import TYPE_CHECKING, Any

from fluidnpu.dse import has_numba as available

from .comparison.compare import Comparison, Serving, Truth, compare, draw_stream, serve, serve_tally
from .comparison.decision_log import Replayed, record, replay
from .comparison.sources import Drawn, Source, StreamComparison, compare_streams
from .errors import PolicyError, SchedulerError, TrafficError
from .exits.confidences import read_confidence_file, read_confidences
from .exits.recorded import Recorded
from .exits.rule import ExitRule, RuledExits, Seen, StageCosts, Threshold
from .ledger import Ledger
from .policies.baselines import Adaptive, Greedy, Serial
from .policies.credit import Credit, Weights
from .policies.decision_process import CountTable, solve_counts
from .policies.fluid import Fluid
from .policies.guarded import Guarded
from .policies.optimal import Optimal
from .policies.peers import Lazy, Staged, layered, layered_rates
from .policies.registry import REGISTRY, make_policy
from .policies.setting import Setting
from .policies.wrappers.anytime import Anytime
from .policies.wrappers.shedding import Shedding, innermost
from .policy import Action, Answer, Policy, Request, Run, Shed, View, Wait
from .schedule import Outcome, Record, Replay, RunRecord, Schedule, Tally, read_log
from .simulation.bound import least_violations
from .simulation.engine import simulate
from .simulation.metrics import Interval, Metrics, interval, measure, merge_metrics
from .simulation.traffic import (
    bursty,
    diurnal,
    draw_exits,
    generate,
    halve_early_exits,
    poisson,
    read_trace,
    requests_at,
)
from .simulation.world import World
from .units import format_ms, parse_duration_ns

if TYPE_CHECKING:
    from .compiled.trace import Trace, serve_compiled

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
    "ExitRule",
    "Fluid",
    "Greedy",
    "Guarded",
    "Interval",
    "Lazy",
    "Ledger",
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
    "RuledExits",
    "Run",
    "RunRecord",
    "Schedule",
    "SchedulerError",
    "Seen",
    "Serial",
    "Serving",
    "Setting",
    "Shed",
    "Shedding",
    "Source",
    "StageCosts",
    "Staged",
    "StreamComparison",
    "Tally",
    "Threshold",
    "Trace",
    "TrafficError",
    "Truth",
    "View",
    "Wait",
    "Weights",
    "World",
    "available",
    "bursty",
    "compare",
    "compare_streams",
    "diurnal",
    "draw_exits",
    "draw_stream",
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
    from .compiled import trace as compiled

    return getattr(compiled, name)
