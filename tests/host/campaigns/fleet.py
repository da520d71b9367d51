"""A campaign against a fleet: boards, links and the front fail; no answer may be wrong, missing or doubled.

    PYTHONPATH=tests/host python -m campaigns.fleet project/bundle --boards 3 --faults 100

Simulated boards run as processes of this machine, each behind a link of its own. Clients of both transports
ask for answers that are known, to the bit; meanwhile boards get SIGKILL, or SIGSTOP for a while, and links
are cut: nothing passes, and neither end is notified. Every request must be answered, once. `--front` has the
front in a process of its own, which is killed and started again, too; clients then ask again. `--lying` adds
a board whose results are wrong. With `--engine ray` every board is a shard in an actor of Ray, on a node of
its own: actors are struck, and nodes with all that runs on them. There is a node more than shards, so what
was on a lost one has a place to go.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fluidnpu.host.bundle import Bundle
from fluidnpu.host.devices.simulated import SimulatedNpu
from fluidnpu.host.driver import Driver
from fluidnpu.host.fleet.boards.board import BoardOptions
from fluidnpu.host.fleet.boards.leaf import BoardState
from fluidnpu.host.fleet.dispatcher import Dispatcher
from fluidnpu.host.fleet.fronts.front import FleetFront, FleetOptions
from fluidnpu.host.fleet.fronts.shards import ShardedFront, ShardOptions
from fluidnpu.host.fleet.roster import Roster
from fluidnpu.host.oip.admission.limits import Limits
from fluidnpu.host.oip.running import ServeOptions, in_background
from fluidnpu.host.serving.replies import Image
from fluidnpu.host.serving.stream import serve_requests
from fluidnpu.models import shipped_images
from fluidnpu.scheduler import Request, make_policy

from .clients import LONGEST_S, Asking, Right, SeenAnswers
from .cluster import LocalCluster
from .strikes import Actors, BoardProcesses, FleetView, FrontAndBoards, FrontHere, Ground, strikes

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
"""
TOLD_S = 60.0
MOST_STRIKES = 20  # times the wanted faults, until one has met a board in the midst of a request


@dataclass(kw_only=True)
class FleetFindings(SeenAnswers):
    """The answers that the clients saw, and the fleet's own account of the same time.

    A front that was killed has no account: `served`, `boards`, `noticed_s` and `fleet` are of the last one.
    """

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
            "served": self.served,
            "wrong": self.wrong,
            "doubled": self.doubled,
            "asked_again": self.again,
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
    """Return the answer to every image (H, W, C) under the program's thresholds, on one NPU."""
    driver = Driver(SimulatedNpu(bundle.design), bundle.program, bundle.design)
    driver.load()
    requests = [Request(i, i, 10**15) for i in range(len(images))]
    served = serve_requests(requests, images, make_policy("serial"), driver)
    return [(answer.exit, answer.prediction, np.float32(answer.logits).tobytes()) for answer in served.answers]


def run_campaign(
    folder: Path | str,
    images: Sequence[Image] | Image,
    faults: int,
    *,
    boards: int = 3,
    requests: int = 0,
    seed: int = 0,
    clients: int = 4,
    window: int = 4,
    every_s: float = 1.0,
    pause_s: float = 0.0,
    lying: float = 0.0,
    front: bool = False,
    options: FleetOptions | None = None,
    engine: str = "local",
    report: Callable[[int, int], None] = lambda right, faults: None,
) -> FleetFindings:
    """Ask about images (H, W, C) until `faults` have struck and `requests` are answered; return findings.

    A fault strikes every `every_s` seconds on average a board that is at work, never the last one that is
    ready; a client pauses `pause_s` after each answer, and one of gRPC keeps `window` requests open. More
    faults strike while none has cost a request its board: an answer may be under way when its board is
    struck. `lying`: share of jobs in which one more board, the last, gives wrong bits; the campaign also
    waits until it is found, a minute at most. `front`: the front is a process that is struck, too. `engine`:
    local, or ray, where actors that hold a board each are struck, and nodes; those have no board that lies.
    `told`, now and then: right answers and faults so far. A KeyboardInterrupt ends it early.
    """
    bundle, began, stop = Bundle.read(folder), time.monotonic(), threading.Event()
    rights, findings = rights_of(bundle, images), FleetFindings()
    options = options or FleetOptions(boards=BoardOptions(slo_ns=10**9))
    with ExitStack() as stack:
        if engine == "ray":
            fleet = _in_actors(stack, Path(folder), boards, options)
        else:
            honest = [options.boards] * boards
            liars = [replace(options.boards, wrong_bits=lying)] if lying else []
            all_boards = stack.enter_context(BoardProcesses(NAME, Path(folder).resolve(), [*honest, *liars]))
            made = _apart if front else _on_boards
            fleet = made(stack, Path(folder), all_boards, options)
        asking = [
            Asking(
                index,
                fleet.urls[index % 2],
                NAME,
                images,
                rights,
                bundle.program.input,
                stop,
                pause_s=pause_s,
                window=window,
                patient=front,
            )
            for index in range(clients)
        ]
        threads = [threading.Thread(target=client.run, daemon=True) for client in asking]
        for thread in threads:
            thread.start()
        struck = strikes(fleet.ground, fleet.view, random.Random(seed), every_s)
        with contextlib.suppress(KeyboardInterrupt):  # which ends a campaign early, and not without its findings
            while any(thread.is_alive() for thread in threads):
                count, right = sum(findings.faults.values()), sum(client.seen.right for client in asking)
                in_vain = not front and not fleet.view.resent() and count < MOST_STRIKES * faults
                at_large = bool(lying) and fleet.dispatcher.leaves[-1].state is not BoardState.SICK
                report(right, count)
                if count < faults or in_vain:
                    findings.faults[next(struck)] += 1
                elif right >= requests and not (at_large and time.monotonic() - began < LONGEST_S):
                    break
                else:
                    time.sleep(0.02)
        struck.close()
        stop.set()
        for thread in threads:
            thread.join(2 * LONGEST_S)
        fleet.account(findings)
    for client in asking:
        findings.add(client.seen)
    findings.took_s = time.monotonic() - began
    return findings


@dataclass(frozen=True, kw_only=True)
class _Fleet:
    """A fleet under way: what is struck, who sees it, and the places of HTTP and gRPC."""

    ground: Ground
    view: FleetView
    urls: tuple[str, str]
    front: FleetFront | None = None  # None: in a process of its own

    @property
    def dispatcher(self) -> Dispatcher:
        assert self.front is not None
        return self.front.dispatcher

    def account(self, findings: FleetFindings) -> None:
        """Take note of what the front counts."""
        if self.front is None:
            assert isinstance(self.ground, FrontAndBoards)
            page = self.ground.page()
            findings.counts = dict(page.get("counts", {}))
            findings.boards = {board["name"]: board for board in page.get("boards", [])}
            return
        findings.boards = {
            leaf.name: {"state": leaf.state.name, "reason": leaf.reason, **dict(sorted(leaf.counts.items()))}
            for leaf in self.dispatcher.leaves
        }
        findings.counts = dict(sorted(self.dispatcher.counts.items()))
        findings.noticed_s, findings.served = self.dispatcher.noticed_s, self.front.counts[NAME].samples


def _in_actors(stack: ExitStack, folder: Path, boards: int, options: FleetOptions) -> _Fleet:
    file = _fleet_file(stack, folder, f'[[devices]]\ntype = "board"\ncount = {boards}\n')
    cluster = stack.enter_context(LocalCluster(boards + 1, 1))
    fronts: list[ShardedFront] = []

    def opened(limits: Limits, version: str) -> ShardedFront:
        shards = ShardOptions(boards=1, address=cluster.address)
        fronts.append(ShardedFront(Roster.read(file), options, limits, version, file=file, shards=shards))
        return fronts[-1]

    server = stack.enter_context(in_background(opened, ServeOptions(http=0, grpc=0)))
    urls = (server.url("http"), server.url("grpc"))
    return _Fleet(ground=Actors(fronts[0], cluster), view=FrontHere(fronts[0]), urls=urls, front=fronts[0])


def _on_boards(stack: ExitStack, folder: Path, boards: BoardProcesses, options: FleetOptions) -> _Fleet:
    roster = Roster.read(_fleet_file(stack, folder, _devices(boards)))
    fronts: list[FleetFront] = []

    def opened(limits: Limits, version: str) -> FleetFront:
        fronts.append(FleetFront(roster, options, limits, version))
        return fronts[-1]

    server = stack.enter_context(in_background(opened, ServeOptions(http=0, grpc=0)))
    urls = (server.url("http"), server.url("grpc"))
    return _Fleet(ground=boards, view=FrontHere(fronts[0]), urls=urls, front=fronts[0])


def _apart(stack: ExitStack, folder: Path, boards: BoardProcesses, options: FleetOptions) -> _Fleet:
    file = _fleet_file(stack, folder, _devices(boards))
    front = stack.enter_context(FrontAndBoards(boards, file))
    urls = (f"http://127.0.0.1:{front.http}", f"127.0.0.1:{front.grpc}")
    return _Fleet(ground=front, view=front, urls=urls)


def _devices(boards: BoardProcesses) -> str:
    rows = (f'name = "{name}"\ntype = "board"\naddresses = ["{place}"]\n' for name, place in boards.addresses.items())
    return "".join(f"[[devices]]\n{row}" for row in rows)


def _fleet_file(stack: ExitStack, folder: Path, devices: str) -> Path:
    """Write a fleet file that lives as long as the stack."""
    scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="fluidnpu-campaign-"))
    file = Path(scratch) / "fleet.toml"
    file.write_text(FLEET.format(bundle=json.dumps(str(folder.resolve()))) + devices, encoding="utf-8")
    return file


class _Telling:
    """Tell of a campaign every minute, on standard error."""

    def __init__(self) -> None:
        self._next_s = time.monotonic() + TOLD_S

    def __call__(self, right: int, faults: int) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s += TOLD_S
            print(f"{right} right answers, {faults} faults", file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run a campaign from the command line; 1 when an answer was wrong, missing or came twice."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--boards", type=int, default=3)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--window", type=int, default=4, help="requests that a gRPC client keeps open")
    parser.add_argument("--front", action="store_true", help="the front is a process, which is killed, too")
    parser.add_argument("--lying", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    if given.engine == "ray" and given.lying:
        parser.error("--lying is for the engine local: an actor of Ray starts honest boards")
    if given.front and (given.lying or given.engine == "ray"):
        parser.error(
            "--front is for the engine local, and not with --lying: a front that is killed forgets who is sick"
        )
    logging.getLogger("fluidnpu").setLevel(logging.CRITICAL)  # hundreds of failures are meant
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a campaign that is ended early tells what it found
    images = shipped_images(64).images
    findings = run_campaign(
        given.bundle,
        images,
        given.faults,
        boards=given.boards,
        requests=given.requests,
        seed=given.seed,
        every_s=given.every,
        lying=given.lying,
        window=given.window,
        front=given.front,
        engine=given.engine,
        report=_Telling(),
    )
    print(json.dumps(findings.summary(), indent=1))
    return int(not findings.clean)


if __name__ == "__main__":
    raise SystemExit(main())
