"""Greedy searches over matrices: as published (algorithm 2), and with a score that never lies flat.

The published score is the slowest network's rate; where two networks tie, no single element lifts both and
the search stops. The soft score is the 16-norm of all networks' finishing times, of which every change of an
element moves some.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..options import Floats
from .allocation import Matrix, Problem

NORM = 16
MAX_ITER, MAX_NEIGHS = 10, 100
_LEAST = 1e-12  # a gain below it is rounding


@dataclass(frozen=True, kw_only=True)
class SearchOutcome:
    """The outcome of a search: the matrix, its rate under turns, and the matrices that were looked at."""

    matrix: Matrix
    rate: float
    benches: int


def neighbours(problem: Problem, matrix: Matrix) -> NDArray[np.int64]:
    """Give every valid change of one element as rows (changes, 3) of device, network and new batch.

    Valid: another value, no network left out, memory enough, and the device runs the network.

    >>> from .allocation import Problem
    >>> problem = Problem(
    ...     devices=("a",), networks=("x",), kinds=("npu",), batches=(1, 2), demand=(1.0,),
    ...     seconds=np.ones((1, 1, 2)), need=np.ones((1, 1, 2), np.int64), room=np.array([1]))
    >>> neighbours(problem, np.array([[1]])).tolist()
    [[0, 0, 2]]
    """
    held, needs = problem.held(matrix), problem.of_matrix(problem.need, matrix)
    alone = (matrix > 0).sum(axis=0) == 1
    rows = []
    for k, batch in enumerate(problem.batches):
        fits = held[:, None] - needs + problem.need[:, :, k] <= problem.room[:, None]
        able = fits & np.isfinite(problem.seconds[:, :, k]) & (matrix != batch)
        places = np.argwhere(able)
        rows.append(np.c_[places, np.full(len(places), batch)])
    removable = np.argwhere((matrix > 0) & ~alone[None, :])
    rows.append(np.c_[removable, np.zeros(len(removable), int)])
    return np.asarray(np.concatenate(rows), np.int64)


def changed_rates(problem: Problem, matrix: Matrix, changes: NDArray[np.int64]) -> Floats:
    """Rates of all networks under turns after each change, (changes, networks)."""
    took = problem.of_matrix(problem.seconds, matrix)
    rows = took.sum(axis=1)
    device, network, batch = changes.T
    places = np.array([problem.index.get(int(b), 0) for b in batch])
    new = np.where(batch > 0, problem.seconds[device, network, places], 0.0)
    after = rows[device] - took[device, network] + new
    per = matrix / np.where(rows > 0, rows, np.inf)[:, None]
    sizes = matrix[device].astype(float)
    sizes[np.arange(len(changes)), network] = batch
    return np.asarray(
        per.sum(axis=0)[None, :] - per[device] + sizes / np.where(after > 0, after, np.inf)[:, None], float
    )


def bounded_greedy(
    problem: Problem,
    start: Matrix,
    rng: np.random.Generator,
    *,
    max_iter: int = MAX_ITER,
    max_neighs: int = MAX_NEIGHS,
) -> SearchOutcome:
    """Algorithm 2: of at most `max_neighs` drawn neighbours take the best, while it is strictly better.

    `start` is (devices, networks). With more devices than networks by more than `max_iter`, that difference
    is the number of iterations.
    """
    matrix, rate, benches = start.copy(), problem.turns(start), 1
    for _ in range(max(max_iter, len(problem.devices) - len(problem.networks))):
        changes = neighbours(problem, matrix)
        if len(changes) > max_neighs:
            changes = changes[np.sort(rng.choice(len(changes), max_neighs, replace=False))]
        if not len(changes):
            break
        benches += len(changes)
        scores = (changed_rates(problem, matrix, changes) / problem.wants).min(axis=1)
        best = int(scores.argmax())
        if scores[best] <= rate * (1 + _LEAST):
            break
        device, network, batch = changes[best]
        matrix[device, network], rate = batch, float(scores[best])
    return SearchOutcome(matrix=matrix, rate=rate, benches=benches)


def soft_greedy(problem: Problem, start: Matrix, *, max_iter: int = 1000) -> SearchOutcome:
    """Take the neighbour of the best soft score while it improves; all neighbours, no randomness.

    `start` is (devices, networks). Of the matrices on the way, the one of most rate under turns is kept, so
    it is never below the start.
    """
    matrix, score, benches = start.copy(), _soft(problem.turn_rates(start)[None, :] / problem.wants)[0], 1
    best, rate = matrix.copy(), problem.turns(start)
    for _ in range(max_iter):
        changes = neighbours(problem, matrix)
        if not len(changes):
            break
        benches += len(changes)
        rates = changed_rates(problem, matrix, changes) / problem.wants
        scores = _soft(rates)
        chosen = int(scores.argmin())
        if scores[chosen] >= score * (1 - _LEAST):
            break
        device, network, batch = changes[chosen]
        matrix[device, network], score = batch, scores[chosen]
        if (here := float(rates[chosen].min())) > rate:
            best, rate = matrix.copy(), here
    return SearchOutcome(matrix=best, rate=rate, benches=benches)


def _soft(rates: Floats) -> Floats:
    """The norm of finishing times by row; scaled by the longest, so that no power overflows."""
    times = 1 / np.maximum(rates, 1e-300)
    longest = times.max(axis=1, keepdims=True)
    return np.asarray(longest[:, 0] * ((times / longest) ** NORM).sum(axis=1) ** (1 / NORM), float)
