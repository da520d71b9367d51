"""The bodies of calls beside inference, once for check, OpenAPI and both transports. Plain data.

>>> parse_body(ExitsChange, {"thresholds": {"exit1": None}})
ExitsChange(thresholds={'exit1': None}, why='by hand', board=None)
>>> parse_body(SharesChange, {"back": 1})
Traceback (most recent call last):
fluidnpu.host.errors.ProtocolError: back must be true, not 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from ...errors import ProtocolError, UnsupportedError
from .parameters import FLAG, LONGEST_CRITERIA, RequestParameter, bounded_text, bounded_whole, is_whole

LONGEST_WHY = 200  # characters of the reason for a change of exits
LONGEST_GUARD_MS = 600_000
STEPS = ("try", "keep", "back")
SERVER, FLEET = "server", "fleet"  # where a field has a meaning, if not at both


class Body:
    """A body of checked fields. `what`: its name in refusals; `alternatives`: exactly one field is given."""

    what: ClassVar[str]
    alternatives: ClassVar[bool] = False
    others: ClassVar[type[ProtocolError] | None] = ProtocolError  # for fields of others; None: they are ignored


B = TypeVar("B", bound=Body)


def _row(default: Any = MISSING, place: str = "", **row: Any) -> Any:
    """Return a field with its row of the table. `place`: where alone it has a meaning."""
    return field(default=default, metadata={"row": RequestParameter(**row), "place": place})


_OBJECT: dict[str, Any] = {"schema": {"type": "object"}, "good": lambda value: isinstance(value, dict)}


@dataclass(frozen=True, kw_only=True)
class IndexQuery(Body):
    """The models that an index lists: those that are ready, or all."""

    what = "an index"
    others = None
    ready: bool = _row(False, **FLAG, meaning="only models that take requests")


@dataclass(frozen=True, kw_only=True)
class LoadOrder(Body):
    """A load of a model: in a step of a trial at one server, with a guard at the front of a fleet."""

    what = "the parameters of a load"
    others = UnsupportedError  # Triton's would change what is loaded
    step: str | None = _row(
        None,
        SERVER,
        must=f"one of {', '.join(STEPS)}",
        schema={"enum": list(STEPS)},
        good=STEPS.__contains__,
        meaning="`try` loads on trial, `keep` ends the trial, `back` serves what was served before",
    )
    guard_ms: int | None = _row(
        None,
        FLEET,
        **bounded_whole(0, LONGEST_GUARD_MS),
        meaning="how long each board is watched after its load, in ms",
    )


@dataclass(frozen=True, kw_only=True)
class ExitsChange(Body):
    """New thresholds of early exits by name, None for an inactive exit; exits not named stay as they are."""

    what = "a change of exits"
    thresholds: Mapping[str, float | None] = _row(
        must="an object with a number in 0..1, or null, for one exit or more by name",
        schema={"type": "object", "minProperties": 1},
        good=lambda value: isinstance(value, dict) and bool(value),
        meaning="the threshold of each early exit that changes; null makes it inactive",
        item=RequestParameter(
            must="a number in 0..1, or null",
            schema={"type": ["number", "null"], "minimum": 0, "maximum": 1},
            good=lambda value: value is None or (type(value) in (int, float) and 0 <= value <= 1),
        ),
    )
    why: str = _row("by hand", **bounded_text(LONGEST_WHY), meaning="the reason, as the exits report it")
    board: str | None = _row(None, FLEET, **bounded_text(LONGEST_WHY), meaning="the only board that changes")


@dataclass(frozen=True, kw_only=True)
class TenantsChange(Body):
    """A new usual criterion, and new keys of tenants by name, as their file has them; None: as before."""

    what = "a change"
    criteria: str | None = _row(
        None, **bounded_text(LONGEST_CRITERIA), meaning="when a request leaves that names no criteria"
    )
    tenants: Mapping[str, Mapping[str, Any]] | None = _row(
        None,
        must="an object with an object for each tenant by its name",
        **_OBJECT,
        meaning="the keys of each tenant that change, as its file has them",
        item=RequestParameter(must="an object with keys of the tenants' file", **_OBJECT),
    )


@dataclass(frozen=True, kw_only=True)
class SharesChange(Body):
    """New shares of a model's versions, or with `back` those before the last change."""

    what = "a change of shares"
    alternatives = True
    shares: Mapping[str, Any] | None = _row(
        None,
        must="an object with a number for each version",
        **_OBJECT,
        meaning="the share of each version; a version without one gets no requests",
    )
    back: bool | None = _row(
        None, must="true", schema={"const": True}, good=lambda value: value is True, meaning="the shares of before"
    )


@dataclass(frozen=True, kw_only=True)
class Feedback(Body):
    """The true classes of answered requests: objects with the number of a `request` and its `label`."""

    what = "feedback"
    truths: Sequence[Mapping[str, int]] = _row(
        must="a list of objects with request and label",
        schema={"type": "array"},
        good=lambda value: isinstance(value, list),
        meaning="`request`, the number in an answer's parameter `requests`, and `label`, the true class",
        item=RequestParameter(
            must="an object with request and label as whole numbers from 0",
            schema={
                "type": "object",
                "properties": {key: {"type": "integer", "minimum": 0} for key in ("request", "label")},
                "required": ["request", "label"],
                "additionalProperties": False,
            },
            good=lambda value: (
                isinstance(value, dict)
                and set(value) == {"request", "label"}
                and all(is_whole(number) and number >= 0 for number in value.values())
            ),
        ),
    )


def _fields_of(kind: type[Body], place: str) -> dict[str, Field[Any]]:
    """Return the fields that a body has at a place, by name."""
    return {row.name: row for row in fields(kind) if row.metadata["place"] in ("", place)}  # type: ignore[arg-type]


def parse_body(kind: type[B], asked: Mapping[str, Any], place: str = SERVER) -> B:
    """Return a checked body. `place`: one server, or the front of a fleet.

    Raises ProtocolError, and for fields of others the body's own error.
    """
    rows = _fields_of(kind, place)
    odd = sorted(set(asked) - set(rows))
    if odd and kind.others is not None:
        raise kind.others(f"{kind.what} may have {' and '.join(rows)}, not {', '.join(odd)[:100]}")
    given = {name: value for name, value in asked.items() if name in rows}
    if kind.alternatives and len(given) != 1:
        raise ProtocolError(f"{kind.what} must have either {' or '.join(rows)}")
    for name, row in rows.items():
        parameter: RequestParameter = row.metadata["row"]
        if name not in given:
            if row.default is MISSING:
                raise ProtocolError(f"{kind.what} must have {name}, {parameter.must}")
            continue
        parameter.check(name, given[name])
    return kind(**given)


def schema_of(kind: type[Body], place: str = SERVER, **narrower: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body's JSON schema. `narrower`: schemas of fields that follow from what is served."""
    rows = _fields_of(kind, place)
    properties = {name: {**row.metadata["row"].to_schema(), **narrower.get(name, {})} for name, row in rows.items()}
    if kind.alternatives:
        return {
            "oneOf": [
                {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
                for name, schema in properties.items()
            ]
        }
    needed = [name for name, row in rows.items() if row.default is MISSING]
    closed = {} if kind.others is None else {"additionalProperties": False}
    return {"type": "object", "properties": properties, **({"required": needed} if needed else {}), **closed}


def is_needed(kind: type[Body]) -> bool:
    """Return whether a call must have a body of this kind."""
    return kind.alternatives or any(row.default is MISSING for row in fields(kind))  # type: ignore[arg-type]
