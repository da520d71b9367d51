"""Where requests come from, and at which exit each would leave. All randomness takes an explicit generator.

>>> [r.arrival_ns // 10**6 for r in poisson(100.0, 3, slo_ns=200_000_000, rng=np.random.default_rng(0))]
[6, 16, 17]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .engine import check_rates
from .errors import SchedulerError, TrafficError
from .policy import Request

_NS = 1_000_000_000


def requests_at(arrivals_ns: Sequence[int] | NDArray[np.int64], slo_ns: int) -> list[Request]:
    """Requests 0, 1, ... that arrive at these times (sorted) and all have the same objective. Raises TrafficError."""
    if slo_ns <= 0:
        raise TrafficError(f"the latency objective must be above zero, not {slo_ns} ns")
    return [Request(i, int(at), int(at) + slo_ns) for i, at in enumerate(arrivals_ns)]


def poisson(rate_per_s: float, count: int, *, slo_ns: int, rng: np.random.Generator) -> list[Request]:
    """Poisson arrivals: exponential gaps of mean 1/rate, cut to whole nanoseconds. Raises TrafficError."""
    check_load(rate_per_s, count)
    return requests_at(np.cumsum(rng.exponential(_NS / rate_per_s, count)).astype(np.int64), slo_ns)


def draw_exits(exit_rates: Sequence[float], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The exit at which each of `count` samples would leave, drawn independently with these shares."""
    check_rates(exit_rates, len(exit_rates))
    edges = np.cumsum(exit_rates)[:-1]
    return np.searchsorted(edges, rng.random(count), side="right").astype(np.int64)


def exits_from_confidences(confidences: ArrayLike, thresholds: ArrayLike) -> NDArray[np.int64]:
    """The first exit whose confidence exceeds its threshold, per sample; the last exit takes the rest.

    `confidences`: samples x exits, softmax top-1 in 0..1; `thresholds`: one per exit (the last is not looked at). Raises SchedulerError.

    >>> exits_from_confidences([[0.9, 0.1], [0.2, 0.3]], [0.8, 0.8]).tolist()
    [0, 1]
    """
    table, limits = np.asarray(confidences, float), np.asarray(thresholds, float)
    if table.ndim != 2 or limits.shape != table.shape[1:]:
        raise SchedulerError(
            f"confidences must be samples x exits with one threshold an exit, not {table.shape} and {limits.shape}"
        )
    if not np.all((table >= 0) & (table <= 1)):
        raise SchedulerError("confidences must lie in 0..1")
    sure = table > limits
    sure[:, -1] = True
    return np.asarray(np.argmax(sure, axis=1), np.int64)


def check_load(rate_per_s: float, count: int) -> None:
    """Raise TrafficError unless the rate is above zero and finite and there is at least one request."""
    if not (rate_per_s > 0 and np.isfinite(rate_per_s)):
        raise TrafficError(f"the arrival rate must be above zero and finite, not {rate_per_s}")
    if count < 1:
        raise TrafficError(f"there must be at least one request, not {count}")
