"""The rulebook of actions: the waiting lines, the slots, and the actions that a policy may return.

The simulator adds time to it and the runtime a driver, so both refuse the same actions in the same words. It
keeps no clock: a time is passed in for the message only. `Schedule.check` is the independent oracle and does
not use it.

>>> ledger = Ledger(stages=2, b_max=1, slots=1, policy="mine")
>>> early = Request(0, 0, 100)
>>> ledger.admit(early)
>>> run = Run(0, (early,))
>>> ledger.begin(0, run)
>>> ledger.finish(run, [early])
>>> ledger.waiting, ledger.held
([[], [Request(id=0, arrival_ns=0, deadline_ns=100)]], 1)
>>> ledger.check_wait(10, Wait(), closed=True)
Traceback (most recent call last):
fluidnpu.scheduler.errors.PolicyError: policy 'mine' at 10 ns waits although no further arrival can come
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, is_
from typing import NoReturn

from ..errors import PolicyError
from ..policy import Answer, Request, Run, Shed, Wait
from .networks import Networks

by_arrival = attrgetter("arrival_ns", "id")


class Ledger:
    """The waiting lines and slots of one schedule.

    `waiting[s]` are the requests at the entry of stage s in order of (arrival, id); `waiting[0]` is the
    queue. `held` counts the samples past the queue or in a run. With several `networks`, the first stage of
    each has its queue, and each its own slots. Methods that take an action raise PolicyError when it breaks a
    rule.
    """

    def __init__(self, *, stages: int, b_max: int, slots: int, policy: str, networks: Networks | None = None) -> None:
        self.stages, self.b_max, self.slots, self.policy = stages, b_max, slots, policy
        self.networks = Networks.alone(stages=stages, slots=slots) if networks is None else networks
        self.waiting: list[list[Request]] = [[] for _ in range(stages)]
        self._held = [0] * len(self.networks)

    @property
    def held(self) -> int:
        """Samples past the queue or in a run."""
        return sum(self._held)

    @property
    def queues(self) -> tuple[list[Request], ...]:
        """The queue of each network."""
        return tuple(self.waiting[first] for first in self.networks.first)

    @property
    def busy(self) -> bool:
        """True while a request waits, in the queue or past an exit."""
        return self.held > 0 or any(self.queues)

    def resume(self, request: Request, stage: int) -> None:
        """Put a request where it waited when a log was begun."""
        self.waiting[stage].append(request)
        network = self.networks.of_stage[stage]
        self._held[network] += stage != self.networks.first[network]

    def admit(self, request: Request) -> None:
        """Put a request into the queue of its network, which stays in order of (arrival, id)."""
        line = self.waiting[self.networks.entry(request)]
        line.append(request)
        if len(line) > 1 and by_arrival(line[-2]) > by_arrival(request):  # a server held it back for more urgent ones
            line.sort(key=by_arrival)

    def begin(self, now_ns: int, run: Run) -> None:
        """Take the batch of a run from its line; a first run takes slots."""
        stage, size = run.stage, len(run.requests)
        if not (0 <= stage < self.stages and 1 <= size <= self.b_max):
            self.refuse(
                now_ns,
                f"runs stage {stage} with a batch of {size}; it must be in 0..{self.stages - 1} with 1..{self.b_max}",
            )
        self._take(now_ns, stage, run.requests)
        network = self.networks.of_stage[stage]
        if stage == self.networks.first[network]:
            self._held[network] += size
            if self._held[network] > self.networks.slots[network]:
                self.refuse(now_ns, f"holds {self._held[network]} samples in {self.networks.slots[network]} slots")

    def finish(self, run: Run, staying: Sequence[Request]) -> None:
        """End a run: those staying wait for the next stage, the others give up their slots."""
        self._held[self.networks.of_stage[run.stage]] -= len(run.requests) - len(staying)
        if staying:
            line = self.waiting[run.stage + 1]
            line.extend(staying)
            if len(line) > 1:
                line.sort(key=by_arrival)

    def answer(self, now_ns: int, action: Answer) -> list[tuple[Request, int]]:
        """Let the requests leave past an exit; return each with the last exit it has passed."""
        if not action.requests:
            self.refuse(now_ns, "answers nobody")
        passed = []
        for request in action.requests:
            entries = self.networks.first
            stage = next((s for s in range(1, self.stages) if s not in entries and request in self.waiting[s]), 0)
            if not stage:
                self.refuse(now_ns, f"answers request {request.id}, which waits past no exit")
            self.waiting[stage].remove(request)
            self._held[self.networks.of_stage[stage]] -= 1
            passed.append((request, stage - 1))
        return passed

    def shed(self, now_ns: int, action: Shed) -> None:
        """Let the requests leave the queue."""
        if not action.requests:
            self.refuse(now_ns, "sheds nobody")
        for stage in dict.fromkeys(map(self.networks.entry, action.requests)):
            mine = [request for request in action.requests if self.networks.entry(request) == stage]
            self._take(now_ns, stage, mine, "the queue")

    def check_wait(self, now_ns: int, action: Wait, closed: bool) -> None:
        """Refuse a wait that no arrival can end, and one into the past."""
        if closed:
            self.refuse(now_ns, "waits although no further arrival can come")
        if action.until_ns is not None and action.until_ns <= now_ns:
            self.refuse(now_ns, f"waits until {action.until_ns} ns, which is not later than now")

    def refuse(self, now_ns: int, violation: str) -> NoReturn:
        """Raise PolicyError with the policy's name and the time."""
        raise PolicyError(f"policy '{self.policy}' at {now_ns} ns {violation}")

    def _take(self, now_ns: int, stage: int, batch: Sequence[Request], where: str = "") -> None:
        """Remove a batch from the line of a stage."""
        line, size = self.waiting[stage], len(batch)
        if size <= len(line) and all(map(is_, batch, line)):
            del line[:size]  # the usual case: the oldest first
            return
        ids = {request.id for request in batch}
        if len(ids) != size:
            self.refuse(now_ns, "names a request twice")
        rest = [request for request in line if request.id not in ids]
        if len(rest) != len(line) - size:
            missing = min(ids - {request.id for request in line})
            where = where or f"the entry of stage {stage}"
            self.refuse(now_ns, f"takes request {missing}, which does not wait at {where}")
        line[:] = rest
