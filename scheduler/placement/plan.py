"""A plan: what runs on which device of a fleet, with its value, its bound and its cost. Canonical JSON.

A pool is a set of equal devices with the same jobs. A job is one network, or a piece of it, at one batch
size. One pool with one job that covers all blocks is data parallel; several pieces of one network in a pool
are a serial split, in several pools a pipeline; several networks in a pool take turns by their weights.

>>> job = Job(network="toy", first=0, last=3, batch=4, rate_per_s=100.0)
>>> pool = Pool(type="board", devices=("a", "b"), jobs=(job,))
>>> facts = {"fleet": "f00d", "objective": "goodput", "slo_ns": 10**8, "rate_per_s": 90, "bound_per_s": 99}
>>> plan = Plan(pools=(pool,), routes=(Route(network="toy", pools=(0,), rate_per_s=90.0),), **facts)
>>> plan.form, round(plan.gap_pct, 3), Plan.loads(plan.dumps()) == plan
('data parallel', 10.0, True)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from ..errors import FleetError
from .fleet import Fleet

SCHEMA = 1
RAMPS = ("on", "last", "none")
OBJECTIVES = ("goodput", "cost", "ensemble")


@dataclass(frozen=True, kw_only=True)
class Job:
    """Blocks first..last (inclusive) of a network in batches of at most `batch`. Raises FleetError.

    `ramps`: `on` runs the head of every exit inside, and the batch shrinks there; `last` only that of the
    last exit inside; `none` runs no exit but the network's end. `rate_per_s`: samples that enter the job,
    over all devices of its pool. `weight`: its planned share of a device's time.
    """

    network: str
    first: int
    last: int
    batch: int
    ramps: str = "on"
    rate_per_s: float = 0.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last or self.batch < 1:
            raise FleetError(
                f"a job must run blocks first..last from 0 in batches from 1, not {self.first}..{self.last} in "
                f"{self.batch}"
            )
        if self.ramps not in RAMPS:
            raise FleetError(f"ramps must be one of {', '.join(RAMPS)}, not {self.ramps!r}")
        if not (self.rate_per_s >= 0 and 0 <= self.weight <= 1 + 1e-9):
            raise FleetError(f"a job needs a rate from 0 and a weight of 0..1, not {self.rate_per_s} and {self.weight}")


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Equal devices with the same jobs. `latency_ns`: a sample's planned time in the pool, at the most."""

    type: str
    devices: tuple[str, ...]
    jobs: tuple[Job, ...]
    latency_ns: int = 0

    @property
    def networks(self) -> tuple[str, ...]:
        """Networks of the jobs, in order."""
        return tuple(dict.fromkeys(job.network for job in self.jobs))

    def jobs_of(self, network: str) -> tuple[Job, ...]:
        """Jobs of one network in order of their blocks."""
        return tuple(sorted((job for job in self.jobs if job.network == network), key=lambda job: job.first))


@dataclass(frozen=True, kw_only=True)
class Route:
    """A way of samples of one network through pools, by their places in the plan, and the rate planned for
    it.

    A dispatcher gives every sample a route when it enters, and keeps to it.
    """

    network: str
    pools: tuple[int, ...]
    rate_per_s: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Pools with their routes, value and bound. Raises FleetError.

    `rate_per_s`: samples a second of every network (times its weight) that the plan carries; `bound_per_s`:
    no plan of the space carries more. For least cost, `cost_micros` is the value and `bound_micros` its
    bound. `notes` say why the plan is as it is.
    """

    fleet: str
    objective: str
    slo_ns: int
    pools: tuple[Pool, ...]
    routes: tuple[Route, ...]
    rate_per_s: float
    bound_per_s: float = 0.0
    cost_micros: int = 0
    bound_micros: int = 0
    method: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise FleetError(f"the objective of a plan must be one of {', '.join(OBJECTIVES)}, not {self.objective!r}")
        if not self.pools:
            raise FleetError("a plan must have at least one pool, and it has none")
        seen: set[str] = set()
        for pool in self.pools:
            if not pool.jobs or not pool.devices:
                raise FleetError(f"a pool of type '{pool.type}' must have devices and jobs, and it lacks one of them")
            if twice := seen & set(pool.devices):
                raise FleetError(f"a device must be in one pool only, and {', '.join(sorted(twice))} is in two")
            seen |= set(pool.devices)
        for number, route in enumerate(self.routes):
            self._check_route(number, route)
        reached = {(pool, route.network) for route in self.routes for pool in route.pools}
        for index, pool in enumerate(self.pools):
            for network in pool.networks:
                if (index, network) not in reached:
                    raise FleetError(f"a route of '{network}' must lead through pool {index}, and none does")

    def _check_route(self, number: int, route: Route) -> None:
        """Refuse a route whose jobs do not lead from a network's first block to its last."""
        at, end = 0, max((j.last for pool in self.pools for j in pool.jobs_of(route.network)), default=-1)
        for index in route.pools:
            if not 0 <= index < len(self.pools):
                raise FleetError(f"route {number} must lead through pools 0..{len(self.pools) - 1}, not {index}")
            for job in self.pools[index].jobs_of(route.network):
                if job.first != at:
                    raise FleetError(
                        f"route {number} of '{route.network}' must go on at block {at}, and pool {index} begins at "
                        f"{job.first}"
                    )
                at = job.last + 1
        if at != end + 1 or not end + 1:
            raise FleetError(f"route {number} of '{route.network}' must end at block {end}, not at {at - 1}")

    @property
    def networks(self) -> tuple[str, ...]:
        """Networks that the plan serves, in order."""
        return tuple(dict.fromkeys(name for pool in self.pools for name in pool.networks))

    @property
    def devices(self) -> dict[str, Pool]:
        """The pool of each device that has one."""
        return {device: pool for pool in self.pools for device in pool.devices}

    @property
    def gap_pct(self) -> float:
        """Per cent by which a plan of the space can be better at most."""
        if self.objective == "cost":
            return 100 * (self.cost_micros / self.bound_micros - 1) if self.bound_micros else 0.0
        return 100 * max(0.0, self.bound_per_s / self.rate_per_s - 1) if self.rate_per_s else 0.0

    @property
    def form(self) -> str:
        """The form in words: data parallel, serial splits, a pipeline, several pipelines, networks in
        turns.
        """
        if len(self.networks) > 1:
            return "several networks"
        lengths = {len(route.pools) for route in self.routes}
        serial = any(len(pool.jobs) > 1 for pool in self.pools)
        if lengths == {1}:
            return "data parallel, serial splits" if serial else "data parallel"
        mixed = len({pool.type for pool in self.pools}) > 1
        kinds = "heterogeneous " if mixed else ""
        return f"several {kinds}pipelines" if len(self.routes) > 1 else f"{kinds}pipeline"

    def check(self, fleet: Fleet) -> None:
        """Raise FleetError unless the plan was made for this fleet and every job can run on its devices."""
        if self.fleet != fleet.digest:
            raise FleetError(
                f"the plan must be for fleet '{fleet.name}' {fleet.digest[:12]}, not for one of {self.fleet[:12]}"
            )
        types = {device.name: device.type for device in fleet.devices}
        for pool in self.pools:
            if odd := sorted(name for name in pool.devices if types.get(name) != pool.type):
                raise FleetError(f"devices of a pool must be of its type '{pool.type}', and {', '.join(odd)} are not")
            for job in pool.jobs:
                profile = fleet.types[pool.type].profiles.get(job.network)
                if profile is None:
                    raise FleetError(
                        f"type '{pool.type}' must run network '{job.network}', and its entry does not say so"
                    )
                if job.last >= len(profile.blocks) or job.batch > profile.b_max:
                    raise FleetError(
                        f"a job on '{pool.type}' must be within {len(profile.blocks)} blocks and batches up to "
                        f"{profile.b_max} of '{job.network}', not {job.first}..{job.last} in {job.batch}"
                    )

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types, with schema number and digest."""
        return {"schema": SCHEMA, "kind": "plan", "digest": self.digest, **asdict(self)}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over every field."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def dumps(self) -> str:
        """Write canonical JSON."""
        return json.dumps(self.to_dict(), indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def loads(cls, text: str, source: str = "plan") -> Plan:
        """Read what `dumps` wrote. Raises FleetError naming the file `source`."""
        try:
            raw = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise FleetError(f"plan '{source}' must be JSON: {error}") from None
        if not isinstance(raw, Mapping) or raw.get("kind") != "plan":
            raise FleetError(f"'{source}' must be a plan in JSON, an object whose kind is 'plan'")
        if raw.get("schema") != SCHEMA:
            raise FleetError(f"plan '{source}' must have schema {SCHEMA}, not {raw.get('schema')!r}")
        try:
            body = {key: value for key, value in raw.items() if key not in ("schema", "kind", "digest")}
            body["pools"] = tuple(_pool(pool) for pool in body["pools"])
            body["routes"] = tuple(Route(**{**route, "pools": tuple(route["pools"])}) for route in body["routes"])
            body["notes"] = tuple(body.get("notes", ()))
            plan = cls(**body)
        except FleetError as error:
            raise FleetError(f"plan '{source}': {error}") from None
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise FleetError(f"plan '{source}' must have exactly the fields of a plan: {error}") from None
        if raw.get("digest", plan.digest) != plan.digest:
            raise FleetError(f"plan '{source}' must be as it was written, and its digest does not fit its numbers")
        return plan


def _pool(raw: Mapping[str, Any]) -> Pool:
    jobs = tuple(Job(**job) for job in raw["jobs"])
    return Pool(**{**raw, "devices": tuple(raw["devices"]), "jobs": jobs})
