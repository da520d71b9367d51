"""Polling IRQ_STATUS for an NPU event, up to a deadline: in any thread, without an interrupt line."""

from __future__ import annotations

from fluidnpu.hls import register

from .device import Device

_EVENTS = register("IRQ_STATUS").offset
_ENABLED = register("IRQ_ENABLE").offset
SHORTEST_NS, LONGEST_NS = 20_000, 1_000_000  # between two reads: a job takes milliseconds, a read microseconds


def wait_for_event(device: Device, deadline_ns: int) -> bool:
    """Return True once an enabled event is set, False when none is at `deadline_ns`.

    The pause between two reads grows with the time waited so far.
    """
    clock = device.clock
    start, enabled = clock.now_ns(), device.read(_ENABLED)
    while not device.read(_EVENTS) & enabled:
        now = clock.now_ns()
        if now >= deadline_ns:
            return False
        pause = min(max((now - start) // 50, SHORTEST_NS), LONGEST_NS)
        clock.sleep_until(min(now + pause, deadline_ns))
    return True
