"""Two guards refuse a network that int16 changes too much, before anything is built.

`guarded` compares int16 with float on any images and equalises channels where that helps; `accuracy_guard`
compares accuracies on labelled ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError, QuantisationError
from ..exits.rule import Floats, decide_exits, sureness_of_exits
from ..exits.scores import check_labels, scores
from ..graph.network import INT16_RECORD, Network
from . import golden
from .comparison import Comparison, compare, named, sample
from .equalisation import chosen_equalisation
from .float_reference import Images, Progress, examine, run_float
from .integers import QuantisedNetwork
from .quantise import quantise

TOLERANCE_POINTS = 0.5
MOST_ERROR = 0.02  # of the spread, rms; networks that int16 fits are at 0.00003 to 0.001 (ADR 65)


class DeviationError(NetworkError):
    """The int16 values differ from float's by more than what is allowed; `comparison` holds both."""

    def __init__(self, message: str, comparison: Comparison) -> None:
        super().__init__(message)
        self.comparison = comparison


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


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """A network that int16 fits, with its equalisation, its integers and the comparison with float.

    `before` is the error without the equalisation that was chosen now: infinite where the network could not
    be quantised, None where none was needed.
    """

    network: Network
    qnet: QuantisedNetwork
    comparison: Comparison
    before: float | None = None


def guarded(
    network: Network, images: Images, most_error: float = MOST_ERROR, progress: Progress | None = None
) -> Guarded:
    """Compare int16 with float on a sample of images, and equalise channels where too much is lost.

    A network without ranges gets those of the images. Where the error of an exit or output is above
    `most_error` of its spread, channels are equalised and compared again; the better of the two is kept.
    The network's metadata then say how near int16 came. Raises DeviationError where it is not near enough,
    NetworkError, and QuantisationError where int16 takes it in neither form.
    """
    if not 0 <= most_error < np.inf:
        raise NetworkError(
            f"the error that int16 may make must be a share of the spread of at least 0, not {most_error}"
        )
    if not network.calibration:
        network = network.recalibrated(examine(network, images, progress=progress).ranges)
    some = sample(network, images)
    refused: QuantisationError | None = None
    first: Guarded | None = None
    try:
        first = _compared(network, some, progress)
    except QuantisationError as error:
        refused = error
    best = first
    if first is None or not first.comparison.error <= most_error:
        second = _equalised(network, images, some, progress)
        if second is not None and (first is None or second.comparison.error < first.comparison.error):
            best = replace(second, before=float("inf") if first is None else first.comparison.error)
    if best is None:
        assert refused is not None
        raise refused
    if not best.comparison.error <= most_error:
        raise DeviationError(_too_far(best, most_error), best.comparison)
    record = f"{best.comparison.text}; {best.comparison.images} images"
    return replace(best, network=replace(best.network, metadata={**best.network.metadata, INT16_RECORD: record}))


def _compared(network: Network, images: Images, progress: Progress | None) -> Guarded:
    qnet = quantise(network)
    return Guarded(network=network, qnet=qnet, comparison=compare(network, qnet, images, progress))


def _equalised(network: Network, images: Images, some: Images, progress: Progress | None) -> Guarded | None:
    """Return the network with its channels equalised on all images; None where that changes nothing, or int16
    does not take it.
    """
    chosen = chosen_equalisation(network, examine(network, images, progress=progress).sizes)
    if chosen == network.equalisation:
        return None
    try:
        return _compared(replace(network, equalisation=chosen), some, progress)
    except QuantisationError:
        return None


def _too_far(guard: Guarded, most_error: float) -> str:
    answer, comparison = guard.comparison.worst, guard.comparison
    saturated = f", and {comparison.saturations} values saturated" if comparison.saturations else ""
    return (
        f"int16 must stay within {most_error:g} of the spread of float's values, and '{guard.network.name}' is off by "
        f"{comparison.error:.2g} at '{answer.name}' on {comparison.images} images: {comparison.worst_layer.text}{saturated}"
    )


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
    return exits, named(left, check), scores(left, labels, check)
