"""The plan that adaptation goes by: what was selected, and what every exit answered on the load it was
selected on.

One npz file: confidences, classes and truths of labelled samples at every exit, where the reference is right,
and the selection itself.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fluidnpu.dse import LatencyTable

from ...errors import SchedulerError
from ...simulation.active import ExitSet, PartTimes
from ..selection.answers import Answers, Chain, outcome
from ..selection.candidates import CandidateTable
from ..selection.greedy import Goal, first_exits

KIND, SCHEMA = "fluidnpu adaptation", 1


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The effect of a set of exits on recorded samples, by early exit; shares of 1.

    `leaving`: of those that reach an active exit. `disagreeing`: of its leavers, those whose last exit would
    name another class. `losing`: right answers lost, less those gained, for each of them. `rates`: of all
    exits. `kept`: precision over the reference's.
    """

    leaving: tuple[float | None, ...]
    disagreeing: tuple[float, ...]
    losing: tuple[float, ...]
    rates: tuple[float, ...]
    precision: float
    kept: float
    late_batches: float


@dataclass(frozen=True, kw_only=True, eq=False)
class AdaptationPlan:
    """A selection with the samples it was made on. Raises SchedulerError.

    `confidence` and `classes` are (N, K + 1), `truths` and `reference` (N,): the class of each sample, and
    where the single-exit network is right. `times`: those that the selection went by; a server takes its own.
    """

    names: tuple[str, ...]  # of the K early exits
    goal: Goal
    chain: Chain
    confidence: NDArray[np.float64]
    classes: NDArray[np.int64]
    truths: NDArray[np.int64]
    reference: NDArray[np.bool_]
    times: CandidateTable | None = None

    def __post_init__(self) -> None:
        wanted = (len(self.truths), len(self.names) + 1)
        if self.confidence.shape != wanted or self.classes.shape != wanted or self.reference.shape != wanted[:1]:
            raise SchedulerError(
                f"a plan needs confidence and class of {wanted[0]} samples at {wanted[1]} exits, not "
                f"{self.confidence.shape} and {self.classes.shape}"
            )
        if any(not 0 <= exit < len(self.names) for exit, _ in self.chain):
            raise SchedulerError(f"a plan must select among {len(self.names)} early exits, not {list(self.chain)}")
        self.answers  # refuses what is no recording  # noqa: B018

    @cached_property
    def answers(self) -> Answers:
        """The recorded answers, as a selection takes them."""
        right = self.classes == self.truths[:, None]
        return Answers(confidence=self.confidence, right=right, reference=self.reference)

    @property
    def exits(self) -> ExitSet:
        """The selected set."""
        thresholds = dict(self.chain)
        return ExitSet(tuple(thresholds.get(exit) for exit in range(len(self.names))))

    @property
    def rates(self) -> tuple[float, ...]:
        """The share of recorded samples that leaves at each exit under the selected set."""
        left = self.answers.left_at(self.chain)
        return tuple(float(np.mean(left == exit)) for exit in range(len(self.names) + 1))

    @property
    def part_times(self) -> PartTimes:
        """The times that the selection went by. Raises SchedulerError where the plan has none."""
        if self.times is None:
            raise SchedulerError("the plan must hold the times that its selection went by, and it holds none")
        heads = (*self.times.heads, (0,) * self.times.b_max)
        whole = tuple(
            tuple(a + b for a, b in zip(*rows, strict=True)) for rows in zip(self.times.segments, heads, strict=True)
        )
        return PartTimes(whole=LatencyTable(ns=whole), bare=LatencyTable(ns=self.times.segments))

    def thresholds(self, times: PartTimes) -> tuple[float | None, ...]:
        """Return the threshold that each exit would have as the only one (PAME, Eq. 1); None where none
        serves.
        """
        return tuple(row.threshold for row in first_exits(self.table(times), self.answers, self.goal))

    def table(self, times: PartTimes) -> CandidateTable:
        """Return the times of a device as the table that selections go by; a head takes at least 1 ns."""
        heads = [
            tuple(max(1, with_head - bare) for with_head, bare in zip(whole, without, strict=True))
            for whole, without in zip(times.whole.ns[:-1], times.bare.ns[:-1], strict=True)
        ]
        segments = (*times.bare.ns[:-1], times.whole.ns[-1])
        return CandidateTable(names=self.names, segments=segments, heads=tuple(heads))

    def expected(self, exits: ExitSet, times: PartTimes) -> Expected:
        """Return what a set does on the recorded samples."""
        answers = self.answers
        chain = tuple((exit, value) for exit, value in enumerate(exits.thresholds) if value is not None)
        left, last = answers.left_at(chain), len(self.names)
        leaving: list[float | None] = [None] * last
        disagreeing, losing = [0.0] * last, [1.0] * last
        for exit in exits.active:
            reached, here = left >= exit, left == exit
            leaving[exit] = float(here.sum() / max(1, reached.sum()))
            other = here & (self.classes[:, exit] != self.classes[:, last])
            disagreeing[exit] = float(other.sum() / max(1, here.sum()))
            lost = int(answers.right[other, last].sum()) - int(answers.right[other, exit].sum())
            losing[exit] = min(1.0, max(0.0, lost / other.sum())) if other.any() else 1.0
        batch = min(self.goal.batch, times.whole.b_max)
        expected = outcome(self.table(times), answers, chain, batch)
        return Expected(
            leaving=tuple(leaving),
            disagreeing=tuple(disagreeing),
            losing=tuple(losing),
            rates=tuple(float(np.mean(left == exit)) for exit in range(last + 1)),
            precision=expected.precision,
            kept=expected.kept,
            late_batches=expected.late_batches,
        )

    def check(self, names: Sequence[str]) -> None:
        """Raise SchedulerError unless the plan is for a network with these exits."""
        if tuple(names[:-1]) != self.names:
            raise SchedulerError(
                f"the plan is for the early exits {', '.join(self.names)}, and the network has {', '.join(names[:-1])}"
            )

    def content(self) -> bytes:
        """Return the plan as the bytes of a file."""
        head = {
            "plan": KIND,
            "schema": SCHEMA,
            "names": list(self.names),
            "chain": [[exit, threshold] for exit, threshold in self.chain],
            "eta": self.goal.eta,
            "batch": self.goal.batch,
            "late": self.goal.late,
            "thresholds": list(self.goal.thresholds),
        }
        if self.times is not None:
            head |= {"segments_ns": self.times.segments, "heads_ns": self.times.heads}
        out = io.BytesIO()
        np.savez_compressed(
            out,
            head=np.frombuffer(json.dumps(head).encode(), np.uint8),
            confidence=self.confidence,
            classes=self.classes.astype(np.int32),
            truths=self.truths.astype(np.int32),
            reference=self.reference,
        )
        return out.getvalue()

    @classmethod
    def read(cls, path: Path) -> AdaptationPlan:
        """Read a file. Raises SchedulerError in one sentence that names it."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in ("confidence", "classes", "truths", "reference")}
                head = json.loads(bytes(stored["head"]))
            if head["plan"] != KIND or head["schema"] != SCHEMA:
                raise ValueError(f"it must say {KIND!r} and schema {SCHEMA}")
            names, times = tuple(map(str, head["names"])), None
            if "segments_ns" in head:
                segments, heads = (tuple(map(tuple, head[key])) for key in ("segments_ns", "heads_ns"))
                times = CandidateTable(names=names, segments=segments, heads=heads)
            return cls(
                times=times,
                names=names,
                goal=Goal(
                    eta=float(head["eta"]),
                    batch=int(head["batch"]),
                    late=float(head["late"]),
                    thresholds=tuple(map(float, head["thresholds"])),
                ),
                chain=tuple((int(exit), float(threshold)) for exit, threshold in head["chain"]),
                confidence=arrays["confidence"].astype(np.float64),
                classes=arrays["classes"].astype(np.int64),
                truths=arrays["truths"].astype(np.int64),
                reference=arrays["reference"].astype(np.bool_),
            )
        except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise SchedulerError(
                f"'{path}' must be a plan that fluidnpu exits --select wrote with --plan: {error}"
            ) from None
