"""Four boards and three fronts behind HAProxy, struck while clients know every answer to the bit.

    PYTHONPATH=tests/host python -m campaigns.many_fronts project/bundle --requests 100000

Boards and fronts are killed and stopped, and the balancer's backends taken out, in turns; in the middle the
network is loaded anew on all boards, one at a time, so that other answers are right from then on. Clients of
REST name a key and ask again with it; those of gRPC keep a window open in a stream, and ask again what a
broken stream had not answered. The balancer has the file of docs/how-to/three-servers.md. It prints what the
clients saw, and how long the longest request took that was open when a fault struck. The boards are
simulated, and all of them share this machine's cores.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import logging
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

from fluidnpu.host import Bundle
from fluidnpu.host.fleet.boards.board import BoardOptions
from fluidnpu.host.fleet.boards.children import environment
from fluidnpu.host.fleet.boards.processes import Process
from fluidnpu.models import shipped_images

from .clients import LONGEST_S, Asking, Right
from .fleet import FLEET, NAME, rights_of
from .strikes import Ends, strikes

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "three-servers.md"
NET = "127.0.1."  # in place of the page's 127.0.0.
BALANCER, FRONTS = f"{NET}30", tuple(f"{NET}{number}" for number in (31, 32, 33))
HTTP, GRPC, ADMIN = 8000, 8001, 8002
AGAIN_S = 0.05
RESTART_S = 1.0  # of a front's service manager
MOST_TRIES = 40  # of the load, which faults may strike
OPEN_S = 1.0  # after a fault: requests that begin in this time count as struck


class Rights:
    """The answers that are right: from `begun` on those of either program, from `done` on the new one's."""

    def __init__(self, old: Sequence[Right], new: Sequence[Right]) -> None:
        self._sets = {False: [{one} for one in old], True: [{a, b} for a, b in zip(old, new, strict=True)]}
        self._new = [{one} for one in new]
        self.begun = self.done = False

    def __getitem__(self, place: int) -> Any:
        return _AnyOf(self._new[place] if self.done else self._sets[self.begun][place])


class _AnyOf:
    """Equal to each of a set."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, these: set[Right]) -> None:
        self._these = these

    def __eq__(self, other: object) -> bool:
        return other in self._these


class Keyed(Asking):
    """A client of REST that names a key, and asks again with it. `spans`: begin and end of its requests."""

    spans: list[tuple[float, float]]

    def _one_by_one(self) -> None:
        self.spans, self._connection = [], None
        turn = 0
        while not self._stop.is_set():
            place, began = self._place(turn), time.monotonic()
            turn += 1
            said = self._asked(place, uuid.uuid4().hex)
            self.spans.append((began, time.monotonic()))
            if said is None:
                continue
            rows = {one["name"]: one["data"] for one in said["outputs"]}
            self._check(place, (rows["exit"][0], rows["label"][0], np.float32(rows["logits"]).tobytes()))

    def _asked(self, place: int, key: str) -> dict[str, Any] | None:
        image = self._images[place]
        tensor: dict[str, Any] = {"name": self._input, "datatype": "UINT8", "shape": [1, *image.shape]}
        tensor["parameters"] = {"binary_data_size": image.nbytes}
        head = json.dumps({"inputs": [tensor], "parameters": {"idempotency_key": key}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
        until, problem = time.monotonic() + LONGEST_S, ""
        while time.monotonic() < until:
            try:
                if self._connection is None:
                    self._connection = http.client.HTTPConnection(BALANCER, HTTP, timeout=LONGEST_S)
                self._connection.request("POST", f"/v2/models/{NAME}/infer", head + image.tobytes(), headers)
                answer = self._connection.getresponse()
                content = answer.read()
                if answer.status == 200:
                    found: dict[str, Any] = json.loads(content)
                    return found
                problem = f"{answer.status}: {content[:200]!r}"
                if answer.status not in (429, 502, 503, 504):
                    break
            except (OSError, http.client.HTTPException) as error:
                problem = f"{type(error).__name__}: {error}"
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
            self.seen.again += 1
            time.sleep(AGAIN_S)
        self.seen.errors[problem] += 1
        return None

    _connection: http.client.HTTPConnection | None


class Site:
    """The boards, the fronts and the balancer: what can be struck."""

    kinds: Sequence[str] = ("board killed", "front killed", "board stopped", "front stopped", "backend out")

    def __init__(self, folder: Path, bundle: Path, boards: int) -> None:
        self._folder, self._stack = folder, ExitStack()
        self.folders = [folder / f"board-{number}" for number in range(boards)]
        for place in (folder / "bundle", *self.folders):
            shutil.copytree(bundle, place)
        options = BoardOptions(slo_ns=10**9)
        self.boards = {place.name: Process(place.name, {NAME: place}, options) for place in self.folders}
        self.fronts: dict[str, subprocess.Popen[bytes]] = {}
        self._ending = threading.Event()
        self._keepers: list[threading.Thread] = []
        self.faults: list[tuple[float, str]] = []

    def __enter__(self) -> Site:
        with ExitStack() as stack:
            rows = ""
            for name, process in self.boards.items():
                stack.callback(process.close)
                address = process.start()
                rows += f'[[devices]]\ntype = "board"\nname = "{name}"\naddresses = ["{address}"]\n'
                rows += f'admin = ["{process.admin}"]\n'
            text = FLEET.format(bundle=json.dumps(str(self._folder / "bundle"))) + rows
            (self._folder / "fleet.toml").write_text(text, encoding="utf-8")
            stack.callback(self._end_fronts)
            for host in FRONTS:
                self._keepers.append(threading.Thread(target=self._keep, args=(host,)))
                self._keepers[-1].start()
            for host in FRONTS:
                _until(partial(_ready, host))
            config = re.search(r'title="haproxy.cfg"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)
            assert config is not None
            (self._folder / "haproxy.cfg").write_text(config[1].replace("127.0.0.", NET), encoding="utf-8")
            with (self._folder / "haproxy.log").open("w") as log:
                words = ["haproxy", "-f", "haproxy.cfg"]
                balancer = subprocess.Popen(words, cwd=self._folder, stdout=log, stderr=log)
            stack.callback(_ended, balancer)
            _until(partial(_ready, BALANCER))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _keep(self, host: str) -> None:
        """Start a front whenever it has ended, as its service manager does."""
        words = [sys.executable, "-c", "from fluidnpu.cli import main; main()", "fleet", "fleet.toml", "--allow-absent"]
        words += [f"--host={host}", f"--http={HTTP}", f"--grpc={GRPC}", f"--admin={ADMIN}", "--slo=10s"]
        with (self._folder / f"front-{host}.log").open("a") as log:
            while not self._ending.is_set():
                self.fronts[host] = subprocess.Popen(
                    words, cwd=self._folder, stdout=log, stderr=log, env=environment(), start_new_session=True
                )
                self.fronts[host].wait()
                self._ending.wait(RESTART_S)

    def _end_fronts(self) -> None:
        self._ending.set()
        for process in self.fronts.values():
            _ended(process)
        for keeper in self._keepers:
            keeper.join()

    def strike(self, kind: str, name: str, rng: random.Random) -> Ends | None:
        """Strike a board by its name, or one of the fronts that are up, never the last."""
        what, _, how = kind.partition(" ")
        if what == "board":
            self.faults.append((time.monotonic(), kind))
            return _signalled(how, self.boards[name].pid)
        up = [host for host in FRONTS if _ready(host)]
        if len(up) < 2:
            return None
        host = rng.choice(up)
        self.faults.append((time.monotonic(), kind))
        if what == "backend":
            self._backend(host, "maint")
            return partial(self._backend, host, "ready")
        return _signalled(how, self.fronts[host].pid)

    def _backend(self, host: str, state: str) -> None:
        server = f"front-{FRONTS.index(host) + 1}"
        for backend in ("rest", "grpc"):
            with socket.socket(socket.AF_UNIX) as admin:
                admin.connect(str(self._folder / "haproxy.sock"))
                admin.sendall(f"set server {backend}/{server} state {state}\n".encode())
                admin.recv(1 << 12)

    def boards_seen(self) -> list[dict[str, Any]]:
        """Return the boards as a front that answers sees them."""
        for host in FRONTS:
            with (
                contextlib.suppress(OSError, ValueError),
                urlopen(f"http://{host}:{HTTP}/live.json", timeout=1) as answer,
            ):
                rows: list[dict[str, Any]] = json.loads(answer.read())["boards"]
                return rows
        return []

    def load(self, bundle: Bundle) -> None:
        """Put a bundle into all folders, those of the fronts first."""
        for place in (self._folder / "bundle", *self.folders):
            bundle.write(place)

    def roll(self, rng: random.Random) -> str:
        """Have a front load it on all boards; return what it objects, empty where it does not."""
        host = rng.choice([one for one in FRONTS if _ready(one)] or FRONTS)
        one = http.client.HTTPConnection(host, ADMIN, timeout=300)
        with contextlib.closing(one):
            body, kind = b'{"parameters": {"guard_ms": 500}}', {"Content-Type": "application/json"}
            try:
                one.request("POST", f"/v2/repository/models/{NAME}/load", body, kind)
                answer = one.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException) as error:
                return f"the front at {host} went: {error}"
            return "" if answer.status == 200 else content.decode()[:300]


class Seen:
    """The view of the boards for `strikes`."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def boards(self) -> tuple[list[str], list[str]]:
        """Return the names of boards that are ready; of all of them one may be struck."""
        ready = [one["name"] for one in self._site.boards_seen() if one["state"] == "READY"]
        return ready, ready

    def resent(self) -> int:
        """Return 0: the fronts that knew may be gone."""
        return 0


def _signalled(how: str, pid: int) -> Ends | None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    return None if how == "killed" else partial(_continued, pid)


def _continued(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ready(host: str) -> bool:
    with contextlib.suppress(OSError), urlopen(f"http://{host}:{HTTP}/v2/health/ready", timeout=1) as answer:
        return bool(answer.status == 200)
    return False


def _until(true: Any) -> None:
    until = time.monotonic() + LONGEST_S
    while not true():
        if time.monotonic() > until:
            raise SystemExit(f"a front or the balancer did not start within {LONGEST_S:g} s")
        time.sleep(0.1)


def changed(bundle: Bundle) -> Bundle:
    """Return the same network with other thresholds, so that samples leave elsewhere."""
    exits = tuple(replace(exit_, threshold=exit_.threshold and exit_.threshold / 2) for exit_ in bundle.program.exits)
    return replace(bundle, program=replace(bundle.program, exits=exits))


def waits(faults: Sequence[tuple[float, str]], spans: Sequence[tuple[float, float]]) -> dict[str, dict[str, float]]:
    """Return by kind of fault the longest request that was open when it struck: median and most, in s."""
    found: dict[str, list[float]] = defaultdict(list)
    for at, kind in faults:
        found[kind].append(max((end - began for began, end in spans if began < at + OPEN_S and end > at), default=0.0))
    return {
        kind: {"faults": len(each), "median": round(sorted(each)[len(each) // 2], 3), "most": round(max(each), 3)}
        for kind, each in sorted(found.items())
    }


def measured(
    bundle: Path,
    images: Any,
    requests: int,
    *,
    boards: int,
    clients: int,
    window: int,
    every_s: float,
    seed: int,
) -> dict[str, Any]:
    """Ask until so many requests are answered; strike all the time, and load anew in the middle."""
    old, rng, stop = Bundle.read(bundle), random.Random(seed), threading.Event()
    new = changed(old)
    rights = Rights(rights_of(old, images), rights_of(new, images))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fluidnpu-fronts-") as scratch, Site(Path(scratch), bundle, boards) as site:
        common: dict[str, Any] = {"window": window, "patient": True}
        asking = [
            kind(number, url, NAME, images, rights, old.program.input, stop, **common)  # type: ignore[arg-type]
            for number in range(clients)
            for kind, url in ((Keyed, f"http://{BALANCER}:{HTTP}"), (Asking, f"{BALANCER}:{GRPC}"))
        ]
        threads = [threading.Thread(target=one.run, daemon=True) for one in asking]
        for thread in threads:
            thread.start()
        struck = strikes(site, Seen(site), rng, every_s)
        rolling = _Rolling(site, new, rights, rng, lambda: sum(one.seen.right for one in asking) >= requests // 2)
        told = time.monotonic()
        with contextlib.suppress(KeyboardInterrupt):  # which ends it early, and not without its findings
            while sum(one.seen.right for one in asking) < requests or rolling.is_alive():
                if not any(thread.is_alive() for thread in threads):
                    break
                next(struck)
                rolling.begin()
                if time.monotonic() > told + 30:
                    told = time.monotonic()
                    right = sum(one.seen.right for one in asking)
                    print(f"{right} right, {len(site.faults)} faults", file=sys.stderr, flush=True)
        struck.close()
        stop.set()
        for thread in threads:
            thread.join(2 * LONGEST_S)
        took_s = time.monotonic() - began
        rolling.join()
    errors: Counter[str] = sum((one.seen.errors for one in asking), Counter())
    spans = [span for one in asking if isinstance(one, Keyed) for span in one.spans]
    counts = {name: sum(getattr(one.seen, name) for one in asking) for name in ("right", "wrong", "doubled")}
    return {
        **counts,
        "again_rest": sum(one.seen.again for one in asking if isinstance(one, Keyed)),
        "again_streams": sum(one.seen.again for one in asking if not isinstance(one, Keyed)),
        "lost": errors.total(),
        "errors": dict(errors),
        "longest_wait_s": waits(site.faults, spans),
        "load": {
            "done": rights.done,
            "tries": rolling.tries,
            "seconds": round(rolling.took_s, 1),
            "objections": rolling.objections,
        },
        "seconds": round(took_s),
        "load_average": [round(one, 1) for one in os.getloadavg()],
    }


class _Rolling(threading.Thread):
    """The rolling load, in a thread of its own: tried again where a fault has struck it."""

    def __init__(self, site: Site, new: Bundle, rights: Rights, rng: random.Random, due: Any) -> None:
        super().__init__(daemon=True)
        self._site, self._new, self._rights, self._rng, self._due = site, new, rights, rng, due
        self.tries, self.took_s, self.objections = 0, 0.0, list[str]()
        self._begun = False

    def begin(self) -> None:
        """Begin when it is due."""
        if not self._begun and self._due():
            self._begun = True
            self.start()

    def join(self, timeout: float | None = None) -> None:
        """Wait for it, where it has begun."""
        if self._begun:
            super().join(timeout)

    def run(self) -> None:
        """Load until it is done."""
        self._rights.begun = True
        self._site.load(self._new)
        while self.tries < MOST_TRIES:
            self.tries += 1
            began = time.monotonic()
            objection = self._site.roll(self._rng)
            self.took_s = time.monotonic() - began
            if not objection:
                time.sleep(2.0)  # answers of before are on their way
                self._rights.done = True
                return
            self.objections.append(objection)
            time.sleep(1.0)


def main() -> int:
    """Run it; 1 where an answer was wrong, doubled or lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--images", type=Path, metavar="FILE.npy", help="(N, H, W, C), uint8; else the shipped ones")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--boards", type=int, default=4)
    parser.add_argument("--clients", type=int, default=2, help="of each transport")
    parser.add_argument("--window", type=int, default=16, help="requests that a gRPC client keeps open")
    parser.add_argument("--every", type=float, default=4.0, metavar="SECONDS", help="between faults, on average")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.getLogger("fluidnpu").setLevel(logging.CRITICAL)  # failures are meant
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended early, it says what it found
    if shutil.which("haproxy") is None:
        raise SystemExit("this needs HAProxy (Debian's package haproxy)")
    found = measured(
        given.bundle.resolve(),
        shipped_images(64).images if given.images is None else np.load(given.images),
        given.requests,
        boards=given.boards,
        clients=given.clients,
        window=given.window,
        every_s=given.every,
        seed=given.seed,
    )
    print(json.dumps(found, indent=1))
    return int(bool(found["wrong"] or found["doubled"] or found["lost"]) or not found["load"]["done"])


if __name__ == "__main__":
    raise SystemExit(main())
