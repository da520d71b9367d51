"""The exit rule: softmax top-1 above a threshold. One definition for training, golden model, simulator and host; NumPy only.

>>> confidence(np.array([[0.0, 0.0], [np.log(3.0), 0.0]])).round(2)
array([0.5 , 0.75])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]

THRESHOLD_GRID = (*(i / 100 for i in range(10, 100)), 0.995, 0.999)


def confidence(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Softmax top-1 of logits (..., classes), in float64: shape (...,). A value above an exit's threshold leaves there."""
    values = np.asarray(logits, np.float64)
    return np.asarray(1.0 / np.exp(values - values.max(axis=-1, keepdims=True)).sum(axis=-1))


def decide_exits(confidences: Sequence[npt.NDArray[np.float64]], thresholds: Sequence[float]) -> npt.NDArray[np.int64]:
    """The exit each sample leaves at: the first whose confidence exceeds its threshold, else the last.

    `confidences` holds one array (N,) per exit; the last exit's threshold is not looked at.

    >>> decide_exits([np.array([0.9, 0.2]), np.array([0.5, 0.5])], [0.8, 0.0])
    array([0, 1])
    """
    if len(confidences) != len(thresholds):
        raise ValueError(f"each of {len(confidences)} exits needs a threshold, and {len(thresholds)} came")
    chosen = np.full(np.shape(confidences[-1]), len(confidences) - 1, np.int64)
    for index in range(len(confidences) - 2, -1, -1):
        chosen[confidences[index] > thresholds[index]] = index
    return chosen


def early_exit_predictions(
    logits: Sequence[Floats], thresholds: Sequence[float]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """(exit, class, confidence) of each sample, from the logits (N, classes) of every exit."""
    confidences = [confidence(one) for one in logits]
    exits = decide_exits(confidences, thresholds)
    samples = np.arange(len(exits))
    classes = np.stack([np.argmax(one, axis=-1) for one in logits])
    return exits, classes[exits, samples], np.stack(confidences)[exits, samples]


@dataclass(frozen=True, kw_only=True)
class ExitChoice:
    """A uniform threshold and what it does on the split it was chosen on; accuracies and rates are shares of 1."""

    threshold: float
    rates: tuple[float, ...]
    accuracies: tuple[float, ...]  # of each exit, on every sample
    accuracy: float  # with early exits
    expected_macs: float


def choose_threshold(
    logits: Sequence[Floats], labels: npt.NDArray[np.int64], stage_macs: Sequence[int], tolerance_points: float = 0.5
) -> ExitChoice:
    """The uniform threshold with the fewest expected MACs whose accuracy stays within the tolerance of the last exit's.

    `stage_macs` are the MACs of each stage, head included; a sample that leaves at exit e has paid stages 0..e.
    When no threshold of the grid is good enough, 1.0 is chosen: no sample leaves early. Give held-out data, never the test split.
    """
    if not len(labels):
        raise ValueError("choosing a threshold needs at least one labelled sample, and none came")
    confidences = [confidence(one) for one in logits]
    correct = np.stack([np.argmax(one, axis=-1) == labels for one in logits])
    paid = np.cumsum(stage_macs)
    samples = np.arange(len(labels))
    best: ExitChoice | None = None
    for threshold in (1.0, *reversed(THRESHOLD_GRID)):
        exits = decide_exits(confidences, [threshold] * len(logits))
        choice = ExitChoice(
            threshold=threshold,
            rates=tuple(float(np.mean(exits == index)) for index in range(len(logits))),
            accuracies=tuple(float(row.mean()) for row in correct),
            accuracy=float(correct[exits, samples].mean()),
            expected_macs=float(paid[exits].mean()),
        )
        good = choice.accuracy >= choice.accuracies[-1] - tolerance_points / 100
        if best is None or (good and choice.expected_macs < best.expected_macs):
            best = choice
    assert best is not None
    return best
