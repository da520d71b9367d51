"""Image sets, labelled or not, and the 1,000 test images that ship with fluidnpu."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError

Pixels = npt.NDArray[Any]  # uint8 or floats

SHIPPED_CLASSES = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
SHIPPED_IMAGES = "fashion_mnist_test_1000.npz"
SHIPPED_DATA = "Fashion-MNIST"  # as the provenance of a model names it that was trained on such images


class ImageSet:
    """Images (N, height, width, channels) in uint8 or floats, and their labels if there are any.

    Labels are classes (N,) in int64. For exits that give maps they are a label a pixel (N, height, width) in
    int64, or landmarks (N, landmarks, 2) in float64, rows and columns as shares of the image.

    `class_names`: what the classes are called where the images were found, in the order of their numbers;
    empty where nothing says it. `remarks`: what was left out on the way or looks odd, a sentence each.
    `source` names the images in errors. `labels` of a set without any raises DataError; `labelled` asks
    first.

    >>> ImageSet(images=np.zeros((2, 4, 4, 1), np.uint8), labels=np.array([3, 1]))[:1].labels
    array([3])
    >>> ImageSet(images=np.zeros((2, 4, 4, 1), np.uint8)).labelled
    False
    """

    __slots__ = ("_labels", "class_names", "images", "remarks", "source")

    def __init__(
        self,
        *,
        images: Pixels,
        labels: npt.NDArray[Any] | None = None,
        source: str = "these",
        class_names: tuple[str, ...] = (),
        remarks: tuple[str, ...] = (),
    ) -> None:
        if images.ndim != 4 or not (images.dtype == np.uint8 or np.issubdtype(images.dtype, np.floating)):
            raise DataError(
                "images must be uint8 or floats of shape (N, height, width, channels), "
                f"not {images.dtype} {images.shape}"
            )
        if labels is not None and labels.shape[:1] != images.shape[:1]:
            raise DataError(f"{len(images)} images need as many labels, not {labels.shape}")
        self.images = images
        self.source = source
        self.class_names = class_names
        self.remarks = remarks
        self._labels = labels

    @property
    def labels(self) -> npt.NDArray[Any]:
        """Class (N,) or truth of the maps of every image. Raises DataError where there are none."""
        if self._labels is None:
            raise DataError(f"what is asked for needs labelled images, and {self.source} have no labels")
        return self._labels

    @property
    def labelled(self) -> bool:
        """True if the images have labels."""
        return self._labels is not None

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, which: slice | npt.NDArray[np.int64]) -> ImageSet:
        labels = None if self._labels is None else self._labels[which]
        return ImageSet(
            images=self.images[which],
            labels=labels,
            source=self.source,
            class_names=self.class_names,
            remarks=self.remarks,
        )

    def __repr__(self) -> str:
        return f"ImageSet({self.images.dtype} {self.images.shape}, {'' if self.labelled else 'not '}labelled)"


def shipped_images(count: int = 1000) -> ImageSet:
    """Return the first `count` (at most 1,000) images of Fashion-MNIST's test split, from the copy inside
    the package.

    Raises DataError for more, and for less than one.

    >>> shipped_images(3).images.shape
    (3, 28, 28, 1)
    """
    with shipped_file(SHIPPED_IMAGES) as path, np.load(path, allow_pickle=False) as archive:
        image_set = ImageSet(images=archive["images"], labels=archive["labels"].astype(np.int64))
    if not 1 <= count <= len(image_set):
        raise DataError(f"between 1 and {len(image_set)} images are shipped, and {count} were asked for")
    return image_set[:count]


def shipped_file(name: str) -> AbstractContextManager[Path]:
    """Context manager: the path of a file in models/data, also when installed from a wheel."""
    return as_file(files("fluidnpu.models") / "data" / name)
