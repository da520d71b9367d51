"""One inference as REST and gRPC both mean it: call, checked parameters and answer. Plain data.

>>> read_wishes({"slo_ms": 20, "anytime": True})
Wishes(slo_ns=20000000, timeout_ns=None, priority=0, anytime=True, criteria=None, tenant='', key=None)
>>> read_wishes({"slo_ms": -1})
Traceback (most recent call last):
fluidnpu.host.errors.ProtocolError: parameter 'slo_ms' must be a number in (0, 1e+09], not -1
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ProtocolError, UnsupportedError
from .classes import read_classification
from .parameters import LONGEST_ID, read_parameters
from .places import RegionPlace, read_place
from .tensors import OF_PIXELS, Array

Parameter = bool | int | float | str
TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_MIDDLE = 4  # the priority of a request that names none
HEAD_BYTES = 64 << 10  # of a body: names, parameters and outputs, beside the numbers
MOST_TENSORS = 64  # that a request names as inputs or as outputs


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


@dataclass(frozen=True, slots=True)
class Bounds:
    """The largest request of a model: numbers of its input, bytes of its JSON, and of its whole body.

    `datatypes`: those that its input may have. Pixels come as they are, or as floats; a part of a network
    takes activations as stored, which no image may be mistaken for.
    """

    elements: int
    json_bytes: int
    body_bytes: int
    datatypes: tuple[str, ...] = OF_PIXELS

    @property
    def json_items(self) -> int:
        """Commas and lists of its JSON: up to four a number, in nested lists of one channel."""
        return 4 * self.elements + HEAD_BYTES // 16


@dataclass(slots=True)
class Call:
    """A request to one model: arrays by input name, and the names of the wanted outputs (empty: all).

    `binary`: output names and the form they are wanted in; None stands for all others. `best`: how many
    classes are wanted instead of the logits; None: the logits. `places`: of outputs that are wanted in shared
    memory. `fetched`: bytes of inputs that came from there. `trace`: the client's traceparent, well-formed or
    empty.
    """

    model: str
    version: str = ""
    id: str = ""
    inputs: dict[str, Array] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    binary: dict[str | None, bool] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    best: int | None = None
    places: dict[str, RegionPlace] = field(default_factory=dict)
    fetched: int = 0
    trace: str = ""


@dataclass(slots=True)
class ModelAnswer:
    """The answer to a call: output arrays by name, with the parameters of the protocol's response."""

    model: str
    version: str
    id: str
    outputs: dict[str, Array]
    parameters: dict[str, Parameter]


def read_wishes(parameters: Mapping[str, Any]) -> Wishes:
    """Check a request's parameters. Raises ProtocolError for a wrong one."""
    if not parameters:
        return _DEFAULTS
    asked = read_parameters(parameters)
    slo_ms, timeout_us, priority = asked.get("slo_ms"), asked.get("timeout"), asked.get("priority", 0)
    return Wishes(
        slo_ns=None if slo_ms is None else max(1, int(slo_ms * 1e6)),
        timeout_ns=timeout_us * 1_000 if timeout_us else None,  # Triton's clients send 0 for none
        priority=0 if priority == 0 else priority - _MIDDLE,
        anytime=asked.get("anytime", False),
        criteria=asked.get("criteria"),
        tenant=asked.get("tenant", ""),
        key=asked.get("idempotency_key"),
    )


def read_output(call: Call, name: str, parameters: Mapping[str, Any]) -> None:
    """Read if an output is wanted as classes, or in shared memory. Raises ProtocolError, UnsupportedError."""
    best, place = read_classification(name, parameters), read_place(name, parameters)
    if best is not None and place is not None:
        raise UnsupportedError("classes must come in the answer: they do not go to shared memory")
    call.best = best or call.best
    if place is not None:
        call.places[name] = place


def read_id(id: Any) -> str:
    """Check a request's id. Raises ProtocolError."""
    if not isinstance(id, str) or len(id) > LONGEST_ID or not id.isprintable():
        raise ProtocolError(f"an id must be at most {LONGEST_ID} printable characters")
    return id


def read_names(what: str, names: Sequence[Any]) -> tuple[str, ...]:
    """Check names of tensors, each of which may come once. Raises ProtocolError."""
    if len(names) > MOST_TENSORS:
        raise ProtocolError(f"a request must name at most {MOST_TENSORS} {what}s, not {len(names)}")
    if not all(isinstance(name, str) and 1 <= len(name) <= LONGEST_ID for name in names):
        raise ProtocolError(f"every {what} must have a name of at most {LONGEST_ID} characters")
    if len(set(names)) != len(names):
        raise ProtocolError(f"every {what} must be named once, and one is named twice")
    return tuple(names)


_DEFAULTS = Wishes()
