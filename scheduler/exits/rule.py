"""A rule of one's own: it decides at an exit whether a sample leaves there. `Threshold` is an example.

The usual way to say when samples leave is a text, a criterion (`criteria.py`). What that cannot say is one
class with a method `leaves`. The same object decides in the simulator, through
`World(exits=RuledExits(rule=...))`, and on a device, through `host.Runtime(..., rule=...)`. The last exit is
never asked: every sample leaves there.

>>> rule = Threshold([0.8, 0.8])
>>> rule.leaves(Seen(exit=0, elapsed_ns=5, slack_ns=95, confidence=0.9))
True
>>> rule.exits([[0.9, 0.1], [0.2, 0.3]]).tolist()
[0, 1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fluidnpu.dse import Design
from fluidnpu.models.exits import decide_exits, exceeds_threshold

from ..errors import SchedulerError


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """The facts about one sample at one exit. A fact that is not known there is None.

    `elapsed_ns` runs from arrival to the end of the stage, `slack_ns` from there to the deadline; it is
    infinite in estimates for an NPU that has nothing else to do.
    `confidence` is softmax top-1; `macs` and `energy_nj` are the costs of all stages up to this exit.
    """

    exit: int
    elapsed_ns: int
    slack_ns: float
    confidence: float | None = None
    macs: int | None = None
    energy_nj: float | None = None


class ExitRule(Protocol):
    """Decides whether a sample leaves at an exit.

    It must not keep state: simulator and device ask it in any order.
    """

    def leaves(self, seen: Seen) -> bool:
        """Return True when the sample leaves at `seen.exit`."""


class Threshold:
    """The shipped rule: a sample leaves when its confidence exceeds the threshold of the exit.

    `thresholds`: one for every exit but the last; one for the last is not used.
    """

    def __init__(self, thresholds: ArrayLike) -> None:
        self.thresholds: tuple[float, ...] = tuple(np.asarray(thresholds, float).reshape(-1).tolist())
        if np.isnan(self.thresholds).any():
            raise SchedulerError(f"thresholds must be numbers, not {list(self.thresholds)}")

    def leaves(self, seen: Seen) -> bool:
        """Compare the confidence. Raises SchedulerError where none is known."""
        if seen.confidence is None:
            raise SchedulerError(f"a threshold needs the confidence at exit {seen.exit}, and none is known")
        return bool(exceeds_threshold(seen.confidence, self.thresholds[seen.exit]))

    def exits(self, confidences: ArrayLike) -> NDArray[np.int64]:
        """Return the first exit per sample, (N,), whose confidence exceeds its threshold, else the last exit.

        `confidences`: (N, exits), softmax top-1 in 0..1. Raises SchedulerError.
        """
        table = np.asarray(confidences, float)
        if table.ndim != 2 or table.shape[1] - len(self.thresholds) not in (0, 1):
            raise SchedulerError(
                "confidences must be samples x exits with one threshold for every exit but the last, "
                f"not {table.shape} and {(len(self.thresholds),)}"
            )
        if not np.all((table >= 0) & (table <= 1)):
            raise SchedulerError("confidences must lie in 0..1")
        return decide_exits(list(table.T), self.thresholds)


@dataclass(frozen=True, kw_only=True)
class StageCosts:
    """The costs of each stage for one sample, as far as they are known; empty where they are not."""

    macs: tuple[int, ...] = ()
    energy_nj: tuple[float, ...] = ()

    def up_to(self, exit: int) -> tuple[int | None, float | None]:
        """Return MACs and energy of stages 0..exit; None for what is not known."""
        macs, energy_nj = self.macs[: exit + 1], self.energy_nj[: exit + 1]
        return sum(macs) if macs else None, sum(energy_nj) if energy_nj else None

    @classmethod
    def of(cls, design: Design) -> StageCosts:
        """Return the MACs of a design's stages."""
        macs = [0] * design.stages
        for layer in design.layers:
            macs[layer.stage] += layer.macs
        return cls(macs=tuple(macs))
