"""Two guards refuse a network that int16 or int8 changes too much, before anything is built.

`guarded` compares integers with float on any images and equalises channels where that helps, and at 8 bits
corrects biases; `accuracy_guard` compares accuracies on labelled ones. `fitting_bits` is the width that a
network may have.
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
from ..graph.network import INT8_RECORD, INT16_RECORD, Network
from . import golden
from .comparison import NumericComparison, compare, named, sample
from .corrections import choose_corrections
from .equalisation import choose_equalisation
from .float_reference import Images, Progress, examine, run_float
from .integers import QuantisedNetwork
from .quantise import quantise
from .words import INT8

TOLERANCE_POINTS = 0.5
MOST_ERROR = 0.02  # of the spread, rms; networks that int16 fits are at 0.00003 to 0.001 (ADR 65)
MOST_ERROR_INT8 = 0.15  # of classes; networks that int8 fits are at 0.01 to 0.1 (docs/explanation/int8.md)
LEAST_SAME_INT8 = 0.9  # share of images that keep their class, at the worst exit
RECORDS = {16: INT16_RECORD, 8: INT8_RECORD}


class DeviationError(NetworkError):
    """The stored values differ from float's by more than what is allowed; `comparison` holds both."""

    def __init__(self, message: str, comparison: NumericComparison) -> None:
        super().__init__(message)
        self.comparison = comparison


class AccuracyError(NetworkError):
    """The quantised accuracy with early exits is more than the tolerance below float; `report` holds both."""

    def __init__(self, message: str, report: GuardReport) -> None:
        super().__init__(message)
        self.report = report


@dataclass(frozen=True, kw_only=True)
class GuardReport:
    """Float and int16 accuracy with early exits (shares of 1) on the same images, and their differences.

    At 8 bits int8's stands in place of int16's.

    The accuracy of exits that give maps is their mean score (`models.exits.scores`).
    """

    images: int
    float_accuracy: float
    stored_accuracy: float
    tolerance_points: float
    same_exit: float  # share of images that leave at the same exit
    same_class: float  # share of equal classes; of maps, of pixels with one label or landmarks at one pixel
    exit_rates: tuple[float, ...]  # int16
    saturations: int

    @property
    def loss_points(self) -> float:
        """Percentage points of accuracy lost by quantisation; negative when int16 did better."""
        return 100 * (self.float_accuracy - self.stored_accuracy)


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """A network that int16 or int8 fits, with its equalisation, its integers and the comparison with float.

    `before` is the error without the equalisation that was chosen now: infinite where the network could not
    be quantised, None where none was needed.
    """

    network: Network
    qnet: QuantisedNetwork
    comparison: NumericComparison
    before: float | None = None


def guard_network(
    network: Network,
    images: Images,
    most_error: float | None = None,
    progress: Progress | None = None,
    *,
    bits: int = 16,
) -> Guarded:
    """Compare int16 or int8 with float on a sample of images, and equalise channels where too much is lost.

    Images are (N, ...), as `Network.intake` takes them. A network without ranges gets those of the images,
    and at 8 bits corrections where it has none. Where the error of an exit or output is above `most_error` of
    its spread (0.02; at 8 bits 0.15 of classes), channels are equalised and compared again; the better of the
    two is kept. At 8 bits nine images of ten must keep their class, too, unless `most_error` is given. The
    network's metadata then say how near it came. Raises DeviationError where it is not near enough,
    NetworkError, and QuantisationError where the words take it in neither form.
    """
    least_same = 0.0
    if most_error is None:
        classes = bits == INT8.bits and network.classes > 0
        most_error, least_same = (MOST_ERROR_INT8, LEAST_SAME_INT8) if classes else (MOST_ERROR, 0.0)
    if not 0 <= most_error < np.inf:
        raise NetworkError(
            f"the error that int{bits} may make must be a share of the spread of at least 0, not {most_error}"
        )
    if not network.calibration:
        network = network.recalibrated(examine(network, images, progress=progress).ranges)
    few = sample(network, images)
    refused: QuantisationError | None = None
    first: Guarded | None = None
    try:
        first = _compared(network, few, progress, bits)
    except QuantisationError as error:
        refused = error
    if bits != 16 and not network.corrections and not network.grids:
        third = _correction(network, images, few, progress)
        if third is not None and (first is None or third.comparison.error < first.comparison.error):
            first = third
    best = first
    if first is None or not first.comparison.error <= most_error:
        second = _equalised(network, images, few, progress, bits)
        if second is not None and (first is None or second.comparison.error < first.comparison.error):
            best = replace(second, before=float("inf") if first is None else first.comparison.error)
    if best is None:
        assert refused is not None
        raise refused
    if not best.comparison.error <= most_error:
        raise DeviationError(_too_far(best, most_error), best.comparison)
    if best.comparison.same_class < least_same:
        raise DeviationError(
            f"int{bits} must name float's class on at least {100 * least_same:g} % of images, and '{network.name}' does on "
            f"{100 * best.comparison.same_class:.3g} % of {best.comparison.images}",
            best.comparison,
        )
    record = f"{best.comparison.text}; {best.comparison.images} images"
    return replace(best, network=replace(best.network, metadata={**best.network.metadata, RECORDS[bits]: record}))


def fitting_bits(network: Network) -> int:
    """Return the narrowest words that a network may have: 8 where its file says that the guard took it."""
    return 8 if INT8_RECORD in network.metadata else 16


def _corrected(network: Network, images: Images) -> Network:
    """Return the network with its biases corrected for 8 bits; as it is where these do not take it."""
    try:
        plain = quantise(replace(network, corrections={}), bits=INT8.bits)
        return replace(network, corrections=choose_corrections(plain, images))
    except QuantisationError:
        return network


def _correction(network: Network, images: Images, few: Images, progress: Progress | None) -> Guarded | None:
    """Return the network with its biases corrected for 8 bits; None where these do not take it."""
    corrected = _corrected(network, images)
    return None if corrected is network else _compared(corrected, few, progress, 8)


def _compared(network: Network, images: Images, progress: Progress | None, bits: int) -> Guarded:
    qnet = quantise(network, bits=bits)
    return Guarded(network=network, qnet=qnet, comparison=compare(network, qnet, images, progress))


def _equalised(network: Network, images: Images, few: Images, progress: Progress | None, bits: int) -> Guarded | None:
    """Return the network with its channels equalised on all images; None where that changes nothing, or the
    words do not take it.
    """
    chosen = choose_equalisation(network, examine(network, images, progress=progress).sizes)
    if chosen == network.equalisation:
        return None
    network = replace(network, equalisation=chosen)
    network = network if bits == 16 or network.grids else _corrected(network, images)
    try:
        return _compared(network, few, progress, bits)
    except QuantisationError:
        return None


def _too_far(guard: Guarded, most_error: float) -> str:
    answer, comparison = guard.comparison.worst, guard.comparison
    saturated = f", and {comparison.saturations} values saturated" if comparison.saturations else ""
    return (
        f"int{guard.qnet.bits} must stay within {most_error:g} of the spread of float's values, and '{guard.network.name}' is off by "
        f"{comparison.error:.2g} at '{answer.name}' on {comparison.images} images: {comparison.worst_layer.text}{saturated}"
    )


def accuracy_guard(
    network: Network,
    qnet: QuantisedNetwork,
    images: Images,
    labels: npt.NDArray[Any],
    tolerance_points: float = TOLERANCE_POINTS,
    progress: Progress | None = None,
) -> GuardReport:
    """Compare integers with float on labelled images (N, ...), and raise AccuracyError when they lose too
    much.

    That is more than `tolerance_points` points. `labels` are truths as `check_labels` takes them; `progress`
    goes over the images in float, then in integers. Raises NetworkError for labels that do not fit the exits.
    """
    if len(images) != len(labels) or not len(labels):
        raise NetworkError(f"the accuracy guard needs images and as many labels, not {len(images)} and {len(labels)}")
    if not tolerance_points >= 0:
        raise NetworkError(f"the guard's tolerance must be a number of points of at least 0, not {tolerance_points}")
    check_labels(network, labels)
    float_exits, float_answers, float_scores = _judged(network, run_float(network, images, progress), labels)
    stored, saturated = golden.run_counting(qnet, images, progress)
    real = [qnet.logits(index, words) for index, words in enumerate(stored)]
    exits, answers, picks = _judged(network, real, labels)
    report = GuardReport(
        images=len(labels),
        float_accuracy=float(float_scores.mean()),
        stored_accuracy=float(picks.mean()),
        tolerance_points=tolerance_points,
        same_exit=float(np.mean(exits == float_exits)),
        same_class=float(np.mean(answers == float_answers)),
        exit_rates=tuple(float(np.mean(exits == index)) for index in range(len(network.exits))),
        saturations=sum(saturated.values()),
    )
    if report.loss_points > tolerance_points + 1e-9:
        raise AccuracyError(
            f"int{qnet.bits} accuracy with early exits must stay within {tolerance_points:g} points of float, and '{network.name}' has "
            f"{100 * report.stored_accuracy:.2f} % against {100 * report.float_accuracy:.2f} % on {len(labels)} images",
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
