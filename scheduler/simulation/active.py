"""Active exits: which exits of a network are in use, with which thresholds, changed between two batches.

A program holds the heads of all exits. A stage whose exit is inactive runs the backbone's part alone, so its
head costs nothing, and its samples run on. The table is in host memory: changing it needs neither compiler
nor bitstream. A change may come from any thread; the loop that owns the NPU adopts it before its next
decision, so a batch under way ends as it began.

>>> from fluidnpu.dse import LatencyTable
>>> whole, bare = LatencyTable(ns=((12, 21), (20, 36))), LatencyTable(ns=((10, 18), (20, 36)))
>>> times = PartTimes(whole=whole, bare=bare)
>>> active = ActiveExits(times, ExitSet((0.9,)), rates=(0.4, 0.6))
>>> active.change(ExitSet((None,)), "the exit is no use").latency.ns, active.adopt().rates
(((10, 18), (20, 36)), (0.0, 1.0))
>>> active.adopt() is None, times.single_ns(2)
(True, 54)
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fluidnpu.dse import LatencyTable

from ..errors import SchedulerError
from ..policy import Request

FAR_NS = 1 << 61  # a deadline that no policy hurries for


@dataclass(frozen=True)
class ExitSet:
    """The threshold of every early exit; None where the exit is inactive. Raises SchedulerError."""

    thresholds: tuple[float | None, ...]

    def __post_init__(self) -> None:
        for exit, value in enumerate(self.thresholds, 1):
            if value is not None and not (isinstance(value, int | float) and 0 <= value <= 1):
                raise SchedulerError(f"the threshold of exit {exit} must lie in 0..1, or be none, not {value!r:.40}")

    @classmethod
    def of(cls, thresholds: Sequence[float | None]) -> ExitSet:
        """Return the set of these thresholds; an exit with a threshold of 1, which nobody exceeds, is
        inactive.

        >>> ExitSet.of((0.9, 1.0))
        ExitSet(thresholds=(0.9, None))
        """
        return cls(tuple(None if value is None or value >= 1 else float(value) for value in thresholds))

    @property
    def active(self) -> tuple[int, ...]:
        """The active early exits, from 0."""
        return tuple(exit for exit, value in enumerate(self.thresholds) if value is not None)

    def runs_head(self, stage: int) -> bool:
        """Return whether a stage runs its head: that of an active exit, and the last one always."""
        return stage >= len(self.thresholds) or self.thresholds[stage] is not None

    def with_exit(self, exit: int, threshold: float | None) -> ExitSet:
        """Return the set with one exit changed."""
        changed = list(self.thresholds)
        changed[exit] = threshold
        return ExitSet(tuple(changed))

    def folded(self, rates: Sequence[float]) -> tuple[float, ...]:
        """Return exit rates under this set: leavers of an inactive exit leave at the next.

        >>> ExitSet((None, 0.5)).folded((0.3, 0.3, 0.4))
        (0.0, 0.6, 0.4)
        """
        carried, shares = 0.0, []
        for stage, rate in enumerate(rates):
            carried += rate
            runs = self.runs_head(stage)
            shares.append(carried if runs else 0.0)
            carried = 0.0 if runs else carried
        return tuple(shares)

    def __str__(self) -> str:
        sentences = [f"exit {exit + 1} above {self.thresholds[exit]:g}" for exit in self.active]
        return ", ".join(sentences) or "no early exit"


@dataclass(frozen=True, kw_only=True)
class PartTimes:
    """The times of every stage with its head (`whole`) and without it (`bare`). Raises SchedulerError."""

    whole: LatencyTable
    bare: LatencyTable

    def __post_init__(self) -> None:
        if (self.whole.stages, self.whole.b_max) != (self.bare.stages, self.bare.b_max):
            raise SchedulerError(
                f"times with and without heads must be of one shape, not {self.whole.stages} x {self.whole.b_max} and "
                f"{self.bare.stages} x {self.bare.b_max}"
            )

    def latency(self, exits: ExitSet) -> LatencyTable:
        """Return the latency table of all stages under a set of active exits. Raises SchedulerError."""
        if len(exits.thresholds) != self.whole.stages - 1:
            raise SchedulerError(
                f"a set of exits must name {self.whole.stages - 1} early exits, not {len(exits.thresholds)}"
            )
        rows = zip(self.whole.ns, self.bare.ns, strict=True)
        return LatencyTable(ns=tuple(whole if exits.runs_head(s) else bare for s, (whole, bare) in enumerate(rows)))

    def single_ns(self, batch: int) -> int:
        """Return the time of a batch through the network without early exits."""
        return sum(row[batch - 1] for row in self.bare.ns[:-1]) + self.whole.ns[-1][batch - 1]


@dataclass(frozen=True, kw_only=True)
class InForce:
    """One state of the table: the exits, what follows from them, and why. `number` counts changes from 0."""

    number: int
    exits: ExitSet
    latency: LatencyTable
    rates: tuple[float, ...]
    why: str
    decided_ns: int  # on `time.perf_counter_ns`, for measuring how soon it is adopted


class ActiveExits:
    """The table of one network while it is served. `obey` is told of a set when the loop adopts it."""

    def __init__(
        self,
        times: PartTimes,
        exits: ExitSet,
        rates: Sequence[float],
        obey: Callable[[ExitSet], None] | None = None,
    ) -> None:
        self.times = times
        self._rates, self._obey, self._lock = tuple(rates), obey, threading.Lock()
        self.now = self._next = self._state(0, exits, None, "as it was selected")
        if obey is not None:
            obey(exits)

    def change(self, exits: ExitSet, why: str, rates: Sequence[float] | None = None) -> InForce:
        """Put a set of exits into the table; it holds from the next batch on. From any thread.

        `rates`: the exit rates that policies are to believe; by default those of the beginning, where leavers
        of an inactive exit leave at the next. Raises SchedulerError.
        """
        with self._lock:
            self._next = self._state(self._next.number + 1, exits, rates, why)
            return self._next

    @property
    def latest(self) -> InForce:
        """The state as it will be from the next batch on."""
        return self._next

    def adopt(self) -> InForce | None:
        """Return the state that has come since the last call, if any. For the loop that owns the NPU."""
        if self._next is self.now:
            return None
        self.now = self._next
        if self._obey is not None:
            self._obey(self.now.exits)
        return self.now

    def _state(self, number: int, exits: ExitSet, rates: Sequence[float] | None, why: str) -> InForce:
        latency = self.times.latency(exits)
        return InForce(
            number=number,
            exits=exits,
            latency=latency,
            rates=exits.folded(self._rates) if rates is None else tuple(rates),
            why=why,
            decided_ns=time.perf_counter_ns(),
        )


class Watcher(Protocol):
    """Sees every run and may change the table; it decides whose samples run on after their answer."""

    def ran(
        self,
        now_ns: int,
        force: InForce,
        stage: int,
        requests: Sequence[Request],
        reasons: Sequence[str],
        labels: Sequence[int] | None,
        confidences: Sequence[float] | None,
    ) -> frozenset[int]:
        """Take note of a run's end: who left (those with a reason), and what the exit said.

        `requests` are the samples without shadows. `labels` are the classes that it named, and `confidences`
        what thresholds are compared with; None where the simulator knows none, or where the head did not run.
        Returns the ids of leavers whose samples are to run on to the last exit, as shadows; their answers
        leave now.
        """

    def shadow_ended(self, now_ns: int, request_id: int, label: int | None) -> None:
        """Take note that a shadow came to the last exit, with the class there."""

    def gone(self, request_id: int) -> None:
        """Take note of a request that ended in another way: shed, answered at its deadline, or given up."""


def shadow_of(request: Request) -> Request:
    """Return the request of a sample that runs on after its answer: nobody waits for it any more."""
    return dataclasses.replace(request, deadline_ns=request.arrival_ns + FAR_NS)
