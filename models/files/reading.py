"""Read files that a user names: regular, of bounded size, and text where text is wanted.

>>> regular_file("/dev/null")
Traceback (most recent call last):
fluidnpu.models.errors.FileError: '/dev/null' must be a regular file, and it is a device
"""

from __future__ import annotations

import stat
from pathlib import Path

from ..errors import FileError

MOST_BYTES = 1 << 30

_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))


def regular_file(path: Path | str, most_bytes: int = MOST_BYTES) -> Path:
    """Return the path if it leads to a regular file of at most `most_bytes`, so that reading it ends.

    Raises FileError for anything else, OSError where nothing is.
    """
    path = Path(path)
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        kind = next((name for is_one, name in _KINDS if is_one(facts.st_mode)), "a device")
        raise FileError(f"'{path}' must be a regular file, and it is {kind}")
    if facts.st_size > most_bytes:
        raise FileError(f"'{path}' must be at most {most_bytes >> 20} MiB, and it is {facts.st_size >> 20} MiB")
    return path


def read_text(path: Path | str, what: str, most_bytes: int = MOST_BYTES) -> str:
    """Return the text of a user's UTF-8 file; errors call the file `what`. Raises FileError and OSError.

    A byte-order mark, which some editors put in front, is no part of the text.
    """
    try:
        return regular_file(path, most_bytes).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"'{path}' must be {what}, which is text in UTF-8, and it is not") from None
