"""Search all chains of exits and thresholds with bounds, and prove how far from the best the found one is.

Best first over prefixes: a node is a prefix of a chain with the samples that are still there, so chains share
the work of their beginnings. All thresholds of one exit are tried at once, from histograms.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from .answers import Answers, Chain, ChainOutcome, outcome
from .candidates import CandidateTable
from .greedy import ROUNDING, Goal, greedy

Longs = NDArray[np.int64]
Doubles = NDArray[np.float64]
NODES = 20_000


@dataclass(frozen=True, kw_only=True)
class Proven:
    """The best chain found, and a bound on every chain that was not tried.

    `gap_pct`: by so many per cent of its average the found chain may be above the best of all; 0 is a proof.
    """

    chain: Chain
    outcome: ChainOutcome
    bound_ns: float
    nodes: int

    @property
    def gap_pct(self) -> float:
        """Per cent of the found average."""
        return 100 * max(0.0, 1 - self.bound_ns / self.outcome.average_ns)


@dataclass(frozen=True)
class _Node:
    """A prefix: samples that move on, when each batch is so far, what is settled already."""

    chain: Chain
    start: int  # the first segment not run
    movers: Longs  # indices of samples
    elapsed: Longs  # by batch
    paid: int  # ns of the samples that left
    right: float  # right answers among them


def prove(table: CandidateTable, answers: Answers, goal: Goal, nodes: int = NODES) -> Proven:
    """Find the chain of least average that meets the goal, looking at no more than `nodes` prefixes.

    It begins from the greedy chain. Samples behind the last full batch are left out. Raises SchedulerError.
    """
    full = len(answers) // goal.batch
    chain, best = greedy(table, answers, goal)
    if full:
        answers = answers[: full * goal.batch]
        best = outcome(table, answers, chain, goal.batch)
        if not goal.met(best):
            chain, best = greedy(table, answers, goal)
    search = _Search(table, answers, goal, chain, best)
    return search.run(nodes)


class _Search:
    def __init__(self, table: CandidateTable, answers: Answers, goal: Goal, chain: Chain, found: ChainOutcome) -> None:
        self.table, self.answers, self.goal = table, answers, goal
        self.batches = len(answers) // goal.batch
        self.batch_of = np.arange(len(answers)) // goal.batch
        self.wanted = goal.eta * float(answers.reference.sum())
        grid = np.array(goal.thresholds)
        self.passed = np.searchsorted(grid, answers.confidence[:, : table.exits], side="left")  # thresholds below
        self.right = answers.right.astype(np.float64)
        self.hope = np.flip(np.maximum.accumulate(np.flip(self.right, 1), 1), 1)  # right at this exit or a later one
        self.best, self.found = chain, found
        self.best_ns = found.average_ns * len(answers) if goal.met(found) else np.inf

    def run(self, nodes: int) -> Proven:
        order = count()
        root = _Node((), 0, np.arange(len(self.answers)), np.zeros(self.batches, np.int64), 0, 0)
        heap = [(0.0, next(order), root)]
        done = 0
        while heap and heap[0][0] < self.best_ns and done < nodes:
            _, _, node = heapq.heappop(heap)
            done += 1
            for exit in range(node.start, self.table.exits):
                for bound, child in self._children(node, exit):
                    if bound < self.best_ns:
                        heapq.heappush(heap, (bound, next(order), child))
        open_bound = min((bound for bound, _, _ in heap), default=np.inf)
        total = len(self.answers)
        return Proven(
            chain=self.best,
            outcome=self.found,
            bound_ns=min(open_bound, self.found.average_ns * total) / total,
            nodes=done,
        )

    def _children(self, node: _Node, exit: int) -> list[tuple[float, _Node]]:
        """Return the prefixes that continue to one exit, each with its bound; chains that end there are
        judged.
        """
        table, movers = self.table, node.movers
        values = len(self.goal.thresholds)
        here = np.bincount(self.batch_of[movers], minlength=self.batches)
        elapsed = node.elapsed + table.step(node.start, exit)[here]
        passed = self.passed[movers, exit]
        spread = np.zeros((self.batches, values + 1), np.int64)
        np.add.at(spread, (self.batch_of[movers], passed), 1)
        staying = np.cumsum(spread, axis=1)[:, :values]  # by batch and threshold
        paid = node.paid + ((here[:, None] - staying) * elapsed[:, None]).sum(axis=0)
        right = node.right + self._sums(passed, self.right[movers, exit], leaving=True)
        rest = table.step(exit + 1, table.exits)[staying]
        ended = paid + (staying * (elapsed[:, None] + rest)).sum(axis=0)
        ended_right = right + self._sums(passed, self.right[movers, -1], leaving=False)
        self._judge(node, exit, ended, ended_right)
        if exit + 1 >= table.exits:
            return []
        soonest, beyond = self._least_times(exit + 1)
        bounds = paid + (staying * (elapsed[:, None] + soonest[staying])).sum(axis=0)
        there = right + self._sums(passed, self.right[movers, exit + 1], leaving=False)
        bounds += np.maximum(0, np.ceil(self.wanted - ROUNDING - there)).astype(np.int64) * beyond
        hope = right + self._sums(passed, self.hope[movers, exit + 1], leaving=False)
        children: list[tuple[float, _Node]] = []
        seen = -1
        for value in range(values):
            left_over = int(staying[:, value].sum())
            if left_over in (0, seen) or hope[value] < self.wanted - ROUNDING or bounds[value] >= self.best_ns:
                continue
            seen = left_over
            chain = (*node.chain, (exit, self.goal.thresholds[value]))
            keep = movers[passed <= value]
            children.append(
                (float(bounds[value]), _Node(chain, exit + 1, keep, elapsed, int(paid[value]), float(right[value])))
            )
        return children

    def _least_times(self, exit: int) -> tuple[Longs, int]:
        """Return the least time to leave by batch, at this exit or later, and what a sample that leaves later
        than at this one pays beyond it at least.

        So many must leave later as right answers are missing if all leave here.
        """
        table = self.table
        ways = [table.step(exit, later) for later in range(exit, table.exits + 1)]
        soonest = np.minimum.reduce(ways)
        if len(ways) == 1:
            return soonest, 0
        skipped = (np.minimum.reduce(ways[1:]) - soonest)[1:].min()
        passed = (ways[0] - soonest)[1:].min() + min(
            int(table.step(exit + 1, later)[1]) for later in range(exit + 1, table.exits + 1)
        )
        return soonest, int(max(0, min(skipped, passed)))

    def _sums(self, passed: Longs, values: Doubles, *, leaving: bool) -> Doubles:
        """Return the sum of values over samples that leave, or stay, at each threshold."""
        sums = np.bincount(passed, weights=values, minlength=len(self.goal.thresholds) + 1)
        staying = np.cumsum(sums)[: len(self.goal.thresholds)]
        return np.asarray(sums.sum() - staying if leaving else staying)

    def _judge(self, node: _Node, exit: int, ended: Longs, right: Doubles) -> None:
        """Keep the best chain that ends behind this exit, if it meets the goal."""
        for value in np.argsort(ended, kind="stable"):
            if ended[value] >= self.best_ns:
                return
            if right[value] < self.wanted - ROUNDING:
                continue
            chain = (*node.chain, (exit, self.goal.thresholds[int(value)]))
            reached = outcome(self.table, self.answers, chain, self.goal.batch)
            if self.goal.met(reached):
                self.best, self.found, self.best_ns = chain, reached, float(ended[value])
                return
