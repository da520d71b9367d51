"""Labelled images as training takes them: an `ImageSet`, or any torch `Dataset` with items of its own.

An item of a Dataset is (image, class), or (image, landmarks) or (image, label map) for exits that give
maps. The image is an array or PIL image of shape (height, width[, channels]), or a torch tensor (channels,
height, width): uint8, or floats before the network's own preprocessing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..exits.labelling import Task, fit_labels
from ..exits.scores import check_labels
from ..graph.checks import MapCheck
from ..graph.network import Network
from ..images.image_set import ImageSet

Which = npt.NDArray[np.int64]
SHIFT = 2  # pixels


class TorchDataset(Protocol):
    """The two methods of a map-style `torch.utils.data.Dataset`."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Some of a data set's items by their indices, and the network that they are for."""

    network: Network
    data: ImageSet | TorchDataset
    indices: Which

    @classmethod
    def of(cls, network: Network, data: ImageSet | TorchDataset) -> Examples:
        """Take all of a data set. Raises DataError and NetworkError for what the network cannot take."""
        if not len(data):
            raise DataError("training needs labelled images, and the data set is empty")
        if isinstance(data, ImageSet):
            data = fit_labels(Task.of(network), data)
        examples = cls(network=network, data=data, indices=np.arange(len(data)))
        examples.network.intake.arranged(examples[:1].images_and_labels()[0])
        return examples

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, which: slice | Which) -> Examples:
        return Examples(network=self.network, data=self.data, indices=self.indices[which])

    def split(self, held_out: int, seed: int) -> tuple[Examples, Examples]:
        """Part by a seeded shuffle into (to learn from, held out). Raises DataError."""
        if not 0 < held_out < len(self):
            raise DataError(f"holding out {held_out} images needs more than that, and {len(self)} came")
        order = np.random.default_rng(seed).permutation(len(self))
        return self[order[held_out:]], self[np.sort(order[:held_out])]

    def images_and_labels(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return images (N, height, width, channels) and their truths, classes (N,) of a classifier.

        Raises DataError and NetworkError.
        """
        if isinstance(self.data, ImageSet):
            return self.network.intake.arranged(self.data.images[self.indices]), self.data.labels[self.indices]
        maps = isinstance(self.network.check, MapCheck)
        pairs = [_item(self.data, int(index), maps) for index in self.indices]
        shapes = {image.shape for image, _ in pairs}
        if len(shapes) > 1:
            raise DataError(f"the images of a data set must have one shape, and {' and '.join(map(str, shapes))} came")
        sizes = {label.shape for _, label in pairs}
        if len(sizes) > 1:
            raise DataError(f"the truths of a data set must have one shape, and {' and '.join(map(str, sizes))} came")
        labels = np.stack([label for _, label in pairs])
        check_labels(self.network, labels)
        return self.network.intake.arranged(np.stack([image for image, _ in pairs])), labels


def _item(data: TorchDataset, index: int, maps: bool) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    item = data[index]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise DataError(f"an item of a data set must be (image, class), and item {index} is a {type(item).__name__}")
    image, label = item
    truth = number = np.asarray(label)
    if maps:
        truth = number.astype(np.int64 if np.issubdtype(number.dtype, np.integer) else np.float64)
    elif number.size != 1 or not np.issubdtype(number.dtype, np.integer):
        raise DataError(
            f"the class of an item must be one whole number, and that of item {index} is {str(label)[:40]!r}"
        )
    else:
        truth = number.astype(np.int64).reshape(())
    pixels = np.asarray(image)
    if pixels.ndim == 3 and hasattr(image, "requires_grad"):  # a tensor has its channels first
        pixels = pixels.transpose(1, 2, 0)
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or not (pixels.dtype == np.uint8 or np.issubdtype(pixels.dtype, np.floating)):
        raise DataError(
            f"an image must be uint8 or floats of height, width and channels, and that of item {index} is "
            f"{pixels.dtype} {pixels.shape}"
        )
    return pixels, truth


def shift_and_mirror(images: npt.NDArray[Any], augment: str, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Shift each image (N, H, W, C) by up to two pixels, and mirror every second one with "shift-mirror".

    The border repeats itself.
    """
    if augment == "none":
        return images
    count, height, width, _ = images.shape
    padded = np.pad(images, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), mode="edge")
    dy, dx = rng.integers(0, 2 * SHIFT + 1, (2, count))
    flip = rng.random(count) < (0.5 if augment == "shift-mirror" else 0.0)
    columns = np.where(flip[:, None], np.arange(width)[::-1], np.arange(width)) + dx[:, None]
    rows = np.arange(height) + dy[:, None]
    return np.asarray(padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]])
