"""Exits that give maps: principal values, keypoints and label maps of their values. NumPy only.

The rule "leave if more than a share of the principal values exceed the confidence" is a comparison of one
number: the k-th largest principal value, where k is the least count that suffices. So dense exits have a
sureness of 0..1 as classifiers do, and thresholds, criteria, selection and simulator need nothing new.

>>> check = MapCheck(task=MapTask.LANDMARKS, shape=(1, 4, 1), top=4, count=0.5)
>>> values = np.log([[0.9 / 0.1, 0.8 / 0.2, 0.7 / 0.3, 0.1 / 0.9]])
>>> principal_values(values, check).round(2), check.needed, map_sureness(values, check).round(2)
(array([[0.9, 0.8, 0.7, 0.1]]), 3, array([0.7]))
"""

from __future__ import annotations

from typing import Any  # noqa: F401 -- in a string

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError
from .checks import MapCheck, MapTask

Floats = npt.NDArray["np.floating[Any]"]


def maps_of(values: npt.ArrayLike, check: MapCheck) -> Floats:
    """View an exit's values (N, height * width * channels) as maps (N, height, width, channels).

    Raises NetworkError for values of another number.
    """
    scores = np.asarray(values)
    if scores.ndim != 2 or scores.shape[1] != np.prod(check.shape):
        raise NetworkError(f"maps of {check.shape} must come as (N, {np.prod(check.shape)}) values, not {scores.shape}")
    return scores.reshape(len(scores), *check.shape)


def principal_values(values: npt.ArrayLike, check: MapCheck) -> npt.NDArray[np.float64]:
    """Return the principal values (N, check.values) of an exit's values (N, height * width * channels).

    Those of a heat map descend; those of a segmentation stand in the order of its pixels.
    """
    maps = maps_of(values, check)
    count, height, width, channels = maps.shape
    if check.task is MapTask.LANDMARKS:
        flat = np.ascontiguousarray(maps.reshape(count, height * width, channels).transpose(0, 2, 1))
        kth = flat.shape[2] - check.top
        highest = np.sort(np.partition(flat, kth, axis=2)[..., kth:], axis=2)[..., ::-1].astype(np.float64)
        return _sigmoid(highest).reshape(count, check.values)
    kept = np.ascontiguousarray(maps[:, :: check.every, :: check.every]).reshape(count, check.values, channels)
    highest = kept.max(axis=2, keepdims=True)
    return np.asarray(1.0 / np.exp(kept - highest).sum(axis=2), np.float64)


def _sigmoid(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return 1 / (1 + exp(-x)) without an overflow for any x."""
    small = np.exp(-np.abs(values))
    return np.asarray(np.where(values >= 0, 1.0, small) / (1.0 + small))


def map_sureness(values: npt.ArrayLike, check: MapCheck) -> npt.NDArray[np.float64]:
    """Return the number of 0..1 (N,) that an exit's threshold is compared with, from its values.

    It is the principal value that `check.needed` of them reach: above the threshold exactly if more than the
    share `check.count` of the principal values are.
    """
    principal = principal_values(values, check)
    if not len(principal):
        return np.zeros(0)
    kth = check.values - check.needed
    return np.asarray(np.partition(principal, kth, axis=1)[:, kth])


def keypoints(values: npt.ArrayLike, check: MapCheck) -> npt.NDArray[np.float32]:
    """Return each landmark (N, landmarks, 3) of an exit's values: row, column and confidence.

    Row and column are shares of the map's height and width, at the middle of its pixel, so they hold for the
    image at any size. Raises NetworkError for a segmentation.
    """
    if check.task is not MapTask.LANDMARKS:
        raise NetworkError(f"keypoints are the answer of heat maps, and these maps are a {check.task.value}")
    maps = maps_of(values, check)
    count, height, width, channels = maps.shape
    flat = maps.reshape(count, height * width, channels)
    best = flat.argmax(axis=1)
    highest = np.take_along_axis(flat, best[:, None], 1)[:, 0].astype(np.float64)
    rows, columns = (best // width + 0.5) / height, (best % width + 0.5) / width
    return np.asarray(np.stack([rows, columns, _sigmoid(highest)], axis=-1), np.float32)


def label_map(values: npt.ArrayLike, check: MapCheck) -> npt.NDArray[np.uint8]:
    """Return the label (N, height, width) of every pixel of an exit's values, the first where several are
    equal. Raises NetworkError for heat maps.
    """
    if check.task is not MapTask.SEGMENTATION:
        raise NetworkError(f"a label map is the answer of a segmentation, and these maps are {check.task.value}")
    return np.asarray(maps_of(values, check).argmax(axis=3), np.uint8)
