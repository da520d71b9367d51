"""The exit rule and the choice of the threshold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fluidnpu.models.exits import decide_exits
from fluidnpu.models.exits.rule import confidence, early_exit_predictions
from fluidnpu.models.exits.selection import THRESHOLD_GRID, choose_threshold


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.floats(-50, 50)))
def test_confidence_is_softmax_top_1(logits: np.ndarray) -> None:  # type: ignore[type-arg]
    softmax = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(confidence(logits), softmax.max(axis=-1), rtol=1e-12)


def test_confidence_does_not_overflow() -> None:
    assert confidence([1e300, -1e300]) == 1.0
    assert confidence(np.array([32767, 32767], np.int16)) == 0.5


def test_a_sample_leaves_at_the_first_exit_above_its_threshold() -> None:
    confidences = [np.array([0.9, 0.8, 0.1, 0.1]), np.array([0.99, 0.99, 0.7, 0.1]), np.array([0.1, 0.1, 0.1, 0.1])]
    assert decide_exits(confidences, [0.8, 0.6, 0.99]).tolist() == [0, 1, 1, 2]  # 0.8 is not above 0.8
    with pytest.raises(ValueError, match="each of 3 exits but the last needs a threshold, and 1 came"):
        decide_exits(confidences, [0.8])
    assert decide_exits(confidences, [0.8, 0.6]).tolist() == [0, 1, 1, 2]  # the last exit needs none


def made_up(seed: int, samples: int = 400) -> tuple[list[np.ndarray], np.ndarray]:  # type: ignore[type-arg]
    """Three exits, each better than the one before it."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, samples)
    clean = 3.0 * np.eye(4)[labels]
    return [clean + rng.normal(0, noise, clean.shape) for noise in (3.0, 2.0, 1.0)], labels


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100), st.sampled_from([0.0, 0.5, 2.0, 10.0]))
def test_the_chosen_threshold_is_the_cheapest_good_one(seed: int, tolerance: float) -> None:
    logits, labels = made_up(seed)
    macs = (10, 20, 40)
    choice = choose_threshold(logits, labels, macs, tolerance)
    floor = choice.accuracies[-1] - tolerance / 100
    assert choice.accuracy >= floor
    assert sum(choice.rates) == pytest.approx(1)
    for threshold in THRESHOLD_GRID:
        exits, classes, _ = early_exit_predictions(logits, [threshold] * 3)
        if np.mean(classes == labels) >= floor:
            assert np.cumsum(macs)[exits].mean() >= choice.expected_macs


def test_when_no_threshold_is_good_enough_nobody_leaves_early() -> None:
    labels = np.array([0, 1])
    wrong = np.array([[0.0, 99.0], [99.0, 0.0]])
    choice = choose_threshold([wrong, -wrong], labels, (1, 1))
    assert (choice.threshold, choice.rates, choice.accuracy) == (1.0, (0.0, 1.0), 1.0)
    with pytest.raises(ValueError, match="at least one labelled sample"):
        choose_threshold([wrong[:0]], labels[:0], (1,))
