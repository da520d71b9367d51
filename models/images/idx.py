"""The idx files of MNIST and its kin: unsigned bytes behind a header, gzipped or not."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DataError, FileError
from ..files import regular_file
from ..files.reading import MOST_BYTES
from .image_set import ImageSet, Pixels


def read_idx(path: Path | str, most_bytes: int = MOST_BYTES) -> npt.NDArray[np.uint8]:
    """Read one idx file of unsigned bytes: magic 0x00000800 + rank, big-endian sizes, then the bytes.

    Raises DataError for another file and one of more than `most_bytes` unpacked; FileNotFoundError. The array
    has the shape that the header names.
    """
    try:
        with regular_file(path).open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            with gzip.GzipFile(fileobj=plain) if packed else plain as stream:
                raw = stream.read(most_bytes + 1)
    except (FileNotFoundError, FileError):
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} must be a whole gzip file, and reading it failed with: {error}") from None
    if len(raw) > most_bytes:
        raise DataError(f"{path} must hold at most {most_bytes >> 20} MiB once unpacked, and it holds more")
    rank = raw[3] if len(raw) >= 4 and raw[:3] == b"\0\0\x08" else 0
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", rank, 4)) if len(raw) >= 4 + 4 * rank else ()
    body = np.frombuffer(raw, np.uint8, offset=min(4 + 4 * rank, len(raw)))
    if rank == 0 or len(shape) != rank or body.size != np.prod(shape, dtype=object):
        raise DataError(f"{path} must be an idx file of unsigned bytes whose length fits its header, and it is not")
    return body.reshape(shape)


def read_idx_images(path: Path) -> tuple[Pixels, npt.NDArray[np.int64] | None]:
    """Read a file of images (N, height, width[, channels]) and the labels in the file beside it, if any.

    The labels' file has "labels" for "images" and "idx1" for "idx3" in its name, gzipped or not. Raises as
    `read_idx`, and DataError for another rank and for labels of another number.
    """
    images = read_idx(path)
    if images.ndim not in (3, 4):
        raise DataError(f"{path} must hold images (N, height, width), and its shape is {images.shape}")
    beside = _labels_beside(path)
    if beside is None:
        return images, None
    labels = read_idx(beside)
    if labels.shape != images.shape[:1]:
        raise DataError(
            f"{path} and {beside.name} must hold N images and N labels, not {images.shape} and {labels.shape}"
        )
    return images, labels.astype(np.int64)


def _labels_beside(path: Path) -> Path | None:
    if "images" not in path.name:
        return None
    name = path.name.replace("images", "labels")
    for rank in ("idx3", "idx4"):
        name = name.replace(rank, "idx1")
    plain = name.removesuffix(".gz")
    return next((file for file in (path.with_name(plain), path.with_name(plain + ".gz")) if file.is_file()), None)


def is_idx(head: bytes) -> bool:
    """Tell by its first bytes if a file is an idx file, or gzipped as they are."""
    return head[:3] == b"\0\0\x08" or head[:2] == b"\x1f\x8b"


def idx_images(images: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8], where: str) -> ImageSet:
    """Return a set of grey images (N, height, width) and their labels (N,). Raises DataError."""
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise DataError(f"{where} must hold N images and N labels, not {images.shape} and {labels.shape}")
    return ImageSet(images=images[..., None], labels=labels.astype(np.int64))
