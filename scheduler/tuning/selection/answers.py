"""Answers of every exit to recorded samples, and the outcome of a chain of exits and thresholds on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluidnpu.models.exits import decide_exits

from ...errors import SchedulerError
from .candidates import CandidateTable

Chain = tuple[tuple[int, float], ...]  # (exit, threshold), exits ascending


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """The confidence and correctness of N samples at K early exits and the last, in the order of arrival.

    `confidence` and `right` are (N, K + 1); `reference` (N,) says where the single-exit network that
    precision refers to is right. For answers that are right in part (maps), both hold scores of 0..1, and
    precision is their mean. Raises SchedulerError.
    """

    confidence: NDArray[np.float64]
    right: NDArray[Any]
    reference: NDArray[Any]

    def __post_init__(self) -> None:
        shape = self.confidence.shape
        if len(shape) != 2 or shape[1] < 2 or self.right.shape != shape or self.reference.shape != shape[:1]:
            raise SchedulerError(
                "answers must be samples x exits of confidence and correctness, and the reference one a sample, not "
                f"{shape}, {self.right.shape} and {self.reference.shape}"
            )
        if not len(self.reference):
            raise SchedulerError("selecting exits needs at least one labelled sample, and none came")

    def __len__(self) -> int:
        return len(self.reference)

    def __getitem__(self, which: slice | NDArray[np.int64]) -> Answers:
        return Answers(confidence=self.confidence[which], right=self.right[which], reference=self.reference[which])

    @property
    def exits(self) -> int:
        """The number K of early exits."""
        return self.right.shape[1] - 1

    def left_at(self, chain: Chain) -> NDArray[np.int64]:
        """Return the exit (N,) of every sample; K is the last one."""
        active = [exit for exit, _ in chain]
        columns = [self.confidence[:, exit] for exit in (*active, self.exits)]
        chosen = decide_exits(columns, [threshold for _, threshold in chain])
        return np.array([*active, self.exits], np.int64)[chosen]

    def right_with(self, chain: Chain) -> NDArray[Any]:
        """Return where the answers under a chain are right, or their scores, (N,)."""
        return np.asarray(self.right[np.arange(len(self)), self.left_at(chain)])


@dataclass(frozen=True, kw_only=True)
class ChainOutcome:
    """The effect of a chain on recorded samples in full batches: times in service in ns, shares of 1.

    `average_ns` counts each sample from the start of its batch to its own exit. `tail_ns` is the mean end of
    batches. `late_batches` and `late_samples` are shares that end after the single-exit network would have.
    """

    rates: tuple[float, ...]  # of the chain's exits and the last
    precision: float
    reference: float
    average_ns: float
    tail_ns: float
    p99_ns: float
    late_batches: float
    late_samples: float

    @property
    def kept(self) -> float:
        """Precision as a share of the reference's."""
        return self.precision / self.reference if self.reference else float("inf")


def served(
    table: CandidateTable, answers: Answers, chain: Chain, batch: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Serve the samples in full batches, one after another, as the simulator would.

    Returns the end of every sample (batches, batch), and of every batch, in ns from its start. Raises
    SchedulerError where no batch is full.
    """
    _check(table, answers, batch)
    full = len(answers) // batch
    batches = answers.left_at(chain)[: full * batch].reshape(full, batch)
    ends = np.zeros(batches.shape, np.int64)
    elapsed, start = np.zeros(full, np.int64), 0
    tail = np.zeros(full, np.int64)
    for exit in (*(active for active, _ in chain), table.exits):
        here = (batches >= start).sum(axis=1)
        elapsed = elapsed + table.step(start, exit)[here]
        tail = np.where(here > 0, elapsed, tail)
        leaving = (batches >= start) & (batches <= exit)
        ends[leaving] = np.broadcast_to(elapsed[:, None], ends.shape)[leaving]
        start = exit + 1
    return ends, tail


def outcome(table: CandidateTable, answers: Answers, chain: Chain, batch: int) -> ChainOutcome:
    """Return what a chain does to the samples in batches of `batch`.

    Samples behind the last full batch count for precision alone. Raises SchedulerError where no batch is
    full.
    """
    ends, tail = served(table, answers, chain, batch)
    left = answers.left_at(chain)
    alone = table.single_ns(batch)
    counts = [float(np.mean(left == exit)) for exit in (*(active for active, _ in chain), table.exits)]
    return ChainOutcome(
        rates=tuple(counts),
        precision=float(answers.right[np.arange(len(answers)), left].mean()),
        reference=float(answers.reference.mean()),
        average_ns=float(ends.mean()),
        tail_ns=float(tail.mean()),
        p99_ns=float(np.quantile(ends, 0.99, method="higher")),
        late_batches=float(np.mean(tail > alone)),
        late_samples=float(np.mean(ends > alone)),
    )


def _check(table: CandidateTable, answers: Answers, batch: int) -> None:
    if table.exits != answers.exits:
        raise SchedulerError(f"times and answers must be of as many exits, not of {table.exits} and {answers.exits}")
    if not 1 <= batch <= table.b_max:
        raise SchedulerError(f"the batch must lie in 1..{table.b_max}, not {batch}")
    if len(answers) < batch:
        raise SchedulerError(f"one batch needs {batch} samples, and {len(answers)} came")


def pattern_matrix(answers: Answers, thresholds: Sequence[float], batch: int, interval: int = 1) -> NDArray[np.int64]:
    """Return C_ij: batches in which j * interval up to (j + 1) * interval - 1 samples move on behind exit i.

    Each exit is taken as the only one, with its threshold (PAME, section 6.3.2; the text also says "exit" for
    "move on"). Exits x (batch // interval + 1).
    """
    full = len(answers) // batch
    counts = np.zeros((answers.exits, batch // interval + 1), np.int64)
    for exit, threshold in enumerate(thresholds):
        left = answers.left_at(((exit, threshold),))[: full * batch].reshape(full, batch)
        movers = (left > exit).sum(axis=1)
        counts[exit] = np.bincount(movers // interval, minlength=counts.shape[1])
    return counts


def expected_average_ns(times: NDArray[np.int64], pattern: NDArray[np.int64], batch: int, interval: int = 1) -> float:
    """Return Eq. 2 of PAME for one exit, from its rows of the two matrices; n*_j is j * interval.

    The rows are (counts,), one for each n*_j.
    """
    moving = np.arange(len(pattern)) * interval
    batches = int(pattern.sum())
    return float((((batch - moving) * times[0] + moving * times) * pattern).sum() / (batch * batches))
