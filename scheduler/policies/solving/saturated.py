"""The stationary rule of largest throughput for a queue that never runs dry, and that throughput.

NumPy only. State: how many samples wait past each exit, together at most `slots`; actions: run stage s on b
samples. The reward is the answers given, so the best average reward is the most that the NPU can answer in a
second with these slots. Value iteration with bounds as in `decision_process.py`, without arrivals: for values
h let d(state) be the largest, over actions of duration t, of (answers + E h(next) - h(state)) / t; the
optimum lies between the least and the largest d.

>>> from fluidnpu.dse import LatencyTable
>>> table = LatencyTable(ns=((10**6, 10**6), (10**6, 2 * 10**6)))
>>> rule = solve_saturated(table, (0.5, 0.5))
>>> round(rule.per_s), rule.action((0,)), rule.action((2,))  # 2 in 1 ms, and half of them 1 ms more
(1000, (0, 2), (1, 1))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

from fluidnpu.dse import LatencyTable

from .decision_process import Ints, Moves

MOST_PLACES, MOST_KEYS = 20_000, 1 << 20
TOLERANCE = 1e-4  # of the throughput
SWEEPS = 20_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Saturated:
    """The best rule and its answers a second, at least.

    `choice[key]`: stage * b_max + batch - 1 where `key` has the counts past the queue as its digits to the
    base slots + 1, the first stage past it first; -1 where they exceed the slots.
    """

    stages: int
    b_max: int
    slots: int
    choice: Ints
    per_s: float

    def action(self, later: Sequence[int]) -> tuple[int, int] | None:
        """Return stage and batch for the counts past the queue; None for more samples than slots."""
        key = 0
        for count in later:
            if count > self.slots:
                return None
            key = key * (self.slots + 1) + count
        choice = int(self.choice[key])
        return None if choice < 0 else (choice // self.b_max, choice % self.b_max + 1)


@lru_cache(maxsize=64)
def solve_saturated(
    latency: LatencyTable, exit_rates: tuple[float, ...], b_max: int | None = None, slots: int | None = None
) -> Saturated | None:
    """Solve for the largest batch (default: the table's) and slots (default: as many as that).

    None where the places are too many to solve in seconds.
    """
    b_max = min(b_max or latency.b_max, latency.b_max)
    slots = slots or b_max
    later = latency.stages - 1
    if comb(slots + later, later) > MOST_PLACES or (slots + 1) ** later > MOST_KEYS:
        return None
    moves = Moves(latency, exit_rates, slots=slots, b_max=min(b_max, slots))
    ms = np.array([ms for _, _, ms, *_ in moves.runs])[:, None]
    answers = [b * (1 - moves.goes_on[stage]) for stage, b, *_ in moves.runs]
    values, low = np.zeros(len(moves.list)), 0.0
    scores = np.empty((len(moves.runs), len(values)))
    for _ in range(SWEEPS):
        for k, (_, _, _, nexts, allowed) in enumerate(moves.runs):
            scores[k] = answers[k] + sum(chance * values[to] for chance, to in nexts)
            scores[k, ~allowed] = -np.inf
        gains = ((scores - values) / ms).max(0)
        low, high = max(low, float(gains.min())), float(gains.max())  # the first only rises, so the values settle
        best = scores - low * ms
        if high - low <= TOLERANCE * high:
            break
        values = (values + best.max(0)) / 2  # half a step, so that no chain is periodic
        values -= values[0]
    choice = np.full((slots + 1) ** later, -1, np.int64)
    choice[moves.keys] = best.argmax(0)
    return Saturated(stages=latency.stages, b_max=moves.b_max, slots=slots, choice=choice, per_s=low * 1e3)
