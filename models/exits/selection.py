"""Choose exit thresholds on held-out data: the fewest expected MACs within an accuracy tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..graph.checks import Check, ExitCheck
from .rule import Floats, decide_exits, sureness_of_exits
from .scores import scores

THRESHOLD_GRID = (*(i / 100 for i in range(10, 100)), 0.995, 0.999)


@dataclass(frozen=True, kw_only=True)
class ExitChoice:
    """A uniform threshold and its effect on the split it was chosen on (in-sample); accuracies and rates
    are shares of 1.
    """

    threshold: float
    rates: tuple[float, ...]
    accuracies: tuple[float, ...]  # of each exit, on every sample
    accuracy: float  # with early exits
    expected_macs: float


def choose_threshold(
    logits: Sequence[Floats],
    labels: npt.NDArray[Any],
    stage_macs: Sequence[int],
    tolerance_points: float = 0.5,
    check: Check = ExitCheck.TOP,
) -> ExitChoice:
    """Choose the uniform threshold of fewest expected MACs within the tolerance of the last exit's accuracy,
    of maps its mean score.

    Logits are (N, classes) per exit, of maps as `scores` takes them, and so are the truths in `labels`.
    `stage_macs` are the MACs of each stage, head included; a sample that leaves at exit e has paid stages
    0..e. When no threshold of the grid is good enough, 1.0 is chosen: no sample leaves early. Give held-out
    data, never the test split. Raises ValueError without labels.
    """
    if not len(labels):
        raise ValueError("choosing a threshold needs at least one labelled sample, and none came")
    confidences = sureness_of_exits(logits, check)
    correct = np.stack([scores(logit, labels, check) for logit in logits])
    paid = np.cumsum(stage_macs)
    samples = np.arange(len(labels))
    best: ExitChoice | None = None
    for threshold in (1.0, *reversed(THRESHOLD_GRID)):
        exits = decide_exits(confidences, [threshold] * (len(logits) - 1))
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
