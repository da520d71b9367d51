"""Thresholds with a guarantee: precision, late batches and average latency, on samples that were not seen.

Maximising the leavers on some samples picks what was just lucky there, and misses eta elsewhere in about half
of all cases. So samples are parted. One part proposes chains and orders them by its own evidence; the other
tests them in that order and stops at the first that fails (`fluidnpu.scheduler.exits.evidence`). A chain
passes if three demands are proven, each at the whole risk, since it is wrong only if one of them is:

- precision: right - eta * (the reference is right) has a mean above 0. Scores of 0..1 in place of right and
  wrong change nothing;
- late batches: behind every exit fewer samples move on than make the share of late batches too high;
- cost: the average time in service is below that of the network with one exit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ...errors import SchedulerError
from ...exits.evidence import Kept, check_risk, fixed_sequence, least_outcomes, proven_above, spread_of
from .answers import Answers, Chain, ChainOutcome, outcome, served
from .arrival import Traffic
from .candidates import CandidateTable
from .greedy import MOST_ETA, ROUNDING, Goal, greedy
from .lateness import Lateness

PROPOSING = 3  # one sample in so many proposes, the others test
STEP = 0.05  # of eta, between proposals, over the root of the samples that test
SAFE = 8.0  # standard errors; who is surer needs no safer proposal
LATER = (1.0, 0.5, 0.2, 0.0)  # parts of the late share under which chains are proposed
POWER = 0.84  # standard errors that give a test four chances in five


@dataclass(frozen=True, kw_only=True)
class ChainClaim:
    """A claim about a chain: the outcomes 0..1 that `of` gives for samples have a mean above `mean`.

    `best` is an outcome without loss.
    """

    name: str
    of: Callable[[Answers], NDArray[np.float64]]
    mean: float
    best: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A chain with its demands, the spreads of their outcomes, and its average where it was proposed.

    `sure`: by so many standard errors of as many outcomes as will test, the least of all demands.
    """

    chain: Chain
    demands: tuple[ChainClaim, ...]
    spreads: tuple[float, ...]
    sure: float
    average_ns: float


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A chain that was tested; `failed` is the demand that it does not prove, "" where it proves all.

    `kept`: its precision over the reference's on the samples that tested.
    """

    chain: Chain
    kept: float
    failed: str

    @property
    def passed(self) -> bool:
        """True where all demands are proven."""
        return not self.failed


@dataclass(frozen=True, kw_only=True)
class Guaranteed:
    """A selection and its proof. `chain` is the quickest chain that passed; None where none did.

    `naive` is what maximising leavers on all samples gives: its outcome is in-sample. Where no early exit
    passes, `allowed` is the largest eta, in thousandths, that these samples would have allowed, and `needed`
    an estimate of the samples that the safest proposal would need in all; None where there is none.
    """

    goal: Goal
    delta: float
    chain: Chain | None
    found: ChainOutcome | None  # on all samples
    tested: tuple[Tested, ...]
    naive: Chain
    naive_outcome: ChainOutcome
    kept_on_test: float | None  # precision over the reference's on the part that tested
    samples: tuple[int, int]  # that proposed, that tested
    allowed: float | None
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
    traffic: Traffic | None = None,
) -> Guaranteed:
    """Select exits and thresholds so that the goal is kept on unseen samples with probability 1 - delta.

    Samples are parted by a seeded shuffle. Of the chains that pass, and whose late batches are few enough on
    these very samples, too, that of least average in service is chosen; with `traffic` that of least average
    from arrival, which the guarantee allows, since all that pass hold together. Raises SchedulerError where
    there are too few samples for any selection, with the number needed.
    """
    check_risk(delta)
    least = least_samples(goal.eta, delta)
    if len(answers) < least:
        raise SchedulerError(
            f"a guarantee of {100 * goal.eta:g} % of the reference's precision at {100 * (1 - delta):g} % confidence needs at "
            f"least {least} labelled samples, even if exits changed no answer, and {len(answers)} came"
        )
    search = _Search(table, answers, delta, seed)
    tested, passed = search.run(goal)
    chosen: Chain | None = None
    if traffic is not None and passed:
        chosen = min(passed, key=lambda chain: traffic.serve(table, search.tests, chain, goal.batch).average_ns)
    elif passed:
        chosen = min(passed, key=lambda chain: outcome(table, search.tests, chain, goal.batch).average_ns)
    naive, naive_outcome = greedy(table, answers, goal)
    return Guaranteed(
        goal=goal,
        delta=delta,
        chain=chosen,
        found=None if chosen is None else outcome(table, answers, chosen, goal.batch),
        tested=tested,
        naive=naive,
        naive_outcome=naive_outcome,
        kept_on_test=next((trial.kept for trial in tested if trial.chain == chosen), None),
        samples=(len(search.proposes), len(search.tests)),
        allowed=None if chosen else search.allowed(goal),
        needed=None if chosen else search.needed(goal, tested),
    )


def least_samples(eta: float, delta: float) -> int:
    """Return the samples that a guarantee needs at least: if both answer all of them rightly.

    >>> least_samples(0.99, 0.05)
    458
    """
    kept = Kept(eta)
    least = least_outcomes(mean=kept.mean, risk=delta, best=kept.best)
    return math.ceil(least * PROPOSING / (PROPOSING - 1))


class _Search:
    """Samples in two parts, and the fixed sequence over them for a goal."""

    def __init__(self, table: CandidateTable, answers: Answers, delta: float, seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(answers))
        cut = len(order) // PROPOSING
        self.table, self.answers, self.delta = table, answers, delta
        self.proposes, self.tests = answers[order[:cut]], answers[order[cut:]]

    def run(self, goal: Goal) -> tuple[tuple[Tested, ...], list[Chain]]:
        """Return the chains that were tested, and those that passed and are seldom late on all samples."""
        tested: list[Tested] = []

        def proven(proposal: Proposal) -> bool:
            tested.append(self._test(proposal))
            return tested[-1].passed

        passed = fixed_sequence(self._sequence(goal), proven)
        late = {trial.chain: self._outcome(goal, trial.chain).late_batches for trial in passed}
        return tuple(tested), [chain for chain, share in late.items() if share <= goal.late]

    def allowed(self, goal: Goal) -> float | None:
        """Return the largest eta below the goal's, in thousandths, under which exits pass, if any."""
        most = math.ceil(1000 * goal.eta) - 1
        low, high, step = 0, most + 1, 1  # passes, unless it is 0; fails
        while high - step > 0 and not self._passes(goal, high - step):
            high, step = high - step, 2 * step
        low = max(0, high - step)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._passes(goal, middle) else (low, middle)
        return low / 1000 if low else None

    def needed(self, goal: Goal, tested: Sequence[Tested]) -> int | None:
        """Return about how many samples in all would prove the precision of the chain that failed."""
        failed = next((trial for trial in tested if trial.failed == "precision"), None)
        if failed is None:
            return None
        demand = _precision(goal, failed.chain)
        outcomes = demand.of(self.tests)
        margin = float(outcomes.mean()) - demand.mean
        if margin <= 0:
            return None
        errors = (NormalDist().inv_cdf(1 - self.delta) + POWER) * spread_of(outcomes, demand.mean) / margin
        return math.ceil(errors * errors * PROPOSING / (PROPOSING - 1))

    def _passes(self, goal: Goal, thousandths: int) -> bool:
        return any(chain for chain in self.run(replace(goal, eta=thousandths / 1000))[1])  # () has no exits

    def _outcome(self, goal: Goal, chain: Chain) -> ChainOutcome:
        return outcome(self.table, self.answers, chain, goal.batch)

    def _test(self, proposal: Proposal) -> Tested:
        failed = (
            demand.name
            for demand, spread in zip(proposal.demands, proposal.spreads, strict=True)
            if not proven_above(
                demand.of(self.tests), mean=demand.mean, risk=self.delta, spread=spread, best=demand.best
            )
        )
        kept = float(self.tests.right_with(proposal.chain).mean() / max(ROUNDING, self.tests.reference.mean()))
        return Tested(chain=proposal.chain, kept=kept, failed=next(failed, ""))

    def _sequence(self, goal: Goal) -> list[Proposal]:
        """Return the proposals from the safest on, each quicker than those before it."""
        sequence: list[Proposal] = []
        for proposal in sorted(self._proposals(goal), key=lambda proposal: (-proposal.sure, proposal.average_ns)):
            if not sequence or proposal.average_ns < sequence[-1].average_ns:
                sequence.append(proposal)
        return sequence

    def _proposals(self, goal: Goal) -> list[Proposal]:
        """Return the best chains under the goal and stricter ones; the network without early exits is one."""
        alone = self.table.single_ns(goal.batch)
        rows: dict[Chain, Proposal] = {(): self._proposal(goal, (), alone)}
        step = STEP / math.sqrt(len(self.tests))
        for part in LATER:
            eta, late, sure = goal.eta, 0.0, 0.0
            while sure < SAFE and eta <= MOST_ETA:
                chain, kept = greedy(self.table, self.proposes, replace(goal, eta=eta, late=part * goal.late))
                if not chain:
                    break
                if chain not in rows:
                    rows[chain] = self._proposal(goal, chain, kept.average_ns)
                sure, late = rows[chain].sure, max(late, kept.late_batches)
                eta = max(eta, kept.kept) + step  # up to what it keeps, it stays the best
            if late == 0:
                break
        return list(rows.values())

    def _proposal(self, goal: Goal, chain: Chain, average_ns: float) -> Proposal:
        demands = [_precision(goal, chain)]
        if chain:
            demands += [*self._seldom_late(goal, chain), _quicker(self.table, goal, chain)]
        outcomes = [demand.of(self.proposes) for demand in demands]
        spreads = tuple(spread_of(seen, demand.mean) for seen, demand in zip(outcomes, demands, strict=True))
        ratio = len(self.tests) / len(self.proposes)
        sure = (
            (float(seen.mean()) - demand.mean) / spread * math.sqrt(len(seen) * ratio)
            for seen, demand, spread in zip(outcomes, demands, spreads, strict=True)
        )
        return Proposal(chain=chain, demands=tuple(demands), spreads=spreads, sure=min(sure), average_ns=average_ns)

    def _seldom_late(self, goal: Goal, chain: Chain) -> list[ChainClaim]:
        """Return a demand an exit: so many samples leave there or before that late batches are few enough.

        None is needed of an exit behind which all samples may move on.
        """
        ways = Lateness.of(self.table, chain, goal.batch)
        moving = np.array([(self.proposes.left_at(chain) > exit).sum() + 1 for exit, _ in chain])
        moving = moving / (len(self.proposes) + 1)
        errors = np.sqrt(moving * (1 - moving) / len(self.tests)) + ROUNDING
        return [
            ChainClaim(name="late batches", of=partial(_staying, chain, exit), mean=1 - float(limit))
            for (exit, _), limit in zip(chain, ways.limits(moving, errors, goal.late), strict=True)
            if limit < 1
        ]


def _precision(goal: Goal, chain: Chain) -> ChainClaim:
    kept = Kept(goal.eta)

    def of(answers: Answers) -> NDArray[np.float64]:
        return kept.outcomes(answers.right_with(chain), answers.reference)

    return ChainClaim(name="precision", of=of, mean=kept.mean, best=kept.best)


def _staying(chain: Chain, exit: int, answers: Answers) -> NDArray[np.float64]:
    return np.asarray(answers.left_at(chain) <= exit, np.float64)


def _quicker(table: CandidateTable, goal: Goal, chain: Chain) -> ChainClaim:
    """Return the demand on the time that a batch does without, in parts of the longest that there is."""
    exits = [exit for exit, _ in chain]
    steps = [
        table.step(start, exit)
        for start, exit in zip((0, *(exit + 1 for exit in exits)), (*exits, table.exits), strict=True)
    ]
    longest = float(sum(step[1 : goal.batch + 1].max() for step in steps))

    def of(answers: Answers) -> NDArray[np.float64]:
        return np.asarray(1 - served(table, answers, chain, goal.batch)[0].mean(axis=1) / longest)

    return ChainClaim(name="average", of=of, mean=1 - table.single_ns(goal.batch) / longest)
