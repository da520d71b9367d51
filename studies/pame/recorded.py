"""Recorded answers of the study's networks, made by `record.py` and, of maps, by `record_maps.py`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from fluidnpu.scheduler.tuning import Answers

LEVELS = 65535  # that a share of 0..1 is recorded in
CHECKS = ("confidence", "certainty", "margin")
MAP_CHECKS = ("count 0.25", "count 0.5", "count 0.75", "mean")  # of principal values
EASY = (1, 5, 7, 8, 9)  # trouser, sandal, sneaker, bag, boot


@dataclass(frozen=True, kw_only=True, eq=False)
class PameRecording:
    """Answers to images nothing learned from: (N, K + 1); the single-exit reference and labels: (N,)."""

    labels: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int64]
    reference: npt.NDArray[np.int64]
    shares: dict[str, npt.NDArray[np.float64]]  # of 0..1, by the name of the check
    learned: int

    def answers(self, check: str = "confidence", *, own_last: bool = False) -> Answers:
        """Return answers under one check, against the reference or against the network's own last exit."""
        right = self.classes == self.labels[:, None]
        reference = right[:, -1] if own_last else self.reference == self.labels
        return Answers(confidence=self.shares[check], right=right, reference=reference)


@lru_cache
def recording(name: str) -> PameRecording:
    """Load the recording of that name."""
    file = resources.files(__package__).joinpath("data").joinpath(f"{name}.npz")
    with resources.as_file(file) as path, np.load(path, allow_pickle=False) as archive:
        return PameRecording(
            labels=archive["labels"].astype(np.int64),
            classes=archive["classes"].astype(np.int64),
            reference=archive["reference"].astype(np.int64),
            shares={check: archive[check].astype(np.float64) / LEVELS for check in CHECKS},
            learned=int(archive["learned"][0]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class MapRecording:
    """Scores (N, K + 1) of exits that answer with maps, on composited pictures never seen.

    `reference` has the single-exit reference's (N,), `sure` the surenesses by the name of the check.
    """

    score: npt.NDArray[np.float64]
    reference: npt.NDArray[np.float64]
    sure: dict[str, npt.NDArray[np.float64]]
    learned: int

    def answers(self, check: str = "count 0.5", *, reference: bool = False) -> Answers:
        """Return answers under one check, against the network's own last exit or against the `reference`."""
        return Answers(
            confidence=self.sure[check],
            right=self.score,
            reference=self.reference if reference else self.score[:, -1],
        )


@lru_cache
def map_recording(name: str) -> MapRecording:
    """Load the recording of a dense task."""
    file = resources.files(__package__).joinpath("data").joinpath(f"{name}.npz")
    with resources.as_file(file) as path, np.load(path, allow_pickle=False) as archive:
        return MapRecording(
            score=archive["score"].astype(np.float64) / LEVELS,
            reference=archive["reference"].astype(np.float64) / LEVELS,
            sure={check: archive[check].astype(np.float64) / LEVELS for check in MAP_CHECKS},
            learned=int(archive["learned"][0]),
        )


@lru_cache
def shuffle_recording(name: str) -> PameRecording:
    """Return the recording in a fixed random order, so that every part is like the whole."""
    stored = recording(name)
    order = np.random.default_rng(0).permutation(len(stored.labels))
    return PameRecording(
        labels=stored.labels[order],
        classes=stored.classes[order],
        reference=stored.reference[order],
        shares={check: values[order] for check, values in stored.shares.items()},
        learned=stored.learned,
    )
