"""The record of an inference request that has ended: a line in the log, and a span for a tracer.

>>> from fluidnpu.host.errors import UnknownModelError
>>> spans = []
>>> class Taking:
...     def record(self, span): spans.append(span)
...     def close(self): pass
>>> Journal(Taking()).note(None, 404, time.perf_counter(), "", UnknownModelError("a model must be served"))
>>> spans[0].name, spans[0].attributes["error.type"], spans[0].failed
('infer', 'UnknownModelError', '')
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..wire.calls import Call, ModelAnswer, Parameter
from ..wire.statuses import sentence_of, status_of

_requests = logging.getLogger("fluidnpu.requests")
_TOLD = ("outcome", "exit", "left_because", "met", "batch", "queue_us", "npu_us", "tail_us", "board")  # of an answer
_ATTRIBUTES = {"error": "error.type"}  # which OpenTelemetry names for all
_SERVERS_FAULT = 500  # the least such HTTP status; a client's fault is no failure of a server's span


@dataclass(frozen=True, slots=True)
class Span:
    """A request that has ended. Times in ns since 1970.

    `traceparent`: of the span above, well-formed or empty. `failed`: a sentence, empty unless the server
    failed.
    """

    name: str
    start_ns: int
    end_ns: int
    traceparent: str
    attributes: Mapping[str, Parameter]
    failed: str


class Tracer(Protocol):
    """Takes spans, without waiting: the event loop calls it."""

    def record(self, span: Span) -> None:
        """Take a span."""

    def close(self) -> None:
        """Send what was taken; it may wait."""


OpenTracer = Callable[[], Tracer]


class Journal:
    """Notes every inference request that has ended."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer

    @property
    def on(self) -> bool:
        """Return whether anybody wants to know."""
        return self._tracer is not None or _requests.isEnabledFor(logging.INFO)

    def note(
        self, call: Call | None, status: int | str, began: float, trace: str, ended: ModelAnswer | BaseException | None
    ) -> None:
        """Note a request: whose it was, and how it ended; what is not known is left out.

        `began`: by `time.perf_counter`. `trace`: the client's traceparent, well-formed or empty.
        """
        took_s, end_ns = time.perf_counter() - began, time.time_ns()
        facts: dict[str, Parameter] = {
            "model": call.model if call else "",
            "request_id": call.id if call else "",
            "tenant": f"{call.parameters.get('tenant', '')!s:.100}" if call else "",  # nobody has read it yet
            "status": status,
        }
        failed = ""
        if isinstance(ended, BaseException):
            facts["error"] = type(ended).__name__
            failed = sentence_of(ended) if status_of(ended).http >= _SERVERS_FAULT else ""
        elif ended is not None:
            facts |= {key: ended.parameters[key] for key in _TOLD if key in ended.parameters}
        if _requests.isEnabledFor(logging.INFO):
            _requests.info("request", extra={**facts, "ms": round(1e3 * took_s, 3), "traceparent": trace})
        if self._tracer is not None:
            self._tracer.record(
                Span(
                    name=f"infer {facts['model']}".strip(),
                    start_ns=end_ns - int(1e9 * took_s),
                    end_ns=end_ns,
                    traceparent=trace,
                    attributes={_ATTRIBUTES.get(key, f"fluidnpu.{key}"): value for key, value in facts.items()},
                    failed=failed,
                )
            )

    async def close(self) -> None:
        """Send what the tracer still has."""
        if self._tracer is not None:
            await asyncio.to_thread(self._tracer.close)
