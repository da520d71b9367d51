"""The edge to hardware: the protocols of device, buffer and clock, and the two clocks.

>>> clock = VirtualClock()
>>> clock.sleep_until(250)
>>> clock.now_ns()
250
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
_SET_TIMERSLACK = 29  # PR_SET_TIMERSLACK of prctl(2), in ns


class Clock(Protocol):
    """Integer nanoseconds that never run backwards."""

    def now_ns(self) -> int:
        """Return the current time."""

    def sleep_until(self, time_ns: int) -> None:
        """Return at `time_ns`, or at once when that time has passed."""


class Buffer(Protocol):
    """Contiguous memory of host and NPU, handed over by `flush` and `invalidate`.

    Neither side may count on seeing the other's writes without them, whatever the memory behind.
    """

    @property
    def physical_address(self) -> int:
        """The physical address of byte 0 for the NPU, a multiple of 64."""

    @property
    def array(self) -> Bytes:
        """The bytes as the host addresses them, shape (size,)."""

    def flush(self, start: int = 0, stop: int | None = None) -> None:
        """Let the NPU see the host's writes to bytes start..stop, all by default."""

    def invalidate(self, start: int = 0, stop: int | None = None) -> None:
        """Let the host see the NPU's writes to bytes start..stop, all by default."""


class Device(Protocol):
    """One NPU: 32-bit registers by byte offset, contiguous memory, an interrupt and a clock.

    Any verb may raise an OSError, which the driver turns into a DeviceAccessError.
    """

    @property
    def clock(self) -> Clock:
        """The clock that deadlines are read from."""

    def read(self, offset: int) -> int:
        """Read the 32-bit register at `offset`."""

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset`."""

    def allocate(self, size: int) -> Buffer:
        """Allocate at least `size` zeroed bytes. Raises OutOfMemory."""

    def free(self, buffer: Buffer) -> None:
        """Give a buffer of `allocate` back."""

    def wait_interrupt(self, deadline_ns: int) -> bool:
        """Return True as soon as the interrupt line is high, False when it is still low at `deadline_ns`."""


class WallClock:
    """The monotonic clock of this machine."""

    _ready = threading.local()  # the threads whose sleeps end as soon as Linux can end them

    def now_ns(self) -> int:
        """Return monotonic nanoseconds."""
        return time.monotonic_ns()

    def sleep_until(self, time_ns: int) -> None:
        """Sleep until the monotonic clock reads `time_ns`."""
        if not hasattr(self._ready, "told"):
            self._ready.told = _sleep_sharply()
        while (remaining := time_ns - time.monotonic_ns()) > 0:
            time.sleep(remaining / 1e9)


def _sleep_sharply() -> bool:
    """Ask Linux not to end this thread's sleeps up to 50 us late, as it does by default to save wake-ups."""
    if sys.platform != "linux":
        return False
    answer: int = ctypes.CDLL(None).prctl(_SET_TIMERSLACK, 1, 0, 0, 0)
    return answer == 0


class VirtualClock:
    """A clock that jumps: time advances only in `sleep_until`, so waiting costs no real time."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return virtual nanoseconds."""
        return self._now_ns

    def sleep_until(self, time_ns: int) -> None:
        """Jump to `time_ns` unless that time has passed."""
        self._now_ns = max(self._now_ns, time_ns)


class ArrayBuffer:
    """A buffer over NumPy memory with a known physical address; `owner` keeps that memory alive."""

    def __init__(self, array: Bytes, physical_address: int, owner: Any = None) -> None:
        self._array, self._address, self.owner = array, physical_address, owner

    @property
    def physical_address(self) -> int:
        """The physical address of byte 0 for the NPU."""
        return self._address

    @property
    def array(self) -> Bytes:
        """The bytes, shape (size,)."""
        return self._array

    def flush(self, start: int = 0, stop: int | None = None) -> None:
        """Do nothing: NPU and host read the same bytes."""

    def invalidate(self, start: int = 0, stop: int | None = None) -> None:
        """Do nothing: NPU and host read the same bytes."""
