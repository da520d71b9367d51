"""The load that a plan puts on devices and links, as shares of what they carry. Pure arithmetic.

>>> from fluidnpu.scheduler.placement import place
>>> from fluidnpu.scheduler.placement.testing import toy_fleet
>>> fleet = toy_fleet(2)
>>> plan = place(fleet, slo_ns=10**9).plan
>>> [round(one.total, 3) for one in loads(fleet, plan)]
[0.9]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .fleet import Fleet
from .holding import job_ns
from .options import NS, DeviceKind, Space
from .plan import Job, Plan


@dataclass(frozen=True, kw_only=True)
class Load:
    """Shares of one pool, each device alike: of its time by network, and of its link each way."""

    busy: Mapping[str, float]
    link_in: float
    link_out: float

    @property
    def total(self) -> float:
        """Share of a device's time, over all networks."""
        return sum(self.busy.values())


def loads(fleet: Fleet, plan: Plan) -> tuple[Load, ...]:
    """Give the load of every pool at the planned rates. Raises FleetError for a plan of another fleet."""
    plan.check(fleet)
    spaces = {network: Space.of(fleet, network, plan.slo_ns) for network in plan.networks}
    rows = []
    for index, pool in enumerate(plan.pools):
        busy, enters, leaves = {}, 0.0, 0.0
        link = fleet.links[next(device.link for device in fleet.devices if device.name == pool.devices[0])]
        for network in pool.networks:
            space, jobs = spaces[network], pool.jobs_of(network)
            kind = next(option for option in space.kinds if pool.devices[0] in option.devices)
            ways = [route for route in plan.routes if route.network == network and index in route.pools]
            rate = sum(route.rate_per_s for route in ways) / len(pool.devices)
            busy[network] = rate * sum(job_ns(space, kind, job) for job in jobs) / NS
            here = _bytes(space, kind, jobs)
            enters, leaves = enters + rate * here[0], leaves + rate * here[1]
        rows.append(Load(busy=busy, link_in=enters / link.bytes_per_s, link_out=leaves / link.bytes_per_s))
    return tuple(rows)


def head_load(fleet: Fleet, plan: Plan) -> float:
    """Give the share of the head's link, each way the busier one; 0 where it is no limit."""
    if not fleet.head:
        return 0.0
    need = {"in": 0.0, "out": 0.0}
    for route in plan.routes:
        facts = fleet.networks[route.network]
        need["out"] += route.rate_per_s * facts.input_bytes
        need["in"] += route.rate_per_s * facts.answer_bytes
    return max(need.values()) / fleet.links[fleet.head].bytes_per_s


def _bytes(space: Space, kind: DeviceKind, jobs: Sequence[Job]) -> tuple[float, float]:
    """Give the bytes that a sample of the network brings to a pool and takes from it, on average."""
    first, end, facts, blocks = jobs[0].first, jobs[-1].last + 1, space.network, kind.profile.blocks
    share, on = space.reach[first], space.reach[end]
    enters = facts.input_bytes if first == 0 else blocks[first - 1].cut_bytes
    leaves = facts.answer_bytes if end == space.blocks else blocks[end - 1].cut_bytes
    return share * enters, on * leaves + (share - on) * facts.answer_bytes
