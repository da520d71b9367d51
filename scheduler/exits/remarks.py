"""Warnings about criteria that nothing can fulfil, or that everything does at once.

Every quantity is taken for independent of the others, so a warning is never wrong, and some are missed: that
response time is never below service time, for example.

>>> from .parsing import parse_criterion
>>> warnings_of(parse_criterion("confidence > 70"))
('no sample can leave early: confidence > 70 never holds, since confidence is at most 1',)
>>> warnings_of(parse_criterion("slack > 0ms or slack < 1ms"))
('every sample leaves at the first exit, since the criterion always holds',)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from ..errors import CriterionError
from .criterion import AllOf, Criterion, Inequality, Never, Node, Not
from .profile import ExitProfile
from .quantities import known_quantity

MOST_CELLS = 20_000  # combinations of ranges that are looked at; a criterion with more is not judged


def warnings_of(criterion: Criterion, profile: ExitProfile | None = None) -> tuple[str, ...]:
    """Return a sentence for each way in which the criterion is likely a slip; `false` alone is none.

    `profile`: with it accuracies, work and the number of exits are known, too. Raises CriterionError where a
    list of values is shorter than the exits.
    """
    if isinstance(criterion.tree, Never):
        return ()
    verdicts = [_verdict(criterion.tree, exit, profile) for exit in range(_exits(criterion, profile))]
    if None in verdicts or not verdicts:
        return ()
    if all(verdict == "never" for verdict in verdicts):
        return (f"no sample can leave early: {_never(criterion)}",)
    remarks = []
    if verdicts[0] == "always":
        remarks.append("every sample leaves at the first exit, since the criterion always holds")
    if len(criterion.clauses) > 1:
        for clause in criterion.clauses:
            if all(_verdict(clause, exit, profile) == "never" for exit in range(len(verdicts))):
                remarks.append(_never(Criterion(clause)))
    return tuple(remarks)


def _never(criterion: Criterion) -> str:
    """Say why a criterion never holds, where one comparison is the reason."""
    if isinstance(tree := criterion.tree, Inequality):
        quantity = known_quantity(tree.quantity)
        if tree.operator[0] == ">" and math.isfinite(quantity.most):
            return f"{tree} never holds, since {tree.quantity} is at most {quantity.most:g}"
        if tree.operator[0] == "<" and math.isfinite(quantity.least):
            return f"{tree} never holds, since {tree.quantity} is at least {quantity.least:g}"
    return f"{criterion} never holds"


def _exits(criterion: Criterion, profile: ExitProfile | None) -> int:
    """Return how many exits but the last there are, or so many that each number in the criterion has one."""
    if profile is not None:
        return profile.exits - 1
    most = 1
    for inequality in criterion.comparisons():
        if isinstance(inequality.value, tuple):
            most = min(most, len(inequality.value)) if most > 1 else len(inequality.value)
        elif inequality.quantity == "exit_number":
            most = max(most, min(int(inequality.value) + 1, 64))
    lists = [len(comparison.value) for comparison in criterion.comparisons() if isinstance(comparison.value, tuple)]
    return min([most, *lists])


def _verdict(node: Node, exit: int, profile: ExitProfile | None) -> str | None:
    """Return 'never', 'always' or 'sometimes' at an exit; None where there is too much to look at."""
    bounds: dict[str, set[float]] = {}
    for comparison in Criterion(node).comparisons():
        bounds.setdefault(comparison.quantity, set()).add(comparison.value_at(exit))
    ranges = {name: list(_samples(name, values, exit, profile)) for name, values in bounds.items()}
    if math.prod(map(len, ranges.values())) > MOST_CELLS:
        return None
    outcomes = {
        _holds(node, dict(zip(ranges, values, strict=True)), exit) for values in itertools.product(*ranges.values())
    }
    return "sometimes" if len(outcomes) == 2 else "always" if True in outcomes else "never"


def _samples(name: str, edges: set[float], exit: int, profile: ExitProfile | None) -> Iterator[float]:
    """Yield a value of every range between the edges, and the edges, as far as the quantity can be there."""
    quantity = known_quantity(name)
    if name == "exit_number":
        yield float(exit + 1)
        return
    if not quantity.by_sample and profile is not None:
        try:
            yield profile.fact(name, exit)
            return
        except CriterionError:
            pass  # not known: it may be anything
    ends = sorted(edges | {end for end in (quantity.least, quantity.most) if math.isfinite(end)})
    middles = [(low + high) / 2 for low, high in itertools.pairwise(ends)]
    for value in (ends[0] - 1, *ends, *middles, ends[-1] + 1):
        if quantity.least <= value <= quantity.most:
            yield value


def _holds(node: Node, values: Mapping[str, float], exit: int) -> bool:
    """Evaluate a tree on plain numbers: also the oracle that the evaluation of batches is tested with."""
    if isinstance(node, Never):
        return False
    if isinstance(node, Not):
        return not _holds(node.part, values, exit)
    if isinstance(node, Inequality):
        left, right = values[node.quantity], node.value_at(exit)
        return {
            "<": left < right,
            "<=": left <= right,
            "==": left == right,
            "!=": left != right,
            ">=": left >= right,
            ">": left > right,
        }[node.operator]
    every = isinstance(node, AllOf)
    return (all if every else any)(_holds(part, values, exit) for part in node.parts)
