"""Fashion-MNIST from Debian's package: 60,000 training and 10,000 test images of 28 x 28, uint8 NHWC."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..files import regular_file
from ..images import ImageSet

FASHION_MNIST_FOLDER = Path("/usr/share/datasets/fashion-mnist")
FASHION_MNIST_PACKAGE = "dataset-fashion-mnist"
_STEMS = {"train": "train", "test": "t10k"}
_MOST_BYTES = 1 << 26  # of one unpacked file; the largest is 47 MB


def _read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Read one gzipped idx file of unsigned bytes: magic 0x00000800 + rank, big-endian sizes, then the
    bytes.
    """
    try:
        with gzip.open(regular_file(path)) as stream:
            raw = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise DataError(
            f"Fashion-MNIST must lie at {path}, and it does not: install Debian's package {FASHION_MNIST_PACKAGE}"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} must be a whole gzip file, and reading it failed with: {error}") from None
    rank = raw[3] if len(raw) >= 4 and raw[:3] == b"\0\0\x08" else 0
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", rank, 4)) if len(raw) >= 4 + 4 * rank else ()
    body = np.frombuffer(raw, np.uint8, offset=min(4 + 4 * rank, len(raw)))
    if rank == 0 or len(shape) != rank or body.size != np.prod(shape, dtype=object):
        raise DataError(f"{path} must be an idx file of unsigned bytes whose length fits its header, and it is not")
    return body.reshape(shape)


def load_fashion_mnist(split: str, folder: Path | str = FASHION_MNIST_FOLDER) -> ImageSet:
    """Load the official "train" (60,000) or "test" (10,000) split, in its own order."""
    if split not in _STEMS:
        raise DataError(f"the split must be 'train' or 'test', not {split!r}")
    stem = Path(folder) / _STEMS[split]
    images = _read_idx(Path(f"{stem}-images-idx3-ubyte.gz"))
    labels = _read_idx(Path(f"{stem}-labels-idx1-ubyte.gz"))
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise DataError(f"{stem}-* must hold N images and N labels, not {images.shape} and {labels.shape}")
    return ImageSet(images=images[..., None], labels=labels.astype(np.int64))
