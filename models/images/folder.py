"""Folders of image files: a folder a class, or one flat folder, with labels in a file or without any.

PNG, JPEG, BMP, PPM and WebP are read with Pillow. Everything is bounded before it is unpacked; links are not
followed.
"""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..files import read_text, regular_file
from .image_set import Pixels
from .intake import Intake
from .resizing import fitted

FORMATS = ("PNG", "JPEG", "BMP", "PPM", "WEBP")
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp"})
CLASSES_FILE = "classes.txt"
LABELS_FILE = "labels.csv"
MOST_FILES = 200_000
MOST_PIXELS = 1 << 26  # of one image file
MOST_FILE_BYTES = 1 << 27
MOST_SET_BYTES = 1 << 31  # of all images together, at the network's size
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}

Labels = npt.NDArray[np.int64] | None


def read_image_folder(folder: Path, intake: Intake | None) -> tuple[Pixels, Labels]:
    """Read every image below a folder, in the order of names: uint8 NHWC, and labels if there are any.

    Folders inside are classes, numbered in the order of their names or of the lines of classes.txt. A flat
    folder may hold labels.csv, each line a file's name, a comma and the number of its class. With an
    `intake` images are converted to its channels and resized as it says; else all must be alike. Raises
    DataError.
    """
    classes = sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    loose = _image_files(folder)
    if classes and loose:
        raise DataError(
            f"'{folder}' must hold folders of classes or images, and it holds both ('{classes[0].name}' and "
            f"'{loose[0].name}')"
        )
    for one in classes:
        if one.is_symlink():
            raise DataError(f"'{one}' must be a folder, and it is a link, which is not followed")
    ordered = _class_order(folder, classes)
    found = [(path, label) for label, one in enumerate(ordered) if one is not None for path in _image_files(one)]
    paths = [path for path, _ in found] if classes else loose
    if not 1 <= len(paths) <= MOST_FILES:
        raise DataError(
            f"'{folder}' must hold 1 to {MOST_FILES} images ({', '.join(sorted(SUFFIXES))}), not {len(paths)}"
        )
    labels = np.array([label for _, label in found], np.int64) if classes else _labels(folder, paths)
    return _stack(folder, paths, intake), labels


def _image_files(folder: Path) -> list[Path]:
    """Return the image files of one folder by name; a link is refused."""
    found = sorted(one for one in folder.iterdir() if one.suffix.lower() in SUFFIXES and not one.name.startswith("."))
    for one in found:
        if one.is_symlink():
            raise DataError(f"'{one}' must be a file, and it is a link, which is not followed")
    return found


def _class_order(folder: Path, classes: Sequence[Path]) -> list[Path | None]:
    """Return the folder of every class; None for one that classes.txt names and that has no images here."""
    names = folder / CLASSES_FILE
    if not classes or not names.is_file():
        return list(classes)
    wanted = [line.strip() for line in read_text(names, "a list of class names", 1 << 20).splitlines() if line.strip()]
    unknown = sorted({one.name for one in classes} - set(wanted))
    if unknown or len(set(wanted)) != len(wanted):
        why = f"lacks '{unknown[0]}'" if unknown else "names one twice"
        raise DataError(f"'{names}' must name every folder of a class once, one a line, and it {why}")
    known = {one.name: one for one in classes}
    return [known.get(name) for name in wanted]


def _labels(folder: Path, paths: Sequence[Path]) -> Labels:
    table = folder / LABELS_FILE
    if not table.is_file():
        return None
    known: dict[str, int] = {}
    rows = csv.reader(io.StringIO(read_text(table, "a table of labels", 1 << 26)))
    for number, row in enumerate(rows, 1):
        if not row or (number == 1 and len(row) == 2 and not row[1].strip().isdecimal()):
            continue  # an empty line, or the header
        if len(row) != 2 or not row[1].strip().isdecimal() or len(row[1]) > 9:
            raise DataError(f"'{table}' line {number} must be a file's name, a comma and a class, not {row[:3]}")
        known[row[0].strip()] = int(row[1])
    missing = [path.name for path in paths if path.name not in known]
    if missing:
        raise DataError(f"'{table}' must have a class for every image, and it has none for '{missing[0]}'")
    return np.array([known[path.name] for path in paths], np.int64)


def _stack(folder: Path, paths: Sequence[Path], intake: Intake | None) -> Pixels:
    out: npt.NDArray[np.uint8] | None = None
    for index, path in enumerate(paths):
        image = _image(path, intake)
        if out is None:
            if len(paths) * image.size > MOST_SET_BYTES:
                raise DataError(
                    f"the images of '{folder}' must take at most {MOST_SET_BYTES >> 20} MiB together, and "
                    f"{len(paths)} of {image.shape} take more"
                )
            out = np.empty((len(paths), *image.shape), np.uint8)
        elif image.shape != out.shape[1:]:
            raise DataError(
                f"images that no network resizes must have one size, and '{path}' has {image.shape} beside "
                f"{out.shape[1:]}"
            )
        out[index] = image
    assert out is not None
    return out


def _image(path: Path, intake: Intake | None) -> npt.NDArray[np.uint8]:
    """Read one image as uint8 (height, width, channels), at the intake's size."""
    try:
        from PIL import Image
    except ImportError:
        raise DataError(
            "reading image files needs Pillow, which is not installed: pip install 'fluidnpu[design]'"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Pillow warns of bombs
            with Image.open(regular_file(path, MOST_FILE_BYTES), formats=FORMATS) as opened:
                if opened.width * opened.height > MOST_PIXELS:
                    raise DataError(
                        f"'{path}' must have at most {MOST_PIXELS} pixels, and it has {opened.width} x {opened.height}"
                    )
                mode = _MODES.get(intake.shape[2]) if intake else ("L" if opened.mode in ("1", "L") else "RGB")
                if mode is None:
                    channels = intake.shape[2] if intake else 0
                    raise DataError(
                        f"image files have 1, 3 or 4 channels, and the network takes {channels}: give an .npz"
                    )
                pixels = np.asarray(opened.convert(mode), np.uint8)
    except DataError:
        raise
    except (OSError, ValueError, SyntaxError, MemoryError, Warning, Image.DecompressionBombError) as error:
        raise DataError(f"'{path}' must be an image ({', '.join(FORMATS)}), and reading it failed: {error}") from None
    image = pixels[..., None] if pixels.ndim == 2 else pixels
    if intake is None:
        return image
    try:
        return np.asarray(fitted(image[None], intake.shape, intake.preprocessing)[0], np.uint8)
    except DataError as error:
        raise DataError(f"'{path}': {error}") from None
