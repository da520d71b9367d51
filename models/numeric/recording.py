"""Record the confidence and correctness of every image at every exit of a quantised network."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..exits.rule import sureness_of_exits, top_class
from ..images.image_set import ImageSet
from . import golden
from .quantise import QuantisedNetwork


def record_exits(qnet: QuantisedNetwork, images: ImageSet) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Run every image to the last exit in the golden model.

    Returns confidences (by the network's check, usually softmax top-1) and correctness (the top class is
    the label), both of shape (images, exits). Without labels nothing is correct.
    """
    confidences, classes = record_classes(qnet, images)
    labels = images.labels if images.labelled else np.full(len(images), -1)
    return confidences, classes == labels[:, None]


def record_classes(qnet: QuantisedNetwork, images: ImageSet) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Run every image to the last exit in the golden model.

    Returns confidences (by the network's check) and the class that each exit names, both (images, exits).
    """
    logits = [qnet.logits(index, stored) for index, stored in enumerate(golden.run(qnet, images.images))]
    confidences = np.stack(sureness_of_exits(logits, qnet.network.check), axis=1)
    return confidences, np.stack([top_class(one) for one in logits], axis=1)
