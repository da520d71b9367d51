"""The lower bound is exact for its relaxation and never above the best schedule, found by brute force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling_worlds import ROWS, row_table, serve_row, tables

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Request, SchedulerError
from fluidnpu.scheduler.simulation import least_violations
from fluidnpu.scheduler.simulation.bound import most_on_time

Job = tuple[int, int, int]
"""Release, work and deadline."""


def on_time(jobs: Iterable[Job]) -> bool:
    end = 0
    for release, work, deadline in jobs:
        end = max(end, release) + work
        if end > deadline:
            return False
    return True


@st.composite
def ordered_jobs(draw: st.DrawFn) -> list[Job]:
    n = draw(st.integers(1, 8))
    releases = sorted(draw(st.lists(st.integers(0, 20), min_size=n, max_size=n)))
    deadlines = sorted(draw(st.lists(st.integers(1, 40), min_size=n, max_size=n)))
    return [(r, draw(st.integers(1, 9)), max(d, r + 1)) for r, d in zip(releases, deadlines, strict=True)]


@given(ordered_jobs())
@settings(max_examples=300, deadline=None)
def test_the_relaxation_is_solved_exactly(jobs: list[Job]) -> None:
    jobs = sorted(jobs, key=lambda j: (j[0], j[2]))
    jobs = [(r, w, max(d for _, _, d in jobs[: i + 1])) for i, (r, w, _) in enumerate(jobs)]
    best = max(k for k in range(len(jobs) + 1) if any(on_time(c) for c in combinations(jobs, k)))
    assert most_on_time(jobs) == best


def brute_force(requests: Sequence[Request], exits: Sequence[int], table: LatencyTable) -> int:
    """Return the least violations over all schedules: any batch of any stage at any event."""
    best = len(requests)
    start = tuple(-1 for _ in requests)  # stage done last
    seen: set[tuple[int, tuple[int, ...], int]] = set()

    def go(now: int, state: tuple[int, ...], late: int) -> None:
        nonlocal best
        if late >= best or (now, state, late) in seen:
            return
        seen.add((now, state, late))
        if all(done >= e for done, e in zip(state, exits, strict=True)):
            best = late
            return
        coming = [r.arrival_ns for r in requests if r.arrival_ns > now]
        if coming:
            go(min(coming), state, late)
        for stage, row in enumerate(table.ns):
            ready = [
                i for i, r in enumerate(requests) if r.arrival_ns <= now and state[i] == stage - 1 and exits[i] >= stage
            ]
            for size in range(1, min(len(ready), table.b_max) + 1):
                for batch in combinations(ready, size):
                    end = now + row[size - 1]
                    after = tuple(stage if i in batch else s for i, s in enumerate(state))
                    missed = sum(exits[i] == stage and end > requests[i].deadline_ns for i in batch)
                    go(end, after, late + missed)

    go(0, start, 0)
    return best


@given(
    tables(max_stages=2, max_batch=2),
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
    st.integers(1, 80),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_no_schedule_whatever_violates_less_than_the_bound(
    table: LatencyTable, gaps: list[int], slo: int, data: st.DataObject
) -> None:
    arrivals = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    requests = [Request(i, at, at + slo) for i, at in enumerate(arrivals)]
    exits = [data.draw(st.integers(0, table.stages - 1)) for _ in requests]
    assert least_violations(requests, exits, table) <= brute_force(requests, exits, table)


def test_the_bound_is_reached_where_the_relaxation_is_the_truth() -> None:
    table = LatencyTable(ns=((10, 20),))
    requests = [Request(i, 0, 25) for i in range(4)]
    assert least_violations(requests, [0] * 4, table) == brute_force(requests, [0] * 4, table) == 2


@pytest.mark.parametrize("spec", ["serial", "greedy", "fluid", "credit"])
def test_policies_stay_above_the_bound(spec: str) -> None:
    done = serve_row(ROWS[0], spec, count=1500)
    late = sum(r.late for r in done.records)
    bound = least_violations(done.requests, done.exit, row_table(ROWS[0]))
    assert 0 < bound <= late


def test_deadlines_out_of_order_are_refused() -> None:
    with pytest.raises(SchedulerError, match="order of arrivals"):
        least_violations([Request(0, 0, 50), Request(1, 1, 20)], [0, 0], LatencyTable(ns=((1,),)))
