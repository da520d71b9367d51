"""Lower bounds on violations and on p99, valid also where all arrivals and exits are known beforehand.

Take the requests that are on time in any real schedule, and of each of its runs the b of them in the
batch. The run takes T >= min over b' >= b of latency[stage][b'], shared equally by them: T / b each. So
an on-time request that leaves at exit e occupies the NPU for at least w = sum over its stages of T / b. The
batches that it can have been in are bounded twice:

- its own runs come one after the other, so their whole durations fit into its window, from arrival to
  deadline;
- a run of b needs b requests at the same time, each after its arrival and earlier stages alone, and early
  enough for its later stages alone.

w is the least sum over the batch sizes that both allow. Drop everything else (stage order, runs that cannot
be interrupted, slots). Then the on-time requests are on time on one machine that works on one request at a
time, within their own windows. The most that can be on time there is known exactly when deadlines are in the
order of arrivals (Kise, Ibaraki and Mine, 1978): go through the requests in order; when one is late, drop the
request without which the others end soonest.

>>> from fluidnpu.dse import LatencyTable
>>> two = [Request(0, 0, 10), Request(1, 0, 10)]
>>> [least_violations(two, [0, 0], LatencyTable(ns=(row,))) for row in ((8, 16), (8, 9))]
[1, 0]
>>> apart = [Request(0, 0, 10), Request(1, 5, 15)]  # a batch of both would end after the first deadline
>>> least_violations(apart, [0, 0], LatencyTable(ns=((8, 9),)))
1
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import lcm

import numpy as np
from numpy.typing import NDArray

from fluidnpu.dse import LatencyTable

from ..errors import SchedulerError
from ..policy import Request
from .world import check_requests

Ints = NDArray[np.int64]
Job = tuple[int, int, int]  # release, work, deadline
MOST_CHOICES = 20_000  # of batch sizes for all stages of a request; beyond them each stage is bounded by itself


def least_violations(requests: Sequence[Request], exits: Sequence[int], latency: LatencyTable) -> int:
    """Return a lower bound on the number of late requests under any scheduler.

    Raises SchedulerError when deadlines are not in the order of arrivals.
    """
    check_requests(requests)
    if any(a.deadline_ns > b.deadline_ns for a, b in itertools.pairwise(requests)):
        raise SchedulerError("the bound needs deadlines in the order of arrivals, as one objective for all gives")
    arrival = np.array([r.arrival_ns for r in requests], np.int64)
    deadline = np.array([r.deadline_ns for r in requests], np.int64)
    works = least_shares(latency, arrival, deadline, np.array(exits, np.int64), deadline)
    jobs = [(r.arrival_ns, work, r.deadline_ns) for r, work in zip(requests, works, strict=True) if work is not None]
    return len(requests) - most_on_time(jobs)


def least_p99_ns(requests: Sequence[Request], exits: Sequence[int], latency: LatencyTable, share: float = 0.01) -> int:
    """Return a latency in ns that more than `share` of the requests exceed under any scheduler.

    So no schedule has a lower p99, whatever it does with its violations. It is found by bisection, to 0.1 %:
    `least_violations` with that latency as everyone's objective. Raises SchedulerError.

    >>> apart = [Request(0, 0, 10), Request(1, 100, 110)]
    >>> least_p99_ns(apart, [0, 0], LatencyTable(ns=((8, 16),)))
    7
    """

    def misses(ns: int) -> bool:
        within = [replace(r, deadline_ns=r.arrival_ns + ns) for r in requests]
        return least_violations(within, exits, latency) > share * len(requests)

    low, high = 0, 1
    while misses(high):
        low, high = high, 2 * high
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (middle, high) if misses(middle) else (low, middle)
    return low


def least_shares(latency: LatencyTable, arrival: Ints, deadline: Ints, leaves: Ints, others: Ints) -> list[int | None]:
    """Return of each request, on time, the least share of the NPU's time in ns; None if it must be late.

    It shares its batches with requests that end by `others`, which are no earlier than their deadlines. All
    in ns, by request, (requests,); `leaves` are exits.
    """
    runs = [tuple(min(row[b:]) for b in range(len(row))) for row in latency.ns]
    largest = [_largest_batches(runs, stage, arrival, deadline, leaves, others) for stage in range(len(runs))]
    return [
        _least_work(
            tuple(runs[: e + 1]), tuple(int(largest[stage][i]) for stage in range(e + 1)), int(deadline[i] - arrival[i])
        )
        for i, e in enumerate(leaves)
    ]


def _largest_batches(
    runs: Sequence[tuple[int, ...]], stage: int, arrival: Ints, deadline: Ints, leaves: Ints, others: Ints
) -> NDArray[np.int64]:
    """Return of each request the largest batch of this stage that it can be in, on time, with others that end
    by `others`.
    """
    alone = np.cumsum([0, *(row[0] for row in runs)])
    here = leaves >= stage
    open_ = arrival + alone[stage]
    behind = alone[leaves + 1] - alone[stage + 1]
    largest = np.zeros(len(arrival), np.int64)
    for size, ns in enumerate(runs[stage], 1):
        close, any_close = deadline - behind - ns, others - behind - ns  # a run of this size begins within
        fits, any_fits = here & (open_ <= close), here & (open_ <= any_close)
        if size == 1:
            largest[fits] = 1
            continue
        begins, ends = np.sort(open_[any_fits]), np.sort(any_close[any_fits])
        if len(begins) < size:
            break
        # As many as possible are present when one of them becomes able to begin.
        many = np.searchsorted(begins, begins, side="right") - np.searchsorted(ends, begins, side="left")
        with_enough = begins[many >= size]
        if not len(with_enough):
            break
        at = np.searchsorted(with_enough, open_)
        next_ = with_enough[np.minimum(at, len(with_enough) - 1)]
        able = fits & (at < len(with_enough)) & (next_ <= close)
        largest[able] = size
    return largest


@lru_cache(maxsize=1 << 16)
def _least_work(runs: tuple[tuple[int, ...], ...], largest: tuple[int, ...], window_ns: int) -> int | None:
    """Return the least share of the NPU's time in ns that a request can have; None if it must be late."""
    if 0 in largest or sum(row[0] for row in runs) > window_ns:
        return None
    sizes = [range(1, most + 1) for most in largest]
    choices = 1
    for most in largest:
        choices *= most
    if choices > MOST_CHOICES:
        return int(sum(min(Fraction(row[b - 1], b) for b in of) for row, of in zip(runs, sizes, strict=True)))
    whole = lcm(*range(1, max(largest) + 1))  # so that shares are whole numbers
    best = min(
        sum(row[b - 1] * (whole // b) for row, b in zip(runs, batch, strict=True))
        for batch in itertools.product(*sizes)
        if sum(row[b - 1] for row, b in zip(runs, batch, strict=True)) <= window_ns
    )
    return best // whole  # rounding down keeps the bound valid


def most_on_time(jobs: Sequence[Job]) -> int:
    """Return the largest number of jobs that one machine finishes in time; both times ascend.

    >>> most_on_time([(0, 5, 6), (0, 3, 7), (1, 3, 8)])
    2
    """
    kept: list[Job] = []  # of the current busy period
    count, end = 0, 0
    for job in jobs:
        if job[0] >= end:  # idle before it: what was kept is done and can never be dropped with profit
            count += len(kept)
            kept, end = [], job[0]
        kept.append(job)
        end += job[1]
        if end > job[2]:
            end = _drop(kept)
    return count + len(kept)


def _drop(kept: list[Job]) -> int:
    """Remove the job without which the others end soonest; return the new end.

    Without job k the later jobs move forward by its work, but none before its release: the gain is the
    least slack release-to-start among them.
    """
    starts, at = [], 0
    for release, work, _ in kept:
        at = max(at, release)
        starts.append(at)
        at += work
    best, best_gain = len(kept) - 1, kept[-1][1]
    slack: int | None = None
    for k in range(len(kept) - 2, -1, -1):
        after = starts[k + 1] - kept[k + 1][0]
        slack = after if slack is None else min(slack, after)
        gain = min(kept[k][1], slack)
        if gain > best_gain:
            best, best_gain = k, gain
    del kept[best]
    return at - best_gain
