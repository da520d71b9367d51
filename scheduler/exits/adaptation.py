"""Modes: what an application's criterion becomes when the time that it has for a request changes.

The budget is the mean NPU time of a request, in ns: an application's share of the NPU over its arrival rate.
A target accuracy saves what the budget would allow beyond it; where the budget does not reach the target, the
budget decides.

>>> from fluidnpu.dse import LatencyTable
>>> profile = ExitProfile(latency=LatencyTable(ns=((100,), (80,), (90,))))
>>> [PerWorkload(profile).criterion(budget).text for budget in (50, 185, 999)]
['exit_number == 1', 'exit_number == 2', 'exit_number == 3']
>>> data = Recorded(confidences=[[0.9, 0.9, 1], [0.3, 0.6, 1]], correct=[[1, 1, 1], [0, 1, 1]])
>>> pareto = Pareto(front_of(data, profile), limit=parse_criterion("next_response_time > 1us"))
>>> [pareto.criterion(budget).text[:14] for budget in (50, 300)]
['exit_number ==', 'confidence > [']
>>> profile = dataclasses.replace(profile, accuracy=(0.5, 0.8, 1.0))
>>> [PerWorkload(profile, accuracy=0.8).criterion(budget).text for budget in (50, 999)]
['exit_number == 1', 'exit_number == 2']
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Protocol

from .criterion import Criterion
from .fronts import CriterionChoice, ExitFront, choose, first_number_within, front_of
from .parsing import parse_criterion
from .profile import ExitProfile
from .recorded import Recorded

MODES = {
    "fixed": "its criterion stays as it is",
    "per-workload": "one exit for all its requests, the deepest that its share of the NPU allows",
    "pareto": "the thresholds of least error that its share of the NPU allows",
}


class AdaptationMode(Protocol):
    """Turns the time that a request may take on average into a criterion."""

    @property
    def feasible(self) -> bool:
        """False where nothing has the target accuracy, so that the budget alone decides."""

    def criterion(self, budget_ns: float) -> Criterion:
        """Return the criterion for a mean NPU time of a request."""


@dataclass(frozen=True)
class Fixed:
    """The same criterion at any budget."""

    usual: Criterion

    @property
    def feasible(self) -> bool:
        """Always: there is no target."""
        return True

    def criterion(self, budget_ns: float) -> Criterion:
        """Return the usual criterion."""
        return self.usual


@dataclass(frozen=True)
class PerWorkload:
    """The deepest exit that every request reaches within the budget; the first where none does.

    With an `accuracy` no deeper one than the first that has it: Delen's Algorithm 1.
    """

    profile: ExitProfile
    accuracy: float | None = None

    @property
    def feasible(self) -> bool:
        """False where no exit has the accuracy."""
        return self.accuracy is None or max(self.profile.accuracy or (0.0,)) >= self.accuracy

    def criterion(self, budget_ns: float) -> Criterion:
        """Return the exit's criterion."""
        deepest = max(1, sum(ns <= budget_ns for ns in self.profile.alone_ns))
        if self.accuracy is not None and self.profile.accuracy is not None:
            deepest = min(deepest, first_number_within(self.profile.accuracy, self.accuracy))
        return Criterion.of_exit(deepest)


@dataclass(frozen=True)
class Pareto:
    """The point of least error on a front of error and latency; beyond it the first exit.

    `limit` is joined with `or`: a front plans for the mean and knows no backlog, a limit looks at the
    request. `target`: the cheapest thresholds with the accuracy that is asked for, Delen's Algorithm 2; they
    hold wherever the budget allows them.
    """

    front: ExitFront
    limit: Criterion | None = None
    target: CriterionChoice | None = None
    _first: Criterion = field(default=Criterion.of_exit(1), repr=False)

    @property
    def feasible(self) -> bool:
        """False where no thresholds have the accuracy, with the bound."""
        return self.target is None or self.target.feasible

    def criterion(self, budget_ns: float) -> Criterion:
        """Return the point's criterion."""
        point, wanted = self.front.best(cost=budget_ns), None if self.target is None else self.target.point
        if wanted is not None and wanted.cost <= budget_ns:
            point = wanted
        criterion = self._first if point is None else point.criterion
        return criterion if self.limit is None else criterion.joined(self.limit)


def make_mode(
    name: str,
    profile: ExitProfile,
    usual: Criterion,
    recorded: Recorded | None = None,
    *,
    accuracy: float | None = None,
) -> AdaptationMode:
    """Return a mode by its name; the usual criterion of `pareto` is its limit, unless it is `false`.

    `accuracy`: the share of right answers that is enough. Raises SchedulerError.
    """
    from ..errors import SchedulerError

    if name not in MODES:
        raise SchedulerError(f"a mode must be one of {', '.join(MODES)}, not {name!r}")
    if name == "fixed":
        return Fixed(usual)
    if recorded is None and (name == "pareto" or accuracy is not None):
        what = "a target accuracy" if accuracy is not None else f"the mode '{name}'"
        raise SchedulerError(f"{what} must have recorded confidences of labelled samples, and there are none")
    if recorded is None or name == "per-workload":
        measured = None if recorded is None else recorded.accuracy
        return PerWorkload(dataclasses.replace(profile, accuracy=measured), accuracy)
    limit = None if usual == parse_criterion("false") else usual
    target = None if accuracy is None else choose(recorded, profile, cost="latency", accuracy=accuracy)
    return Pareto(front_of(recorded, profile), limit=limit, target=target)
