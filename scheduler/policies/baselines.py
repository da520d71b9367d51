"""The baselines that never preempt: serial, greedy, and adaptive batching with a timeout.

All three finish the samples they have started before they take new ones, and take the oldest first. So no
request waits for more than the requests ahead of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from ..errors import SchedulerError
from ..policy import Action, Request, Run, Traits, View, Wait
from ..simulation.units import format_ms, parse_duration_ns
from .entry import Entry, parse_count

PATIENCE = 10  # objectives after which the oldest sample goes first, before everything else
CROWDED = "more past the queue than the table knows: samples that others' batches brought"
_order = attrgetter("arrival_ns", "id")
_deadline = attrgetter("deadline_ns")


def deepest(view: View) -> int:
    """Return the last stage at which samples wait; 0 when only the queue holds any."""
    for stage in range(len(view.waiting) - 1, 0, -1):
        if view.waiting[stage]:
            return stage
    return 0


def oldest_first(view: View, patience: float = PATIENCE, slots: int | None = None) -> Run | None:
    """Return a run of the oldest sample once it is older than `patience` objectives of its own; None before.

    When the oldest is in the queue and all slots (default: the view's) are taken, the samples furthest on
    run, to free one.
    """
    stage = min((s for s, line in enumerate(view.waiting) if line), key=lambda s: _order(view.waiting[s][0]))
    oldest = view.waiting[stage][0]
    if view.now_ns - oldest.arrival_ns <= patience * (oldest.deadline_ns - oldest.arrival_ns):
        return None
    reason = f"oldest first: waiting for {format_ms(view.now_ns - oldest.arrival_ns)}"
    return run_with_room(view, stage, slots or view.slots or view.b_max, reason)


def urgent_lines(view: View, most: int) -> list[Sequence[Request]]:
    """Return of each line the `most` samples whose deadlines come first; with one objective the oldest.

    Equal deadlines keep their order.
    """
    lines: list[Sequence[Request]] = []
    for line in view.waiting:
        if len(line) > 1:
            deadlines = [r.deadline_ns for r in line]
            if deadlines != sorted(deadlines):
                line = sorted(line, key=_deadline)
        lines.append(line if len(line) <= most else line[:most])
    return lines


def run_with_room(
    view: View, stage: int, slots: int, reason: str, lines: Sequence[Sequence[Request]] | None = None
) -> Run:
    """Return a run of the first at `stage`; without a slot for the queue, of the samples furthest on.

    `lines`: the samples in order; by default those that wait, the oldest first.
    """
    room = view.b_max
    if stage == 0:
        free = slots - sum(len(line) for line in view.waiting[1:])
        stage, room = (0, min(room, free)) if free > 0 else (deepest(view), room)
    return Run(stage, tuple((lines or view.waiting)[stage][:room]), reason)


@dataclass(kw_only=True)
class Serial:
    """Batch 1: one sample through the whole network, or to its exit, then the next."""

    name: str = "serial"

    @property
    def traits(self) -> Traits:
        """The facts that a comparison needs."""
        return Traits(b_max=1)

    def reset(self) -> None:
        """Keep no state."""

    def decide(self, view: View) -> Action:
        """Go on with the sample in flight, else start the oldest."""
        stage = deepest(view)
        return Run(stage, (view.waiting[stage][0],), "go on" if stage else "start the oldest")


@dataclass(kw_only=True)
class Greedy:
    """Start with the requests that wait, up to `b_max`; no preemption: a batch in flight runs to its end."""

    b_max: int | None = None
    name: str = "greedy"

    @property
    def traits(self) -> Traits:
        """The facts that a comparison needs."""
        return Traits(b_max=self.b_max)

    def reset(self) -> None:
        """Keep no state."""

    def decide(self, view: View) -> Action:
        """Go on with the batch in flight, else start all that waits."""
        stage = deepest(view)
        line = view.waiting[stage]
        if stage:
            return Run(stage, tuple(line[: view.b_max]), "go on")  # more may wait that came in batches of others
        batch = tuple(line[: _limit(self.b_max, view)])
        return Run(0, batch, f"start {len(batch)} of {len(line)} in the queue")


@dataclass(kw_only=True)
class Adaptive:
    """Adaptive batching <B_max, T_timeout>: start a full batch, or the queue after a timeout.

    No preemption. The timeout is `timeout_ns`, or `share` of the oldest request's own objective (deadline -
    arrival): 0.05, 0.45 and 0.95 are the paper's S, M and L. FC-only and R-dimension batching are this
    policy with the latency table of such hardware. Raises SchedulerError.
    """

    timeout_ns: int | None = None
    share: float | None = None
    b_max: int | None = None
    name: str = "adaptive"

    def __post_init__(self) -> None:
        if (self.timeout_ns is None) == (self.share is None):
            raise SchedulerError("adaptive needs a timeout such as 18ms or 5% (of the objective), and only one")
        if self.share is not None and not 0 <= self.share <= 10:
            raise SchedulerError(f"adaptive's timeout must be 0..1000 % of the objective, not {100 * self.share} %")
        if self.timeout_ns is not None and self.timeout_ns < 0:
            raise SchedulerError(f"adaptive's timeout must not be negative, not {self.timeout_ns} ns")

    @property
    def traits(self) -> Traits:
        """The facts that a comparison needs."""
        return Traits(b_max=self.b_max)

    def reset(self) -> None:
        """Keep no state."""

    def decide(self, view: View) -> Action:
        """Go on with the batch in flight, else start when the batch is full or its time is up."""
        stage = deepest(view)
        line = view.waiting[stage]
        if stage:
            return Run(stage, tuple(line[: view.b_max]), "go on")  # more may wait that came in batches of others
        limit = _limit(self.b_max, view)
        if len(line) >= limit:
            return Run(0, tuple(line[:limit]), "the batch is full")
        oldest = line[0]
        timeout = self.timeout_ns
        if timeout is None:
            timeout = round((self.share or 0) * (oldest.deadline_ns - oldest.arrival_ns))
        due = oldest.arrival_ns + timeout
        if view.now_ns >= due or view.closed:
            return Run(0, tuple(line), "no more can come" if view.closed else f"waited {format_ms(timeout)}")
        return Wait(due, f"{len(line)} of {limit} wait")


def _limit(own: int | None, view: View) -> int:
    return view.b_max if own is None else min(own, view.b_max)


def _parse_timeout(key: str, text: str) -> dict[str, Any]:
    if not text.endswith("%"):
        return {"timeout_ns": parse_duration_ns(text, key)}
    try:
        return {"share": float(text[:-1]) / 100}
    except ValueError:
        raise SchedulerError(f"{key} must be a duration or a percentage such as 5%, not {text!r}") from None


_SIZE = {"b_max": parse_count}
ENTRIES = {
    "serial": Entry(Serial, "one sample at a time through the whole network"),
    "greedy": Entry(Greedy, "start with whatever waits, no preemption", _SIZE),
    "adaptive": Entry(Adaptive, "wait for a full batch or a timeout", {"timeout": _parse_timeout} | _SIZE),
    "adaptive-s": Entry(partial(Adaptive, share=0.05), "adaptive, timeout 5 % of the objective", _SIZE),
    "adaptive-m": Entry(partial(Adaptive, share=0.45), "adaptive, timeout 45 % of the objective", _SIZE),
    "adaptive-l": Entry(partial(Adaptive, share=0.95), "adaptive, timeout 95 % of the objective", _SIZE),
}
