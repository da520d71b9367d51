"""The duties that a plan gives to boards: networks, batches, shares of time and rates. Pure data; no I/O.

A board serves a whole network under its name, or a part of it under one that says its stages.

>>> from fluidnpu.scheduler.placement import place_together
>>> from fluidnpu.scheduler.placement.testing import two_networks
>>> fleet = two_networks(3)
>>> duties = duties_of(place_together(fleet, slo_ns=10**9), fleet)
>>> sorted(duties), round(sum(one.weight for one in duties["board-0"].values()), 3)
(['board-0', 'board-1', 'board-2'], 1.0)
>>> part_name("demo", Stages(first=1, last=3, exits=(1, 3)))
'demo.1-3.x2'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluidnpu.hls.program import Stages
from fluidnpu.scheduler import placement
from fluidnpu.scheduler.policies import splits_text

from ..errors import DriverUsageError

NEVER = "false"  # the criterion by which nobody leaves before the last exit


@dataclass(frozen=True, kw_only=True)
class Duty:
    """One network on one board, by plan. `criteria`: in place of the program's thresholds, where given.

    `batch`: samples in one message at most; `weight`: share of the board's time; `rate_per_s`: planned
    samples a second on this board. `stages`: of a part of `network`; None for all of it. `splits`: those that
    take turns on the board, as (first stage of the model, batch); none where there is one.
    """

    batch: int
    weight: float = 1.0
    rate_per_s: float = 0.0
    criteria: str | None = None
    network: str = ""
    stages: Stages | None = None
    splits: tuple[tuple[int, int], ...] = ()

    @property
    def policy(self) -> str:
        """The policy by which a board runs the splits; empty where any will do."""
        return f"turns:splits={splits_text(self.splits)}" if self.splits else ""

    @property
    def slots(self) -> int:
        """Samples that a board should hold: of each split the batch that runs and the one that gathers."""
        return 2 * sum(batch for _, batch in self.splits)


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way of samples through models of boards, each a part of the network, and the rate planned for it."""

    models: tuple[str, ...]
    rate_per_s: float


def duties_of(plan: placement.Plan, fleet: placement.Fleet) -> dict[str, dict[str, Duty]]:
    """Return the duties by board, then by the model that it serves; a board without any is left out.

    Raises FleetError for a plan of another fleet, DriverUsageError for one whose jobs end inside a stage.
    """
    plan.check(fleet)
    duties: dict[str, dict[str, Duty]] = {}
    for pool in plan.pools:
        for network in pool.networks:
            jobs, profile = pool.jobs_of(network), fleet.types[pool.type].profiles[network]
            stages = _stages(jobs, profile)
            duty = Duty(
                batch=jobs[0].batch,
                weight=sum(job.weight for job in jobs),
                rate_per_s=jobs[0].rate_per_s / len(pool.devices),
                criteria=NEVER if stages is None and _runs_through(jobs, profile) else None,
                network=network,
                stages=stages,
                splits=_splits(jobs, profile),
            )
            for device in pool.devices:
                duties.setdefault(device, {})[part_name(network, stages)] = duty
    return duties


def ways_of(plan: placement.Plan, fleet: placement.Fleet) -> dict[str, tuple[Way, ...]]:
    """Return the ways of every network of which some board has a part. Raises as `duties_of`.

    Pools with the same part are one step of a way: their boards are drawn by their planned rates.
    """
    rates: dict[str, dict[tuple[str, ...], float]] = {}
    for route in plan.routes:
        models = []
        for index in route.pools:
            pool = plan.pools[index]
            stages = _stages(pool.jobs_of(route.network), fleet.types[pool.type].profiles[route.network])
            models.append(part_name(route.network, stages))
        ways = rates.setdefault(route.network, {})
        ways[tuple(models)] = ways.get(tuple(models), 0.0) + route.rate_per_s
    return {
        network: tuple(Way(models=models, rate_per_s=rate) for models, rate in ways.items())
        for network, ways in rates.items()
        if set(ways) != {(network,)}
    }


def part_name(network: str, stages: Stages | None) -> str:
    """Return the name under which boards serve some stages of a network; `x` are exits without heads."""
    if stages is None:
        return network
    missing = [str(k) for k in range(stages.first, stages.last + 1) if k not in stages.exits]
    return ".".join([network, f"{stages.first}-{stages.last}", *(f"x{k}" for k in missing)])


def _runs_through(jobs: Sequence[placement.Job], profile: placement.Profile) -> bool:
    """Tell if nobody may leave before the end, which a criterion says as well as a part without heads."""
    return len(jobs) == 1 and jobs[0].ramps != "on" and len(profile.exits) > 1


def _splits(jobs: Sequence[placement.Job], profile: placement.Profile) -> tuple[tuple[int, int], ...]:
    """Return the parts in turns, by the stages of what the board serves: one ends at each exit that runs."""
    if len(jobs) == 1:
        return ()
    parts, stage = [], 0
    for job in jobs:
        parts.append((stage, job.batch))
        inside = sum(job.first <= exit <= job.last for exit in profile.exits)
        stage += inside if job.ramps == "on" else 1
    return tuple(parts)


def _stages(jobs: Sequence[placement.Job], profile: placement.Profile) -> Stages | None:
    """Return the stages that a board runs by these jobs, None for all of a network; jobs in turns on one
    board are one part, since a board's policy forms batches anew at every exit.
    """
    exits, kept = profile.exits, set[int]()
    for job in jobs:
        if job.last not in exits or (job.first and job.first - 1 not in exits):
            end = job.last if job.last not in exits else job.first - 1
            raise DriverUsageError(
                f"a program is cut between stages only, so a job of '{job.network}' must begin and end at an exit, and one "
                f"does at block {end}"
            )
        inside = [exit for exit in exits if job.first <= exit <= job.last]
        kept |= set(inside if job.ramps == "on" else inside[-1:])
    first = exits.index(jobs[0].first - 1) + 1 if jobs[0].first else 0
    last = exits.index(jobs[-1].last)
    whole = first == 0 and last == len(exits) - 1
    if whole and (len(kept) == len(exits) or _runs_through(jobs, profile)):
        return None
    return Stages(first=first, last=last, exits=tuple(exits.index(exit) for exit in sorted(kept)))
