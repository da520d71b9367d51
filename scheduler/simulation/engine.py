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
from dataclasses import replace

from ..policy import Action, Answer, Policy, Request, Run, Shed, View, Wait
from .active import InForce, shadow_of
from .ledger import Ledger
from .schedule import LAST, Outcome, Schedule
from .world import LiveExits, World

_NOT_DRAWN = -1  # the exit of a sample for which `World.exits` is asked at the exit


def simulate(requests: Sequence[Request], policy: Policy, world: World) -> Schedule:
    """Serve `requests` (sorted by arrival, then id) in `world` and return the schedule.

    Raises SchedulerError for inconsistent input and PolicyError when the policy breaks the rules.
    """
    world.check(requests)
    engine = _Engine if world.active is None else _AdaptingEngine
    return engine(requests, policy, world).serve()


class _Engine:
    """Simulated time around a `Ledger`; per-request columns are aligned with `requests`."""

    def __init__(self, requests: Sequence[Request], policy: Policy, world: World) -> None:
        self.requests, self.policy = tuple(requests), policy
        stages, b_max, slots = world.latency.stages, world.batch_limit, world.slot_limit
        self.ledger = Ledger(stages=stages, b_max=b_max, slots=slots, policy=policy.name, networks=world.networks)
        self.first, self.last = frozenset(self.ledger.networks.first), frozenset(self.ledger.networks.last)
        self.view = View(0, self.ledger.waiting, world.latency, tuple(world.exit_rates), b_max, slots=slots)
        self.run_ns, self.world_networks = world.run_ns, world.networks
        n = len(self.requests)
        self.live, drawn = world.live, world.drawn
        exits = (_NOT_DRAWN,) * n if drawn is None else drawn
        self.place = {r.id: (i, int(e)) for i, (r, e) in enumerate(zip(self.requests, exits, strict=True))}
        self.start, self.end, self.exit, self.outcome = [-1] * n, [-1] * n, [-1] * n, [0] * n
        self.because = [""] * n if self.live is not None else []
        self.log: list[tuple[int, Action]] = []
        self.run_ends: list[int] = []

    def serve(self) -> Schedule:
        policy, view, ledger, requests = self.policy, self.view, self.ledger, self.requests
        arrivals = [r.arrival_ns for r in requests]
        n, i, now = len(requests), 0, 0
        policy.reset()
        decide, log, run, queues = policy.decide, self.log.append, self._run, ledger.queues
        alone, queue, entry = len(queues) == 1, queues[0], ledger.networks.entry
        while True:
            while i < n and arrivals[i] <= now:
                line = queue if alone else ledger.waiting[entry(requests[i])]
                line.append(requests[i])
                i += 1
            if not queue and (alone or not any(queues)) and not ledger.held:
                if i == n:
                    break
                now = arrivals[i]
                continue
            view.now_ns, view.closed = now, i == n
            self._adopt()
            action = decide(view)
            log((now, action))
            if isinstance(action, Run):
                now = run(now, action)
            elif isinstance(action, Wait):
                ledger.check_wait(now, action, i == n)
                now = arrivals[i] if action.until_ns is None else min(action.until_ns, arrivals[i])
            elif isinstance(action, Answer):
                for request, passed in ledger.answer(now, action):
                    self._answer(request, now, passed, action.reason)
            elif isinstance(action, Shed):
                ledger.shed(now, action)
                for request in action.requests:
                    self.start[self.place[request.id][0]] = now
                    self._leave(request, now, -1, Outcome.SHED, action.reason)
            else:
                ledger.refuse(now, f"returned {action!r}, which is no action")
        return self._schedule()

    def _adopt(self) -> None:
        """Adopt what has changed in the world since the last decision: nothing."""

    def _run(self, now: int, action: Run) -> int:
        """Run a batch; return the time of its end."""
        stage, batch, place, live = action.stage, action.requests, self.place, self.live
        self.ledger.begin(now, action)
        end = now + self.run_ns[stage][len(batch) - 1]
        if stage in self.first:
            for request in batch:
                self.start[place[request.id][0]] = now
        if live is not None:
            staying = self._ask(live, action, end)
        else:
            staying = []
            for request in batch:
                index, drawn = place[request.id]
                if drawn == stage:
                    self.end[index] = end
                    self.exit[index] = stage
                else:
                    staying.append(request)
        self.ledger.finish(action, staying)
        self.run_ends.append(end)
        return end

    def _ask(self, live: LiveExits, run: Run, end: int) -> list[Request]:
        """Let those leave that the exit lets leave, all of them at the last; return the others."""
        stage, staying = run.stage, []
        rows = [self.place[request.id][0] for request in run.requests]
        if stage in self.last:
            reasons: Sequence[str] = [LAST] * len(rows)
        else:
            reasons = live.leaving(run.requests, [self.start[row] for row in rows], stage, end)
        for request, row, reason in zip(run.requests, rows, reasons, strict=True):
            if reason:
                self.end[row], self.exit[row], self.because[row] = end, stage, reason
            else:
                staying.append(request)
        return staying

    def _answer(self, request: Request, now: int, passed: int, reason: str) -> None:
        self._leave(request, now, passed, Outcome.ANYTIME, reason)

    def _leave(self, request: Request, now: int, passed: int, outcome: Outcome, reason: str) -> None:
        index = self.place[request.id][0]
        self.end[index], self.exit[index], self.outcome[index] = now, passed, outcome
        if self.because:
            self.because[index] = reason

    def _schedule(self) -> Schedule:
        return Schedule(
            policy=self.policy.name,
            stages=self.ledger.stages,
            b_max=self.ledger.b_max,
            slots=self.ledger.slots,
            requests=self.requests,
            start_ns=tuple(self.start),
            end_ns=tuple(self.end),
            exit=tuple(self.exit),
            outcome=tuple(self.outcome),
            log=tuple(self.log),
            run_end_ns=tuple(self.run_ends),
            because=tuple(self.because),
            networks=self.world_networks,
        )


class _AdaptingEngine(_Engine):
    """The engine with exits that may be inactive, and samples that run on after their answer."""

    def __init__(self, requests: Sequence[Request], policy: Policy, world: World) -> None:
        super().__init__(requests, policy, world)
        assert world.active is not None
        self.active, self.watch, self.overhead_ns = world.active, world.watch, world.overhead_ns
        self.passed: dict[int, int] = {}  # by request past an exit whose head ran: the last such exit
        self.shadows: set[int] = set()
        self.ran_on: list[int] = []
        self.unanswerable: set[int] = set()
        self.view.unanswerable = self.unanswerable
        self._take(self.active.now)

    def _adopt(self) -> None:
        if (state := self.active.adopt()) is not None:
            self._take(state)

    def _take(self, state: InForce) -> None:
        self.view.latency, self.view.exit_rates = state.latency, state.rates
        self.run_ns = tuple(tuple(ns + self.overhead_ns for ns in row) for row in state.latency.ns)

    def _ask(self, live: LiveExits, run: Run, end: int) -> list[Request]:
        stage, force, last = run.stage, self.active.now, run.stage == self.ledger.stages - 1
        rows = [self.place[request.id][0] for request in run.requests]
        if last:
            reasons: Sequence[str] = [LAST] * len(rows)
        elif force.exits.runs_head(stage):
            reasons = live.leaving(run.requests, [self.start[row] for row in rows], stage, end)
        else:
            reasons = [""] * len(rows)
        mine = [request.id in self.shadows for request in run.requests]
        reasons = [reason if last or not shadow else "" for reason, shadow in zip(reasons, mine, strict=True)]
        watch, on = self.watch, frozenset[int]()
        if watch is not None:
            seen = [k for k, shadow in enumerate(mine) if not shadow]
            told = [run.requests[k] for k in seen], [reasons[k] for k in seen]
            on = watch.ran(end, force, stage, *told, None) if seen else on
        staying = []
        for request, row, reason, shadow in zip(run.requests, rows, reasons, mine, strict=True):
            self._note_exit(request.id, stage, force, bool(reason))
            if shadow and last:
                self.shadows.discard(request.id)
                if watch is not None:
                    watch.shadow_ended(end, request.id, None)
                continue
            if not reason:
                staying.append(request)
                continue
            self.end[row], self.exit[row], self.because[row] = end, stage, reason
            if request.id in on and not last:
                self.shadows.add(request.id)
                self.ran_on.append(request.id)
                staying.append(shadow_of(request))
        return staying

    def _note_exit(self, id: int, stage: int, force: InForce, leaves: bool) -> None:
        if leaves:
            self.passed.pop(id, None)
            self.unanswerable.discard(id)
        elif force.exits.runs_head(stage):
            self.passed[id] = stage
            self.unanswerable.discard(id)
        elif id not in self.passed and id not in self.shadows:
            self.unanswerable.add(id)

    def _answer(self, request: Request, now: int, passed: int, reason: str) -> None:
        if request.id in self.shadows:
            self.shadows.discard(request.id)
            return
        if request.id in self.unanswerable:
            self.ledger.refuse(now, f"answers request {request.id}, which has passed no active exit")
        super()._answer(request, now, self.passed.pop(request.id, passed), reason)
        if self.watch is not None:
            self.watch.gone(request.id)

    def _schedule(self) -> Schedule:
        return replace(super()._schedule(), shadows=tuple(sorted(self.ran_on)), adapted=True)
