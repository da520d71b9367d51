"""Discrete-event simulator of one NPU under one policy, in integer nanoseconds. Deterministic: no clock, no randomness of its own.

When a policy is asked (the runtime loop on a device keeps exactly the same rule, so their schedules can be compared):
1. the NPU is idle: its last run has ended and the samples that did not exit wait at the entry of the next stage, sorted by (arrival, id);
2. every request with an arrival not later than now is in the queue, also those that came at this very nanosecond;
3. something waits; with nothing waiting, time moves to the next arrival first;
4. something has changed since the last question: an arrival, the end of a run, the timeout of a `Wait`, or an `Answer` or `Shed`.
A `Run` takes `latency[stage][batch]` and cannot be interrupted. `Answer` and `Shed` take no time. A `Wait` ends at the next arrival or at
its `until_ns`, whichever is first. After the last arrival (`view.closed`) a `Wait` is an error.

>>> from fluidnpu.dse import LatencyTable
>>> from fluidnpu.scheduler import Greedy, Request
>>> two = [Request(0, 0, 100), Request(1, 5, 105)]
>>> done = simulate(two, Greedy(), latency=LatencyTable(ns=((10, 15), (10, 15))), exits=[0, 1], exit_rates=[0.5, 0.5])
>>> [(r.start_ns, r.end_ns, r.exit) for r in done.records]
[(0, 10, 0), (10, 30, 1)]
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from fluidnpu.dse import LatencyTable

from ..errors import PolicyError, SchedulerError, TrafficError
from ..policy import Action, Answer, Policy, Request, Run, Shed, View, Wait
from ..schedule import Outcome, Schedule

_order = attrgetter("arrival_ns", "id")


def simulate(
    requests: Sequence[Request],
    policy: Policy,
    *,
    latency: LatencyTable,
    exits: Sequence[int],
    exit_rates: Sequence[float],
    b_max: int | None = None,
    slots: int | None = None,
    actual: LatencyTable | None = None,
    overhead_ns: int = 0,
) -> Schedule:
    """Serve `requests` (sorted by arrival, then id) and return what happened.

    `exits[i]` is the exit at which request i leaves if it is let run: drawn beforehand, so that all policies meet the same samples.
    `latency` and `exit_rates` are what the policy believes; `actual` (default: the same table) is what runs take. `slots` (default
    `b_max`) bounds the samples past the queue. `overhead_ns` is added to every run: the price of asking the scheduler and of restarting.
    Raises SchedulerError for inconsistent input and PolicyError when the policy breaks the rules.
    """
    actual = actual or latency
    b_max = latency.b_max if b_max is None else b_max
    slots = b_max if slots is None else slots
    check_input(requests, latency, actual, exits, exit_rates, b_max, slots, overhead_ns)
    return _Engine(requests, policy, latency, exits, exit_rates, b_max, slots, actual, overhead_ns).serve()


class _Engine:
    def __init__(
        self,
        requests: Sequence[Request],
        policy: Policy,
        latency: LatencyTable,
        exits: Sequence[int],
        exit_rates: Sequence[float],
        b_max: int,
        slots: int,
        actual: LatencyTable,
        overhead_ns: int,
    ) -> None:
        self.requests, self.policy, self.slots, self.b_max = tuple(requests), policy, slots, b_max
        self.stages = latency.stages
        self.waiting: list[list[Request]] = [[] for _ in range(self.stages)]
        self.view = View(0, self.waiting, latency, tuple(exit_rates), b_max, slots=slots)
        self.took = [[ns + overhead_ns for ns in row] for row in actual.ns]
        self.leaves = {r.id: (i, int(e)) for i, (r, e) in enumerate(zip(self.requests, exits, strict=True))}
        n = len(self.requests)
        self.start, self.end, self.exit, self.outcome = [-1] * n, [-1] * n, [-1] * n, [0] * n
        self.log: list[tuple[int, Action]] = []
        self.run_ends: list[int] = []
        self.held = 0  # samples past the queue

    def serve(self) -> Schedule:
        policy, view, queue, requests = self.policy, self.view, self.waiting[0], self.requests
        arrivals = [r.arrival_ns for r in requests]
        n, i, now = len(requests), 0, 0
        policy.reset()
        decide, log, run = policy.decide, self.log.append, self._run
        while True:
            while i < n and arrivals[i] <= now:
                queue.append(requests[i])
                i += 1
            if not queue and not self.held:
                if i == n:
                    break
                now = arrivals[i]
                continue
            view.now_ns, view.closed = now, i == n
            action = decide(view)
            log((now, action))
            if isinstance(action, Run):
                now = run(now, action)
            elif isinstance(action, Wait):
                now = self._wait(now, action, arrivals[i] if i < n else None)
            elif isinstance(action, Answer):
                self._answer(now, action)
            elif isinstance(action, Shed):
                self._shed(now, action)
            else:
                self._refuse(now, f"returned {action!r}, which is no action")
        return self._schedule()

    def _run(self, now: int, action: Run) -> int:
        stage, batch = action.stage, action.requests
        size = len(batch)
        if not (0 <= stage < self.stages and 1 <= size <= self.b_max):
            self._refuse(
                now,
                f"runs stage {stage} with a batch of {size}; it must be in 0..{self.stages - 1} with 1..{self.b_max}",
            )
        self._take(now, self.waiting[stage], batch, f"the entry of stage {stage}")
        end = now + self.took[stage][size - 1]
        leaves, ends = self.leaves, self.end
        if stage == 0:
            self.held += size
            if self.held > self.slots:
                self._refuse(now, f"holds {self.held} samples in {self.slots} slots")
            for r in batch:
                self.start[leaves[r.id][0]] = now
        stay = []
        for r in batch:
            index, leave = leaves[r.id]
            if leave == stage:
                ends[index] = end
                self.exit[index] = stage
            else:
                stay.append(r)
        self.held -= size - len(stay)
        if stay:
            entry = self.waiting[stage + 1]
            entry.extend(stay)
            if len(entry) > 1:
                entry.sort(key=_order)
        self.run_ends.append(end)
        return end

    def _wait(self, now: int, action: Wait, next_arrival: int | None) -> int:
        if next_arrival is None:
            self._refuse(now, "waits although no further arrival can come")
        until = action.until_ns
        if until is not None and until <= now:
            self._refuse(now, f"waits until {until} ns, which is not later than now")
        assert next_arrival is not None
        return next_arrival if until is None else min(until, next_arrival)

    def _answer(self, now: int, action: Answer) -> None:
        if not action.requests:
            self._refuse(now, "answers nobody")
        for r in action.requests:
            stage = next((s for s in range(1, self.stages) if r in self.waiting[s]), 0)
            if not stage:
                self._refuse(now, f"answers request {r.id}, which waits past no exit")
            self.waiting[stage].remove(r)
            self.held -= 1
            self._leave(r, now, stage - 1, Outcome.ANYTIME)

    def _shed(self, now: int, action: Shed) -> None:
        if not action.requests:
            self._refuse(now, "sheds nobody")
        self._take(now, self.waiting[0], action.requests, "the queue")
        for r in action.requests:
            self.start[self.leaves[r.id][0]] = now
            self._leave(r, now, -1, Outcome.SHED)

    def _leave(self, r: Request, now: int, at_exit: int, outcome: Outcome) -> None:
        index = self.leaves[r.id][0]
        self.end[index], self.exit[index], self.outcome[index] = now, at_exit, outcome

    def _take(self, now: int, entry: list[Request], batch: Sequence[Request], where: str) -> None:
        size = len(batch)
        if size <= len(entry) and all(map(_same, batch, entry)):
            del entry[:size]  # the usual case: the oldest first
            return
        ids = {r.id for r in batch}
        if len(ids) != size:
            self._refuse(now, "names a request twice")
        rest = [r for r in entry if r.id not in ids]
        if len(rest) != len(entry) - size:
            missing = sorted(ids - {r.id for r in entry})
            self._refuse(now, f"takes request {missing[0]}, which does not wait at {where}")
        entry[:] = rest

    def _refuse(self, now: int, violation: str) -> None:
        raise PolicyError(f"policy '{self.policy.name}' at {now} ns {violation}")

    def _schedule(self) -> Schedule:
        return Schedule(
            policy=self.policy.name,
            stages=self.stages,
            b_max=self.b_max,
            slots=self.slots,
            requests=self.requests,
            start_ns=tuple(self.start),
            end_ns=tuple(self.end),
            exit=tuple(self.exit),
            outcome=tuple(self.outcome),
            log=tuple(self.log),
            run_end_ns=tuple(self.run_ends),
        )


def _same(a: Request, b: Request) -> bool:
    return a is b


def check_input(
    requests: Sequence[Request],
    latency: LatencyTable,
    actual: LatencyTable,
    exits: Sequence[int],
    exit_rates: Sequence[float],
    b_max: int,
    slots: int,
    overhead_ns: int,
) -> None:
    """Raise SchedulerError for what `simulate` cannot serve."""
    check_requests(requests)
    check_rates(exit_rates, latency.stages)
    if (actual.stages, actual.b_max) != (latency.stages, latency.b_max):
        raise SchedulerError(
            f"both latency tables must be {latency.stages} stages by {latency.b_max}, not {actual.stages} by {actual.b_max}"
        )
    if not 1 <= b_max <= latency.b_max:
        raise SchedulerError(f"b_max must lie in 1..{latency.b_max}, the columns of the latency table, not {b_max}")
    if slots < b_max:
        raise SchedulerError(f"slots must be at least b_max = {b_max}, not {slots}")
    if overhead_ns < 0:
        raise SchedulerError(f"overhead_ns must not be negative, not {overhead_ns}")
    if len(exits) != len(requests):
        raise SchedulerError(f"exits must name one exit for each of {len(requests)} requests, not {len(exits)}")
    for r, e in zip(requests, exits, strict=True):
        if not 0 <= e < latency.stages:
            raise SchedulerError(f"request {r.id} must leave at an exit in 0..{latency.stages - 1}, not {e}")


def check_requests(requests: Sequence[Request]) -> None:
    """Raise TrafficError unless ids are unique, times sane and requests sorted by (arrival, id)."""
    last = (-1, -1)
    seen = set()
    for r in requests:
        if r.id in seen:
            raise TrafficError(f"request ids must be unique, but {r.id} comes twice")
        seen.add(r.id)
        if r.arrival_ns < 0 or r.deadline_ns <= r.arrival_ns:
            raise TrafficError(
                f"request {r.id} must arrive at or after 0 and have a later deadline, not {r.arrival_ns} and {r.deadline_ns} ns"
            )
        here = (r.arrival_ns, r.id)
        if here < last:
            raise TrafficError(f"requests must be sorted by arrival and id, but {r.id} comes after its successor")
        last = here


def check_rates(exit_rates: Sequence[float], stages: int) -> None:
    """Raise SchedulerError unless there is one share per exit, none negative, summing to 1."""
    if len(exit_rates) != stages:
        raise SchedulerError(f"exit_rates must name {stages} shares, one per stage, not {len(exit_rates)}")
    if any(not 0 <= x <= 1 for x in exit_rates) or abs(sum(exit_rates) - 1) > 1e-6:
        raise SchedulerError(f"exit_rates must be shares that sum to 1, not {list(exit_rates)}")
