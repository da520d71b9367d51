"""Rules of one's own for ensembles, named in `COMBINERS`: exact, order-free, refused in one line."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from fluidnpu.scheduler.errors import FleetError
from fluidnpu.scheduler.placement import COMBINERS, EnsembleFacts, Rule

PARTS = {"a": [[8, 0, 4]], "b": [[0, 12, 0]], "c": [[1, 0, 1]]}  # in quarters, eighths, ones


def surest(logits: Any, seen: Any, weights: Any) -> Any:
    """Take the logits of the network that is surest of its first class; of equals the first."""
    best = np.where(seen, weights * (logits.max(axis=2) - np.partition(logits, -2, axis=2)[..., -2]), -np.inf)
    return logits[np.arange(len(logits)), best.argmax(axis=1)]


def broken(logits: Any, seen: Any, weights: Any) -> Any:
    raise KeyError("no such class")


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {
        "surest": surest,
        "broken": broken,
        "narrow": lambda logits, seen, weights: logits.sum(axis=1)[:, 1:],
        "endless": lambda logits, seen, weights: np.full((logits.shape[0], logits.shape[2]), np.nan),
    }
    for name, rule in rules.items():
        monkeypatch.setitem(COMBINERS, name, rule)


def rule(name: str, weights: tuple[int, ...] = ()) -> Rule:
    return EnsembleFacts(name="all", networks=("a", "b", "c"), rule=name, weights=weights).of_bits((2, 3, 0))


def test_a_rule_of_ones_own_sees_parts_in_real_units_whatever_their_order() -> None:
    for order in permutations(PARTS):
        tally = rule("surest").tally(samples=1, classes=3)
        for network in order:
            tally.add(network, 0, np.array(PARTS[network]))
        assert tally.whole
        assert tally.scores.tolist() == [[0.0, 1.5, 0.0]], "b is ahead by 12/8, a by 4/4, c by nothing"
        assert tally.labels.tolist() == [1]
        assert tally.total.tolist() == [[2 * 8 + 8, 12, 2 * 4 + 8]], "the sum stays what it is under any rule"


def test_it_takes_weights_and_answers_with_the_parts_that_came() -> None:
    tally = rule("surest", weights=(5, 1, 1)).tally(samples=2, classes=3)
    tally.add("b", 0, np.array(PARTS["b"] * 2))
    assert tally.scores.tolist() == [[0.0, 1.5, 0.0]] * 2
    tally.add("a", 1, np.array(PARTS["a"]))
    assert tally.scores.tolist() == [[0.0, 1.5, 0.0], [2.0, 0.0, 1.0]], "five times 1 is more than 1.5"
    tally.add("a", 1, np.array([[0, 99, 0]]))
    assert tally.labels.tolist() == [1, 0], "a part counts once"


def test_a_rule_that_nobody_named_is_refused_when_the_fleet_is_read() -> None:
    with pytest.raises(FleetError, match=r"a rule must be one of average, weighted, majority, surest, .*, not 'best'"):
        rule("best")


def test_a_rule_named_as_a_shipped_one_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rule("average").combiner is None
    monkeypatch.setitem(COMBINERS, "average", broken)
    with pytest.raises(FleetError, match="must have a name that is none of average, weighted, majority, not 'average'"):
        rule("average")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("narrow", r"'narrow' must give finite scores \(1, 3\), not an array \(1, 2\)"),
        (
            "endless",
            r"'endless' must give finite scores \(1, 3\), not some that are not finite",
        ),
        (
            "broken",
            r"'broken' must give scores \(1, 3\), and that failed: KeyError: 'no such class'",
        ),
    ],
)
def test_a_rule_that_gives_no_scores_is_one_sentence(name: str, said: str) -> None:
    tally = rule(name).tally(samples=1, classes=3)
    with pytest.raises(FleetError, match=said):
        assert tally.labels.size
