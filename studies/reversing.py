"""Worlds that are not ours, for rules that must be able to come out each way.

A verdict is a function of a study's numbers. Here the numbers are changed, one thing at a time: all that a
key names is scaled, turned over or taken away, or two things that are compared change places. Every part of
every rule must be seen to hold in one of these worlds and to fail in another; a rule whose part cannot is one
that no outcome could have refuted. Rules are found by asking the study for its statements, so none can be
forgotten.

>>> def rule(body):
...     holds = [body["x"]["ms"] < 3, 1 < 2]
...     return [Verdict(where="a", statement="b", paper="", ours="", why="", holds=holds)]
>>> [one.both for one in outcomes({"x": {"ms": 2.0}}, rule)[0].parts]
[True, False]
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

from .statements import Verdict
from .writing import table_head, table_row

Body = Mapping[str, Any]
Place = tuple[Any, Any]  # a container, and the key or index of a value in it
Undo = list[tuple[Any, Any, Any]]  # places with the values that they had
FACTORS = (0.0, 3.0, 0.3, -1.0, 1000.0, 0.9, 1.15)
SHIFTS = (2.0, -2.0)  # added, since nothing scales a zero
OURS = "ours"
MOST_SWAPS = 14  # keys of a mapping, each pair of which is exchanged; of longer ones neighbours are


@dataclass
class RulePart:
    """A part of a rule: the worlds in which it holds and fails, by name; the first is ours."""

    holds: str = ""
    fails: str = ""

    @property
    def both(self) -> bool:
        """Return whether it was seen to come out each way."""
        return bool(self.holds and self.fails)

    def see(self, held: bool, world: str) -> None:
        """Remember the first world of each outcome."""
        if held:
            self.holds = self.holds or world
        else:
            self.fails = self.fails or world


@dataclass
class RuleVerdict:
    """A statement with what became of its parts, and the first world that gives each verdict."""

    statement: Verdict
    parts: list[RulePart]
    verdicts: dict[str, str] = field(default_factory=dict)
    begun: int | None = None  # the first world that gives another verdict than ours

    @property
    def done(self) -> bool:
        """Return whether every part has come out each way, and the verdict with them."""
        return all(part.both for part in self.parts) and (len(self.verdicts) > 1 or not self.parts)

    def see(self, verdict: Verdict, world: str) -> None:
        """Take in what a world makes of it, part by part as far as ours has parts."""
        self.verdicts.setdefault(verdict.verdict, world)
        for part, held in zip(self.parts, verdict.holds, strict=False):
            part.see(bool(held), world)


def outcomes(body: Body, verdicts: Callable[[Body], Sequence[Verdict]]) -> list[RuleVerdict]:
    """Change a study's numbers until every part of its rules has come out each way, or all worlds are tried.

    Where one change is not enough, others are tried on top of the first that gave another verdict. A world in
    which the rules cannot be asked, such as one without a number that they divide by, is passed.
    """
    rules = [RuleVerdict(verdict, [RulePart() for _ in verdict.holds]) for verdict in verdicts(body)]
    for rule in rules:
        rule.see(rule.statement, OURS)
    _try(copy.deepcopy(dict(body)), verdicts, rules, "")
    for first in sorted({rule.begun for rule in rules if not rule.done and rule.begun is not None}):
        other = copy.deepcopy(dict(body))
        name = _enter(other, first)
        _try(other, verdicts, [rule if rule.begun == first else None for rule in rules], f"{name}, then ")
    return rules


def list_rules(rules: Sequence[RuleVerdict]) -> list[str]:
    """Write rules as rows of Markdown: the statement, and the first world that gives each verdict."""
    rows = table_head(["where", "statement", "verdicts, and the first world of each"])
    for rule in rules:
        worlds = "; ".join(f"**{verdict}**: {world}" for verdict, world in rule.verdicts.items())
        cells = (rule.statement.where, rule.statement.statement, worlds)
        rows.append(table_row([cell.replace("|", "/") for cell in cells]))
    return rows


def _enter(body: dict[str, Any], number: int) -> str:
    """Change the body to the world of that number, and give its name."""
    for index, (name, undo) in enumerate(_worlds(body)):
        if index == number:
            return name
        _restore(undo)
    raise IndexError(f"worlds end before {number}")


def _restore(undo: Undo) -> None:
    for place, key, value in reversed(undo):
        place[key] = value


def _try(
    body: dict[str, Any],
    verdicts: Callable[[Body], Sequence[Verdict]],
    rules: Sequence[RuleVerdict | None],
    before: str,
) -> None:
    """Ask the rules in world after world, until those that are given are done."""
    for index, (name, undo) in enumerate(_worlds(body)):
        if all(rule is None or rule.done for rule in rules):
            return
        try:
            stated = verdicts(body)
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            stated = []
        finally:
            _restore(undo)
        for rule, verdict in zip(rules, stated, strict=False):
            if rule is None:
                continue
            rule.see(verdict, before + name)
            if rule.begun is None and verdict.verdict != rule.statement.verdict:
                rule.begun = index


def _worlds(body: dict[str, Any]) -> Iterator[tuple[str, Undo]]:
    """Change the body in place, world by world; the caller puts back what is told with each."""
    named = _by_key(body)
    for factor in FACTORS:
        for key, places in named.items():
            yield f"{key} x {factor:g}", _changed(places, factor)
    for shift in SHIFTS:
        for key, places in named.items():
            yield f"{key} {shift:+g}", _changed(places, 1.0, shift)
    groups = _alike(body)
    for keys, mappings in groups.items():
        yield f"{keys[0]} to {keys[-1]} in reverse", _replaced(mappings, dict(zip(keys, reversed(keys), strict=True)))
        pairs = combinations(keys, 2) if len(keys) <= MOST_SWAPS else pairwise(keys)
        for first, other in pairs:
            yield f"{first} and {other} exchanged", _replaced(mappings, {first: other, other: first})
    for key, places in named.items():
        yield f"{key} turned over", _turned(places)
        yield f"{key} taken away, or put there", _taken(places)
    inner = {key: places for key, places in named.items() if any(isinstance(c[k], dict) for c, k in places)}
    for line, tops in inner.items():
        below: dict[str, list[Place]] = {}
        for container, key in tops:
            for name, places in _by_key(container[key]).items():
                below.setdefault(name, []).extend(places)
        for name, places in below.items():
            for factor in FACTORS:
                yield f"{name} of {line} x {factor:g}", _changed(places, factor)


def _by_key(value: Any) -> dict[str, list[Place]]:
    """Give the places of all values by the key that names them."""
    places: dict[str, list[Place]] = {}
    for container, key in _places(value):
        places.setdefault(key, []).append((container, key))
    return places


def _places(value: Any) -> Iterator[Place]:
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _places(value[key])
    elif isinstance(value, list):
        for element in value:
            yield from _places(element)


def _leaves(container: Any, key: Any) -> Iterator[Place]:
    value = container[key]
    if isinstance(value, dict | list):
        for inner in value if isinstance(value, dict) else range(len(value)):
            yield from _leaves(value, inner)
    else:
        yield container, key


def _changed(places: Sequence[Place], factor: float, shift: float = 0.0) -> Undo:
    """Scale and shift all numbers below; factors also make all true or false, and empty text."""
    undo = []
    for top in places:
        for container, key in list(_leaves(*top)):
            value = container[key]
            undo.append((container, key, value))
            if isinstance(value, bool):
                container[key] = factor > 1 if factor in (FACTORS[0], FACTORS[1]) else value
            elif isinstance(value, int | float):
                container[key] = value * factor + shift
            elif isinstance(value, str) and factor == 0:
                container[key] = ""
    return undo


def _turned(places: Sequence[Place]) -> Undo:
    """Turn lists over."""
    undo = []
    for container, key in places:
        value = container[key]
        undo.append((container, key, value))
        container[key] = value[::-1] if isinstance(value, list) else value
    return undo


def _taken(places: Sequence[Place]) -> Undo:
    """Take away what is there; put what a neighbour has where nothing is."""
    undo = []
    for container, key in places:
        value = container[key]
        undo.append((container, key, value))
        container[key] = next((v for v in container.values() if v is not None), None) if value is None else None
    return undo


def _alike(body: Any) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """Give all mappings with the same keys."""
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    stack = [body]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            rows.setdefault(tuple(sorted(value)), []).append(value)
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
    return {keys: mappings for keys, mappings in rows.items() if len(keys) > 1}


def _replaced(mappings: Sequence[dict[str, Any]], source: Mapping[str, str]) -> Undo:
    """Let keys have the values of others, where they are of a kind."""
    undo = []
    for mapping in mappings:
        before = dict(mapping)
        for key, other in source.items():
            if type(before[key]) is not type(before[other]):
                continue
            undo.append((mapping, key, before[key]))
            mapping[key] = before[other]
    return undo
