"""The one executor of actions: flights, waiting lines, slots, active exits, and what a policy may do and see.

The simulator adds time to it, the runtime a driver, and the replay a log. So all three refuse the same
actions in the same words and let the same requests leave. It keeps no clock: times are passed in.
`Schedule.check` is the independent oracle and does not use it.

>>> table = LatencyTable(ns=((10,), (10,)))
>>> ledger = Ledger[Flight](policy="mine", latency=table, exit_rates=(0.5, 0.5), b_max=1, slots=1)
>>> ledger.admit(Flight(Request(0, 0, 100)))
>>> run = Run(0, tuple(ledger.view.waiting[0]))
>>> ledger.check(0, run, closed=True)
>>> ledger.begin(0, run)[0].status
<Status.RUNNING: 'running'>
>>> ledger.finish(run, 10, [""])
[]
>>> ledger.waiting, ledger.held
([[], [Request(id=0, arrival_ns=0, deadline_ns=100)]], 1)
>>> ledger.check(10, Wait(), closed=True)
Traceback (most recent call last):
fluidnpu.scheduler.errors.PolicyError: policy 'mine' at 10 ns waits although no further arrival can come
"""

from __future__ import annotations

import heapq
import logging
import threading
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Generic, NoReturn, TypeVar

from fluidnpu.dse import LatencyTable

from ..errors import PolicyError
from ..policy import Action, Answer, Policy, Request, Run, Shed, View, Wait, wrapping
from .active import ActiveExits, ExitSet, InForce, Watcher, shadow_of
from .flight import EXPIRED, OVERDUE, Flight, Status
from .networks import Networks
from .schedule import Outcome, Schedule

_log = logging.getLogger(__name__)
by_arrival = attrgetter("arrival_ns", "id")
F = TypeVar("F", bound=Flight)
QUEUED, RUNNING, WAITING, SHADOW, ENDED = Status  # a look-up in an Enum takes longer than what is done with it

_NOBODY = frozenset[int]()


class Ledger(Generic[F]):
    """The flights of one schedule, and the `view` of them that policies get.

    `waiting[s]` are the requests at the entry of stage s in order of (arrival, id); `waiting[0]` is the
    queue, where those of a smaller priority number come first. `held` counts the samples past the queue or in
    a run. With several `networks`, the first stage of each has its queue, and each its own slots. `active`:
    exits that may be inactive and change meanwhile, and `watch`, which sees every run, chooses whose
    samples run on as shadows. `ended` is called with every flight whose sample gives up its place.
    `patience`: decisions in a row that may break the rules; each costs that decision, and what the policy
    wraps is asked, or a plain rule. Beyond it, PolicyError. `record`: keep the past, for `schedule`.
    """

    def __init__(
        self,
        *,
        policy: str,
        latency: LatencyTable,
        exit_rates: Sequence[float],
        b_max: int,
        slots: int,
        networks: Networks | None = None,
        active: ActiveExits | None = None,
        watch: Watcher | None = None,
        ended: Callable[[F], object] | None = None,
        patience: int = 0,
        record: bool = True,
    ) -> None:
        stages = latency.stages
        self.stages, self.b_max, self.slots, self.policy = stages, b_max, slots, policy
        self.networks = Networks.alone(stages=stages, slots=slots) if networks is None else networks
        self.flights: dict[int, F] = {}
        self.waiting: list[list[Request]] = [[] for _ in range(stages)]
        self.queues = tuple(self.waiting[first] for first in self.networks.first)
        self.active, self._ran_on = active, list[int]()  # ids of shadows
        self._first, self._last = frozenset(self.networks.first), frozenset(self.networks.last)
        self._network = self.networks.of_stage
        self._held = [0] * len(self.networks)
        self._watch, self._ended, self._patience = watch, ended, patience
        self._exits: ExitSet | None = None  # None: all are active
        self._unanswerable: set[int] = set()
        self._running: list[F] = []
        self._began_ns = 0
        self._ends: list[tuple[int, int]] = []  # a heap of (time, id) of what terms may end; some are out of date
        self._early = threading.Lock()  # for `passed` and `taken`
        self._record, self._past = record, list[F]()
        self._log: list[tuple[int, Action]] = []
        self._run_ends: list[int] = []
        self._refused = 0  # decisions in a row
        self._replaced = 0  # decisions in all
        self._ranked = False  # some request has had a priority
        self.view = View(0, self.waiting, latency, tuple(exit_rates), b_max, slots=slots)
        if active is not None:
            self.take(active.now.exits, active.now.latency, active.now.rates)

    @property
    def held(self) -> int:
        """Samples past the queue or in a run."""
        return sum(self._held)

    @property
    def busy(self) -> bool:
        """True while a request waits, in the queue or past an exit."""
        return bool(self.flights)

    # -- what comes ------------------------------------------------------------------------------------------

    def admit(self, flight: F) -> None:
        """Put a request into the queue of its network, which stays in order of (priority, arrival, id)."""
        request = flight.request
        self.flights[request.id] = flight
        if self._record:
            self._past.append(flight)
        flight.stage = stage = self.networks.entry(request)
        self._ranked = self._ranked or flight.terms.priority != 0
        if self._ranked:
            insort(self.waiting[stage], request, key=self._rank)
        else:
            self.waiting[stage].append(request)
        if flight.terms.timeout_ns is not None:
            self._expect_end(flight)

    def resume(self, flight: F, stage: int, *, answerable: bool = True) -> None:
        """Put a request where it waited when a log was begun."""
        self.flights[flight.request.id] = flight
        self.waiting[stage].append(flight.request)
        flight.stage = stage
        if stage in self._first:
            return
        self._held[self._network[stage]] += 1
        flight.status, flight.asked = WAITING, stage - 1 if answerable else -1
        if not answerable:
            self._unanswerable.add(flight.request.id)

    def adopt(self) -> InForce | None:
        """Let a change of the active exits hold from now on; return it if there is one."""
        state = None if self.active is None else self.active.adopt()
        if state is not None:
            self.take(state.exits, state.latency, state.rates)
        return state

    def take(self, exits: ExitSet, latency: LatencyTable, exit_rates: Sequence[float]) -> None:
        """Let these exits be active."""
        self._exits, self.view.unanswerable = exits, self._unanswerable
        self.view.latency, self.view.exit_rates = latency, tuple(exit_rates)

    def runs_head(self, stage: int) -> bool:
        """Return whether a run of a stage ends at an exit that is asked."""
        return self._exits is None or self._exits.runs_head(stage)

    def withdraw(self, ids: Iterable[int]) -> list[F]:
        """Take requests out of the queue and return them; those that have begun, or are not here, stay so."""
        flights = (self.flights.get(id) for id in dict.fromkeys(ids))
        leaving = [flight for flight in flights if flight is not None and flight.status is QUEUED]
        for stage in {flight.stage for flight in leaving}:
            self._take(stage, [flight.request for flight in leaving if flight.stage == stage])
        for flight in leaving:
            self._close(flight)
        return leaving

    # -- decisions -------------------------------------------------------------------------------------------

    def decide(self, policy: Policy, now_ns: int, closed: bool) -> Action:
        """Return the next action: what the terms of a request demand, or else what the policy says.

        `closed`: no further request will be admitted. Raises PolicyError.
        """
        view = self.view
        view.now_ns, view.closed = now_ns, closed
        action = self._demanded(now_ns) if self._ends else None
        if action is None:
            try:
                action = policy.decide(view)
                self.check(now_ns, action, closed)
                self._refused = 0
            except Exception as error:
                self._refused += 1
                if self._refused > self._patience:
                    raise
                action = self._instead(policy, now_ns, closed, error)
        if self._record:
            self._log.append((now_ns, action))
        return action

    def next_end_ns(self) -> int | None:
        """Return the first time at which a waiting request's terms end it; None when no terms can."""
        while self._ends:
            at_ns, id = self._ends[0]
            if (flight := self.flights.get(id)) is not None and flight.ends_ns == at_ns:
                return at_ns
            heapq.heappop(self._ends)
        return None

    def check(self, now_ns: int, action: Action, closed: bool) -> None:
        """Raise PolicyError unless the rules allow the action now; nothing changes."""
        if isinstance(action, Run):
            stage, batch = action.stage, action.requests
            if not (0 <= stage < self.stages and 1 <= len(batch) <= self.b_max):
                must = f"it must be in 0..{self.stages - 1} with 1..{self.b_max}"
                self.refuse(now_ns, f"runs stage {stage} with a batch of {len(batch)}; {must}")
            if self.waiting[stage][: len(batch)] != [*batch]:  # mostly the oldest run first
                self._check_waits(now_ns, stage, batch, f"the entry of stage {stage}")
            if stage in self._first and len(batch) > self._room(stage):
                slots = self.networks.slots[self._network[stage]]
                self.refuse(now_ns, f"holds {slots - self._room(stage) + len(batch)} samples in {slots} slots")
        elif isinstance(action, Wait):
            if closed:
                self.refuse(now_ns, "waits although no further arrival can come")
            if action.until_ns is not None and action.until_ns <= now_ns:
                self.refuse(now_ns, f"waits until {action.until_ns} ns, which is not later than now")
        elif isinstance(action, Answer):
            if not action.requests:
                self.refuse(now_ns, "answers nobody")
            self._check_once(now_ns, action.requests)
            for request in action.requests:
                flight = self.flights.get(request.id)
                if flight is None or flight.status is QUEUED:
                    self.refuse(now_ns, f"answers request {request.id}, which waits past no exit")
                if flight.asked < 0:
                    self.refuse(now_ns, f"answers request {request.id}, which has passed no active exit")
        elif isinstance(action, Shed):
            if not action.requests:
                self.refuse(now_ns, "sheds nobody")
            for stage in dict.fromkeys(map(self.networks.entry, action.requests)):
                queued = [request for request in action.requests if self.networks.entry(request) == stage]
                self._check_waits(now_ns, stage, queued, "the queue")
        else:
            self.refuse(now_ns, f"returned {action!r}, which is no action")

    def refuse(self, now_ns: int, violation: str) -> NoReturn:
        """Raise PolicyError with the policy's name and the time."""
        raise PolicyError(f"policy '{self.policy}' at {now_ns} ns {violation}")

    # -- actions, which were checked -------------------------------------------------------------------------

    def begin(self, now_ns: int, run: Run) -> list[F]:
        """Take the batch of a run from its line and return it; a first run takes slots."""
        self._take(run.stage, run.requests)
        self._began_ns = now_ns
        by_id = self.flights
        self._running = flights = [by_id[request.id] for request in run.requests]
        if run.stage in self._first:
            self._held[self._network[run.stage]] += len(flights)
            for flight in flights:
                flight.start_ns, flight.status = now_ns, RUNNING
        else:
            for flight in flights:
                if flight.status is WAITING:
                    flight.status = RUNNING
        return flights

    def finish(
        self,
        run: Run,
        end_ns: int,
        reasons: Sequence[str],
        labels: Sequence[int] | None = None,
        shadows: frozenset[int] | None = None,
        worked_ns: int | None = None,
        confidences: Sequence[float] | None = None,
    ) -> list[F]:
        """End a run: who has a reason is answered and leaves, the others wait for the next stage.

        Return the flights that are answered now. A shadow runs to the last stage, whatever its reason.
        `labels`, `confidences`: what the exit said, for the watcher. `shadows`: ids of those answered whose
        samples run on (None: the watcher is asked). `worked_ns`: the NPU's own time (None: that of the run).
        """
        stage, flights, last = run.stage, self._running, run.stage in self._last
        if self._record:
            self._run_ends.append(end_ns)
        head, adapts = self.runs_head(stage), self._exits is not None
        if shadows is None:
            shadows = self._watched(end_ns, stage, flights, reasons, labels, confidences)
        size = len(flights)
        if worked_ns is None:
            worked_ns = end_ns - self._began_ns
        answered: list[F] = []
        staying: list[Request] = []
        for place, (flight, reason) in enumerate(zip(flights, reasons, strict=True)):
            if flight.status is SHADOW:
                if last:
                    self._close(flight)
                    if self._watch is not None:
                        self._watch.shadow_ended(end_ns, flight.request.id, None if labels is None else labels[place])
                else:
                    flight.stage = stage + 1
                    staying.append(flight.request)
                continue
            flight.worked_ns += worked_ns
            flight.batch = size
            if flight.terms.anytime and self._is_taken(flight):
                self._close(flight)
                if self._watch is not None:
                    self._watch.gone(flight.request.id)
            elif reason:
                flight.end_ns, flight.exit, flight.because = end_ns, stage, reason
                answered.append(flight)
                if flight.request.id in shadows and not last:
                    staying.append(self._run_on(flight))
                else:
                    self._close(flight)
            else:
                staying.append(flight.request)
                flight.stage, flight.status = stage + 1, WAITING
                if head:
                    fresh, flight.asked = flight.asked < 0, stage
                    if fresh and flight.terms.anytime:
                        self._expect_end(flight)
                if adapts:
                    (self._unanswerable.discard if flight.asked >= 0 else self._unanswerable.add)(flight.request.id)
        if staying:
            line = self.waiting[stage + 1]
            line.extend(staying)
            if len(line) > 1:
                line.sort(key=by_arrival)
        return answered

    def lose(self) -> list[F]:
        """End a run that was given up; return those of its flights that have no answer."""
        lost = [flight for flight in self._running if flight.status is not SHADOW and not self._is_taken(flight)]
        for flight in self._running:
            self._close(flight)
            if self._watch is not None:
                self._watch.gone(flight.request.id)
        return lost

    def answer(self, now_ns: int, action: Answer) -> list[F]:
        """Let the requests leave with the last exit asked; return those that have no answer yet."""
        answered = []
        for request in action.requests:
            flight = self.flights[request.id]
            self.waiting[flight.stage].remove(flight.request)
            shadow, taken = flight.status is SHADOW, self._is_taken(flight)
            self._close(flight)
            if self._watch is not None:
                self._watch.gone(request.id)
            if not (shadow or taken):
                flight.end_ns, flight.exit = now_ns, flight.asked
                flight.outcome, flight.because = Outcome.ANYTIME, action.reason
                answered.append(flight)
        return answered

    def shed(self, now_ns: int, action: Shed) -> list[F]:
        """Let the requests leave the queue; return them."""
        shed = [self.flights[request.id] for request in action.requests]
        for stage in dict.fromkeys(flight.stage for flight in shed):
            self._take(stage, [flight.request for flight in shed if flight.stage == stage])
        for flight in shed:
            self._close(flight)
            flight.start_ns = flight.end_ns = now_ns
            flight.outcome, flight.because = Outcome.SHED, action.reason
        return shed

    # -- answers that another thread may give ----------------------------------------------------------------

    def pass_exit(self, flight: F, answer: object) -> None:
        """Keep the answer of the exit that a waiting request has passed, until it passes the next."""
        with self._early:
            flight.passed = answer

    def take_passed(self, id: int) -> Any:
        """Take the answer of the last exit that a request has passed; None without one. From any thread.

        The caller then answers the request, and nobody else does.
        """
        flight = self.flights.get(id)
        if flight is None:
            return None
        with self._early:
            passed, flight.passed = flight.passed, None
            flight.taken = flight.taken or passed is not None
        return passed

    def _is_taken(self, flight: F) -> bool:
        """Return whether another thread has answered a flight; if not, the answer is void from now on."""
        with self._early:
            flight.passed = None
            return flight.taken

    # -- records ---------------------------------------------------------------------------------------------

    def schedule(self) -> Schedule:
        """Return the past, in which every request has ended."""
        past = self._past
        return Schedule(
            policy=self.policy,
            stages=self.stages,
            b_max=self.b_max,
            slots=self.slots,
            requests=tuple([flight.origin or flight.request for flight in past]),
            start_ns=tuple([flight.start_ns for flight in past]),
            end_ns=tuple([flight.end_ns for flight in past]),
            exit=tuple([flight.exit for flight in past]),
            outcome=tuple([flight.outcome for flight in past]),
            log=tuple(self._log),
            run_end_ns=tuple(self._run_ends),
            because=tuple([flight.because for flight in past]),
            shadows=tuple(sorted(self._ran_on)),
            adapted=self.active is not None,
            networks=self.networks if len(self.networks) > 1 else None,
        )

    # -- inner parts -----------------------------------------------------------------------------------------

    def _demanded(self, now_ns: int) -> Action | None:
        """Return the action that the terms of waiting requests demand now, if any do."""
        ids: set[int] = set()  # a request is in the heap twice where its timeout is its objective
        while (at_ns := self.next_end_ns()) is not None and at_ns <= now_ns:
            ids.add(heapq.heappop(self._ends)[1])
        if not ids:
            return None
        due = [self.flights[id] for id in sorted(ids)]
        for flight in due:
            self._expect_end(flight)  # of another network, or past an exit: next time
        queued = [flight for flight in due if flight.status is QUEUED]
        network = self._network[(queued or due)[0].stage]
        of_network = [flight.request for flight in queued or due if self._network[flight.stage] == network]
        requests = tuple(sorted(of_network, key=by_arrival))
        return Shed(requests, reason=EXPIRED) if queued else Answer(requests, reason=OVERDUE)

    def _instead(self, policy: Policy, now_ns: int, closed: bool, error: Exception) -> Action:
        """Return the action of what a policy wraps, or a plain one, in place of one that breaks the rules."""
        self._replaced += 1
        level = logging.DEBUG if self._replaced & (self._replaced - 1) else logging.ERROR  # the 1st, 2nd, 4th, 8th
        _log.log(
            level, "a decision of '%s' is replaced: %s", self.policy, error, exc_info=not isinstance(error, PolicyError)
        )
        for inner in islice(wrapping(policy), 1, None):
            try:
                action = inner.decide(self.view)
                self.check(now_ns, action, closed)
            except Exception:
                continue
            return action
        for stage in range(self.stages - 1, -1, -1):
            most = min(self.b_max, self._room(stage)) if stage in self._first else self.b_max
            if self.waiting[stage] and most > 0:
                return Run(stage, tuple(self.waiting[stage][:most]), "in place of a decision that broke the rules")
        raise error  # nobody waits, so nobody should have been asked

    def _room(self, stage: int) -> int:
        """Return the free slots of a stage's network."""
        network = self._network[stage]
        return self.networks.slots[network] - self._held[network]

    def _watched(
        self,
        now_ns: int,
        stage: int,
        flights: Sequence[F],
        reasons: Sequence[str],
        labels: Sequence[int] | None,
        confidences: Sequence[float] | None,
    ) -> frozenset[int]:
        """Tell the watcher of a run; return the ids of the leavers that run on as shadows."""
        if self._watch is None or self.active is None:
            return _NOBODY
        if not (seen := [k for k, flight in enumerate(flights) if flight.status is not SHADOW]):
            return _NOBODY
        return self._watch.ran(
            now_ns,
            self.active.now,
            stage,
            [flights[k].request for k in seen],
            [reasons[k] for k in seen],
            None if labels is None else [labels[k] for k in seen],
            None if confidences is None else [confidences[k] for k in seen],
        )

    def _run_on(self, flight: F) -> Request:
        """Keep the sample of a request that has its answer; nobody waits for the shadow."""
        flight.status, flight.asked, flight.stage = SHADOW, flight.stage, flight.stage + 1
        flight.origin, flight.request = flight.request, shadow_of(flight.request)
        self._unanswerable.discard(flight.request.id)
        if self._record:
            self._ran_on.append(flight.request.id)
        return flight.request

    def _close(self, flight: F) -> None:
        """Take a flight off the books; its place, if it has one, is free."""
        if flight.status is not QUEUED:
            self._held[self._network[flight.stage]] -= 1
        flight.status = ENDED
        del self.flights[flight.request.id]
        if self._exits is not None:
            self._unanswerable.discard(flight.request.id)
        if self._ended is not None:
            self._ended(flight)

    def _rank(self, request: Request) -> tuple[int, int, int]:
        return self.flights[request.id].terms.priority, request.arrival_ns, request.id

    def _expect_end(self, flight: F) -> None:
        if len(self._ends) > 2 * len(self.flights) + 64:  # most are of requests that ended otherwise
            self._ends = [end for end in self._ends if end[1] in self.flights]
            heapq.heapify(self._ends)
        if (at_ns := flight.ends_ns) is not None:
            heapq.heappush(self._ends, (at_ns, flight.request.id))

    def _check_waits(self, now_ns: int, stage: int, batch: Sequence[Request], where: str) -> None:
        """Refuse a batch of which one does not wait in the line of a stage."""
        self._check_once(now_ns, batch)
        ids = (request.id for request in batch)  # the NPU is idle, so whoever is at the stage waits
        missing = [id for id in ids if (flight := self.flights.get(id)) is None or flight.stage != stage]
        if missing:
            self.refuse(now_ns, f"takes request {min(missing)}, which does not wait at {where}")

    def _check_once(self, now_ns: int, batch: Sequence[Request]) -> None:
        if len({request.id for request in batch}) != len(batch):
            self.refuse(now_ns, "names a request twice")

    def _take(self, stage: int, batch: Sequence[Request]) -> None:
        """Remove a batch from the line of a stage."""
        line = self.waiting[stage]
        if line[: len(batch)] == [*batch]:
            del line[: len(batch)]
        else:
            ids = {request.id for request in batch}
            line[:] = [request for request in line if request.id not in ids]
