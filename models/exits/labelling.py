"""The one door for labels: a set of images meets a network, and its labels become the network's own.

Class 3 of a folder is class 3 of a network only where both count the same classes in the same order.
Names settle it where both sides have them; else the numbers of classes must agree.

>>> from fluidnpu.models.graph import ExitCheck
>>> task = Task(name="net", check=ExitCheck.TOP, classes=3, class_names=("ant", "bee", "cat"))
>>> pixels, names = np.zeros((2, 1, 1, 1), np.uint8), ("bee", "cat")
>>> fit_labels(task, ImageSet(images=pixels, labels=np.array([0, 1]), class_names=names)).labels
array([1, 2])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from ..graph.checks import Check, MapCheck
from ..images.class_names import CLASSES_FILE, few_names
from ..images.image_set import ImageSet
from .scores import Judged, check_labels


@dataclass(frozen=True, kw_only=True)
class Task:
    """The kind of answers of a network: its check, the number of its classes (0: none) and their names."""

    name: str
    check: Check
    classes: int
    class_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, network: Judged, class_names: Sequence[str] = (), where: str = "") -> Task:
        """Return the task of a network; `class_names`, which come from `where`, replace its own.

        Raises DataError for another number of names than of classes.
        """
        if class_names and network.classes not in (0, len(class_names)):
            raise DataError(
                f"{where} must name the {network.classes} classes of '{network.name}', and it names {len(class_names)}"
            )
        names = tuple(class_names) or network.class_names
        return cls(name=network.name, check=network.check, classes=network.classes, class_names=names)


def fit_labels(task: Task, images: ImageSet) -> ImageSet:
    """Return the images with labels and names of classes as the network has them.

    Where the names of the data are among the network's, labels follow the names; where none of them is, or
    the network has none, they are as many and in one order. A network without classes needs no labels:
    they are left out with a remark. Raises DataError for classes that do not fit, and NetworkError for labels
    out of range.
    """
    remarks = images.remarks
    if not images.labelled:
        names, labels = task.class_names or images.class_names, None
        if task.classes not in (0, len(names)):
            names = ()
    elif not task.classes:
        names, labels = task.class_names, None
        remarks = (*remarks, f"the labels are not used: '{task.name}' tells no classes apart")
    else:
        numbers = None if isinstance(task.check, MapCheck) else _numbers(task, images)
        labels = images.labels if numbers is None else numbers[images.labels]
        check_labels(task, labels)
        if numbers is None and (order := _in_one_order(task, images)):
            remarks = (*remarks, order)
        names = task.class_names or (images.class_names if len(images.class_names) == task.classes else ())
    return ImageSet(images=images.images, labels=labels, source=images.source, class_names=names, remarks=remarks)


def _numbers(task: Task, images: ImageSet) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """Return the network's class of each class of the data; None where the numbers are the same already."""
    theirs, ours = images.class_names, task.class_names
    if not theirs or images.labels.ndim != 1:
        return None
    for label in (int(images.labels.min(initial=0)), int(images.labels.max(initial=0))):
        if not 0 <= label < len(theirs):
            raise DataError(
                f"labels of {images.source} must be among the {len(theirs)} classes named there, not {label}"
            )
    if theirs == ours:
        return None
    strange = [name for name in theirs if ours.count(name) != 1]
    if ours and not strange:
        return np.array([ours.index(name) for name in theirs], np.int64)
    if ours and len(strange) < len(theirs):
        how = "two of" if strange[0] in ours else "none of"
        raise DataError(
            f"each class of {images.source} must be one of '{task.name}', and '{strange[0]}' is {how} {few_names(ours)}: "
            "rename it, or give the names with --classes"
        )
    if len(theirs) != task.classes:
        raise DataError(
            f"'{task.name}' tells {task.classes} classes apart, and {images.source} have {len(theirs)} ({few_names(theirs)}): "
            f"name all {task.classes} in their order, in a {CLASSES_FILE} there or with --classes"
        )
    return None


def _in_one_order(task: Task, images: ImageSet) -> str:
    """Return the remark that classes were taken by their numbers though both sides name them otherwise."""
    theirs, ours = images.class_names, task.class_names
    if not theirs or not ours or theirs in (ours, tuple(map(str, range(len(theirs))))):
        return ""
    return (
        f"the classes of {images.source} have other names than those of '{task.name}', and are taken in one order: "
        f"'{theirs[0]}' is '{ours[0]}'"
    )
