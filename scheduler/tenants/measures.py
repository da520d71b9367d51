"""The outcome of a schedule by tenant: latencies, violations, NPU time, and how fairly it was divided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..policy import Run
from ..simulation.schedule import Outcome, Schedule


@dataclass(frozen=True, kw_only=True)
class TenantMetrics:
    """One tenant of one schedule. `npu_pct`: its share of the whole time, by its samples in each batch.

    Latencies of nobody are NaN; `accuracy_pct` is None without recorded samples.
    """

    requests: int
    average_ms: float
    p50_ms: float
    p99_ms: float
    violations_pct: float
    shed_pct: float
    npu_pct: float
    exit_pct: tuple[float, ...]
    accuracy_pct: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types, None for NaN."""
        return {k: None if isinstance(v, float) and v != v else v for k, v in asdict(self).items()}


def npu_ns_by_tenant(schedule: Schedule, until_ns: int | None = None) -> dict[str, float]:
    """Return the NPU time of each tenant in ns: of each run the part of its samples, up to a time."""
    spent: dict[str, float] = {}
    runs = [(at, action) for at, action in schedule.log if isinstance(action, Run)]
    for (at, action), end in zip(runs, schedule.run_end_ns, strict=True):
        stop = end if until_ns is None else min(end, until_ns)
        for request in action.requests:
            spent[request.tenant] = spent.get(request.tenant, 0.0) + max(0, stop - at) / len(action.requests)
    return spent


def _exits_of(schedule: Schedule, of_tenant: NDArray[np.bool_]) -> range:
    """Return the exits of the network that a tenant's requests are for."""
    side = schedule.networks
    if side is None:
        return range(schedule.stages)
    network = side.of(schedule.requests[int(np.argmax(of_tenant))])
    return range(side.first[network], side.last[network] + 1)


def measure_tenants(
    schedule: Schedule, *, right: NDArray[np.bool_] | None = None, names: Sequence[str] = ()
) -> dict[str, TenantMetrics]:
    """Return the metrics of every tenant with requests, in the order of `names`, then of appearance.

    `right`: by request, (requests,), whether its answer was right.
    """
    owners = np.array([request.tenant for request in schedule.requests])
    arrival = np.array([request.arrival_ns for request in schedule.requests])
    deadline = np.array([request.deadline_ns for request in schedule.requests])
    end, exits, outcome = (np.array(x) for x in (schedule.end_ns, schedule.exit, schedule.outcome))
    spent, whole = npu_ns_by_tenant(schedule), max(int(end.max()) - int(arrival[0]), 1)
    metrics: dict[str, TenantMetrics] = {}
    seen = [*names, *(name for name in dict.fromkeys(owners.tolist()) if name not in names)]
    for name in seen:
        of_tenant = owners == name
        if not of_tenant.any():
            continue
        shed = outcome[of_tenant] == Outcome.SHED
        latency = (end - arrival)[of_tenant][~shed] / 1e6
        p50, p99 = np.percentile(latency, [50, 99]) if len(latency) else (np.nan, np.nan)
        metrics[name] = TenantMetrics(
            requests=int(of_tenant.sum()),
            average_ms=float(latency.mean()) if len(latency) else float("nan"),
            p50_ms=float(p50),
            p99_ms=float(p99),
            violations_pct=100 * float((shed | (end > deadline)[of_tenant]).mean()),
            shed_pct=100 * float(shed.mean()),
            npu_pct=100 * spent.get(name, 0.0) / whole,
            exit_pct=tuple(100 * float((exits[of_tenant] == s).mean()) for s in _exits_of(schedule, of_tenant)),
            accuracy_pct=None if right is None else 100 * float(right[of_tenant].mean()),
        )
    return metrics
