"""The policy of smallest mean latency: it looks one action ahead in the solved decision process on counts.

The process knows how many samples wait at each stage, not how old they are (`decision_process.py`).
"""

from __future__ import annotations

from ..compiled.twin import Compiled, Npu, Stream
from ..policy import Action, Run, Traits, View, Wait
from .baselines import CROWDED, PATIENCE, oldest_first, run_with_room
from .entry import Entry
from .setting import Setting
from .solving.decision_process import MS, NEVER


class Optimal:
    """The solved process on counts: optimal in mean latency for Poisson arrivals and independent exits.

    A sample that is PATIENCE of its objectives old goes first.
    """

    def __init__(self, setting: Setting, name: str = "optimal") -> None:
        self.name = name
        self.table = setting.count_table()
        self._rows = self.table.rows

    @property
    def traits(self) -> Traits:
        """The facts that a comparison needs."""
        return Traits(solved_for_per_s=self.table.rate_per_s)

    def reset(self) -> None:
        """Keep no state."""

    def decide(self, view: View) -> Action:
        """Take the action with the smallest cost to go, on the oldest samples."""
        starved = oldest_first(view, slots=min(self.table.slots, view.slots or view.b_max))
        if starved is not None:
            return starved
        table, waiting = self.table, view.waiting
        queued = min(len(waiting[0]), table.queue_max)
        place = table.places.get(tuple([len(w) for w in waiting[1:]]))
        if place is None:
            return run_with_room(view, 0, table.slots, CROWDED)
        costs = self._rows[queued][place]
        if view.b_max < table.b_max or (view.slots or view.b_max) < table.slots:
            costs = self._within(view, costs)
        best = min(costs[:-1]) if view.closed else min(costs)
        action = costs.index(best)
        if action == len(costs) - 1:
            return Wait(None, "cheaper to wait for one more")
        stage, size = divmod(action, table.b_max)
        return Run(stage, tuple(waiting[stage][: size + 1]), f"least cost to go: {best / MS:.0f} sample-ms")

    def compiled(self, stream: Stream, npu: Npu) -> Compiled | None:
        """Return the twin for the compiled loop, or None for an NPU with other stages."""
        from ..compiled.optimal import OptimalTwin

        counts = self.table.compiled(len(npu.believed))
        return None if counts is None else Compiled(twin=OptimalTwin(patience=PATIENCE, counts=counts))

    def _within(self, view: View, costs: list[int]) -> list[int]:
        """Return the costs, NEVER for actions beyond the view's batch or slots."""
        free = (view.slots or view.b_max) - sum(len(w) for w in view.waiting[1:])
        b_max = self.table.b_max
        limits = [min(view.b_max, free)] + [view.b_max] * (len(view.waiting) - 1)
        kept = [cost if k % b_max < limits[k // b_max] else NEVER for k, cost in enumerate(costs[:-1])]
        return kept + costs[-1:]


ENTRIES = {"optimal": Entry(Optimal, "smallest mean latency: decision process on counts", solved=True, drains=True)}
