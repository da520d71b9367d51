"""Goodput that is predicted for fleets of simulated boards, beside what they serve over loopback.

    python benchmarks/fleet_goodput.py --boards 1,4,8 --cases exits,two,four

Real processes and the real protocol on this machine, which should have nothing else to do. Networks are the
demo's, their designs' times multiplied, so that each board serves some `--per-board` images a second.
`exits`: a classifier with early exits and an open-loop Poisson client; the largest rate at which 99 % are
answered within five latencies of a lone image. Twin and fleet are given the same arrivals and the same
images, scaled to each rate, so that no draw distinguishes them. `two`: two networks that share every board by
plan, with clients that always have requests open. `four`: an ensemble of four. There the plan is the
prediction.

A host takes time of its own: the way of a request and its answer through client, front and board, and the
gap between two runs of a board. Both are measured first, on the same fleet with other traffic: the way as
the excess of lone requests over the table, the gap by the time that a burst takes. `predicted_per_s` has
them, `of_tables_per_s` has not. Networks that share a board have a thread each, which decides while
another's run is under way, so plans need no gaps. Audits are off, since they are work that no client asked
for. A row says whether it is off by at most `--within`; a busy machine is no reason to fail.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import numpy.typing as npt
from fleet import FLEET, GOOD, IMAGES, front_of, latencies, offered, slowed, whole_plan
from front_end import demo_bundle
from plans import served, write_fleet

from fluidnpu.dse import Design
from fluidnpu.host import Bundle, Driver, SimulatedNpu, serve_requests
from fluidnpu.models import shipped_images
from fluidnpu.scheduler import Policy, Request, Serving, make_policy, placement

NETWORKS = {"two": (2.0, 1.0), "four": (4.0, 3.0, 2.0, 1.0)}  # rates of the networks alone on a board, in shares
PLANNED = 4  # times as fast where requests hold many images, which cost the host less
STEPS = 14  # of a bisection in the twin
LONE, BURST, BURSTS = 24, 40, 3  # lone requests; images of a burst, a board; bursts
Ints = npt.NDArray[np.int64]


def largest(in_time: Callable[[float], float], low: float, high: float, steps: int) -> float:
    """Bisect the largest rate at which enough are in time; `low` is taken to be one."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if in_time(middle) >= GOOD else (low, middle)
    return low


@dataclass(frozen=True)
class Host:
    """Time in ns that this machine adds: to the way of a lone request, and to every run of a board."""

    way_ns: int
    gap_ns: int


def measured_host(urls: dict[str, str], folder: Path, design: Design, policy: Policy, leaves: Ints) -> Host:
    """Measure both, on a fleet that is up: the gap by bursts for one board alone, the way by lone images.

    The gap is that with which the twin takes as long for a burst as the board did (median of several).
    """
    with urlopen(urls["http"] + "/live.json") as answer:
        board = json.load(answer)["boards"][0]["address"]
    fleet, slo_ns = fleet_of(folder, design, 1, 1), 5 * design.latency.between(0, design.stages - 1, 1)
    plan = whole_plan(fleet, design, 1 / Serving.of(design).least_load(1.0), slo_ns)
    burst, at = np.arange(BURST) % IMAGES, np.zeros(BURST, np.int64)
    spent_s = float(np.median([np.nanmax(latencies(board, np.zeros(BURST), burst)) for _ in range(BURSTS)]))
    low, high = 0, 20_000_000
    for _ in range(STEPS):
        gap = (low + high) // 2
        done = placement.serve_fleet_stream(fleet, plan, at, leaves[burst], policy=policy, overhead_ns=gap)
        low, high = (gap, high) if int(done.end_ns.max()) < 1e9 * spent_s else (low, gap)
    lone = np.arange(LONE) * 1.5e-9 * design.latency.between(0, design.stages - 1, 1)
    took = 1e9 * latencies(urls["grpc"], lone, np.arange(LONE))
    least = [design.latency.between(0, exit, 1) + (exit + 1) * low for exit in map(int, leaves[:LONE])]
    return Host(max(0, round(float(np.nanmedian(took - np.array(least))))), low)


def fleet_of(folder: Path, design: Design, boards: int, delay: int) -> placement.Fleet:
    """Write a fleet file for the twin, whose links have a delay in ns, and read it."""
    file = folder / "twin.toml"
    file.write_text(FLEET.format(count=boards, rates=list(design.exit_rates or ()), delay=delay))
    return placement.read_fleet(file, bundle=lambda place: Bundle.read(place).profile)


def exits(folder: Path, boards: int, given: Namespace) -> dict[str, Any]:
    """Return predicted and served goodput of a classifier with exits."""
    demo = Bundle.read(demo_bundle(folder / "demo"))
    pool = shipped_images(IMAGES).images
    driver = Driver(SimulatedNpu(demo.design), demo.program, demo.design)
    driver.load()
    requests = [Request(i, i, 10**15) for i in range(IMAGES)]
    alone = serve_requests(requests, pool, make_policy("serial"), driver)
    leaves = np.array([answer.exit for answer in alone.answers])
    bundle = slowed(demo, given.per_board)
    design = bundle.design
    bundle.write(folder / "slowed")
    slo_ns = 5 * design.latency.between(0, design.stages - 1, 1)
    capacity = boards / Serving.of(design).least_load(1.0)
    rng = np.random.default_rng(given.seed)
    gaps, chosen = rng.exponential(1.0, given.requests), rng.integers(IMAGES, size=given.requests)
    told = 0.7 * capacity  # the rate that every board's policy is made for
    policy = make_policy("fluid", Serving.of(design).setting(told / boards, slo_ns))

    def expected(host: Host) -> float:
        fleet = fleet_of(folder, design, boards, max(1, host.way_ns // 2))
        plan = whole_plan(fleet, design, capacity, slo_ns)

        def in_time(rate: float) -> float:
            at = np.cumsum(gaps * 1e9 / rate).astype(np.int64)
            done = placement.serve_fleet_stream(fleet, plan, at, leaves[chosen], policy=policy, overhead_ns=host.gap_ns)
            return float((done.latency_ns <= slo_ns).mean())

        return largest(in_time, 0.0, 1.2 * capacity, STEPS)

    bare = expected(Host(0, 0))
    (folder / "twin.toml").rename(folder / "fleet.toml")
    seen: dict[float, float] = {}
    with front_of(folder, boards, told, slo_ns, "--audit", "0") as (_, urls):
        host = measured_host(urls, folder, design, policy, leaves)
        predicted = expected(host)

        def measured(rate: float) -> float:
            share, _, errors = offered(urls["grpc"], rate, 0.0, slo_ns / 1e9, gaps=gaps, chosen=chosen)
            seen[round(rate, 2)] = round(100 * share, 2)
            if errors:
                raise SystemExit(f"{errors} requests were refused at {rate:.1f}/s")
            return share

        found = largest(measured, 0.94 * predicted, 1.04 * predicted, given.steps)
        after = measured_host(urls, folder, design, policy, leaves)
    return {
        "of_tables_per_s": round(bare, 2),
        "predicted_per_s": round(predicted, 2),
        "served_per_s": round(found, 2),
        "in_time_pct": seen,
        "way_ms": [round(one.way_ns / 1e6, 2) for one in (host, after)],
        "gap_ms": [round(one.gap_ns / 1e6, 2) for one in (host, after)],
    }


def together(folder: Path, boards: int, given: Namespace, case: str) -> dict[str, Any]:
    """Return the planned and the served rate of networks side by side, or of their ensemble."""
    shares = NETWORKS[case]
    alone = PLANNED * given.per_board * len(shares)  # networks have a part of each board
    rates = {f"n{place}": share * alone / sum(shares) for place, share in enumerate(shares)}
    path, plan = write_fleet(folder, boards, rates)
    # A router of two choices leaves boards uneven, and none may run empty of a network.
    open_ = 4 * boards
    windows = {"all": open_} if case == "four" else dict.fromkeys(rates, open_)
    found = served(path, windows, given.images, given.seconds, turns=True)
    return {
        "predicted_per_s": round(plan.rate_per_s, 3),
        "served_per_s": round(min(found.values()), 3),
        "each_per_s": {model: round(rate, 3) for model, rate in found.items()},
    }


def rows(given: Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row a case and number of boards."""
    for case in given.cases.split(","):
        for boards in map(int, given.boards.split(",")):
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as scratch:
                here = Path(scratch)
                row = exits(here, boards, given) if case == "exits" else together(here, boards, given, case)
            off = row["served_per_s"] / row["predicted_per_s"] - 1
            yield {
                "case": case,
                "boards": boards,
                **row,
                "off_pct": round(100 * off, 2),
                "within": bool(abs(off) <= given.within),
                "took_s": round(time.monotonic() - began),
                "load": round(os.getloadavg()[0], 1),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--boards", default="1,4,8")
    parser.add_argument("--cases", default="exits,two,four")
    parser.add_argument("--per-board", type=float, default=7.5, help="images a second that a board serves")
    parser.add_argument("--requests", type=int, default=400, help="exits: of each stream")
    parser.add_argument("--steps", type=int, default=4, help="exits: streams, each of which halves the range")
    parser.add_argument("--images", type=int, default=8, help="two, four: in a request")
    parser.add_argument("--seconds", type=float, default=60.0, help="two, four: measured")
    parser.add_argument("--within", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for row in rows(given):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
