"""A lower bound on violations, valid also for a scheduler that knows all arrivals and exits beforehand.

Relaxation: a run of b samples that takes T is shared equally by them, so a request that leaves at exit e
occupies the NPU for at least w = sum over its stages of min over b of latency[stage][b] / b, within its own
window from arrival to deadline. Drop everything else (stage order, runs that cannot be interrupted, slots).
Requests that are on time in any real schedule are then on time on one machine that works on one request at
a time. The most that can be on time there is known exactly when deadlines are in the order of arrivals
(Kise, Ibaraki and Mine, 1978): go through the requests in order; when one is late, drop the request without
which the others end soonest. A request whose stages one by one do not fit into its window is late anyway
and is left out first.

>>> from fluidnpu.dse import LatencyTable
>>> two = [Request(0, 0, 10), Request(1, 0, 10)]
>>> [least_violations(two, [0, 0], LatencyTable(ns=(row,))) for row in ((8, 16), (8, 9))]
[1, 0]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

from fluidnpu.dse import LatencyTable

from ..errors import SchedulerError
from ..policy import Request
from .world import check_requests

Job = tuple[int, int, int]  # release, work, deadline


def least_violations(requests: Sequence[Request], exits: Sequence[int], latency: LatencyTable) -> int:
    """Return a lower bound on the number of late requests under any scheduler.

    Raises SchedulerError when deadlines are not in the order of arrivals.
    """
    check_requests(requests)
    if any(a.deadline_ns > b.deadline_ns for a, b in itertools.pairwise(requests)):
        raise SchedulerError("the bound needs deadlines in the order of arrivals, as one objective for all gives")
    work, alone = [], []
    total, single = Fraction(0), 0
    for row in latency.ns:
        total += min(Fraction(ns, b) for b, ns in enumerate(row, 1))
        single += min(row)
        work.append(int(total))  # rounding down keeps the bound valid
        alone.append(single)
    hopeless = 0
    jobs: list[Job] = []
    for r, e in zip(requests, exits, strict=True):
        if r.arrival_ns + alone[e] > r.deadline_ns:
            hopeless += 1
        else:
            jobs.append((r.arrival_ns, work[e], r.deadline_ns))
    return hopeless + len(jobs) - most_on_time(jobs)


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
