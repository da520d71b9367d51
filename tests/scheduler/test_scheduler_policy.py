"""Properties of all policies: the rules of the engine, no clairvoyance, and a stated bound on starvation."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Action, Policy, Request, Run, View, World, make_policy, simulate
from fluidnpu.scheduler.policies import REGISTRY, Anytime, Setting

MS = 10**6
TABLE = LatencyTable(ns=((4 * MS, 7 * MS, 10 * MS), (3 * MS, 4 * MS, 5 * MS), (6 * MS, 7 * MS, 8 * MS)))
RATES = (0.2, 0.3, 0.5)
SETTING = Setting(latency=TABLE, exit_rates=RATES, rate_per_s=90, slo_ns=40 * MS)
Stream = tuple[list[Request], list[int]]
"""Requests, and the exit at which each leaves."""

pytestmark = pytest.mark.usefixtures("few_trials")
PLAIN = (
    *(name for name in REGISTRY if name != "adaptive"),
    "adaptive:timeout=9ms",
    "lazy:exit_aware=1",
    "staged:tau_b=2",
    "turns:splits=0x3+1x2",
)
ALL = (
    *PLAIN,
    "credit:dial=0.5",
    "credit:robust=1:patience=2",
    "guarded:patience=1:give_up=20%",
    "fluid:anytime=20%",
    "credit:anytime=30%",
    "guarded:anytime=30%",
    "credit:anytime=30%:shed=1",
    "optimal:shed=1",
)


def test_no_registered_policy_is_left_out() -> None:
    assert {spec.split(":")[0] for spec in PLAIN} == set(REGISTRY)


@lru_cache
def policy(spec: str) -> Policy:
    return make_policy(spec, SETTING)


@st.composite
def streams(draw: st.DrawFn, max_requests: int = 30) -> Stream:
    """Draw bursts and gaps, equal times included, each request with its own deadline."""
    gaps = draw(st.lists(st.one_of(st.just(0), st.integers(0, 40 * MS)), min_size=1, max_size=max_requests))
    arrivals = np.cumsum(gaps)
    slos = draw(st.lists(st.sampled_from([5 * MS, 40 * MS, 90 * MS]), min_size=len(gaps), max_size=len(gaps)))
    exits = draw(st.lists(st.integers(0, 2), min_size=len(gaps), max_size=len(gaps)))
    return [Request(i, int(a), int(a) + s) for i, (a, s) in enumerate(zip(arrivals, slos, strict=True))], exits


@pytest.mark.parametrize("spec", ALL)
@given(streams())
@settings(max_examples=25, deadline=None)
def test_each_request_is_answered_once_within_batch_and_slots(spec: str, stream: Stream) -> None:
    requests, exits = stream
    done = simulate(requests, policy(spec), World(latency=TABLE, exits=exits, exit_rates=RATES))
    done.check()
    assert len(done.end_ns) == len(requests)
    assert all(end >= r.arrival_ns for end, r in zip(done.end_ns, requests, strict=True))
    assert all(e == x or o for e, x, o in zip(done.exit, exits, done.outcome, strict=True))


@pytest.mark.parametrize("spec", ALL)
@given(streams())
@settings(max_examples=8, deadline=None)
def test_more_slots_than_a_batch_or_a_smaller_batch_are_respected_too(spec: str, stream: Stream) -> None:
    """A board may have twice as many slots as a batch, and a tenant a smaller batch than was solved for."""
    requests, exits = stream
    simulate(requests, policy(spec), World(latency=TABLE, exits=exits, exit_rates=RATES, slots=6)).check()
    simulate(requests, policy(spec), World(latency=TABLE, exits=exits, exit_rates=RATES, b_max=2, slots=3)).check()


# One stage; no batching; two stages of which larger batches are no slower; many stages; no sample leaves
# early; all do.
SHAPES: tuple[tuple[tuple[tuple[int, ...], ...], tuple[float, ...]], ...] = (
    (((4 * MS, 5 * MS, 6 * MS),), (1.0,)),
    (((4 * MS,), (5 * MS,)), (0.5, 0.5)),
    (((4 * MS, 4 * MS, 3 * MS), (9 * MS, 9 * MS, 9 * MS)), (0.3, 0.7)),
    (((2 * MS, 3 * MS),) * 6, (0.1, 0.1, 0.1, 0.1, 0.1, 0.5)),
    (((4 * MS, 5 * MS), (3 * MS, 5 * MS)), (0.0, 1.0)),
    (((4 * MS, 5 * MS), (3 * MS, 5 * MS)), (1.0, 0.0)),
)


@lru_cache
def policy_for(spec: str, shape: int, rate_per_s: float) -> Policy:
    ns, rates = SHAPES[shape]
    return make_policy(
        spec, Setting(latency=LatencyTable(ns=ns), exit_rates=rates, rate_per_s=rate_per_s, slo_ns=40 * MS)
    )


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("spec", ALL)
@given(streams(), st.sampled_from([20, 1000]), st.data())
@settings(max_examples=6, deadline=None)
def test_tables_of_every_shape_are_served_also_by_what_was_solved_for_an_overload(
    spec: str, shape: int, stream: Stream, rate: int, data: st.DataObject
) -> None:
    ns, rates = SHAPES[shape]
    requests, _ = stream
    exits = [data.draw(st.integers(0, len(ns) - 1)) for _ in requests]
    made = policy_for(spec, shape, rate)
    done = simulate(requests, made, World(latency=LatencyTable(ns=ns), exits=exits, exit_rates=rates))
    done.check()
    assert all(e == x or o for e, x, o in zip(done.exit, exits, done.outcome, strict=True))


@pytest.mark.parametrize("spec", ALL)
@given(streams(), streams(), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_a_twin_with_another_future_decides_the_same(
    spec: str, one: Stream, other: Stream, chance: random.Random
) -> None:
    assert_blind(lambda exits: policy(spec), one, other, chance)


def assert_blind(make: Callable[[Sequence[int]], Policy], one: Stream, other: Stream, chance: random.Random) -> None:
    """Assert equal decisions up to a moment in two worlds with the same arrivals and exits up to it.

    `make` gets the exits, which no policy may know.
    """
    past, past_exits = one
    moment = past[-1].arrival_ns
    later, _ = other
    tails = [
        [Request(1000 + r.id, moment + 1 + k + r.arrival_ns, moment + 1 + k + r.deadline_ns) for r in later]
        for k in (0, 7 * MS)
    ]
    logs = []
    base: tuple[tuple[int, ...], list[int]] | None = None
    for tail in tails:
        exits = list(past_exits)
        if base is not None:  # exits not yet seen at the moment are drawn anew
            exits = [
                e if end <= moment else max(x, chance.randint(0, 2))
                for e, end, x in zip(exits, base[0], base[1], strict=True)
            ]
        future = [*exits, *[2] * len(tail)]
        done = simulate([*past, *tail], make(future), World(latency=TABLE, exits=future, exit_rates=RATES))
        if base is None:
            passed = [0] * len(past)  # the exits already refused at the moment stay refused
            for run in done.runs:
                for key in run.ids:
                    if key < 1000 and run.end_ns <= moment:
                        passed[key] = run.stage + 1
            base = (done.end_ns[: len(past)], [min(p, 2) for p in passed])
        logs.append([entry for entry in done.log if entry[0] <= moment])
    assert logs[0] == logs[1]


def bound_ns(spec: str, requests: Sequence[Request], index: int) -> int:
    """Return the bound on a request's latency, from the requests ahead of it and the largest objective.

    A pass: all stages at their longest. Policies that never preempt serve in order: each request ahead
    costs a pass at most, and an adaptive batch its timeout. Algorithm 1 and LazyBatching stop preempting
    when the slack of the oldest is used up, so each batch ahead costs at most the objective and two passes.
    PAME's stages give the oldest every second run. With patience (fluid-repaired, optimal, credit, guarded)
    the oldest goes first once it is 10 objectives old.
    """
    run = max(max(row) for row in TABLE.ns)
    whole = TABLE.stages * run
    ahead = index + 1
    slo = max(r.deadline_ns - r.arrival_ns for r in requests)
    name = spec.split(":")[0]
    if name in ("serial", "greedy"):
        return (ahead + 1) * whole
    if name.startswith("adaptive"):
        return (ahead + 1) * (whole + max(9 * MS, slo))
    if name in ("fluid", "lazy"):
        return (ahead + 1) * (slo + 2 * whole)
    if name == "staged":
        return (ahead + TABLE.b_max + 1) * 2 * whole
    return 10 * slo + run + (ahead + TABLE.b_max + 1) * 2 * whole


@pytest.mark.parametrize("spec", ALL)
@given(streams(), st.integers(0, 2), st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_no_request_starves(spec: str, stream: Stream, leave: int, flood: int) -> None:
    assert_no_starvation(spec, policy(spec), stream, leave, flood)


def assert_no_starvation(spec: str, made: Policy, stream: Stream, leave: int, flood: int) -> None:
    """Assert that a flood at twice the capacity, leaving at one exit, delays no earlier request too long."""
    requests, exits = stream
    last = requests[-1].arrival_ns
    extra = [Request(1000 + i, last + i * 2 * MS, last + i * 2 * MS + 40 * MS) for i in range(flood)]
    done = simulate([*requests, *extra], made, World(latency=TABLE, exits=[*exits, *[leave] * flood], exit_rates=RATES))
    for index, record in enumerate(done.records):
        assert record.latency_ns <= bound_ns(spec, done.requests, index), record


@pytest.mark.parametrize("spec", [f"{name}:anytime=20%" for name in PLAIN])
@given(streams())
@settings(max_examples=20, deadline=None)
def test_anytime_answers_stay_within_their_share_and_after_an_exit(spec: str, stream: Stream) -> None:
    assert_anytime(policy(spec), stream)


def assert_anytime(made: Policy, stream: Stream) -> None:
    requests, exits = stream
    done = simulate(requests, made, World(latency=TABLE, exits=exits, exit_rates=RATES))
    early = [r for r in done.records if r.outcome == 1]
    assert len(early) <= 0.2 * len(requests)
    assert all(0 <= r.exit < exits[r.request.id] for r in early)


def busy_stream() -> Stream:
    rng = np.random.default_rng(4)
    arrivals = np.cumsum(rng.exponential(9 * MS, 400)).astype(int)
    requests = [Request(i, int(a), int(a) + 120 * MS) for i, a in enumerate(arrivals)]
    return requests, rng.choice(3, 400, p=RATES).tolist()


@pytest.mark.parametrize("spec", ["fluid", "fluid-repaired", "lazy", "staged"])
def test_preempting_undoes_exactly_what_starting_did(spec: str) -> None:
    assert_preempted_batches_go_on(policy(spec))


def assert_preempted_batches_go_on(made: Policy) -> None:
    """Assert that the batch set aside goes on: same samples, same stage, none lost, none doubled.

    This holds with and without back-fill. The solved policies may split a batch; that they lose no request
    is what `Schedule.check` says of every policy.
    """
    requests, exits = busy_stream()
    done = simulate(requests, made, World(latency=TABLE, exits=exits, exit_rates=RATES))
    runs, preempted = done.runs, 0
    for i, run in enumerate(runs):
        if run.stage == 0 or i == 0:
            continue
        before = [r for r in runs[:i] if r.stage == run.stage - 1][-8:]
        came = {key for r in before for key in r.ids if exits[key] >= run.stage}
        assert set(run.ids) <= came
        preempted += runs[i - 1].stage < run.stage - 1 or len(before) > 1
        stayed = {key for key in run.ids if exits[key] > run.stage}
        later = [r for r in runs[i + 1 :] if r.stage == run.stage + 1]
        assert stayed == set() or stayed <= set(later[0].ids)
    assert preempted > 0


class Bad:
    """A policy that breaks one promise: the checks above must notice."""

    name = "bad"

    def __init__(self, decide: Callable[[View], Action]) -> None:
        self.decide = decide

    def reset(self) -> None:
        pass


def newest_first(view: View) -> Run:
    stage = max(s for s, w in enumerate(view.waiting) if w)
    return Run(stage, (view.waiting[stage][-1],))


def clairvoyant(exits: Sequence[int]) -> Bad:
    """Return a policy that runs first the sample that leaves first."""

    def decide(view: View) -> Run:
        stage = max(s for s, w in enumerate(view.waiting) if w)
        return Run(stage, (min(view.waiting[stage], key=lambda r: exits[r.id if r.id < 1000 else -1]),))

    return Bad(decide)


def splitting(view: View) -> Run:
    """Decide as greedy, but go on with half of the batch."""
    stage = next((s for s in (1, 2) if view.waiting[s]), 0)
    entry = view.waiting[stage]
    return Run(stage, tuple(entry[: max(1, len(entry) // 2)] if stage else entry[: view.b_max - len(view.waiting[2])]))


def test_the_checks_can_fail() -> None:
    requests = [Request(i, 0, 40 * MS) for i in range(6)]
    with pytest.raises(AssertionError):
        assert_no_starvation("serial", Bad(newest_first), (requests, [2] * 6), 2, 60)
    crowd = [*(Request(i, 0, 40 * MS) for i in range(20)), Request(20, 30 * MS, 70 * MS)]
    worlds = (crowd, [2, 1, 0] * 7), (crowd, [2] * 21)
    with pytest.raises(AssertionError):
        assert_blind(clairvoyant, *worlds, random.Random(0))
    assert_blind(lambda exits: Bad(newest_first), *worlds, random.Random(0))
    with pytest.raises(AssertionError):
        assert_preempted_batches_go_on(Bad(splitting))
    with pytest.raises(AssertionError):
        assert_anytime(Anytime(policy("greedy"), 0.9), ([Request(i, 0, 20 * MS) for i in range(30)], [2] * 30))
