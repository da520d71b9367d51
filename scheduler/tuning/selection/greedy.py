"""PAME's selection of exits, one after another (sections 6.2 to 6.4), with its rule for later exits
repaired.

As printed, a later exit is chosen by an estimated tail, and Eq. 3 promises that no batch becomes late. Its
last step fails: the new exit has a head, which the time beside it has not. Here later exits pass the same
test as the first, and one is kept only if the exact average falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import SchedulerError
from .answers import Answers, Chain, ChainOutcome, expected_average_ns, outcome, pattern_matrix
from .candidates import CandidateTable

THRESHOLDS = (0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
WIDTH = 4  # chains from which exchanges continue
ROUNDING = 1e-9  # of a sum of scores, which is exact where they are right or wrong
LATE = 0.02  # tau_l: share of batches that may be late
MOST_ETA = 2.0


@dataclass(frozen=True, kw_only=True)
class Goal:
    """The demand on a selection: eta, full batches of `batch`, and the share of batches that may be late.

    `thresholds` are the values that every exit may have. Raises SchedulerError.
    """

    eta: float = 0.99
    batch: int = 8
    late: float = LATE
    thresholds: tuple[float, ...] = THRESHOLDS

    def __post_init__(self) -> None:
        if not 0 < self.eta <= MOST_ETA:
            raise SchedulerError(f"eta must be a share above 0 of the reference's precision, not {self.eta}")
        if not 0 <= self.late <= 1:
            raise SchedulerError(f"the share of late batches must lie in 0..1, not {self.late}")
        if not self.thresholds or list(self.thresholds) != sorted(set(self.thresholds)):
            raise SchedulerError("thresholds to choose from must be distinct and ascend")

    def met(self, outcome: ChainOutcome) -> bool:
        """True if precision and late batches are as demanded."""
        return outcome.precision >= self.eta * outcome.reference and outcome.late_batches <= self.late


@dataclass(frozen=True, kw_only=True)
class FirstExit:
    """One row of the first step: the exit's best threshold, Eq. 1 and 2, and its late batches.

    `threshold` is None where no value keeps the precision.
    """

    exit: int
    threshold: float | None
    leaving: float = 0.0
    precision: float = 0.0
    average_ns: float = 0.0
    late_batches: float = 0.0


def first_exits(table: CandidateTable, answers: Answers, goal: Goal, interval: int = 1) -> tuple[FirstExit, ...]:
    """Return each candidate as the only exit, as the paper judges it: Eq. 1, both matrices, Eq. 2.

    `interval` is v, the step of batch sizes in the matrices; 1 is exact.
    """
    chosen = [_most_leaving(answers, exit, goal) for exit in range(table.exits)]
    pattern = pattern_matrix(
        answers, [1.0 if threshold is None else threshold for threshold in chosen], goal.batch, interval
    )
    times, alone = table.time_matrix(goal.batch, interval), table.single_ns(goal.batch)
    rows = []
    for exit, threshold in enumerate(chosen):
        if threshold is None:
            rows.append(FirstExit(exit=exit, threshold=None))
            continue
        rows.append(
            FirstExit(
                exit=exit,
                threshold=threshold,
                leaving=float(np.mean(answers.left_at(((exit, threshold),)) == exit)),
                precision=float(answers.right_with(((exit, threshold),)).mean()),
                average_ns=expected_average_ns(times[exit], pattern[exit], goal.batch, interval),
                late_batches=float(pattern[exit][times[exit] > alone].sum() / pattern[exit].sum()),
            )
        )
    return tuple(rows)


def greedy(
    table: CandidateTable, answers: Answers, goal: Goal, *, later: bool = True, exchange: bool = False
) -> tuple[Chain, ChainOutcome]:
    """Choose exits one by one and return the chain with its outcome; empty where no exit helps.

    `later`: also look for exits behind the first. `exchange`: improve the chain by `exchanged` at the end.
    """
    chain: Chain = ()
    best = outcome(table, answers, chain, goal.batch)
    while chain == () or later:
        start = chain[-1][0] + 1 if chain else 0
        outcomes = [
            (outcome(table, answers, more, goal.batch), more)
            for exit in range(start, table.exits)
            if (more := _extend(answers, chain, exit, goal)) is not None
        ]
        good = [(result.average_ns, more, result) for result, more in outcomes if goal.met(result)]
        if not good or min(good)[0] >= best.average_ns:
            break
        _, chain, best = min(good, key=lambda row: row[:2])
    return exchanged(table, answers, goal, chain) if exchange else (chain, best)


def exchanged(
    table: CandidateTable, answers: Answers, goal: Goal, chain: Chain, *, width: int = WIDTH
) -> tuple[Chain, ChainOutcome]:
    """Improve a chain that meets the goal by exchanges, and return the best one met with its outcome.

    Exits chosen one by one spend all the precision that eta leaves on the first. A neighbour leaves one exit
    out, or raises its threshold by a step, and gives what that spares to any exit: the lowest threshold that
    keeps the precision. A beam of the `width` best chains goes from neighbours to neighbours, and ends where
    a round brings nothing better. This is no search of all chains; `prove` is.
    """
    best = outcome(table, answers, chain, goal.batch)
    beam, seen = [chain], {chain}
    while True:
        new = dict.fromkeys(more for start in beam for more in _neighbours(answers, start, goal) if more not in seen)
        seen.update(new)
        outcomes = [(outcome(table, answers, more, goal.batch), more) for more in new]
        ranked = sorted(
            ((result.average_ns, more, result) for result, more in outcomes if goal.met(result)),
            key=lambda row: row[:2],
        )
        if not ranked or ranked[0][0] >= best.average_ns:
            return chain, best
        _, chain, best = ranked[0]
        beam = [more for _, more, _ in ranked[:width]]


def _neighbours(answers: Answers, chain: Chain, goal: Goal) -> list[Chain]:
    """Return the chains that one exchange leads to, without repetition."""
    bases = [chain]
    for place, (exit, threshold) in enumerate(chain):
        others = (*chain[:place], *chain[place + 1 :])
        higher = next((value for value in goal.thresholds if value > threshold), None)
        bases += [others] if higher is None else [others, tuple(sorted((*others, (exit, higher))))]
    neighbours: dict[Chain, None] = dict.fromkeys(bases)
    for base in bases:
        for exit in range(answers.exits):
            more = _extend(answers, base, exit, goal)
            if more is not None:
                neighbours[more] = None
    del neighbours[chain]
    return list(neighbours)


def _most_leaving(answers: Answers, exit: int, goal: Goal) -> float | None:
    extended = _extend(answers, (), exit, goal)
    return None if extended is None else extended[0][1]


def _extend(answers: Answers, chain: Chain, exit: int, goal: Goal) -> Chain | None:
    """Add an exit with the lowest threshold that keeps the precision (Eq. 1); None where none does.

    The chain may have exits before it and behind it, and the threshold of an exit that it has is set anew.
    """
    others = tuple(link for link in chain if link[0] != exit)
    left = answers.left_at(others)
    right_there = answers.right[np.arange(len(left)), left]
    movers = left > exit
    settled = float(right_there[~movers].sum())
    values = len(goal.thresholds)
    passed = np.searchsorted(np.array(goal.thresholds), answers.confidence[movers, exit], side="left")
    leave, stay = (
        np.bincount(passed, weights=rights, minlength=values + 1)
        for rights in (answers.right[movers, exit], right_there[movers])
    )
    right = settled + leave.sum() - np.cumsum(leave)[:values] + np.cumsum(stay)[:values]
    good = np.flatnonzero(right >= goal.eta * float(answers.reference.sum()) - ROUNDING)
    return tuple(sorted((*others, (exit, goal.thresholds[int(good[0])])))) if len(good) else None


def thresholds_of(chain: Chain, exits: int) -> tuple[float, ...]:
    """Return the threshold of every early exit: 1, which nobody exceeds, where the chain has none.

    >>> thresholds_of(((1, 0.9),), 3)
    (1.0, 0.9, 1.0)
    """
    thresholds = dict(chain)
    return tuple(thresholds.get(exit, 1.0) for exit in range(exits))


def described(chain: Chain, names: Sequence[str]) -> str:
    """Write a chain for people.

    >>> described(((0, 0.9),), ["exit1", "exit2"]), described((), ["exit1"])
    ('exit1 above 0.9', 'no early exit')
    """
    return ", ".join(f"{names[exit]} above {threshold:g}" for exit, threshold in chain) or "no early exit"
