"""The duties that a plan gives to boards: networks, batches, shares of time and rates. Pure data; no I/O.

>>> from fluidnpu.scheduler.placement import place_together
>>> from fluidnpu.scheduler.placement.testing import two_networks
>>> fleet = two_networks(3)
>>> duties = duties_of(place_together(fleet, slo_ns=10**9), fleet)
>>> sorted(duties), round(sum(one.weight for one in duties["board-0"].values()), 3)
(['board-0', 'board-1', 'board-2'], 1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fluidnpu.scheduler import placement

from ..errors import DriverUsageError

NEVER = "false"  # the criterion by which nobody leaves before the last exit


@dataclass(frozen=True, kw_only=True)
class Duty:
    """One network on one board, by plan. `criteria`: in place of the program's thresholds, where given.

    `batch`: samples in one message at most; `weight`: share of the board's time; `rate_per_s`: planned
    samples a second on this board.
    """

    batch: int
    weight: float = 1.0
    rate_per_s: float = 0.0
    criteria: str | None = None


def duties_of(plan: placement.Plan, fleet: placement.Fleet) -> dict[str, dict[str, Duty]]:
    """Return the duties by board, then by network; a board without any is left out.

    Raises FleetError for a plan of another fleet, DriverUsageError for one that boards as built cannot
    follow: pipelines, cuts inside a stage, and exits that are left out of a program.
    """
    plan.check(fleet)
    for route in plan.routes:
        if len(route.pools) > 1:
            through = " and ".join(str(index) for index in route.pools)
            raise DriverUsageError(
                f"every route of a served plan must end on the board where it begins, and one of '{route.network}' leads "
                f"through pools {through}: a pipeline needs programs of parts, which bundles do not hold"
            )
    found: dict[str, dict[str, Duty]] = {}
    for pool in plan.pools:
        for network in pool.networks:
            jobs = pool.jobs_of(network)
            duty = Duty(
                batch=jobs[0].batch,
                weight=sum(job.weight for job in jobs),
                rate_per_s=jobs[0].rate_per_s / len(pool.devices),
                criteria=_criteria(jobs, fleet.types[pool.type].profiles[network]),
            )
            for device in pool.devices:
                found.setdefault(device, {})[network] = duty
    return found


def _criteria(jobs: Sequence[placement.Job], profile: placement.Profile) -> str | None:
    """Return the criterion that makes a board run these jobs; cuts at exits are made by its policy."""
    network = jobs[0].network
    for job in jobs[:-1]:
        if job.last not in profile.exits:
            raise DriverUsageError(
                f"a board takes turns between stages only, so a job of '{network}' must end at an exit, and one ends at "
                f"block {job.last}"
            )
    if len(jobs) == 1 and jobs[0].ramps != "on" and len(profile.exits) > 1:
        return NEVER
    for job in jobs:
        inside = sum(job.first <= exit <= job.last for exit in profile.exits)
        if job.ramps != "on" and inside > 1:
            raise DriverUsageError(
                f"all exits of a job must run where boards serve a plan, and one of '{network}' leaves out {inside - 1}: "
                f"plan with --slack or batches that need no such job, or serve without the plan"
            )
    return None
