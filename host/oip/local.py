"""UNIX sockets for clients of this machine: a folder with one for REST and one for gRPC.

A server holds a lock on the folder for as long as it lives. So a socket that lies there is left over from one
that was killed, unless somebody answers at it, and is taken over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from ..errors import DriverUsageError

SURFACES = {"unix_http": "http.sock", "unix_grpc": "grpc.sock"}  # by surface, its socket in the folder
LONGEST_PATH = 107  # bytes, as the kernel's sockaddr_un has them
ADDRESS = "unix"  # of every client at such a socket, where addresses share


class SocketFolder:
    """The sockets of one server in a folder that exists; who may connect is decided by `mode` and the folder.

    `take` comes first; `release` removes the sockets.
    """

    def __init__(self, folder: Path, mode: int) -> None:
        self._mode, self._lock = mode, -1
        self.paths = {surface: folder.absolute() / name for surface, name in SURFACES.items()}
        self._folder = folder

    def take(self) -> None:
        """Lock the folder and remove what a killed server left. Raises DriverUsageError."""
        longest = max(len(os.fsencode(path)) for path in self.paths.values())
        if longest > LONGEST_PATH:
            raise DriverUsageError(f"the path of a UNIX socket must have at most {LONGEST_PATH} bytes, not {longest}")
        try:
            self._lock = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release(ours=False)
            raise DriverUsageError(
                f"the folder of UNIX sockets must be this server's alone, and another one listens in '{self._folder}'"
            ) from None
        except OSError as error:
            self.release(ours=False)
            raise DriverUsageError(
                f"UNIX sockets must lie in a folder that exists, and '{self._folder}' cannot be used: {error.strerror}"
            ) from None
        try:
            for path in self.paths.values():
                _remove_stale(path)
        except BaseException:
            self.release(ours=False)
            raise

    def bound(self, surface: str) -> socket.socket:
        """Return a socket that does not listen yet, with its mode. Raises DriverUsageError."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.bind(os.fsencode(self.paths[surface]))
            self.paths[surface].chmod(self._mode)
            made.setblocking(False)
        except OSError as error:
            made.close()
            raise DriverUsageError(
                f"a UNIX socket must be made in '{self._folder}', and it cannot be: {error.strerror}"
            ) from None
        return made

    @contextlib.contextmanager
    def binding(self, surface: str) -> Iterator[str]:
        """Give the address for a library that binds and listens by itself, in a `with` block.

        Nobody but the owner can connect before the mode is set.
        """
        before = os.umask(0o177)
        try:
            yield f"unix:{self.paths[surface]}"
        finally:
            os.umask(before)
        self.paths[surface].chmod(self._mode)

    def release(self, *, ours: bool = True) -> None:
        """Remove the sockets, if they are `ours`, and the lock."""
        if self._lock < 0:
            return
        for path in self.paths.values() if ours else ():
            path.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = -1


def _remove_stale(path: Path) -> None:
    """Remove a socket at which nobody listens. Raises DriverUsageError for all else that lies there."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise DriverUsageError(f"the place of a UNIX socket must be free, and '{path}' is another kind of file")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fsencode(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except OSError:  # its queue is full, or it is not for us: somebody is there
            pass
    raise DriverUsageError(f"the place of a UNIX socket must be free, and somebody listens at '{path}'")
