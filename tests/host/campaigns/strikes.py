"""Faults of a fleet, on order: boards, links, actors, nodes and the front itself are struck, and come back.

A ground knows its kinds of faults and who is at work; `strikes` draws one after another.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol
from urllib.error import URLError
from urllib.request import urlopen

from fluidnpu.host.errors import BoardError
from fluidnpu.host.fleet.boards.board import BoardOptions
from fluidnpu.host.fleet.boards.children import environment
from fluidnpu.host.fleet.boards.leaf import BoardState
from fluidnpu.host.fleet.boards.processes import Process
from fluidnpu.host.fleet.dispatcher import DispatchOptions
from fluidnpu.host.fleet.fronts.front import FleetFront, FleetOptions, open_fleet
from fluidnpu.host.fleet.fronts.shards import ShardedFront
from fluidnpu.host.fleet.roster import Roster
from fluidnpu.host.oip.running import ServeOptions, run_server

from .cable import Cable, Mended
from .cluster import LocalCluster

LASTS_S = (0.2, 1.5)  # a silence
PATIENT: dict[str, Any] = {"hold_s": 600.0, "tries": 10**6, "slo_ns": 600 * 10**9}  # however slow this machine is
Ends = Callable[[], object]


class Ground(Protocol):
    """A fleet that can be struck."""

    kinds: Sequence[str]

    def strike(self, kind: str, name: str, rng: random.Random) -> Ends | None:
        """Strike a board, and return what ends a fault that lasts."""
        ...


class FleetView(Protocol):
    """The boards as their front sees them."""

    def boards(self) -> tuple[list[str], list[str]]:
        """Return the names of boards that are ready, and of those of them that have work."""
        ...

    def resent(self) -> int:
        """Return how many requests were sent again."""
        ...


def strikes(ground: Ground, view: FleetView, rng: random.Random, every_s: float) -> Generator[str, None, None]:
    """Strike one board after another, never the last that is ready; yield the kind of each fault.

    A fault comes after `every_s` seconds on average. All that last end when the generator is closed.
    """
    timers: list[threading.Timer] = []
    lasting: list[Ends] = []
    kinds = itertools.cycle(ground.kinds)
    try:
        while True:
            time.sleep(rng.expovariate(1 / every_s))
            ready, busy = view.boards()
            if len(ready) < 2 or not busy:
                continue
            kind = next(kinds)
            if (ends := ground.strike(kind, rng.choice(busy), rng)) is not None:
                lasting.append(ends)
                timers.append(threading.Timer(rng.uniform(*LASTS_S), ends))
                timers[-1].start()
            yield kind
    finally:
        for timer in timers:
            timer.cancel()
            timer.join()
        for ends in lasting:
            ends()


class BoardProcesses:
    """Simulated boards as processes of this machine, each behind a cable; a context manager.

    They are started again when they end, as a board's own service manager would. `options`: of each board.
    """

    kinds: Sequence[str] = ("killed", "stopped", "cut")

    def __init__(self, model: str, folder: Path, options: Sequence[BoardOptions]) -> None:
        self._processes = {
            f"board-{i}": Process(f"board-{i}", {model: folder}, board_options)
            for i, board_options in enumerate(options)
        }
        self._stack, self.cables = contextlib.ExitStack(), dict[str, Cable]()

    def __enter__(self) -> BoardProcesses:
        """Start all of them. Raises BoardError."""
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(len(self._processes)))
            stack.callback(lambda: [*pool.map(Process.close, self._processes.values())])
            for name, address in zip(
                self._processes, pool.map(lambda process: process.start(), self._processes.values()), strict=True
            ):
                self.cables[name] = stack.enter_context(Cable(address))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cut all links for good, and end all boards."""
        self._stack.close()

    @property
    def addresses(self) -> dict[str, str]:
        """The places at which a front reaches them."""
        return {name: cable.address for name, cable in self.cables.items()}

    def strike(self, kind: str, name: str, rng: random.Random) -> Ends | None:
        """Kill or stop a board's process, or cut its link; a link comes back in any of three ways."""
        pid, cable = self._processes[name].pid, self.cables[name]
        if kind == "cut":
            cable.cut()
            return partial(cable.mend, rng.choice(tuple(Mended)))
        return _signal_process(kind, partial(_signal, pid))


class FrontAndBoards:
    """Boards, and a front in a process of its own that is killed and started again, too."""

    kinds: Sequence[str] = (*BoardProcesses.kinds, "front killed")

    def __init__(self, boards: BoardProcesses, file: Path) -> None:
        self._boards = boards
        self.http, self.grpc = free_port(), free_port()
        self._words = [sys.executable, "-m", __name__, str(file), str(self.http), str(self.grpc)]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> FrontAndBoards:
        """Start the front. Raises BoardError."""
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the front."""
        assert self._process is not None
        self._process.terminate()
        self._process.communicate()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._words, stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise BoardError(f"the front must start on this machine, and it ended with {self._process.wait()}")

    def strike(self, kind: str, name: str, rng: random.Random) -> Ends | None:
        """Strike a board, or kill the front and start it again at once."""
        if kind != "front killed":
            return self._boards.strike(kind, name, rng)
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._start()
        return None

    def boards(self) -> tuple[list[str], list[str]]:
        """Ask the front's live page; none is ready while the front does not answer."""
        rows = self.page().get("boards", [])
        ready = [row for row in rows if row["state"] == BoardState.READY.name]
        return [board["name"] for board in ready], [board["name"] for board in ready if board["open"]]

    def resent(self) -> int:
        """Return how many requests this front has sent again."""
        return int(self.page().get("counts", {}).get("resent", 0))

    def page(self) -> dict[str, Any]:
        """Return the numbers of the front's live page, none where it does not answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self.http}/live.json", timeout=5) as answer:
                numbers: dict[str, Any] = json.loads(answer.read())
                return numbers
        except (URLError, OSError, ValueError):
            return {}


class Actors:
    """Actors of Ray that hold a board each, and the nodes that they run on."""

    kinds: Sequence[str] = ("killed", "node killed", "stopped", "node stopped")

    def __init__(self, front: ShardedFront, cluster: LocalCluster) -> None:
        self._front, self._cluster = front, cluster

    def strike(self, kind: str, name: str, rng: random.Random) -> Ends | None:
        """Kill or stop an actor, or all that runs on its node; another node replaces one that is killed."""
        if kind.startswith("node"):
            return _signal_process(kind, partial(self._node, self._front.nodes[name]))
        return _signal_process(kind, partial(_signal, self._front.pids[name]))

    def _node(self, node: str, number: signal.Signals) -> None:
        order = {signal.SIGKILL: "lose", signal.SIGSTOP: "stop", signal.SIGCONT: "go_on"}[number]
        with contextlib.suppress(BoardError):  # it is gone already
            self._cluster.order(order, node)
            if number == signal.SIGKILL:
                self._cluster.order("add")


class FrontHere:
    """The view of a front in this process."""

    def __init__(self, front: FleetFront) -> None:
        self._front = front

    def boards(self) -> tuple[list[str], list[str]]:
        """Look at the dispatcher's leaves."""
        ready = [leaf for leaf in self._front.dispatcher.leaves if leaf.state is BoardState.READY]
        return [leaf.name for leaf in ready], [leaf.name for leaf in ready if leaf.attempts]

    def resent(self) -> int:
        """Look at the dispatcher's counts."""
        return self._front.dispatcher.counts["resent"]


def _signal_process(kind: str, send: Callable[[signal.Signals], object]) -> Ends | None:
    if kind.endswith("killed"):
        send(signal.SIGKILL)
        return None
    send(signal.SIGSTOP)
    return partial(send, signal.SIGCONT)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def free_port() -> int:
    """Return a port of the loopback that is free, below those that a system gives to connections."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port


def main(words: Sequence[str]) -> None:
    """Serve a fleet file on two ports until SIGTERM: the front of `FrontAndBoards`."""
    file, http, grpc = words
    options = FleetOptions(boards=BoardOptions(slo_ns=10**9), dispatch=DispatchOptions(absent=True, **PATIENT))
    surfaces = ServeOptions(http=int(http), grpc=int(grpc))
    run_server(open_fleet(Roster.read(file), options), surfaces, lambda server: print("{}", flush=True))


if __name__ == "__main__":
    main(sys.argv[1:])
