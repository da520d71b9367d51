"""Classes by their names: an answer's `class_name`, and Triton's classification extension.

>>> classify(np.array([[0.5, 2.0, 1.0]], np.float32), 2, ("ant", "bee", "cat")).tolist()
[['2.000000:1:bee', '1.000000:2:cat']]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ProtocolError
from .parameters import abbreviate
from .tensors import Array

CLASS_NAME = "class_name"  # the output beside `label`
CLASSIFIED = "logits"  # the output that may be asked for as its best classes
_PARAMETER = "classification"


def names_of(labels: Sequence[int] | Array, class_names: Sequence[str]) -> Array:
    """Return the names of classes, texts (N,); "" for a number that has none."""
    names = [class_names[label] if 0 <= label < len(class_names) else "" for label in labels]
    return np.array([*names, None], np.object_)[:-1]  # whose length no NumPy guesses at


def read_classification(output: str, parameters: Mapping[str, Any]) -> int | None:
    """Return how many classes are asked for instead of an output's numbers; None where they are not.

    Raises ProtocolError for another output than the logits.
    """
    if _PARAMETER not in parameters:
        return None
    count = parameters[_PARAMETER]
    if output != CLASSIFIED:
        raise ProtocolError(f"the {_PARAMETER} must be of the output '{CLASSIFIED}', not of '{output:.60}'")
    if type(count) is not int or count < 1:
        raise ProtocolError(f"the {_PARAMETER} must be a number of classes from 1, not {abbreviate(count)}")
    return count


def classify(logits: Array, count: int, class_names: Sequence[str]) -> Array:
    """Return the best classes of each row as Triton writes them, "logit:number:name" (N, count), best first.

    The name and its colon are left out where it is not known; a network of fewer classes gives them all.
    """
    order = np.argsort(-logits, axis=1, kind="stable")[:, :count]
    texts = np.empty(order.shape, np.object_)
    for (row, place), which in np.ndenumerate(order):
        number = int(which)
        name = f":{class_names[number]}" if number < len(class_names) else ""
        texts[row, place] = f"{logits[row, number]:f}:{number}{name}"
    return texts
