"""Folders of image files: a folder a class, or one flat folder, with labels in a file or without any.

Links are not followed. What is left out on the way is reported in the set's `remarks`, never in silence.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..files import read_text
from .class_names import CLASSES_FILE, read_class_names
from .image_set import ImageSet, Pixels
from .intake import Intake
from .picture import SUFFIXES, read_picture

LABELS_FILE = "labels.csv"
MOST_FILES = 200_000
MOST_SET_BYTES = 1 << 31  # of all images together, at the network's size
MOST_DEPTH = 8  # of folders below that of a class
PARTS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})  # of a data set
_OURS = frozenset({CLASSES_FILE, LABELS_FILE})
_ARCHIVERS = frozenset({"__MACOSX"})  # that a Mac puts into every zip, beside what was packed


def read_image_folder(folder: Path, intake: Intake | None) -> ImageSet:
    """Read every image below a folder, in the order of names: uint8 NHWC, and labels if there are any.

    Folders inside are classes, numbered in the order of their names or of the lines of classes.txt; images in
    folders below count to the class. A flat folder may hold labels.csv, each line a file's name, a comma and
    the number of its class. With an `intake` images are converted to its channels and resized as it says;
    else all must be alike. Raises DataError.
    """
    classes, loose = _folders(folder), _image_files(folder)
    if classes and (loose or (folder / LABELS_FILE).exists()):
        beside = loose[0].name if loose else LABELS_FILE
        raise DataError(
            f"'{folder}' must hold folders of classes or images, and it holds both ('{classes[0].name}' and '{beside}')"
        )
    if len(classes) > 1 and PARTS.issuperset(entry.name.lower() for entry in classes):
        names = ", ".join(f"'{entry.name}'" for entry in classes)
        raise DataError(f"'{folder}' must hold a folder for each class, not the parts of a set: name one of {names}")
    given = read_class_names(folder / CLASSES_FILE) if (folder / CLASSES_FILE).is_file() else ()
    remarks = _left_out(folder)
    if classes:
        pairs, class_names = _of_classes(folder, classes, given, remarks)
        paths = [path for path, _ in pairs]
    else:
        pairs, class_names, paths = [], given, loose
    if not 1 <= len(paths) <= MOST_FILES:
        raise DataError(
            f"'{folder}' must hold 1 to {MOST_FILES} images ({', '.join(sorted(SUFFIXES))}), not {len(paths)}"
        )
    return ImageSet(
        images=_stack(folder, paths, intake),
        labels=np.array([label for _, label in pairs], np.int64) if classes else _labels(folder, paths),
        source=f"those in {folder}",
        class_names=class_names,
        remarks=tuple(remarks),
    )


def _is_seen(entry: Path) -> bool:
    """False for what is hidden, or comes of an archiver."""
    return not entry.name.startswith(".") and entry.name not in _ARCHIVERS


def _folders(folder: Path) -> list[Path]:
    """Return the folders in one by name; a link is refused."""
    return _no_links("a folder", [entry for entry in folder.iterdir() if _is_seen(entry) and entry.is_dir()])


def _image_files(folder: Path) -> list[Path]:
    """Return the image files of one folder by name; a link is refused."""
    return _no_links("a file", [entry for entry in folder.iterdir() if _is_seen(entry) and _is_image(entry)])


def _is_image(entry: Path) -> bool:
    return entry.suffix.lower() in SUFFIXES and not entry.is_dir()


def _no_links(what: str, entries: Sequence[Path]) -> list[Path]:
    for entry in sorted(entries):
        if entry.is_symlink():
            raise DataError(f"'{entry}' must be {what}, and it is a link, which is not followed")
    return sorted(entries)


def _left_out(folder: Path) -> list[str]:
    """Name the folders that are left out, and count the files by their endings."""
    entries = sorted(folder.iterdir())
    hidden = [entry.name for entry in entries if not _is_seen(entry) and entry.is_dir()]
    others = [e for e in entries if _is_seen(e) and e.is_file() and not _is_image(e) and e.name not in _OURS]
    endings = Counter(entry.suffix.lower() or entry.name for entry in others)
    counts = ", ".join(f"{count} {ending}" for ending, count in endings.most_common(6))
    remarks = [f"folders of '{folder}' that are left out: {', '.join(hidden[:6])}"] if hidden else []
    return remarks + ([f"files of '{folder}' that are no images by their ending: {counts}"] if others else [])


def _of_classes(
    folder: Path, classes: Sequence[Path], given: tuple[str, ...], remarks: list[str]
) -> tuple[list[tuple[Path, int]], tuple[str, ...]]:
    """Return the images with their labels, and the names of the classes; remarks are added."""
    names = _ordered(folder, [entry.name for entry in classes], given, remarks)
    pairs, deep = list[tuple[Path, int]](), list[Path]()
    for entry in classes:
        inside = _below(entry, remarks)
        if not inside and not given:
            raise DataError(
                f"'{entry}' must hold images, since every folder is a class: take it away, or name all classes in a "
                f"{CLASSES_FILE} beside it"
            )
        deep += [path.parent for path in inside if path.parent != entry]
        pairs += [(path, names.index(entry.name)) for path in inside]
    if deep:
        remarks.append(f"{len(deep)} images lie in folders below those of their classes, such as '{deep[0]}'")
    return sorted(pairs, key=lambda pair: pair[1]), names


def _below(folder: Path, remarks: list[str], depth: int = 0) -> list[Path]:
    """Return the image files of a folder, then those of its folders; remarks are added."""
    remarks += _left_out(folder)
    images = _image_files(folder)
    for inner in _folders(folder):
        if depth == MOST_DEPTH:
            raise DataError(f"images must lie at most {MOST_DEPTH} folders below that of their class, not in '{inner}'")
        images += _below(inner, remarks, depth + 1)
    return images


def _ordered(folder: Path, names: Sequence[str], given: tuple[str, ...], remarks: list[str]) -> tuple[str, ...]:
    """Return the names of the classes by number: those of classes.txt, else those of the folders."""
    if given:
        unknown = sorted(set(names) - set(given))
        if unknown or len(set(given)) != len(given):
            why = f"lacks '{unknown[0]}'" if unknown else "names one twice"
            raise DataError(
                f"'{folder / CLASSES_FILE}' must name every folder of a class once, one a line, and it {why}"
            )
        return given
    counted = sorted(names, key=_natural)
    for place, (name, other) in enumerate(zip(names, counted, strict=True)):
        if name != other:
            remarks.append(
                f"folders are classes in the order of their names as text, so '{name}' is class {place} and stands before "
                f"'{other}'; a {CLASSES_FILE} in '{folder}' says another order"
            )
            break
    return tuple(names)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts "10" behind "2"."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _labels(folder: Path, paths: Sequence[Path]) -> npt.NDArray[np.int64] | None:
    table = folder / LABELS_FILE
    if not table.is_file():
        return None
    label_of = _read_table(table, {path.name for path in paths})
    missing = [path.name for path in paths if path.name not in label_of]
    if missing:
        raise DataError(f"'{table}' must have a class for every image, and it has none for '{missing[0]}'")
    return np.array([label_of[path.name] for path in paths], np.int64)


def _read_table(table: Path, files: set[str]) -> Mapping[str, int]:
    """Read the class of each file; the first line is a header if it names no image and no number."""
    label_of: dict[str, int] = {}
    rows = csv.reader(io.StringIO(read_text(table, "a table of labels", 1 << 26)))
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        whole = len(cells) == 2 and cells[1].isascii() and cells[1].isdecimal() and len(cells[1]) <= 9
        image = bool(cells) and (cells[0] in files or Path(cells[0]).suffix.lower() in SUFFIXES)
        if not cells or (number == 1 and len(cells) == 2 and not whole and not image):
            continue  # an empty line, or the header
        if not whole:
            raise DataError(
                f"'{table}' line {number} must be a file's name, a comma and a class, which is a whole number from 0, not "
                f"{','.join(row)[:60]!r}"
            )
        if cells[0] in label_of:
            raise DataError(f"'{table}' must name every file once, and line {number} names '{cells[0]}' again")
        label_of[cells[0]] = int(cells[1])
    return label_of


def _stack(folder: Path, paths: Sequence[Path], intake: Intake | None) -> Pixels:
    out: npt.NDArray[np.uint8] | None = None
    for index, path in enumerate(paths):
        image = read_picture(path, intake)
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
    turned = intake is not None and intake.ambiguous and intake.preprocessing.layout == "NCHW"
    return out.transpose(0, 3, 1, 2) if turned else out  # as the intake expects arrays of that record
