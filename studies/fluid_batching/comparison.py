"""Policies side by side at one load, and their metrics in plain JSON types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fluidnpu.dse import has_numba
from fluidnpu.scheduler import Policy, Serving, compare
from fluidnpu.scheduler.comparison import Comparison, Truth
from fluidnpu.scheduler.simulation import interval, merge_metrics

from ..running.study import Size
from ..writing import mean_low_high
from .paper import PaperRow
from .settings import YARDSTICKS

METRICS = (
    "violations_pct",
    "average_ms",
    "p99_ms",
    "goodput_per_s",
    "busy_pct",
    "mean_batch",
    "decisions",
    "anytime_pct",
)
Cells = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RequestLoad:
    """Requests of every seed: rate, objective, number."""

    rate_per_s: float
    slo_ns: int
    requests: int
    seeds: int

    @classmethod
    def of_row(cls, row: PaperRow, size: Size) -> RequestLoad:
        """The load of a row of Table II, at full length."""
        return cls(rate_per_s=row.rate_per_s, slo_ns=row.slo_ns, requests=size.requests, seeds=size.seeds)

    @classmethod
    def of_sweep(cls, rate_per_s: float, slo_ns: int, size: Size) -> RequestLoad:
        """One point of a sweep, with fewer requests."""
        return cls(rate_per_s=rate_per_s, slo_ns=slo_ns, requests=size.sweep_requests, seeds=size.seeds)


def compare_at(
    load: RequestLoad, serving: Serving, policies: Sequence[str | Policy], truth: Truth | None = None
) -> Comparison:
    """Compare policies in the compiled loop if there is one: many short comparisons in a process pay for
    starting it once.
    """
    return compare(
        serving,
        policies,
        rate_per_s=load.rate_per_s,
        slo_ns=load.slo_ns,
        seeds=load.seeds,
        requests=load.requests,
        truth=truth,
        compiled=has_numba(),
    )


def policy_cells(comparison: Comparison) -> Cells:
    """Give each policy's metrics as `[mean, low, high]`; latencies and violations are None where the load is
    unstable.
    """
    out: Cells = {}
    for name, runs in comparison.metrics.items():
        merged, unstable = merge_metrics(runs), comparison.unstable(name)
        cells: Cells = {key: mean_low_high(merged[key]) for key in METRICS}
        if "busy_mac_efficiency_pct" in merged:
            cells["busy_mac_efficiency_pct"] = mean_low_high(merged["busy_mac_efficiency_pct"])
        if unstable:
            cells |= dict.fromkeys((*YARDSTICKS, "goodput_per_s"))
        out[name] = cells | {"unstable": unstable}
    return out


def paired_differences(comparison: Comparison, name: str, other: str, share: float = 1.0) -> Cells:
    """Give paired differences over seeds: averages, p99, and violations less `share` of the other's."""
    pairs = list(zip(comparison.metrics[name], comparison.metrics[other], strict=True))
    return {
        "violations_pct": mean_low_high(interval([a.violations_pct - share * b.violations_pct for a, b in pairs])),
        "average_ms": mean_low_high(interval([a.average_ms - b.average_ms for a, b in pairs])),
        "p99_ms": mean_low_high(interval([a.p99_ms - b.p99_ms for a, b in pairs])),
    }
