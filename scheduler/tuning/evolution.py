"""An evolution strategy with covariance matrix adaptation, which can be stopped and taken up again.

Hansen, The CMA Evolution Strategy: A Tutorial, with its default constants. `ask` gives the candidates of a
generation, `tell` takes their losses. `save` and `load` keep everything, the generator included, so a run
that was stopped ends with the same numbers as one that was not.

>>> search = Evolution(np.array([3.0, -2.0]), sigma=0.5, seed=1)
>>> for _ in range(60):
...     search.tell([float(x @ x) for x in search.ask()])
>>> bool(np.abs(search.mean).max() < 0.01)
True
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ..errors import SchedulerError

Floats = NDArray[np.float64]
_ARRAYS = ("mean", "_pc", "_ps", "_cov", "_basis", "_scale")


class Evolution:
    """The search around `mean` with steps of `sigma`; `generation` counts the generations told."""

    def __init__(self, mean: Floats, *, sigma: float, seed: int, population: int = 20) -> None:
        n, mu = len(mean), population // 2
        self.mean, self.sigma, self.generation, self.population = np.asarray(mean, float), sigma, 0, population
        self._rng = np.random.default_rng(seed)
        w = np.log(mu + 0.5) - np.log(np.arange(1, mu + 1))
        self._w = w / w.sum()
        eff = self._eff = 1 / np.sum(self._w**2)
        self._cc, self._cs = (4 + eff / n) / (n + 4 + 2 * eff / n), (eff + 2) / (n + eff + 5)
        self._c1 = 2 / ((n + 1.3) ** 2 + eff)
        self._cmu = min(1 - self._c1, 2 * (eff - 2 + 1 / eff) / ((n + 2) ** 2 + eff))
        self._damp = 1 + 2 * max(0, np.sqrt((eff - 1) / (n + 1)) - 1) + self._cs
        self._chi = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self._pc, self._ps = np.zeros(n), np.zeros(n)
        self._cov, self._basis, self._scale = np.eye(n), np.eye(n), np.ones(n)
        self._steps = np.zeros((population, n))

    def ask(self) -> list[Floats]:
        """Return the candidates of the next generation, vectors in the shape of `mean`."""
        if self.generation % 5 == 0:
            values, self._basis = np.linalg.eigh((self._cov + self._cov.T) / 2)
            self._scale = np.sqrt(np.maximum(values, 1e-16))
        drawn = self._rng.standard_normal((self.population, len(self.mean)))
        self._steps = (drawn * self._scale) @ self._basis.T
        return [self.mean + self.sigma * step for step in self._steps]

    def tell(self, losses: Sequence[float]) -> None:
        """Move towards the better half of the candidates."""
        n, g = len(self.mean), self.generation
        order = np.argsort(np.asarray(losses), kind="stable")[: len(self._w)]
        move = self._w @ self._steps[order]
        self.mean = self.mean + self.sigma * move
        turned = self._basis @ ((self._basis.T @ move) / self._scale)
        self._ps = (1 - self._cs) * self._ps + np.sqrt(self._cs * (2 - self._cs) * self._eff) * turned
        length = np.linalg.norm(self._ps)
        still = length / np.sqrt(1 - (1 - self._cs) ** (2 * g + 2)) < (1.4 + 2 / (n + 1)) * self._chi
        self._pc = (1 - self._cc) * self._pc + still * np.sqrt(self._cc * (2 - self._cc) * self._eff) * move
        rank_one = np.outer(self._pc, self._pc) + (1 - still) * self._cc * (2 - self._cc) * self._cov
        best = self._steps[order]
        spread = (best.T * self._w) @ best
        self._cov = (1 - self._c1 - self._cmu) * self._cov + self._c1 * rank_one + self._cmu * spread
        self.sigma *= float(np.exp((self._cs / self._damp) * (length / self._chi - 1)))
        self.generation += 1

    def save(self, path: Path, mark: str = "") -> None:
        """Write the search; `mark` says what it is for. The file is whole at any time."""
        facts = {
            "mark": mark,
            "sigma": self.sigma,
            "generation": self.generation,
            "population": self.population,
            "rng": self._rng.bit_generator.state,
        }
        part = path.with_name(path.name + ".part")
        with part.open("wb") as file:
            np.savez(file, facts=np.array(json.dumps(facts)), **{key: getattr(self, key) for key in _ARRAYS})
        part.replace(path)

    @classmethod
    def load(cls, path: Path, mark: str = "") -> Evolution:
        """Read a search that `save` wrote. Raises SchedulerError unless it is one for the same mark."""
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                facts = json.loads(str(file["facts"]))
                arrays = {key: np.asarray(file[key], np.float64) for key in _ARRAYS}
            search = cls(arrays["mean"], sigma=float(facts["sigma"]), seed=0, population=int(facts["population"]))
            search.generation = int(facts["generation"])
            search._rng.bit_generator.state = facts["rng"]
        except (OSError, KeyError, ValueError, TypeError, BadZipFile) as error:
            raise SchedulerError(f"'{path}' must be a search that fluidnpu tune left: {error}") from None
        if facts["mark"] != mark:
            raise SchedulerError(f"'{path}' must be a search for this table, load and goal, and it is for others")
        for key, value in arrays.items():
            setattr(search, key, value)
        return search
