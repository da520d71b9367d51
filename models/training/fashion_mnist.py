"""Fashion-MNIST from Debian's package: 60,000 training and 10,000 test images of 28 x 28, uint8 NHWC."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..images.idx import idx_images, read_idx
from ..images.image_set import ImageSet

FASHION_MNIST_FOLDER = Path("/usr/share/datasets/fashion-mnist")
FASHION_MNIST_PACKAGE = "dataset-fashion-mnist"
_STEMS = {"train": "train", "test": "t10k"}
_MOST_BYTES = 1 << 26  # of one unpacked file; the largest is 47 MB


def _read(path: Path) -> npt.NDArray[np.uint8]:
    try:
        return read_idx(path, _MOST_BYTES)
    except FileNotFoundError:
        raise DataError(
            f"Fashion-MNIST must lie at {path}, and it does not: install Debian's package {FASHION_MNIST_PACKAGE}"
        ) from None


def load_fashion_mnist(split: str, folder: Path | str = FASHION_MNIST_FOLDER) -> ImageSet:
    """Load the official "train" (60,000) or "test" (10,000) split, in its own order.

    Raises DataError for any other, and where the files are missing or damaged.
    """
    if split not in _STEMS:
        raise DataError(f"the split must be 'train' or 'test', not {split!r}")
    stem = Path(folder) / _STEMS[split]
    images = _read(Path(f"{stem}-images-idx3-ubyte.gz"))
    labels = _read(Path(f"{stem}-labels-idx1-ubyte.gz"))
    return idx_images(images, labels, f"{stem}-*")
