"""Counts of one model at the front of a fleet; boards count what happens inside them.

>>> counts = ModelCounts()
>>> counts.count_answer(2, 1_500_000, met=True)
>>> counts.samples, counts.requests, counts.latency.cumulative()[-1], counts.violations
(2, 1, 2, 0)
"""

from __future__ import annotations

import time
from collections import Counter, deque

from ...serving.statistics import RECENT, Histogram


class ModelCounts:
    """Answers and errors of one model. `slo_ns`: the objective of a request that names none."""

    def __init__(self) -> None:
        self.slo_ns = 0
        self.samples = self.requests = 0  # answered
        self.violations = 0  # samples of requests that were answered after their objective
        self.latency = Histogram()
        self.errors: Counter[str] = Counter()
        self.last_ms = 0  # since the epoch
        self.recent: deque[tuple[int, int]] = deque(maxlen=RECENT)  # end and latency in us

    def count_answer(self, count: int, latency_ns: int, *, met: bool) -> None:
        """Count an answer to a number of samples."""
        self.samples += count
        self.requests += 1
        self.violations += 0 if met else count
        self.last_ms = time.time_ns() // 1_000_000
        self.recent.append((time.monotonic_ns() // 1_000, latency_ns // 1_000))
        for _ in range(count):
            self.latency.add(latency_ns)
