"""Fit new exit heads on the features of a frozen backbone, by multinomial logistic regression.

The one file that needs SciPy. Deterministic: the split follows from the seed, the loss is convex, and L-BFGS
begins at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError, NetworkError, TrainingError
from ..exits.labelling import Task, fit_labels
from ..exits.measuring import measure_exits, with_thresholds
from ..exits.rule import early_exit_predictions
from ..graph.network import Layer, Network, Parameters
from ..graph.shapes import Kind
from ..images.image_set import ImageSet
from ..numeric.float_reference import Floats, Progress, examine
from ..numeric.preparation import with_chosen_threshold

HELD_OUT_SHARE = 0.25  # of the images: for thresholds, rates and accuracies, never fitted on
LEAST_OF_A_CLASS = 4  # images a class: one of them is held out
PENALTY = 1e-3  # on the squares of the weights of standardised features, beside the mean cross entropy
MOST_STEPS = 200

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class FittedHeads:
    """A network with fitted heads, and the accuracy of every exit on held-out images before and after.

    `network` has calibration from all images, and threshold, rates and accuracies from the held-out ones.
    `accuracy` is that with early exits there (in-sample for the threshold). All are shares of 1.
    """

    network: Network
    fitted: int  # images
    held_out: int
    before: tuple[float, ...]
    after: tuple[float, ...]
    accuracy: float


def fit_heads(
    network: Network,
    exits: Sequence[str],
    images: ImageSet,
    *,
    tolerance_points: float = 0.5,
    thresholds: Sequence[float] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> FittedHeads:
    """Fit the linear heads of the named exits on labelled images; everything else stays as it is.

    A quarter of the images is held out. `thresholds`: as given, else one is chosen there that costs at most
    `tolerance_points` of the last exit's accuracy. Raises NetworkError, DataError where the images cannot
    support it, TrainingError without SciPy.
    """
    minimise = _scipy()
    heads = {name: _head(network, name) for name in exits}
    if not heads:
        raise NetworkError("fitting needs the names of exits, and none came")
    images = fit_labels(Task.of(network), images)
    fit, held = _split(images, seed)
    features = tuple(head.input for head in heads.values())
    examined = examine(network, images.images, features, progress)
    before = _accuracies(examined.logits, images.labels, held)
    parameters, logits = dict(network.parameters), list(examined.logits)
    names = [exit.name for exit in network.exits]
    classes = network.tensors[network.exits[-1].classes][2]
    for name, head in heads.items():
        x = examined.features[head.input].astype(np.float64)
        weights, bias = _regression(minimise, x[fit], images.labels[fit], classes)
        parameters[head.name] = Parameters(weights=weights.astype(np.float32)[None], bias=bias.astype(np.float32))
        logits[names.index(name)] = (x @ weights + bias).astype(np.float32)
    calibration = dict(examined.ranges)
    for name in heads:
        tensor = network.exits[names.index(name)].classes
        calibration[tensor] = float(np.abs(logits[names.index(name)]).max())
    network = replace(network.recalibrated(calibration), parameters=parameters)
    kept = [logit[held] for logit in logits]
    if thresholds is None:
        network = with_chosen_threshold(network, kept, images.labels[held], tolerance_points)
    else:
        network = with_thresholds(network, thresholds)
    network = measure_exits(network, kept, images.labels[held])
    return FittedHeads(
        network=network,
        fitted=len(fit),
        held_out=len(held),
        before=before,
        after=_accuracies(logits, images.labels, held),
        accuracy=_early_accuracy(network, kept, images.labels[held]),
    )


def _scipy() -> Any:
    try:
        from scipy.optimize import minimize
    except ImportError:
        raise TrainingError("fitting heads needs SciPy, which is not installed: pip install 'fluidnpu[fit]'") from None
    return minimize


def _head(network: Network, name: str) -> Layer:
    """Return the one linear layer that writes an exit's logits. Raises NetworkError."""
    logits = {exit.name: exit.logits for exit in network.exits}
    if name not in logits:
        raise NetworkError(f"there is no exit '{name}' in '{network.name}'; it has {', '.join(logits)}")
    writers = [layer for layer in network.layers if layer.output == logits[name]]
    read = [layer for layer in network.layers if logits[name] in (layer.input, layer.residual)]
    head = writers[0]
    linear = len(writers) == 1 and not read and head.kind is Kind.GEMM and head.in_shape[:2] == (1, 1)
    linear = linear and head.groups == 1 and head.residual is None and head.activation is None
    if not linear or head.clip != (None, None):
        raise NetworkError(f"the head of exit '{name}' must end in one linear layer to be fitted, and it does not")
    return head


def _split(images: ImageSet, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the indices to fit on and those held out: a quarter of every class, by a seeded shuffle."""
    rng = np.random.default_rng(seed)
    fit, held = [], []
    seen, counts = np.unique(images.labels, return_counts=True)
    if len(seen) < 2 or counts.min() < LEAST_OF_A_CLASS:
        rare = f"class {seen[counts.argmin()]} has {counts.min()}" if len(seen) > 1 else f"all are of class {seen[0]}"
        raise DataError(
            f"fitting needs at least {LEAST_OF_A_CLASS} images of each of several classes, and of {images.source} {rare}"
        )
    for label in seen:
        order = rng.permutation(np.flatnonzero(images.labels == label))
        count = max(1, round(HELD_OUT_SHARE * len(order)))
        held.append(order[:count])
        fit.append(order[count:])
    return np.sort(np.concatenate(fit)), np.sort(np.concatenate(held))


def _regression(minimise: Any, x: Doubles, labels: npt.NDArray[np.int64], classes: int) -> tuple[Doubles, Doubles]:
    """Return weights (features, classes) and bias (classes,) of least penalised mean cross entropy.

    Features are standardised for the search, and the weights brought back to the features as they come.
    """
    mean, spread = x.mean(axis=0), x.std(axis=0)
    spread[spread < 1e-6 * max(1e-12, float(spread.max(initial=0.0)))] = (
        np.inf
    )  # a feature that never changes says nothing
    unit = (x - mean) / spread
    wanted = np.zeros((len(x), classes))
    wanted[np.arange(len(x)), labels] = 1

    def loss(flat: Doubles) -> tuple[float, Doubles]:
        weights, bias = flat[:-classes].reshape(-1, classes), flat[-classes:]
        scores = unit @ weights + bias
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        total = shares.sum(axis=1, keepdims=True)
        value = float(np.mean(np.log(total[:, 0]) - (scores * wanted).sum(axis=1)))
        wrong = (shares / total - wanted) / len(x)
        slope = unit.T @ wrong + PENALTY * weights
        return value + 0.5 * PENALTY * float((weights**2).sum()), np.concatenate([slope.ravel(), wrong.sum(axis=0)])

    start = np.zeros((x.shape[1] + 1) * classes)
    best = minimise(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS}).x
    weights = best[:-classes].reshape(-1, classes) / spread[:, None]
    return weights, best[-classes:] - mean @ weights


def _accuracies(
    logits: Sequence[Floats], labels: npt.NDArray[np.int64], which: npt.NDArray[np.int64]
) -> tuple[float, ...]:
    return tuple(float(np.mean(np.argmax(logit[which], axis=-1) == labels[which])) for logit in logits)


def _early_accuracy(network: Network, logits: Sequence[Floats], labels: npt.NDArray[np.int64]) -> float:
    _, classes, _ = early_exit_predictions(logits, network.thresholds, network.check)
    return float(np.mean(classes == labels))
