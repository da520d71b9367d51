"""The twin of a fleet whose plan follows the traffic: the same `Follower` as the server's front has.

Time is cut where the plan changes. What came before is served to its end by the old plan, and every board
begins with the new one when it is free, one that changes its job `switch_ns` later. Boards drop what can no
longer be in time, as a server does whose clients give a limit.

>>> from fluidnpu.scheduler.placement.replanning import Replanner
>>> from fluidnpu.scheduler.placement.testing import divided_fleet
>>> fleet, turn_ns = divided_fleet((0.8, 0.2)), 2 * 10**9
>>> arrival_ns = np.arange(0, 2 * turn_ns, 2 * 10**6)
>>> exits = np.where(np.arange(2000) % 5 < np.where(arrival_ns < turn_ns, 4, 1), 0, 1)
>>> follower = Follower(Replanner(fleet, slo_ns=10**8, ramps=("on",)), window_ns=10**9)
>>> served = serve_following(follower, arrival_ns, exits)
>>> [decision.reason for _, decision in served.changes]
['start', 'drift']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .following import TICKS, Follower
from .plan import Plan
from .replanning import Decision, moves
from .twin import Fault, Ints, Served, serve_fleet_stream


@dataclass(frozen=True, kw_only=True)
class FleetSchedule:
    """Requests as served, in order of arrival, and the plans with the times from which they held.

    `exit`: -1 for a request that was dropped. Times in ns.
    """

    arrival_ns: Ints
    end_ns: Ints
    exit: Ints
    slo_ns: int
    changes: tuple[tuple[int, Decision], ...]

    def goodput(self, begin_ns: int, end_ns: int) -> float:
        """Samples a second that were answered within the objective in a span of time."""
        good = (self.exit >= 0) & (self.end_ns - self.arrival_ns <= self.slo_ns)
        inside = (self.end_ns >= begin_ns) & (self.end_ns < end_ns)
        return 1e9 * float((good & inside).sum()) / (end_ns - begin_ns)


def serve_following(
    follower: Follower,
    arrival_ns: NDArray[np.int64],
    exits: NDArray[np.int64],
    *,
    seed: int = 0,
    faults: Sequence[Fault] = (),
    plan: Plan | None = None,
    follow: bool = True,
) -> FleetSchedule:
    """Serve these arrivals, sorted, each leaving at its exit. Raises as `serve_fleet_stream` and
    `Follower.start`.

    Arrivals and exits are (requests,). `plan`: to begin with, by default the best; `follow`: False keeps it
    whatever comes.
    """
    decision = follower.start(0, plan)
    changes = [(0, decision)]
    end, left = np.zeros(len(arrival_ns), np.int64), np.full(len(arrival_ns), -1, np.int64)
    first, begin_ns, free_ns = 0, 0, dict[str, int]()

    def served(last: int) -> Served:
        devices = set(decision.plan.devices)
        return serve_fleet_stream(
            decision.fleet,
            decision.plan,
            arrival_ns[first:last],
            exits[first:last],
            seed=seed,
            shed=True,
            free_ns=free_ns,
            faults=[fault for fault in faults if fault.device in devices and fault.at_ns >= begin_ns],
        )

    while True:
        whole = served(len(arrival_ns))
        step = _next_change(follower, whole, begin_ns, faults) if follow else None
        if step is None:
            end[first:], left[first:] = whole.end_ns, whole.exit
            return FleetSchedule(
                arrival_ns=arrival_ns, end_ns=end, exit=left, slo_ns=follower.plan.slo_ns, changes=tuple(changes)
            )
        now_ns, new = step
        last = int(np.searchsorted(arrival_ns, now_ns))
        if last > first:
            part = served(last)
            end[first:last], left[first:last] = part.end_ns, part.exit
            free_ns = {**free_ns, **part.free_ns}
        moved = set(moves(decision.plan, new.plan))
        switch_ns = follower.replanner.switch_ns
        free_ns = {
            device: max(now_ns, free_ns.get(device, 0)) + (switch_ns if device in moved else 0)
            for device in new.plan.devices
        }
        decision, first, begin_ns = new, last, now_ns
        changes.append(step)


def _next_change(
    follower: Follower, served: Served, begin_ns: int, faults: Sequence[Fault]
) -> tuple[int, Decision] | None:
    """Tell the follower what is seen, tick by tick, until it changes the plan; None where it never does."""
    tick_ns = max(1, follower.window_ns // TICKS)
    limit_ns = served.arrival_ns + served.slo_ns  # what is late by then is given up
    exits = np.where(served.end_ns <= limit_ns, served.exit, -1)
    known_ns = np.minimum(served.end_ns, limit_ns)
    order = np.argsort(known_ns, kind="stable")
    ends, at = known_ns[order], 0
    for now_ns in range(begin_ns + tick_ns, int(ends[-1]) + tick_ns if len(ends) else 0, tick_ns):
        until = int(np.searchsorted(ends, now_ns, side="right"))
        seen = order[at:until]
        left, dropped = exits[seen], served.passed[seen[exits[seen] < 0]]
        for exit, samples in enumerate(np.bincount(left[left >= 0])):
            follower.left(exit, int(samples))
        for count, samples in enumerate(np.bincount(dropped)):
            if count:
                follower.passed(count - 1, int(samples))
        at = until
        decision = follower.step(now_ns, _away(faults, now_ns))
        if decision is not None and decision.changed:
            return now_ns, decision
    return None


def _away(faults: Sequence[Fault], now_ns: int) -> set[str]:
    """Return the devices that are lost at a time."""
    away = set[str]()
    for fault in sorted(faults, key=lambda loss: loss.at_ns):
        if fault.at_ns <= now_ns:
            (away.discard if fault.back else away.add)(fault.device)
    return away
