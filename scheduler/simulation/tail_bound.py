"""Lower bound on violations of schedules whose p99 is given, valid also for those that know the future.

A scheduler can lower violations by leaving a few requests very late, which its p99 then shows. With a p99
of X all but one in a hundred requests end within X of their arrival, so those that miss their deadlines
take NPU time, too. Let a_i be 1 where request i is on time and b_i where it is late but ends within X. As
in `least_violations` each of them occupies the NPU for at least a share of its batches' durations, and all
work whose windows lie within an interval fits into the interval:

    maximise sum a_i   where   a_i + b_i <= 1,   sum (a_i + b_i) >= 99 % of the requests,
    and for intervals [s, t]:   sum of a_i w_i (arrival >= s, deadline <= t)
                              + sum of b_i v_i (arrival >= s, arrival + X <= t)  <=  t - s.

The linear programme over some intervals is solved by HiGHS; intervals that its solution overfills are added
until there is none. The bound is computed from the multipliers by weak duality, so it holds for any that the
solver returns. Needs SciPy, as the extra `fleet` does.
"""

from __future__ import annotations

import heapq
import importlib.util
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluidnpu.dse import LatencyTable

from ..errors import SchedulerError
from ..policy import Request
from .bound import Ints, least_shares, least_violations

Floats = NDArray[np.float64]
ROUNDS = 40  # of cuts at most: fewer give a lower bound, too
_OVER = 1e-6  # of an interval: less is the solver's rounding


def least_violations_within(
    requests: Sequence[Request],
    exits: Sequence[int],
    latency: LatencyTable,
    p99_ns: int,
    *,
    share: float = 0.01,
) -> int:
    """Return a lower bound on late requests under any scheduler that lets at most `share` exceed `p99_ns`.

    All deadlines must be one objective after arrival, and no later than `p99_ns` after it. Raises
    SchedulerError, also where no scheduler reaches that p99.

    >>> three = [Request(i, 0, 10) for i in range(3)]
    >>> table = LatencyTable(ns=((8, 16, 24),))
    >>> [least_violations_within(three, [0, 0, 0], table, ns) for ns in (24, 30)]
    [2, 2]
    >>> least_violations_within(three, [0, 0, 0], table, 20)
    Traceback (most recent call last):
    ...
    fluidnpu.scheduler.errors.SchedulerError: no scheduler has 99 % of these 3 requests within 20 ns
    """
    if importlib.util.find_spec("scipy") is None:
        raise SchedulerError("the bound needs SciPy, which is not installed: pip install 'fluidnpu[fleet]'")
    plain = least_violations(requests, exits, latency)
    objectives = {r.deadline_ns - r.arrival_ns for r in requests}
    if len(objectives) > 1 or max(objectives, default=0) > p99_ns:
        raise SchedulerError(
            f"the bound needs one objective for all, of at most the p99 of {p99_ns} ns, not {len(objectives)} objectives "
            f"up to {max(objectives, default=0)} ns"
        )
    if not requests:
        return 0
    programme = _Programme.of(requests, exits, latency, p99_ns, share)
    bound = programme.most_on_time()
    if bound is None:
        raise SchedulerError(
            f"no scheduler has {100 * (1 - share):g} % of these {len(requests)} requests within {p99_ns} ns"
        )
    return max(plain, math.ceil(len(requests) - bound - 1e-6))


@dataclass(frozen=True)
class _Programme:
    """Windows and work of each request on time (`on`) and late (`late`); work is inf where it cannot be."""

    arrival: Ints
    on_end: Ints
    late_end: Ints
    on_work: Floats
    late_work: Floats
    least: int  # requests that must end within the p99

    @classmethod
    def of(
        cls, requests: Sequence[Request], exits: Sequence[int], latency: LatencyTable, p99_ns: int, share: float
    ) -> _Programme:
        arrival = np.array([r.arrival_ns for r in requests], np.int64)
        on_end = np.array([r.deadline_ns for r in requests], np.int64)
        late_end = arrival + p99_ns
        leaves = np.array(exits, np.int64)
        on, late = (
            np.array([math.inf if ns is None else ns for ns in least_shares(latency, arrival, end, leaves, late_end)])
            for end in (on_end, late_end)
        )
        return cls(arrival, on_end, late_end, on, late, len(requests) - math.floor(share * len(requests)))

    def most_on_time(self) -> float | None:
        """Return an upper bound on the requests on time; None where the p99 cannot be."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, hstack, identity, vstack

        n = len(self.arrival)
        able = np.concatenate([np.isfinite(self.on_work), np.isfinite(self.late_work)])
        cost = np.concatenate([-np.ones(n), np.zeros(n)])
        one_each = hstack([identity(n), identity(n)])
        enough = csr_array(-np.ones((1, 2 * n)))
        intervals: list[tuple[int, int]] = []
        rows: list[Floats] = []
        best = float(n)
        for _ in range(ROUNDS):
            lengths = np.array([end - begin for begin, end in intervals], float)
            cuts = [csr_array(np.array(rows) / lengths[:, None])] if rows else []
            solution = linprog(
                cost,
                A_ub=csr_array(vstack([one_each, enough, *cuts])),
                b_ub=np.concatenate([np.ones(n), [-self.least], np.ones(len(rows))]),
                bounds=np.stack([np.zeros(2 * n), able.astype(float)], axis=1),
                method="highs",
            )
            if solution.status == 2:
                return None
            if solution.x is None:
                break
            multipliers = np.maximum(0.0, -solution.ineqlin.marginals[n:])
            best = min(best, self._dual(multipliers[0], multipliers[1:], rows, lengths, able))
            seen = set(intervals)
            new = [interval for interval in self._overfilled(solution.x[:n], solution.x[n:]) if interval not in seen]
            if not new:
                break
            intervals += new
            rows += [self._work_within(*interval) for interval in new]
        return best

    def _work_within(self, begin: int, end: int) -> Floats:
        """Return the work of each variable whose window lies within an interval, else zero."""
        inside = self.arrival >= begin
        on = np.where(inside & (self.on_end <= end) & np.isfinite(self.on_work), self.on_work, 0.0)
        late = np.where(inside & (self.late_end <= end) & np.isfinite(self.late_work), self.late_work, 0.0)
        return np.concatenate([on, late])

    def _dual(
        self, count: float, multipliers: Floats, rows: Sequence[Floats], lengths: Floats, able: NDArray[np.bool_]
    ) -> float:
        """Bound the requests on time by weak duality: any multipliers from zero on give a bound."""
        n = len(self.arrival)
        charged = np.zeros(2 * n)
        for y, row, length in zip(multipliers, rows, lengths, strict=True):
            charged += y / length * row
        worth = np.concatenate([np.ones(n), np.zeros(n)]) + count - charged
        worth = np.where(able, worth, 0.0)
        weights = np.maximum(0.0, np.maximum(worth[:n], worth[n:]))
        return float(multipliers.sum() - count * self.least + weights.sum())

    def _overfilled(self, on: Floats, late: Floats) -> list[tuple[int, int]]:
        """Return intervals that hold more work than time: those that end where the earliest deadline first
        misses one.
        """
        jobs = [
            (int(self.arrival[i]), int(end[i]), float(part[i] * work[i]))
            for part, end, work in ((on, self.on_end, self.on_work), (late, self.late_end, self.late_work))
            for i in np.flatnonzero(part > 0)
        ]
        jobs.sort()
        begins = np.array([job[0] for job in jobs], np.int64)
        ends = np.array([job[1] for job in jobs], np.int64)
        works = np.array([job[2] for job in jobs], float)
        intervals = []
        for end in _missed(jobs):
            inside = np.where(ends <= end, works, 0.0)
            held = np.cumsum(inside[::-1])[::-1]
            over = np.where(begins < end, held - (end - begins), 0.0)
            at = int(over.argmax())
            if over[at] > _OVER * (end - begins[at]):
                intervals.append((int(begins[at]), end))
        return list(dict.fromkeys(intervals))


def _missed(jobs: Sequence[tuple[int, int, float]]) -> list[int]:
    """Return deadlines that the earliest deadline first misses, jobs in the order of arrivals; what is late
    is dropped.

    >>> _missed([(0, 5, 3.0), (0, 6, 4.0), (10, 12, 2.0)])
    [6]
    """
    missed: list[int] = []
    waiting: list[tuple[int, float]] = []
    now = 0.0
    for (arrival, end, work), following in itertools.zip_longest(jobs, jobs[1:]):
        now = max(now, float(arrival))
        heapq.heappush(waiting, (end, work))
        until = math.inf if following is None else float(following[0])
        while waiting and now < until:
            end, work = heapq.heappop(waiting)
            if now + work > end * (1 + 1e-12) and end - now < until - now:
                missed.append(end)
                now = max(now, float(end))
            elif now + work <= until:
                now += work
            else:
                heapq.heappush(waiting, (end, now + work - until))
                now = until
    return missed
