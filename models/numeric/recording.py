"""Record the confidence and correctness, or score, of every image at every exit of a quantised network."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..exits.rule import named_class, sureness_of_exits
from ..exits.scores import scores
from ..graph.checks import MapCheck
from ..images.image_set import ImageSet
from . import golden
from .float_reference import Progress
from .integers import QuantisedNetwork


def record_exits(
    qnet: QuantisedNetwork, images: ImageSet, progress: Progress | None = None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
    """Run every image to the last exit in the golden model.

    Returns confidences (by the network's check, usually softmax top-1) and correctness (the top class is
    the label; of maps the score of 0..1), both of shape (images, exits). Without labels nothing is correct.
    """
    if isinstance(qnet.network.check, MapCheck):
        confidences, right, _ = record_scores(qnet, images, progress)
        return confidences, right
    confidences, classes = record_classes(qnet, images, progress)
    labels = images.labels if images.labelled else np.full(len(images), -1)
    return confidences, classes == labels[:, None]


def record_scores(
    qnet: QuantisedNetwork, images: ImageSet, progress: Progress | None = None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Run every image to the last exit in the golden model.

    Returns confidences (by the network's check), scores of 0..1 (0 without labels) and the class that each
    exit names (-1 of maps), all (images, exits).
    """
    check = qnet.network.check
    logits = [qnet.logits(index, stored) for index, stored in enumerate(golden.run(qnet, images.images, progress))]
    confidences = np.stack(sureness_of_exits(logits, check), axis=1)
    none = np.zeros(len(images))
    judged = [scores(logit, images.labels, check) if images.labelled else none for logit in logits]
    return confidences, np.stack(judged, axis=1), np.stack([named_class(logit, check) for logit in logits], axis=1)


def record_classes(
    qnet: QuantisedNetwork, images: ImageSet, progress: Progress | None = None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Run every image to the last exit in the golden model.

    Returns confidences (by the network's check) and the class that each exit names, both (images, exits).
    """
    logits = [qnet.logits(index, stored) for index, stored in enumerate(golden.run(qnet, images.images, progress))]
    confidences = np.stack(sureness_of_exits(logits, qnet.network.check), axis=1)
    return confidences, np.stack([named_class(logit, qnet.network.check) for logit in logits], axis=1)
