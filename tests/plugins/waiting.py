"""How long tests wait for what other threads and processes bring about."""

from __future__ import annotations

import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

PATIENCE_S = 600  # only what hangs takes so long, however busy or slow the machine is


def eventually(condition: Callable[[], object]) -> None:
    """Return as soon as a condition holds that another thread or process brings about."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "it must come about"
        time.sleep(0.005)


@contextmanager
def ends() -> Iterator[None]:
    """Fail what computes for ever, in the main thread."""

    def hangs(number: int, frame: object) -> None:
        raise AssertionError("it must come to an end")

    before = signal.signal(signal.SIGVTALRM, hangs)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def unused_port() -> int:
    """Return a port of the loopback that is free, and below those that the system gives to connections."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port
