"""Fronts of thresholds: what each combination of a grid costs and gets wrong, and the choice among them.

Delen's Algorithm 2, for any two of error, latency, energy and MACs, with two additions: a choice that must
hold on samples that were not seen carries a confidence bound, corrected for the number of candidates, and
where nothing can fulfil the demand the whole network is served and the word is "infeasible".

>>> from fluidnpu.dse import LatencyTable
>>> data = Recorded(confidences=[[0.9, 1], [0.6, 1], [0.3, 1]], correct=[[1, 1], [0, 1], [0, 0]])
>>> profile = ExitProfile(latency=LatencyTable(ns=((100,), (300,))))
>>> front = front_of(data, profile, grid=[[0.0, 0.5, 0.8, 1.0]])
>>> [(point.thresholds, round(point.error, 2), point.cost) for point in front.points]
[((0.0,), 0.67, 100.0), ((0.8,), 0.33, 300.0)]
>>> front.cheapest(error=0.5).criterion.text, front.cheapest(error=0.1) is None
('confidence > 0.8', True)
>>> front.best(cost=250).thresholds
(0.0,)
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SchedulerError
from .criterion import NEVER, Criterion
from .evidence import Kept, fixed_sequence, proven_above, spread_of
from .profile import ExitProfile
from .recorded import Recorded

COSTS = ("latency", "energy", "macs")
GRID = 10  # thresholds an exit
MOST_COMBINATIONS = 200_000
RISK = 0.05


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """The outcome of every combination of thresholds on recorded samples; rows are combinations.

    `thresholds` (M, E - 1); `leaves`, `right` and `both` (M, E) count samples that leave at an exit, those
    that are right there, and those of which the last exit is right, too. `last_right`: of all samples.
    """

    thresholds: NDArray[np.float64]
    leaves: NDArray[np.int64]
    right: NDArray[np.int64]
    both: NDArray[np.int64]
    samples: int
    last_right: int

    @property
    def error(self) -> NDArray[np.float64]:
        """The share of wrong answers of each combination, (M,)."""
        return np.asarray(1 - self.right.sum(axis=1) / self.samples)

    def cost(self, per_exit: ArrayLike) -> NDArray[np.float64]:
        """Return the mean cost (M,) of a sample under each combination, from the costs (E,) up to each
        exit.
        """
        return np.asarray(self.leaves @ np.asarray(per_exit, float) / self.samples)


def outcomes_of(recorded: Recorded, grid: Sequence[Sequence[float]]) -> Outcomes:
    """Return what every combination of a grid (thresholds for every exit but the last) does.

    Samples are counted once into cells between thresholds, so the grid's size hardly matters. Raises
    SchedulerError.
    """
    sure, right = np.asarray(recorded.confidences), np.asarray(recorded.correct)
    samples, exits = right.shape
    axes = [np.unique(np.asarray(values, float)) for values in grid]
    shape = tuple(len(axis) for axis in axes)
    if len(axes) != exits - 1 or not all(shape) or math.prod(shape) > MOST_COMBINATIONS:
        raise SchedulerError(
            f"a grid must have thresholds for {exits - 1} exits and at most {MOST_COMBINATIONS} combinations, "
            f"not {shape}"
        )
    levels = [np.searchsorted(axis, sure[:, e], side="left") for e, axis in enumerate(axes)]
    cells = tuple(n + 1 for n in shape)
    where = np.ravel_multi_index(levels, cells) if axes else np.zeros(samples, np.int64)
    last = right[:, -1]
    columns: dict[str, list[NDArray[np.int64]]] = {"leaves": [], "right": [], "both": []}
    for exit in range(exits):
        for name, weights in (("leaves", None), ("right", right[:, exit]), ("both", right[:, exit] & last)):
            counted = np.bincount(where, weights, math.prod(cells)).reshape(cells)
            columns[name].append(_leaving_at(counted, exit, shape).ravel())
    mesh = np.meshgrid(*axes, indexing="ij")
    return Outcomes(
        thresholds=np.stack([axis.ravel() for axis in mesh], axis=1) if axes else np.zeros((1, 0)),
        samples=samples,
        last_right=int(last.sum()),
        **{name: np.stack(values, axis=1).astype(np.int64) for name, values in columns.items()},
    )


def _leaving_at(counted: NDArray[Any], exit: int, shape: tuple[int, ...]) -> NDArray[Any]:
    """Sum cells of samples that leave at an exit, for every combination of thresholds.

    Cell k of an axis has the samples whose confidence exceeds k of its thresholds. They leave there with
    threshold j if j < k, and stay if k <= j.
    """
    for axis in range(len(shape) - 1, -1, -1):
        if axis > exit:
            counted = counted.sum(axis=axis, keepdims=True)
            continue
        within = np.cumsum(counted, axis=axis)
        upto = np.take(within, range(shape[axis]), axis=axis)
        counted = np.take(within, [shape[axis]], axis=axis) - upto if axis == exit else upto
    return np.broadcast_to(counted, shape)


@dataclass(frozen=True, slots=True)
class ExitPoint:
    """A combination of thresholds with its error and its cost (ns, nJ or MACs a sample)."""

    thresholds: tuple[float, ...]
    error: float
    cost: float
    rates: tuple[float, ...]

    @property
    def criterion(self) -> Criterion:
        """The criterion with these thresholds."""
        return Criterion.of_thresholds(self.thresholds)


@dataclass(frozen=True, kw_only=True)
class ExitFront:
    """The combinations that no other is at least as good as in both; `points` from cheap to right."""

    points: tuple[ExitPoint, ...]
    cost: str
    tried: int

    def cheapest(self, *, error: float) -> ExitPoint | None:
        """Return the least cost with at most this error; None where no point has it. O(log n)."""
        at = bisect.bisect_left(self.points, -error, key=lambda point: -point.error)
        return self.points[at] if at < len(self.points) else None

    def best(self, *, cost: float) -> ExitPoint | None:
        """Return the least error with at most this cost; None where every point costs more. O(log n)."""
        at = bisect.bisect_right(self.points, cost, key=lambda point: point.cost)
        return self.points[at - 1] if at else None


def default_grid(recorded: Recorded, size: int = GRID) -> list[list[float]]:
    """Return thresholds for every exit but the last: quantiles of its confidences, with 0 and 1."""
    sure = np.asarray(recorded.confidences)
    shares = np.linspace(0, 1, size)[1:-1]
    return [[0.0, *np.quantile(sure[:, e], shares).tolist(), 1.0] for e in range(sure.shape[1] - 1)]


def front_of(
    recorded: Recorded,
    profile: ExitProfile,
    *,
    cost: str = "latency",
    grid: Sequence[Sequence[float]] | None = None,
) -> ExitFront:
    """Return the front of error and a cost (latency, energy or macs) over a grid. Raises SchedulerError.

    Of combinations that are equal in both, the first stays.
    """
    return _front(outcomes_of(recorded, default_grid(recorded) if grid is None else grid), profile, cost)


def cost_of(profile: ExitProfile, cost: str) -> tuple[float, ...]:
    """Return the cost of a sample up to each exit. Raises SchedulerError where it is not known."""
    if cost not in COSTS:
        raise SchedulerError(f"a cost must be one of {', '.join(COSTS)}, not {cost!r}")
    if cost == "latency":
        return tuple(map(float, profile.alone_ns))
    return tuple(profile.fact(cost, exit) for exit in range(profile.exits))


def _front(outcomes: Outcomes, profile: ExitProfile, cost: str) -> ExitFront:
    errors, costs = outcomes.error, outcomes.cost(cost_of(profile, cost))
    points: list[ExitPoint] = []
    for row in np.lexsort((errors, costs)):
        if not points or errors[row] < points[-1].error:
            rates = (outcomes.leaves[row] / outcomes.samples).tolist()
            thresholds = tuple(outcomes.thresholds[row].tolist())
            points.append(ExitPoint(thresholds, float(errors[row]), float(costs[row]), tuple(rates)))
    return ExitFront(points=tuple(points), cost=cost, tried=len(errors))


@dataclass(frozen=True, kw_only=True)
class CriterionChoice:
    """The criterion that was chosen; `feasible` False: nothing fulfils the demand, so the whole network runs.

    `point` is what the samples say of it, in-sample.
    """

    criterion: Criterion
    feasible: bool
    point: ExitPoint | None = None
    tried: int = 0

    @property
    def said(self) -> str:
        """The word for tables: the criterion, or that the demand is infeasible."""
        return self.criterion.text if self.feasible else "infeasible: the whole network"


def choose(
    recorded: Recorded,
    profile: ExitProfile,
    *,
    cost: str = "energy",
    accuracy: float | None = None,
    relative: float | None = None,
    guarded: bool = True,
    risk: float = RISK,
    seed: int = 0,
) -> CriterionChoice:
    """Return the cheapest thresholds with at least this accuracy, or this share of the last exit's.

    Guarded: the samples are halved; one half makes the front, and along it, from the most accurate point on,
    the other half tests each: it must prove the demand at `risk`. The first that does not ends the walk, so
    all tests together err with at most `risk` (fixed-sequence testing). Not guarded: the mean of all samples
    is believed, as in Algorithm 2. Raises SchedulerError.
    """
    if (accuracy is None) == (relative is None):
        raise SchedulerError("a choice must have an accuracy or a share of the last exit's, and only one")
    if not guarded:
        outcomes = outcomes_of(recorded, default_grid(recorded))
        wanted = accuracy if accuracy is not None else (relative or 0.0) * outcomes.last_right / outcomes.samples
        front = _front(outcomes, profile, cost)
        point = front.cheapest(error=1 - wanted + 1e-12)
    else:
        makes, tests = halves(recorded, seed)
        front = front_of(makes, profile, cost=cost)
        kept = Kept(accuracy if accuracy is not None else relative or 0.0)

        def seen(half: Recorded, point: ExitPoint) -> NDArray[np.float64]:
            """Return outcomes against the last exit, or against one that is always right."""
            right, exits = np.asarray(half.correct), half.exits([*point.thresholds, 0.0])
            ours = right[np.arange(len(right)), exits]
            return kept.outcomes(ours, right[:, -1] if accuracy is None else np.ones(len(right)))

        def proven(point: ExitPoint) -> bool:
            spread = spread_of(seen(makes, point), kept.mean)
            return proven_above(seen(tests, point), mean=kept.mean, risk=risk, spread=spread, best=kept.best)

        point = next(reversed(fixed_sequence(reversed(front.points), proven)), None)
    if point is None:
        return CriterionChoice(criterion=NEVER, feasible=False, tried=front.tried)
    return CriterionChoice(criterion=point.criterion, feasible=True, point=point, tried=front.tried)


def halves(recorded: Recorded, seed: int = 0) -> tuple[Recorded, Recorded]:
    """Return two halves of the samples, drawn at random."""
    order = np.random.default_rng([81, seed]).permutation(recorded.samples)
    sure, right = np.asarray(recorded.confidences), np.asarray(recorded.correct)
    half = len(order) // 2
    first, second = order[:half], order[half:]
    return Recorded(confidences=sure[first], correct=right[first]), Recorded(
        confidences=sure[second], correct=right[second]
    )


def oracle_exits(recorded: Recorded) -> NDArray[np.int64]:
    """Return for each sample, (samples,), the first exit that is right, and the first exit where none is: a
    bound.
    """
    right = np.asarray(recorded.correct)
    return np.asarray(np.where(right.any(axis=1), right.argmax(axis=1), 0), np.int64)


def first_exit_within(accuracy: Sequence[float], target: float) -> Criterion:
    """Return the first exit with at least the target accuracy, else the last: Delen's Algorithm 1.

    >>> first_exit_within([0.7, 0.8, 0.9], 0.75).text, first_exit_within([0.7, 0.8], 0.99).text
    ('exit_number == 2', 'exit_number == 2')
    """
    return Criterion.of_exit(first_number_within(accuracy, target))


def first_number_within(accuracy: Sequence[float], target: float) -> int:
    """Return the number of the first exit with at least the target accuracy, else of the last, from 1."""
    return next((number for number, share in enumerate(accuracy, 1) if share >= target), len(accuracy))
