"""EdgeServing's rule: scores as a plain loop gives them, exits in time, none lost beside another network."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Answer, Request, Run, View, World, simulate
from fluidnpu.scheduler.policies.stability import Stability
from fluidnpu.scheduler.simulation import Networks

SMALL = ((20, 30), (20, 30))
LARGE = ((100, 150), (100, 150), (100, 150))
SIDE = Networks(stages=(2, 3), slots=(2, 2), of_tenant={"a": 0, "b": 1})
TABLE = LatencyTable(ns=SMALL + LARGE)
RATES = (0.5, 0.5, 0.2, 0.3, 0.5)
lines = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 900)), max_size=5)


def view(small: list[tuple[int, int]], large: list[tuple[int, int]]) -> View:
    """Requests that have waited so long, with such objectives, at 1,000 ns."""
    rows = [("a", *one) for one in small] + [("b", *one) for one in large]
    made = [Request(i, 1000 - waited, 1000 - waited + slo, name) for i, (name, waited, slo) in enumerate(rows)]
    queues: list[list[Request]] = [[] for _ in range(5)]
    for one in sorted(made, key=lambda one: one.arrival_ns):
        queues[SIDE.entry(one)].append(one)
    return View(now_ns=1000, waiting=queues, latency=TABLE, exit_rates=RATES, b_max=2, slots=4)


@given(lines, lines)
def test_the_least_score_runs_to_the_deepest_exit_in_time(
    small: list[tuple[int, int]], large: list[tuple[int, int]]
) -> None:
    if not small and not large:
        return
    seen, policy = view(small, large), Stability(networks=SIDE)
    scores = {}
    for first, rows in ((0, SMALL), (2, LARGE)):
        if not (queue := seen.waiting[first]):
            continue
        batch = queue[:2]
        ends = [sum(row[len(batch) - 1] for row in rows[: exit + 1]) for exit in range(len(rows))]
        in_time = [exit for exit, took in enumerate(ends) if 1000 + took <= batch[0].deadline_ns]
        exit = max(in_time, default=0)
        left = [one for line in seen.waiting for one in line if one not in batch]
        pressure = ((1000 + ends[exit] - one.arrival_ns) / (one.deadline_ns - one.arrival_ns) - 1 for one in left)
        scores[first] = sum(10.0 if x > 3 else min(math.exp(x), 10.0) for x in pressure), exit
    action = policy.decide(seen)
    assert isinstance(action, Run)
    value, exit = scores[action.stage]
    assert value == pytest.approx(min(score for score, _ in scores.values()), rel=1e-9)
    assert action.requests == tuple(seen.waiting[action.stage][:2])
    assert action.reason.endswith(f"to exit {exit + 1}")


streams = st.lists(
    st.tuples(st.integers(0, 150), st.sampled_from("ab"), st.integers(0, 2), st.integers(30, 900)),
    min_size=1,
    max_size=25,
)


@given(streams, st.booleans())
def test_everybody_is_answered_once_by_its_own_network(rows: list[tuple[int, str, int, int]], forces: bool) -> None:
    now, requests, leave = 0, [], []
    for index, (gap, name, exit, slo) in enumerate(rows):
        now += gap
        requests.append(Request(index, now, now + slo, name))
        leave.append(SIDE.entry(requests[-1]) + min(exit, SIDE.stages[SIDE.of(requests[-1])] - 1))
    policy = Stability(networks=SIDE, forces=forces)
    done = simulate(requests, policy, World(latency=TABLE, exits=leave, exit_rates=RATES, networks=SIDE))
    done.check()
    for request, exit, left in zip(requests, done.exit, leave, strict=True):
        assert SIDE.entry(request) <= exit <= left, "no later than the exit rule says"
        assert forces or exit == left


def test_a_request_that_would_be_late_is_answered_at_an_earlier_exit_and_one_with_time_is_not() -> None:
    requests = [Request(0, 0, 250, "b"), Request(1, 1000, 2000, "b")]
    world = World(latency=TABLE, exits=[4, 4], exit_rates=RATES, networks=SIDE)
    done = simulate(requests, Stability(networks=SIDE), world)
    assert done.exit == (3, 4)
    assert done.end_ns == (200, 1300)
    assert any(isinstance(action, Answer) for _, action in done.log)
