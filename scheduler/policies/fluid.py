"""Exit-aware preemptive scheduling: Algorithm 1 of Fluid Batching (section III-B), as its text means it.

At each exit the batch in flight may be preempted: up to `b_max - B_rem` queued samples run from the start
to the same exit, then all continue together. Back-filling is repeated until the batch is full, the queue is
empty or the criterion says no, and is never nested. The criterion is Eqs. 3-4: T(0:i, B_incr) + T(i+1:last,
B_merged) < deadline of the oldest sample in the batch - now.

Where the printed algorithm cannot be meant (it skips the last subnet, spins on an empty queue, subtracts
B_exit twice, leaves B_rem = 0 undefined) the intent is implemented: every subnet runs, back-filling stops
with the queue, each exit counts once, an empty batch ends the job. The state is the view alone: the group
furthest on is the preempted batch, a group behind it is its back-fill.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ..compiled.twin import Compiled, Npu, Stream
from ..policy import Action, Request, Run, View
from ..simulation.units import format_ms
from .baselines import PATIENCE, deepest, oldest_first
from .entry import Entry


@dataclass(kw_only=True)
class Fluid:
    """Algorithm 1 with the literal Eqs. 3 and 4, or `repaired`.

    A late oldest sample makes the literal slack negative and so blocks all back-filling just when the load
    is highest. `repaired` asks Eq. 4 only of samples that are on time if nothing is preempted: it protects
    what can be protected and blocks nothing for the rest, until a sample is PATIENCE objectives old.
    """

    repaired: bool = False
    name: str = "fluid"

    def reset(self) -> None:
        """Keep no state."""

    def decide(self, view: View) -> Action:
        """Bring a back-fill up to its batch, back-fill, or continue."""
        stage = deepest(view)
        queue = view.waiting[0]
        if not stage:
            batch = tuple(queue[: view.b_max])
            return Run(0, batch, f"start {len(batch)} of {len(queue)} in the queue")
        for behind in range(1, stage):
            if view.waiting[behind]:
                return Run(
                    behind, tuple(view.waiting[behind][: view.b_max]), f"bring the back-fill up to stage {stage}"
                )
        batch = tuple(view.waiting[stage][: view.b_max])
        room = min(len(queue), view.b_max - len(batch))
        if room <= 0:
            return Run(stage, batch, "go on: the batch is full" if queue else "go on: the queue is empty")
        overhead = overhead_ns(view, stage, room, len(batch) + room)
        if self.repaired and oldest_first(view):
            return Run(stage, batch, "go on: the oldest has waited too long")
        slack = self._slack_ns(view, stage, batch)
        if slack is None or overhead < slack:
            return Run(
                0, tuple(queue[:room]), f"back-fill {room} at stage {stage}: {format_ms(overhead)} < {_text(slack)}"
            )
        return Run(stage, batch, f"go on: {format_ms(overhead)} >= {_text(slack)}")

    def compiled(self, stream: Stream, npu: Npu) -> Compiled:
        """Return the twin for the compiled loop."""
        from ..compiled.fluid import FluidTwin

        return Compiled(twin=FluidTwin(repaired=int(self.repaired), patience=PATIENCE))

    def _slack_ns(self, view: View, stage: int, batch: tuple[Request, ...]) -> int | None:
        """Return the slack of Eq. 3 in ns, of the oldest sample.

        Repaired: of the tightest sample that can be on time; None where none can.
        """
        if not self.repaired:
            return batch[0].deadline_ns - view.now_ns
        alone = view.latency.between(stage, view.latency.stages - 1, len(batch))
        savable = [r.deadline_ns for r in batch if view.now_ns + alone <= r.deadline_ns]
        return min(savable) - view.now_ns if savable else None


def overhead_ns(view: View, stage: int, fresh: int, merged: int) -> int:
    """Return T_overhead of Eq. 4 in ns: the new samples to the entry of `stage`, then all to the end."""
    ns = view.latency.ns
    time = 0
    for row in ns[:stage]:
        time += row[fresh - 1]
    for row in ns[stage:]:
        time += row[merged - 1]
    return time


def _text(slack: int | None) -> str:
    return "no sample can be on time" if slack is None else format_ms(slack)


ENTRIES = {
    "fluid": Entry(Fluid, "Algorithm 1 with the literal Eqs. 3-4"),
    "fluid-repaired": Entry(partial(Fluid, repaired=True), "Algorithm 1; samples that are late anyway block nothing"),
}
