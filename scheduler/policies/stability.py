"""EdgeServing's stability score over several networks on one NPU (arXiv 2605.05527).

Its abstract says that network, exit and batch size are chosen together, by how each choice leaves all queues.
The form of the score is that of a public repository of the same name (`dododo99k/EdgeServing` on GitHub,
state of February 2026, its scheduler of lowest interference). A candidate is a network with all that waits
for it, up to the largest batch, and the deepest exit that its oldest request reaches in time, or the first
one. Its score is the sum of min(exp(w / objective - 1), 10) over the requests that it leaves waiting, w the
time that each will have waited when the candidate ends. The least score runs, and samples that have not left
by then are answered at the chosen exit.

>>> from fluidnpu.dse import LatencyTable
>>> from ..simulation.engine import simulate
>>> from ..simulation.world import World
>>> table = LatencyTable(ns=((100, 100), (900, 900)))
>>> requests = [Request(0, 0, 5000), Request(1, 10, 1050)]
>>> simulate(requests, Stability(), World(latency=table, exits=[1, 1], exit_rates=(0, 1))).exit
(1, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..policy import Action, Answer, Request, Run, View
from ..simulation.networks import Networks

Floats = NDArray[np.float64]
MOST = 10.0  # that one request adds to a score


@dataclass(kw_only=True)
class Stability:
    """The policy of the whole NPU: it knows all networks, and no tenant has a share of its own.

    `networks` side by side; None for one alone. `forces`: answer at the chosen exit; without it samples run
    on to the exits at which they leave, and candidates are batches to the last exit.
    """

    networks: Networks | None = None
    forces: bool = True
    name: str = "stability"
    _exit: int = field(default=0, init=False)  # the chosen one, numbered consecutively

    def reset(self) -> None:
        """Forget the batch in flight."""
        self._exit = 0

    def decide(self, view: View) -> Action:
        """Go on with the batch in flight to its exit, else start the one with the least score."""
        side = self.networks or Networks.alone(stages=len(view.waiting), slots=view.slots or view.b_max)
        for stage, line in enumerate(view.waiting):
            if line and stage not in side.first:
                batch = tuple(line[: view.b_max])
                answered = tuple(r for r in batch if r.id not in view.unanswerable)
                if self.forces and stage > self._exit and answered:
                    return Answer(answered, "the chosen exit is passed")
                return Run(stage, batch, "go on")
        waiting = [r for first in side.first for r in view.waiting[first]]
        times = np.array([(r.arrival_ns, r.deadline_ns - r.arrival_ns) for r in waiting], float).T
        best, place = (np.inf, 0, 0), 0
        for network, first in enumerate(side.first):
            queue = view.waiting[first]
            if queue:
                taken = queue[: min(view.b_max, side.slots[network])]
                exit, took = self._deepest(view, taken, first, side.last[network])
                left = np.ones(len(waiting), bool)
                left[place : place + len(taken)] = False
                best = min(best, (score(view.now_ns + took - times[0][left], times[1][left]), first, exit))
            place += len(queue)
        value, first, self._exit = best
        size = min(view.b_max, side.slots[side.first.index(first)])
        reason = f"least score {value:.3f}, to exit {self._exit - first + 1}"
        return Run(first, tuple(view.waiting[first][:size]), reason)

    def _deepest(self, view: View, batch: Sequence[Request], first: int, last: int) -> tuple[int, int]:
        """Give the deepest exit that the oldest reaches in time, else the first, and the time to it."""
        for exit in range(last, first - 1, -1):
            took = view.latency.between(first, exit, len(batch))
            if exit == first or view.now_ns + took <= batch[0].deadline_ns or not self.forces:
                return exit, took
        raise AssertionError("a network has a first exit")


def score(waited_ns: Floats, objective_ns: Floats) -> float:
    """Sum what requests that have waited so long add to a score; both are (requests,).

    >>> round(score(np.array([0.0, 5.0, 99.0]), np.array([5.0, 5.0, 5.0])), 3)
    11.368
    """
    return float(np.minimum(np.exp(np.minimum(waited_ns / objective_ns - 1, 3.0)), MOST).sum())
