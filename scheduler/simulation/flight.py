"""A request in flight: one record from its admission to its fate, and on while its sample runs as a shadow.

>>> flight = Flight(Request(id=0, arrival_ns=0, deadline_ns=100), Terms(timeout_ns=40))
>>> flight.status, flight.ends_ns
(<Status.QUEUED: 'queued'>, 40)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..policy import Request
from .schedule import Outcome

OVERDUE = "deadline passed"
EXPIRED = "the time that the request allowed passed in the queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of one request, from the edge to its fate; times in ns from its arrival.

    `slo_ns`: its latency objective (None: the model's). `anytime`: when its deadline passes, the answer of
    the last exit passed is good enough, and leaves at once. `timeout_ns`: it is refused if it has not begun
    by then. Requests of a smaller `priority` number enter the policy's queue first. `criterion`: its own, in
    place of its tenant's and of the usual one. `tenant`: on whose behalf, where tenants share the NPU.
    """

    slo_ns: int | None = None
    timeout_ns: int | None = None
    priority: int = 0
    anytime: bool = False
    criterion: Any = None  # an `exits.Criterion` or its text
    tenant: str = ""


PLAIN = Terms()


class Status(Enum):
    """The place of a flight; a SHADOW has been answered, and its sample runs on."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SHADOW = "shadow"
    ENDED = "ended"


@dataclass(eq=False, slots=True)
class Flight:
    """One request from its admission to its fate; the ledger alone changes its status.

    `stage`: the one that it waits for or runs. `asked`: the last exit whose head ran, from which an early
    answer would come (-1: none). `worked_ns`: its time in runs, the last of them of a `batch`. `passed`: the
    answer of the exit asked, for whoever comes first when the deadline passes; `taken`: another thread has
    given it. `origin`: of a shadow, the request as it was. The last five fields are its fate, in the
    simulator's terms.
    """

    request: Request
    terms: Terms = PLAIN
    status: Status = Status.QUEUED
    stage: int = 0
    asked: int = -1
    worked_ns: int = 0
    batch: int = 0
    passed: Any = None
    taken: bool = False
    origin: Request | None = None
    start_ns: int = -1
    end_ns: int = -1
    exit: int = -1
    outcome: Outcome = Outcome.EXIT
    because: str = ""

    @property
    def ends_ns(self) -> int | None:
        """The time at which its terms end it where it is now; None for never."""
        if self.status is Status.QUEUED:
            return None if self.terms.timeout_ns is None else self.request.arrival_ns + self.terms.timeout_ns
        early = self.terms.anytime and self.status is Status.WAITING and self.asked >= 0
        return self.request.deadline_ns if early else None
