"""Thresholds with a guarantee: precision of at least eta of the reference's on data that was not seen.

Maximising the leavers on some samples picks what was just lucky there, and misses eta elsewhere in about
half of all cases. So samples are parted. One part proposes chains and orders them by its own evidence; the
other tests them in that order and stops at the first that fails (fixed-sequence testing, as in "learn then
test", Angelopoulos et al. 2021), so no correction for their number is needed. The test is an e-value: with
D = right - eta * (the reference is right) the product of 1 + rate * D over n samples has a mean of at most
1 where the mean of D is at most 0, and exceeds 1 / delta with probability delta at most (Markov). It holds
for any n, without a normal approximation; the rate comes from the first part. Scores of 0..1 in place of
right and wrong change nothing: D stays above -eta.

>>> Test.of(same=1000, gained=0, lost=0, eta=0.99, delta=0.05, rate=0.9).passed
True
>>> least_samples(0.99, 0.05)
314
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SchedulerError
from .answers import Answers, Chain, Outcome, outcome
from .arrival import Traffic
from .candidates import CandidateTable
from .greedy import Goal, greedy
from .proven import prove

MOST_RATE = 0.95  # times 1 / eta, where a lost answer would take all
STEP = 0.0005  # of eta, between proposals
PROPOSING = 3  # one sample in so many proposes, the others test
MOST_ETA = 1.1
RATES = 64


@dataclass(frozen=True, kw_only=True)
class Test:
    """One test of a chain: the sums of its scores and of the reference's, or their right answers.

    `log_evidence` is the logarithm of the e-value; it passes above -log(delta).
    """

    ours: float
    theirs: float
    delta: float
    log_evidence: float

    @property
    def passed(self) -> bool:
        """True where the precision is guaranteed."""
        return self.log_evidence >= -math.log(self.delta)

    @classmethod
    def of(cls, *, same: int, gained: int, lost: int, eta: float, delta: float, rate: float) -> Test:
        """Test counts with a rate that was fixed before they were seen: answers that both have right, only
        the chain, and only the reference.
        """
        evidence = _evidence(same, gained, lost, eta, rate)
        return cls(ours=same + gained, theirs=same + lost, delta=delta, log_evidence=evidence)

    @classmethod
    def of_scores(cls, ours: NDArray[Any], theirs: NDArray[Any], *, eta: float, delta: float, rate: float) -> Test:
        """Test scores (N,) of 0..1, or right and wrong, with a rate that was fixed before they were seen."""
        evidence = _growth(ours, theirs, eta)(rate)
        return cls(ours=float(ours.sum()), theirs=float(theirs.sum()), delta=delta, log_evidence=evidence)


@dataclass(frozen=True, kw_only=True)
class Guaranteed:
    """A selection and its proof. `chain` is the loosest chain that passed; None where none did.

    `naive` is what maximising leavers on all samples gives: its outcome is in-sample. `needed` is an estimate
    of the samples that the loosest proposal would need in all; None where it would never pass.
    """

    goal: Goal
    delta: float
    chain: Chain | None
    found: Outcome | None  # on all samples
    tested: tuple[tuple[Chain, Test], ...]
    naive: Chain
    naive_outcome: Outcome
    kept_on_test: float | None  # precision over the reference's on the part that tested
    samples: tuple[int, int]  # that proposed, that tested
    needed: int | None

    @property
    def price_pct(self) -> float | None:
        """Per cent of the naive selection's average latency that the guarantee costs; None without one."""
        if self.found is None:
            return None
        return 100 * (self.found.average_ns / self.naive_outcome.average_ns - 1)


def guaranteed(
    table: CandidateTable,
    answers: Answers,
    goal: Goal,
    *,
    delta: float = 0.05,
    seed: int = 0,
    nodes: int = 0,
    exchange: bool = False,
    traffic: Traffic | None = None,
) -> Guaranteed:
    """Select exits and thresholds so that eta holds on unseen samples with probability 1 - delta.

    `nodes`: prefixes of the proven search for every proposal; 0 is greedy, with `exchange` improved by
    exchanges, on the part that proposes alone. Samples are parted by a seeded shuffle. Of the chains that
    pass, that of least average in service is chosen; with `traffic` that of least average from arrival,
    which the guarantee allows, since all that pass hold together. Raises SchedulerError where there are too
    few samples for any selection, with the number needed.
    """
    if not 0 < delta < 1:
        raise SchedulerError(f"delta must lie between 0 and 1, not {delta}")
    order = np.random.default_rng(seed).permutation(len(answers))
    least = least_samples(goal.eta, delta)
    most = math.ceil(least * PROPOSING / (PROPOSING - 1))
    if len(answers) < most:
        raise SchedulerError(
            f"a guarantee of {100 * goal.eta:g} % of the reference's precision at {100 * (1 - delta):g} % confidence needs at "
            f"least {most} labelled samples, even if exits changed no answer, and {len(answers)} came"
        )
    cut = len(order) // PROPOSING
    first, second = answers[np.sort(order[:cut])], answers[np.sort(order[cut:])]
    proposals = _proposals(table, first, goal, nodes, exchange)
    ranked = sorted(((_best_rate(first, chain, goal.eta), chain) for chain in proposals), key=lambda row: -row[0][1])
    tested: list[tuple[Chain, Test]] = []
    passed: list[Chain] = []
    for (rate, _), chain in ranked:
        test = Test.of_scores(second.right_with(chain), second.reference, eta=goal.eta, delta=delta, rate=rate)
        tested.append((chain, test))
        if not test.passed:
            break
        passed.append(chain)
    chosen: Chain | None = None
    if traffic is not None and passed:
        chosen = min(passed, key=lambda one: traffic.serve(table, second, one, goal.batch).average_ns)
    elif passed:
        chosen = min(passed, key=lambda one: outcome(table, second, one, goal.batch).average_ns)
    naive, naive_outcome = greedy(table, answers, goal)
    loosest = max(ranked, key=lambda row: row[0][1])[0][1] / len(first)
    on_test = None if chosen is None else outcome(table, second, chosen, goal.batch).kept
    return Guaranteed(
        goal=goal,
        delta=delta,
        chain=chosen,
        found=None if chosen is None else outcome(table, answers, chosen, goal.batch),
        tested=tuple(tested),
        naive=naive,
        naive_outcome=naive_outcome,
        kept_on_test=on_test,
        samples=(len(first), len(second)),
        needed=math.ceil(-math.log(delta) / loosest * PROPOSING / (PROPOSING - 1)) if loosest > 0 else None,
    )


def least_samples(eta: float, delta: float) -> int:
    """Return the samples that a test needs at least: if both answer all of them rightly."""
    if eta >= 1:
        return 1
    return math.ceil(-math.log(delta) / math.log1p(MOST_RATE / eta * (1 - eta)))


def _proposals(table: CandidateTable, answers: Answers, goal: Goal, nodes: int, exchange: bool) -> list[Chain]:
    """Return the best chains under eta and stricter demands, without repetition; the last exit alone is
    one.
    """
    found: dict[Chain, None] = {(): None}
    eta = goal.eta
    while eta < MOST_ETA:
        strict = Goal(eta=eta, batch=goal.batch, late=goal.late, thresholds=goal.thresholds)
        chain, kept = greedy(table, answers, strict, exchange=exchange)
        if nodes:
            proven = prove(table, answers, strict, nodes)
            chain, kept = proven.chain, proven.outcome
        if not chain:
            break
        found[chain] = None
        eta = max(eta, kept.kept) + STEP  # up to what it keeps, it stays the best
    return list(found)


def _growth(ours: NDArray[Any], theirs: NDArray[Any], eta: float) -> Callable[[float], float]:
    """Return the evidence of scores (N,) as a function of the rate."""
    if ours.dtype == np.bool_:
        same, gained, lost = (int(one.sum()) for one in (ours & theirs, ours & ~theirs, ~ours & theirs))
        return lambda rate: _evidence(same, gained, lost, eta, rate)
    differences = ours - eta * theirs
    return lambda rate: float(np.log1p(rate * differences).sum())


def _best_rate(answers: Answers, chain: Chain, eta: float) -> tuple[float, float]:
    """Return the rate of most evidence on these samples, and that evidence."""
    rates = MOST_RATE / eta * np.arange(RATES + 1) / RATES
    growth = _growth(answers.right_with(chain), answers.reference, eta)
    grown = [growth(float(rate)) for rate in rates]
    best = int(np.argmax(grown))
    return float(rates[best]), grown[best]


def _evidence(same: int, gained: int, lost: int, eta: float, rate: float) -> float:
    return same * math.log1p(rate * (1 - eta)) + gained * math.log1p(rate) + lost * math.log1p(-rate * eta)
