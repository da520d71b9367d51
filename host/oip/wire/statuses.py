"""Errors as the protocol says them: one row a class, with its HTTP status, its gRPC code and a retry hint.

>>> said = status_of(QueueFullError("5 requests wait"))
>>> said.http, said.grpc, said.retry
(429, 'RESOURCE_EXHAUSTED', True)
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ... import errors
from ...errors import (
    AccessError,
    BoardError,
    ConflictError,
    DeviceError,
    DriverUsageError,
    ExpiredError,
    HostError,
    ModelUnavailableError,
    ProtocolError,
    QueueFullError,
    RemoteError,
    ServerClosedError,
    ShedError,
    TooLargeError,
    UnknownModelError,
    UnknownRegionError,
    UnsupportedError,
)

RETRY_MS = 100  # the hint of a refusal that a later attempt may pass


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """The way in which an error leaves the server."""

    http: int
    grpc: str
    retry: bool = False


_INTERNAL = ErrorStatus(500, "INTERNAL")
_TABLE: tuple[tuple[type[Exception], ErrorStatus], ...] = (  # the first that fits, so the special ones come first
    (TooLargeError, ErrorStatus(413, "RESOURCE_EXHAUSTED")),
    (ConflictError, ErrorStatus(409, "ALREADY_EXISTS")),
    (UnsupportedError, ErrorStatus(501, "UNIMPLEMENTED")),
    (UnknownModelError, ErrorStatus(404, "NOT_FOUND")),
    (UnknownRegionError, ErrorStatus(404, "NOT_FOUND")),
    (ProtocolError, ErrorStatus(400, "INVALID_ARGUMENT")),
    (DriverUsageError, ErrorStatus(400, "INVALID_ARGUMENT")),
    (QueueFullError, ErrorStatus(429, "RESOURCE_EXHAUSTED", retry=True)),
    (ExpiredError, ErrorStatus(504, "DEADLINE_EXCEEDED")),
    (ShedError, ErrorStatus(503, "UNAVAILABLE", retry=True)),
    (ModelUnavailableError, ErrorStatus(503, "UNAVAILABLE", retry=True)),
    (ServerClosedError, ErrorStatus(503, "UNAVAILABLE", retry=True)),
    (DeviceError, ErrorStatus(503, "UNAVAILABLE", retry=True)),
    (BoardError, ErrorStatus(503, "UNAVAILABLE", retry=True)),
    (HostError, _INTERNAL),
)


def status_of(error: BaseException) -> ErrorStatus:
    """Return the status of an error; one that nobody foresaw is internal."""
    if isinstance(error, AccessError):
        return ErrorStatus(403, "PERMISSION_DENIED") if error.known else ErrorStatus(401, "UNAUTHENTICATED")
    return next((status for kind, status in _TABLE if isinstance(error, kind)), _INTERNAL)


def sentence_of(error: BaseException) -> str:
    """Return the error as one sentence; of an unforeseen one only its class, since it may hold anything."""
    if isinstance(error, HostError):
        return " ".join(str(error).split())
    return f"the server failed on this request ({type(error).__name__}); its log says more"


def body_of(error: BaseException) -> bytes:
    """Return the JSON body of an error: the sentence, the class and, where it helps, when to try again."""
    body: dict[str, object] = {"error": sentence_of(error), "type": type(error).__name__}
    if status_of(error).retry:
        body["retry_after_ms"] = RETRY_MS
    return json.dumps(body).encode()


def error_named(kind: str, sentence: str) -> HostError:
    """Make the error that a server named, for its client; an unknown class becomes a RemoteError."""
    made = getattr(errors, kind, None)
    if isinstance(made, type) and issubclass(made, HostError):
        try:
            return made(sentence)
        except TypeError:  # it needs numbers that did not travel
            parents = [parent for parent in made.__mro__ if parent in (DeviceError,)]
            return parents[0](sentence) if parents else RemoteError(sentence)
    return RemoteError(sentence)
