"""Prepare a network of one's own: preprocessing, calibrated ranges, thresholds and rates, all at once.

>>> import numpy as np
>>> from fluidnpu.models.images import ImageSet, Preprocessing
>>> from fluidnpu.models.zoo import random_network
>>> bare = replace(random_network(1, exits=2), calibration={})
>>> pixels = np.random.default_rng(0).integers(0, 256, (16, *bare.tensors[bare.input]), np.uint8)
>>> record, images = Preprocessing(mean=(0.5,)), ImageSet(images=pixels)
>>> ready = prepare(bare, preprocessing=record, images=images, thresholds=[0.6])
>>> ready.thresholds, len(ready.calibration) == len(ready.tensors), round(sum(ready.workload.exit_rates), 6)
((0.6,), True, 1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from ..errors import DataError, NetworkError
from ..exits.labelling import Task, fit_labels
from ..exits.measuring import measure_exits, with_rates, with_thresholds
from ..exits.rule import Floats
from ..exits.selection import choose_threshold
from ..graph.network import Network
from ..images.image_set import ImageSet
from ..images.preprocessing import Preprocessing
from . import golden
from .float_reference import Progress, examine
from .integers import QuantisedNetwork


def prepare(
    network: Network,
    *,
    preprocessing: Preprocessing | None = None,
    images: ImageSet | None = None,
    thresholds: Sequence[float] | None = None,
    tolerance_points: float | None = None,
    rates: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> Network:
    """Return the network with what is given, and with what a float run over `images` measures.

    preprocessing: replaces the record; what was measured under another one is forgotten. images: calibrate
    the range of every tensor, and measure rates and, if they are labelled, accuracies. thresholds: one for
    every exit but the last. tolerance_points: choose one threshold for all of them instead, the cheapest that
    costs no more points of accuracy on `images` (in-sample). rates: instead of measured ones. Raises
    NetworkError and DataError.
    """
    if preprocessing is not None and preprocessing != network.preprocessing:
        exits = (replace(exit, rate=None, accuracy=None) for exit in network.exits)
        network = replace(network.recalibrated({}), preprocessing=preprocessing, exits=tuple(exits))
        _ = network.intake  # refuses numbers for another count of channels
    if thresholds is not None:
        network = with_thresholds(network, thresholds)
    if tolerance_points is not None:
        _check_tolerance(network, images, thresholds, tolerance_points)
    if images is not None:
        images = fit_labels(Task.of(network), images)
        examined = examine(network, images.images, progress=progress)
        network = network.recalibrated(examined.ranges)
        if tolerance_points is not None:
            network = with_chosen_threshold(network, examined.logits, images.labels, tolerance_points)
        network = measure_exits(network, examined.logits, images.labels if images.labelled else None)
    return network if rates is None else with_rates(network, rates)


def measure_in_words(
    network: Network, qnet: QuantisedNetwork, images: ImageSet, tolerance_points: float | None = None
) -> Network:
    """Return the network with rates, accuracies and, for a tolerance, thresholds of the answers in integers.

    At 8 bits an exit is a little surer or less sure than in floating point, so thresholds belong to its
    integers.
    """
    images = fit_labels(Task.of(network), images)
    logits = [qnet.logits(index, stored) for index, stored in enumerate(golden.run(qnet, images.images))]
    if tolerance_points is not None:
        network = with_chosen_threshold(network, logits, images.labels, tolerance_points)
    return measure_exits(network, logits, images.labels if images.labelled else None)


def with_chosen_threshold(
    network: Network,
    logits: Sequence[Floats],
    labels: npt.NDArray[Any],
    tolerance_points: float,
) -> Network:
    """Return the network with the threshold that `choose_threshold` finds on these logits and labels.

    Logits are (N, classes) per exit, labels (N,), or truths of maps, as `choose_threshold` takes them.
    """
    stages = range(len(network.exits))
    macs = [sum(network.layers[index].shape.macs for index in network.stage_layers(stage)) for stage in stages]
    choice = choose_threshold(logits, labels, macs, tolerance_points, network.check)
    return with_thresholds(network, [choice.threshold] * (len(network.exits) - 1))


def _check_tolerance(
    network: Network, images: ImageSet | None, thresholds: Sequence[float] | None, tolerance_points: float
) -> None:
    if thresholds is not None:
        raise NetworkError("thresholds are either given or chosen for a tolerance, and both were asked for")
    if images is None or not images.labelled:
        raise DataError("choosing thresholds for a tolerance needs labelled images, and none came")
    if not 0 <= tolerance_points <= 100:
        raise NetworkError(f"the tolerance must be 0..100 percentage points, not {tolerance_points}")
    if len(network.exits) == 1:
        raise NetworkError(f"'{network.name}' has one exit, so there is no threshold to choose")
