"""Metrics of a schedule: latency, violations, goodput and utilisation, with intervals over seeds.

Pure arithmetic.

Warm-up: the first `warmup` requests by arrival are served but not counted (default: one in twenty); the
system starts empty, so their latencies are too good. All requests are served to the end, so nothing is cut
off there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SchedulerError
from .schedule import Outcome, Schedule, Tally

WARMUP_SHARE = 0.05
SIGNED = {"rise_ms"}  # metrics that may fall below zero


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """One schedule in numbers; percentages are 0..100.

    `violations_pct`: answered late or shed. `goodput_per_s`: on-time answers per second between the first
    and the last counted arrival. `busy_pct`: share of wall-clock time in which the NPU ran.
    `busy_mac_efficiency_pct`: multiply-accumulates over the peak of the busy time (NaN when nothing ran);
    `wall_utilisation_pct`: over the peak of the whole time; both None without MACs and a peak. `rise_ms`:
    the average latency of the later half of the requests less that of the earlier half. `batches[b - 1]`:
    runs of size b, `stage_batches[s][b - 1]` the same per stage. Latencies of shed requests are left out;
    with nobody answered there are none (NaN).
    """

    policy: str
    requests: int
    average_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    violations_pct: float
    anytime_pct: float
    shed_pct: float
    goodput_per_s: float
    busy_pct: float
    busy_mac_efficiency_pct: float | None
    wall_utilisation_pct: float | None
    mean_batch: float
    batches: tuple[int, ...]
    stage_batches: tuple[tuple[int, ...], ...]
    exit_pct: tuple[float, ...]
    decisions: int
    rise_ms: float
    unstable: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; None for NaN."""
        return {
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in asdict(self).items()
        }


def measure(
    schedule: Schedule | Tally,
    *,
    warmup: int | None = None,
    macs: Sequence[int] | None = None,
    peak_macs_per_s: float | None = None,
) -> Metrics:
    """Return the metrics of a schedule. `macs[s]`: multiply-accumulates of stage s for one sample.

    Raises SchedulerError.
    """
    tally = schedule if isinstance(schedule, Tally) else Tally.of(schedule)
    n, sizes = len(tally.end_ns), tally.runs.sum(axis=0)
    skip = int(n * WARMUP_SHARE) if warmup is None else warmup
    if not 0 <= skip < n:
        raise SchedulerError(f"warm-up must leave at least one of {n} requests, not skip {skip}")
    arrival, end, exits, outcome = (x[skip:] for x in (tally.arrival_ns, tally.end_ns, tally.exit, tally.outcome))
    served = outcome != Outcome.SHED
    late = ~served | (end > tally.deadline_ns[skip:])
    latency_ms = (end - arrival)[served] / 1e6
    p50, p95, p99 = np.percentile(latency_ms, [50, 95, 99]) if served.any() else (math.nan,) * 3
    seconds = max(int(arrival[-1] - arrival[0]), 1) / 1e9
    batch = np.arange(1, len(sizes) + 1)
    efficiency = None
    if macs is not None and peak_macs_per_s is not None:
        work = float(batch @ tally.runs.T @ np.asarray(macs, float))
        efficiency = 100 * work / (tally.busy_ns / 1e9 * peak_macs_per_s) if tally.busy_ns else math.nan
    busy = 100 * tally.busy_ns / max(int(tally.end_ns.max() - tally.arrival_ns[0]), 1)
    return Metrics(
        policy=tally.policy,
        requests=n - skip,
        average_ms=float(latency_ms.mean()) if served.any() else math.nan,
        p50_ms=float(p50),
        p95_ms=float(p95),
        p99_ms=float(p99),
        violations_pct=100 * float(late.mean()),
        anytime_pct=100 * float((outcome == Outcome.ANYTIME).mean()),
        shed_pct=100 * float((~served).mean()),
        goodput_per_s=float((~late).sum()) / seconds,
        busy_pct=busy,
        busy_mac_efficiency_pct=efficiency,
        wall_utilisation_pct=None if efficiency is None else efficiency * busy / 100,
        mean_batch=float(sizes @ batch / max(sizes.sum(), 1)),
        batches=tuple(int(x) for x in sizes),
        stage_batches=tuple(tuple(int(x) for x in row) for row in tally.runs),
        exit_pct=tuple(100 * float((exits == s).mean()) for s in range(len(tally.runs))),
        decisions=tally.decisions,
        rise_ms=_rise(latency_ms),
        unstable=grows_without_bound(tally),
    )


def _rise(latency_ms: NDArray[np.float64]) -> float:
    half = len(latency_ms) // 2
    return float(latency_ms[half:].mean() - latency_ms[:half].mean()) if half else 0.0


def grows_without_bound(tally: Tally) -> bool:
    """Tell if the backlog grew through the whole run, so that any latency would only tell the run's length.

    True when the last arrival finds more than 64 requests and more than 2 % of all before it, and 1.3 times
    as many as the middle one found.
    """
    n = len(tally.end_ns)

    def backlog(index: int) -> int:
        return index + 1 - int((tally.end_ns[: index + 1] <= tally.arrival_ns[index]).sum())

    final = backlog(n - 1)
    return final > max(64, 0.02 * n) and final > 1.3 * backlog(n // 2)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds and the half-width of its confidence interval (infinite for a single seed).

    `least` and `most`: what the quantity can be at all, such as 0 and 100 of a share. Few seeds give wide
    intervals, which reach beyond; cutting them there keeps their coverage, since no true mean lies outside.
    """

    mean: float
    half: float
    least: float = field(default=-math.inf, repr=False)
    most: float = field(default=math.inf, repr=False)

    @property
    def low(self) -> float:
        """Lower end, not below what the quantity can be; -inf for a single seed."""
        return max(self.mean - self.half, self.least) if math.isfinite(self.half) else -math.inf

    @property
    def high(self) -> float:
        """Upper end, not above what the quantity can be; inf for a single seed."""
        return min(self.mean + self.half, self.most) if math.isfinite(self.half) else math.inf

    def to_dict(self) -> dict[str, float | None]:
        """Return `mean`, `low` and `high`; None where they are not finite."""
        raw = {"mean": self.mean, "low": self.low, "high": self.high}
        return {key: value if math.isfinite(value) else None for key, value in raw.items()}


def interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return Student's t interval of the mean of independent values, one per seed. Raises SchedulerError.

    >>> print(interval([1.0, 2.0, 3.0]))
    Interval(mean=2.0, half=2.484...)
    """
    if not values:
        raise SchedulerError("an interval needs at least one value")
    n, mean = len(values), float(np.mean(values))
    if n == 1:
        return Interval(mean, math.inf)
    return Interval(mean, t_quantile(0.5 + confidence / 2, n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n))


def t_quantile(p: float, freedom: int) -> float:
    """Return the quantile of Student's t for p above 1/2, by bisection of its distribution function.

    A board has no SciPy. Raises SchedulerError.

    >>> round(t_quantile(0.975, 29), 3), round(t_quantile(0.975, 1), 2)
    (2.045, 12.71)
    """
    if not (0.5 < p < 1 and freedom >= 1):
        raise SchedulerError(f"a t quantile needs p in 0.5..1 and a degree of freedom, not {p} and {freedom}")
    low, high = 0.0, math.pi / 2
    for _ in range(60):  # in the angle x = atan(t / sqrt(freedom)), where the density is cos(x) ** (freedom - 1)
        middle = (low + high) / 2
        low, high = (middle, high) if _t_cdf(middle, freedom) < p else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _t_cdf(angle: float, freedom: int) -> float:
    """Return P(T <= sqrt(freedom) tan(angle)), the finite sum of Abramowitz and Stegun 26.7.3-4."""
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom == 1:
        return 0.5 + angle / math.pi
    term, total = 1.0, 1.0
    if freedom % 2:
        term = total = cosine
        for k in range(2, freedom - 2, 2):
            term *= cosine * cosine * k / (k + 1)
            total += term
        return 0.5 + (angle + sine * total) / math.pi
    for k in range(1, freedom - 2, 2):
        term *= cosine * cosine * k / (k + 1)
        total += term
    return 0.5 + sine * total / 2


def merge_metrics(runs: Sequence[Metrics]) -> Mapping[str, Interval]:
    """Return mean and interval of every scalar metric over seeds."""
    names = [k for k, v in vars(runs[0]).items() if isinstance(v, int | float) and not isinstance(v, bool)]
    return {name: within(interval([float(getattr(m, name)) for m in runs]), name) for name in names}


def within(value: Interval, name: str) -> Interval:
    """Return the interval with the bounds of a metric: 0 and 100 of a share, 0 of a time, count or rate.

    >>> within(Interval(0.5, 9.75), "violations_pct").to_dict()
    {'mean': 0.5, 'low': 0.0, 'high': 10.25}
    """
    if name in SIGNED:
        return value
    return replace(value, least=0.0, most=100.0 if name.endswith("_pct") else math.inf)
