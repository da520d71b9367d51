"""The parameters of an inference request, once for check, OpenAPI, both transports and the page. Plain data.

>>> read_parameters({"slo_ms": 20, "priority": 2.0})
{'slo_ms': 20, 'priority': 2}
>>> read_parameters({"slo_ms": -1})
Traceback (most recent call last):
fluidnpu.host.errors.ProtocolError: parameter 'slo_ms' must be a number in (0, 1e+09], not -1
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ProtocolError

LONGEST_MS = 1e9
PRIORITIES = 8  # 1 goes first; 0, or none, means the middle
LONGEST_ID = 256
LONGEST_CRITERIA = 4096
_MOST_NUMBER = (1 << 63) - 1  # of a parameter that means nothing here
_ALIKE = 0.8  # of difflib's ratio, from which on a name is taken for a slip


@dataclass(frozen=True, kw_only=True)
class RequestParameter:
    """One parameter: what it must be, in words, as a JSON schema and as a test; and what it means.

    `item`: what the values of an object, or the items of a list, must be.
    """

    must: str
    schema: Mapping[str, Any]
    good: Callable[[Any], bool]
    meaning: str = ""
    item: RequestParameter | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise ProtocolError for a value that is not what it must be."""
        if not self.good(value):
            raise ProtocolError(f"{name} must be {self.must}, not {abbreviate(value)}")
        if self.item is not None:
            rows = value.items() if isinstance(value, Mapping) else enumerate(value)
            for key, item in rows:
                self.item.check(f"{name} of '{key:.60}'" if isinstance(key, str) else f"{name}[{key}]", item)

    def to_schema(self) -> dict[str, Any]:
        """Return the JSON schema, with what the parameter means."""
        schema = dict(self.schema)
        if self.item is not None:
            schema["items" if schema["type"] == "array" else "additionalProperties"] = self.item.to_schema()
        return schema | ({"description": self.meaning} if self.meaning else {})


def abbreviate(value: Any) -> str:
    """Return a value of a request in few characters, for a refusal.

    >>> abbreviate([[]] * 1000), abbreviate("a" * 1000)
    ('a list of 1000', "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'")
    """
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return repr(value[:40]) if isinstance(value, str) else f"{value!r:.40}"


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer to JSON Schema, for which 2.0 is one."""
    return type(value) is int or (type(value) is float and value.is_integer())


def _number(most: float) -> dict[str, Any]:
    return {
        "must": f"a number in (0, {most:g}]",
        "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": most},
        "good": lambda value: type(value) in (int, float) and 0 < value <= most,
    }


def bounded_whole(least: int, most: int) -> dict[str, Any]:
    """Return what a row says of a whole number between bounds."""
    return {
        "must": f"a whole number in {least}..{most}",
        "schema": {"type": "integer", "minimum": least, "maximum": most},
        "good": lambda value: is_whole(value) and least <= value <= most,
    }


def bounded_text(most: int) -> dict[str, Any]:
    """Return what a row says of a text with a longest length."""
    return {
        "must": f"a text of at most {most} characters",
        "schema": {"type": "string", "maxLength": most},
        "good": lambda value: isinstance(value, str) and len(value) <= most,
    }


FLAG: dict[str, Any] = {
    "must": "true or false",
    "schema": {"type": "boolean"},
    "good": lambda value: type(value) is bool,
}
PARAMETERS: Mapping[str, RequestParameter] = {
    "slo_ms": RequestParameter(
        **_number(LONGEST_MS),
        meaning="the latency objective that the policy works for; default `--slo`, else five latencies of a lone image",
    ),
    "anytime": RequestParameter(
        **FLAG,
        meaning="when the deadline passes, the answer of the last exit passed leaves at once, also while the NPU works on",
    ),
    "timeout": RequestParameter(
        **bounded_whole(0, int(1e3 * LONGEST_MS)),
        meaning="Triton's, in microseconds: a request that still waits in the queue then ends with an error; 0 means none",
    ),
    "tenant": RequestParameter(
        **bounded_text(LONGEST_ID),
        meaning="on whose behalf, where tenants share the NPU (`--tenants`): "
        "[Criteria and tenants](criteria-and-tenants.md)",
    ),
    "criteria": RequestParameter(
        **bounded_text(LONGEST_CRITERIA),
        meaning="when it may leave at an exit, such as `confidence > 0.9 or slack < 2ms`: "
        "[Criteria and tenants](criteria-and-tenants.md)",
    ),
    "priority": RequestParameter(
        **bounded_whole(0, PRIORITIES),
        meaning=f"Triton's: 1 goes first, {PRIORITIES} last, 0 means the middle; an urgent request stands first in "
        "the queue",
    ),
    "idempotency_key": RequestParameter(
        must=f"a text of 1 to {LONGEST_ID} printable ASCII characters",
        schema={"type": "string", "minLength": 1, "maxLength": LONGEST_ID, "pattern": "^[ -~]+$"},
        good=lambda value: (
            isinstance(value, str) and 1 <= len(value) <= LONGEST_ID and value.isascii() and value.isprintable()
        ),
        meaning="a name for this request: one that comes again with the same key, tenant and images gets the answer of the "
        "first, until the model is loaded again",
    ),
    "binary_data_output": RequestParameter(
        **FLAG, meaning="over HTTP: outputs come as binary tensors, unless one of them says otherwise"
    ),
}


OTHERS: Mapping[str, Any] = {  # what a parameter of others may be, as clients of Triton send with no harm
    "propertyNames": {"pattern": f"^[ -~]{{1,{LONGEST_ID}}}$"},
    "additionalProperties": {
        "type": ["boolean", "number", "string"],
        "minimum": -_MOST_NUMBER,
        "maximum": _MOST_NUMBER,
        "maxLength": LONGEST_CRITERIA,
    },
}


def _check_other(name: str, value: Any) -> None:
    """Refuse a parameter of others that no message could carry, and one that may be a slip of the pen."""
    close = difflib.get_close_matches(name[:60], PARAMETERS, 1, _ALIKE)
    if close or not (1 <= len(name) <= LONGEST_ID and name.isascii() and name.isprintable()):
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise ProtocolError(f"a parameter must be one of {', '.join(PARAMETERS)}, not {abbreviate(name)}{hint}")
    if isinstance(value, str):
        good = len(value) <= LONGEST_CRITERIA and not any("\ud800" <= sign <= "\udfff" for sign in value)
    else:
        good = type(value) in (bool, int, float) and -_MOST_NUMBER <= value <= _MOST_NUMBER
    if not good:
        raise ProtocolError(
            f"parameter '{name:.60}' must be true, false, a number of 64 bits or a text of at most {LONGEST_CRITERIA} "
            f"characters, not {abbreviate(value)}"
        )


def read_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request's parameters that mean something here, checked; those of others are passed by.

    Raises ProtocolError for a wrong one, and for a name that is almost one of ours.
    """
    checked: dict[str, Any] = {}
    for name, value in parameters.items():
        row = PARAMETERS.get(name)
        if row is None:
            _check_other(name, value)
            continue
        row.check(f"parameter '{name}'", value)
        checked[name] = int(value) if row.schema["type"] == "integer" else value
    return checked
