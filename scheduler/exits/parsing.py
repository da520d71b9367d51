"""The text of a criterion to its tree. Pure; errors name the column and the expectation.

    criterion  := all { ("or" | "||") all }
    all        := one { ("and" | "&&") one }
    one        := ("not" | "!") one | "(" criterion ")" | "false" | quantity operator value
    value      := number [unit] | "[" number [unit] { "," number [unit] } "]"

>>> print(parse_criterion("energy_used > 100mJ && !(exit_number == 2)"))
energy > 100mJ and not exit_number == 2
>>> parse_criterion("response_time > 20")
Traceback (most recent call last):
fluidnpu.scheduler.errors.CriterionError: a criterion must have a number with a unit among ns, us, ms, s at \
column 17, not '20'
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple, NoReturn

from ..errors import CriterionError as CriterionError
from .criterion import AllOf, AnyOf, Criterion, Inequality, Never, Node, Not
from .quantities import ALIASES, QUANTITIES, WORDS, Quantity

LONGEST = 4096  # characters of a criterion
DEEPEST = 50  # brackets and negations inside one another
_SYNONYMS = {"&&": "and", "||": "or", "!": "not"}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<word>[A-Za-z\u00b5\u03bc_%][A-Za-z0-9_]*)"
    r"|(?P<sign>\|\||&&|<=|>=|==|!=|[<>()\[\],!])"
    r"|(?P<end>$)|(?P<wrong>.))",
    re.DOTALL,
)


class _Token(NamedTuple):
    """A piece of the text, and its first column, from 1."""

    kind: str
    text: str
    column: int


@lru_cache(maxsize=1024)
def parse_criterion(text: str) -> Criterion:
    """Return the criterion that a text says. Raises CriterionError."""
    if len(text) > LONGEST:
        raise CriterionError(f"a criterion must have at most {LONGEST} characters, not {len(text)}")
    return _Parser(text).whole()


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        assert match is not None  # its last branch takes anything
        kind = match.lastgroup or ""
        token = match[kind]
        yield _Token(kind, _SYNONYMS.get(token, token), match.start(kind) + 1)
        if kind == "end":
            return
        at = match.end()


class _Parser:
    """Recursive descent; `here` is the token to be read next."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self.here = next(self._tokens)
        self._depth = 0

    def whole(self) -> Criterion:
        tree = self._any()
        if self.here.kind != "end":
            self._refuse("'and', 'or' or the end")
        return Criterion(tree)

    def _take(self) -> _Token:
        token = self.here
        if token.kind != "end":
            self.here = next(self._tokens)
        return token

    def _any(self) -> Node:
        parts = [self._all()]
        while self.here.text == "or":
            self._take()
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all(self) -> Node:
        parts = [self._one()]
        while self.here.text == "and":
            self._take()
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _one(self) -> Node:
        if self._depth > DEEPEST:
            self._refuse(f"at most {DEEPEST} brackets and negations inside one another")
        self._depth += 1
        try:
            if self.here.text == "not":
                self._take()
                return Not(self._one())
            if self.here.text == "(":
                self._take()
                inner = self._any()
                if self.here.text != ")":
                    self._refuse("'and', 'or' or ')'")
                self._take()
                return inner
            if self.here.text == "false":
                self._take()
                return Never()
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Inequality:
        name = ALIASES.get(self.here.text, self.here.text)
        quantity = QUANTITIES.get(name)
        if quantity is None:
            self._refuse_name()
        start = self._take().column
        sign = self.here
        if sign.text not in ("<", "<=", "==", "!=", ">=", ">"):
            self._refuse("<, <=, ==, !=, >= or >")
        if sign.text in ("==", "!=") and not quantity.whole:
            self._refuse(f"<, <=, >= or >, since {name} is measured and hardly ever equals a number")
        self._take()
        value = self._list(quantity) if self.here.text == "[" else self._value(quantity)
        return Inequality(name, sign.text, value, start)

    def _list(self, quantity: Quantity) -> tuple[float, ...]:
        if quantity.name != "confidence":
            self._refuse(f"one value, since only confidence takes a list and this is {quantity.name}")
        values: list[float] = []
        while not values or self.here.text == ",":
            self._take()
            values.append(self._value(quantity))
        if self.here.text != "]":
            self._refuse("',' or ']'")
        self._take()
        return tuple(values)

    def _value(self, quantity: Quantity) -> float:
        number, unit = self.here, ""
        if number.kind != "number":
            self._refuse(quantity.expected)
        self._take()
        if self.here.kind == "word" and self.here.text not in (*WORDS, *QUANTITIES, *ALIASES):
            unit = self.here.text.replace("\u00b5", "u").replace("\u03bc", "u")
        if unit not in quantity.units:
            literal = f"{number.text}{self.here.text if unit else ''}"
            raise CriterionError(
                f"a criterion must have {quantity.expected} at column {number.column}, not {literal!r}", number.column
            )
        if unit:
            self._take()
        value = float(number.text) or 0.0  # of -0, too
        if value and math.isfinite(value):  # so its exponent is one that a Decimal takes
            value = float(Decimal(number.text) * quantity.units[unit])
        if not math.isfinite(value):
            raise CriterionError(
                f"a criterion must have a finite number at column {number.column}, not {number.text!r}", number.column
            )
        if quantity.whole and value != int(value):
            raise CriterionError(
                f"a criterion must have {quantity.expected} at column {number.column}, not {number.text!r}",
                number.column,
            )
        return value

    def _refuse_name(self) -> NoReturn:
        close = difflib.get_close_matches(self.here.text, QUANTITIES, 1) if self.here.kind == "word" else []
        hint = f"; did you mean '{close[0]}'?" if close else ""
        self._refuse(f"'not', '(', 'false' or one of {', '.join(QUANTITIES)}", hint)

    def _refuse(self, expected: str, hint: str = "") -> NoReturn:
        token = "the end" if self.here.kind == "end" else repr(self.here.text)
        column = self.here.column
        raise CriterionError(f"a criterion must have {expected} at column {column}, not {token}{hint}", column)
