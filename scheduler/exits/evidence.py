"""Evidence that a mean of bounded outcomes lies above a value: e-values, for selection and while serving.

Outcomes lie in 0..1. A gambler who does not know the next one bets on it at odds that are fair if the mean is
m: his wealth is multiplied by (1 + s x) / (1 + s m), for a stake s that he chose before. If the mean is at
most m his wealth has a mean of at most 1, so it ever reaches 1 / risk with a probability of `risk` at most
(Ville's inequality): that much wealth is a proof. No distribution is assumed, and no number of outcomes.
Waudby-Smith and Ramdas (2024) have the theory.

Two gamblers are here. `RunningMean` has no end: it holds at every moment, and evidence of several boards adds
up. `proven_above` knows how many outcomes come, and stakes what an option on winning at the end is hedged
with, so it needs hardly more of them than a test that assumes a normal distribution.

>>> seen = RunningMean()
>>> seen.update(1.0, times=980)
>>> seen.update(0.0, times=20)
>>> round(seen.below(risk=0.05), 3), seen.log_evidence(0.95) > math.log(1 / 0.05)
(0.963, True)
>>> proven_above(np.repeat([1.0, 0.0], [299, 1]), mean=0.98, risk=0.05)
True
>>> fixed_sequence([1, 2, 3, 1], lambda value: value < 3)
[1, 2]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import SchedulerError

STAKES = np.geomspace(0.05, 400, 16)  # s of the running gamblers, with equal parts of the wealth
ROUNDS = 40  # of bisection
BOLD = 0.6  # of the wealth, lost with an outcome of 0: bolder play is ruined where losses are rare
BOLDEST = 0.98
RUIN = 1e-12  # of the wealth that is wanted
ROUNDING = 1e-9
NORMAL = NormalDist()

Hypothesis = TypeVar("Hypothesis")


@dataclass(eq=False)
class RunningMean:
    """The evidence of outcomes 0..1 so far; valid at every moment, for ever.

    Where the mean drifts, `below` speaks of the average of the means so far: outcome by outcome, what was to
    be expected before it came. `grown` (stakes,) has the sum of log(1 + s x). Raises SchedulerError.
    """

    count: int = 0
    grown: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(STAKES)))

    def update(self, outcome: float, times: int = 1) -> None:
        """Count an outcome in 0..1, or several that are equal. Raises SchedulerError."""
        if not 0 <= outcome <= 1:
            raise SchedulerError(f"an outcome must lie in 0..1, not {outcome:g}")
        self.count += times
        self.grown = self.grown + times * np.log1p(STAKES * outcome)

    def __add__(self, other: RunningMean) -> RunningMean:
        """Join what was seen apart, as on several boards; the order does not matter."""
        return RunningMean(self.count + other.count, self.grown + other.grown)

    def log_evidence(self, mean: float) -> float:
        """Return the logarithm of the e-value against "the mean is at most this"."""
        wealth = self.grown - self.count * np.log1p(STAKES * mean)
        most = float(wealth.max())
        return most + math.log(float(np.exp(wealth - most).mean()))

    def below(self, risk: float) -> float:
        """Return a value that the mean exceeds, at all moments together with probability 1 - risk."""
        check_risk(risk)
        low, high, wanted = 0.0, 1.0, -math.log(risk)
        if self.log_evidence(low) < wanted:
            return 0.0
        for _ in range(ROUNDS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.log_evidence(middle) >= wanted else (low, middle)
        return low


def check_risk(risk: float) -> None:
    """Refuse what is no risk. Raises SchedulerError."""
    if not 0 < risk < 1:
        raise SchedulerError(f"a risk must lie above 0 and below 100 %, not {100 * risk:g} %")


def proven_above(outcomes: NDArray[Any], *, mean: float, risk: float, spread: float = 0.5, best: float = 1.0) -> bool:
    """Return True where these outcomes (N,) of 0..1, in random order, prove a mean above this one.

    The probability of a True by mistake is `risk` at most, whatever the distribution. The stake is that of an
    option which pays 1 / risk if the sum ends high enough, by the wealth, the outcomes that are left, and the
    spread so far; more than `BOLD` of the wealth is at stake only where too few outcomes come for less.
    `spread` is a guess of the outcomes' root mean square distance from `mean`, and `best` an outcome without
    loss, both made before they are seen. Raises SchedulerError.
    """
    check_risk(risk)
    if not 0 < mean < best:
        return mean <= 0
    left = len(outcomes)
    enough = math.expm1(-math.log(risk) / max(1, left)) * mean / (best - mean)  # if no outcome brings a loss
    most = min(max(BOLD, enough), BOLDEST) / mean
    wealth, squares = risk, spread * spread  # wealth in parts of what is wanted
    for seen, outcome in enumerate(outcomes.tolist(), 1):
        chance = NORMAL.pdf(NORMAL.inv_cdf(wealth)) / wealth
        gain = outcome - mean
        wealth *= 1 + gain * min(most, chance / math.sqrt(squares / seen * left))
        if wealth >= 1 - ROUNDING:
            return True
        if wealth < RUIN:
            return False
        squares += gain * gain
        left -= 1
    return False


@dataclass(frozen=True, eq=False)
class Kept:
    """The claim that answers keep more than `share` of the right answers of others, or of their scores.

    The mean of right - share * (the others are right) is above 0 exactly then; it lies in -share..1, and
    `outcomes` writes it as 0..1. Raises SchedulerError.
    """

    share: float

    def __post_init__(self) -> None:
        if not self.share >= 0:
            raise SchedulerError(f"the share of right answers to keep must be at least 0, not {self.share:g}")

    @property
    def mean(self) -> float:
        """The mean that outcomes must exceed."""
        return self.share / (1 + self.share)

    @property
    def best(self) -> float:
        """The outcome of a sample that both answer rightly."""
        return 1 / (1 + self.share)

    def outcomes(self, ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.float64]:
        """Return the outcomes (N,) of paired answers (N,): right and wrong, or scores of 0..1."""
        return np.asarray((ours - self.share * theirs + self.share) / (1 + self.share), np.float64)


def spread_of(outcomes: NDArray[Any], mean: float) -> float:
    """Return the spread that outcomes (n,) seen before let expect, as if one more of them had been 0."""
    return math.sqrt((float(np.square(outcomes - mean).sum()) + mean * mean) / (len(outcomes) + 1))


def least_outcomes(*, mean: float, risk: float, best: float = 1.0) -> int:
    """Return the outcomes that a proof needs at least: if all of them are `best`.

    >>> least_outcomes(mean=0.98, risk=0.05)
    152
    """
    return math.ceil(-math.log(risk) / math.log1p(BOLDEST * (best - mean) / mean)) if best > mean else 1


def fixed_sequence(hypotheses: Iterable[Hypothesis], proven: Callable[[Hypothesis], bool]) -> list[Hypothesis]:
    """Return the hypotheses before the first that is not proven.

    Each is tested at the whole risk: the first that is wrong passes with that probability, and nothing behind
    it is asked unless it passed. So all that are returned hold together with probability 1 - risk, if their
    order was fixed before the outcomes were seen.
    """
    passed: list[Hypothesis] = []
    for hypothese in hypotheses:
        if not proven(hypothese):
            break
        passed.append(hypothese)
    return passed
