"""Tasks of the study; each answers in plain JSON types. Rates are arithmetic on the tables of `worlds.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fluidnpu.scheduler import PlacementError
from fluidnpu.scheduler.placement import Problem, allocate, bounded_greedy, soft_greedy, worst_fit

from ..writing import significant
from .worlds import board_problem, gpu_problem

SEEDS = 5


def cell(kind: str, ensemble: str, devices: int) -> dict[str, Any] | None:
    """Table I: algorithm 1, algorithm 2 over seeds, the soft score; None where the networks do not fit."""
    problem = _make(kind)(ensemble, devices)
    try:
        start = worst_fit(problem)
    except PlacementError:
        return None
    found = [bounded_greedy(problem, start, np.random.default_rng(seed)) for seed in range(SEEDS)]
    rates = sorted(one.rate for one in found)
    soft = soft_greedy(problem, start)
    best = max(found, key=lambda one: one.rate)
    return {
        "worst-fit": significant(problem.turns(start)),
        "bounded greedy": significant(rates[SEEDS // 2]),
        "spread": significant(100 * float(np.std(rates) / np.mean(rates))),
        "soft greedy": significant(soft.rate),
        "benches": int(np.median([one.benches for one in found])),
        "cpu used": bool((best.matrix[-1] > 0).any()),
        "instances": {name: int((best.matrix[:, m] > 0).sum()) for m, name in enumerate(problem.networks)},
    }


def optimum(kind: str, ensemble: str, devices: int) -> dict[str, Any]:
    """The allocation with its bound, and what equal turns make of its matrix."""
    problem = _make(kind)(ensemble, devices)
    found = allocate(problem)
    return {
        "rate": significant(found.rate),
        "bound": significant(found.bound),
        "gap": significant(found.gap_pct),
        "turns": significant(problem.turns(found.matrix)),
        "method": found.method,
    }


def best_batch(ensemble: str, gpus: int) -> dict[str, Any]:
    """Table III: each network on a GPU of its own at its best batch, against algorithm 2 with 10 and 20
    rounds.
    """
    problem = gpu_problem(ensemble, gpus)
    rates = [max(b / problem.seconds[0, m, k] for k, b in enumerate(problem.batches)) for m in range(gpus)]
    start = worst_fit(problem)
    out: dict[str, Any] = {"best batch": significant(min(rates))}
    for rounds in (10, 20):
        found = [
            bounded_greedy(problem, start, np.random.default_rng(seed), max_iter=rounds).rate for seed in range(SEEDS)
        ]
        out[f"bounded greedy, {rounds}"] = significant(float(np.median(found)))
    return out


def _make(kind: str) -> Callable[[str, int], Problem]:
    return gpu_problem if kind == "GPU" else board_problem
