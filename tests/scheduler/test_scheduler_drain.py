"""A long queue is worked off at the largest throughput, which is also what is predicted."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import (
    Policy,
    Request,
    Run,
    Schedule,
    SchedulerError,
    Serving,
    View,
    World,
    draw_exits,
    make_policy,
    poisson,
    simulate,
)
from fluidnpu.scheduler.comparison.capacity import predicted_capacity
from fluidnpu.scheduler.policies.solving.decision_process import continue_shares
from fluidnpu.scheduler.policies.solving.saturated import solve_saturated

pytestmark = pytest.mark.usefixtures("few_trials")
MS = 10**6
# A late stage whose batches cost hardly more than one sample: one full batch is worth waiting for.
STRONG = Serving(
    latency=LatencyTable(
        ns=(
            tuple(round((2.2 + 5 * b) * MS) for b in range(1, 9)),
            tuple(round((47.7 + 0.8 * b) * MS) for b in range(1, 9)),
        )
    ),
    exit_rates=(0.55, 0.45),
)
SLO = 167 * MS


def throughput_of_every_rule(table: LatencyTable, exit_rates: tuple[float, ...]) -> float:
    """Return the most answers a second of all stationary rules of two stages."""
    b_max, (on, _) = table.b_max, continue_shares(exit_rates)
    possible = [
        [(0, b) for b in range(1, b_max - n + 1)] + [(1, b) for b in range(1, min(n, b_max) + 1)]
        for n in range(b_max + 1)
    ]
    best = 0.0
    for rule in itertools.product(*possible):
        chain, ns, answers = np.zeros((b_max + 1, b_max + 1)), np.zeros(b_max + 1), np.zeros(b_max + 1)
        for n, (stage, b) in enumerate(rule):
            ns[n] = table.ns[stage][b - 1]
            if stage:
                chain[n, n - b], answers[n] = 1, b
            else:
                for stay in range(b + 1):
                    chance = (
                        float(np.prod([(b - k) / (k + 1) for k in range(stay)])) * on**stay * (1 - on) ** (b - stay)
                    )
                    chain[n, n + stay] += chance
                answers[n] = b * (1 - on)
        share = np.full(b_max + 1, 1 / (b_max + 1)) @ np.linalg.matrix_power((chain + np.eye(b_max + 1)) / 2, 4096)
        best = max(best, float(share @ answers / (share @ ns)) * 1e9)
    return best


@given(st.lists(st.integers(1, 60), min_size=6, max_size=6), st.sampled_from([0.1, 0.5, 0.9]))
@settings(max_examples=15, deadline=None)
def test_the_rule_is_the_best_of_all_stationary_rules(steps: list[int], early: float) -> None:
    table = LatencyTable(ns=(tuple(np.cumsum(steps[:3]).tolist()), tuple(np.cumsum(steps[3:]).tolist())))
    rates = (early, 1 - early)
    rule = solve_saturated(table, rates)
    assert rule is not None
    # From a mixed start: a rule with several classes of states counts as their mean, which none exceeds.
    assert rule.per_s == pytest.approx(throughput_of_every_rule(table, rates), rel=2e-3)


def served_of_an_endless_queue(policy: Policy, serving: Serving, count: int = 4000) -> float:
    rng = np.random.default_rng(8)
    world = World(
        latency=serving.latency,
        exits=draw_exits(serving.exit_rates, count, rng).tolist(),
        exit_rates=serving.exit_rates,
    )
    ends = np.sort(simulate([Request(i, 0, SLO) for i in range(count)], policy, world).end_ns)
    return float(count * 0.8 / (ends[int(count * 0.9)] - ends[int(count * 0.1)]) * 1e9)


@pytest.mark.parametrize(
    "name", ["fluid", "fluid:drain=1", "optimal", "credit", "guarded", "serial", "adaptive:timeout=5ms"]
)
def test_the_predicted_capacity_is_what_an_endless_queue_gets(name: str) -> None:
    policy = make_policy(name, STRONG.setting(60, SLO))
    assert served_of_an_endless_queue(policy, STRONG) == pytest.approx(predicted_capacity(STRONG, name, SLO), rel=0.03)


def latency_ns(done: Schedule) -> NDArray[np.int64]:
    return np.array([end - r.arrival_ns for end, r in zip(done.end_ns, done.requests, strict=True)])


def burst_then_calm(rate_per_s: float, seed: int) -> list[Request]:
    """Poisson arrivals and 120 more at once, at the moment of number 1,000 of 5,000."""
    calm = poisson(rate_per_s, 5000, slo_ns=SLO, rng=np.random.default_rng([3, seed]))
    at = calm[1000].arrival_ns
    times = sorted([r.arrival_ns for r in calm] + [at] * 120)
    return [Request(i, time, time + SLO) for i, time in enumerate(times)]


@pytest.mark.parametrize("name", ["fluid:drain=1", "optimal", "credit", "guarded", "staged:tau_b=2:drain=1"])
def test_after_a_burst_the_queue_is_worked_off(name: str) -> None:
    rate = 0.88 * predicted_capacity(STRONG, "fluid:drain=1", SLO)
    policy = make_policy(name, STRONG.setting(rate, SLO))
    stream = burst_then_calm(rate, seed=1)
    exits = draw_exits(STRONG.exit_rates, len(stream), np.random.default_rng(4)).tolist()
    world = World(latency=STRONG.latency, exits=exits, exit_rates=STRONG.exit_rates)
    done = simulate(stream, policy, world)
    latency = latency_ns(done)
    assert latency[-1000:].mean() < 1.5 * latency[:1000].mean()


def test_without_the_rule_the_burst_is_never_worked_off() -> None:
    stream = burst_then_calm(0.88 * 115, seed=1)
    exits = draw_exits(STRONG.exit_rates, len(stream), np.random.default_rng(4)).tolist()
    world = World(latency=STRONG.latency, exits=exits, exit_rates=STRONG.exit_rates)
    done = simulate(stream, make_policy("optimal:drain=0", STRONG.setting(0.88 * 115, SLO)), world)
    latency = latency_ns(done)
    assert latency[-1000:].mean() > 10 * latency[:1000].mean()


def test_a_process_too_large_to_solve_is_left_to_the_policy() -> None:
    deep = Serving(latency=LatencyTable(ns=tuple((100, 150) * 4 for _ in range(30))), exit_rates=(0.0,) * 29 + (1.0,))
    assert solve_saturated(deep.latency, deep.exit_rates) is None
    plain, drained = (make_policy(name, deep.setting(1000, 10**5)) for name in ("fluid", "fluid:drain=1"))
    stream = [Request(i, 0, 10**5) for i in range(60)]
    world = World(latency=deep.latency, exits=[29] * 60, exit_rates=deep.exit_rates)
    assert simulate(stream, plain, world).end_ns == simulate(stream, drained, world).end_ns


def test_the_rule_is_solved_for_a_setting() -> None:
    with pytest.raises(SchedulerError, match="needs both"):
        make_policy("greedy:drain=1")


@pytest.mark.parametrize("name", ["optimal", "credit", "guarded"])
def test_more_samples_past_the_queue_than_a_table_knows_run_on(name: str) -> None:
    policy = make_policy(f"{name}:drain=0", STRONG.setting(10.0, 400 * MS))
    policy.reset()
    past = [Request(id, id, 400 * MS + id) for id in range(9)]  # the table has eight slots
    view = View(9, [[Request(9, 9, 400 * MS + 9)], past], STRONG.latency, STRONG.exit_rates, 8, slots=12)
    action = policy.decide(view)
    assert isinstance(action, Run)
    assert (action.stage, action.requests) == (1, tuple(past[:8]))
