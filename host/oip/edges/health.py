"""Health as gRPC's standard service says it: of the server, and of each model under its name. No gRPC here.

The servicer of grpcio-health-checking is not used: in 1.67.1 a watcher that leaves takes the others' notices
of its service with it, and a server that drains does not end them.

Source: gRPC's health checking protocol, github.com/grpc/grpc/blob/master/doc/health-checking.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ...errors import UnknownModelError
from ..front import Front
from ..wire.messages import SERVICE

WATCHED_S = 0.25  # between two looks at a service that is watched
WATCHERS = 64  # calls that watch at the same time
SERVER = ("", SERVICE)  # the names that mean the whole server


def status_of_service(front: Front, service: str) -> str:
    """Return SERVING or NOT_SERVING, of the server or of a model. Raises UnknownModelError."""
    ready = front.ready if service in SERVER else front.is_ready(service)
    return "SERVING" if ready else "NOT_SERVING"


async def watch_service(front: Front, service: str) -> AsyncIterator[str]:
    """Yield the status of a service, and again whenever it changes; the last is that of a server that drains.

    A model that nobody knows is SERVICE_UNKNOWN, which may change.
    """
    last = ""
    while True:
        ends = front.draining  # before the status, which then is the last
        try:
            status = status_of_service(front, service)
        except UnknownModelError:
            status = "SERVICE_UNKNOWN"
        if status != last:
            yield status
        if ends:
            return
        last = status
        await asyncio.sleep(WATCHED_S)
