"""Fronts of thresholds, choices that must hold on unseen samples, and their bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import SchedulerError
from fluidnpu.scheduler.exits import ExitProfile, Recorded, choose, front_of, make_mode, parse_criterion
from fluidnpu.scheduler.exits.fronts import default_grid, first_exit_within, halves, oracle_exits, outcomes_of
from fluidnpu.scheduler.exits.rule import Threshold

TABLE = LatencyTable(ns=((100,), (80,), (120,)))
PROFILE = ExitProfile(latency=TABLE, macs=(5, 9, 20), energy_nj=(1.0, 2.5, 7.0))


def recorded(samples: int, seed: int, exits: int = 3) -> Recorded:
    """Draw samples whose later exits are surer, and right with about their confidence."""
    rng = np.random.default_rng(seed)
    sure = np.sort(rng.random((samples, exits)), axis=1)
    return Recorded(confidences=sure, correct=rng.random(sure.shape) < 0.3 + 0.7 * sure)


grids = st.lists(
    st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.9, 1.0]), min_size=1, max_size=4), min_size=2, max_size=2
)


@given(st.integers(1, 60), st.integers(0, 99), grids)
@settings(max_examples=50, deadline=None)
def test_cells_count_what_the_exit_rule_does(samples: int, seed: int, grid: list[list[float]]) -> None:
    data = recorded(samples, seed)
    found = outcomes_of(data, grid)
    combinations = list(itertools.product(*(sorted(set(axis)) for axis in grid)))
    assert found.thresholds.tolist() == [list(one) for one in combinations]
    right, last = np.asarray(data.correct), np.asarray(data.correct)[:, -1]
    for row, thresholds in enumerate(combinations):
        exits = Threshold(thresholds).exits(data.confidences)
        answered = right[np.arange(samples), exits]
        for exit in range(3):
            here = exits == exit
            assert found.leaves[row, exit] == here.sum()
            assert found.right[row, exit] == (answered & here).sum()
            assert found.both[row, exit] == (answered & here & last).sum()
    assert found.error == pytest.approx([1 - found.right[row].sum() / samples for row in range(len(combinations))])


@given(st.integers(2, 60), st.integers(0, 99), st.sampled_from(["latency", "energy", "macs"]))
@settings(max_examples=50, deadline=None)
def test_a_front_has_what_nothing_dominates_and_finds_it(samples: int, seed: int, cost: str) -> None:
    data = recorded(samples, seed)
    grid = default_grid(data, 5)
    front, all_of_them = front_of(data, PROFILE, cost=cost, grid=grid), outcomes_of(data, grid)
    costs = {"latency": (100, 180, 300), "energy": (1, 2.5, 7), "macs": (5, 9, 20)}[cost]
    pairs = sorted(zip(all_of_them.cost(costs).tolist(), all_of_them.error.tolist(), strict=True))
    for point in front.points:
        assert not any(c <= point.cost and e < point.error - 1e-12 for c, e in pairs)
        assert not any(c < point.cost - 1e-9 and e <= point.error for c, e in pairs)
    for error in (0.0, 0.2, 0.5, 1.0):
        found, best = front.cheapest(error=error), min((c for c, e in pairs if e <= error), default=None)
        assert (found is None) == (best is None)
        assert found is None or found.cost == pytest.approx(best)
    for budget in (0.5, 120, 1000):
        found, least = front.best(cost=budget), min((e for c, e in pairs if c <= budget), default=None)
        assert (found is None) == (least is None)
        assert found is None or found.error == pytest.approx(least)


def test_grids_and_costs_refuse_nonsense() -> None:
    data = recorded(10, 0)
    for grid in ([[0.5]], [[0.5], []], [[0.1] * 3, list(np.linspace(0, 1, 200_001))]):
        with pytest.raises(SchedulerError, match="a grid must have thresholds for 2 exits"):
            outcomes_of(data, grid)
    with pytest.raises(SchedulerError, match="a cost must be one of latency, energy, macs, not 'time'"):
        front_of(data, PROFILE, cost="time")
    with pytest.raises(SchedulerError, match="power model of the board"):
        front_of(data, ExitProfile(latency=TABLE), cost="energy")
    with pytest.raises(SchedulerError, match="and only one"):
        choose(data, PROFILE)
    with pytest.raises(SchedulerError, match="risk must lie above 0"):
        choose(data, PROFILE, accuracy=0.5, risk=1.5)


def test_an_infeasible_demand_serves_the_whole_network_and_says_so() -> None:
    for guarded in (False, True):
        found = choose(recorded(400, 1), PROFILE, accuracy=0.999, guarded=guarded)
        assert not found.feasible
        assert found.criterion.text == "false"
        assert found.said == "infeasible: the whole network"


def test_algorithm_1_and_the_oracle() -> None:
    assert first_exit_within([0.5, 0.8, 0.7], 0.75).text == "exit_number == 2"
    assert first_exit_within([0.5, 0.8, 0.7], 0.9).text == "exit_number == 3"
    data = Recorded(confidences=[[0.5] * 3] * 3, correct=[[0, 1, 1], [0, 0, 0], [1, 0, 1]])
    assert oracle_exits(data).tolist() == [1, 0, 0]


def test_a_guarded_choice_holds_on_unseen_samples_and_a_naive_one_often_does_not() -> None:
    """97 % of the last exit's accuracy asked on 600 samples of 40 populations, judged on 10,000 others."""
    missed = {False: 0, True: 0}
    for seed in range(40):
        whole = recorded(10_600, 100 + seed)
        sure, right = np.asarray(whole.confidences), np.asarray(whole.correct)
        few = Recorded(confidences=sure[:600], correct=right[:600])
        unseen = Recorded(confidences=sure[600:], correct=right[600:])
        for guarded in missed:
            found = choose(few, PROFILE, relative=0.97, guarded=guarded, seed=seed)
            limits = found.point.thresholds if found.point is not None else (1.0, 1.0)
            accuracy = unseen.accuracy_pct_at(unseen.exits([*limits, 0.0]), np.arange(unseen.samples))
            missed[guarded] += accuracy < 97 * unseen.accuracy[-1]
    assert missed[False] >= 10
    assert missed[True] <= 3


def test_a_target_accuracy_holds_where_the_budget_allows_it() -> None:
    data, never = recorded(4000, 7), parse_criterion("false")
    best = data.accuracy[-1]
    wanted = choose(data, PROFILE, cost="latency", accuracy=best - 0.1)
    assert wanted.point is not None
    mode = make_mode("pareto", PROFILE, never, data, accuracy=best - 0.1)
    free = make_mode("pareto", PROFILE, never, data)
    assert mode.feasible
    assert mode.criterion(10**6) == wanted.criterion != free.criterion(10**6)
    assert mode.criterion(wanted.point.cost) == wanted.criterion
    short = wanted.point.cost - 1
    assert mode.criterion(short) == free.criterion(short) != wanted.criterion
    limited = make_mode("pareto", PROFILE, parse_criterion("slack < 5ns"), data, accuracy=best - 0.1)
    assert limited.criterion(10**6).text == f"{wanted.criterion.text} or slack < 5ns"
    vain = make_mode("pareto", PROFILE, never, data, accuracy=best + 0.01)
    assert (vain.feasible, vain.criterion(10**6)) == (False, free.criterion(10**6))
    for accuracy, exit, feasible in ((0.0, 1, True), (data.accuracy[1], 2, True), (best, 3, True), (1.0, 3, False)):
        one = make_mode("per-workload", PROFILE, never, data, accuracy=accuracy)
        assert (one.criterion(10**6).text, one.feasible) == (f"exit_number == {exit}", feasible)
        assert one.criterion(1).text == "exit_number == 1"
    for name in ("pareto", "per-workload"):
        with pytest.raises(SchedulerError, match="a target accuracy must have recorded confidences"):
            make_mode(name, PROFILE, never, accuracy=0.9)


def test_halves_are_disjoint_and_whole() -> None:
    data = recorded(101, 3)
    first, second = halves(data, 5)
    joined = np.concatenate([np.asarray(first.confidences), np.asarray(second.confidences)])
    assert sorted(joined[:, 0].tolist()) == sorted(np.asarray(data.confidences)[:, 0].tolist())
