"""The accuracy guard refuses a network whose int16 accuracy falls too far below float, before anything is
built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError
from ..graph.network import Network
from . import golden
from .float_reference import Images, early_exit_float
from .quantise import QuantisedNetwork

TOLERANCE_POINTS = 0.5


class AccuracyError(NetworkError):
    """The int16 accuracy with early exits is more than the tolerance below float; `report` holds both."""

    def __init__(self, message: str, report: GuardReport) -> None:
        super().__init__(message)
        self.report = report


@dataclass(frozen=True, kw_only=True)
class GuardReport:
    """Float and int16 accuracy with early exits (shares of 1) on the same images, and their differences."""

    images: int
    float_accuracy: float
    int16_accuracy: float
    tolerance_points: float
    same_exit: float  # share of images that leave at the same exit
    same_class: float
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
    labels: npt.NDArray[np.integer[Any]],
    tolerance_points: float = TOLERANCE_POINTS,
) -> GuardReport:
    """Compare int16 with float on labelled images; AccuracyError when int16 loses more than
    `tolerance_points` points.
    """
    if len(images) != len(labels) or not len(labels):
        raise NetworkError(f"the accuracy guard needs images and as many labels, not {len(images)} and {len(labels)}")
    if not tolerance_points >= 0:
        raise NetworkError(f"the guard's tolerance must be a number of points of at least 0, not {tolerance_points}")
    float_exits, float_classes, _ = early_exit_float(network, images)
    exits, classes, _, saturated = golden.early_exit_counting(qnet, images)
    report = GuardReport(
        images=len(labels),
        float_accuracy=float(np.mean(float_classes == labels)),
        int16_accuracy=float(np.mean(classes == labels)),
        tolerance_points=tolerance_points,
        same_exit=float(np.mean(exits == float_exits)),
        same_class=float(np.mean(classes == float_classes)),
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
