"""A criterion as a frozen tree: when a sample may leave at an exit, with canonical text and digest.

>>> from .parsing import parse_criterion
>>> one = parse_criterion("(response_time > 20ms) || confidence > 70%")
>>> one.text
'response_time > 20ms or confidence > 0.7'
>>> one.quantities
('confidence', 'response_time')
>>> Criterion.of_thresholds([0.9, 0.8]).text
'confidence > [0.9, 0.8]'
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..errors import CriterionError, SchedulerError
from .quantities import known_quantity, written

OPERATORS = ("<=", ">=", "==", "!=", "<", ">")


@dataclass(frozen=True, slots=True)
class Inequality:
    """A quantity against a value in its base unit, or `confidence` against one value for each exit."""

    quantity: str
    operator: str
    value: float | tuple[float, ...]
    column: int = field(default=0, compare=False)  # in the text that it was read from, from 1

    def __post_init__(self) -> None:
        known_quantity(self.quantity)
        if self.operator not in OPERATORS:
            raise SchedulerError(f"a comparison must have one of {', '.join(OPERATORS)}, not '{self.operator}'")

    def value_at(self, exit: int) -> float:
        """Return the value that holds at an exit, counted from 0.

        Raises CriterionError for a list that ends before.
        """
        if not isinstance(self.value, tuple):
            return self.value
        if exit >= len(self.value):
            raise CriterionError(
                f"'{self}' must list a value for every exit but the last, and it has {len(self.value)}, "
                f"so none for exit {exit + 1}"
            )
        return self.value[exit]

    def __str__(self) -> str:
        quantity = known_quantity(self.quantity)
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        text = ", ".join(written(value, quantity) for value in values)
        return f"{self.quantity} {self.operator} {f'[{text}]' if isinstance(self.value, tuple) else text}"


@dataclass(frozen=True, slots=True)
class Never:
    """`false`: nobody leaves before the last exit."""

    def __str__(self) -> str:
        return "false"


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a part."""

    part: Node

    def __str__(self) -> str:
        return f"not {_inside(self.part, (AllOf, AnyOf))}"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Parts that must all hold: `and`. Parts that are `and`s themselves are joined."""

    parts: tuple[Node, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _join(self.parts, AllOf))

    def __str__(self) -> str:
        return " and ".join(_inside(part, (AnyOf,)) for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Parts of which one must hold: `or`. Parts that are `or`s themselves are joined."""

    parts: tuple[Node, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _join(self.parts, AnyOf))

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


Node = Inequality | Never | Not | AllOf | AnyOf


@dataclass(frozen=True)
class Criterion:
    """A criterion. Equal criteria have equal trees, texts and digests."""

    tree: Node

    @classmethod
    def of_thresholds(cls, thresholds: Sequence[float]) -> Criterion:
        """Return the rule of a network with one threshold for every exit but the last.

        Raises SchedulerError where one is no number.
        """
        values = tuple(float(threshold) for threshold in thresholds)
        if any(value != value for value in values):
            raise SchedulerError(f"thresholds must be numbers, not {list(values)}")
        if not values:
            return NEVER
        return cls(Inequality("confidence", ">", values[0] if len(values) == 1 else values))

    @classmethod
    def of_exit(cls, number: int) -> Criterion:
        """Return the criterion with which every sample leaves at one exit, counted from 1."""
        return cls(Inequality("exit_number", "==", float(number)))

    def joined(self, other: Criterion) -> Criterion:
        """Return the criterion that holds where this one or the other does."""
        return Criterion(AnyOf((self.tree, other.tree)))

    @cached_property
    def text(self) -> str:
        """The canonical text, which reads back to the same tree."""
        return str(self.tree)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def clauses(self) -> tuple[Node, ...]:
        """The parts of which each alone lets a sample leave."""
        return self.tree.parts if isinstance(self.tree, AnyOf) else (self.tree,)

    @cached_property
    def quantities(self) -> tuple[str, ...]:
        """The names of the quantities that it looks at, sorted."""
        return tuple(sorted({comparison.quantity for comparison in self.comparisons()}))

    def comparisons(self) -> Iterator[Inequality]:
        """Yield the comparisons from left to right."""
        yield from _comparisons(self.tree)

    def __str__(self) -> str:
        return self.text


NEVER = Criterion(Never())


def _comparisons(node: Node) -> Iterator[Inequality]:
    if isinstance(node, Inequality):
        yield node
    elif isinstance(node, Not):
        yield from _comparisons(node.part)
    elif isinstance(node, AllOf | AnyOf):
        for part in node.parts:
            yield from _comparisons(part)


def _join(parts: tuple[Node, ...], kind: type[AllOf] | type[AnyOf]) -> tuple[Node, ...]:
    joined: list[Node] = []
    for part in parts:
        if isinstance(part, kind):
            joined += part.parts
        else:
            joined.append(part)
    if len(joined) < 2:
        raise SchedulerError(f"'and' and 'or' must join at least two parts, not {len(joined)}")
    return tuple(joined)


def _inside(part: Node, kinds: tuple[type, ...]) -> str:
    return f"({part})" if isinstance(part, kinds) else str(part)
