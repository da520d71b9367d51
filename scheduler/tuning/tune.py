"""Tuning of `guarded`'s weights on one table and load, generation by generation.

The search starts from the weights that `selection.py` chose. A candidate's loss is the dial's, and from dial
1 on what p99 and the average exceed of `fluid`'s counts tenfold. Streams of tuning begin with seed TUNING and
those that judge the result with seed HELD_OUT, so the result is not judged on what it was tuned on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comparison.engines import HERE, Engine, in_order
from ..policies.guarded import with_weights
from ..policies.selection import Choice, Trial, choose, run_trials
from ..policies.setting import Setting
from ..policies.weights import GOALS, KNOTS, Weights, candidates, fingerprint
from .evolution import Evolution

TUNING, HELD_OUT = 1000, 5000  # first seeds
STREAMS, REQUESTS = 4, 4000  # of a candidate
JUDGED = (12, 8000)  # streams and requests that judge the result
SIGMA = 0.08
MARGIN = 0.98  # of fluid's p99 and average; what exceeds it counts tenfold
Floats = NDArray[np.float64]


class Tuning:
    """The search for one setting and place of the dial; the file `state` keeps it between generations.

    `engine` serves the candidates of a generation, and changes no number. Raises SchedulerError where the
    file is for something else.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        dial: float = 1.0,
        seed: int = 0,
        state: Path | None = None,
        engine: Engine = HERE,
    ) -> None:
        self.setting, self.dial, self.state, self.engine = setting, dial, state, engine
        self.start: Choice = choose(setting, with_weights, "guarded", dial=dial)
        first = self.start.weights or candidates(setting)["mean of balanced"]
        facts = (
            setting.latency.ns,
            setting.exit_rates,
            setting.rate_per_s,
            setting.slo_ns,
            setting.traffic,
            dial,
            seed,
        )
        self.mark = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
        self.first = first
        if state is not None and state.exists():
            self.search = Evolution.load(state, self.mark)
        else:
            self.search = Evolution(to_vector(first), sigma=SIGMA, seed=seed, population=16)

    def run(self, generations: int, tell: Callable[[int, int], None] | None = None) -> None:
        """Search up to `generations` in all, keeping the state after each."""
        while self.search.generation < generations:
            self.search.tell(in_order(self.engine, [partial(self.loss, x) for x in self.search.ask()]))
            if self.state is not None:
                self.search.save(self.state, self.mark)
            if tell is not None:
                tell(self.search.generation, generations)

    def loss(self, x: Floats) -> float:
        """Return the loss of a candidate (weights,) on the streams of tuning."""
        trial = self._trials({"x": to_weights(x)}, TUNING, STREAMS, REQUESTS)[-1]
        _, average, p99 = trial.ratios
        beyond = max(0.0, float(p99) - MARGIN) + max(0.0, float(average) - MARGIN)
        return trial.loss(self.dial) + (10 * beyond if self.dial >= 1 else 0.0)

    def judged(self) -> tuple[Choice, dict[str, Trial]]:
        """Return the best of tuned weights, those it started from, and `fluid`, and what each reached.

        They are judged on streams of their own. Tuned weights are taken only where they are better than the
        start, and no worse than `fluid` as `selection.py` has it.
        """
        tuned = to_weights(np.round(self.search.mean, 4))
        trials = {t.name: t for t in self._trials({"start": self.first, "tuned": tuned}, HELD_OUT, *JUDGED)}
        able = [t for t in trials.values() if t.no_worse] if self.dial >= 1 else list(trials.values())
        best = min(able, key=lambda t: t.loss(self.dial))
        violations, average, p99 = map(float, best.ratios)
        if best.name == "start":
            return self.start, trials
        origin = (
            f"tuned for this table in {self.search.generation} generations"
            if best.weights
            else "fluid, which none beats"
        )
        return dataclasses.replace(
            self.start,
            weights=best.weights,
            origin=origin,
            ratios=(violations, average, p99),
            plain="" if best.weights else best.name,
        ), trials

    def _trials(self, sets: dict[str, Weights], seed: int, streams: int, requests: int) -> list[Trial]:
        return run_trials(self.setting, with_weights, sets, False, streams, requests, seed=seed)


def to_vector(weights: Weights) -> Floats:
    """Return weights as one vector (weights,).

    >>> len(to_vector(to_weights(np.zeros(3 * len(KNOTS) + 1))))
    46
    """
    return np.concatenate([*map(np.array, weights.v), np.array(weights.done), [weights.on_time]])


def to_weights(x: Floats) -> Weights:
    """Return a vector (weights,) as weights."""
    *rows, done = (tuple(map(float, row)) for row in x[:-1].reshape(-1, len(KNOTS)))
    return Weights(v=tuple(rows), done=done, on_time=float(x[-1]))


def weight_file(setting: Setting, dial: float, weights: Weights, anytime: float = 0.0) -> str:
    """Return the text of a file of weights."""
    body: dict[str, Any] = {"goal": GOALS[round(dial)], "fingerprint": fingerprint(setting), "anytime": anytime}
    body |= {"knots": KNOTS, "v": weights.v, "done": weights.done, "on_time": weights.on_time}
    return json.dumps(body, indent=1) + "\n"
