"""The rule that one NPU has one owner: claims inside a process, and lock files between processes.

>>> npu, first = object(), object()
>>> with claimed(npu, first):
...     check(npu, object())
Traceback (most recent call last):
fluidnpu.host.errors.DeviceInUseError: a device must have one owner, and another server uses this one
>>> check(npu, first)
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import DeviceInUseError

_lock = threading.Lock()
_owners: dict[int, object] = {}  # by the id of the device; an entry lives only as long as a claim


def take(device: object, owner: object) -> None:
    """Claim a device. Raises DeviceInUseError while anybody holds a claim on it."""
    with _lock:
        if id(device) in _owners:
            raise DeviceInUseError("a device must have one owner, and another server uses this one")
        _owners[id(device)] = owner


def give_back(device: object) -> None:
    """End the claim on a device."""
    with _lock:
        _owners.pop(id(device), None)


@contextmanager
def claimed(device: object, owner: object) -> Iterator[None]:
    """Hold a claim inside a `with` block. Raises DeviceInUseError."""
    take(device, owner)
    try:
        yield
    finally:
        give_back(device)


def check(device: object, user: object) -> None:
    """Raise DeviceInUseError when somebody else holds a claim on the device."""
    if _owners and _owners.get(id(device), user) is not user:
        raise DeviceInUseError("a device must have one owner, and another server uses this one")


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a lock file for a board's NPU, so that no second process opens it. Raises DeviceInUseError.

    The lock ends with the process, also when it is killed. It lies in the folder for temporary files, or in
    the one that the environment variable FLUIDNPU_LOCKS names.
    """
    path = Path(os.environ.get("FLUIDNPU_LOCKS") or tempfile.gettempdir()) / f"fluidnpu-{name}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise DeviceInUseError(
                f"a device must have one owner, and process {holder} uses '{name}' ({path})"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
