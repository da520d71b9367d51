"""The one evaluator of the studies: a paper's table of statements and exhibits, on the numbers of a run.

`data/exhibits.toml` of a study is that table. A `[[statement]]` has its place in the paper (`where`), what
the paper states and prints, the `quantity` that stands for it here, how that is written (`ours`), the
relations that must hold with their tolerances (`holds`), and a note (`why`). A quantity is a function of the
study's `quantities.py` or a path into the parts of a run, and gives values by name; one that gives a list
makes a statement of each element. A `[[table]]` writes quantities in rows.

A path has keys between slashes. A key that a mapping does not have is looked up in all its values; `mean`,
`low` and `high` are the ends of an interval; `first`, `last`, `least` and `most` pick among values. A
relation between collections has a part for each value, and one part if it begins with `all`.

>>> names = {"ms": {"a": [2.0, 1.0, 3.0], "b": [5.0, 4.0, 6.0]}, "bar": 4}
>>> find(names, "ms/high"), find(names, "ms/mean/least")
({'a': 3.0, 'b': 6.0}, 2.0)
>>> related("ms/mean < bar", names), related("all ms/mean < bar by 2", names)
([True, False], [True])
>>> fill("{ms:1 ms}; bar {bar}", names)
'a: 2.0 ± 1.0 ms, b: 5.0 ± 1.0 ms; bar 4'
"""

from __future__ import annotations

import math
import operator
import re
import string
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module, resources
from itertools import groupby, pairwise, repeat
from typing import Any

from ..statements import Verdict
from ..writing import by_number, plus_minus, share_interval, share_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_LEAST = 0.8  # a part of a statement on drawn data holds on at least this share of all data of the kind
ENDS = {"mean": (0, math.inf), "low": (1, -math.inf), "high": (2, math.inf)}  # index, and value where there is none
PICKS: dict[str, Callable[[list[Any]], Any]] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "least": lambda values: min(values, default=math.nan),  # no relation holds of a number that is none
    "most": lambda values: max(values, default=math.nan),
}
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}
ORDERS = {"rises": operator.lt, "falls": operator.gt, "never falls": operator.le, "never rises": operator.ge}
_COMPARED = re.compile(r"(.+?) (<=?|>=?|==|near) (.+?)(?: (by|times|within) (\S+))?")
_ORDERED = re.compile(f"(.+?) ({'|'.join(ORDERS)})")
Names = Mapping[str, Any]


def find(value: Any, path: str) -> Any:
    """Follow a path through mappings, sequences and intervals. Raises KeyError for one that leads nowhere."""
    for key in path.split("/"):
        value = _step(value, key)
    return value


def _step(value: Any, key: str) -> Any:
    if isinstance(value, Mapping) and key in value:
        return value[key]
    if key in ENDS and (value is None or is_interval(value)):
        index, none = ENDS[key]
        return none if value is None or value[index] is None else value[index]
    if isinstance(value, Mapping):
        return PICKS[key](list(value.values())) if key in PICKS else {k: _step(v, key) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return PICKS[key](list(value)) if key in PICKS else tuple(_step(one, key) for one in value)
    raise KeyError(key)


def is_interval(value: Any) -> bool:
    """Return whether a value is `[mean, low, high]`; other sequences are tuples or have another length."""
    return isinstance(value, list) and len(value) == 3 and all(x is None or isinstance(x, int | float) for x in value)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, list | tuple) and not is_interval(value):
        return [leaf for one in value for leaf in _leaves(one)]
    return [value]


def related(relation: str, names: Names) -> list[bool]:
    """Judge one relation, part by part. Nothing holds of a collection without values."""
    text = relation.removeprefix("all ")
    if " and " in text:
        return [all(part for one in text.split(" and ") for part in related(one, names))]
    chain = re.split(r" (<=?|>=?) ", text)
    if len(chain) > 3:  # a < b < c is one part
        links = [" ".join(chain[at : at + 3]) for at in range(0, len(chain) - 2, 2)]
        return [all(part for link in links for part in related(link, names))]
    if compared := _COMPARED.fullmatch(text):
        parts = _compare(compared, names)
    elif ordered := _ORDERED.fullmatch(text):
        values = find(names, ordered[1])
        values = list(values.values()) if isinstance(values, Mapping) else list(values)
        rows = values if values and isinstance(values[0], list | tuple) else [values]
        parts = [all(ORDERS[ordered[2]](a, b) for a, b in pairwise(row)) for row in rows]
    else:
        parts = [bool(leaf) != text.startswith("not ") for leaf in _leaves(find(names, text.removeprefix("not ")))]
    return [bool(parts) and all(parts)] if relation.startswith("all ") else parts or [False]


def _compare(relation: re.Match[str], names: Names) -> list[bool]:
    """Compare each value with a bound that a tolerance shifts (by), scales (times) or surrounds (near)."""
    left, sign, right, kind, tolerance = relation.groups()
    slack, values, bound = float(tolerance or 0), _leaves(_operand(left, names)), _operand(right, names)
    bounds = _leaves(bound) if isinstance(bound, Mapping | tuple) else repeat(bound, len(values))
    pairs = list(zip(values, bounds, strict=True))
    if sign == "near":
        return [abs(a / b - 1 if kind == "within" else a - b) <= slack for a, b in pairs]
    return [bool(RELATIONS[sign](a, b * slack if kind == "times" else b + slack)) for a, b in pairs]


def _operand(text: str, names: Names) -> Any:
    try:
        return float(text)
    except ValueError:
        return find(names, text)


def write(value: Any, form: str = "") -> str:
    """Write a value. `form`: % for shares, + for signs, digits behind the point, a unit; all optional.

    >>> write(0.1234, "%1 %"), write({"a": True, "b": (1234.5, 2)}), write(None, "1 ms"), write(None)
    ('12.3 %', 'a: yes; b: 1,234, 2', 'unstable', '-')
    """
    share, sign, digits, unit = re.fullmatch(r"(%?)(\+?)(\d?)(.*)", form).groups()  # type: ignore[union-attr]
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value != value:
        return "unstable" if form and value is None else "-"
    if is_interval(value):
        return plus_minus(value, int(digits or 1), unit=unit, sign=bool(sign))
    if isinstance(value, Mapping | list | tuple):
        inner = [one for one in (value.values() if isinstance(value, Mapping) else value) if not is_interval(one)]
        joint = "; " if any(isinstance(one, Mapping | list | tuple) for one in inner) else ", "
        if isinstance(value, Mapping):
            return joint.join(f"{key}: {write(one, form)}" for key, one in value.items()) or "none"
        return joint.join(write(one, form) for one in value) or "none"
    value = 100 * value if share else value
    if digits:
        return f"{value:{sign}.{digits}f}{unit}"
    return (f"{value:{sign},.0f}" if abs(value) >= 1000 else f"{value:{sign}.4g}") + unit


class _Filled(string.Formatter):
    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        return find(kwargs, field_name), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        return write(value, format_spec)


def fill(text: str, names: Names) -> str:
    """Put values into a text: `{path}`, or `{path:form}` as `write` has it."""
    return _Filled().vformat(text, (), names)


@dataclass(frozen=True)
class Table:
    """One table as text: its title, a note about it, its head and its rows."""

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Exhibits:
    """The table of a paper (`data/exhibits.toml`) and the functions of `quantities.py` beside it."""

    facts: Mapping[str, Any]
    functions: Mapping[str, Callable[[Names], Any]]

    @classmethod
    def of(cls, package: str) -> Exhibits:
        """Read the table of a study."""
        text = resources.files(package).joinpath("data").joinpath("exhibits.toml").read_text(encoding="utf-8")
        module = import_module(f"{package}.quantities")
        own = {name: one for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__}
        return cls(tomllib.loads(text), own)

    def quantity(self, name: str, parts: Names) -> Any:
        """Give the names and values of a quantity. Raises KeyError for one that the parts do not have."""
        return self.functions[name](parts) if name in self.functions else find(parts, name) if name else parts

    def verdicts(self, parts: Names) -> list[Verdict]:
        """Judge every statement, in the paper's order."""
        verdicts = []
        for quantity, rows in groupby(self.facts["statement"], key=lambda row: row.get("quantity", "")):
            statements, values = list(rows), self.quantity(quantity, parts)
            for names in values if isinstance(values, list) else [values]:
                verdicts += [self._drawn(row, self._judge(row, names), parts) for row in statements]
        return verdicts

    def _judge(self, row: Names, names: Names) -> Verdict:
        """Judge a statement by the names and values of its quantity."""
        texts = {key: fill(row.get(key, "-"), names) for key in ("where", "statement", "paper", "ours", "why")}
        shown = next((title for key, title in self.facts["shown"].items() if texts["where"].startswith(key)), "")
        holds = [part for relation in row.get("holds", ()) for part in related(relation, names)]
        return Verdict(
            **texts, holds=holds, fitted=row.get("fitted", False), in_part=row.get("in_part", False), shown=shown
        )

    def _held(self, row: Names, parts: Names) -> list[Sequence[bool]]:
        """Give what holds of a statement on each drawn data."""
        return [self._judge(row, self.quantity(row["quantity"], body)).holds for body in parts["drawn"].values()]

    def _drawn(self, row: Names, verdict: Verdict, parts: Names) -> Verdict:
        """Judge a statement of drawn data: a part must surely hold on most of it."""
        if not row.get("drawn"):
            return verdict
        drawn = self._held(row, parts)
        held, kind = share_text(sum(map(all, drawn)), len(drawn)), self.facts["drawn"]
        counts = [sum(part) for part in zip(*drawn, strict=True)]
        holds = [share_interval(count, len(drawn))[0] >= MOST_LEAST for count in counts]
        return replace(verdict, holds=holds, ours=f"in full on {held} drawn {kind}; on the made-up one {verdict.ours}")

    def _shares(self, parts: Names) -> list[list[str]]:
        """Give the share of the drawn data on which each statement holds in full."""
        rows = []
        for row in (row for row in self.facts["statement"] if row.get("drawn")):
            drawn = [all(holds) for holds in self._held(row, parts)]
            rows.append([row["where"], row["statement"], share_text(sum(drawn), len(drawn))])
        return rows

    def tables(self, parts: Names) -> list[Table]:
        """Write every table."""
        return [Table(row["title"], row.get("note", ""), *self._rows(row, parts)) for row in self.facts["table"]]

    def _rows(self, row: Names, parts: Names) -> tuple[Sequence[str], list[list[str]]]:
        """Write head and rows: a row for each mapping; without `cells`, a column for each of its keys."""
        if row.get("shares"):
            return row["head"], self._shares(parts)
        values = self.quantity(row["quantity"], parts)
        if "cells" in row:
            scopes = [{"key": k, **v} for k, v in by_number(values).items()] if isinstance(values, Mapping) else values
            return row["head"], [[text for cell in row["cells"] for text in _cells(cell, names)] for names in scopes]
        columns = list(by_number({column: None for line in values.values() for column in line}))
        form = row.get("form", "")
        rows = [
            [key, *(write(line[column], form) if column in line else "-" for column in columns)]
            for key, line in by_number(values).items()
        ]
        return [row.get("corner", ""), *columns], rows


def _cells(cell: str, names: Names) -> list[str]:
    """Fill one cell, or with a star before its only value one for each of its values."""
    if not cell.startswith("*"):
        return [fill(cell, names)]
    path, _, form = cell.strip("*{}").partition(":")
    values = find(names, path)
    return [write(one, form) for one in (values.values() if isinstance(values, Mapping) else values)]
