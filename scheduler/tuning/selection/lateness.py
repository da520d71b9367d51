"""The share of late batches under a chain, from the probabilities that a sample moves on.

A batch of samples drawn independently is late by how many move on behind each exit, so its share follows from
one probability an exit. It rises with each of them, and all samples tell them, where a count of late batches
has an outcome for a whole batch only.

>>> table = CandidateTable(names=("a",), segments=((4, 6), (6, 10)), heads=((2, 3),))
>>> Lateness.of(table, ((0, 0.9),), 2).share(np.array([0.5]))  # late if both move on: 9 + 10 above 16
0.25
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .answers import Chain
from .candidates import CandidateTable

HALVINGS = 40


@dataclass(frozen=True, kw_only=True, eq=False)
class Lateness:
    """The ways in which a batch may be late: rows of samples that leave at each exit, and at the last one.

    `log_ways` (rows,): the logarithm of the number of orders of the samples in each.
    """

    leaving: NDArray[np.int64]
    log_ways: NDArray[np.float64]

    @classmethod
    def of(cls, table: CandidateTable, chain: Chain, batch: int) -> Lateness:
        """Find the ways of a chain; a larger batch is taken to last at least as long as a smaller one."""
        logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, batch + 1)))])  # of factorials
        exits = [exit for exit, _ in chain]
        starts = [0, *(exit + 1 for exit in exits)]
        steps = [
            np.maximum.accumulate(table.step(start, exit))
            for start, exit in zip(starts, (*exits, table.exits), strict=True)
        ]
        here, elapsed, leaving = np.array([batch]), np.zeros(1, np.int64), np.zeros((1, 0), np.int64)
        for place in range(len(exits)):
            longest = elapsed + np.sum([step[here] for step in steps[place:]], axis=0)  # if nobody leaves any more
            late = np.flatnonzero(longest > table.single_ns(batch))
            counts = here[late] + 1
            parents = np.repeat(late, counts)
            left = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
            elapsed = elapsed[parents] + steps[place][here[parents]]
            here, leaving = here[parents] - left, np.column_stack([leaving[parents], left])
        late = np.flatnonzero(elapsed + steps[-1][here] > table.single_ns(batch))
        leaving = np.column_stack([leaving, here])[late]
        return cls(leaving=leaving, log_ways=logs[batch] - logs[leaving].sum(axis=1))

    def share(self, moving: NDArray[np.float64]) -> float:
        """Return the share of late batches where a sample moves on behind exit j with this probability,
        (exits,).
        """
        moving = np.minimum.accumulate(np.clip(moving, 0, 1))
        rates = np.concatenate([[1.0], moving]) - np.concatenate([moving, [0.0]])
        logs = np.log(np.maximum(rates, 1e-300))
        return float(np.exp(self.log_ways + self.leaving @ logs).sum())

    def limits(self, moving: NDArray[np.float64], errors: NDArray[np.float64], late: float) -> NDArray[np.float64]:
        """Return the probabilities of moving on up to which at most a share `late` of the batches is late.

        All, (exits,), lie the same number of standard errors, which are above 0, from the estimates `moving`:
        who proves that each is lower proves the share.
        """
        high = 1 / float(errors.min())
        low = -high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.share(moving + middle * errors) <= late else (low, middle)
        return np.minimum.accumulate(np.clip(moving + low * errors, 0, 1))
