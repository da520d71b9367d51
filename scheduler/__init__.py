"""Serving policies, the discrete-event simulator they are judged in, traffic and metrics."""

from .engine import simulate
from .errors import PolicyError, SchedulerError, TrafficError
from .metrics import Interval, Metrics, interval, measure, merge_metrics
from .policies import Adaptive, Fluid, Greedy, Serial, make_policy
from .policy import Action, Answer, Policy, Request, Run, Shed, View, Wait
from .schedule import Outcome, Record, Replay, RunRecord, Schedule, read_log
from .traffic import draw_exits, exits_from_confidences, poisson, requests_at
from .units import format_ms, parse_duration_ns

__all__ = [
    "Action",
    "Adaptive",
    "Answer",
    "Fluid",
    "Greedy",
    "Interval",
    "Metrics",
    "Outcome",
    "Policy",
    "PolicyError",
    "Record",
    "Replay",
    "Request",
    "Run",
    "RunRecord",
    "Schedule",
    "SchedulerError",
    "Serial",
    "Shed",
    "TrafficError",
    "View",
    "Wait",
    "draw_exits",
    "exits_from_confidences",
    "format_ms",
    "interval",
    "make_policy",
    "measure",
    "merge_metrics",
    "parse_duration_ns",
    "poisson",
    "read_log",
    "requests_at",
    "simulate",
]
