"""A certificate that runs while it serves: how many answers differ from the last exit's, at most.

Each answer that leaves early runs on with a known probability, its `share`, by a coin that nobody else sees.
L is 1 where the answer differs from the last exit's, and S is the coin. For a number z in 0..1 the mean of
(1 - z)^(S L) is (1 - share z)^L, whatever L is, so the product of their ratios is a martingale that begins at
1. After T differences of which D were seen it is (1 - z)^D / (1 - share z)^T. By Ville's inequality a mixture
over z reaches 1 / risk with a probability of `risk` at most, so T stays below the number at which it would:
at all moments together, and for any images in any order. Only the coins are random.

>>> promise = Promise.of("eta=0.95,risk=5%,share=20%")
>>> [most_lost(seen, promise) for seen in (0, 1, 10)]
[16, 35, 108]
>>> tally = CertificateTally(promise)
>>> tally.answer(1000, early=400)
>>> tally.lost, tally.kept
(16, 0.984)
>>> tally.draw(7)
>>> tally.answer(20, early=20)
>>> tally.settle(7, True)
[(1000, True)]
>>> tally.lost, tally.differing
(35, 1)
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import SchedulerError
from .evidence import check_risk

STAKES = 0.8 ** np.arange(38)  # z; the more differences are seen, the smaller is the best one
_PARTS = np.arange(1.0, len(STAKES) + 1) ** -1.5
WEIGHTS = _PARTS / _PARTS.sum()  # of the mixture over z; most for 1, so that no difference proves much
DISTANCE = 100_000  # answers between two false resets, at least, where as much is lost as may be
FACTORS = (2.0, 4.0, 8.0)  # by which losses have grown, as a reset looks for
KEYS = ("eta", "risk", "share")


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The promise: at least `eta` of the answers are the last exit's, at every moment. Raises SchedulerError.

    It is broken with a probability of `risk` at most. `share`: of early leavers, those that run on.
    """

    eta: float
    risk: float = 0.05
    share: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.eta < 1:
            raise SchedulerError(f"eta must lie above 0 and below 1, not {self.eta:g}")
        check_risk(self.risk)
        if not 0 < self.share <= 1:
            raise SchedulerError(f"the share must lie above 0 and up to 100 %, not {100 * self.share:g} %")

    @classmethod
    def of(cls, text: str) -> Promise:
        """Read a promise such as eta=0.99,risk=0.05,share=1%. Raises SchedulerError."""
        values: dict[str, float] = {}
        for part in text.split(","):
            key, _, value = (piece.strip() for piece in part.partition("="))
            try:
                if key not in KEYS or key in values:
                    raise ValueError
                values[key] = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
            except ValueError:
                raise SchedulerError(
                    f"a certificate must be asked for as eta=0.99,risk=0.05,share=1%, not '{part:.60}' in '{text:.60}'"
                ) from None
        if "eta" not in values:
            raise SchedulerError(
                f"a certificate must name eta, the share of answers to keep, and '{text:.60}' does not"
            )
        return cls(**values)

    @property
    def may_lose(self) -> float:
        """The share of answers that may differ."""
        return 1 - self.eta


@lru_cache(maxsize=1 << 16)
def most_lost(seen: int, promise: Promise) -> int:
    """Return the differences there are at most, where `seen` were seen among those that ran on."""
    share, wanted = promise.share, -math.log(promise.risk)
    if share == 1:
        return seen
    with np.errstate(divide="ignore"):
        kept = np.log(WEIGHTS) + (seen * np.log1p(-STAKES) if seen else 0.0)  # 0^0 is 1
    slope = -np.log1p(-share * STAKES)

    def reached(lost: int) -> bool:
        terms = kept + lost * slope
        most = float(terms.max())
        return most + math.log(float(np.exp(terms - most).sum())) >= wanted

    high = max(1, seen)
    while not reached(high):
        high *= 2
    low = seen
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return low


@dataclass(slots=True)
class _Drawn:
    """A leaver that runs on: early leavers and answers before it, and whether it differs, once known."""

    id: int
    early: int
    answers: int
    differs: bool | None = None


class CertificateTally:
    """Counts of answers, and how many of them differ from the last exit's at most (`lost`).

    Evidence enters in the order of the coins: what left after the oldest sample under way is counted as lost
    until that one arrives. `lost` grows by no more than what leaves, so a bound that held once is used on.
    """

    def __init__(self, promise: Promise) -> None:
        self.promise = promise
        self.answers = self.early = self.drawn = 0
        self.differing = 0  # seen, among those drawn before the oldest that is under way
        self.lost = 0
        self._open: deque[_Drawn] = deque()

    @property
    def kept(self) -> float:
        """The share of answers that are the last exit's, at least."""
        return 1 - self.lost / self.answers if self.answers else 1.0

    @property
    def estimate(self) -> float:
        """An unbiased estimate of that share."""
        return 1 - self.differing / self.promise.share / self.answers if self.answers else 1.0

    @property
    def unsettled(self) -> int:
        """Early leavers since the oldest that is under way, itself included."""
        return self.early - self._open[0].early if self._open else 0

    def draw(self, id: int) -> None:
        """Note that the next early leaver runs on."""
        self.drawn += 1
        self._open.append(_Drawn(id, self.early, self.answers))

    def answer(self, answers: int, early: int) -> None:
        """Count answers, and the early ones among them; their `draw` came before."""
        self.answers += answers
        self.early += early
        self._bound(self.lost + early)

    def settle(self, id: int, differs: bool) -> list[tuple[int, bool]]:
        """Take the result of a leaver that ran on; one that never arrives differs.

        Return the results that count from now on, each with the number of answers before it.
        """
        for entry in self._open:
            if entry.id == id and entry.differs is None:
                entry.differs = differs
                break
        settled: list[tuple[int, bool]] = []
        while self._open and (result := self._open[0].differs) is not None:
            self.differing += result
            settled.append((self._open.popleft().answers, result))
        if settled:
            self._bound(self.lost)
        return settled

    def give_up(self) -> list[tuple[int, bool]]:
        """Count all that are under way as differing: nobody will tell."""
        for entry in self._open:
            entry.differs = True
        return self.settle(-1, True)

    def allows(self, more: int) -> bool:
        """Return whether the promise holds even if this many more answers leave, and all of them differ."""
        return self.lost + more <= self.promise.may_lose * (self.answers + more)

    def affordable(self, answers: int) -> float:
        """Return the share of the next answers that may differ, so that evidence will hardly fall short.

        Of the differences that may be seen, two standard deviations are kept in reserve.
        """
        promise = self.promise
        budget = promise.may_lose * (self.answers + answers)
        low, high = -1, 1
        while most_lost(high, promise) <= budget:
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if most_lost(middle, promise) <= budget else (low, middle)
        more = low - self.differing - sum(entry.differs is True for entry in self._open)
        if more <= 0:
            return 0.0
        return min(promise.may_lose, (math.sqrt(1 + more) - 1) ** 2 / (promise.share * answers))

    def _bound(self, lost: int) -> None:
        self.lost = min(lost, most_lost(self.differing, self.promise) + self.unsettled)

    def counts(self) -> dict[str, Any]:
        """Return the counts as an object for people and programs; `joined` takes several."""
        return {
            "answers": self.answers,
            "early": self.early,
            "shadows": self.drawn,
            "differing": self.differing,
            "unsettled": self.unsettled,
            "lost_at_most": self.lost,
            "kept_at_least": self.kept,
            "kept_about": self.estimate,
        }


class Outbreak:
    """Tells when more is lost than may be: an e-detector of cumulative sums (Shin, Ramdas and Rinaldo, 2023).

    While each answer's loss has a probability of `may_lose` at most, given all before it, the mean number of
    answers to an alarm is at least DISTANCE.
    """

    def __init__(self, promise: Promise) -> None:
        null = promise.share * promise.may_lose
        factors = [factor for factor in FACTORS if factor * null < 1] or [(1 + 1 / null) / 2]
        self._steps = [(math.log(factor), math.log((1 - factor * null) / (1 - null))) for factor in factors]
        self._levels = [0.0] * len(factors)
        self._limit = math.log(DISTANCE)
        self._answers = 0

    def takes(self, answers: int, differs: bool) -> bool:
        """Take a result, with the number of answers before it; return whether it alarms."""
        quiet, self._answers = max(0, answers - self._answers) + (not differs), answers + 1
        total = 0.0
        for k, (yes, no) in enumerate(self._steps):
            level = max(0.0, self._levels[k] + quiet * no) + (yes if differs else 0.0)
            self._levels[k] = level
            total += math.exp(min(level, 700.0)) / len(self._steps)
        return math.log(total) >= self._limit


class Certificate:
    """The bounds of one network on one NPU: in all, since the last reset, by exit and by tenant.

    Each of them holds with probability 1 - risk by itself. The owner of the NPU counts; others may read.
    """

    def __init__(self, promise: Promise, exits: int, *, seed: int | None = None) -> None:
        self.promise = promise
        self.whole = CertificateTally(promise)
        self.stretch = CertificateTally(promise)
        self.exits = [CertificateTally(promise) for _ in range(exits)]
        self.tenants: dict[str, CertificateTally] = {}
        self.resets = 0
        self._outbreak = Outbreak(promise)
        self._rng = np.random.default_rng(seed)

    def answered(self, id: int, exit: int | None, tenant: str, *, governed: bool = True) -> bool:
        """Count an answer of an early exit (None: of the last); return whether its sample is to run on.

        Not `governed`: thresholds do not decide its exits, so it counts for exit and tenant only.
        """
        early = exit is not None
        on = early and (self.promise.share == 1 or self._rng.random() < self.promise.share)
        for tally in self._tallies(exit, tenant, governed):
            if on:
                tally.draw(id)
            tally.answer(1, early)
        return on

    def settle(self, id: int, exit: int, tenant: str, differs: bool) -> bool:
        """Take the result of a sample that ran on; True where the stretch ends with it."""
        alarmed = False
        for tally in self._tallies(exit, tenant, True):
            settled = tally.settle(id, differs)
            if tally is self.stretch:
                for result in settled:
                    alarmed = self._outbreak.takes(*result) or alarmed
        if alarmed:
            self.reset()
        return alarmed

    def reset(self) -> None:
        """Begin a new stretch: what was seen before speaks of other images."""
        self.stretch = CertificateTally(self.promise)
        self._outbreak = Outbreak(self.promise)
        self.resets += 1

    def give_up(self) -> None:
        """Count all samples under way as differing: their device failed."""
        for tally in (self.whole, self.stretch, *self.exits, *self.tenants.values()):
            tally.give_up()

    def allows(self, more: int) -> bool:
        """Return whether the promise holds even if the next `more` answers all leave early and differ."""
        return self.whole.allows(more) and self.stretch.allows(more)

    def affordable(self, answers: int) -> float:
        """Return the share of the next answers that may be lost."""
        return min(self.whole.affordable(answers), self.stretch.affordable(answers))

    def report(self) -> dict[str, Any]:
        """Return everything as an object for people and programs."""
        return {
            **dataclasses.asdict(self.promise),
            "whole": self.whole.counts(),
            "stretch": self.stretch.counts(),
            "resets": self.resets,
            "exits": [tally.counts() for tally in self.exits],
            "tenants": {name: tally.counts() for name, tally in list(self.tenants.items())},
        }

    def _tallies(self, exit: int | None, tenant: str, governed: bool) -> Iterable[CertificateTally]:
        if governed:
            yield self.whole
            yield self.stretch
        if exit is not None:
            yield self.exits[exit]
        own = self.tenants.get(tenant)
        yield self.tenants.setdefault(tenant, CertificateTally(self.promise)) if own is None else own


def joined(counts: Iterable[dict[str, Any]], promise: Promise) -> dict[str, Any]:
    """Return what several NPUs' counts say together, where their coins are independent and of one share.

    The product of their martingales is one, so the counts add up.

    >>> promise = Promise(eta=0.9, share=0.2)
    >>> tally = CertificateTally(promise)
    >>> tally.answer(600, early=300)
    >>> joined([tally.counts()] * 2, promise)["kept_at_least"] > tally.kept
    True
    """
    rows = list(counts)
    total: dict[str, Any] = {
        key: sum(row[key] for row in rows) for key in ("answers", "early", "shadows", "differing", "unsettled")
    }
    lost = min(total["early"], most_lost(total["differing"], promise) + total["unsettled"])
    answers = total["answers"]
    return total | {
        "lost_at_most": lost,
        "kept_at_least": 1 - lost / answers if answers else 1.0,
        "kept_about": 1 - total["differing"] / promise.share / answers if answers else 1.0,
    }
