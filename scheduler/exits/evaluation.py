"""Criteria asked at the exits of one network, for whole batches: what is the same for all is folded first.

Columns are plain lists of floats: a batch has a handful of samples, for which an array costs more to make
than the comparison does.

>>> from fluidnpu.dse import LatencyTable
>>> from .parsing import parse_criterion
>>> profile = ExitProfile(latency=LatencyTable(ns=((100, 150), (80, 120), (80, 120))))
>>> bound = Bound(parse_criterion("exit_number == 2 or confidence > [0.9, 0.8]"), profile)
>>> bound.leaving(0, {"confidence": [0.95, 0.5]})
['confidence > [0.9, 0.8]', '']
>>> bound.leaving(1, {"confidence": [0.1, 0.1]})
['exit_number == 2', 'exit_number == 2']
>>> bound.exits_alone({"confidence": np.array([[0.95, 0.2, 0.1], [0.1, 0.1, 0.1]])}, count=2).tolist()
[0, 1]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CriterionError
from ..policy import Request
from .criterion import AnyOf, Criterion, Inequality, Never, Node, Not
from .profile import ExitProfile
from .quantities import known_quantity

Floats = Sequence[float]
Columns = Mapping[str, Floats]
Test = Callable[[Columns], list[bool]]
_COMPARE: dict[str, Callable[[Floats, float], list[bool]]] = {
    "<": lambda column, value: [x < value for x in column],
    "<=": lambda column, value: [x <= value for x in column],
    "==": lambda column, value: [x == value for x in column],
    "!=": lambda column, value: [x != value for x in column],
    ">=": lambda column, value: [x >= value for x in column],
    ">": lambda column, value: [x > value for x in column],  # float64, as `models.exits.exceeds_threshold`
}


class AtExit(dict[str, Floats]):
    """The columns of a batch at an exit, each made when it is first asked for."""

    def __init__(
        self,
        requests: Sequence[Request],
        started_ns: Sequence[int],
        now_ns: int,
        next_ns: int,
        confidences: Sequence[float] | None,
    ) -> None:
        super().__init__()
        self.requests, self.started_ns, self.now_ns, self.next_ns = requests, started_ns, now_ns, next_ns
        self.confidences = confidences

    def __missing__(self, name: str) -> Floats:
        now = self.now_ns
        values: Floats
        if name == "confidence":
            if self.confidences is None:
                raise CriterionError(
                    "a criterion over confidence must have the confidence of each sample, and none is known"
                )
            values = self.confidences
        elif name == "response_time":
            values = [now - request.arrival_ns for request in self.requests]
        elif name == "next_response_time":
            now += self.next_ns
            values = [now - request.arrival_ns for request in self.requests]
        elif name == "slack":
            values = [request.deadline_ns - now for request in self.requests]
        else:
            values = [now - started for started in self.started_ns]
        self[name] = values
        return values

    def of(self, indices: Sequence[int]) -> AtExit:
        """Return the columns of some of the samples."""
        confidences = None if self.confidences is None else [self.confidences[i] for i in indices]
        requests, started = [self.requests[i] for i in indices], [self.started_ns[i] for i in indices]
        return AtExit(requests, started, self.now_ns, self.next_ns, confidences)


class Bound:
    """A criterion over one network's exits. Raises CriterionError where it asks what is not known there."""

    def __init__(self, criterion: Criterion, profile: ExitProfile) -> None:
        self.criterion, self.profile = criterion, profile
        self._clauses = [_clauses(criterion, profile, exit) for exit in range(profile.exits - 1)]

    @property
    def timed(self) -> bool:
        """True when an exit depends on when things happen, not on the sample alone."""
        return any(known_quantity(name).timed for name in self.criterion.quantities)

    def leaving(self, exit: int, columns: Columns, count: int | None = None) -> list[str]:
        """Return for each sample the clause that lets it leave at an exit but the last, or an empty text.

        `count`: the number of samples, where no clause looks at a column.
        """
        reasons: list[str] | None = None
        for text, test in self._clauses[exit]:
            if test is None:
                return [reason or text for reason in reasons] if reasons else [text] * _count(columns, count)
            holds = test(columns)
            if reasons is None:
                reasons = [text if held else "" for held in holds]
            elif True in holds:
                reasons = [reason or (text if held else "") for reason, held in zip(reasons, holds, strict=True)]
        return [""] * _count(columns, count) if reasons is None else reasons

    def exits_alone(self, columns: Mapping[str, NDArray[Any]], *, count: int | None = None) -> NDArray[np.int64]:
        """Return the exit (samples,) of each sample on an NPU that has nothing else to do.

        `columns`: (samples, exits) where they are known beforehand; times are those of a lone sample, and its
        slack is without end.
        """
        last = self.profile.exits - 1
        size = count if count is not None else len(next(iter(columns.values())))
        chosen, open_ = np.full(size, last, np.int64), np.ones(size, bool)
        for exit in range(last):
            alone = self.profile.alone_ns[exit]
            times = {
                "response_time": alone,
                "service_time": alone,
                "next_response_time": alone + self.profile.next_ns[exit],
                "slack": np.inf,
            }
            here: dict[str, Floats] = {name: column[:, exit].tolist() for name, column in columns.items()}
            here |= {name: [float(ns)] * size for name, ns in times.items()}
            leaves = np.array([bool(text) for text in self.leaving(exit, _Known(here), size)], bool)
            chosen[open_ & leaves] = exit
            open_ &= ~leaves
        return chosen


class _Known(dict[str, Floats]):
    """Columns that must all be there."""

    def __missing__(self, name: str) -> Floats:
        raise CriterionError(f"a criterion over {name} must have the {name} of each sample, and none is known")


def _count(columns: Columns, count: int | None) -> int:
    if isinstance(columns, AtExit):
        return len(columns.requests)
    return count if count is not None else len(next(iter(columns.values())))


def _clauses(criterion: Criterion, profile: ExitProfile, exit: int) -> tuple[tuple[str, Test | None], ...]:
    """Return what is left of each clause at an exit; a test of None always holds and ends the list."""
    kept: list[tuple[str, Test | None]] = []
    folded = [_fold(clause, profile, exit) for clause in criterion.clauses]
    for clause, test in zip(criterion.clauses, folded, strict=True):
        if test is True:
            return (*kept, (str(clause), None))
        if not isinstance(test, bool):
            kept.append((str(clause), test))
    return tuple(kept)


def _fold(node: Node, profile: ExitProfile, exit: int) -> bool | Test:
    """Return True or False where that is certain at the exit, else the test of the columns."""
    if isinstance(node, Never):
        return False
    if isinstance(node, Inequality):
        compare, value, name = _COMPARE[node.operator], node.value_at(exit), node.quantity
        if not known_quantity(name).by_sample:
            return compare((profile.fact(name, exit),), value)[0]
        return lambda columns: compare(columns[name], value)
    if isinstance(node, Not):
        inner = _fold(node.part, profile, exit)
        return not inner if isinstance(inner, bool) else lambda columns: [not held for held in inner(columns)]
    parts = [_fold(part, profile, exit) for part in node.parts]
    decisive = isinstance(node, AnyOf)
    if any(part is decisive for part in parts):
        return decisive
    tests = [part for part in parts if not isinstance(part, bool)]
    if not tests:
        return not decisive
    return tests[0] if len(tests) == 1 else _combine(tests, any if decisive else all)


def _combine(tests: Sequence[Test], join: Callable[[tuple[bool, ...]], bool]) -> Test:
    return lambda columns: [join(held) for held in zip(*(test(columns) for test in tests), strict=True)]
