"""The runtime loop: the policy decides, the driver acts, a rule decides exits, replies return.

It asks the policy exactly when `scheduler.simulate` does and keeps the same `Ledger`, so on a virtual clock
both make the same schedule from the same requests. A failed job is recovered (soft reset, program written
again) and run again: its samples never left their slots. With a guarded driver nothing in a slot is
believed after a failure, since a damaged job may have written anywhere: every sample that it holds is
written again and runs again from the first stage when its turn comes.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from fluidnpu.dse import Design
from fluidnpu.models.exits import exceeds_threshold, stated, sureness
from fluidnpu.models.graph import Check, ExitCheck, MapCheck
from fluidnpu.scheduler import (
    Action,
    Answer,
    Ledger,
    Outcome,
    Policy,
    Request,
    Run,
    Schedule,
    Shed,
    View,
    Wait,
)
from fluidnpu.scheduler.exits import LAST, Criteria, Criterion, ExitProfile, ExitRule, RuledExits, StageCosts
from fluidnpu.scheduler.simulation import ActiveExits, InForce, Watcher, shadow_of

from ..driver import Driver, Job, Meanwhile
from ..errors import DeviceError, DriverUsageError, GaveUpError
from .replies import EXPIRED, GOES_ON, OVERDUE, PLAIN, Fate, Image, Observer, Refusal, Reply, Terms, map_answers

_log = logging.getLogger(__name__)


class Runtime:
    """Serves requests on a driver, one decision of the policy a `step`.

    `rule` decides at every exit but the last whether a sample leaves: criteria, or a rule of one's own
    (default: the program's thresholds as a criterion). `costs` tells the latter the costs of each stage
    (default: the design's MACs), the former have a profile. `attempts`: how often a job is
    tried before GaveUpError. Then its requests are dropped and their slots free, while all others still wait,
    so a caller that catches the error may `Driver.recover` and go on. `record` keeps log and replies for
    `schedule`; a server that runs for weeks does not. `observers` are told of all that happens, in order.
    `active`: exits that may be inactive and change meanwhile; `watch` is told of every run, and chooses whose
    samples run on after their answer. `meanwhile` is called whenever the NPU has begun to work, or has failed
    to: for all that need not keep it waiting. Images of requests that wait are written ahead then, as far as
    slots are free.

    With several programs there is a rule for each, and `networks` names by tenant the program that its
    requests are for; exits of replies are then those of their network, and stages are numbered through.
    """

    def __init__(
        self,
        driver: Driver,
        policy: Policy,
        *,
        exit_rates: Sequence[float] | None = None,
        rule: ExitRule | Criteria | Sequence[ExitRule | Criteria] | None = None,
        costs: StageCosts | None = None,
        attempts: int = 3,
        record: bool = True,
        observers: Sequence[Observer] = (),
        active: ActiveExits | None = None,
        watch: Watcher | None = None,
        networks: Mapping[str, int] | None = None,
        meanwhile: Meanwhile | None = None,
    ) -> None:
        if attempts < 1:
            raise DriverUsageError(f"attempts must be at least 1, not {attempts}")
        design = driver.design
        self.networks = driver.networks(networks or {})
        rates = _believed_rates(driver.parts, exit_rates)
        self.driver, self.policy = driver, policy
        self.failures: deque[DeviceError] = deque(maxlen=None if record else 1)
        self.failed = 0  # jobs, over all time
        self.lost_in_a_row = 0  # jobs given up since one ended well
        self._attempts, self._record = attempts, record
        if rule is None:
            rule = [usual_criteria(driver, network=index) for index in range(len(driver.parts))]
        rules = tuple(rule) if isinstance(rule, Sequence) else (rule,)
        if len(rules) != len(driver.parts):
            raise DriverUsageError(f"there must be a rule for each of {len(driver.parts)} networks, not {len(rules)}")
        self.criteria = tuple(one for one in rules if isinstance(one, Criteria))
        self._exits = [
            RuledExits(rule=one, costs=StageCosts.of(part) if costs is None else costs)
            for one, part in zip(rules, driver.parts, strict=True)
        ]
        self._ledger = Ledger(
            stages=design.stages, b_max=design.b_max, slots=driver.slots, policy=policy.name, networks=self.networks
        )
        waiting = self._ledger.waiting
        self._view = View(0, waiting, design.latency, rates, design.b_max, slots=driver.slots)
        self.active, self._watch = active, watch
        self._shadows: dict[int, None] = {}  # requests that are answered and run on, in order
        self._ran_on: list[int] = []
        self._unanswerable: set[int] = set()  # past stage 0 without an exit whose head ran
        self._asked_exit: dict[int, int] = {}  # by request past an exit whose head ran: the last such exit
        self._adopted: InForce | None = None  # since the last run
        self.adoption_ns: deque[int] = deque(maxlen=1000)  # from the decision of a change to the next batch
        if active is not None:
            if len(driver.parts) > 1:
                raise DriverUsageError(f"active exits are those of one network, and the driver has {len(driver.parts)}")
            self._view.unanswerable = self._unanswerable
            self._view.latency, self._view.exit_rates = active.now.latency, active.now.rates
        self._free = [list(slots) for slots in driver.slots_of]
        self._images: dict[int, Image] = {}
        self._slot: dict[int, int] = {}
        self._ahead: list[dict[int, int]] = [{} for _ in driver.parts]  # by queued request: the slot of its image
        self._told_meanwhile = meanwhile
        self._start: dict[int, int] = {}
        self._suspect: set[int] = set()  # requests whose slot may hold anything
        self._logits: dict[int, Image] = {}  # by request past an exit: the logits of the last one
        self._worked: dict[int, tuple[int, int]] = {}  # by request: ns in runs, and the last batch
        self._terms: dict[int, Terms] = {}  # of the requests that have any
        self._passed: dict[int, Reply] = {}  # by request that may be answered early: the answer of its last exit
        self._observers = tuple(observers)
        self._epoch = driver.device.clock.now_ns()
        self._log: list[tuple[int, Action]] = []
        self._run_ends: list[int] = []
        policy.reset()
        for observer in self._observers:
            observer.began(self._view)
            if active is not None:
                observer.adapted(0, active.now)

    @property
    def now_ns(self) -> int:
        """Nanoseconds since this runtime began: the scale of requests and replies."""
        return self.driver.device.clock.now_ns() - self._epoch

    def sleep_until(self, time_ns: int) -> None:
        """Let time pass on the device's clock."""
        self.driver.device.clock.sleep_until(self._epoch + time_ns)

    @property
    def busy(self) -> bool:
        """True while a request waits, in the queue or past an exit."""
        return self._ledger.busy

    @property
    def queue(self) -> Sequence[Request]:
        """The requests that wait for their first run, in order of (arrival, id) by network."""
        return list(chain(*self._ledger.queues))

    @property
    def held(self) -> int:
        """Slots that hold a sample."""
        return self._ledger.held

    def admit(self, request: Request, image: Image, terms: Terms = PLAIN) -> None:
        """Put a request into the queue; requests must come in order of (arrival, id)."""
        self._images[request.id] = image
        if terms is not PLAIN:
            self._terms[request.id] = terms
            if terms.criterion is not None and self.criteria:
                self.criteria[self.networks.of(request)].set(terms.criterion, request=request.id)
        self._ledger.admit(request)
        for observer in self._observers:
            observer.admitted(request)

    def step(self, closed: bool) -> list[Fate] | Wait:
        """Ask the policy once and execute its action; a `Wait` is left to the caller.

        Requests whose terms end them now are ended first, without a question. `closed` says that no further
        request will be admitted. Raises PolicyError, GaveUpError.
        """
        now = self.now_ns
        self._view.now_ns, self._view.closed = now, closed
        if self.active is not None and (state := self.active.adopt()) is not None:
            self._adopt(now, state)
        action = (self._overdue(now) if self._terms else None) or self.policy.decide(self._view)
        if self._record:
            self._log.append((now, action))
        for observer in self._observers:
            observer.decided(self._view, action)
        if isinstance(action, Run):
            fates = self._run(now, action)
        elif isinstance(action, Wait):
            self._ledger.check_wait(now, action, closed)
            return action
        elif isinstance(action, Answer):
            fates = self._answer(now, action)
        elif isinstance(action, Shed):
            fates = self._shed(now, action)
        else:
            self._ledger.refuse(now, f"returned {action!r}, which is no action")
        for observer in self._observers:
            observer.ended(fates)
        return fates

    def next_end_ns(self) -> int | None:
        """Return the first time at which a waiting request's terms end it; None when no terms can."""
        times = [
            end
            for stage, line in enumerate(self._ledger.waiting)
            for request in line
            if (end := self._terms.get(request.id, PLAIN).end_ns(request, self._local(stage))) is not None
            and request.id not in self._unanswerable
        ]
        return min(times, default=None) if self._terms else None

    def take_passed(self, request_id: int) -> Reply | None:
        """Take the answer of the last exit that a request has passed; None without one. From any thread.

        The caller then answers the request, and the runtime gives no reply for it.
        """
        return self._passed.pop(request_id, None)  # one operation, so that only one thread gets it

    # -- active exits ----------------------------------------------------------------------------------------

    def _adopt(self, now: int, state: InForce) -> None:
        """Let a change of the active exits hold from now on."""
        self._view.latency, self._view.exit_rates = state.latency, state.rates
        self._adopted = state
        for observer in self._observers:
            observer.adapted(now, state)

    def _runs_head(self, stage: int) -> bool:
        return self.active is None or self.active.now.exits.runs_head(stage)

    def _watched(self, now: int, run: Run, reasons: Sequence[str], labels: Sequence[int] | None) -> frozenset[int]:
        """Tell the watcher of a run; return the ids of the leavers that run on as shadows."""
        if self._watch is None or self.active is None:
            return frozenset()
        seen = [k for k, request in enumerate(run.requests) if request.id not in self._shadows]
        if not seen:
            return frozenset()
        return self._watch.ran(
            now,
            self.active.now,
            run.stage,
            [run.requests[k] for k in seen],
            [reasons[k] for k in seen],
            None if labels is None else [labels[k] for k in seen],
        )

    def _end_shadow(self, request: Request, now: int, label: int | None) -> None:
        """Free the slot of a sample that ran on; its request was answered before."""
        self._forget(request)
        if self._watch is not None:
            self._watch.shadow_ended(now, request.id, label)

    # -- actions ---------------------------------------------------------------------------------------------

    def _local(self, stage: int) -> int:
        """Return the number of a stage within its network."""
        return stage - self.networks.first[self.networks.of_stage[stage]]

    def _overdue(self, now: int) -> Action | None:
        """Return the action that the terms of a waiting request demand now, if any do."""
        for stage, line in enumerate(self._ledger.waiting):
            ended = tuple(
                request
                for request in line
                if (end := self._terms.get(request.id, PLAIN).end_ns(request, self._local(stage))) is not None
                and end <= now
                and request.id not in self._unanswerable
            )
            if ended:
                return Answer(ended, reason=OVERDUE) if self._local(stage) else Shed(ended, reason=EXPIRED)
        return None

    def _run(self, now: int, run: Run) -> list[Fate]:
        stage, batch = run.stage, run.requests
        self._ledger.begin(now, run)
        network, exit = self.networks.of_stage[stage], self._local(stage)
        if exit == 0:
            self._launch(now, batch, network)
        slots = [self._slot[request.id] for request in batch]
        if self._adopted is not None:
            self.adoption_ns.append(time.perf_counter_ns() - self._adopted.decided_ns)
            self._adopted = None
        job = self._work(run, slots)
        end = self.now_ns
        if self._record:
            self._run_ends.append(end)
        for observer in self._observers:
            observer.ran(run, now, end, job)
        if not self._runs_head(stage):
            self._pass_by(run, now, end)
            return []
        logits = self.driver.logits(slots, stage)
        last = stage == self.networks.last[network]
        fates: list[Fate] = []
        staying = []
        check = self.driver.programs[network].check
        sures, labels = (one.tolist() for one in stated(logits, check))
        plain = check is ExitCheck.TOP or isinstance(check, MapCheck)
        checked = sures if plain else self._checked(batch, logits, check)
        started = [self._start[request.id] for request in batch]
        ruled = self._exits[network]
        reasons = self._at_the_end(network, checked) if last else ruled.leaving(batch, started, exit, end, checked)
        on = self._watched(end, run, reasons, labels)
        rows = zip(batch, logits, sures, labels, reasons, strict=True)
        for request, row, sure, label, reason in rows:
            if request.id in self._shadows:
                if last:
                    self._end_shadow(request, end, label)
                else:
                    staying.append(request)
                continue
            before = self._worked.get(request.id, (0, 0))[0]
            self._worked[request.id] = (before + end - now, len(batch))
            answered = self._answered_meanwhile(request, exit)
            if reason and not answered and request.id in on and not last:
                fates.append(self._made(request, end, exit, label, sure, row, reason, Outcome.EXIT))
                staying.append(self._run_on(request))
            elif answered or reason:
                reply = self._reply(request, end, exit, label, sure, row, because=reason)
                fates += [] if answered else [reply]
                if answered and not reason and self._watch is not None:
                    self._watch.gone(request.id)
            else:
                staying.append(request)
                self._logits[request.id] = row
                if self.active is not None:
                    self._asked_exit[request.id] = stage
                    self._unanswerable.discard(request.id)
                if self._terms.get(request.id, PLAIN).anytime:
                    self._passed[request.id] = self._made(
                        request, end, exit, label, sure, row, OVERDUE, Outcome.ANYTIME
                    )
        self._ledger.finish(run, staying)
        return fates

    def _at_the_end(self, network: int, checked: Sequence[float]) -> list[str]:
        """Return the reasons at a network's last exit; of a part, some samples go on there."""
        program = self.driver.programs[network]
        if not program.onward:
            return [LAST] * len(checked)
        limit = program.onward_threshold
        leaves = f"confidence > {limit:g}"
        return [leaves if exceeds_threshold(sure, limit) else GOES_ON for sure in checked]

    def _pass_by(self, run: Run, start_ns: int, end_ns: int) -> None:
        """Let a batch run on past an inactive exit."""
        self._watched(end_ns, run, [""] * len(run.requests), None)
        for request in run.requests:
            before = self._worked.get(request.id, (0, 0))[0]
            self._worked[request.id] = (before + end_ns - start_ns, len(run.requests))
            if request.id not in self._logits and request.id not in self._shadows:
                self._unanswerable.add(request.id)
        self._ledger.finish(run, run.requests)

    def _run_on(self, request: Request) -> Request:
        """Keep the sample of a request that has its answer; nobody waits for the shadow."""
        for known in (self._logits, self._terms, self._passed, self._asked_exit):
            known.pop(request.id, None)
        self._unanswerable.discard(request.id)
        self._shadows[request.id] = None
        self._ran_on.append(request.id)
        for criteria in self.criteria:
            criteria.forget(request.id)
        return shadow_of(request)

    def _checked(self, batch: Sequence[Request], logits: Image, check: Check) -> list[float]:
        """Return what the network's own exit check makes of the logits; some look at the exit before, too.

        That is the last exit whose head ran, which may differ in a batch whose exits have just changed.
        """
        passed = {k: self._logits[request.id] for k, request in enumerate(batch) if request.id in self._logits}
        found = np.empty(len(batch))
        for group, known in ((sorted(passed), True), ([k for k in range(len(batch)) if k not in passed], False)):
            if group:
                before = stated(np.stack([passed[k] for k in group]), check)[1] if known else None
                found[group] = sureness(logits[group], check, before)
        checked: list[float] = found.tolist()
        return checked

    def _answered_meanwhile(self, request: Request, stage: int) -> bool:
        """Tell if another thread took the answer of the last exit; if not, it is void from now on."""
        if stage == 0 or not self._terms.get(request.id, PLAIN).anytime or request.id not in self._logits:
            return False  # it has passed no exit that could answer
        return self._passed.pop(request.id, None) is None

    def _launch(self, now: int, batch: Sequence[Request], network: int) -> None:
        """Give every request of a first run a slot, and its image to the slot."""
        ahead, free = self._ahead[network], self._free[network]
        for request in batch:
            slot = ahead.pop(request.id, None)
            if slot is None:
                slot = heapq.heappop(free) if free else ahead.popitem()[1]  # the last in the queue waits longest
                self.driver.write_sample(slot, self._images[request.id])
            self._slot[request.id] = slot
            self._start[request.id] = now

    def _meanwhile(self) -> None:
        """Do what can be done while the NPU works: the caller's part, then images into free slots."""
        if self._told_meanwhile is not None:
            self._told_meanwhile()
        for queue, ahead, free in zip(self._ledger.queues, self._ahead, self._free, strict=True):
            for request in queue[: self._ledger.b_max]:
                if not free:
                    break
                if request.id not in ahead:
                    self.driver.write_sample(free[0], self._images[request.id])
                    ahead[request.id] = heapq.heappop(free)

    def _write_anew(self) -> None:
        """Forget which images were written ahead; after a failure nothing in a free slot is believed."""
        for ahead, free in zip(self._ahead, self._free, strict=True):
            for slot in ahead.values():
                heapq.heappush(free, slot)
            ahead.clear()

    def _work(self, run: Run, slots: Sequence[int]) -> Job:
        """Run the stage, recovering from failures; drop the batch after the last attempt (GaveUpError)."""
        for attempt in range(self._attempts):
            try:
                if attempt:
                    self.driver.recover()
                job = self._run_again(run, slots) if self._suspect else self._run_once(run, slots)
            except DeviceError as error:
                _log.warning("attempt %d at stage %d failed: %s", attempt + 1, run.stage, error)
                self.failures.append(error)
                self.failed += 1
                self._write_anew()
                if self._told_meanwhile is not None:
                    self._told_meanwhile()
                if self.driver.guarded:
                    self._suspect = set(self._slot)
                for observer in self._observers:
                    observer.failed(error)
            else:
                self.lost_in_a_row = 0
                return job
        self.lost_in_a_row += 1
        self._ledger.finish(run, ())
        shadows = set(self._shadows)
        for request in run.requests:
            self._forget(request)
            if self._watch is not None:
                self._watch.gone(request.id)
        last = self.failures[-1]
        lost = GaveUpError(
            f"stage {run.stage} failed {self._attempts} times in a row; the last time: {last}",
            request_ids=tuple(request.id for request in run.requests if request.id not in shadows),
        )
        for observer in self._observers:
            observer.failed(lost)
        raise lost from last

    def _run_once(self, run: Run, slots: Sequence[int]) -> Job:
        self.driver.activate(slots)
        if self._runs_head(run.stage):
            return self.driver.run_stage(run.stage, meanwhile=self._meanwhile)
        predicted_ns = self._view.latency.ns[run.stage][len(slots) - 1]
        return self.driver.run_segment(run.stage, predicted_ns, meanwhile=self._meanwhile)

    def _run_again(self, run: Run, slots: Sequence[int]) -> Job:
        """Run the suspect samples of the batch up to the stage before, from their images; then the stage."""
        suspect = [request for request in run.requests if request.id in self._suspect]
        again = [self._slot[request.id] for request in suspect]
        for request, slot in zip(suspect, again, strict=True):
            self.driver.write_sample(slot, self._images[request.id])
        if again and self._local(run.stage):
            self.driver.activate(again)
            self.driver.run_to_exit(run.stage - 1, run.stage - self._local(run.stage))
        job = self._run_once(run, slots)
        self._suspect.difference_update(request.id for request in suspect)
        return job

    def _answer(self, now: int, action: Answer) -> list[Fate]:
        fates: list[Fate] = []
        for request, stage in self._ledger.answer(now, action):
            passed = self._local(stage)
            if request.id in self._shadows:
                self._forget(request)
                continue
            if request.id in self._unanswerable:
                self._ledger.refuse(now, f"answers request {request.id}, which has passed no active exit")
            passed = self._asked_exit.get(request.id, passed)
            if self._watch is not None:
                self._watch.gone(request.id)
            answered = self._answered_meanwhile(request, passed + 1)
            logits = self._logits[request.id]
            sure, label = (one[0] for one in stated(logits[None], self._check_of(request)))
            because, outcome = action.reason, Outcome.ANYTIME
            reply = self._reply(request, now, passed, int(label), float(sure), logits, because=because, outcome=outcome)
            fates += [] if answered else [reply]
        return fates

    def _shed(self, now: int, action: Shed) -> list[Fate]:
        self._ledger.shed(now, action)
        fates: list[Fate] = []
        for request in action.requests:
            self._forget(request)
            fates.append(
                Refusal(
                    request_id=request.id,
                    arrival_ns=request.arrival_ns,
                    start_ns=now,
                    end_ns=now,
                    deadline_ns=request.deadline_ns,
                    reason=action.reason,
                    tenant=request.tenant,
                )
            )
        return fates

    def _reply(
        self,
        request: Request,
        end_ns: int,
        exit: int,
        label: int,
        sure: float,
        logits: Image,
        *,
        because: str,
        outcome: Outcome = Outcome.EXIT,
    ) -> Reply:
        """Make the request's reply and free its slot."""
        reply = self._made(request, end_ns, exit, label, sure, logits, because, outcome)
        self._forget(request)
        return reply

    def _made(
        self,
        request: Request,
        end_ns: int,
        exit: int,
        label: int,
        sure: float,
        logits: Image,
        because: str,
        outcome: Outcome,
    ) -> Reply:
        npu_ns, batch = self._worked[request.id]
        stage = self.networks.entry(request) + exit
        given = self.driver.outputs([self._slot[request.id]], stage) if self.driver.program.outputs else {}
        points, pixels = map_answers(logits, self._check_of(request))
        onward = self.driver.onward([self._slot[request.id]])[0] if because == GOES_ON else None
        return Reply(
            request_id=request.id,
            prediction=label,
            exit=exit,
            confidence=sure,
            arrival_ns=request.arrival_ns,
            start_ns=self._start[request.id],
            end_ns=end_ns,
            deadline_ns=request.deadline_ns,
            npu_ns=npu_ns,
            batch=batch,
            logits=logits,
            because=because,
            tenant=request.tenant,
            outcome=outcome,
            outputs={name: values[0] for name, values in given.items()},
            keypoints=points,
            label_map=pixels,
            onward=onward,
        )

    def _check_of(self, request: Request) -> Check:
        return self.driver.programs[self.networks.of(request)].check

    def _forget(self, request: Request) -> None:
        """Free the request's slot, if it has one, and drop all that is known of it."""
        network = self.networks.of(request)
        slot = self._slot.pop(request.id, None)
        if slot is None:
            slot = self._ahead[network].pop(request.id, None)
        if slot is not None:
            heapq.heappush(self._free[network], slot)
        self._suspect.discard(request.id)
        tables = (self._images, self._start, self._logits, self._worked, self._terms, self._passed)
        for known in (*tables, self._asked_exit, self._shadows):
            known.pop(request.id, None)
        self._unanswerable.discard(request.id)
        for criteria in self.criteria:
            criteria.forget(request.id)

    # -- records ---------------------------------------------------------------------------------------------

    def schedule(self, requests: Sequence[Request], replies: Sequence[Fate]) -> Schedule:
        """Return the past in the simulator's terms; `replies` are aligned with `requests`."""
        return Schedule(
            policy=self.policy.name,
            stages=self._ledger.stages,
            b_max=self._ledger.b_max,
            slots=self._ledger.slots,
            requests=tuple(requests),
            start_ns=tuple(reply.start_ns for reply in replies),
            end_ns=tuple(reply.end_ns for reply in replies),
            exit=tuple(
                self.networks.entry(request) + reply.exit if isinstance(reply, Reply) else -1
                for request, reply in zip(requests, replies, strict=True)
            ),
            outcome=tuple(reply.outcome for reply in replies),
            log=tuple(self._log),
            run_end_ns=tuple(self._run_ends),
            because=tuple(reply.because if isinstance(reply, Reply) else reply.reason for reply in replies),
            shadows=tuple(sorted(self._ran_on)),
            adapted=self.active is not None,
            networks=self.networks if len(self.networks) > 1 else None,
        )


def usual_criteria(driver: Driver, profile: ExitProfile | None = None, network: int = 0) -> Criteria:
    """Return the criteria of a program that nobody gave any: its thresholds, over the profile of its
    design.
    """
    profile = ExitProfile.of(driver.parts[network]) if profile is None else profile
    return Criteria(profile, Criterion.of_thresholds(driver.programs[network].thresholds[: profile.exits - 1]))


def _believed_rates(parts: Sequence[Design], given: Sequence[float] | None) -> tuple[float, ...]:
    """Return the exit shares that the policy believes: those given, the designs', or equal ones."""
    if given is None:
        return tuple(chain(*(part.exit_rates or (1 / part.stages,) * part.stages for part in parts)))
    stages = sum(part.stages for part in parts)
    if len(given) != stages:
        raise DriverUsageError(f"exit_rates must name {stages} shares, one per exit, not {len(given)}")
    return tuple(given)
