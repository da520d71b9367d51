"""The contract of a policy: it sees a `View`, it returns an `Action`, and it touches nothing.

The same object runs in the simulator and on the board. Times are integer nanoseconds. Stage s is everything
between exit s-1 and exit s; a sample that waits at stage 0 is in the queue.

A policy is asked exactly when the NPU is idle, at least one sample waits somewhere, and something has
changed: an arrival, the end of a run, a timeout it asked for, or its own `Answer` or `Shed`. Arrivals at
the very nanosecond of another event are in the queue before it is asked. Equal arrival times are ordered by
id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Protocol

from fluidnpu.dse import LatencyTable


@dataclass(frozen=True, slots=True)
class Request:
    """One sample to classify; arrival and deadline are absolute times. `tenant`: on whose behalf."""

    id: int
    arrival_ns: int
    deadline_ns: int
    tenant: str = ""

    def __repr__(self) -> str:
        tenant = f", tenant={self.tenant!r}" if self.tenant else ""
        return f"Request(id={self.id}, arrival_ns={self.arrival_ns}, deadline_ns={self.deadline_ns}{tenant})"


@dataclass(slots=True)
class View:
    """The state of the queues that a policy may see.

    The engine owns it and changes it between calls; a policy must not.

    `waiting[s]` are the samples at the entry of stage s, oldest arrival first; `waiting[0]` is the queue, in
    which more urgent requests stand before others.
    The NPU is idle. `exit_rates[s]` is the expected share of all samples that leave at exit s. `closed`: no
    further arrival will come. `slots`: most samples past the queue or in a run at once (0 means `b_max`).
    `unanswerable`: ids of requests past stage 0 that have passed inactive exits only, so that an `Answer` has
    nothing to give them.
    """

    now_ns: int
    waiting: Sequence[Sequence[Request]]
    latency: LatencyTable
    exit_rates: Sequence[float]
    b_max: int
    closed: bool = False
    slots: int = 0
    unanswerable: AbstractSet[int] = frozenset()

    def of_network(self, span: slice, latency: LatencyTable, exit_rates: Sequence[float], slots: int) -> View:
        """Return the part of one of several networks: its stages, its table and shares, and its own slots."""
        waiting, b_max = self.waiting[span], min(self.b_max, slots)
        return replace(self, waiting=waiting, latency=latency, exit_rates=exit_rates, b_max=b_max, slots=slots)

    def of_tenant(self, waiting: Sequence[Sequence[Request]], slots: int) -> View:
        """Return the view of a single tenant: its own lines, and `slots` at most."""
        return replace(self, waiting=waiting, b_max=min(self.b_max, slots), slots=max(slots, 1))


@dataclass(frozen=True, slots=True)
class Run:
    """Run one stage on these requests; all of them wait at its entry. `reason` is for the decision log."""

    stage: int
    requests: tuple[Request, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Stay idle until the next arrival, or until `until_ns` if that comes first."""

    until_ns: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer these requests now with the last exit each has passed: an anytime answer.

    They wait past stage 0, and leave their slots.
    """

    requests: tuple[Request, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Shed:
    """Refuse these requests now, without an answer from the network.

    They wait in the queue, and count as violations.
    """

    requests: tuple[Request, ...]
    reason: str = ""


Action = Run | Wait | Answer | Shed


class Policy(Protocol):
    """Decides the next action of the NPU; see the module for when it is asked."""

    @property
    def name(self) -> str:
        """The short name for tables, e.g. `fluid`."""

    def reset(self) -> None:
        """Forget everything; called before a schedule begins."""

    def decide(self, view: View) -> Action:
        """Return the next action; not a `Wait` when no further arrival can come."""


@dataclass(frozen=True, kw_only=True)
class Traits:
    """The facts about a policy that a comparison needs; a policy shows them as its property `traits`.

    `layers`: it decides between so many layers, not only between stages, and each of its runs costs `cost_ns`
    more; 0 for stages. `b_max`: its own largest batch. `weights_from`: the origin of its tuned weights.
    `solved_for_per_s`: the arrival rate that its tables are for.
    """

    layers: int = 0
    cost_ns: int = 0
    b_max: int | None = None
    weights_from: str = ""
    solved_for_per_s: float | None = None


def wrapping(policy: Policy) -> Iterator[Policy]:
    """Yield the policy, the one that it wraps as its attribute `inner`, and so on to the innermost."""
    inner: Policy | None = policy
    while inner is not None:
        yield inner
        inner = getattr(inner, "inner", None)


def traits_of(policy: Policy) -> Traits:
    """Return the traits of the innermost policy."""
    *_, innermost = wrapping(policy)
    return getattr(innermost, "traits", Traits())
