"""The baselines that never preempt: serial, greedy, and adaptive batching with a timeout.

All three finish the samples they have started before they take new ones, and take the oldest first, so no request waits for more than
the requests ahead of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from ..compiled.twin import Compiled, Npu, Stream
from ..errors import SchedulerError
from ..policy import Action, Run, View, Wait
from ..units import format_ms

PATIENCE = 10  # objectives after which the oldest sample goes first, whatever a policy would rather do
_order = attrgetter("arrival_ns", "id")


def deepest(view: View) -> int:
    """The last stage at which samples wait; 0 when only the queue holds any."""
    for stage in range(len(view.waiting) - 1, 0, -1):
        if view.waiting[stage]:
            return stage
    return 0


def oldest_first(view: View, patience: float = PATIENCE, slots: int | None = None) -> Run | None:
    """A run of the oldest sample once it is older than `patience` objectives of its own; None before that.

    When the oldest is in the queue and all slots (default: the view's) are taken, the samples furthest on run, to free one.
    """
    stage = min((s for s, w in enumerate(view.waiting) if w), key=lambda s: _order(view.waiting[s][0]))
    oldest = view.waiting[stage][0]
    if view.now_ns - oldest.arrival_ns <= patience * (oldest.deadline_ns - oldest.arrival_ns):
        return None
    room = view.b_max
    if stage == 0:
        free = (slots or view.slots or view.b_max) - sum(len(w) for w in view.waiting[1:])
        stage, room = (0, min(room, free)) if free > 0 else (deepest(view), room)
    return Run(
        stage,
        tuple(view.waiting[stage][:room]),
        f"oldest first: waiting for {format_ms(view.now_ns - oldest.arrival_ns)}",
    )


@dataclass(kw_only=True)
class Serial:
    """Batch 1: one sample through the whole network (or to its exit), then the next."""

    name: str = "serial"

    def reset(self) -> None:
        """Keeps no state."""

    def decide(self, view: View) -> Action:
        """Go on with the sample in flight, else start the oldest."""
        stage = deepest(view)
        return Run(stage, (view.waiting[stage][0],), "go on" if stage else "start the oldest")

    def compiled(self, stream: Stream, npu: Npu) -> Compiled:
        """Return the twin for the compiled loop."""
        from ..compiled.baselines import SerialTwin

        return Compiled(twin=SerialTwin())


@dataclass(kw_only=True)
class Greedy:
    """Start with whatever waits, up to `b_max`; no preemption: what has started runs to the end."""

    b_max: int | None = None
    name: str = "greedy"

    def reset(self) -> None:
        """Keeps no state."""

    def decide(self, view: View) -> Action:
        """Go on with the batch in flight, else start all that waits."""
        stage = deepest(view)
        entry = view.waiting[stage]
        if stage:
            return Run(stage, tuple(entry), "go on")
        batch = tuple(entry[: _limit(self.b_max, view)])
        return Run(0, batch, f"start {len(batch)} of {len(entry)} in the queue")

    def compiled(self, stream: Stream, npu: Npu) -> Compiled:
        """Return the twin for the compiled loop."""
        from ..compiled.baselines import GreedyTwin

        return Compiled(twin=GreedyTwin(limit=_limit(self.b_max, npu)))


@dataclass(kw_only=True)
class Adaptive:
    """Adaptive batching <B_max, T_timeout>: start when `b_max` samples wait or the oldest has waited for the timeout; no preemption.

    The timeout is `timeout_ns`, or `share` of the oldest request's own objective (deadline - arrival): 0.05, 0.45 and 0.95 are the
    paper's S, M and L. FC-only and R-dimension batching are this policy with the latency table of such hardware.
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

    def reset(self) -> None:
        """Keeps no state."""

    def decide(self, view: View) -> Action:
        """Go on with the batch in flight, else start when the batch is full or its time is up."""
        stage = deepest(view)
        entry = view.waiting[stage]
        if stage:
            return Run(stage, tuple(entry), "go on")
        limit = _limit(self.b_max, view)
        if len(entry) >= limit:
            return Run(0, tuple(entry[:limit]), "the batch is full")
        oldest = entry[0]
        timeout = self.timeout_ns
        if timeout is None:
            timeout = round((self.share or 0) * (oldest.deadline_ns - oldest.arrival_ns))
        due = oldest.arrival_ns + timeout
        if view.now_ns >= due or view.closed:
            return Run(0, tuple(entry), "no more can come" if view.closed else f"waited {format_ms(timeout)}")
        return Wait(due, f"{len(entry)} of {limit} wait")

    def compiled(self, stream: Stream, npu: Npu) -> Compiled:
        """Return the twin for the compiled loop."""
        from ..compiled.baselines import AdaptiveTwin

        if self.timeout_ns is not None:
            due = stream.arrival + self.timeout_ns
        else:
            share = (self.share or 0) * (stream.deadline - stream.arrival)
            due = stream.arrival + np.rint(share).astype(np.int64)
        return Compiled(twin=AdaptiveTwin(limit=_limit(self.b_max, npu), due=due))


def _limit(own: int | None, where: View | Npu) -> int:
    return where.b_max if own is None else min(own, where.b_max)
