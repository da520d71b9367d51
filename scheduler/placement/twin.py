"""The twin of a fleet: a plan served in simulated time on many boards, with links, losses and exits.

One event loop over all boards (`scheduler/compiled/fleet.py`), each with a policy as deployed. One board
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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..compiled import fleet as loop
from ..compiled.twin import NO_DRAIN, Compiled, Ints, Npu, Stream, Wrappers, twin_of
from ..errors import FleetError, PolicyError
from ..policy import Policy
from ..simulation.traffic import check_load, draw_exits
from .fleet import Fleet
from .options import DeviceKind, Floats, Space
from .plan import Job, Plan, Pool

NOTICE = 4  # batch times after which the front sends again
_QUEUE, _HEAP = 64, 4096
_DROPPED = 2  # the outcome of a request that was shed, perhaps past an exit


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
        """Time from arrival at the front to the answer there."""
        return np.asarray(self.end_ns - self.arrival_ns)

    def counted(self, warmup: float = 0.05) -> Ints:
        """Latencies after a warm-up."""
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
    """Serve these arrivals, sorted, each leaving at its exit if it is let run. Raises as `serve_plan`.

    `overhead_ns` is added to every run, as `World.overhead_ns`; policies and front do not know of it. `shed`:
    boards drop what can no longer be in time. `free_ns`: when a device takes the first request, where
    that is not at once.
    """
    plan.check(fleet)
    network = network or plan.networks[0]
    if overhead_ns < 0:
        raise FleetError(f"overhead_ns must be at least 0, not {overhead_ns}")
    setting = _Setting(fleet, plan, network)
    pools = setting.pools._replace(took=setting.pools.believed + overhead_ns)
    front = loop.FrontSettings(setting.head_ns, setting.notice_ns, seed, choices)
    at = {name: k for k, name in enumerate(setting.boards)}
    if odd := sorted({fault.device for fault in faults} - set(at)):
        raise FleetError(f"faults must be of devices that the plan uses, and {', '.join(odd)} are not")
    rows = [[fault.at_ns, at[fault.device], loop.BACK if fault.back else loop.LOST] for fault in faults]
    lost = np.array(rows, np.int64).reshape(-1, 3)
    deadline = arrival_ns + plan.slo_ns
    queue, heap = _QUEUE, _HEAP
    while True:
        requests = loop.Requests.new(np.asarray(exits, np.int64))
        stream = Stream(arrival_ns.copy(), deadline.copy(), requests.leaves)
        tally = np.zeros(3 + setting.pools.believed.shape[0] * setting.pools.believed.shape[2], np.int64)
        boards = setting.idle(queue)
        room = loop.Heap.empty(heap + 4 * len(setting.boards))
        for device, time_ns in (free_ns or {}).items():
            boards.of[at[device]].free = time_ns
        policies = setting.policies(policy, stream, shed=shed)
        done = loop.serve_fleet(stream, requests, boards, pools, setting.routes, front, policies, lost, room, tally)
        if done == loop.REFUSED:
            raise PolicyError(f"policy '{policy.name if policy else 'turns'}' broke the rules on a board of the fleet")
        if done == loop.DONE:
            break
        queue, heap = 4 * queue, 4 * heap
    return Served(
        arrival_ns=arrival_ns,
        end_ns=requests.of.answered.copy(),
        exit=np.where(requests.of.outcome == _DROPPED, -1, requests.of.left),
        sent=requests.of.sent.astype(np.int64),
        slo_ns=plan.slo_ns,
        events=int(tally[0]),
        decisions=int(tally[1]),
        again=int(tally[2]),
        runs=tally[3:].reshape(setting.pools.believed.shape[0], -1),
        passed=setting.passed(requests),
        free_ns={device: int(boards.of[k].busy) for device, k in at.items()},
    )


@dataclass
class _Setting:
    """A plan as the arrays of the loop."""

    fleet: Fleet
    plan: Plan
    network: str
    tables: list[Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        space = Space.of(self.fleet, self.network, self.plan.slo_ns)
        kinds = {(kind.type, device): kind for kind in space.kinds for device in kind.devices}
        self.places = [k for k, pool in enumerate(self.plan.pools) if self.network in pool.networks]
        pools = [self.plan.pools[k] for k in self.places]
        self.kinds = [kinds[pool.type, pool.devices[0]] for pool in pools]
        self.tables = [table_of(kind, pool.jobs_of(self.network)) for kind, pool in zip(self.kinds, pools, strict=True)]
        self.boards = [device for pool in pools for device in pool.devices]
        self.pool_of = np.repeat(np.arange(len(pools)), [len(pool.devices) for pool in pools]).astype(np.int64)
        self.slots = [2 * sum(job.batch for job in pool.jobs_of(self.network)) for pool in pools]
        self.pools = self._pools(space, pools)
        self.routes = self._routes()
        each = [self._each(space, table, k) for k, table in enumerate(self.tables)]
        self.each = np.array(each, np.int64)[self.pool_of]
        facts = self.fleet.networks[self.network]
        size = max(facts.input_bytes, facts.answer_bytes)
        self.head_ns = self.fleet.links[self.fleet.head].transfer_ns(size) if self.fleet.head and size else 0
        longest = max(int(table.ns[:, max(table.batch) - 1].sum()) for table in self.tables)
        self.notice_ns = NOTICE * longest

    def _each(self, space: Space, table: Table, pool: int) -> int:
        """Device time of one sample at full batches, by which the front predicts."""
        reach = 0.0
        rates = space.network.exit_rates or (1.0,)
        for stage in range(len(table.ns)):
            stays = sum(rate for rate, at in zip(rates, table.local, strict=True) if at < 0 or at >= stage)
            reach += stays * table.ns[stage, table.batch[stage] - 1] / table.batch[stage]
        return max(1, round(reach))

    def _pools(self, space: Space, pools: Sequence[Pool]) -> loop.Pools:
        n, stages = len(pools), max(len(table.ns) for table in self.tables)
        b_max = max(table.ns.shape[1] for table in self.tables)
        took = np.ones((n, stages, b_max), np.int64)
        for k, table in enumerate(self.tables):
            took[k, : table.ns.shape[0], : table.ns.shape[1]] = table.ns
        facts, enters, leaves = space.network, [], []
        for kind, pool in zip(self.kinds, pools, strict=True):
            jobs, blocks = pool.jobs_of(self.network), kind.profile.blocks
            inside = facts.input_bytes if jobs[0].first == 0 else blocks[jobs[0].first - 1].cut_bytes
            outside = facts.answer_bytes if jobs[-1].last == space.blocks - 1 else blocks[jobs[-1].last].cut_bytes
            enters.append(kind.link.transfer_ns(inside))
            leaves.append(kind.link.transfer_ns(outside))
        first = np.concatenate([[0], np.cumsum([len(pool.devices) for pool in pools])])
        return loop.Pools(
            stages=np.array([len(table.ns) for table in self.tables], np.int64),
            believed=took,
            took=took,
            b_max=np.array([max(table.batch) for table in self.tables], np.int64),
            slots=np.array(self.slots, np.int64),
            first=first.astype(np.int64),
            members=np.arange(len(self.boards), dtype=np.int64),
            in_ns=np.array(enters, np.int64),
            out_ns=np.array(leaves, np.int64),
            answer_ns=np.array([kind.link.transfer_ns(facts.answer_bytes) for kind in self.kinds], np.int64),
            hop_ns=np.array([kind.link.latency_ns for kind in self.kinds], np.int64),
            local=np.array([table.local for table in self.tables], np.int64),
        )

    def _routes(self) -> loop.Routes:
        ways = [route for route in self.plan.routes if route.network == self.network]
        at = {place: k for k, place in enumerate(self.places)}
        longest = max(len(route.pools) for route in ways)
        pools = np.full((len(ways), longest), -1, np.int64)
        for k, route in enumerate(ways):
            pools[k, : len(route.pools)] = [at[place] for place in route.pools]
        shares: Floats = np.cumsum([route.rate_per_s for route in ways])
        until = np.floor(shares / shares[-1] * loop.SHARES).astype(np.int64)
        until[-1] = loop.SHARES
        return loop.Routes(pools, until)

    def idle(self, queue: int) -> loop.Boards:
        """Give boards at which nothing waits."""
        stages, slots = self.pools.believed.shape[1], int(self.pools.slots.max())
        return loop.Boards.empty(self.pool_of, self.each, stages, slots, queue)

    def passed(self, requests: loop.Requests) -> Ints:
        """Give the number of exits before the pool where each request was last."""
        exits = np.array(self.kinds[0].profile.exits)
        before = [int((exits < self.plan.pools[place].jobs_of(self.network)[0].first).sum()) for place in self.places]
        pool = self.routes.pools[requests.of.route, np.minimum(requests.of.hop, self.routes.pools.shape[1] - 1)]
        return np.asarray(np.array(before, np.int64)[pool])

    def policies(self, policy: Policy | None, stream: Stream, *, shed: bool) -> tuple[Compiled, ...]:
        """Give the twin of each pool. Raises FleetError for a policy without one, or with a memory."""
        if policy is None:
            wrappers = Wrappers(shed=int(shed))
            return tuple(
                Compiled(loop.TurnsTwin(np.array(table.begins, np.int64), np.array(table.batch, np.int64), 0), wrappers)
                for table in self.tables
            )
        found = []
        for k, table in enumerate(self.tables):
            npu = Npu(table.ns, table.ns, max(table.batch), int(self.pools.slots[k]))
            twin = twin_of(policy, stream, npu)
            if twin is None or "memory" in type(twin.twin)._fields or twin.drain is not NO_DRAIN:
                raise FleetError(f"policy '{policy.name}' has no compiled twin that many boards can share")
            found.append(twin)
        return tuple(found)


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
