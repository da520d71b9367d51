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
from fluidnpu.scheduler.simulation import least_violations, least_violations_within
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


def brute_force(
    requests: Sequence[Request], exits: Sequence[int], table: LatencyTable, within_ns: int = 1 << 60, most_far: int = 0
) -> int:
    """Return the least violations over all schedules: any batch of any stage at any event.

    At most `most_far` requests may end later than `within_ns` after their arrival; one more than there are
    requests where that cannot be.
    """
    best = len(requests) + 1
    start = tuple(-1 for _ in requests)  # stage done last
    seen: set[tuple[int, tuple[int, ...], int, int]] = set()

    def go(now: int, state: tuple[int, ...], late: int, far: int) -> None:
        nonlocal best
        if late >= best or far > most_far or (now, state, late, far) in seen:
            return
        seen.add((now, state, late, far))
        if all(done >= e for done, e in zip(state, exits, strict=True)):
            best = late
            return
        coming = [r.arrival_ns for r in requests if r.arrival_ns > now]
        if coming:
            go(min(coming), state, late, far)
        for stage, row in enumerate(table.ns):
            ready = [
                i for i, r in enumerate(requests) if r.arrival_ns <= now and state[i] == stage - 1 and exits[i] >= stage
            ]
            for size in range(1, min(len(ready), table.b_max) + 1):
                for batch in combinations(ready, size):
                    end = now + row[size - 1]
                    after = tuple(stage if i in batch else s for i, s in enumerate(state))
                    leaving = [requests[i] for i in batch if exits[i] == stage]
                    missed = sum(end > r.deadline_ns for r in leaving)
                    go(end, after, late + missed, far + sum(end > r.arrival_ns + within_ns for r in leaving))

    go(0, start, 0, 0)
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


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_schedule_of_a_given_tail_has_fewer_violations(data: st.DataObject) -> None:
    table = data.draw(tables(max_stages=2, max_batch=2))
    objective = data.draw(st.integers(1, 40))
    arrivals = sorted(data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=4)))
    requests = [Request(i, at, at + objective) for i, at in enumerate(arrivals)]
    exits = [data.draw(st.integers(0, table.stages - 1)) for _ in requests]
    within = objective + data.draw(st.integers(0, 60))
    share = data.draw(st.sampled_from([0.0, 0.25, 0.5]))
    real = brute_force(requests, exits, table, within, int(share * len(requests)))
    try:
        bound = least_violations_within(requests, exits, table, within, share=share)
    except SchedulerError:
        assert real > len(requests), "a schedule with that tail was found"
    else:
        assert least_violations(requests, exits, table) <= bound <= real


def test_who_may_not_be_left_very_late_makes_others_late() -> None:
    table = LatencyTable(ns=((10,),))
    requests = [Request(0, 0, 10), *(Request(i, at, at + 10) for i, at in enumerate(range(0, 90, 10), 1))]
    exits = [0] * len(requests)
    # Two come at once, and no time is left for one of them: at the very end it is the only one that is late.
    assert least_violations(requests, exits, table) == brute_force(requests, exits, table, 100) == 1
    for within, least in ((100, 1), (70, 2), (40, 3), (30, 5), (20, 9)):
        assert least_violations_within(requests, exits, table, within) == least, within
        assert brute_force(requests, exits, table, within) == least, within


def test_a_tail_shorter_than_any_scheduler_reaches_is_said() -> None:
    table, requests = LatencyTable(ns=((10,),)), [Request(i, 0, 5) for i in range(3)]
    with pytest.raises(SchedulerError, match="no scheduler has 99 % of these 3 requests within 20 ns"):
        least_violations_within(requests, [0] * 3, table, 20)
    with pytest.raises(SchedulerError, match="one objective for all, of at most the p99 of 4 ns"):
        least_violations_within(requests, [0] * 3, table, 4)


def test_policies_stay_above_the_bound_of_their_own_tail() -> None:
    done = serve_row(ROWS[0], "fluid", count=1500)
    tail = sorted(r.latency_ns for r in done.records)[-16]  # at most one in a hundred is longer
    bound = least_violations_within(done.requests, done.exit, row_table(ROWS[0]), tail)
    assert least_violations(done.requests, done.exit, row_table(ROWS[0])) <= bound <= sum(r.late for r in done.records)


def test_deadlines_out_of_order_are_refused() -> None:
    with pytest.raises(SchedulerError, match="order of arrivals"):
        least_violations([Request(0, 0, 50), Request(1, 1, 20)], [0, 0], LatencyTable(ns=((1,),)))
