"""Policies of other papers: LazyBatching (layer by layer, exit-unaware) and PAME's staged execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidnpu.dse import LatencyTable

from ..compiled.twin import Compiled, Npu, Stream
from ..errors import SchedulerError
from ..policy import Action, Run, Traits, View
from ..simulation.units import format_ms, parse_duration_ns
from .baselines import deepest
from .entry import Entry, parse_count, parse_flag


@dataclass(kw_only=True)
class Lazy:
    """LazyBatching as Fluid Batching (section IV) describes it: preemption at every layer, to merge.

    Three traits, each a source of loss there. It is asked at every layer: serve it on `layered` tables,
    with its cost per layer as the overhead of a run. Exits do not free room: the batch is counted as
    admitted until it has left; `exit_aware` removes this. A batch is predicted to take as long as its
    samples one by one. A new batch is admitted while every sample in flight keeps its deadline under that
    prediction. The batch behind runs first, batches merge where they meet.
    """

    cost_ns: int = 0
    layers: int = 16
    exit_aware: bool = False
    name: str = "lazy"
    _admitted: int = 0

    @property
    def traits(self) -> Traits:
        """The facts that a comparison needs."""
        return Traits(layers=self.layers, cost_ns=self.cost_ns)

    def reset(self) -> None:
        """Forget how many were admitted."""
        self._admitted = 0

    def decide(self, view: View) -> Action:
        """Admit a new batch if the coarse prediction allows it, else run the batch furthest behind."""
        waiting, queue = view.waiting, view.waiting[0]
        behind = next((s for s in range(1, len(waiting)) if waiting[s]), 0)
        if not behind:
            self._admitted = 0
        if queue:
            fresh = self._admissible(view, behind)
            if fresh:
                self._admitted += fresh
                return Run(0, tuple(queue[:fresh]), f"admit {fresh}" if behind else f"start {fresh}")
        return Run(behind, tuple(waiting[behind][: view.b_max]), "catch up")

    def compiled(self, stream: Stream, npu: Npu) -> Compiled:
        """Return the twin for the compiled loop."""
        from ..compiled.lazy import LazyTwin

        return Compiled(twin=LazyTwin(exit_aware=int(self.exit_aware), admitted=np.zeros(1, np.int64)))

    def _admissible(self, view: View, behind: int) -> int:
        """Return the number of samples in the queue that may start now."""
        held = sum(len(w) for w in view.waiting[1:])
        room = min(len(view.waiting[0]), view.b_max - (held if self.exit_aware else max(held, self._admitted)))
        if not behind or room <= 0:
            return max(room, 0)
        slack = min(w[0].deadline_ns for w in view.waiting[1:] if w) - view.now_ns
        alone = [row[0] for row in view.latency.ns]
        remaining = sum(len(w) * sum(alone[s:]) for s, w in enumerate(view.waiting) if s)
        return max(0, min(room, (slack - remaining - 1) // sum(alone)))


@dataclass(kw_only=True)
class Staged:
    """PAME's staged execution: exit by exit, with a parallel batch while fewer than `tau_b` samples move on.

    On a GPU the two share the machine; one NPU takes them in turns, so here a parallel batch is back-filling
    without a criterion: the new batch runs one stage, then the stage of the oldest sample takes a turn.
    `tau_b = 1` never overlaps. Raises SchedulerError.
    """

    tau_b: int = 4
    name: str = "staged"
    _turn_of_oldest: bool = False

    def __post_init__(self) -> None:
        if self.tau_b < 1:
            raise SchedulerError(f"tau_b must be at least 1, not {self.tau_b}")

    def reset(self) -> None:
        """Begin with the queue's turn."""
        self._turn_of_oldest = False

    def decide(self, view: View) -> Action:
        """Start a parallel batch while few are in flight, else run the stage of the oldest sample."""
        waiting = view.waiting
        held = sum(len(w) for w in waiting[1:])
        room = min(len(waiting[0]), view.b_max, (view.slots or view.b_max) - held)
        if room > 0 and (not held or (held < self.tau_b and not self._turn_of_oldest)):
            self._turn_of_oldest = held > 0
            return Run(0, tuple(waiting[0][:room]), f"{held} in flight, fewer than {self.tau_b}")
        self._turn_of_oldest = False
        stage = min(
            (s for s in range(1, len(waiting)) if waiting[s]),
            key=lambda s: (waiting[s][0].arrival_ns, waiting[s][0].id),
            default=deepest(view),
        )
        return Run(
            stage,
            tuple(waiting[stage][: view.b_max]),
            f"oldest first, {format_ms(view.now_ns - waiting[stage][0].arrival_ns)} old",
        )


MOST_LAYERS = 10_000  # ten times the deepest networks


def layered(latency: LatencyTable, layers: int) -> LatencyTable:
    """Return the table with each stage cut into equal layers, about `layers` in all; sums stay exact.

    Raises SchedulerError.

    >>> layered(LatencyTable(ns=((10, 15), (5, 7))), 4).ns
    ((5, 7), (5, 8), (2, 3), (3, 4))
    """
    if layers < latency.stages:
        raise SchedulerError(f"there must be at least one layer for each of {latency.stages} stages, not {layers}")
    parts = layers // latency.stages
    if parts > (shortest := min(map(min, latency.ns))) or layers > MOST_LAYERS:
        raise SchedulerError(
            f"layers must be at most {min(MOST_LAYERS, latency.stages * shortest)}, each of at least 1 ns, not {layers}"
        )
    rows = []
    for row in latency.ns:
        for k in range(parts):
            rows.append(tuple(ns * (k + 1) // parts - ns * k // parts for ns in row))
    return LatencyTable(ns=tuple(rows))


def layered_rates(exit_rates: Sequence[float], layers: int) -> tuple[float, ...]:
    """Return the exit shares on the layered table: only the last layer of a stage has an exit.

    >>> layered_rates((0.25, 0.75), 4)
    (0.0, 0.25, 0.0, 0.75)
    """
    parts = layers // len(exit_rates)
    return tuple(rate if k == parts - 1 else 0.0 for rate in exit_rates for k in range(parts))


def _parse_cost(key: str, text: str) -> dict[str, Any]:
    return {"cost_ns": 0 if text == "0" else parse_duration_ns(text, key)}


_LAZY = {"cost": _parse_cost, "layers": parse_count, "exit_aware": parse_flag}
ENTRIES = {
    "lazy": Entry(Lazy, "LazyBatching: layer by layer, exit-unaware", _LAZY),
    "staged": Entry(Staged, "PAME's stages with parallel batches", {"tau_b": parse_count}),
}
