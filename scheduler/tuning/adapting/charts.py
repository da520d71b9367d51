"""Cumulative sums that tell when the share of an event has changed, with an exact distance of false alarms.

A chart adds a whole number for each observation, more than zero where the event is rarer than after the
change that it looks for, and never falls below zero. It alarms at its limit. Since its steps are whole
numbers, its mean run length is the solution of a linear system (Brook and Evans, 1972), not an estimate.

>>> chart = Chart.of(0.25, odds=2.0, distance=1000)
>>> round(chart.distance(0.25)), round(chart.distance(0.4))
(1020, 57)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ...errors import SchedulerError

FINEST = 12  # the largest step: finer steps come closer to the best chart, and cost time to make it
LEAST_SHARE = 0.02  # shares are kept off 0 and 1, where a chart would need thousands of states
MOST_ODDS = 20.0


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One-sided cumulative sum of a yes-or-no observation. `up` is added for a yes, `down` for a no."""

    up: int
    down: int
    limit: int

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, share: float, *, odds: float, distance: float) -> Chart:
        """Return the chart for a share of yes whose odds change by the factor `odds` (below 1: they fall).

        Its mean number of observations to a false alarm is at least `distance`. Raises SchedulerError.
        """
        if not 0 <= share <= 1 or not odds > 0 or odds == 1 or not distance >= 1:
            raise SchedulerError(
                f"a chart needs a share of 0..1, a factor of the odds other than 1 and a distance of at least 1, not "
                f"{share}, {odds} and {distance}"
            )
        share = min(max(share, LEAST_SHARE), 1 - LEAST_SHARE)
        if not 1 / MOST_ODDS <= odds <= MOST_ODDS:
            raise SchedulerError(f"the factor of the odds must lie in {1 / MOST_ODDS:g}..{MOST_ODDS:g}, not {odds:g}")
        after = share * odds / (1 - share + share * odds)
        yes, no = math.log(after / share), math.log((1 - after) / (1 - share))
        ratio = min(abs(yes), abs(no)) / max(abs(yes), abs(no))
        steps = Fraction(ratio).limit_denominator(max(FINEST, math.ceil(1 / ratio)))
        small, large = steps.numerator, steps.denominator
        up, down = (large, small) if abs(yes) > abs(no) else (small, large)
        up, down = (up, -down) if odds > 1 else (-up, down)
        top = max(up, down)
        while cls(up=up, down=down, limit=top).distance(share) < distance:
            top *= 2
        low = max(1, top // 2)
        while low < top:
            middle = (low + top) // 2
            if cls(up=up, down=down, limit=middle).distance(share) < distance:
                low = middle + 1
            else:
                top = middle
        return cls(up=up, down=down, limit=top)

    def next(self, level: int, yes: bool) -> int:
        """Return the level after an observation; at `limit` or above it alarms."""
        return max(0, level + (self.up if yes else self.down))

    def distance(self, share: float) -> float:
        """Return the mean number of observations from level 0 to the alarm where yes has this share."""
        states = np.arange(self.limit)
        rest = np.eye(self.limit)
        for step, chance in ((self.up, share), (self.down, 1 - share)):
            target = np.maximum(0, states + step)
            inside = target < self.limit
            np.subtract.at(rest, (states[inside], target[inside]), chance)
        try:
            return float(np.linalg.solve(rest, np.ones(self.limit))[0])
        except np.linalg.LinAlgError:
            return math.inf
