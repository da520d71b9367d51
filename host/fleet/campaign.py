"""A campaign against a fleet: boards are killed and stopped; no answer may be wrong, missing or doubled.

    python -m fluidnpu.host.fleet.campaign project/bundle --boards 3 --faults 100

Simulated boards run as processes of this machine. Clients of both transports ask for answers that are known,
to the bit; meanwhile boards get SIGKILL, or SIGSTOP for a while, which a front cannot tell from a link that
is cut. Every request must be answered, once. `--lying` adds a board whose results are wrong. With `--engine
ray` every board is a shard in an actor of Ray, which is what is struck.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import os
import queue
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from fluidnpu.models import shipped_images
from fluidnpu.scheduler import Request, make_policy

from ..bundle import Bundle
from ..devices.simulated import SimulatedNpu
from ..driver import Driver
from ..errors import HostError
from ..oip.client import connect
from ..oip.messages import SERVICE, message
from ..oip.running import ServeOptions, in_background
from ..serving.replies import Image
from ..serving.stream import serve_requests
from .board import BoardOptions
from .front import FleetFront, FleetOptions
from .leaf import State
from .roster import Roster, Seat
from .shards import ShardedFront, ShardOptions

NAME = "campaign"
FLEET = """
schema = 1
name = "campaign"
[networks.campaign]
[links.loopback]
bytes_per_s = 117_700_000
[types.board]
memory_bytes = 1_000_000_000
networks.campaign.bundle = {bundle}
[[devices]]
type = "board"
count = {count}
"""
LONGEST_S = 60.0  # a request without an answer by then has none
STOPPED_S = (0.2, 1.5)  # of a board that hangs
MOST_STRIKES = 20  # times the wanted faults, until one has met a board in the midst of a request
Right = tuple[int, int, bytes]  # exit, class and the bytes of the logits


@dataclass(kw_only=True)
class Findings:
    """The answers that the clients saw, and the fleet's own account of the same time."""

    right: int = 0
    wrong: int = 0
    doubled: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    boards: dict[str, dict[str, Any]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    noticed_s: list[float] = field(default_factory=list)
    served: int = 0  # samples, as the front counts them
    took_s: float = 0.0

    @property
    def clean(self) -> bool:
        """True when every request was answered, rightly and once."""
        return not (self.wrong or self.doubled or self.errors) and self.right > 0

    def summary(self) -> dict[str, Any]:
        """Return the counts, and how long hung boards went unnoticed."""
        times = sorted(self.noticed_s)
        return {
            "right": self.right,
            "wrong": self.wrong,
            "doubled": self.doubled,
            "errors": dict(self.errors),
            "faults": dict(self.faults),
            "noticed_ms": {"median": round(1e3 * times[len(times) // 2], 1), "most": round(1e3 * times[-1], 1)}
            if times
            else {},
            "fleet": self.counts,
            "boards": self.boards,
            "seconds": round(self.took_s, 1),
        }


def rights_of(bundle: Bundle, images: Sequence[Image] | Image) -> list[Right]:
    """Return the answer to every image under the program's thresholds, one after another on one NPU."""
    driver = Driver(SimulatedNpu(bundle.design), bundle.program, bundle.design)
    driver.load()
    requests = [Request(i, i, 10**15) for i in range(len(images))]
    served = serve_requests(requests, images, make_policy("serial"), driver)
    return [(one.exit, one.prediction, np.float32(one.logits).tobytes()) for one in served.answers]


def roster_of(folder: Path | str, boards: int) -> Roster:
    """Return a fleet of equal boards, all to be started here."""
    folder = Path(folder)
    bundle = Bundle.read(folder)
    seat = Seat(name="", address="", folders={NAME: folder}, bundles={NAME: bundle})
    return Roster(name=NAME, seats=tuple(replace(seat, name=f"board-{i}") for i in range(boards)))


def run_campaign(
    folder: Path | str,
    images: Sequence[Image] | Image,
    faults: int,
    *,
    boards: int = 3,
    requests: int = 0,
    seed: int = 0,
    clients: int = 4,
    every_s: float = 1.0,
    pause_s: float = 0.0,
    lying: float = 0.0,
    options: FleetOptions | None = None,
    engine: str = "local",
) -> Findings:
    """Ask until `faults` have struck and `requests` are answered, and return what was seen.

    A fault strikes every `every_s` seconds on average a board that is at work, never the last one that is
    ready; a client pauses `pause_s` after each answer. More faults strike while none has cost a request its
    board: an answer may be under way when its board is struck. `lying`: share of jobs in which one more
    board, the last, gives wrong bits; the campaign also waits until it is found, a minute at most. `engine`:
    local, or ray, where actors are struck that hold a board each; those have no board that lies.
    """
    bundle = Bundle.read(folder)
    rights = rights_of(bundle, images)
    options = options or FleetOptions(boards=BoardOptions(slo_ns=10**9))
    found, began, stop = Findings(), time.monotonic(), threading.Event()
    fronts: list[FleetFront] = []
    scratch = tempfile.TemporaryDirectory(prefix="fluidnpu-campaign-")
    file = Path(scratch.name) / "fleet.toml"
    file.write_text(FLEET.format(bundle=json.dumps(str(Path(folder).resolve())), count=boards), encoding="utf-8")
    roster = Roster.read(file) if engine == "ray" else roster_of(folder, boards + bool(lying))

    def opened(limits: Any, version: str) -> FleetFront:
        if engine == "ray":
            one = ShardOptions(boards=1)
            fronts.append(ShardedFront(roster, options, limits, version, file=file, shards=one))
            return fronts[-1]
        fronts.append(FleetFront(roster, options, limits, version))
        if lying:
            fronts[-1].liars = {roster.seats[-1].name: lying}
        return fronts[-1]

    with scratch, in_background(opened, ServeOptions(http=0, grpc=0)) as server:
        asking = [
            _Asking(
                index, server.url("grpc" if index % 2 else "http"), images, rights, bundle.program.input, stop, pause_s
            )
            for index in range(clients)
        ]
        threads = [threading.Thread(target=one.run, daemon=True) for one in asking]
        for thread in threads:
            thread.start()
        struck, dispatcher = _strikes(fronts[0], random.Random(seed), every_s), fronts[0].dispatcher
        while any(thread.is_alive() for thread in threads):
            count = sum(found.faults.values())
            in_vain = not dispatcher.counts["resent"] and count < MOST_STRIKES * faults
            at_large = bool(lying) and dispatcher.leaves[-1].state is not State.SICK
            if count < faults or in_vain:
                found.faults[next(struck)] += 1
            elif sum(one.found.right for one in asking) >= requests and not (
                at_large and time.monotonic() - began < LONGEST_S
            ):
                break
            else:
                time.sleep(0.02)
        struck.close()
        stop.set()
        for thread in threads:
            thread.join(2 * LONGEST_S)
        found.boards = {
            leaf.name: {"state": leaf.state.name, "reason": leaf.reason, **dict(sorted(leaf.counts.items()))}
            for leaf in fronts[0].dispatcher.leaves
        }
        found.counts = dict(sorted(fronts[0].dispatcher.counts.items()))
        found.noticed_s, found.served = fronts[0].dispatcher.noticed_s, fronts[0].counts[NAME].samples
    for one in asking:
        found.right, found.wrong = found.right + one.found.right, found.wrong + one.found.wrong
        found.doubled += one.found.doubled
        found.errors += one.found.errors
    found.took_s = time.monotonic() - began
    return found


def _strikes(front: FleetFront, rng: random.Random, every_s: float) -> Generator[str, None, None]:
    """Strike one board after another; yield the name of each fault. All boards go on when it is closed."""
    timers: list[tuple[threading.Timer, int]] = []
    kinds = itertools.cycle(("killed", "stopped"))
    try:
        while True:
            time.sleep(rng.expovariate(1 / every_s))
            ready = [leaf for leaf in front.dispatcher.leaves if leaf.state is State.READY]
            busy = [leaf for leaf in ready if leaf.attempts]
            if len(ready) < 2 or not busy:
                continue
            name = rng.choice(busy).name
            pid = front.pids[name] if isinstance(front, ShardedFront) else front.processes[name].pid
            kind = next(kinds)
            _signal(pid, signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
            if kind == "stopped":
                timer = threading.Timer(rng.uniform(*STOPPED_S), _signal, (pid, signal.SIGCONT))
                timer.start()
                timers.append((timer, pid))
            yield kind
    finally:
        for timer, pid in timers:
            timer.cancel()
            _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class _Asking:
    """One client that asks until it is stopped: over HTTP one by one, over gRPC a window in a stream."""

    def __init__(
        self,
        index: int,
        url: str,
        images: Sequence[Image] | Image,
        rights: Sequence[Right],
        input: str,
        stop: threading.Event,
        pause_s: float,
    ) -> None:
        self._index, self._url, self._images, self._rights = index, url, images, rights
        self._input, self._stop, self._pause_s, self.found = input, stop, pause_s, Findings()

    def run(self) -> None:
        """Ask until the end; note errors of any kind."""
        try:
            if "//" in self._url:
                self._one_by_one()
            else:
                self._streamed()
        except Exception as error:  # a client that dies has seen something that it should not
            self.found.errors[f"{type(error).__name__}: {error}"] += 1

    def _place(self, turn: int) -> int:
        return (self._index + 7 * turn) % len(self._images)

    def _one_by_one(self) -> None:
        with connect(self._url, NAME, timeout_s=LONGEST_S) as client:
            for turn in _counted(self._stop):
                place = self._place(turn)
                try:
                    answer = client.infer(self._images[place])
                except HostError as error:
                    self.found.errors[f"{type(error).__name__}: {error}"] += 1
                else:
                    self._check(place, (answer.exit, answer.prediction, answer.logits.tobytes()))

    def _streamed(self, window: int = 4) -> None:
        asked: queue.Queue[Any] = queue.Queue()
        open_: dict[str, int] = {}
        turns = _counted(self._stop)

        def ask() -> bool:
            turn = next(turns, None)
            if turn is None:
                return False
            place = open_[str(turn)] = self._place(turn)
            image = self._images[place]
            request = message("ModelInferRequest")(model_name=NAME, id=str(turn))
            request.inputs.add(name=self._input, datatype="UINT8", shape=(1, *image.shape))
            request.raw_input_contents.append(image.tobytes())
            asked.put(request.SerializeToString())
            return True

        with grpc.insecure_channel(self._url) as channel:
            call = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")(iter(asked.get, None), timeout=1e5)
            for _ in range(window):
                ask()
            while open_:
                self._take(message("ModelStreamInferResponse").FromString(next(call)), open_)
                ask()
            asked.put(None)
            for said in call:  # nothing is left to be answered
                self._take(message("ModelStreamInferResponse").FromString(said), open_)

    def _take(self, said: Any, open_: dict[str, int]) -> None:
        answer = said.infer_response
        place = open_.pop(answer.id, None)
        if place is None:
            self.found.doubled += 1
        elif said.error_message:
            self.found.errors[said.error_message] += 1
        else:
            rows = dict(zip((one.name for one in answer.outputs), answer.raw_output_contents, strict=True))
            exit, label = (int(np.frombuffer(rows[name], np.int32)[0]) for name in ("exit", "label"))
            self._check(place, (exit, label, rows["logits"]))

    def _check(self, place: int, answer: Right) -> None:
        time.sleep(self._pause_s)
        if answer == self._rights[place]:
            self.found.right += 1
        else:
            self.found.wrong += 1


def _counted(stop: threading.Event) -> Iterator[int]:
    turn = 0
    while not stop.is_set():
        yield turn
        turn += 1


def main(words: Sequence[str] | None = None) -> int:
    """Run a campaign from the command line; 1 when an answer was wrong, missing or came twice."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--boards", type=int, default=3)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--lying", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    if given.engine == "ray" and given.lying:
        parser.error("--lying is for the engine local: an actor of Ray starts honest boards")
    logging.getLogger("fluidnpu").setLevel(logging.CRITICAL)  # hundreds of failures are meant
    images = shipped_images(64).images
    found = run_campaign(
        given.bundle,
        images,
        given.faults,
        boards=given.boards,
        requests=given.requests,
        seed=given.seed,
        every_s=given.every,
        lying=given.lying,
        engine=given.engine,
    )
    print(json.dumps(found.summary(), indent=1))
    return int(not found.clean)


if __name__ == "__main__":
    raise SystemExit(main())
