"""How long tests wait for what other threads and processes bring about."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
