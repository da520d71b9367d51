"""The bounds that keep one client, or many, from taking the server down. Plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one server; sizes in bytes, times in seconds.

    `batch` samples in one request; `queue` samples of one model without an answer; `streamed` requests of one
    gRPC stream without an answer; `head_s`, `body_s` and `write_s` for a slow client to send the head and the
    body of a request and to take the answer; `idle_s` of a connection without a request; `drain_s` to answer
    what was taken when the server stops.
    """

    body_bytes: int = 32 << 20
    batch: int = 64
    queue: int = 1024
    connections: int = 512
    streamed: int = 256
    head_s: float = 10.0
    body_s: float = 30.0
    write_s: float = 30.0
    idle_s: float = 60.0
    drain_s: float = 30.0
