"""Discrete-event simulator of one NPU under one policy: deterministic, in integer nanoseconds.

A policy is asked under these conditions, which the runtime loop on a device shares, so that schedules can be
compared:
1. the NPU is idle: its last run has ended, and the samples that did not exit wait for the next stage, sorted
   by (arrival, id);
2. every request with an arrival not later than now is in the queue, including those of this nanosecond;
3. something waits; with nothing waiting, time moves to the next arrival first;
4. something has changed since the last question: an arrival, the end of a run, the timeout of a `Wait`, or an
   `Answer` or `Shed`. A `Run` takes its time in the table and cannot be interrupted. `Answer` and `Shed` take
   no time. A `Wait` ends at the next arrival or at its `until_ns`, whichever is first. After the last arrival
   (`view.closed`) a `Wait` is an error.

>>> from fluidnpu.dse import LatencyTable
>>> from fluidnpu.scheduler import Request, World, make_policy
>>> two = [Request(0, 0, 100), Request(1, 5, 105)]
>>> world = World(latency=LatencyTable(ns=((10, 15), (10, 15))), exits=[0, 1], exit_rates=[0.5, 0.5])
>>> done = simulate(two, make_policy("greedy"), world)
>>> [(r.start_ns, r.end_ns, r.exit) for r in done.records]
[(0, 10, 0), (10, 30, 1)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..policy import Answer, Policy, Request, Run, Wait
from .flight import Flight
from .ledger import Ledger
from .schedule import LAST, Schedule
from .world import World

_LEAVES = "its exit was drawn"


def simulate(requests: Sequence[Request], policy: Policy, world: World) -> Schedule:
    """Serve `requests` (sorted by arrival, then id) in `world` and return the schedule.

    Raises SchedulerError for inconsistent input and PolicyError when the policy breaks the rules.
    """
    world.check(requests)
    return _Engine(requests, policy, world).serve()


@dataclass(eq=False, slots=True)
class _Drawn(Flight):
    """A simulated flight; `leaves`: the exit that was drawn for it, -1 where that is decided at the exit."""

    leaves: int = -1


class _Engine:
    """Simulated time around a `Ledger`."""

    def __init__(self, requests: Sequence[Request], policy: Policy, world: World) -> None:
        self.requests, self.policy, self.live = requests, policy, world.live
        self.ledger = Ledger[_Drawn](
            policy=policy.name,
            latency=world.latency,
            exit_rates=world.exit_rates,
            b_max=world.batch_limit,
            slots=world.slot_limit,
            networks=world.networks,
            active=world.active,
            watch=world.watch,
        )
        self.drawn = (-1,) * len(requests) if world.drawn is None else world.drawn
        self.last = frozenset(self.ledger.networks.last)
        self.run_ns, self.overhead_ns = world.run_ns, world.overhead_ns

    def serve(self) -> Schedule:
        policy, ledger = self.policy, self.ledger
        arrivals = [request.arrival_ns for request in self.requests]
        n, i, now = len(arrivals), 0, 0
        policy.reset()
        if ledger.active is not None:
            self._times()
        while True:
            while i < n and arrivals[i] <= now:
                ledger.admit(_Drawn(self.requests[i], leaves=int(self.drawn[i])))
                i += 1
            if not ledger.flights:
                if i == n:
                    break
                now = arrivals[i]
                continue
            if ledger.active is not None and ledger.adopt() is not None:
                self._times()
            action = ledger.decide(policy, now, i == n)
            if isinstance(action, Run):
                now = self._run(now, action)
            elif isinstance(action, Wait):
                now = arrivals[i] if action.until_ns is None else min(action.until_ns, arrivals[i])
            elif isinstance(action, Answer):
                ledger.answer(now, action)
            else:
                ledger.shed(now, action)
        schedule = ledger.schedule()
        return schedule if self.live is not None else replace(schedule, because=())

    def _times(self) -> None:
        """Take the durations of runs from the table in force."""
        self.run_ns = tuple(tuple(ns + self.overhead_ns for ns in row) for row in self.ledger.view.latency.ns)

    def _run(self, now: int, run: Run) -> int:
        """Run a batch; return the time of its end."""
        stage, live = run.stage, self.live
        flights = self.ledger.begin(now, run)
        end = now + self.run_ns[stage][len(flights) - 1]
        if live is None:
            reasons: Sequence[str] = [_LEAVES if flight.leaves == stage else "" for flight in flights]
        elif stage in self.last:
            reasons = [LAST] * len(flights)
        elif self.ledger.runs_head(stage):
            reasons = live.leaving(run.requests, [flight.start_ns for flight in flights], stage, end)
        else:
            reasons = [""] * len(flights)
        self.ledger.finish(run, end, reasons)
        return end
