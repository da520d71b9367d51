"""Where one seed's requests and their exits come from: synthetic traffic, a recorded trace, recorded confidences; and policies side by side on them.

`Source.draw(seed)` gives the same stream to every policy. Synthetic traffic with drawn exits is exactly what `compare` serves for that seed.

>>> from fluidnpu.dse import LatencyTable
>>> what = Serving(latency=LatencyTable(ns=((10**6, 18 * 10**5), (10**6, 15 * 10**5))), exit_rates=(0.4, 0.6))
>>> source = Source(rate_per_s=400, slo_ns=10**7, count=500)
>>> found = compare_streams(what, ["serial", "greedy"], source, seeds=2)
>>> found.comparison.metrics == compare(what, ["serial", "greedy"], rate_per_s=400, slo_ns=10**7, requests=500, seeds=2).metrics
True
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluidnpu.dse import has_numba

from ..errors import SchedulerError, TrafficError
from ..exits.recorded import Recorded
from ..policies.peers import Lazy
from ..policies.registry import make_policy
from ..policies.wrappers.shedding import innermost
from ..policy import Policy, Request
from ..simulation.metrics import Interval, Metrics, interval, measure
from ..simulation.traffic import draw_exits, read_trace
from .compare import EXITS, Comparison, Serving, Truth, compare, draw_stream, serve_tally


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One seed's stream: requests, the exit each would take, and, of recorded confidences, which sample each is."""

    requests: list[Request]
    exits: list[int]
    samples: NDArray[np.int64] | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Streams by seed. With `trace` the arrivals are recorded and the same for every seed; with `trace_exits` the exits are, too.

    `rate_per_s` and `slo_ns` are what solved policies are solved for, and what synthetic traffic obeys; `truth` says where the world differs.
    """

    rate_per_s: float
    slo_ns: int
    count: int
    truth: Truth = field(default_factory=Truth)
    trace: tuple[Request, ...] = ()
    trace_exits: tuple[int, ...] = ()
    recorded: Recorded | None = None
    thresholds: tuple[float, ...] = ()

    @classmethod
    def of_trace(
        cls,
        text: str,
        *,
        slo_ns: int | None,
        rate_per_s: float | None,
        source: str = "trace",
        truth: Truth | None = None,
        stages: int | None = None,
    ) -> Source:
        """From a CSV trace (see `read_trace`); rate and objective, where not given, are the trace's mean rate and its median objective."""
        requests, exits = read_trace(text, slo_ns=slo_ns, source=source, stages=stages)
        span_ns = requests[-1].arrival_ns - requests[0].arrival_ns
        if rate_per_s is None:
            if span_ns <= 0:
                raise TrafficError(f"{source} must hold arrivals at more than one time, or a rate must be given")
            rate_per_s = (len(requests) - 1) / span_ns * 1e9
        objective = slo_ns or int(np.median([r.deadline_ns - r.arrival_ns for r in requests]))
        return cls(
            rate_per_s=rate_per_s,
            slo_ns=objective,
            count=len(requests),
            truth=dataclasses.replace(truth or Truth(), traffic=source),
            trace=tuple(requests),
            trace_exits=() if exits is None else tuple(int(e) for e in exits),
        )

    @property
    def fixed(self) -> bool:
        """Whether every seed gives the same stream."""
        return bool(self.trace_exits)

    def draw(self, serving: Serving, seed: int) -> Drawn:
        """The stream of one seed. Raises SchedulerError when a trace names an exit that the table does not have."""
        if self.trace_exits:
            stages = serving.latency.stages
            if max(self.trace_exits) >= stages:
                raise TrafficError(f"exits in the trace must be 0..{stages - 1}, not {max(self.trace_exits)}")
            return Drawn(requests=list(self.trace), exits=list(self.trace_exits))
        if self.trace:
            requests, rates = list(self.trace), self.truth.exit_rates or serving.exit_rates
            exits = [int(e) for e in draw_exits(rates, self.count, np.random.default_rng([EXITS, seed]))]
        else:
            requests, exits = draw_stream(serving, self.truth, self.rate_per_s, self.slo_ns, self.count, seed)
        if self.recorded is None:
            return Drawn(requests=requests, exits=exits)
        samples, leave = self.recorded.draw(self.thresholds, self.count, np.random.default_rng([EXITS + 1, seed]))
        return Drawn(requests=requests, exits=[int(e) for e in leave], samples=samples)


@dataclass(frozen=True, kw_only=True)
class StreamComparison:
    """A comparison; with recorded confidences also each policy's accuracy and the points it gave up against every sample at its own exit."""

    comparison: Comparison
    accuracy_pct: dict[str, Interval] = field(default_factory=dict)
    accuracy_lost_points: dict[str, Interval] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The comparison's dictionary with the accuracies beside each policy's metrics."""
        report = self.comparison.to_dict()
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
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> StreamComparison:
    """`compare` on any source; `progress` is called with the seeds done and their number. Raises SchedulerError."""
    if seeds < 1:
        raise SchedulerError(f"a comparison needs at least one seed, not {seeds}")
    whole = partial(compare, serving, rate_per_s=source.rate_per_s, slo_ns=source.slo_ns, truth=source.truth)
    if not source.trace and source.recorded is None:
        found = whole(policies, requests=source.count, seeds=seeds, processes=processes, progress=progress)
        return StreamComparison(comparison=found)
    setting, tell = serving.setting(source.rate_per_s, source.slo_ns), progress or (lambda done, of: None)
    made = [make_policy(p, setting) if isinstance(p, str) else p for p in policies]
    # One request is enough for `compare` to check the circumstances and to note where policies come from.
    frame = whole(made, requests=1, seeds=1, warmup=0, truth=dataclasses.replace(source.truth, traffic="poisson"))
    job = _Job(serving, made, source)
    rows = _run_seeds(job, 1 if source.fixed else seeds, processes, tell)
    names = [p.name for p in made]
    metrics = {name: tuple(row[k][0] for row in rows) for k, name in enumerate(names)}
    found = dataclasses.replace(frame, requests=source.count, truth=source.truth, metrics=metrics)
    if source.recorded is None:
        return StreamComparison(comparison=found)
    return StreamComparison(
        comparison=found,
        accuracy_pct={name: interval([row[k][1] for row in rows]) for k, name in enumerate(names)},
        accuracy_lost_points={name: interval([row[k][2] - row[k][1] for row in rows]) for k, name in enumerate(names)},
    )


def _run_seeds(
    job: _Job, seeds: int, processes: int, progress: Callable[[int, int], None]
) -> list[list[tuple[Metrics, float, float]]]:
    rows = []
    progress(0, seeds)
    with ExitStack() as stack:
        if processes > 1 and seeds > 1:
            pool = ProcessPoolExecutor(min(processes, seeds), get_context("fork"), _set_job, (job,))
            found = stack.enter_context(pool).map(_run_job, range(seeds))
        else:
            found = map(job, range(seeds))
        for row in found:
            rows.append(row)
            progress(len(rows), seeds)
    return rows


@dataclass(frozen=True)
class _Job:
    serving: Serving
    policies: Sequence[Policy]
    source: Source

    def __call__(self, seed: int) -> list[tuple[Metrics, float, float]]:
        """Per policy: metrics, accuracy, and accuracy with patience (both NaN without recorded confidences)."""
        serving, source = self.serving, self.source
        drawn, out = source.draw(serving, seed), []
        for policy in self.policies:
            done = serve_tally(serving, policy, drawn.requests, drawn.exits, source.truth, has_numba())
            own = innermost(policy)
            lazy = isinstance(own, Lazy)  # counted by layer, not by stage
            metrics = measure(done, macs=None if lazy else serving.macs, peak_macs_per_s=serving.peak_macs_per_s)
            right = patient = math.nan
            if source.recorded is not None and drawn.samples is not None:
                patient = source.recorded.patient_accuracy_pct(source.thresholds, drawn.samples)
                if isinstance(own, Lazy):
                    done = dataclasses.replace(done, exit=done.exit // (own.layers // serving.latency.stages))
                right = source.recorded.accuracy_pct(done, drawn.samples)
            out.append((metrics, right, patient))
        return out


_job: _Job | None = None


def _set_job(job: _Job) -> None:
    global _job
    _job = job


def _run_job(seed: int) -> list[tuple[Metrics, float, float]]:
    assert _job is not None
    return _job(seed)
