"""Co-located networks as their plan says: the rate that a fleet of simulated boards serves beside the
planned one.

    python benchmarks/plans.py --boards 2 --seconds 30

Networks are the demo's, each with its design's times multiplied, so that they differ and this machine has
time for the protocol. `place_together` plans them without headroom; the front executes the plan over real
processes and the real protocol, with clients that always have requests open. Each case is served twice: in
turns by planned weights, and first come, first served (the same front without lines). `together`: an
ensemble of all networks. `apart`: one client a network, the first of which keeps ten times as much open.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from fleet import slowed
from front_end import demo_bundle

import fluidnpu
from fluidnpu.host import Bundle
from fluidnpu.host.fleet import BoardOptions, DispatchOptions, FleetFront, FleetOptions, Roster
from fluidnpu.host.oip import ServeOptions, in_background
from fluidnpu.models import shipped_images
from fluidnpu.scheduler import placement

IMAGES = 64  # few, so that boards have computed them all before they are measured
HEAD = """schema = 1
name = "networks together"
[links.loopback]
bytes_per_s = 117_700_000
[types.board]
memory_bytes = 1_073_741_824
[[devices]]
type = "board"
count = {count}
[ensembles.all]
networks = {networks}
"""
NETWORK = """[networks.{name}]
exit_rates = {rates}
[types.board.networks.{name}]
bundle = "{name}"
"""


def write_fleet(folder: Path, boards: int, rates: dict[str, float]) -> tuple[Path, placement.Plan]:
    """Write bundles that one board serves at `rates` alone, the fleet, and its plan without headroom."""
    demo = Bundle.read(demo_bundle(folder / "demo"))
    text = HEAD.format(count=boards, networks=json.dumps(list(rates)))
    for name, rate in rates.items():
        bundle = slowed(demo, rate, IMAGES)
        bundle.write(folder / name)
        text += NETWORK.format(name=name, rates=list(bundle.design.exit_rates or ()))
    path = folder / "fleet.toml"
    path.write_text(text)
    fleet = placement.read_fleet(path, bundle=lambda place: Bundle.read(place).profile)
    plan = placement.place_together(fleet, slo_ns=600 * 10**9, headroom=0.0)
    (folder / "plan.json").write_text(plan.dumps())
    return path, plan


class Clients:
    """Threads that each keep a request of `images` open; `answered_s`: when answers came, by model."""

    def __init__(self, url: str, windows: dict[str, int], images: int) -> None:
        self.answered_s: dict[str, list[float]] = {model: [] for model in windows}
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._threads = [
            threading.Thread(target=self._ask, args=(url, model, images, seed), daemon=True)
            for model, window in windows.items()
            for seed in range(window)
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, url: str, model: str, images: int, seed: int) -> None:
        pool = shipped_images(IMAGES).images
        with fluidnpu.connect(url, model, timeout_s=600) as npu:
            for turn in itertools.count():  # through all images, whose exits are those that the plan believes
                if self._stop.is_set():
                    return
                npu.infer(pool[(images * (turn + 5 * seed) + np.arange(images)) % IMAGES], slo_ms=6e5)
                with self._lock:
                    self.answered_s[model].append(time.monotonic())

    def close(self) -> None:
        """Let every client end with its present request."""
        self._stop.set()
        for thread in self._threads:
            thread.join(600)


def served(path: Path, windows: dict[str, int], images: int, seconds: float, *, turns: bool) -> dict[str, float]:
    """Return the samples a second that each model's clients got, after a third of the time to warm up."""
    fronts: list[FleetFront] = []
    options = FleetOptions(
        boards=BoardOptions(slo_ns=600 * 10**9, queue=4096),
        dispatch=DispatchOptions(slo_ns=600 * 10**9, queue=100_000, audit_every=0, allowance_s=5.0),
    )

    def opened(limits: Any, version: str) -> FleetFront:
        fronts.append(FleetFront(Roster.read(path, path.with_name("plan.json")), options, limits, version))
        return fronts[-1]

    with in_background(opened, ServeOptions(http=0, grpc=0)) as server:
        for leaf in fronts[0].dispatcher.leaves:
            leaf.line = leaf.line if turns else None
        clients = Clients(server.url(), windows, images)
        time.sleep(seconds / 3)
        began = time.monotonic()
        time.sleep(seconds)
        ended = time.monotonic()
        clients.close()
    # From answer to answer: to begin or end between two would be off by as much as a request.
    found = {}
    for model, times in clients.answered_s.items():
        inside = sorted(moment for moment in times if began <= moment <= ended)
        found[model] = images * (len(inside) - 1) / (inside[-1] - inside[0]) if len(inside) > 1 else 0.0
    return found


def rows(folder: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row a case and a way of taking turns."""
    rates = {f"n{place}": float(rate) for place, rate in enumerate(given.rates.split(","))}
    path, plan = write_fleet(folder, given.boards, rates)
    cases = {
        "together": {"all": given.open},
        "apart": {name: given.open * (10 if place == 0 else 1) for place, name in enumerate(rates)},
    }
    for case in given.cases.split(","):
        for turns in (True, False):
            found = served(path, cases[case], given.images, given.seconds, turns=turns)
            yield {
                "case": case,
                "turns": "planned weights" if turns else "first come",
                "planned_per_s": round(plan.rate_per_s, 3),
                "served_per_s": {model: round(rate, 3) for model, rate in found.items()},
                "share_of_plan_pct": round(100 * min(found.values()) / plan.rate_per_s, 1),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--boards", type=int, default=2)
    parser.add_argument("--rates", default="40,20,10,5", help="samples a second that one board serves of each network")
    parser.add_argument("--images", type=int, default=8, help="in a request")
    parser.add_argument("--open", type=int, default=4, help="requests that are always open")
    parser.add_argument("--seconds", type=float, default=30.0, help="measured, of each row")
    parser.add_argument("--cases", default="together,apart")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for row in rows(Path(scratch), given):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
