"""Compiled twin of the policy in `policies/credit.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .optimal import SolvedCounts, costs_to_go
from .state import at, jit, make_room, take_urgent, urgent, wait
from .twin import NEVER, RUN, Ints, Npu, State, Stream


class CreditTwin(NamedTuple):
    """The twin of `Credit`.

    Ages are in steps of `width_ns`, at most `oldest`.

    `steps[stage, batch - 1]`: duration of a run in steps of age, `gap` that of a mean gap between arrivals.
    `v[stage, age]`: credit of a sample present, `gain[stage, age]` that of one in the batch, by age at the
    end of the run, in sample-ns. `look`: samples of each line that are weighed.
    """

    counts: SolvedCounts
    slo_ns: int
    width_ns: int
    patience_ns: int
    gap: int
    oldest: int
    look: int
    steps: Ints
    v: Ints
    gain: Ints

    @jit
    def decide(self, state: State, npu: Npu, stream: Stream) -> None:
        """Weigh every feasible stage and batch size one action ahead, and waiting for an arrival."""
        weigh(self, state, npu, stream, urgent(state, stream, self.look))


@jit
def weigh(twin: CreditTwin, state: State, npu: Npu, stream: Stream, places: Ints) -> None:
    """Decide as `Credit.weigh`, given the places of the most urgent (stages, look)."""
    counts, action, look_max = twin.counts, state.action[0], twin.look
    stages, held, base = len(state.many), state.counts[0].held, state.counts[0].now + twin.slo_ns
    slots, b_max = min(counts.slots, npu.slots), min(counts.b_max, npu.b_max)
    if starved(state, npu, stream, places, base - twin.patience_ns, slots):
        return
    costs = costs_to_go(counts, state)
    ages = np.empty((stages, look_max), np.int64)
    look = np.empty(stages, np.int64)
    for s in range(stages):
        look[s] = min(state.many[s], look_max)
        for k in range(look[s]):
            ages[s, k] = min(max((base - stream.deadline[at(state, s, places[s, k])]) // twin.width_ns, 0), twin.oldest)
    gains, order = np.empty(look_max, np.int64), np.empty(look_max, np.int64)
    best, best_stage = counts.forbidden, -1
    queued = min(state.many[0], counts.queue_max)
    for stage in range(stages):
        feasible = min(b_max, slots - held, queued, look_max) if stage == 0 else min(b_max, look[stage])
        for b in range(feasible):
            d = twin.steps[stage, b]
            size = min(b + 1, look[stage])
            score = costs[stage * counts.b_max + b] - worth(twin.v, ages, look, d)
            for k in range(look[stage]):
                gain, j = twin.gain[stage, ages[stage, k] + d], k
                while size < look[stage] and j > 0 and gains[j - 1] < gain:  # the older first among equals
                    gains[j], order[j] = gains[j - 1], order[j - 1]
                    j -= 1
                gains[j], order[j] = gain, k
            for k in range(size):
                score -= gains[k]
            if score < best:
                best, best_stage = score, stage
                action.samples = size
                for k in range(size):
                    state.batch[k] = places[stage, order[k]]
    if not state.counts[0].closed and costs[len(costs) - 1] - worth(twin.v, ages, look, twin.gap) < best:
        wait(state, NEVER)
    else:
        action.kind, action.stage = RUN, best_stage


@jit
def worth(v: Ints, ages: Ints, look: Ints, steps: int) -> int:
    """Return the credit of all samples present, this many steps of age from now.

    `v` is (stages, ages); `ages` (stages, look) are those of the first `look` (stages,) samples of each line.
    """
    total = 0
    for s in range(len(look)):
        for k in range(look[s]):
            total += v[s, ages[s, k] + steps]
    return total


@jit
def starved(state: State, npu: Npu, stream: Stream, places: Ints, limit: int, slots: int) -> bool:
    """Run the most urgent once its deadline lies before `limit`, as `Credit.starved`; else return False.

    `places` is (stages, look).
    """
    stage, first = -1, 0
    for s in range(len(state.many)):
        if state.many[s]:
            deadline = stream.deadline[at(state, s, places[s, 0])]
            if stage < 0 or deadline < first:
                stage, first = s, deadline
    if first >= limit:
        return False
    make_room(state, npu, stage, slots)
    state.action[0].samples = min(state.action[0].samples, places.shape[1])
    take_urgent(state, places)
    return True
