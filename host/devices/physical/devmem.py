"""An NPU without PYNQ: registers through /dev/mem, memory through u-dma-buf or a region of /dev/mem.

Before the first access it checks what can be checked from outside the NPU: clock, reset, widths of the ports
(system.py) and the status lines (status_lines.py), since an access to a clockless NPU halts the processor.
Needs root. Events are polled, without an interrupt. Tested against look-alikes, not on a board yet.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from fluidnpu.hls import WINDOW_BYTES

from ...errors import DriverUsageError, OutOfMemory
from ..device import ArrayBuffer, Buffer, Clock, WallClock
from ..polling import wait_for_event
from .places import BOARD
from .regions import Region, WordRegion
from .words import Words

_ALIGNMENT = 4096


class DevMemNpu:
    """A `Device` whose registers are at the physical address `register_base`, and whose memory is `region`.

    `region` may also be (address, bytes) of memory that Linux leaves alone, reached through the same file in
    aligned words. Use it as a context manager, or `close` it. Raises DeviceAccessError when the file cannot
    be mapped.
    """

    def __init__(
        self,
        *,
        register_base: int,
        region: Region | tuple[int, int],
        path: Path | str = BOARD.memory,
        clock: Clock | None = None,
    ) -> None:
        for name, value in (("register_base", register_base), ("the memory's address", _base(region))):
            if value % _ALIGNMENT or value < 0:
                raise DriverUsageError(f"{name} must be a multiple of the page size {_ALIGNMENT:#x}, not {value:#x}")
        if isinstance(region, tuple) and region[1] < 1:
            raise DriverUsageError(f"memory must have at least 1 byte, not {region[1]}")
        self._clock: Clock = WallClock() if clock is None else clock
        self._next, self._buffers = 0, 0
        with ExitStack() as opened:
            self._registers = Words(path, register_base, WINDOW_BYTES)
            opened.callback(self._registers.close)
            self._region = WordRegion(path, *region) if isinstance(region, tuple) else region
            opened.pop_all()

    @property
    def clock(self) -> Clock:
        """The clock that deadlines are read from."""
        return self._clock

    def read(self, offset: int) -> int:
        """Read the 32-bit register at `offset`."""
        return self._registers.read(self._check_offset(offset))

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset`."""
        self._registers.write(self._check_offset(offset), value)

    @staticmethod
    def _check_offset(offset: int) -> int:
        if offset % 4 or not 0 <= offset < WINDOW_BYTES:
            raise ValueError(
                f"a register's offset must be a multiple of 4 in 0..{WINDOW_BYTES - 4:#x}, not {offset:#x}"
            )
        return offset

    def allocate(self, size: int) -> ArrayBuffer:
        """Allocate the next `size` bytes of the region, zeroed. Raises OutOfMemory."""
        free = self._region.size - self._next
        if size > free:
            raise OutOfMemory(f"{size} bytes of the NPU's memory are needed, and {free} are free")
        buffer = self._region.buffer(self._next, size)
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
        """Unmap registers and memory. Buffers of `allocate` must not be used afterwards."""
        self._registers.close()
        self._region.close()

    def __enter__(self) -> DevMemNpu:
        """Return itself; it is open already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unmap registers and memory."""
        self.close()


def _base(region: Region | tuple[int, int]) -> int:
    return region[0] if isinstance(region, tuple) else region.base
