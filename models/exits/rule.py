"""The exit rule: a sample leaves at the first exit whose check exceeds the threshold. NumPy only.

Training, golden model, simulator and runtime all call the comparison in this file.

>>> confidence(np.array([[0.0, 0.0], [np.log(3.0), 0.0]])).round(2)
array([0.5 , 0.75])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..graph.checks import Check, ExitCheck, MapCheck
from ..graph.maps import Floats as Floats
from ..graph.maps import map_sureness


def confidence(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the softmax top-1 of logits (..., classes) in float64: shape (...,). Without classes it is 1."""
    values = np.asarray(logits, np.float64)
    if values.shape[-1] == 0:
        return np.ones(values.shape[:-1])
    return np.asarray(1.0 / np.exp(values - values.max(axis=-1, keepdims=True)).sum(axis=-1))


def top_class(logits: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the class of the largest logit of (..., classes): shape (...,). Without classes it is -1."""
    values = np.asarray(logits)
    none = values.shape[-1] == 0
    return np.asarray(np.full(values.shape[:-1], -1) if none else np.argmax(values, axis=-1), np.int64)


def named_class(logits: npt.ArrayLike, check: Check) -> npt.NDArray[np.int64]:
    """Return the class (N,) that an exit's logits name; -1 where its answer is a map, or without classes."""
    if isinstance(check, MapCheck):
        return np.full(np.shape(logits)[:-1], -1, np.int64)
    return top_class(logits)


def stated_confidence(logits: npt.ArrayLike, check: Check) -> npt.NDArray[np.float64]:
    """Return the confidence (N,) that an answer states: the top probability, or of maps their sureness."""
    return map_sureness(logits, check) if isinstance(check, MapCheck) else confidence(logits)


def stated(logits: npt.ArrayLike, check: Check) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return (confidence, class) that answers with these logits (N, classes) state, each (N,)."""
    return stated_confidence(logits, check), named_class(logits, check)


def sureness(
    logits: npt.ArrayLike, check: Check, before: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.float64]:
    """Return what the threshold of an exit is compared with, (N,) in 0..1, from its logits (N, classes).

    `before` is the class (N,) that the exit before named; None at the first exit. Without classes it is 1. Of
    maps, as flat as they lie in memory, it is `map_sureness`.

    >>> some = np.log([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2]])
    >>> sureness(some, ExitCheck.MARGIN).round(3), sureness(some, ExitCheck.CERTAINTY).round(3)
    (array([0.5, 0. ]), array([0.27, 0.04]))
    >>> sureness(some, ExitCheck.AGREEMENT, np.array([0, 1])).round(3)
    array([0.7, 0. ])
    """
    if isinstance(check, MapCheck):
        return map_sureness(logits, check)
    top = confidence(logits)
    values = np.asarray(logits, np.float64)
    classes = values.shape[-1]
    if check is ExitCheck.TOP or classes == 0:
        return top
    if check is ExitCheck.AGREEMENT:
        return np.zeros_like(top) if before is None else np.asarray(np.where(top_class(values) == before, top, 0.0))
    if classes == 1:
        return np.ones_like(top)
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    shares = powers / powers.sum(axis=-1, keepdims=True)
    if check is ExitCheck.MARGIN:
        second = np.partition(shares, classes - 2, axis=-1)[..., classes - 2]
        return np.asarray(shares.max(axis=-1) - second)
    entropy = -np.sum(shares * np.log(np.maximum(shares, 1e-300)), axis=-1)
    return np.asarray(np.clip(1.0 - entropy / np.log(classes), 0.0, 1.0))


def sureness_of_exits(logits: Sequence[Floats], check: Check) -> list[npt.NDArray[np.float64]]:
    """Return `sureness` at every exit, from the logits (N, classes) of all of them in order."""
    before: list[npt.NDArray[np.int64] | None] = [None, *(named_class(logit, check) for logit in logits[:-1])]
    return [sureness(logit, check, classes) for logit, classes in zip(logits, before, strict=True)]


def exceeds_threshold(confidences: npt.ArrayLike, threshold: float) -> npt.NDArray[np.bool_]:
    """Return True where a confidence exceeds the threshold of its exit: the one comparison of the exit
    rule.

    The result has the shape of `confidences`.
    """
    return np.asarray(np.asarray(confidences, np.float64) > threshold)


def decide_exits(confidences: Sequence[npt.NDArray[np.float64]], thresholds: Sequence[float]) -> npt.NDArray[np.int64]:
    """Return the exit (N,) at which each sample leaves: the first confident one, else the last.

    `confidences` holds one array (N,) per exit. The last exit needs no threshold; one that is given is not
    used. Raises ValueError where an exit before the last has no threshold, or there are too many.

    >>> decide_exits([np.array([0.9, 0.2]), np.array([0.5, 0.5])], [0.8])
    array([0, 1])
    """
    if len(thresholds) not in (len(confidences) - 1, len(confidences)):
        raise ValueError(f"each of {len(confidences)} exits but the last needs a threshold, and {len(thresholds)} came")
    chosen = np.full(np.shape(confidences[-1]), len(confidences) - 1, np.int64)
    for index in range(len(confidences) - 2, -1, -1):
        chosen[exceeds_threshold(confidences[index], thresholds[index])] = index
    return chosen


def early_exit_predictions(
    logits: Sequence[Floats], thresholds: Sequence[float], check: Check = ExitCheck.TOP
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return (exit, class, confidence) of each sample, from the logits (N, classes) of every exit.

    The class is -1 where the answers are maps.
    """
    confidences = [stated_confidence(logit, check) for logit in logits]
    exits = decide_exits(sureness_of_exits(logits, check), thresholds)
    samples = np.arange(len(exits))
    classes = np.stack([named_class(logit, check) for logit in logits])
    return exits, classes[exits, samples], np.stack(confidences)[exits, samples]
