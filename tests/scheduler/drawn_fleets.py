"""Fleets, plans, arrivals and losses drawn by seed, for what must hold of every one of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluidnpu.scheduler.placement import Fault, Fleet, FleetDevice, Job, Link, NetworkFacts, Plan, Pool, Profile, Route
from fluidnpu.scheduler.placement.fleet import DeviceType
from fluidnpu.scheduler.placement.profile import Block

MS = 10**6


@dataclass(frozen=True, kw_only=True)
class DrawnFleet:
    """A plan on its fleet with what arrives, when, and which boards are lost and come back."""

    fleet: Fleet
    plan: Plan
    arrival_ns: NDArray[np.int64]
    exits: NDArray[np.int64]
    faults: tuple[Fault, ...]
    overhead_ns: int
    free_ns: dict[str, int]
    choices: int


def drawn_fleet(seed: int, requests: int = 80) -> DrawnFleet:
    """Draw a fleet of one or two types, a plan of chains over pools, requests and losses.

    Half of them keep all times in whole milliseconds, so that many events meet at one nanosecond.
    """
    rng = np.random.default_rng(seed)
    unit = int(rng.choice([1, MS]))
    blocks = int(rng.integers(1, 5))
    fleet, pools, routes = _planned(rng, unit, blocks)
    plan = Plan(
        fleet=fleet.digest,
        objective="goodput",
        slo_ns=int(rng.integers(5, 60)) * MS,
        pools=pools,
        routes=routes,
        rate_per_s=100.0,
    )
    span = requests * int(rng.integers(1, 6)) * MS
    arrival = np.sort(rng.integers(0, span, requests)) // unit * unit
    exits = rng.integers(0, len(fleet.networks["net"].exit_rates or ()), requests)
    devices = [device for pool in pools for device in pool.devices]
    return DrawnFleet(
        fleet=fleet,
        plan=plan,
        arrival_ns=arrival.astype(np.int64),
        exits=exits.astype(np.int64),
        faults=_losses(rng, unit, devices, span),
        overhead_ns=int(rng.choice([0, MS])),
        free_ns={devices[0]: int(rng.integers(1, 20)) * MS} if rng.random() < 0.3 else {},
        choices=int(rng.integers(1, 4)),
    )


def _planned(rng: np.random.Generator, unit: int, blocks: int) -> tuple[Fleet, tuple[Pool, ...], tuple[Route, ...]]:
    """Draw types, then routes of one to three pools each, of which two may share their last pool."""
    ends = sorted({blocks - 1, *rng.integers(0, blocks, 2).tolist()})
    b_max = int(rng.integers(1, 5))
    types = {f"type{k}": _type(rng, f"type{k}", unit, ends, blocks, b_max) for k in range(int(rng.integers(1, 3)))}
    pools: list[Pool] = []
    routes: list[Route] = []
    for number in range(int(rng.integers(1, 3))):
        stops = sorted({*rng.integers(0, blocks, int(rng.integers(0, 3))).tolist(), blocks - 1})
        places, first = [], 0
        for last in stops:
            same = [k for k, pool in enumerate(pools) if (pool.jobs[0].first, pool.jobs[-1].last) == (first, last)]
            if same and first and rng.random() < 0.7:
                places.append(same[0])
            else:
                kind = str(rng.choice(list(types)))
                names = tuple(f"board{len(pools)}-{n}" for n in range(int(rng.integers(1, 4))))
                places.append(len(pools))
                pools.append(Pool(type=kind, devices=names, jobs=_jobs(rng, first, last, blocks, b_max)))
            first = last + 1
        routes.append(Route(network="net", pools=tuple(places), rate_per_s=float(rng.integers(1, 9) + number)))
    rates = rng.dirichlet(np.ones(len(ends)))
    links = {"lan": Link(name="lan", bytes_per_s=10**6, latency_ns=int(rng.integers(0, 3)) * MS)}
    fleet = Fleet(
        name="drawn",
        networks={
            "net": NetworkFacts(
                name="net",
                exit_rates=(*map(float, rates[:-1]), float(1 - rates[:-1].sum())),
                input_bytes=int(rng.integers(0, 3)) * 1000,
                answer_bytes=int(rng.integers(0, 2)) * 1000,
            )
        },
        types=types,
        links=links,
        head="lan" if rng.random() < 0.3 else "",
        devices=tuple(FleetDevice(name=n, type=pool.type, link="lan") for pool in pools for n in pool.devices),
    )
    return fleet, tuple(pools), tuple(routes)


def _type(rng: np.random.Generator, name: str, unit: int, ends: list[int], blocks: int, b_max: int) -> DeviceType:
    def time_ns(most_ms: int) -> int:
        return max(1, int(rng.integers(1, most_ms * MS)) // unit) * unit

    made = []
    for k in range(blocks):
        alone, more = time_ns(4), time_ns(3)
        head = time_ns(2)
        made.append(
            Block(
                name=f"b{k}",
                ns=tuple(alone + more * b for b in range(b_max)),
                head_ns=(head,) * b_max if k in ends else (),
                exit=f"exit{k}" if k in ends else "",
                cut_bytes=int(rng.integers(1, 4)) * 1000,
                weights_bytes=1000,
            )
        )
    return DeviceType(name=name, memory_bytes=1 << 30, profiles={"net": Profile(network="net", blocks=tuple(made))})


def _jobs(rng: np.random.Generator, first: int, last: int, blocks: int, b_max: int) -> tuple[Job, ...]:
    """Draw the splits of a pool: one job, or two one after the other."""
    spans = [(first, last)]
    if last > first and rng.random() < 0.5:
        middle = int(rng.integers(first, last))
        spans = [(first, middle), (middle + 1, last)]
    ramps = str(rng.choice(["on", "last", "none"] if (first, last) == (0, blocks - 1) else ["on", "last"]))
    return tuple(
        Job(network="net", first=a, last=b, batch=int(rng.integers(1, b_max + 1)), ramps=ramps) for a, b in spans
    )


def _losses(rng: np.random.Generator, unit: int, devices: list[str], span: int) -> tuple[Fault, ...]:
    """Draw losses and returns in any order, some of a board that is away already; at the end all are back."""
    faults = [
        Fault(
            at_ns=int(rng.integers(0, span)) // unit * unit, device=str(rng.choice(devices)), back=bool(rng.integers(2))
        )
        for _ in range(int(rng.integers(0, 8)))
    ]
    return (*faults, *(Fault(at_ns=span, device=name, back=True) for name in sorted({f.device for f in faults})))
