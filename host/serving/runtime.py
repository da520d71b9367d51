"""The runtime loop: the policy decides, the driver acts, a rule decides exits, replies return.

It asks the policy exactly when `scheduler.simulate` does and keeps the same `Ledger`, so on a virtual clock
both make the same schedule from the same requests. A failed job is recovered (soft reset, program written
again) and run again: its samples never left their slots.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design
from fluidnpu.models import confidence
from fluidnpu.models.exits import top_class
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
from fluidnpu.scheduler.exits import ExitRule, RuledExits, StageCosts, Threshold

from ..driver import Driver
from ..errors import DeviceError, DriverUsageError, GaveUpError

Image = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The outcome of one request, times in nanoseconds on the requests' scale.

    A shed request has exit and prediction -1 and confidence 0. `outputs` are what the network gives out
    beside its exits, float32 in the shape of the user's model, by name; a network without classes has
    prediction -1 and confidence 1.
    """

    request_id: int
    prediction: int
    exit: int
    confidence: float
    arrival_ns: int
    start_ns: int
    end_ns: int
    deadline_ns: int
    outcome: Outcome = Outcome.EXIT
    outputs: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def latency_ns(self) -> int:
        """The time from arrival to reply."""
        return self.end_ns - self.arrival_ns

    @property
    def met(self) -> bool:
        """True when the network answered in time."""
        return self.outcome is not Outcome.SHED and self.end_ns <= self.deadline_ns


class Runtime:
    """Serves requests on a driver, one decision of the policy a `step`.

    `rule` decides at every exit but the last whether a sample leaves (default: the program's thresholds);
    `costs` tells it the costs of each stage (default: the design's MACs). `attempts`: how often a job is
    tried before GaveUpError. Then its requests are dropped and their slots free, while all others still wait,
    so a caller that catches the error may `Driver.recover` and go on. `record` keeps log and replies for
    `schedule`; a server that runs for weeks does not.
    """

    def __init__(
        self,
        driver: Driver,
        policy: Policy,
        *,
        exit_rates: Sequence[float] | None = None,
        rule: ExitRule | None = None,
        costs: StageCosts | None = None,
        attempts: int = 3,
        record: bool = True,
    ) -> None:
        if attempts < 1:
            raise DriverUsageError(f"attempts must be at least 1, not {attempts}")
        design = driver.design
        rates = _believed_rates(design, exit_rates)
        self.driver, self.policy = driver, policy
        self.failures: deque[DeviceError] = deque(maxlen=None if record else 1)
        self.failed = 0  # jobs, over all time
        self.lost_in_a_row = 0  # jobs given up since one ended well
        self._attempts, self._record = attempts, record
        if rule is None:
            rule = Threshold([place.threshold for place in driver.program.exits])
        self._exits = RuledExits(rule=rule, costs=StageCosts.of(design) if costs is None else costs)
        self._ledger = Ledger(stages=design.stages, b_max=design.b_max, slots=driver.slots, policy=policy.name)
        waiting = self._ledger.waiting
        self._view = View(0, waiting, design.latency, rates, design.b_max, slots=driver.slots)
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
        """Nanoseconds since this runtime began: the scale of requests and replies."""
        return self.driver.device.clock.now_ns() - self._epoch

    def sleep_until(self, time_ns: int) -> None:
        """Let time pass on the device's clock."""
        self.driver.device.clock.sleep_until(self._epoch + time_ns)

    @property
    def busy(self) -> bool:
        """True while a request waits, in the queue or past an exit."""
        return self._ledger.busy

    def admit(self, request: Request, image: Image) -> None:
        """Put a request into the queue; requests must come in order of (arrival, id)."""
        self._images[request.id] = image
        self._ledger.admit(request)

    def step(self, closed: bool) -> list[Reply] | Wait:
        """Ask the policy once and execute its action; a `Wait` is left to the caller.

        `closed` says that no further request will be admitted. Raises PolicyError, GaveUpError.
        """
        now = self.now_ns
        self._view.now_ns, self._view.closed = now, closed
        action = self.policy.decide(self._view)
        if self._record:
            self._log.append((now, action))
        if isinstance(action, Run):
            return self._run(now, action)
        if isinstance(action, Wait):
            self._ledger.check_wait(now, action, closed)
            return action
        if isinstance(action, Answer):
            return self._answer(now, action)
        if not isinstance(action, Shed):
            self._ledger.refuse(now, f"returned {action!r}, which is no action")
        return self._shed(now, action)

    # -- actions ---------------------------------------------------------------------------------------------

    def _run(self, now: int, run: Run) -> list[Reply]:
        stage, batch = run.stage, run.requests
        self._ledger.begin(now, run)
        if stage == 0:
            self._launch(now, batch)
        slots = [self._slot[request.id] for request in batch]
        self._work(run, slots)
        end = self.now_ns
        if self._record:
            self._run_ends.append(end)
        logits = self.driver.logits(slots, stage)
        last = stage == self._ledger.stages - 1
        replies, staying = [], []
        for request, sure, label in zip(batch, confidence(logits), top_class(logits), strict=True):
            if last or self._exits.decide(request, stage, end, float(sure)):
                replies.append(self._reply(request, end, exit=stage, prediction=int(label), confidence=float(sure)))
            else:
                staying.append(request)
        self._ledger.finish(run, staying)
        return replies

    def _launch(self, now: int, batch: Sequence[Request]) -> None:
        """Give every request of a first run a slot, and its image to the slot."""
        for request in batch:
            slot = heapq.heappop(self._free)
            self.driver.write_sample(slot, self._images.pop(request.id))
            self._slot[request.id] = slot
            self._start[request.id] = now

    def _work(self, run: Run, slots: Sequence[int]) -> None:
        """Run the stage, recovering from failures; drop the batch after the last attempt (GaveUpError)."""
        for attempt in range(self._attempts):
            try:
                if attempt:
                    self.driver.recover()
                self.driver.activate(slots)
                self.driver.run_stage(run.stage)
            except DeviceError as error:
                self.failures.append(error)
                self.failed += 1
            else:
                self.lost_in_a_row = 0
                return
        self.lost_in_a_row += 1
        self._ledger.finish(run, ())
        for request in run.requests:
            self._forget(request)
        last = self.failures[-1]
        raise GaveUpError(
            f"stage {run.stage} failed {self._attempts} times in a row; the last time: {last}",
            request_ids=tuple(request.id for request in run.requests),
        ) from last

    def _answer(self, now: int, action: Answer) -> list[Reply]:
        replies = []
        for request, passed in self._ledger.answer(now, action):
            logits = self.driver.logits([self._slot[request.id]], passed)
            label, sure = int(top_class(logits)[0]), float(confidence(logits)[0])
            outcome = Outcome.ANYTIME
            replies.append(self._reply(request, now, exit=passed, prediction=label, confidence=sure, outcome=outcome))
        return replies

    def _shed(self, now: int, action: Shed) -> list[Reply]:
        self._ledger.shed(now, action)
        for request in action.requests:
            del self._images[request.id]
            self._start[request.id] = now
        return [self._reply(request, now, outcome=Outcome.SHED) for request in action.requests]

    def _reply(
        self,
        request: Request,
        end_ns: int,
        *,
        exit: int = -1,
        prediction: int = -1,
        confidence: float = 0.0,
        outcome: Outcome = Outcome.EXIT,
    ) -> Reply:
        """Read the request's outputs, free its slot and make its reply."""
        given = {} if exit < 0 else self.driver.outputs([self._slot[request.id]], exit)
        return Reply(
            request_id=request.id,
            prediction=prediction,
            exit=exit,
            confidence=confidence,
            arrival_ns=request.arrival_ns,
            start_ns=self._forget(request),
            end_ns=end_ns,
            deadline_ns=request.deadline_ns,
            outcome=outcome,
            outputs={name: values[0] for name, values in given.items()},
        )

    def _forget(self, request: Request) -> int:
        """Free the request's slot, if it has one, and return the time of its start."""
        slot = self._slot.pop(request.id, None)
        if slot is not None:
            heapq.heappush(self._free, slot)
        return self._start.pop(request.id)

    # -- records ---------------------------------------------------------------------------------------------

    def schedule(self, requests: Sequence[Request], replies: Sequence[Reply]) -> Schedule:
        """Return the past in the simulator's terms; `replies` are aligned with `requests`."""
        return Schedule(
            policy=self.policy.name,
            stages=self._ledger.stages,
            b_max=self._ledger.b_max,
            slots=self._ledger.slots,
            requests=tuple(requests),
            start_ns=tuple(reply.start_ns for reply in replies),
            end_ns=tuple(reply.end_ns for reply in replies),
            exit=tuple(reply.exit for reply in replies),
            outcome=tuple(reply.outcome for reply in replies),
            log=tuple(self._log),
            run_end_ns=tuple(self._run_ends),
        )


def _believed_rates(design: Design, given: Sequence[float] | None) -> tuple[float, ...]:
    """Return the exit shares that the policy believes: those given, the design's, or equal ones."""
    rates = design.exit_rates if given is None else given
    if rates is None:
        rates = (1 / design.stages,) * design.stages
    if len(rates) != design.stages:
        raise DriverUsageError(f"exit_rates must name {design.stages} shares, one per exit, not {len(rates)}")
    return tuple(rates)
