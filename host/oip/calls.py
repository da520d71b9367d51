"""One inference as REST and gRPC both mean it: call, checked parameters and answer. Plain data.

>>> read_wishes({"slo_ms": 20, "anytime": True})
Wishes(slo_ns=20000000, timeout_ns=None, priority=0, anytime=True, criteria=None, tenant='', key=None)
>>> read_wishes({"slo_ms": -1})
Traceback (most recent call last):
fluidnpu.host.errors.ProtocolError: parameter 'slo_ms' must be a number of ms in (0, 1e+09], not -1
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ProtocolError
from .tensors import Array

Parameter = bool | int | float | str
LONGEST_MS = 1e9
PRIORITIES = 8  # 1 goes first; 0, or none, means the middle
_MIDDLE = 4
KNOWN = ("slo_ms", "timeout", "priority", "anytime", "criteria", "tenant", "idempotency_key", "binary_data_output")
LONGEST_ID = 256
LONGEST_CRITERIA = 4096
LONGEST_WHY = 200  # characters of the reason for a change of exits


@dataclass(frozen=True, slots=True)
class Wishes:
    """The parameters of a request, understood; times in ns, None where the server's default holds."""

    slo_ns: int | None = None
    timeout_ns: int | None = None
    priority: int = 0
    anytime: bool = False
    criteria: str | None = None
    tenant: str = ""
    key: str | None = None  # a repeat of a request carries the same


@dataclass(slots=True)
class Call:
    """A request to one model: arrays by input name, and the names of the wanted outputs (empty: all).

    `binary`: output names and the form they are wanted in; None stands for all others.
    """

    model: str
    version: str = ""
    id: str = ""
    inputs: dict[str, Array] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    binary: dict[str | None, bool] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """The answer to a call: output arrays by name, with the parameters of the protocol's response."""

    model: str
    version: str
    id: str
    outputs: dict[str, Array]
    parameters: dict[str, Parameter]


def read_wishes(parameters: Mapping[str, Any]) -> Wishes:
    """Check a request's parameters. Raises ProtocolError for a wrong one, and for one that nobody knows."""
    if not parameters:
        return _DEFAULTS
    for name in parameters:
        if name not in KNOWN:
            close = difflib.get_close_matches(str(name), KNOWN, 1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise ProtocolError(f"a parameter must be one of {', '.join(KNOWN)}, not '{name!s:.60}'{hint}")
    slo, timeout = parameters.get("slo_ms"), parameters.get("timeout")
    priority, anytime = parameters.get("priority", 0), parameters.get("anytime", False)
    if slo is not None and not _within(slo, LONGEST_MS):
        raise ProtocolError(f"parameter 'slo_ms' must be a number of ms in (0, {LONGEST_MS:g}], not {slo!r:.40}")
    if timeout is not None and (not _within(timeout, 1e3 * LONGEST_MS) or timeout != int(timeout)):
        raise ProtocolError(
            f"parameter 'timeout' must be a whole number of us from 1 to {1e3 * LONGEST_MS:g}, not {timeout!r:.40}"
        )
    if isinstance(priority, float) and priority.is_integer():
        priority = int(priority)  # JSON's 2.0 is a whole number, too
    if type(priority) is not int or not 0 <= priority <= PRIORITIES:
        raise ProtocolError(f"parameter 'priority' must be a whole number in 0..{PRIORITIES}, not {priority!r:.40}")
    if type(anytime) is not bool:
        raise ProtocolError(f"parameter 'anytime' must be true or false, not {anytime!r:.40}")
    criteria = parameters.get("criteria")
    if criteria is not None and (not isinstance(criteria, str) or len(criteria) > LONGEST_CRITERIA):
        raise ProtocolError(
            f"parameter 'criteria' must be a text of at most {LONGEST_CRITERIA} characters, not {criteria!r:.40}"
        )
    tenant = parameters.get("tenant", "")
    if not isinstance(tenant, str):
        raise ProtocolError(f"parameter 'tenant' must be a text, not {tenant!r:.40}")
    key = parameters.get("idempotency_key")
    if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= LONGEST_ID or not key.isprintable()):
        raise ProtocolError(
            f"parameter 'idempotency_key' must be 1 to {LONGEST_ID} printable characters, not {key!r:.40}"
        )
    return Wishes(
        slo_ns=None if slo is None else max(1, int(slo * 1e6)),
        timeout_ns=None if timeout is None else int(timeout) * 1_000,
        priority=0 if priority == 0 else priority - _MIDDLE,
        anytime=anytime,
        criteria=criteria,
        tenant=tenant,
        key=key,
    )


def read_id(id: Any) -> str:
    """Check a request's id. Raises ProtocolError."""
    if not isinstance(id, str) or len(id) > LONGEST_ID or not id.isprintable():
        raise ProtocolError(f"an id must be at most {LONGEST_ID} printable characters")
    return id


def read_names(what: str, names: Sequence[Any]) -> tuple[str, ...]:
    """Check names of tensors, each of which may come once. Raises ProtocolError."""
    if not (set(map(type, names)) <= {str} and all(names)):
        raise ProtocolError(f"every {what} must have a name")
    if len(set(names)) != len(names):
        raise ProtocolError(f"every {what} must be named once, and one is named twice")
    return tuple(names)


def _within(value: Any, most: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0 < value <= most


_DEFAULTS = Wishes()
