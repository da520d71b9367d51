"""Policies side by side on the streams of any source; on synthetic traffic this is exactly `compare`.

>>> from fluidnpu.dse import LatencyTable
>>> what = Serving(latency=LatencyTable(ns=((10**6, 18 * 10**5), (10**6, 15 * 10**5))), exit_rates=(0.4, 0.6))
>>> source = Source(rate_per_s=400, slo_ns=10**7, count=500)
>>> streams = compare_streams(what, ["serial", "greedy"], source, seeds=2)
>>> usual = compare(what, ["serial", "greedy"], rate_per_s=400, slo_ns=10**7, requests=500, seeds=2)
>>> streams.comparison.metrics == usual.metrics
True
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fluidnpu.dse import has_numba

from ..errors import SchedulerError
from ..policy import Policy, traits_of
from ..simulation.metrics import Interval, Metrics, interval, within
from .compare import Comparison, compare, make_policies, measure_policy
from .engines import HERE, Engine, Progress, in_order
from .serving import Serving, tally_stream
from .sources import Source


@dataclass(frozen=True, kw_only=True)
class StreamComparison:
    """A comparison; with recorded confidences also the accuracy of each policy.

    `accuracy_lost_points`: percentage points given up against every sample leaving at its own exit.
    """

    comparison: Comparison
    accuracy_pct: dict[str, Interval] = field(default_factory=dict)
    accuracy_lost_points: dict[str, Interval] = field(default_factory=dict)
    criteria: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison's dictionary with the accuracies beside each policy's metrics."""
        report = self.comparison.to_dict()
        if self.criteria:
            report["criteria"] = self.criteria
        for key in ("accuracy_pct", "accuracy_lost_points"):
            for name, value in getattr(self, key).items():
                report["policies"][name][key] = value.to_dict()
        return report


def compare_streams(
    serving: Serving,
    policies: Sequence[str | Policy],
    source: Source,
    *,
    seeds: int = 30,
    engine: Engine = HERE,
    progress: Progress | None = None,
) -> StreamComparison:
    """Compare policies on any source; `progress` is called with the seeds done and their number.

    Raises SchedulerError.
    """
    if seeds < 1:
        raise SchedulerError(f"a comparison needs at least one seed, not {seeds}")
    usual = partial(compare, serving, rate_per_s=source.rate_per_s, slo_ns=source.slo_ns, truth=source.truth)
    if not source.trace and source.recorded is None and source.criteria is None:
        comparison = usual(policies, requests=source.count, seeds=seeds, engine=engine, progress=progress)
        return StreamComparison(comparison=comparison)
    made = make_policies(policies, serving.setting(source.rate_per_s, source.slo_ns))
    # One request is enough for `compare` to check the circumstances and to note the origin of the policies.
    frame = usual(made, requests=1, seeds=1, warmup=0, truth=dataclasses.replace(source.truth, traffic="poisson"))
    chosen = range(1 if source.fixed else seeds)
    rows = in_order(engine, [partial(_seed, serving, made, source, seed) for seed in chosen], progress)
    names = [policy.name for policy in made]
    metrics = {name: tuple(row[k].metrics for row in rows) for k, name in enumerate(names)}
    comparison = dataclasses.replace(frame, requests=source.count, truth=source.truth, metrics=metrics)
    criteria = "" if source.criteria is None else source.criteria.criterion.text
    if source.recorded is None:
        return StreamComparison(comparison=comparison, criteria=criteria)
    return StreamComparison(
        comparison=comparison,
        criteria=criteria,
        accuracy_pct={
            name: within(interval([row[k].accuracy_pct for row in rows]), "accuracy_pct")
            for k, name in enumerate(names)
        },
        accuracy_lost_points={
            name: interval([row[k].patient_pct - row[k].accuracy_pct for row in rows]) for k, name in enumerate(names)
        },
    )


@dataclass(frozen=True)
class _Served:
    """The result of one policy with one seed; accuracies are NaN without recorded confidences."""

    metrics: Metrics
    accuracy_pct: float = math.nan
    patient_pct: float = math.nan


def _seed(serving: Serving, policies: Sequence[Policy], source: Source, seed: int) -> list[_Served]:
    drawn, rows = source.draw(serving, seed), []
    for policy in policies:
        tally = tally_stream(serving, policy, drawn.requests, drawn.leave, source.truth, compiled=has_numba())
        metrics = measure_policy(serving, policy, tally)
        if source.recorded is None or drawn.samples is None:
            rows.append(_Served(metrics))
            continue
        if layers := traits_of(policy).layers:
            tally = dataclasses.replace(tally, exit=tally.exit // (layers // serving.latency.stages))
        right = source.recorded.accuracy_pct(tally, drawn.samples)
        patient = source.recorded.accuracy_pct_at(source.exits_alone(), drawn.samples)
        rows.append(_Served(metrics, right, patient))
    return rows
