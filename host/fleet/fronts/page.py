"""The live page of a fleet: one HTML file, and the numbers that it asks for twice a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...oip.observing.page import assemble
from ..dispatcher import Dispatcher
from .counts import ModelCounts

_COUNTS = ("sent", "answers", "late", "overdue", "refused", "wrong", "ignored")


def live_page() -> str:
    """Return the page."""
    return assemble(__package__, "fleet.html")


def snapshot(
    name: str, version: str, dispatcher: Dispatcher, models: Mapping[str, ModelCounts], pids: Mapping[str, int]
) -> dict[str, Any]:
    """Return the numbers that the page draws: a record a board and a model, times in microseconds.

    `pids`: the processes of boards that were started here.
    """
    return {
        "fleet": name,
        "version": version,
        "waiting": dispatcher.waiting,
        "counts": {key: dispatcher.counts[key] for key in ("resent", "held", "audits", "audits_differed")},
        "boards": [
            {
                "name": leaf.name,
                "address": leaf.address,
                "pid": pids.get(leaf.name),
                "state": leaf.state.name,
                "says": leaf.state.value,
                "reason": leaf.reason,
                "models": list(leaf.times),
                "open": len(leaf.attempts),
                "work_us": round(1e6 * leaf.work_s),
                "lag_us": round(1e6 * leaf.lag_s),
                "waiting": 0 if leaf.line is None else len(leaf.line),
                "capacity_per_s": {model: round(leaf.capacity_per_s(model), 1) for model in leaf.times},
                "shares": {model: round(duty.weight, 4) for model, duty in leaf.duties.items()},
                **{key: leaf.counts[key] for key in _COUNTS},
            }
            for leaf in dispatcher.leaves
        ],
        "models": [_of(model, counts) for model, counts in models.items()],
    }


def _of(model: str, counts: ModelCounts) -> dict[str, Any]:
    latencies = sorted(latency for _, latency in counts.recent)
    return {
        "name": model,
        "slo_us": counts.slo_ns // 1_000,
        "answered": counts.samples,
        "violations": counts.violations,
        "errors": dict(counts.errors),
        "recent": [list(point) for point in counts.recent],
        "recent_us": {
            name: latencies[min(len(latencies) - 1, int(share * len(latencies)))] if latencies else None
            for name, share in (("p50", 0.5), ("p99", 0.99))
        },
    }
