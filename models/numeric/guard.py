"""The accuracy guard refuses a network whose int16 accuracy falls too far below float, before anything is
built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError
from ..exits.rule import Floats, decide_exits, named_class, sureness_of_exits
from ..exits.scores import check_labels, scores
from ..graph.checks import MapCheck, MapTask
from ..graph.maps import keypoints, label_map
from ..graph.network import Network
from . import golden
from .float_reference import Images, run_float
from .quantise import QuantisedNetwork

TOLERANCE_POINTS = 0.5


class AccuracyError(NetworkError):
    """The int16 accuracy with early exits is more than the tolerance below float; `report` holds both."""

    def __init__(self, message: str, report: GuardReport) -> None:
        super().__init__(message)
        self.report = report


@dataclass(frozen=True, kw_only=True)
class GuardReport:
    """Float and int16 accuracy with early exits (shares of 1) on the same images, and their differences.

    The accuracy of exits that give maps is their mean score (`models.exits.scores`).
    """

    images: int
    float_accuracy: float
    int16_accuracy: float
    tolerance_points: float
    same_exit: float  # share of images that leave at the same exit
    same_class: float  # share of equal classes; of maps, of pixels with one label or landmarks at one pixel
    exit_rates: tuple[float, ...]  # int16
    saturations: int

    @property
    def loss_points(self) -> float:
        """Percentage points of accuracy lost by quantisation; negative when int16 did better."""
        return 100 * (self.float_accuracy - self.int16_accuracy)


def accuracy_guard(
    network: Network,
    qnet: QuantisedNetwork,
    images: Images,
    labels: npt.NDArray[Any],
    tolerance_points: float = TOLERANCE_POINTS,
) -> GuardReport:
    """Compare int16 with float on labelled images; AccuracyError when int16 loses more than
    `tolerance_points` points.

    Raises NetworkError for labels that do not fit the exits.
    """
    if len(images) != len(labels) or not len(labels):
        raise NetworkError(f"the accuracy guard needs images and as many labels, not {len(images)} and {len(labels)}")
    if not tolerance_points >= 0:
        raise NetworkError(f"the guard's tolerance must be a number of points of at least 0, not {tolerance_points}")
    check_labels(network, labels)
    float_exits, float_answers, float_scores = _judged(network, run_float(network, images), labels)
    stored, saturated = golden.run_counting(qnet, images)
    real = [qnet.logits(index, one) for index, one in enumerate(stored)]
    exits, answers, found = _judged(network, real, labels)
    report = GuardReport(
        images=len(labels),
        float_accuracy=float(float_scores.mean()),
        int16_accuracy=float(found.mean()),
        tolerance_points=tolerance_points,
        same_exit=float(np.mean(exits == float_exits)),
        same_class=float(np.mean(answers == float_answers)),
        exit_rates=tuple(float(np.mean(exits == index)) for index in range(len(network.exits))),
        saturations=sum(saturated.values()),
    )
    if report.loss_points > tolerance_points + 1e-9:
        raise AccuracyError(
            f"int16 accuracy with early exits must stay within {tolerance_points:g} points of float, and '{network.name}' has "
            f"{100 * report.int16_accuracy:.2f} % against {100 * report.float_accuracy:.2f} % on {len(labels)} images",
            report,
        )
    return report


def _judged(
    network: Network, logits: Sequence[Floats], labels: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Return exit (N,), answer (N, parts) and score (N,) of every image under the network's thresholds."""
    check = network.check
    exits = decide_exits(sureness_of_exits(logits, check), network.thresholds)
    left = np.stack(logits)[exits, np.arange(len(exits))]
    if not isinstance(check, MapCheck):
        answers: npt.NDArray[Any] = named_class(left, check)[:, None]
    elif check.task is MapTask.LANDMARKS:
        answers = keypoints(left, check)[..., :2].reshape(len(left), -1)
    else:
        answers = label_map(left, check).reshape(len(left), -1)
    return exits, answers, scores(left, labels, check)
