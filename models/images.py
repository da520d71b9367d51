"""Image sets: labelled uint8 NHWC images, their files, and the 1,000 test images that ship with fluidnpu."""

from __future__ import annotations

import io
import zipfile
import zlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .errors import DataError, FileError
from .files import regular_file, write_file

CLASSES = ("T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
SHIPPED_IMAGES = "fashion_mnist_test_1000.npz"


@dataclass(frozen=True, kw_only=True)
class ImageSet:
    """Images (N, height, width, channels) in uint8 and their labels (N,) in int64.

    >>> ImageSet(images=np.zeros((2, 4, 4, 1), np.uint8), labels=np.array([3, 1]))[:1].labels
    array([3])
    """

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype != np.uint8:
            raise DataError(
                f"images must be uint8 of shape (N, height, width, channels), not {self.images.dtype} {self.images.shape}"
            )
        if self.labels.shape != self.images.shape[:1]:
            raise DataError(f"{len(self.images)} images need as many labels, not {self.labels.shape}")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, which: slice | npt.NDArray[np.int64]) -> ImageSet:
        return ImageSet(images=self.images[which], labels=self.labels[which])


def shipped_images(count: int = 1000) -> ImageSet:
    """Return the first `count` (at most 1,000) images of Fashion-MNIST's test split, from the copy inside
    the package.

    >>> shipped_images(3).images.shape
    (3, 28, 28, 1)
    """
    with shipped_file(SHIPPED_IMAGES) as path, np.load(path, allow_pickle=False) as archive:
        found = ImageSet(images=archive["images"], labels=archive["labels"].astype(np.int64))
    if not 1 <= count <= len(found):
        raise DataError(f"between 1 and {len(found)} images are shipped, and {count} were asked for")
    return found[:count]


def read_image_file(path: Path | str) -> ImageSet:
    """Read images and labels from an .npz with arrays `images` and `labels`; DataError when it is not one."""
    try:
        archive = np.load(regular_file(path), allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise ValueError("it holds a single array, as .npy files do")
        with archive:
            images, labels = archive["images"], archive["labels"]
    except FileNotFoundError:
        raise DataError(f"the image file {path} does not exist") from None
    except FileError:
        raise
    except (OSError, ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"the image file {path} must be an .npz with arrays 'images' and 'labels': {error}") from None
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"the labels in {path} must be whole numbers, not {labels.dtype}")
    return ImageSet(images=images, labels=labels.astype(np.int64))


def write_image_file(path: Path | str, images: ImageSet) -> None:
    """Write images and labels as the compressed archive that `read_image_file` reads."""
    archive = io.BytesIO()
    np.savez_compressed(archive, images=images.images, labels=images.labels.astype(np.uint8))
    write_file(path, archive.getvalue())


def shipped_file(name: str) -> AbstractContextManager[Path]:
    """Context manager: the path of a file in models/data, also when installed from a wheel."""
    return as_file(files("fluidnpu.models") / "data" / name)
