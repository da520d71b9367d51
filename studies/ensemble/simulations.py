"""Tasks of the study; each answers in plain JSON types. Rates are arithmetic on the tables of `worlds.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidnpu.scheduler import PlacementError
from fluidnpu.scheduler.placement import Problem, Rule, allocate, soft_greedy, worst_fit

from ..writing import significant
from .bench import algorithm_2, bench
from .worlds import ENSEMBLES, MADE_UP, Gpus, board_problem, draw_gpus, gpu_problem

SEEDS = 3  # as the paper, which gives medians
ROUNDS = (10, 20)
LONG_RUN = 65_536  # samples, so that the last batches do not hide what turns carry
NO_SHARE = 1e-6  # of a device: a network to which the plan gives no more is not there
OVERHEAD_SAMPLES, SEGMENT, CLASSES = 1024, 128, 1000
DRAWN_CELLS = {"IMN1": (1, 16), "IMN4": (4, 8), "IMN12": (3, 4, 16), "FOS14": (16,), "CIF36": (16,)}
TABLE_3 = {"IMN1": 1, "IMN4": 4, "IMN12": 12}  # devices: a GPU a network


def cell(ensemble: str, gpus: int, world: Gpus = MADE_UP) -> dict[str, Any] | None:
    """Table I: algorithm 1, algorithm 2 over seeds, the soft score; None where the networks do not fit."""
    problem = gpu_problem(ensemble, gpus, world)
    try:
        start = worst_fit(problem)
    except PlacementError:
        return None
    searches = [algorithm_2(problem, start, np.random.default_rng(seed)) for seed in range(SEEDS)]
    rates = sorted(search.rate for search in searches)
    middle = min(searches, key=lambda search: abs(search.rate - rates[SEEDS // 2]))
    slowest = int(problem.seconds[0, :, 0].argmax())
    return {
        "worst-fit": significant(bench(problem, start)),
        "bounded greedy": significant(rates[SEEDS // 2]),
        "rates": [significant(rate) for rate in rates],
        "spread": significant(100 * float(np.std(rates) / np.mean(rates))),
        "soft greedy": significant(bench(problem, soft_greedy(problem, start).matrix)),
        "benches": int(np.median([search.benches for search in searches])),
        "cpu used": bool((middle.matrix[-1] > 0).any()),
        "slowest": problem.networks[slowest],
        "instances": {name: int((middle.matrix[:, m] > 0).sum()) for m, name in enumerate(problem.networks)},
    }


def matrix(world: Gpus = MADE_UP) -> dict[str, list[int]]:
    """Table II: the matrix of IMN4 on four GPUs that algorithm 2 returns, a row a device."""
    problem = gpu_problem("IMN4", 4, world)
    matrix = algorithm_2(problem, worst_fit(problem), np.random.default_rng(0)).matrix
    return {
        "networks": list(problem.networks),
        **{d: row.tolist() for d, row in zip(problem.devices, matrix, strict=True)},
    }


def best_batch(ensemble: str, gpus: int, world: Gpus = MADE_UP) -> dict[str, Any]:
    """Table III: each network on a GPU of its own at its best batch, against algorithm 2 with 10 and 20
    rounds.
    """
    problem = gpu_problem(ensemble, gpus, world)
    alone = np.array(problem.batches) / problem.seconds[0]
    own = np.zeros((gpus + 1, len(problem.networks)), np.int64)
    for m in range(len(problem.networks)):
        own[m, m] = problem.batches[int(alone[m].argmax())]
    out: dict[str, Any] = {"best batch": significant(bench(problem, own))}
    start = worst_fit(problem)
    for rounds in ROUNDS:
        rates = [algorithm_2(problem, start, np.random.default_rng(seed), rounds).rate for seed in range(SEEDS)]
        out[f"bounded greedy, {rounds}"] = significant(float(np.median(rates)))
    return out


def simulate_drawn_world(seed: int) -> dict[str, Any]:
    """The tables on one drawn world, at fewer numbers of GPUs."""
    world = draw_gpus(seed)
    try:
        second = matrix(world)
    except PlacementError:
        second = None
    return {
        "table1": {
            f"{name} on {count}": cell(name, count, world) for name, counts in DRAWN_CELLS.items() for count in counts
        },
        "table2": {"IMN4 on 4": second},
        "table3": {f"{name} on {count}": best_batch(name, count, world) for name, count in TABLE_3.items()},
    }


def optimum(kind: str, ensemble: str, devices: int) -> dict[str, Any]:
    """The allocation with its bound, and what turns make of its matrix: endless, and of a finite set.

    Of a finite set, once by turns that conserve work, once by a deficit round robin of the planned shares.
    """
    problem = _make(kind)(ensemble, devices)
    allocation = allocate(problem)
    weights = problem.shared(allocation.matrix).weights
    used = np.where(weights > NO_SHARE, allocation.matrix, 0)
    return {
        "rate": significant(allocation.rate),
        "bound": significant(allocation.bound),
        "gap": significant(allocation.gap_pct),
        "endless turns": significant(problem.turns(used)),
        "turns": significant(bench(problem, used, samples=LONG_RUN)),
        "shares": significant(bench(problem, used, weights, LONG_RUN)),
        "method": allocation.method,
    }


def overhead() -> dict[str, bool]:
    """Section IV.A: if combining the answers of IMN12 takes at most 2 % of the time of its predictions.

    The least CPU time on this host of all-zero answers of 1,024 samples, segment by segment; predictions are
    those of algorithm 2 on 16 GPUs.
    """
    problem = gpu_problem("IMN12", 16)
    rate = algorithm_2(problem, worst_fit(problem), np.random.default_rng(0)).rate
    names, least = ENSEMBLES["IMN12"], float("inf")
    answers = np.zeros((SEGMENT, CLASSES), np.int16)
    for _ in range(3):
        tally = Rule(networks=names).tally(samples=OVERHEAD_SAMPLES, classes=CLASSES)
        began = time.process_time()
        for first in range(0, OVERHEAD_SAMPLES, SEGMENT):
            for name in names:
                tally.add(name, first, answers)
        least = min(least, time.process_time() - began)
    return {"kept": least <= 0.02 * OVERHEAD_SAMPLES / rate}


def _make(kind: str) -> Callable[[str, int], Problem]:
    return gpu_problem if kind == "GPU" else board_problem
