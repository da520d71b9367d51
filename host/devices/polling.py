"""Waiting for an NPU event by reading IRQ_STATUS: works in any thread and needs no interrupt line. Never longer than the deadline."""

from __future__ import annotations

from fluidnpu.hls import by_name

from .device import Device

_EVENTS = by_name("IRQ_STATUS").offset
_ENABLED = by_name("IRQ_ENABLE").offset
SHORTEST_NS, LONGEST_NS = 20_000, 1_000_000  # between two looks: a job takes milliseconds, a look microseconds


def wait_for_event(device: Device, deadline_ns: int) -> bool:
    """True as soon as an enabled event is set, False when none is at `deadline_ns`; looks rarely when the wait is long."""
    clock = device.clock
    start, enabled = clock.now_ns(), device.read(_ENABLED)
    while not device.read(_EVENTS) & enabled:
        now = clock.now_ns()
        if now >= deadline_ns:
            return False
        pause = min(max((now - start) // 50, SHORTEST_NS), LONGEST_NS)
        clock.sleep_until(min(now + pause, deadline_ns))
    return True
