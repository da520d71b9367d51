"""Thresholds, rates and accuracies of a network's exits: given, or measured on images. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError
from ..graph.checks import Check, MapCheck
from ..graph.network import Network
from .rule import Floats, decide_exits, sureness_of_exits
from .scores import check_labels, scores

_SUM = 1e-3  # that shares may be off one


def with_thresholds(network: Network, thresholds: Sequence[float]) -> Network:
    """Return the network with these thresholds, one for every exit but the last.

    One for the last exit is accepted and not used. Rates are forgotten, since they follow from thresholds.
    Raises NetworkError.
    """
    early = len(network.exits) - 1
    if len(thresholds) not in (early, early + 1) or not all(0 <= threshold <= 1 for threshold in thresholds):
        raise NetworkError(
            f"'{network.name}' needs {early} thresholds of 0..1, one for every exit but the last, not {list(thresholds)}"
        )
    given = [*map(float, thresholds[:early]), None]
    rows = (
        replace(exit, threshold=threshold, rate=None, assumed=False)
        for exit, threshold in zip(network.exits, given, strict=True)
    )
    return replace(network, exits=tuple(rows))


def with_check(network: Network, check: Check) -> Network:
    """Return the network with another exit check; thresholds stay, and rates are forgotten.

    Raises NetworkError for a check of classes on exits that give maps, and the other way round.
    """
    shapes = {network.tensors[exit.classes] for exit in network.exits}
    maps = any(shape[0] * shape[1] > 1 for shape in shapes)
    if isinstance(check, MapCheck):
        if shapes != {check.shape}:
            raise NetworkError(f"the exits of '{network.name}' must give maps of {check.shape}, and they give {shapes}")
    elif maps or isinstance(network.check, MapCheck):
        raise NetworkError(f"the exits of '{network.name}' give maps, and '{check.value}' is a check of classes")
    return replace(network, check=check, exits=tuple(replace(exit, rate=None) for exit in network.exits))


def with_rates(network: Network, rates: Sequence[float]) -> Network:
    """Return the network with these shares of samples that leave at each exit. Raises NetworkError."""
    good = len(rates) == len(network.exits) and all(math.isfinite(rate) and rate >= 0 for rate in rates)
    if not good or abs(sum(rates) - 1) > _SUM:
        raise NetworkError(f"'{network.name}' needs {len(network.exits)} exit rates that sum to 1, not {list(rates)}")
    exits = (replace(exit, rate=float(rate)) for exit, rate in zip(network.exits, rates, strict=True))
    return replace(network, exits=tuple(exits))


def with_accuracies(network: Network, accuracies: Sequence[float]) -> Network:
    """Return the network with these accuracies of its exits, of maps mean scores. Raises NetworkError."""
    if len(accuracies) != len(network.exits) or not all(0 <= accuracy <= 1 for accuracy in accuracies):
        raise NetworkError(f"'{network.name}' needs {len(network.exits)} accuracies of 0..1, not {list(accuracies)}")
    pairs = zip(network.exits, accuracies, strict=True)
    return replace(network, exits=tuple(replace(exit, accuracy=float(share)) for exit, share in pairs))


def measure_exits(network: Network, logits: Sequence[Floats], labels: npt.NDArray[Any] | None = None) -> Network:
    """Return the network with the rates that its thresholds give on samples with these logits (N, classes).

    With labels every exit gets its accuracy on all of them, of maps its mean score. Raises NetworkError for
    labels that do not fit the exits.
    """
    exits = decide_exits(sureness_of_exits(logits, network.check), network.thresholds)
    rates = [float(np.mean(exits == index)) for index in range(len(logits))]
    rated = with_rates(network, rates)
    if labels is None:
        return rated
    check_labels(network, labels)
    return with_accuracies(rated, [float(np.mean(scores(logit, labels, network.check))) for logit in logits])
