"""Evidence of bounded outcomes: the risk at the null, the outcomes needed, bounds at every moment."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fluidnpu.scheduler import SchedulerError
from fluidnpu.scheduler.exits.evidence import (
    STAKES,
    Kept,
    RunningMean,
    fixed_sequence,
    least_outcomes,
    proven_above,
    spread_of,
)

RISK = 0.05


def paired(
    rng: np.random.Generator, count: int, both: float, gained: float, lost: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Draw paired answers: both right, only ours, only theirs, none."""
    kind = rng.choice(4, size=count, p=[both, gained, lost, 1 - both - gained - lost])
    return kind <= 1, (kind == 0) | (kind == 2)


@pytest.mark.parametrize(
    ("share", "count", "accuracy", "gained"),
    [(0.99, 450, 0.97, 0.0), (0.995, 1000, 0.97, 0.0), (0.95, 320, 0.8, 0.02), (0.99, 1500, 0.9, 0.02)],
)
def test_at_the_null_no_more_pass_than_the_risk(share: float, count: int, accuracy: float, gained: float) -> None:
    """The first two rows are where a bound that assumed a normal distribution passed 6.4 and 6.1 %."""
    rng, kept = np.random.default_rng(3), Kept(share)
    both = share * accuracy - gained
    draws = 600
    passed = 0
    for _ in range(draws):
        before, seen = (
            kept.outcomes(*paired(rng, each, both, gained, accuracy - both)) for each in (count // 2, count)
        )
        spread = spread_of(before, kept.mean)
        passed += proven_above(seen, mean=kept.mean, risk=RISK, spread=spread, best=kept.best)
    assert passed <= RISK * draws + 3 * math.sqrt(RISK * draws)


def test_hardly_more_outcomes_are_needed_than_by_a_normal_test() -> None:
    """A normal test passes half of the time 1.645 standard errors above; a single e-value not one in five."""
    rng, mean, count = np.random.default_rng(1), 0.5, 2000
    truth = mean + 1.645 * 0.5 / math.sqrt(count)
    draws = [rng.random(count) < truth for _ in range(200)]
    assert np.mean([proven_above(seen, mean=mean, risk=RISK) for seen in draws]) > 0.42
    rate = math.sqrt(-2 * math.log(RISK) / count) / 0.5
    single = [np.log1p(rate * (seen - mean)).sum() > -math.log(RISK) for seen in draws]
    assert np.mean(single) < 0.25


@given(st.floats(0.8, 0.99), st.sampled_from([0.2, 0.05, 0.001]))
@settings(max_examples=25, deadline=None)
def test_the_least_number_of_outcomes_is_just_enough(mean: float, risk: float) -> None:
    least = least_outcomes(mean=mean, risk=risk)
    assert proven_above(np.ones(least), mean=mean, risk=risk, spread=1e-9)
    assert not proven_above(np.ones(least - 1), mean=mean, risk=risk, spread=1e-9)
    kept = Kept(mean)
    least = least_outcomes(mean=kept.mean, risk=risk, best=kept.best)
    same = kept.outcomes(np.ones(least), np.ones(least))
    assert proven_above(same, mean=kept.mean, risk=risk, spread=1e-9, best=kept.best)
    assert not proven_above(same[1:], mean=kept.mean, risk=risk, spread=1e-9, best=kept.best)


def test_a_running_bound_holds_at_every_moment_also_where_the_mean_drifts() -> None:
    """Of 300 runs with a mean that swings, few bounds ever lie above the average of the means so far."""
    rng, count = np.random.default_rng(5), 400
    means = 0.9 + 0.09 * np.sin(np.arange(count) / 60)
    average = np.cumsum(means) / np.arange(1, count + 1)
    broken = 0
    for _ in range(300):
        seen = rng.random(count) < means
        grown = np.cumsum(np.log1p(np.outer(seen, STAKES)), axis=0)
        wealth = np.exp(grown - np.arange(1, count + 1)[:, None] * np.log1p(np.outer(average, STAKES))).mean(axis=1)
        broken += bool((wealth >= 1 / RISK).any())  # exactly then the bound lies above the average
    assert broken <= 300 * RISK


@given(st.lists(st.floats(0, 1), max_size=30), st.lists(st.floats(0, 1), max_size=30))
@settings(deadline=None)
def test_evidence_adds_up_in_any_order(first: list[float], second: list[float]) -> None:
    apart = [RunningMean(), RunningMean()]
    for seen, outcomes in zip(apart, (first, second), strict=True):
        for outcome in outcomes:
            seen.update(outcome)
    whole = RunningMean()
    for outcome in reversed(first + second):
        whole.update(outcome)
    joined = apart[0] + apart[1]
    assert joined.count == whole.count
    assert joined.log_evidence(0.7) == pytest.approx(whole.log_evidence(0.7), abs=1e-9)
    bound = joined.below(0.1)
    assert bound == pytest.approx(whole.below(0.1), abs=1e-6)
    assert 0 <= bound <= 1
    if bound > 0:
        assert joined.log_evidence(bound) >= -math.log(0.1) > joined.log_evidence(bound + 1e-6)


def test_a_running_bound_comes_near_and_never_without_outcomes() -> None:
    seen = RunningMean()
    assert seen.below(RISK) == 0
    seen.update(1.0, times=9970)
    seen.update(0.0, times=30)
    assert 0.994 < seen.below(RISK) < 0.997


def test_scores_are_outcomes_and_right_and_wrong_their_ends() -> None:
    kept = Kept(0.8)
    ours, theirs = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert kept.outcomes(ours, theirs) == pytest.approx(kept.outcomes(ours.astype(float), theirs.astype(float)))
    assert kept.outcomes(ours, theirs) == pytest.approx([kept.best, 1, 0, kept.mean])


def test_a_sequence_ends_at_the_first_that_is_not_proven() -> None:
    asked: list[int] = []

    def proven(value: int) -> bool:
        asked.append(value)
        return value != 3

    assert fixed_sequence([1, 2, 3, 4], proven) == [1, 2]
    assert asked == [1, 2, 3]


def test_evidence_refuses_nonsense() -> None:
    for risk in (0.0, 1.0, math.nan):
        with pytest.raises(SchedulerError, match="a risk must lie above 0 and below 100 %"):
            RunningMean().below(risk)
    with pytest.raises(SchedulerError, match=r"an outcome must lie in 0\.\.1, not 1\.5"):
        RunningMean().update(1.5)
    with pytest.raises(SchedulerError, match="at least 0, not -1"):
        Kept(-1.0)
    assert not proven_above(np.ones(50), mean=1.0, risk=RISK)
    assert not proven_above(np.zeros(0), mean=0.5, risk=RISK)
