"""Read a user's images: an .npz, an idx file, or a folder of image files, each bounded before it is
unpacked.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError, FileError
from ..files import regular_file, write_file
from .folder import MOST_SET_BYTES, read_image_folder
from .idx import is_idx, read_idx_images
from .image_set import ImageSet, Pixels
from .intake import Intake

_FAULTS = (OSError, ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error, RuntimeError)


def read_images(path: Path | str, intake: Intake | None = None) -> ImageSet:
    """Read the images at a path, with their labels where there are any.

    An .npz has the array `images` (uint8 or floats) and may have `labels`, classes (N,), label maps (N,
    height, width) or landmarks (N, landmarks, 2); an idx file may have its labels beside it; a folder holds
    image files, see `read_image_folder`, and may name its classes. `intake` (Network.intake) says layout,
    channels and size: the set is then NHWC and fits the network; without it arrays must be NHWC. Raises
    DataError and FileError in one sentence.
    """
    path = Path(path)
    if path.is_dir():
        return read_image_folder(path, intake)
    images, labels = _read_one_file(path)
    if not len(images):
        raise DataError(f"{path} must hold at least one image, and it holds none")
    if intake is not None:
        images = _arranged(images, intake, path)
    elif images.ndim == 3:
        images = images[..., None]
    return ImageSet(images=images, labels=labels, source=f"those in {path}")


def _arranged(images: Pixels, intake: Intake, path: Path) -> Pixels:
    """Return the images as NHWC at the network's size, in RGB still: `arranged` finds nothing more to do."""
    try:
        pixels = intake.arranged(images)
        if pixels.dtype != np.uint8:
            intake.check_range(pixels)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    if intake.preprocessing.colour == "BGR":
        pixels = pixels[..., ::-1]  # the intake turns it when the images are used
    if intake.preprocessing.layout == "NCHW" and intake.ambiguous:
        pixels = pixels.transpose(0, 3, 1, 2)  # likewise
    return pixels


def _read_one_file(path: Path) -> tuple[Pixels, npt.NDArray[Any] | None]:
    try:
        with regular_file(path).open("rb") as stream:
            head = stream.read(4)
    except FileNotFoundError:
        raise DataError(f"the image file {path} does not exist") from None
    except OSError as error:
        raise DataError(f"the image file {path} cannot be read: {error.strerror or error}") from None
    return read_idx_images(path) if is_idx(head) else _read_npz(path)


def _read_npz(path: Path) -> tuple[Pixels, npt.NDArray[Any] | None]:
    try:
        with zipfile.ZipFile(regular_file(path)) as archive:
            images = _array(archive, "images")
            labels = _array(archive, "labels") if "labels.npy" in archive.namelist() else None
    except (FileError, DataError):
        raise
    except zipfile.BadZipFile:
        raise DataError(
            f"the image file {path} must be an .npz with arrays 'images' and 'labels', an idx file, or a folder of "
            "images, and it is none of these"
        ) from None
    except _FAULTS as error:
        raise DataError(f"the image file {path} must be an .npz with arrays 'images' and 'labels': {error}") from None
    if not (images.dtype == np.uint8 or np.issubdtype(images.dtype, np.floating)):
        raise DataError(f"the images in {path} must be uint8 or floats, not {images.dtype}")
    return images, None if labels is None else _labels(labels, len(images), path)


def _labels(labels: npt.NDArray[Any], count: int, path: Path) -> npt.NDArray[Any]:
    """Return classes and label maps as int64, and landmarks as float64. Raises DataError."""
    landmarks = labels.ndim == 3 and labels.shape[2] == 2 and np.issubdtype(labels.dtype, np.floating)
    if not landmarks and not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"the labels in {path} must be whole numbers, not {labels.dtype}")
    if labels.shape[0] != count or labels.ndim not in (1, 3):
        raise DataError(f"{path} must hold a label for each of {count} images, not labels of shape {labels.shape}")
    return labels.astype(np.float64 if landmarks else np.int64)


def _array(archive: zipfile.ZipFile, name: str) -> Pixels:
    """Return one array of the archive, whose header must fit its bytes and the bytes a bound."""
    member = archive.getinfo(f"{name}.npy")
    if member.file_size > MOST_SET_BYTES:
        raise DataError(
            f"the array '{name}' of {archive.filename} must take at most {MOST_SET_BYTES >> 20} MiB, and it takes "
            f"{member.file_size >> 20} MiB"
        )
    with archive.open(member) as stream:
        _check_header(stream, member.file_size, name)
    with archive.open(member) as stream:
        pixels: Pixels = np.lib.format.read_array(stream, allow_pickle=False)  # type: ignore[no-untyped-call]
    if pixels.ndim == 0:
        raise ValueError(f"the array '{name}' has no dimensions")
    return pixels


def _check_header(stream: IO[bytes], size: int, name: str) -> None:
    version = np.lib.format.read_magic(stream)  # type: ignore[no-untyped-call]
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = reader(stream)  # type: ignore[no-untyped-call]
    bytes_needed = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if not dtype.hasobject and bytes_needed != size - stream.tell():
        raise ValueError(f"the array '{name}' of shape {shape} does not fill its {size} bytes")


def read_image_file(path: Path | str) -> ImageSet:
    """Read labelled uint8 images from an .npz with arrays `images` and `labels`; see `read_images` for
    others.

    Raises DataError.
    """
    image_set = read_images(path)
    if image_set.images.dtype != np.uint8 or not image_set.labelled:
        raise DataError(f"the image file {path} must be an .npz with arrays 'images' and 'labels', and images in uint8")
    return image_set


def write_image_file(path: Path | str, images: ImageSet) -> None:
    """Write images and labels as the compressed archive that `read_images` reads."""
    arrays = {"images": images.images}
    if images.labelled:
        arrays["labels"] = _small(images.labels)
    archive = io.BytesIO()
    np.savez_compressed(archive, **arrays)
    write_file(path, archive.getvalue())


def _small(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return classes and label maps in the smallest type that holds them, landmarks as float32."""
    if np.issubdtype(labels.dtype, np.floating):
        return labels.astype(np.float32)
    low, high = int(labels.min(initial=0)), int(labels.max(initial=0))
    return labels.astype(np.result_type(np.min_scalar_type(low), np.min_scalar_type(high)))
