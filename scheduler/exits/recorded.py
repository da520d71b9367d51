"""Recorded confidences of labelled samples at every exit, for movable thresholds and real accuracy.

>>> data = Recorded(confidences=[[0.9, 0.99], [0.4, 0.7]], correct=[[True, True], [False, True]])
>>> samples, exits = data.draw([0.8, 0.0], 4, np.random.default_rng(1))
>>> samples.tolist(), exits.tolist()
([0, 1, 1, 1], [0, 1, 1, 1])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SchedulerError
from ..simulation.schedule import Schedule, Tally
from .rule import Threshold


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The top-1 confidence and correctness of N samples at each exit, both samples x exits."""

    confidences: ArrayLike
    correct: ArrayLike

    def __post_init__(self) -> None:
        confidences, correct = np.asarray(self.confidences, float), np.asarray(self.correct, bool)
        if confidences.ndim != 2 or not confidences.size or confidences.shape != correct.shape:
            raise SchedulerError(
                f"recorded confidences and correctness must both be samples x exits, not {confidences.shape} and {correct.shape}"
            )
        object.__setattr__(self, "confidences", confidences)
        object.__setattr__(self, "correct", correct)

    def exits(self, thresholds: ArrayLike) -> NDArray[np.int64]:
        """Return the exit (N,) of every recorded sample with these thresholds."""
        return Threshold(thresholds).exits(self.confidences)

    def exit_rates(self, thresholds: ArrayLike) -> tuple[float, ...]:
        """Return the share of recorded samples that leave at each exit."""
        stages = np.asarray(self.correct).shape[1]
        counts = np.bincount(self.exits(thresholds), minlength=stages)
        return tuple(float(x) for x in counts / counts.sum())

    @property
    def accuracy(self) -> tuple[float, ...]:
        """The share of right answers of each exit, over all recorded samples."""
        return tuple(float(share) for share in np.asarray(self.correct).mean(axis=0))

    @property
    def samples(self) -> int:
        """The number of recorded samples."""
        return len(np.asarray(self.correct))

    def draw_samples(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the indices (count,) of `count` recorded samples with replacement."""
        return rng.integers(self.samples, size=count)

    def draw(
        self, thresholds: ArrayLike, count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw `count` recorded samples with replacement; return (samples, exits)."""
        samples = self.draw_samples(count, rng)
        return samples, self.exits(thresholds)[samples]

    def accuracy_pct(self, schedule: Schedule | Tally, samples: NDArray[np.int64]) -> float:
        """Return the share of right answers, where request i was sample `samples[i]`, (requests,).

        Each is answered by the exit it left at; a shed request is not right. Raises SchedulerError.
        """
        return 100 * float(np.mean(self._right(samples, np.array(schedule.exit))))

    def patient_accuracy_pct(self, thresholds: ArrayLike, samples: NDArray[np.int64]) -> float:
        """Return the share of right answers to `samples` (requests,) when each leaves at its own exit."""
        return self.accuracy_pct_at(self.exits(thresholds), samples)

    def accuracy_pct_at(self, exits: NDArray[np.int64], samples: NDArray[np.int64]) -> float:
        """Return the share of right answers when recorded sample k is answered by `exits[k]`.

        `exits` is (N,), `samples` (requests,).
        """
        return 100 * float(np.mean(self._right(samples, exits[samples])))

    def _right(self, samples: NDArray[np.int64], exits: NDArray[np.int64]) -> NDArray[Any]:
        if len(samples) != len(exits):
            raise SchedulerError(f"there must be one sample for each of {len(exits)} requests, not {len(samples)}")
        return np.where(exits >= 0, np.asarray(self.correct)[samples, exits], False)
