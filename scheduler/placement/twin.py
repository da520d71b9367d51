"""The twin of a fleet: a plan served in simulated time on many boards, with links, losses and exits.

One event loop over all boards (`scheduler/simulation/fleet.py`), each with a policy as deployed. One board
without links behaves exactly as `simulate`. Times are integer nanoseconds; the same seed gives the same bits.

>>> from fluidnpu.scheduler.placement import place
>>> from fluidnpu.scheduler.placement.testing import toy_fleet
>>> fleet = toy_fleet(2)
>>> plan = place(fleet, slo_ns=10**8).plan
>>> served = serve_plan(fleet, plan, rate_per_s=0.8 * plan.rate_per_s, count=2000, seed=1)
>>> served.answered, served.in_time > 0.99
(2000, True)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from fluidnpu.dse import LatencyTable

from ..errors import FleetError
from ..policies.turns import TurnsPolicy
from ..policies.wrappers.shedding import Shedding
from ..policy import Policy
from ..simulation.fleet import SHARES, Event, FleetPool, FleetSimulator, FrontPlan
from ..simulation.traffic import check_load, draw_exits
from .fleet import Fleet
from .options import DeviceKind, Floats, Space
from .plan import Job, Plan, Pool

NOTICE = 4  # batch times after which the front sends again
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Stages that a pool's policy sees: their durations, where splits begin, and who leaves where.

    `ns[stage, batch - 1]`. `local[exit]`: the stage at which a sample of that exit leaves, -1 when it goes on
    to another pool.
    """

    ns: Ints
    begins: tuple[int, ...]
    batch: tuple[int, ...]
    local: tuple[int, ...]

    @property
    def splits(self) -> tuple[tuple[int, int], ...]:
        """First stage and batch of each split, as `TurnsPolicy` has them."""
        return tuple((stage, batch) for stage, batch in enumerate(self.batch) if self.begins[stage])


def table_of(kind: DeviceKind, jobs: Sequence[Job]) -> Table:
    """Make the stages of a pool's jobs: one ends at each exit that is run, and at each end of a split."""
    blocks, exits = kind.profile.blocks, kind.profile.exits
    rows: list[list[int]] = []
    begins, batch, ends = [], [], {}
    for job in jobs:
        inside = [e for e in exits if job.first <= e <= job.last]
        used = {"on": inside, "last": inside[-1:], "none": [exits[-1]]}[job.ramps]
        start = job.first
        for stop in sorted({*used, job.last}):
            row = np.sum([blocks[k].ns for k in range(start, stop + 1)], axis=0)
            rows.append([int(n) for n in (row + np.array(blocks[stop].head_ns) if stop in used else row)])
            begins.append(int(start == job.first))
            batch.append(job.batch)
            if stop in used:
                ends[stop] = len(rows) - 1
            start = stop + 1
    first, last = jobs[0].first, jobs[-1].last
    local = []
    for end in exits:
        later = [stage for stop, stage in sorted(ends.items()) if stop >= end]
        local.append(later[0] if first <= end <= last and later else -1)
    if any(job.ramps == "none" for job in jobs):
        local = [len(rows) - 1] * len(exits)
    return Table(ns=np.array(rows, np.int64), begins=tuple(begins), batch=tuple(batch), local=tuple(local))


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A device that is lost or comes back at a time."""

    at_ns: int
    device: str
    back: bool = False


@dataclass(frozen=True, kw_only=True)
class Served:
    """A plan as served, columns by request in order of arrival; times in ns.

    `exit`: -1 for a request that was shed. `sent`: times that the front sent it. `events` of the loop, and
    `again`: requests sent again. `runs[pool, batch - 1]`. `passed`: exits before the pool where a request
    was last. `free_ns`: the end of each device's last run.
    """

    arrival_ns: Ints
    end_ns: Ints
    exit: Ints
    sent: Ints
    slo_ns: int
    events: int
    decisions: int
    again: int
    runs: Ints
    passed: Ints
    free_ns: Mapping[str, int]

    @property
    def answered(self) -> int:
        """Requests that were answered."""
        return int((self.exit >= 0).sum())

    @property
    def latency_ns(self) -> Ints:
        """Time from arrival at the front to the answer there, (requests,)."""
        return np.asarray(self.end_ns - self.arrival_ns)

    def counted(self, warmup: float = 0.05) -> Ints:
        """Latencies after a warm-up, (requests,) less those of the warm-up."""
        return self.latency_ns[int(len(self.end_ns) * warmup) :]

    @property
    def in_time(self) -> float:
        """Share of requests within the objective, after a warm-up."""
        counted = self.counted()
        return float(((counted <= self.slo_ns) & (self.exit[-len(counted) :] >= 0)).mean())

    @property
    def rate_per_s(self) -> float:
        """Requests answered a second, between the first arrival and the last answer."""
        span = int(self.end_ns.max() - self.arrival_ns.min())
        return 1e9 * self.answered / span


def serve_plan(
    fleet: Fleet,
    plan: Plan,
    *,
    rate_per_s: float,
    count: int = 20_000,
    seed: int = 0,
    faults: Sequence[Fault] = (),
    exit_rates: Sequence[float] | None = None,
    policy: Policy | None = None,
    choices: int = 2,
    network: str | None = None,
) -> Served:
    """Serve Poisson arrivals by a plan. `exit_rates`: as they are, where the plan believes others.

    `policy`: that of every board, by default the plan's own (splits in turns at their full batches). Raises
    FleetError for what does not fit together and PolicyError for a policy that breaks the rules.
    """
    check_load(rate_per_s, count)
    network = network or plan.networks[0]
    rng = np.random.default_rng(seed)
    rates = exit_rates or fleet.networks[network].exit_rates or (1.0,)
    arrival = np.cumsum(rng.exponential(1e9 / rate_per_s, count)).astype(np.int64)
    exits = draw_exits(rates, count, rng)
    return serve_fleet_stream(
        fleet, plan, arrival, exits, seed=seed, faults=faults, policy=policy, choices=choices, network=network
    )


def serve_fleet_stream(
    fleet: Fleet,
    plan: Plan,
    arrival_ns: NDArray[np.int64],
    exits: NDArray[np.int64],
    *,
    seed: int = 0,
    faults: Sequence[Fault] = (),
    policy: Policy | None = None,
    choices: int = 2,
    network: str | None = None,
    overhead_ns: int = 0,
    shed: bool = False,
    free_ns: Mapping[str, int] | None = None,
) -> Served:
    """Serve these arrivals, sorted, each leaving at its exit if it is let run.

    `arrival_ns` and `exits`: (requests,). `overhead_ns` is added to every run, as `World.overhead_ns`;
    policies and front do not know of it. `shed`: boards drop what can no longer be in time. `free_ns`: when a
    device takes the first request, where that is not at once. Every board has a copy of the policy. Raises as
    `serve_plan`, and FleetError for faults or an overhead that do not fit.
    """
    plan.check(fleet)
    network = network or plan.networks[0]
    if overhead_ns < 0:
        raise FleetError(f"overhead_ns must be at least 0, not {overhead_ns}")
    setting = _Setting(fleet, plan, network, overhead_ns)
    front = replace(setting.front, seed=seed, choices=choices)
    at = {name: k for k, name in enumerate(setting.boards)}
    if odd := sorted({fault.device for fault in faults} - set(at)):
        raise FleetError(f"faults must be of devices that the plan uses, and {', '.join(odd)} are not")
    _check_survivors(setting, faults)
    policies = [policy or TurnsPolicy(splits=table.splits, patience=0) for table in setting.tables]
    done = FleetSimulator(
        front,
        [Shedding(inner) for inner in policies] if shed else policies,
        arrival_ns=arrival_ns.tolist(),
        deadline_ns=(arrival_ns + plan.slo_ns).tolist(),
        exits=np.asarray(exits).tolist(),
        faults=[(fault.at_ns, at[fault.device], Event.BACK if fault.back else Event.LOST) for fault in faults],
        free_ns=[(at[device], time_ns) for device, time_ns in (free_ns or {}).items()],
    ).serve()
    runs = np.zeros((len(front.pools), max(pool.latency.b_max for pool in front.pools)), np.int64)
    for (pool, batch), times in done.runs.items():
        runs[pool, batch - 1] = times
    rows = [(r.answered_ns, r.left, r.route, r.hop, r.sent) for r in done.requests]
    answered, left, route, hop, sent = np.array(rows, np.int64).reshape(-1, 5).T
    return Served(
        arrival_ns=arrival_ns,
        end_ns=answered,
        exit=left,
        sent=sent,
        slo_ns=plan.slo_ns,
        events=done.events,
        decisions=done.decisions,
        again=done.again,
        runs=runs,
        passed=setting.passed(route, hop),
        free_ns={device: done.boards[k].busy_ns for device, k in at.items()},
    )


def _check_survivors(setting: _Setting, faults: Sequence[Fault]) -> None:
    """Raise FleetError for losses after which requests would be sent again for ever."""
    away = set[str]()
    for fault in sorted(faults, key=lambda fault: (fault.at_ns, not fault.back)):
        (away.discard if fault.back else away.add)(fault.device)
    empty = [all(setting.boards[k] in away for k in pool.boards) for pool in setting.front.pools]
    first = {route[0] for route in setting.front.routes}
    later = {pool for route in setting.front.routes for pool in route[1:]}
    if all(empty[pool] for pool in first) or any(empty[pool] for pool in later):
        raise FleetError(
            f"faults must leave or bring back a board of every pool that requests need, and "
            f"{', '.join(sorted(away))} never come back"
        )


class _Setting:
    """A plan as the loop sees it: pools, boards by number, and the front."""

    def __init__(self, fleet: Fleet, plan: Plan, network: str, overhead_ns: int) -> None:
        self.plan, self.network = plan, network
        space = Space.of(fleet, network, plan.slo_ns)
        kinds = {(kind.type, device): kind for kind in space.kinds for device in kind.devices}
        self.places = [k for k, pool in enumerate(plan.pools) if network in pool.networks]
        pools = [plan.pools[k] for k in self.places]
        self.kinds = [kinds[pool.type, pool.devices[0]] for pool in pools]
        self.tables = [table_of(kind, pool.jobs_of(network)) for kind, pool in zip(self.kinds, pools, strict=True)]
        self.boards = [device for pool in pools for device in pool.devices]
        facts = fleet.networks[network]
        size = max(facts.input_bytes, facts.answer_bytes)
        longest = max(int(table.ns[:, max(table.batch) - 1].sum()) for table in self.tables)
        routes, until = self._routes()
        self.front = FrontPlan(
            pools=tuple(self._pools(space, pools, overhead_ns)),
            routes=routes,
            until=until,
            head_ns=fleet.links[fleet.head].transfer_ns(size) if fleet.head and size else 0,
            notice_ns=NOTICE * longest,
        )

    def _pools(self, space: Space, pools: Sequence[Pool], overhead_ns: int) -> Iterator[FleetPool]:
        facts, board = space.network, count()
        for kind, pool, table in zip(self.kinds, pools, self.tables, strict=True):
            jobs, blocks = pool.jobs_of(self.network), kind.profile.blocks
            enters = facts.input_bytes if jobs[0].first == 0 else blocks[jobs[0].first - 1].cut_bytes
            leaves = facts.answer_bytes if jobs[-1].last == space.blocks - 1 else blocks[jobs[-1].last].cut_bytes
            yield FleetPool(
                latency=LatencyTable(ns=tuple(map(tuple, table.ns[:, : max(table.batch)].tolist()))),
                slots=2 * sum(job.batch for job in jobs),
                boards=tuple(islice(board, len(pool.devices))),
                local=table.local,
                rates=self._rates(space, table, jobs[0].first),
                each_ns=self._each_ns(space, table),
                overhead_ns=overhead_ns,
                in_ns=kind.link.transfer_ns(enters),
                out_ns=kind.link.transfer_ns(leaves),
                answer_ns=kind.link.transfer_ns(facts.answer_bytes),
                hop_ns=kind.link.latency_ns,
            )

    def _rates(self, space: Space, table: Table, first: int) -> tuple[float, ...]:
        """Return the share of a pool's samples that leaves at each stage; `first`: of the pool's blocks."""
        rates, exits = np.zeros(len(table.ns)), self.kinds[0].profile.exits
        for end, stage, rate in zip(exits, table.local, space.network.exit_rates or (1.0,), strict=True):
            if end >= first:
                rates[stage] += rate  # who goes on has the stage -1, the last
        return tuple((rates / (rates.sum() or 1.0)).tolist())

    def _each_ns(self, space: Space, table: Table) -> int:
        """Return the device time of one sample at full batches, by which the front predicts."""
        reach = 0.0
        rates = space.network.exit_rates or (1.0,)
        for stage in range(len(table.ns)):
            stays = sum(rate for rate, at in zip(rates, table.local, strict=True) if at < 0 or at >= stage)
            reach += stays * table.ns[stage, table.batch[stage] - 1] / table.batch[stage]
        return max(1, round(reach))

    def _routes(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        """Return the pools of each route, and the routes' shares, summed."""
        ways = [route for route in self.plan.routes if route.network == self.network]
        at = {place: k for k, place in enumerate(self.places)}
        shares: Floats = np.cumsum([route.rate_per_s for route in ways])
        until = np.floor(shares / shares[-1] * SHARES).astype(np.int64).tolist()
        return tuple(tuple(at[place] for place in route.pools) for route in ways), (*until[:-1], SHARES)

    def passed(self, route: Ints, hop: Ints) -> Ints:
        """Return the number of exits before the pool where each request was last."""
        exits = np.array(self.kinds[0].profile.exits)
        before = [int((exits < self.plan.pools[place].jobs_of(self.network)[0].first).sum()) for place in self.places]
        longest = max(map(len, self.front.routes))
        pools = np.array([[*way, *[-1] * (longest - len(way))] for way in self.front.routes])
        return np.asarray(np.array(before, np.int64)[pools[route, np.minimum(hop, longest - 1)]])


def goodput(
    fleet: Fleet,
    plan: Plan,
    *,
    in_time: float = 0.99,
    count: int = 20_000,
    seed: int = 0,
    steps: int = 7,
    exit_rates: Sequence[float] | None = None,
    policy: Policy | None = None,
) -> float:
    """The largest Poisson rate at which a share of requests is within the objective, by bisection.

    Bisected between 0 and 1.3 times the planned capacity, to a hundredth of it.
    """
    low, high = 0.0, 1.3 * plan.rate_per_s / 0.9
    for _ in range(steps):
        middle = (low + high) / 2
        served = serve_plan(
            fleet, plan, rate_per_s=middle, count=count, seed=seed, exit_rates=exit_rates, policy=policy
        )
        low, high = (middle, high) if served.in_time >= in_time else (low, middle)
    return low
