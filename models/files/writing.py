"""Write files whole or not at all: beside their places first, then moved over them.

A full disk, a signal or a power cut leaves the old file or the new one. Where the file system has nameless
files (O_TMPFILE of Linux), nothing is left beside them either, not even by SIGKILL; elsewhere the next writer
in that folder sweeps what a dead one left.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as scratch:
...     write_file(Path(scratch) / "a" / "b.txt", "whole")
...     (Path(scratch) / "a" / "b.txt").read_text()
'whole'
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import FileError, WriteError

_log = logging.getLogger(__name__)
_BEGIN, _END = ".fluidnpu-", ".part"  # of the name that a file has on its way, if it needs one
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_NO_NAMELESS = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS, errno.ENOENT}
_PROC = "/proc/self/fd"


def write_file(path: Path | str, content: str | bytes) -> None:
    """Put one file in its place in one step, and make the folders above it.

    A link is followed, an old file's mode kept, a device or pipe written to as it is. Raises FileError where
    no file can be, WriteError when the disk gives out; the old file is untouched then.
    """
    write_files({path: content})


def write_files(files: Mapping[Path | str, str | bytes]) -> None:
    """Put files in their places, in the mapping's order, once all of them are whole beside those places.

    When the disk gives out on any of them, all old files are untouched. Raises as `write_file` does.
    """
    with ExitStack() as stack:
        made: list[Path] = []
        done = False
        stack.callback(lambda: None if done else remove_folders(made))
        staged: list[_Staged] = []
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            with naming(Path(path)):
                target = Path(os.path.realpath(path))
                if _takes_bytes(target):
                    target.write_bytes(data)
                    continue
                made += make_folders(target.parent)
                staged.append(_stage(Path(path), target, data, stack))
        for copy in staged:
            with naming(copy.path):
                copy.move()
        done = True
    for copy in staged:
        _log.info("wrote %s", copy.path)


def check_place(path: Path | str, *, folder: bool = False) -> None:
    """Refuse a path where a file, or a folder of files, could not be written; try it, and leave nothing.

    Raises FileError.
    """
    path = Path(path)
    with naming(path):
        target = Path(os.path.realpath(path))
        if folder and target.exists() and not target.is_dir():
            raise FileError(f"'{path}' must be a folder, and it is a file")
        if not folder and _takes_bytes(target):
            return
        if not folder and target.exists():
            _may_write(target)
        above = target if folder else target.parent
        while not above.exists():
            above = above.parent
        if not above.is_dir():
            raise FileError(f"'{path}' must lie in a folder, and '{above}' is a file")
        with ExitStack() as stack:
            _open_part(above, stack)


def is_leftover(path: Path) -> bool:
    """Return whether a file is the trace of a writer of ours that was stopped."""
    return path.name.startswith(_BEGIN) and path.name.endswith(_END)


@contextmanager
def naming(path: Path, must: str = "be a place that can be written") -> Iterator[None]:
    """Turn what the system says about a path into one sentence that names it, and what it must.

    Raises WriteError where the disk is full or fails, and FileError for any other reason.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            raise WriteError(
                f"'{path}' could not be written ({reason}); nothing half-written was kept and an older file is untouched"
            ) from None
        raise FileError(f"'{path}' must {must}, and it is not: {reason}") from None


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; return the new ones, outermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
    return missing[::-1]


def remove_folders(made: Sequence[Path]) -> None:
    """Remove the folders of `make_folders` that nobody filled."""
    for folder in reversed(made):
        with suppress(OSError):
            folder.rmdir()


@dataclass(frozen=True, kw_only=True)
class _Staged:
    """A whole file that has yet to be moved into its place; `part` is its name so far, if it has one."""

    path: Path  # as the user wrote it
    target: Path
    handle: int
    part: Path
    named: bool

    def move(self) -> None:
        """Move the file over its place; afterwards the old content is gone."""
        if not self.named:
            above = os.open(self.target.parent, os.O_RDONLY)
            try:  # with a folder's handle, Python follows the link in /proc to the nameless file
                os.link(f"{_PROC}/{self.handle}", self.part, src_dir_fd=above)
            finally:
                os.close(above)
        try:
            os.replace(self.part, self.target)
        except BaseException:
            self.part.unlink(missing_ok=True)
            raise


def _stage(path: Path, target: Path, data: bytes, stack: ExitStack) -> _Staged:
    """Write the file beside its place, and wait until the disk has it."""
    old = target.stat() if target.exists() else None
    if old is not None:
        _may_write(target)
    _sweep(target.parent)
    handle, part, named = _open_part(target.parent, stack)
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
    if old is not None and sys.platform != "win32":
        os.fchmod(handle, stat.S_IMODE(old.st_mode))
        with suppress(PermissionError):
            os.fchown(handle, old.st_uid, old.st_gid)
    os.fsync(handle)
    return _Staged(path=path, target=target, handle=handle, part=part, named=named)


def _open_part(folder: Path, stack: ExitStack) -> tuple[int, Path, bool]:
    """Open a nameless file in a folder, or a named one; the stack closes and removes it."""
    part = folder / f"{_BEGIN}{secrets.token_hex(8)}{_END}"
    handle = _open_nameless(folder)
    named = handle is None
    if handle is None:
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        stack.callback(part.unlink, missing_ok=True)
    stack.callback(os.close, handle)
    _hold(handle)
    return handle, part, named


def _open_nameless(folder: Path) -> int | None:
    if sys.platform != "linux" or not os.path.isdir(_PROC):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except OSError as error:
        if error.errno in _NO_NAMELESS:
            return None
        raise


def _hold(handle: int) -> bool:
    """Mark a file on its way as ours for as long as we live; False where another one holds it."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(folder: Path) -> None:
    """Remove what a writer that was killed left in a folder."""
    for part in folder.glob(f"{_BEGIN}*{_END}"):
        with suppress(OSError):
            handle = os.open(part, os.O_RDONLY)
            try:
                if _hold(handle):
                    part.unlink()
            finally:
                os.close(handle)


def _takes_bytes(target: Path) -> bool:
    """Return whether a path leads to a device or a pipe, which has no older content to keep."""
    return target.exists() and not target.is_file() and not target.is_dir()


def _may_write(target: Path) -> None:
    """Raise OSError for a folder, and for a file that its owner protects."""
    if target.is_dir():
        raise FileError(f"'{target}' must be a file, and it is a folder")
    if not os.access(target, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
