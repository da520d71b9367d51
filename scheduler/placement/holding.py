"""The rate that a plan carries at other exit rates, or with fewer devices, than it was made for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .fleet import Fleet
from .options import NS, DeviceKind, Space, shrunk
from .plan import Job, Plan
from .planner import HEADROOM


def carried(fleet: Fleet, plan: Plan, headroom: float = HEADROOM) -> float:
    """Samples a second that a plan of one network carries on this fleet: its scarcest pool or link decides.

    Routes keep their shares of the whole.
    """
    network = plan.networks[0]
    space = Space.of(fleet, network, plan.slo_ns)
    kinds = {device: kind for kind in space.kinds for device in kind.devices}
    total = sum(route.rate_per_s for route in plan.routes)
    most = space.head_rate
    for index, pool in enumerate(plan.pools):
        devices = [device for device in pool.devices if device in kinds]
        share = sum(route.rate_per_s for route in plan.routes if index in route.pools) / total
        if not devices:
            return 0.0
        kind, jobs = kinds[devices[0]], pool.jobs_of(network)
        work = max(sum(job_ns(space, kind, job) for job in jobs), link_ns(space, kind, jobs))
        if share * work > 0:
            most = min(most, NS * len(devices) / (share * work))
    return most * (1 - headroom)


def link_ns(space: Space, kind: DeviceKind, jobs: Sequence[Job]) -> float:
    """Time of a device's link for one sample of the network, the busier of its two ways."""
    reach, facts, blocks = space.reach, space.network, kind.profile.blocks
    first, end, per_byte = jobs[0].first, jobs[-1].last + 1, NS / kind.link.bytes_per_s
    enters = facts.input_bytes if first == 0 else blocks[first - 1].cut_bytes
    goes_on = reach[end] * blocks[end - 1].cut_bytes if end < space.blocks else 0.0
    return per_byte * max(reach[first] * enters, goes_on + (reach[first] - reach[end]) * facts.answer_bytes)


def job_ns(space: Space, kind: DeviceKind, job: Job) -> float:
    """Device time of a job for one sample of the network, at its full batch."""
    reach, blocks, exits = space.reach, kind.profile.blocks, kind.profile.exits
    inside = [e for e in exits if job.first <= e <= job.last]
    heads = {"on": set(inside), "last": set(inside[-1:]), "none": {exits[-1]}}[job.ramps]
    enters = 1.0 if job.ramps == "none" else reach[job.first]
    if enters <= 0:
        return 0.0
    total, stay = 0.0, 1.0
    for k in range(job.first, job.last + 1):
        row = np.array([0, *blocks[k].ns], float) + (np.array([0, *blocks[k].head_ns]) if k in heads else 0.0)
        total += row[job.batch] if stay >= 1 else float(shrunk(stay, kind.profile.b_max)[job.batch] @ row)
        if k in heads and job.ramps != "none":
            stay = reach[k + 1] / reach[job.first]
    return enters * total / job.batch
