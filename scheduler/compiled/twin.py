"""Records that the compiled loop shares with the policies: stream, NPU, state and twin. NumPy only.

A twin is a NamedTuple of the numbers that a policy decides with, and of its memory. Its method
`decide(state, npu, stream)` writes the action into the state. Requests are named by their place in the
stream, which is sorted by (arrival, id), so comparing places is comparing (arrival, id). Times are integer
nanoseconds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..policy import Policy

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Records = Any  # an array of records with named fields, which NumPy's types do not describe

RUN, WAIT, ANSWER = range(3)  # kinds of an action
NEVER = -1  # the time of a wait without one
COUNTS = np.dtype(
    [(name, "i8") for name in ["now", "arrived", "closed", "head", "held", "lines", "named"]] + [("early", "f8")]
)
ACTION = np.dtype([(name, "i8") for name in ["kind", "stage", "samples", "until", "end"]])


class Stream(NamedTuple):
    """The requests, one row each: arrival and deadline in ns, and the exit where each leaves if let run."""

    arrival: Ints
    deadline: Ints
    leaves: Ints


class Npu(NamedTuple):
    """Duration of a run in ns by stage and batch size - 1, as policies believe and as it is, and the limits.

    `took` includes the overhead of a run.
    """

    believed: Ints
    took: Ints
    b_max: int
    slots: int


class State(NamedTuple):
    """Waiting requests and the decision.

    The queue is `queue[counts.head:]`, `many[0]` of them; `line[s]` is the entry of stage s, `many[s]` of
    them. `counts` and `action` hold one record each, COUNTS and ACTION: the time in ns, requests that have
    arrived, `closed` when all have, samples held past the queue, lines of the log and samples named in it,
    and the level of the bucket of early answers; the action, and the time of the next question. `batch` holds
    places in the line of the action's stage, `action.samples` of them; `gone` the requests that a run or an
    answer takes.
    """

    queue: Ints
    line: Ints
    many: Ints
    counts: Records
    action: Records
    batch: Ints
    gone: Ints

    @classmethod
    def empty(cls, requests: int, stages: int, slots: int) -> State:
        """Return a state in which nothing waits, with room for all requests."""
        return cls(
            queue=np.empty(requests, np.int64),
            line=np.empty((stages, slots + 1), np.int64),
            many=np.zeros(stages, np.int64),
            counts=records(COUNTS),
            action=records(ACTION),
            batch=np.empty(max(requests, slots + 1), np.int64),
            gone=np.empty(max(requests, slots + 1), np.int64),
        )


class Wrappers(NamedTuple):
    """Anytime answers around a policy: their share, the most saved up, and `rescue_only`."""

    anytime: float = 0.0
    most: float = 0.0
    rescue_only: int = 0


class DrainTwin(NamedTuple):
    """The twin of `Drain`: the rule of largest throughput, for more than `enter` in the queue.

    `choice[key]`: stage * b_max + batch - 1, or -1; `key`: the counts past the queue to the base slots + 1.
    `on[0]`: 1 while it decides.
    """

    b_max: int
    slots: int
    enter: int
    choice: Ints
    on: Ints


NO_DRAIN = DrainTwin(b_max=1, slots=1, enter=1 << 60, choice=np.full(1, -1, np.int64), on=np.zeros(1, np.int64))


class Compiled(NamedTuple):
    """A policy as the compiled loop runs it. A twin holds memory, so it serves one stream."""

    twin: Any
    wrappers: Wrappers = Wrappers()
    drain: DrainTwin = NO_DRAIN


class Book(NamedTuple):
    """The record of a schedule, as `loop.serve` returns it; rows of `log` and `ids` are filled in order.

    `fates`, requests x 4: start, end, exit and outcome. `log`, decisions x 6: time, kind, stage, samples,
    until, end of the run. `ids`: the requests of all decisions, one after the other, as places in the
    stream.
    """

    fates: Ints
    log: Ints
    ids: Ints


def records(fields: np.dtype[Any]) -> Records:
    """Return one record of zeros; its fields are attributes of element 0, so not named as NumPy's."""
    assert not any(hasattr(np.void, name) for name in fields.names or ())
    return np.zeros(1, fields).view(np.recarray)


def twin_of(policy: Policy, stream: Stream, npu: Npu) -> Compiled | None:
    """Return the policy's twin, or None when it has none for this NPU.

    Only the class itself is asked, by its method `compiled(stream, npu)`: a subclass may decide otherwise.
    """
    says = vars(type(policy)).get("compiled")
    return None if says is None else says(policy, stream, npu)
