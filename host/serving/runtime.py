"""The runtime loop: the policy decides, the driver acts, softmax top-1 decides exits, answers return. One thread owns it.

It asks the policy exactly when the simulator of `scheduler` does, so on a virtual clock both make the same schedule from the same
requests. A failed job is recovered (soft reset, program written again) and run again: its samples never left their slots.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from fluidnpu.models import confidence
from fluidnpu.scheduler import Action, Answer, Outcome, Policy, PolicyError, Request, Run, Schedule, Shed, View, Wait

from ..driver import Driver
from ..errors import DeviceError, DriverUsageError, GaveUpError

Image = npt.NDArray[Any]
_order = attrgetter("arrival_ns", "id")


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What one request got. Times are nanoseconds on the requests' own scale. A shed request has exit and prediction -1."""

    request_id: int
    prediction: int
    exit: int
    confidence: float
    arrival_ns: int
    start_ns: int
    end_ns: int
    deadline_ns: int
    outcome: Outcome = Outcome.EXIT

    @property
    def latency_ns(self) -> int:
        """From arrival to answer."""
        return self.end_ns - self.arrival_ns

    @property
    def met(self) -> bool:
        """Answered by the network, and in time."""
        return self.outcome is not Outcome.SHED and self.end_ns <= self.deadline_ns


@dataclass(frozen=True, kw_only=True)
class ServeResult:
    """Answers in the order of the requests, the schedule that made them, and the failures that were recovered from.

    `missed_interrupts`: jobs that ended well or not while no interrupt told of it; each cost a whole deadline.
    """

    replies: tuple[Reply, ...]
    schedule: Schedule
    failures: tuple[DeviceError, ...]
    missed_interrupts: int = 0


class Runtime:
    """Requests in, answers out, one decision a `step`.

    `attempts`: how often a job is tried before GaveUpError. Then its requests are gone and their slots free; everyone else waits as before, so
    whoever catches the error may `Driver.recover` and go on. `record`: keep log and answers for `schedule` (a server that runs for
    weeks does not).
    """

    def __init__(
        self,
        driver: Driver,
        policy: Policy,
        *,
        exit_rates: Sequence[float] | None = None,
        attempts: int = 3,
        record: bool = True,
    ) -> None:
        if attempts < 1:
            raise DriverUsageError(f"attempts must be at least 1, not {attempts}")
        design = driver.design
        rates = design.exit_rates if exit_rates is None else exit_rates
        if rates is None:
            rates = (1 / design.stages,) * design.stages
        if len(rates) != design.stages:
            raise DriverUsageError(f"exit_rates must name {design.stages} shares, one per exit, not {len(rates)}")
        self.driver, self.policy = driver, policy
        self.failures: deque[DeviceError] = deque(maxlen=None if record else 1)
        self.failed = 0  # jobs, over all time
        self.lost_in_a_row = 0  # jobs given up since one ended well
        self._attempts, self._record = attempts, record
        self._waiting: list[list[Request]] = [[] for _ in range(design.stages)]
        self._view = View(0, self._waiting, design.latency, tuple(rates), design.b_max, slots=driver.slots)
        self._free = list(range(driver.slots))
        self._images: dict[int, Image] = {}
        self._slot: dict[int, int] = {}
        self._start: dict[int, int] = {}
        self._epoch = driver.device.clock.now_ns()
        self._log: list[tuple[int, Action]] = []
        self._run_ends: list[int] = []
        policy.reset()

    @property
    def now_ns(self) -> int:
        """Nanoseconds since this runtime began: the scale of requests and answers."""
        return self.driver.device.clock.now_ns() - self._epoch

    def sleep_until(self, time_ns: int) -> None:
        """Let time pass on the device's clock."""
        self.driver.device.clock.sleep_until(self._epoch + time_ns)

    @property
    def busy(self) -> bool:
        """Whether anyone waits, in the queue or past an exit."""
        return bool(self._waiting[0] or self._slot)

    @property
    def outstanding(self) -> tuple[int, ...]:
        """Ids of all requests without an answer."""
        return (*self._images, *self._slot)

    def admit(self, request: Request, image: Image) -> None:
        """Put a request into the queue; requests must come in order of (arrival, id)."""
        self._images[request.id] = image
        self._waiting[0].append(request)

    def step(self, closed: bool) -> list[Reply] | Wait:
        """Ask the policy once and do what it says; a `Wait` is the caller's to obey. Raises PolicyError, GaveUpError."""
        view = self._view
        now = view.now_ns = self.now_ns
        view.closed = closed
        action = self.policy.decide(view)
        if self._record:
            self._log.append((now, action))
        if isinstance(action, Run):
            return self._run(now, action)
        if isinstance(action, Wait):
            if closed:
                self._refuse(now, "waits although no further arrival can come")
            if action.until_ns is not None and action.until_ns <= now:
                self._refuse(now, f"waits until {action.until_ns} ns, which is not later than now")
            return action
        if isinstance(action, Answer):
            return self._answer_now(now, action)
        return self._shed(now, action)

    # -- actions -----------------------------------------------------------------------------------------------

    def _run(self, now: int, action: Run) -> list[Reply]:
        stage, batch = action.stage, action.requests
        design = self.driver.design
        if not (0 <= stage < design.stages and 1 <= len(batch) <= design.b_max):
            self._refuse(now, f"runs stage {stage} with a batch of {len(batch)}")
        self._take(now, self._waiting[stage], batch, f"the entry of stage {stage}")
        if stage == 0:
            self._launch(now, batch)
        slots = [self._slot[r.id] for r in batch]
        self._work(stage, batch, slots)
        end = self.now_ns
        if self._record:
            self._run_ends.append(end)
        logits = self.driver.logits(slots, stage)
        sure = confidence(logits)
        leaves = sure > self.driver.program.exits[stage].threshold
        if stage == design.stages - 1:
            leaves[:] = True
        classes = np.argmax(logits, axis=1)
        rows = zip(batch, leaves, classes, sure, strict=True)
        answers, stay = [], []
        for request, leave, label, certainty in rows:
            if leave:
                answers.append(self._leave(request, end, stage, int(label), float(certainty)))
            else:
                stay.append(request)
        if stay:
            entry = self._waiting[stage + 1]
            entry.extend(stay)
            entry.sort(key=_order)
        return answers

    def _launch(self, now: int, batch: Sequence[Request]) -> None:
        """Give every request of a first run a slot, and its image to the slot."""
        if len(batch) > len(self._free):
            held = self.driver.slots - len(self._free) + len(batch)
            self._refuse(now, f"holds {held} samples in {self.driver.slots} slots")
        for request in batch:
            slot = heapq.heappop(self._free)
            self.driver.write_sample(slot, self._images.pop(request.id))
            self._slot[request.id] = slot
            self._start[request.id] = now

    def _work(self, stage: int, batch: Sequence[Request], slots: Sequence[int]) -> None:
        """Run one stage, recovering from failures; GaveUpError after the last attempt, without the batch."""
        for attempt in range(self._attempts):
            try:
                if attempt:
                    self.driver.recover()
                self.driver.activate(slots)
                self.driver.run_stage(stage)
            except DeviceError as error:
                self.failures.append(error)
                self.failed += 1
            else:
                self.lost_in_a_row = 0
                return
        self.lost_in_a_row += 1
        for request in batch:
            self._forget(request)
        last = self.failures[-1]
        raise GaveUpError(
            f"stage {stage} failed {self._attempts} times in a row; the last time: {last}",
            request_ids=tuple(request.id for request in batch),
        ) from last

    def _forget(self, request: Request) -> int:
        """Free the request's slot, if it has one, and return when it was started."""
        slot = self._slot.pop(request.id, None)
        if slot is not None:
            heapq.heappush(self._free, slot)
        return self._start.pop(request.id)

    def _answer_now(self, now: int, action: Answer) -> list[Reply]:
        answers = []
        for request in action.requests:
            stage = next((s for s in range(1, len(self._waiting)) if request in self._waiting[s]), 0)
            if not stage:
                self._refuse(now, f"answers request {request.id}, which waits past no exit")
            self._waiting[stage].remove(request)
            logits = self.driver.logits([self._slot[request.id]], stage - 1)
            label, sure = int(np.argmax(logits)), float(confidence(logits)[0])
            answers.append(self._leave(request, now, stage - 1, label, sure, Outcome.ANYTIME))
        if not answers:
            self._refuse(now, "answers nobody")
        return answers

    def _shed(self, now: int, action: Shed) -> list[Reply]:
        if not action.requests:
            self._refuse(now, "sheds nobody")
        self._take(now, self._waiting[0], action.requests, "the queue")
        for request in action.requests:
            del self._images[request.id]
            self._start[request.id] = now
        return [self._leave(request, now, -1, -1, 0.0, Outcome.SHED) for request in action.requests]

    def _leave(
        self, request: Request, end: int, at_exit: int, label: int, sure: float, outcome: Outcome = Outcome.EXIT
    ) -> Reply:
        start = self._forget(request)
        return Reply(
            request_id=request.id,
            prediction=label,
            exit=at_exit,
            confidence=sure,
            arrival_ns=request.arrival_ns,
            start_ns=start,
            end_ns=end,
            deadline_ns=request.deadline_ns,
            outcome=outcome,
        )

    def _take(self, now: int, entry: list[Request], batch: Sequence[Request], where: str) -> None:
        """Remove a batch from the entry of a stage."""
        ids = {r.id for r in batch}
        if len(ids) != len(batch):
            self._refuse(now, "names a request twice")
        rest = [r for r in entry if r.id not in ids]
        if len(rest) != len(entry) - len(batch):
            missing = sorted(ids - {r.id for r in entry})
            self._refuse(now, f"takes request {missing[0]}, which does not wait at {where}")
        entry[:] = rest

    def _refuse(self, now: int, violation: str) -> NoReturn:
        raise PolicyError(f"policy '{self.policy.name}' at {now} ns {violation}")

    # -- records -----------------------------------------------------------------------------------------------

    def schedule(self, requests: Sequence[Request], answers: Sequence[Reply]) -> Schedule:
        """What happened, in the simulator's own terms; `answers` are aligned with `requests`."""
        return Schedule(
            policy=self.policy.name,
            stages=self.driver.design.stages,
            b_max=self.driver.design.b_max,
            slots=self.driver.slots,
            requests=tuple(requests),
            start_ns=tuple(a.start_ns for a in answers),
            end_ns=tuple(a.end_ns for a in answers),
            exit=tuple(a.exit for a in answers),
            outcome=tuple(a.outcome for a in answers),
            log=tuple(self._log),
            run_end_ns=tuple(self._run_ends),
        )


def serve_requests(
    requests: Sequence[Request],
    images: Sequence[Image] | Image,
    policy: Policy,
    driver: Driver,
    *,
    exit_rates: Sequence[float] | None = None,
    attempts: int = 3,
    progress: Callable[[int, int], None] | None = None,
) -> ServeResult:
    """Serve requests whose arrivals are known, `images[i]` (H, W, C) for request i, on the device's own clock.

    On a virtual clock this takes as long as the arithmetic. The driver must be loaded. Every request gets exactly one answer, also
    when jobs fail; GaveUpError when one fails `attempts` times in a row. `progress(answered, in all)` is called as answers come; shed
    requests are not answered.
    """
    if len(requests) != len(images):
        raise DriverUsageError(f"each of {len(requests)} requests needs an image, and {len(images)} came")
    if any(_order(a) >= _order(b) for a, b in itertools.pairwise(requests)):
        raise DriverUsageError("requests must be sorted by arrival and id, and they are not")
    runtime = Runtime(driver, policy, exit_rates=exit_rates, attempts=attempts)
    found: dict[int, Reply] = {}
    due, answered, missed = 0, 0, driver.missed_interrupts
    while True:
        now = runtime.now_ns
        while due < len(requests) and requests[due].arrival_ns <= now:
            runtime.admit(requests[due], images[due])
            due += 1
        if runtime.busy:
            outcome = runtime.step(closed=due == len(requests))
            if isinstance(outcome, Wait):
                until = requests[due].arrival_ns
                runtime.sleep_until(until if outcome.until_ns is None else min(until, outcome.until_ns))
            else:
                found.update((answer.request_id, answer) for answer in outcome)
                answered += sum(answer.outcome is not Outcome.SHED for answer in outcome)
                if progress is not None:
                    progress(answered, len(requests))
        elif due < len(requests):
            runtime.sleep_until(requests[due].arrival_ns)
        else:
            break
    answers = tuple(found[request.id] for request in requests)
    return ServeResult(
        replies=answers,
        schedule=runtime.schedule(requests, answers),
        failures=tuple(runtime.failures),
        missed_interrupts=driver.missed_interrupts - missed,
    )
