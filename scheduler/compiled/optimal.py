"""Compiled twin of the policy in `policies/optimal.py`, and the solved process as arrays."""

from __future__ import annotations

from typing import NamedTuple

from .state import jit, oldest_first, run, wait
from .twin import NEVER, Ints, Npu, State, Stream


class SolvedCounts(NamedTuple):
    """A `CountTable` as arrays.

    `q[queued, place, stage * b_max + batch - 1]`: cost to go in sample-ns, the last column that of waiting;
    `forbidden`: the cost of an impossible action. `place[key]`: the row of the counts past the queue, `key`
    their digits to the base `radix`.
    """

    b_max: int
    slots: int
    queue_max: int
    forbidden: int
    radix: int
    place: Ints
    q: Ints


@jit
def costs_to_go(counts: SolvedCounts, state: State) -> Ints:
    """Return the cost to go of every action in this state, (actions,)."""
    key = 0
    for s in range(1, len(state.many)):
        key = key * counts.radix + state.many[s]
    return counts.q[min(state.many[0], counts.queue_max), counts.place[key]]  # type: ignore[no-any-return]


class OptimalTwin(NamedTuple):
    """The twin of `Optimal`. `patience`: objectives after which the oldest goes first."""

    patience: int
    counts: SolvedCounts

    @jit
    def decide(self, state: State, npu: Npu, stream: Stream) -> None:
        """Take the action with the smallest cost to go, on the oldest samples."""
        counts = self.counts
        if oldest_first(state, npu, stream, self.patience, min(counts.slots, npu.slots)):
            return
        costs = costs_to_go(counts, state)
        last, best, action = len(costs) - 1, counts.forbidden, -1
        whole = npu.b_max >= counts.b_max and npu.slots >= counts.slots
        for k in range(last):
            stage, b = k // counts.b_max, k % counts.b_max
            limit = min(npu.b_max, npu.slots - state.counts[0].held) if stage == 0 else npu.b_max
            if costs[k] < best and (whole or b < limit):
                best, action = costs[k], k
        if not state.counts[0].closed and costs[last] < best:
            wait(state, NEVER)
        else:
            stage = action // counts.b_max
            run(state, stage, min(state.many[stage], action % counts.b_max + 1))
