"""Scores of an exit's answers against the truth: right or wrong, landmarks found, or intersection over union.

A score lies in 0..1 for each sample, so precision is their mean for every task.

>>> from fluidnpu.models.graph import ExitCheck
>>> scores(np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([1, 0]), ExitCheck.TOP)
array([1., 0.])
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError
from ..graph.checks import Check, MapCheck, MapTask
from ..graph.maps import keypoints, label_map

FOUND_WITHIN = 0.1  # of the image's height and width, from a landmark
UNJUDGED = -1  # the label of a pixel that counts for nothing


def scores(values: npt.ArrayLike, truths: npt.NDArray[Any], check: Check) -> npt.NDArray[np.float64]:
    """Return the score (N,) of an exit's values (N, n) against the truths of its task.

    Classes (N,): 1 where the largest logit is the class. Landmarks (N, landmarks, 2), rows and columns as
    shares, NaN where there is none: the share found within a tenth of the image's height and width.
    Segmentation (N, height, width): the mean over labels of intersection over union, for labels in the truth
    or the answer; a pixel of label -1 is not judged. Where nothing is judged the score is 1.
    """
    if not isinstance(check, MapCheck):
        return np.asarray(np.argmax(np.asarray(values), axis=-1) == truths, np.float64)
    if check.task is MapTask.LANDMARKS:
        return _found(keypoints(values, check)[..., :2], truths)
    return label_overlap(label_map(values, check), truths, check.shape[2])


def _found(answers: npt.NDArray[np.float32], truths: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    judged = np.isfinite(truths).all(axis=-1)
    near = (np.abs(answers - np.nan_to_num(truths, nan=9.0)) <= FOUND_WITHIN).all(axis=-1) & judged
    return np.where(judged.any(axis=1), near.sum(axis=1) / np.maximum(1, judged.sum(axis=1)), 1.0)


def label_overlap(answers: npt.NDArray[Any], truths: npt.NDArray[Any], labels: int) -> npt.NDArray[np.float64]:
    """Return the mean over labels of intersection over union (N,) of label maps (N, height, width).

    As for `scores`: of labels in either map, on pixels that are judged.
    """
    judged = truths != UNJUDGED
    total, seen = np.zeros(len(answers)), np.zeros(len(answers), np.int64)
    for label in range(labels):
        ours, theirs = (answers == label) & judged, truths == label
        union = (ours | theirs).sum(axis=(1, 2))
        both = (ours & theirs).sum(axis=(1, 2))
        total += np.where(union > 0, both / np.maximum(1, union), 0.0)
        seen += union > 0
    return np.where(seen > 0, total / np.maximum(1, seen), 1.0)


class Judged(Protocol):
    """The facts of a network whose answers meet labels."""

    @property
    def name(self) -> str:
        """Its name in errors."""

    @property
    def check(self) -> Check:
        """The check of its exits."""

    @property
    def classes(self) -> int:
        """The number of its classes; 0 for none."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Their names, or none."""


def check_labels(network: Judged, truths: npt.NDArray[Any]) -> None:
    """Raise NetworkError for truths that are not those of the network's task: classes, landmarks, label
    maps.

    Truths are classes (N,), landmarks (N, landmarks, 2) or label maps (N, height, width).
    """
    check, name = network.check, network.name
    if isinstance(check, MapCheck):
        height, width, channels = check.shape
        if check.task is MapTask.LANDMARKS:
            wanted: tuple[int, ...] = (channels, 2)
            good = np.issubdtype(truths.dtype, np.floating)
            what = f"rows and columns of {channels} landmarks as shares of 0..1, (N, {channels}, 2)"
            low, high = 0.0, 1.0
        else:
            wanted, good = (height, width), np.issubdtype(truths.dtype, np.integer)
            what = f"a label of 0..{channels - 1} for each pixel, (N, {height}, {width}), -1 where none is judged"
            low, high = UNJUDGED, channels - 1
        if truths.shape[1:] != wanted or not good:
            rest = "; --classes none leaves the labels of images out" if truths.ndim == 1 else ""
            raise NetworkError(f"'{name}' needs {what}, and {truths.dtype} {truths.shape} came{rest}")
        finite = truths[np.isfinite(truths)] if len(truths) else truths
        if finite.size and not low <= float(finite.min()) <= float(finite.max()) <= high:
            raise NetworkError(f"'{name}' needs {what}, and values of {finite.min():g}..{finite.max():g} came")
        return
    if truths.ndim != 1:
        raise NetworkError(f"'{name}' needs a class for each image, (N,), and labels of {truths.shape} came")
    classes = network.classes
    if not classes:
        raise NetworkError(f"labels must belong to classes that the network tells apart, and '{name}' tells none apart")
    if len(truths) and not 0 <= int(truths.min()) <= int(truths.max()) < classes:
        raise NetworkError(
            f"labels must be classes 0..{classes - 1} of '{name}', and {int(truths.min())}..{int(truths.max())} came"
        )
