"""Turns on one device keep to planned weights, forget claims of the idle, and keep what was used too much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluidnpu.scheduler.errors import FleetError
from fluidnpu.scheduler.placement.turns import Turns

HALVES = {"a": 0.5, "b": 0.5}


def taken(turns: Turns, costs: dict[str, float], times: int) -> str:
    """Return the names that go next, as one text."""
    return "".join(turns.next(costs) or "-" for _ in range(times))


@given(st.lists(st.tuples(st.floats(0.05, 1), st.floats(0.1, 10)), min_size=1, max_size=4))
def test_where_all_wait_each_has_its_share_within_a_batch(kinds: list[tuple[float, float]]) -> None:
    names = [str(place) for place in range(len(kinds))]
    weights, costs = ({name: kind[at] for name, kind in zip(names, kinds, strict=True)} for at in (0, 1))
    turns, used = Turns(weights), dict.fromkeys(names, 0.0)
    for _ in range(400):
        chosen = turns.next(costs)
        assert chosen is not None
        used[chosen] += costs[chosen]
    whole, weight = sum(used.values()), sum(weights.values())
    for name in names:
        # Each is behind by less than a batch of its own, and ahead by what all others are behind.
        assert used[name] >= whole * weights[name] / weight - costs[name] - 1e-6
        assert turns.deficits[name] >= -1e-6


def test_a_network_without_work_keeps_no_claim() -> None:
    turns = Turns(HALVES)
    assert taken(turns, {"a": 1, "b": 10}, 9) == "a" * 9
    assert turns.deficits["b"] == pytest.approx(9)
    assert turns.next({"a": 1}) == "a"  # b has nothing to do now
    assert turns.deficits["b"] == 0
    assert taken(turns, {"a": 1, "b": 1}, 6) == "ababab"


def test_time_that_was_used_too_much_stays_on_the_account_of_the_idle() -> None:
    turns = Turns(HALVES)
    assert turns.next({"a": 1}) == "a"
    turns.settle("a", predicted=1, took=6)
    assert turns.deficits["a"] == pytest.approx(-5)
    assert turns.next({"b": 1}) == "b"  # a has nothing to do now
    assert taken(turns, {"a": 1, "b": 1}, 8) == "bbbbbaba"


def test_nobody_goes_where_nobody_waits() -> None:
    assert Turns(HALVES).next({}) is None


@pytest.mark.parametrize("weights", [{}, {"a": -0.1}, {"a": float("inf")}, {"a": float("nan")}])
def test_weights_that_are_no_shares_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(FleetError, match="turns need at least one network with a weight from 0"):
        Turns(weights)
