"""Messages to the service manager that started this process: ready, alive, stopping.

The protocol is that of sd_notify(3) and sd_watchdog_enabled(3): a datagram to the socket that NOTIFY_SOCKET
names. Where nobody listens nothing is sent, and no message can fail a server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable


def notify(state: str) -> None:
    """Send a state, such as READY=1."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if not place:
        return
    address = "\0" + place[1:] if place.startswith("@") else place
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.setblocking(False)
        out.sendto(state.encode(), address)


def watchdog_s() -> float | None:
    """Return the seconds after which a silent process is restarted; None where nobody watches this one."""
    interval_us, owner = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", str(os.getpid()))
    return (
        int(interval_us) / 1e6 if interval_us.isdecimal() and int(interval_us) and owner == str(os.getpid()) else None
    )


async def keep_alive(live: Callable[[], bool]) -> None:
    """Say so twice a period of the watchdog, for as long as the event loop runs and `live` holds."""
    period_s = watchdog_s()
    while period_s is not None:
        if live():
            notify("WATCHDOG=1")
        await asyncio.sleep(period_s / 2)
