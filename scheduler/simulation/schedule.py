"""A schedule: one record per request, one per decision, and the rules that every schedule obeys.

A `Schedule` holds the decision log as the actions themselves, so it replays (`Replay`) to the same
schedule, and text (`log_lines`, `read_log`) loses nothing. Times are integer nanoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ..errors import PolicyError, SchedulerError
from ..policy import Action, Answer, Request, Run, Shed, Traits, View, Wait
from .networks import Networks

Ints = NDArray[np.int64]
LAST = "last exit"  # the reason of a sample that nothing let leave before


class Outcome(IntEnum):
    """The way a request left: at the exit the network chose, early by `Answer`, or refused by `Shed`."""

    EXIT = 0
    ANYTIME = 1
    SHED = 2


@dataclass(frozen=True, slots=True)
class Record:
    """The fate of one request.

    `start_ns`: its first run began (its arrival's end in the queue when it was shed). `exit`: -1 when shed.
    """

    request: Request
    start_ns: int
    end_ns: int
    exit: int
    outcome: Outcome

    @property
    def latency_ns(self) -> int:
        """The time in ns from arrival to answer."""
        return self.end_ns - self.request.arrival_ns

    @property
    def late(self) -> bool:
        """True when it was answered after its deadline, or not at all."""
        return self.outcome is Outcome.SHED or self.end_ns > self.request.deadline_ns


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of the NPU, for timelines."""

    start_ns: int
    end_ns: int
    stage: int
    ids: tuple[int, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The whole schedule. Per-request columns are aligned with `requests`, in order of arrival.

    `because`: why each request left where it did, a clause of its criterion or the reason of an action; empty
    where exits were drawn beforehand. Schedules are equal whatever they say there. `shadows`: ids of requests
    whose samples ran on after their answer. `adapted`: exits could be inactive, so that an anytime answer may
    be that of an exit before the last one reached. `networks` side by side number their exits
    consecutively.
    """

    policy: str
    stages: int
    b_max: int
    slots: int
    requests: tuple[Request, ...]
    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]
    exit: tuple[int, ...]
    outcome: tuple[int, ...]
    log: tuple[tuple[int, Action], ...]
    run_end_ns: tuple[int, ...]
    because: tuple[str, ...] = field(default=(), compare=False)
    shadows: tuple[int, ...] = ()
    adapted: bool = False
    networks: Networks | None = None

    @property
    def records(self) -> Iterator[Record]:
        """The records of the requests, in order of arrival."""
        rows = zip(self.requests, self.start_ns, self.end_ns, self.exit, self.outcome, strict=True)
        return (Record(r, s, e, x, Outcome(o)) for r, s, e, x, o in rows)

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """The runs of the NPU in order of time."""
        acts = ((at, action) for at, action in self.log if isinstance(action, Run))
        return tuple(
            RunRecord(at, end, action.stage, tuple(r.id for r in action.requests), action.reason)
            for (at, action), end in zip(acts, self.run_end_ns, strict=True)
        )

    @property
    def decisions(self) -> int:
        """The number of times that the policy was asked."""
        return len(self.log)

    def log_lines(self) -> Iterator[str]:
        """Yield the decision log as JSON lines: time, kind, stage, ids, until, reason."""
        return (json.dumps(action_line(at, action), allow_nan=False) for at, action in self.log)

    def check(self) -> None:
        """Raise PolicyError where a request, a run or the slots break a rule.

        Each request must be answered once, in order, and runs neither overlap nor break b_max or the slots.
        """
        ends: dict[int, int] = {}
        stage_of: dict[int, int] = {}
        shadows = set(self.shadows)
        side = self.networks or Networks.alone(stages=self.stages, slots=self.slots)
        entries = {request.id: side.entry(request) for request in self.requests}
        busy_until = 0
        for run in self.runs:
            _must(run.start_ns >= busy_until and run.end_ns >= run.start_ns, f"runs overlap at {run.start_ns} ns")
            _must(
                1 <= len(set(run.ids)) == len(run.ids) <= self.b_max, f"a batch of {len(run.ids)} at {run.start_ns} ns"
            )
            for key in run.ids:
                _must(stage_of.get(key, entries[key]) == run.stage, f"request {key} ran stage {run.stage} out of order")
                stage_of[key] = run.stage + 1
                ends[key] = run.end_ns
            busy_until = run.end_ns
        for record in self.records:
            key = record.request.id
            _must(record.request.arrival_ns <= record.start_ns <= record.end_ns, f"request {key} ends before it starts")
            reached, on = stage_of.get(key, 0) - 1, key in shadows
            _must(
                record.exit == reached
                or (record.exit < reached and (on or (self.adapted and record.outcome is Outcome.ANYTIME))),
                f"request {key} left at an exit that it did not reach last",
            )
            _must(record.exit <= side.last[side.of(record.request)], f"request {key} ran another network")
            if record.outcome is Outcome.EXIT and not on:
                _must(record.end_ns == ends[key], f"request {key} was not answered when its run ended")
        _must(len(stage_of) == sum(o != Outcome.SHED for o in self.outcome), "a request is missing")
        held_until = {key: ends[key] for key in shadows}
        for network, slots in enumerate(side.slots):
            ids = {key for key, entry in entries.items() if entry == side.first[network]}
            self._check_slots(ids, slots, held_until)

    def _check_slots(self, ids: set[int], slots: int, held_until: Mapping[int, int]) -> None:
        """Check the slots held; a sample that ran on held its own until the end of its last run."""
        rows = zip(self.requests, self.start_ns, self.end_ns, self.outcome, strict=True)
        decisions = [
            (start, held_until.get(request.id, end))
            for request, start, end, o in rows
            if o != Outcome.SHED and request.id in ids
        ]
        held = 0
        events = [(start, 1) for start, _ in decisions] + [(end, -1) for _, end in decisions]
        for at, step in sorted(events):  # leaving sorts before entering at the same nanosecond
            held += step
            _must(held <= slots, f"{held} samples hold {slots} slots at {at} ns")


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The columns that metrics are made of, aligned with the requests, in order of arrival; times in ns.

    `runs[stage, batch - 1]`: the number of runs.
    """

    policy: str
    arrival_ns: Ints
    deadline_ns: Ints
    end_ns: Ints
    exit: Ints
    outcome: Ints
    runs: Ints
    busy_ns: int
    decisions: int

    @classmethod
    def of(cls, schedule: Schedule) -> Tally:
        """Make it from a schedule."""
        runs, starts = np.zeros((schedule.stages, schedule.b_max), np.int64), 0
        for at, action in schedule.log:
            if isinstance(action, Run):
                runs[action.stage, len(action.requests) - 1] += 1
                starts += at
        return cls(
            policy=schedule.policy,
            arrival_ns=np.array([r.arrival_ns for r in schedule.requests]),
            deadline_ns=np.array([r.deadline_ns for r in schedule.requests]),
            end_ns=np.array(schedule.end_ns),
            exit=np.array(schedule.exit),
            outcome=np.array(schedule.outcome),
            runs=runs,
            busy_ns=sum(schedule.run_end_ns) - starts,
            decisions=schedule.decisions,
        )


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise PolicyError(f"the schedule is broken: {otherwise}")


def action_line(at: int, action: Action) -> dict[str, object]:
    """Return the decision as one line of a log has it."""
    line: dict[str, object] = {"t": at, "do": type(action).__name__.lower(), "why": action.reason}
    if isinstance(action, Wait):
        line["until"] = action.until_ns
        return line
    if isinstance(action, Run):
        line["stage"] = action.stage
    line["ids"] = [r.id for r in action.requests]
    return line


def read_log(lines: Iterable[str], requests: Sequence[Request], first_line: int = 1) -> tuple[tuple[int, Action], ...]:
    """Read the text of `log_lines`. Raises SchedulerError naming the line, counted from `first_line`."""
    by_id = {r.id: r for r in requests}
    log = []
    for number, text in enumerate(lines, first_line):
        try:
            log.append(read_action(json.loads(text), by_id))
        except (ValueError, KeyError, TypeError) as error:
            raise SchedulerError(
                f"line {number} of the decision log must be one action on known requests: {error!r}"
            ) from None
    return tuple(log)


def read_action(raw: Mapping[str, object], by_id: Mapping[int, Request]) -> tuple[int, Action]:
    """Return time and action of a log's line. Raises KeyError, TypeError or ValueError for anything else."""
    at, do, why = raw["t"], raw["do"], str(raw["why"])
    if not isinstance(at, int):
        raise TypeError("t must be a whole number")
    if do == "wait":
        until = raw["until"]
        if until is not None and not isinstance(until, int):
            raise TypeError("until must be a whole number or null")
        return at, Wait(until, why)
    ids = raw["ids"]
    if not isinstance(ids, list):
        raise TypeError("ids must be a list")
    requests = tuple(by_id[key] for key in ids)
    if do == "answer":
        return at, Answer(requests, why)
    if do == "shed":
        return at, Shed(requests, why)
    stage = raw["stage"]
    if do != "run" or not isinstance(stage, int):
        raise ValueError(f"unknown action {do!r}")
    return at, Run(stage, requests, why)


class Replay:
    """A policy that repeats a decision log; it refuses when asked at another time than the log says.

    `traits`: those of the policy that made the log.
    """

    def __init__(self, log: Sequence[tuple[int, Action]], name: str = "replay", traits: Traits | None = None) -> None:
        self.name = name
        self.traits = traits or Traits()
        self._log = tuple(log)
        self._next = 0

    def reset(self) -> None:
        """Begin again."""
        self._next = 0

    def decide(self, view: View) -> Action:
        """Return the next action of the log. Raises PolicyError where the log and the world part."""
        if self._next >= len(self._log):
            raise PolicyError(f"{self.name}: the log ends before the schedule, at {view.now_ns} ns")
        at, action = self._log[self._next]
        if at != view.now_ns:
            raise PolicyError(
                f"{self.name}: decision {self._next} was taken at {at} ns, but is asked for at {view.now_ns} ns"
            )
        self._next += 1
        return action
