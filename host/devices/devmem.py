"""An NPU without PYNQ, its registers and a reserved memory region mapped from a file.

On a board the file is /dev/mem (the ZC706 has no PYNQ image). Reserve the region in the device tree
(`reserved-memory`, `no-map`), so that Linux keeps off it and maps it uncached; then host and NPU see the same
bytes. Needs root. Events are polled, without an interrupt. Tested against a file, not on a board yet.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from fluidnpu.hls import WINDOW_BYTES

from ..errors import DeviceAccessError, DriverUsageError, OutOfMemory
from .device import ArrayBuffer, Buffer, Clock, WallClock
from .polling import wait_for_event

_PAGE = mmap.ALLOCATIONGRANULARITY
_ALIGNMENT = 4096


class DevMemNpu:
    """A `Device` over a memory file; `register_base` and `memory_base` are physical addresses.

    Use it as a context manager, or `close` it. Raises DeviceAccessError when the file cannot be mapped.
    """

    def __init__(
        self,
        *,
        register_base: int,
        memory_base: int,
        memory_bytes: int,
        path: Path | str = "/dev/mem",
        clock: Clock | None = None,
    ) -> None:
        for name, value in (("register_base", register_base), ("memory_base", memory_base)):
            if value % _PAGE or value < 0:
                raise DriverUsageError(f"{name} must be a multiple of the page size {_PAGE:#x}, not {value:#x}")
        if memory_bytes < 1:
            raise DriverUsageError(f"memory_bytes must be at least 1, not {memory_bytes}")
        self._clock: Clock = WallClock() if clock is None else clock
        self._base, self._next, self._buffers = memory_base, 0, 0
        try:
            fd = os.open(path, os.O_RDWR | os.O_SYNC)
            try:
                self._register_map = mmap.mmap(fd, max(WINDOW_BYTES, _PAGE), offset=register_base)
                self._memory_map = mmap.mmap(fd, memory_bytes, offset=memory_base)
            finally:
                os.close(fd)
        except (OSError, ValueError, OverflowError) as error:
            raise DeviceAccessError(
                f"the NPU's registers and memory must be mapped from '{path}', and they cannot be: {error}"
            ) from error
        # One aligned 32-bit access each: struct and slices of mmap may split an access into bytes, which
        # AXI4-Lite registers refuse.
        self._registers = np.frombuffer(self._register_map, np.uint32, WINDOW_BYTES // 4)
        self._memory = np.frombuffer(self._memory_map, np.uint8)

    @property
    def clock(self) -> Clock:
        """The clock that deadlines are read from."""
        return self._clock

    def read(self, offset: int) -> int:
        """Read the 32-bit register at `offset`."""
        return int(self._registers[self._index(offset)])

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset`."""
        self._registers[self._index(offset)] = value

    @staticmethod
    def _index(offset: int) -> int:
        if offset % 4 or not 0 <= offset < WINDOW_BYTES:
            raise ValueError(
                f"a register's offset must be a multiple of 4 in 0..{WINDOW_BYTES - 4:#x}, not {offset:#x}"
            )
        return offset // 4

    def allocate(self, size: int) -> ArrayBuffer:
        """Allocate the next `size` bytes of the reserved region, zeroed. Raises OutOfMemory."""
        if self._next + size > len(self._memory):
            raise OutOfMemory(
                f"{size} bytes of reserved memory are needed, and {len(self._memory) - self._next} are free"
            )
        array = self._memory[self._next : self._next + size]
        array[:] = 0
        buffer = ArrayBuffer(array, self._base + self._next)
        self._next = -(-(self._next + size) // _ALIGNMENT) * _ALIGNMENT
        self._buffers += 1
        return buffer

    def free(self, buffer: Buffer) -> None:
        """Free a buffer; the region is reused once all are freed (a driver allocates two and frees both)."""
        self._buffers -= 1
        if not self._buffers:
            self._next = 0

    def wait_interrupt(self, deadline_ns: int) -> bool:
        """Poll until an enabled event is set, or the deadline."""
        return wait_for_event(self, deadline_ns)

    def close(self) -> None:
        """Unmap the file. Buffers of `allocate` must not be used afterwards."""
        self._registers, self._memory = np.zeros(0, np.uint32), np.zeros(0, np.uint8)
        for mapping in (self._register_map, self._memory_map):
            try:
                mapping.close()
            except BufferError:  # an array of it is still in use: the mapping ends with that array
                continue

    def __enter__(self) -> Self:
        """Return itself; it is open already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unmap the file."""
        self.close()
