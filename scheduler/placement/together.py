"""Several networks of a fleet as one plan: the best allocation found, its shares as weights, its bound.

>>> from fluidnpu.scheduler.placement.testing import two_networks
>>> plan = place_together(two_networks(3), slo_ns=10**9)
>>> plan.form, plan.networks, plan.gap_pct < 3
('several networks', ('big', 'small'), True)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import FleetError
from .ensembles.allocation import Matrix, Problem
from .ensembles.optimum import GAP, NODES, Allocation, allocate
from .ensembles.worst_fit import worst_fit
from .fleet import Fleet
from .options import NS
from .plan import Job, Plan, Pool, Route
from .planner import HEADROOM, SLACK

_LEAST = 1e-6  # a share of a device's time below it is none


def place_together(
    fleet: Fleet,
    networks: tuple[str, ...] = (),
    *,
    slo_ns: int,
    slack: float = SLACK,
    headroom: float = HEADROOM,
    gap: float = GAP,
    nodes: int = NODES,
) -> Plan:
    """Plan an ensemble, or several networks with `weight` samples each for one of the whole.

    Whole networks are the unit. A batch must end within the objective, slack taken off. Raises FleetError
    for a wrong question and PlacementError where the networks fit nowhere.
    """
    if odd := [name for name in networks if name not in fleet.networks]:
        raise FleetError(f"networks must be among {', '.join(fleet.networks)}, not {', '.join(odd)}")
    problem = Problem.of(fleet, networks)
    longest = slo_ns * (1 - slack) / NS
    problem = replace(problem, seconds=np.where(problem.seconds <= longest, problem.seconds, np.inf))
    allocation = allocate(problem, gap=gap, nodes=nodes)
    return as_plan(fleet, allocation, slo_ns, headroom)


def as_plan(fleet: Fleet, allocation: Allocation, slo_ns: int, headroom: float) -> Plan:
    """Write an allocation as a plan: devices with the same jobs and shares are one pool."""
    problem, matrix, kept = allocation.problem, allocation.matrix, 1 - headroom
    rows: dict[tuple[str, tuple[tuple[int, int, float], ...]], list[int]] = {}
    for d in range(len(problem.devices)):
        weights = np.round(allocation.shares.weights[d], 6)
        here = tuple((int(m), int(matrix[d, m]), float(weights[m])) for m in np.flatnonzero(weights > _LEAST))
        if here:
            rows.setdefault((problem.types[d], here), []).append(d)
    pools: list[Pool] = []
    routes: list[Route] = []
    took = problem.of_matrix(problem.seconds, matrix)
    for (kind, here), devices in rows.items():
        jobs = []
        for m, batch, weight in here:
            name = problem.networks[m]
            rate = float(allocation.shares.rates[devices, m].sum()) * kept
            last = len(fleet.types[kind].profiles[name].blocks) - 1
            jobs.append(Job(network=name, first=0, last=last, batch=batch, rate_per_s=rate, weight=min(1.0, weight)))
            routes.append(Route(network=name, pools=(len(pools),), rate_per_s=rate))
        round_ns = round(NS * sum(took[devices[0], m] for m, _, _ in here))
        names = tuple(problem.devices[d] for d in devices)
        pools.append(Pool(type=kind, devices=names, jobs=tuple(jobs), latency_ns=2 * round_ns))
    cost = sum(fleet.types[pool.type].cost_micros * len(pool.devices) for pool in pools)
    return Plan(
        fleet=fleet.digest,
        objective="ensemble",
        slo_ns=slo_ns,
        pools=tuple(pools),
        routes=tuple(routes),
        rate_per_s=allocation.rate * kept,
        bound_per_s=allocation.bound * kept,
        cost_micros=cost,
        method=allocation.method,
        notes=_notes(allocation),
    )


def _notes(allocation: Allocation) -> tuple[str, ...]:
    """Say what worst-fit gives, and what plain turns would make of the same matrix."""
    problem, notes = allocation.problem, []
    turns = problem.turns(allocation.matrix)
    notes.append(
        f"planned shares carry {allocation.rate:.1f}/s of the ensemble; equal turns of the same matrix {turns:.1f}/s"
    )
    start = _worst(problem)
    if start is not None:
        notes.append(f"worst-fit decreasing carries {problem.turns(start):.1f}/s")
    return tuple(notes)


def _worst(problem: Problem) -> Matrix | None:
    from ..errors import PlacementError

    try:
        return worst_fit(problem)
    except PlacementError:
        return None
