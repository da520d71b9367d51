"""The paper's bench: a finite set of samples, and workers that give way where their network has none left.

Every network has one queue of all samples. A device serves its networks in turns, a batch each, and passes
those whose queue is empty; so the turns conserve work. The score is samples over the time of the last answer.
Under `weights` a device's turns are a deficit round robin by planned shares of its time, as our servers take.

>>> import numpy as np
>>> seconds, batches = np.array([[0.1, 0.3]]), np.array([[8, 8]])
>>> round(finite_rate(seconds, batches, 80), 3), round(80 / (10 * 0.1 + 10 * 0.3), 3)
(20.0, 20.0)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluidnpu.dse import Jit
from fluidnpu.scheduler.placement import Problem, neighbours

Matrix = NDArray[np.int64]
Floats = NDArray[np.float64]
PREDICTIONS, LEAST_SAMPLES = 16_384, 1024  # of the finite set: all networks' answers, and samples as in the paper
MAX_ITER, MAX_NEIGHS = 10, 100  # of the paper's search
LEAST = 1e-6  # weight of a network that a plan gives nothing
jit = Jit(__package__, error_model="numpy")


@jit.entry
def time_to_finish(
    seconds: Floats, batches: Matrix, samples: int, weights: Floats, by_shares: bool
) -> float:  # pragma: no cover - compiled
    """Give the time of the last answer; `seconds` of a whole batch by device and network.

    Arrays are (devices, networks).
    """
    devices, networks = batches.shape
    left = np.full(networks, samples)
    turn, deficit = np.zeros(devices, np.int64), np.zeros((devices, networks))
    free, end = np.zeros(devices), 0.0
    for d in range(devices):
        if not (batches[d] > 0).any():
            free[d] = np.inf
    while True:
        d = int(free.argmin())
        if free[d] == np.inf:
            return end
        chosen, least = -1, np.inf
        for k in range(networks):
            m = (turn[d] + k) % networks
            if batches[d, m] == 0 or left[m] == 0:
                deficit[d, m] = min(0.0, deficit[d, m])
                continue
            rounds = (seconds[d, m] - deficit[d, m]) / weights[d, m] if by_shares else float(k)
            if rounds < least:
                chosen, least = m, rounds
        if chosen < 0:
            free[d] = np.inf
            continue
        if by_shares:
            for m in range(networks):
                if batches[d, m] > 0 and left[m] > 0:
                    deficit[d, m] += max(0.0, least) * weights[d, m]
            deficit[d, chosen] -= seconds[d, chosen]
        else:
            turn[d] = chosen + 1
        left[chosen] -= min(left[chosen], batches[d, chosen])
        free[d] += seconds[d, chosen]
        end = max(end, free[d])


def finite_rate(seconds: Floats, batches: Matrix, samples: int, weights: Floats | None = None) -> float:
    """Give samples a second of the ensemble: turns, or planned shares where there are `weights`.

    Arrays are (devices, networks).
    """
    shares = np.maximum(np.zeros(seconds.shape) if weights is None else weights, LEAST)
    end = time_to_finish(seconds, batches, samples, shares, weights is not None)
    return samples / end if end else 0.0


def samples_of(problem: Problem) -> int:
    """Give the samples of the finite set: few networks have more, so that the last batches do not decide."""
    return max(LEAST_SAMPLES, PREDICTIONS // len(problem.networks))


def bench(problem: Problem, matrix: Matrix, weights: Floats | None = None, samples: int = 0) -> float:
    """Score a matrix (devices, networks) as the paper does; 0 where it may not be.

    `samples`: how many, by default as many as the paper has.
    """
    if not problem.fits(matrix):
        return 0.0
    return finite_rate(
        problem.of_matrix(problem.seconds, matrix).astype(float), matrix, samples or samples_of(problem), weights
    )


@dataclass(frozen=True, kw_only=True)
class Found:
    """The outcome of algorithm 2: the matrix, its score, and how many matrices were scored."""

    matrix: Matrix
    rate: float
    benches: int


def algorithm_2(problem: Problem, start: Matrix, rng: np.random.Generator, max_iter: int = MAX_ITER) -> Found:
    """Search as published, scored by the finite bench: the best of a hundred drawn neighbours a round.

    `start` is (devices, networks). With more devices than networks by more than `max_iter`, that difference
    is the number of rounds.
    """
    matrix, rate, benches, samples = start.copy(), bench(problem, start), 1, samples_of(problem)
    times = problem.of_matrix(problem.seconds, matrix).astype(float)
    for _ in range(max(max_iter, len(problem.devices) - len(problem.networks))):
        changes = neighbours(problem, matrix)
        if len(changes) > MAX_NEIGHS:
            changes = changes[np.sort(rng.choice(len(changes), MAX_NEIGHS, replace=False))]
        scores = np.zeros(len(changes))
        for index, (device, network, batch) in enumerate(changes):
            before = matrix[device, network], times[device, network]
            matrix[device, network] = batch
            times[device, network] = problem.seconds[device, network, problem.index[int(batch)]] if batch else 0.0
            scores[index] = finite_rate(times, matrix, samples)
            matrix[device, network], times[device, network] = before
        benches += len(changes)
        if not len(changes) or scores.max() <= rate * (1 + 1e-12):
            break
        device, network, batch = changes[int(scores.argmax())]
        matrix[device, network], rate = batch, float(scores.max())
        times[device, network] = problem.seconds[device, network, problem.index[int(batch)]] if batch else 0.0
    return Found(matrix=matrix, rate=rate, benches=benches)
