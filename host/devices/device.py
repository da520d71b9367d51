"""The edge to hardware: what a driver asks of any NPU, simulated or on a board, and the two clocks. Nothing else crosses it.

>>> clock = VirtualClock()
>>> clock.sleep_until(250)
>>> clock.now_ns()
250
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


class Clock(Protocol):
    """Integer nanoseconds that never run backwards."""

    def now_ns(self) -> int:
        """The time now."""

    def sleep_until(self, time_ns: int) -> None:
        """Return at `time_ns`, or at once when it has passed."""


class Buffer(Protocol):
    """Contiguous memory that host and NPU see alike: what one writes the other reads, with no cache to flush."""

    @property
    def physical_address(self) -> int:
        """Where the NPU finds byte 0; a multiple of 64."""

    @property
    def array(self) -> Bytes:
        """The bytes as the host sees them, shape (size,)."""


class Device(Protocol):
    """One NPU: 32-bit registers by byte offset, contiguous memory, an interrupt and the clock its times are counted on.

    Any verb may raise an OSError; the driver makes a DeviceAccessError of it.
    """

    @property
    def clock(self) -> Clock:
        """The clock that deadlines are read from."""

    def read(self, offset: int) -> int:
        """The 32-bit register at `offset`."""

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset`."""

    def allocate(self, size: int) -> Buffer:
        """At least `size` bytes of zeros; raises OutOfMemory."""

    def free(self, buffer: Buffer) -> None:
        """Give a buffer of `allocate` back."""

    def wait_interrupt(self, deadline_ns: int) -> bool:
        """Return True as soon as the interrupt line is high, False when it is still low at `deadline_ns`."""


class WallClock:
    """The monotonic clock of this machine."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds."""
        return time.monotonic_ns()

    def sleep_until(self, time_ns: int) -> None:
        """Sleep for real."""
        while (left := time_ns - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)


class VirtualClock:
    """A clock that jumps: time passes only where someone sleeps, so a day of traffic takes as long as its arithmetic."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Virtual nanoseconds."""
        return self._now_ns

    def sleep_until(self, time_ns: int) -> None:
        """Jump to `time_ns` if it lies ahead."""
        self._now_ns = max(self._now_ns, time_ns)


class ArrayBuffer:
    """A buffer over any NumPy memory whose physical address is known; `owner` keeps that memory alive."""

    def __init__(self, array: Bytes, physical_address: int, owner: Any = None) -> None:
        self._array, self._address, self.owner = array, physical_address, owner

    @property
    def physical_address(self) -> int:
        """Where the NPU finds byte 0."""
        return self._address

    @property
    def array(self) -> Bytes:
        """The bytes, shape (size,)."""
        return self._array
