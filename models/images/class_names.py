"""Names of classes in the order of their numbers: from a file of lines, or from the metadata of a model.

>>> check_class_names(["cat", " dog "], "these")
('cat', 'dog')
>>> names_of_metadata("{0: 'person', 1: 'bicycle'}")
('person', 'bicycle')
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..files import read_text

CLASSES_FILE = "classes.txt"  # in a folder of images
MOST_CLASSES = 1 << 16
LONGEST_NAME = 256
_MOST_BYTES = 1 << 24


def check_class_names(names: Iterable[Any], where: str) -> tuple[str, ...]:
    """Return the names without spaces around them; two classes may share one, as in ImageNet. Raises
    DataError.
    """
    checked = tuple(name.strip() if isinstance(name, str) else name for name in names)
    if not 1 <= len(checked) <= MOST_CLASSES:
        raise DataError(f"the names of classes in {where} must be 1 to {MOST_CLASSES}, not {len(checked)}")
    for number, name in enumerate(checked):
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
            raise DataError(
                f"the name of class {number} in {where} must be 1 to {LONGEST_NAME} printable characters, not {name!r:.60}"
            )
    return checked


def few_names(names: Sequence[str]) -> str:
    """Return names for a sentence: at most four of them, and the last.

    >>> few_names(["a", "b", "c", "d", "e"])
    'a, b, c, ..., e'
    """
    return ", ".join(names if len(names) <= 4 else [*names[:3], "...", names[-1]])


def read_class_names(path: Path | str) -> tuple[str, ...]:
    """Read a file with a name a line, class 0 first; empty lines are left out.

    Raises DataError, FileError.
    """
    lines = read_text(Path(path), "a list of class names", _MOST_BYTES).splitlines()
    return check_class_names([line for line in lines if line.strip()], f"'{path}'")


def names_of_metadata(text: str) -> tuple[str, ...]:
    """Return the names in a model's own metadata `names`: a Python or JSON object by number, or a list.

    Ultralytics writes the former. The key is not ours, so () for whatever is no full list of names.
    """
    if len(text) > _MOST_BYTES:
        return ()
    try:
        raw = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ()
    if isinstance(raw, dict):
        numbers = {int(key): name for key, name in raw.items() if isinstance(key, int) or str(key).isdecimal()}
        if len(numbers) != len(raw) or sorted(numbers) != list(range(len(raw))):
            return ()
        raw = [numbers[number] for number in range(len(raw))]
    try:
        return check_class_names(raw, "the metadata") if isinstance(raw, list | tuple) else ()
    except DataError:
        return ()
