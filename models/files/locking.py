"""One writer a folder: a second one is refused at once, in this process and in any other.

The lock lies on the folder itself and ends with its process, however that ends, so no file is left to clean.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import BusyError
from .writing import make_folders, naming, remove_folders

_log = logging.getLogger(__name__)


@contextmanager
def one_writer(folder: Path | str) -> Iterator[None]:
    """Hold a folder until the block ends; make it if need be, and remove it again if it stays empty.

    Raises BusyError when another writer holds it, FileError where no folder can be.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as scratch, one_writer(scratch), one_writer(scratch):
    ...     pass  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fluidnpu.models.errors.BusyError: '...' must have one writer at a time, and another one is at work there
    """
    folder = Path(folder)
    with naming(folder):
        made = make_folders(folder)
    try:
        with naming(folder):
            handle = None if sys.platform == "win32" else os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if handle is not None and not _lock(handle):
                raise BusyError(f"'{folder}' must have one writer at a time, and another one is at work there")
            yield
        finally:
            if handle is not None:
                os.close(handle)
    finally:
        remove_folders(made)


def _lock(handle: int) -> bool:
    """Take the lock; a file system without locks gives it to everybody."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        with suppress(NotImplementedError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # such as NFS, which locks no folder
        _log.warning("this file system locks no folders (%s): nobody keeps a second writer away", error.strerror)
        return True
    return True
