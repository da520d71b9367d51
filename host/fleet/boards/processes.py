"""Boards that this machine simulates, each a process of its own, started again when it ends."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import BoardError
from .board import BoardOptions
from .children import environment

_log = logging.getLogger("fluidnpu.fleet")
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)  # between restarts of a board that ends again and again
_DRAIN_S = 40.0


class Process:
    """One board's process. It keeps its ports over restarts, since the dispatcher knows it by them."""

    def __init__(self, name: str, folders: Mapping[str, Path], options: BoardOptions) -> None:
        self.name, self._folders, self.options = name, folders, options
        self.address, self.admin, self.restarts = "", "", 0
        self._closing = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._keeper: threading.Thread | None = None

    @property
    def pid(self) -> int:
        """The process of the moment."""
        assert self._process is not None
        return self._process.pid

    def start(self, port: int = 0) -> str:
        """Start the board, on a free port if none is named, and return its address. Raises BoardError."""
        addresses = self._begin(port, 0)
        self.address, self.admin = str(addresses["address"]), str(addresses["admin"])
        self._keeper = threading.Thread(target=self._keep, name=f"keeper of {self.name}", daemon=True)
        self._keeper.start()
        return self.address

    def _begin(self, port: int, admin: int) -> dict[str, Any]:
        words = [f"{model}={folder}" for model, folder in self._folders.items()]
        ports = [f"--port={port}", f"--admin-port={admin}"]
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "fluidnpu.host.fleet.boards.board", *ports, *self.options.words(), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            text=True,
            env=environment(one_thread=self.options.processor),
            start_new_session=True,  # Ctrl-C is for the front, which drains its boards when it has drained itself
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            addresses: dict[str, Any] = json.loads(line)
            return addresses
        except ValueError:
            process.wait()
            raise BoardError(
                f"board '{self.name}' must start on this machine, and its process ended with {process.returncode}"
            ) from None

    def _keep(self) -> None:
        """Start the process again whenever it ends, until `close`."""
        quick = 0
        while not self._closing.is_set():
            assert self._process is not None
            began = time.monotonic()
            code = self._process.wait()
            self._let_go()
            quick = quick + 1 if time.monotonic() - began < 10 * _PAUSES_S[-1] else 0
            if self._closing.wait(_PAUSES_S[min(quick, len(_PAUSES_S) - 1)]):
                return
            _log.warning("board '%s' ended with %s and is started again", self.name, code, extra={"board": self.name})
            with contextlib.suppress(BoardError):  # the port may not be free yet
                self._begin(*(int(place.rpartition(":")[2]) for place in (self.address, self.admin)))
                self.restarts += 1

    def close(self) -> None:
        """Drain the board and wait for its end."""
        self._closing.set()
        self._end()
        if self._keeper is not None:
            self._keeper.join()
        self._end()  # what the keeper was just starting
        self._let_go()

    def _end(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)  # one that is stopped would not hear it
        try:
            self._process.wait(_DRAIN_S)
        except subprocess.TimeoutExpired:
            _log.warning("board '%s' does not end within %g s and is killed", self.name, _DRAIN_S)
            self._process.kill()
            self._process.wait()

    def _let_go(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout) if self._process is not None else ():
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
