"""Fleets for tests: a small network on boards that take milliseconds, as processes or as servers in here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from host_worlds import HOUR_NS, PATIENCE_S, HostWorld, world
from oip_worlds import bundle_of

from fluidnpu.host import Bundle
from fluidnpu.host.fleet import BoardOptions, DispatchOptions, FleetFront, FleetOptions, Roster, dispatcher
from fluidnpu.host.fleet.boards import processes
from fluidnpu.host.fleet.boards.processes import Process
from fluidnpu.host.fleet.fronts import steering
from fluidnpu.host.oip import NetworkServer, ServeOptions, in_background
from fluidnpu.scheduler.placement import Job, Plan, Pool, Route, read_fleet

dispatcher.FIRST_S = steering.RETURN_S = processes._DRAIN_S = PATIENCE_S  # no test is about these limits

NAME = "small"
FLEET = """
schema = 1
name = "a small fleet"
[networks.small]
[links.loopback]
bytes_per_s = 117_700_000
[types.board]
memory_bytes = 1_000_000_000
networks.small.bundle = "bundle"
"""


def slow_world() -> HostWorld:
    """A network whose stages take 1.4 to 4 ms, so that a host can keep up."""
    return world(3, loaded=False, millis=True)


def fleet_file(folder: Path, devices: str, w: HostWorld | None = None) -> Path:
    """Write a bundle and a fleet file with these devices."""
    bundle_of(slow_world() if w is None else w, folder / "bundle")
    path = folder / "fleet.toml"
    path.write_text(FLEET + devices)
    return path


def plan_of(path: Path, *pools: tuple[int, int, int, str], devices: Sequence[int]) -> Path:
    """Write a plan of a chain of pools: (first, last, batch, ramps) and so many boards each."""
    place = read_fleet(path, bundle=lambda folder: Bundle.read(folder).profile)
    names = [one.name for one in place.devices]
    made, at = [], 0
    for (first, last, batch, ramps), count in zip(pools, devices, strict=True):
        job = Job(network=NAME, first=first, last=last, batch=batch, ramps=ramps, rate_per_s=50.0)
        made.append(Pool(type="board", devices=tuple(names[at : at + count]), jobs=(job,)))
        at += count
    route = Route(network=NAME, pools=tuple(range(len(made))), rate_per_s=50.0)
    plan = Plan(
        fleet=place.digest, objective="goodput", slo_ns=10**9, pools=tuple(made), routes=(route,), rate_per_s=50.0
    )
    file = path.parent / "plan.json"
    file.write_text(plan.dumps())
    return file


@contextmanager
def boards(*folders: Path) -> Iterator[list[str]]:
    """Serve bundles on simulated boards, each a process; yield their addresses.

    In processes also because grpc.aio shares one queue between all event loops of a process, and complains.
    """
    made = [Process(folder.name, {NAME: folder}, BoardOptions(slo_ns=10**9)) for folder in folders]
    try:
        yield [one.start() for one in made]
    finally:
        for one in made:
            one.close()


@contextmanager
def fleet(
    path: Path, *, plan: Path | None = None, boards: BoardOptions | None = None, **dispatch: Any
) -> Iterator[tuple[NetworkServer, FleetFront]]:
    """Serve a fleet file in the background; a busy machine's boards are not late."""
    options = FleetOptions(
        boards=boards or BoardOptions(slo_ns=10**9),
        dispatch=DispatchOptions(**{"slo_ns": HOUR_NS, "allowance_s": PATIENCE_S, "hold_s": PATIENCE_S, **dispatch}),
    )
    fronts: list[FleetFront] = []

    def opened(limits: Any, version: str) -> FleetFront:
        fronts.append(FleetFront(Roster.read(path, plan), options, limits, version))
        return fronts[-1]

    with in_background(opened, ServeOptions(http=0, grpc=0)) as server:
        yield server, fronts[0]
