"""Memory that host and NPU share: through u-dma-buf, or as a region of /dev/mem that Linux leaves alone.

u-dma-buf is Normal memory, so NumPy may do with it as it likes. A region of /dev/mem is Device memory
(words.py), so the host works on a copy in its own memory, and only `flush` and `invalidate` touch the region.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from ...errors import DeviceAccessError
from ..device import ArrayBuffer, Bytes
from .places import BOARD, Places
from .words import WORD, Words

CLASS = "u-dma-buf"  # of its driver (github.com/ikwzm/udmabuf) since version 3; before it was "udmabuf"
# Values of sync_mode's two low bits: what O_SYNC makes of a mapping. The driver's default is Device memory.
DEVICE_MEMORY, WRITE_COMBINE, MODES = 1, 2, 3
_LINE = 64  # bytes of a cache line, or a multiple of one


class Region(Protocol):
    """Contiguous physical memory of `size` bytes at `base`."""

    @property
    def base(self) -> int:
        """The physical address of byte 0."""

    @property
    def size(self) -> int:
        """Bytes."""

    def buffer(self, offset: int, size: int) -> ArrayBuffer:
        """Give `size` zeroed bytes from byte `offset` on."""

    def close(self) -> None:
        """Unmap the region."""


class WordRegion:
    """A region of a memory file, reached in aligned 32-bit words."""

    def __init__(self, path: Path | str, base: int, size: int) -> None:
        self._words = Words(path, base, size // WORD * WORD)

    @property
    def base(self) -> int:
        """The physical address of byte 0."""
        return self._words.base

    @property
    def size(self) -> int:
        """Bytes, a multiple of 4."""
        return self._words.size

    def buffer(self, offset: int, size: int) -> ArrayBuffer:
        """Give `size` zeroed bytes from byte `offset` on, a multiple of 4."""
        return _WordBuffer(self._words, offset, size)

    def close(self) -> None:
        """Unmap the region."""
        self._words.close()


class _WordBuffer(ArrayBuffer):
    """A copy in the host's memory of a part of a word region."""

    def __init__(self, words: Words, offset: int, size: int) -> None:
        self._copy = np.zeros(-(-size // WORD) * WORD, np.uint8)
        super().__init__(self._copy[:size], words.base + offset)
        self._words, self._offset = words, offset
        self.flush()

    def flush(self, start: int = 0, stop: int | None = None) -> None:
        """Write bytes start..stop of the copy, in whole words."""
        low, high = self._whole(start, stop)
        self._words.store(self._offset + low, self._copy[low:high])

    def invalidate(self, start: int = 0, stop: int | None = None) -> None:
        """Read bytes start..stop into the copy, in whole words."""
        low, high = self._whole(start, stop)
        self._words.fetch(self._offset + low, self._copy[low:high])

    def _whole(self, start: int, stop: int | None) -> tuple[int, int]:
        stop = len(self._copy) if stop is None else stop
        return start // WORD * WORD, -(-stop // WORD) * WORD


@dataclass(frozen=True, kw_only=True)
class DmaBuffer:
    """The attributes of one u-dma-buf: its device file, its place, and how O_SYNC maps it."""

    name: str
    device: Path
    attributes: Path
    base: int
    size: int
    sync_mode: int


def dma_buffers(places: Places = BOARD) -> Iterator[DmaBuffer]:
    """List the u-dma-bufs of this machine by name. Raises DeviceAccessError for attributes that make no
    sense.
    """
    for attributes in sorted(entry for name in (CLASS, "udmabuf") for entry in (places.classes / name).glob("*")):
        try:
            base, size, mode = (
                int((attributes / name).read_text(), base)
                for name, base in (("phys_addr", 16), ("size", 10), ("sync_mode", 10))
            )
        except (OSError, ValueError) as error:
            raise DeviceAccessError(
                f"'{attributes}' must tell phys_addr, size and sync_mode, and it does not: {error}"
            ) from None
        device = places.devices / attributes.name
        yield DmaBuffer(
            name=attributes.name, device=device, attributes=attributes, base=base, size=size, sync_mode=mode
        )


class DmaRegion:
    """A whole u-dma-buf, mapped as Normal memory without a cache (O_SYNC, write-combining).

    Raises DeviceAccessError when that cannot be had.
    """

    def __init__(self, buffer: DmaBuffer) -> None:
        self.base, self.size, self._attributes = buffer.base, buffer.size, buffer.attributes
        if buffer.sync_mode & MODES == DEVICE_MEMORY:
            self._set_write_combine(buffer)
        try:
            fd = os.open(buffer.device, os.O_RDWR | os.O_SYNC)
            try:
                self._map = mmap.mmap(fd, buffer.size)
            finally:
                os.close(fd)
        except (OSError, ValueError, OverflowError) as error:
            raise DeviceAccessError(f"'{buffer.device}' must be mapped, and it cannot be: {error}") from None
        self._bytes = np.frombuffer(self._map, np.uint8)

    def _set_write_combine(self, buffer: DmaBuffer) -> None:
        """Set the mode in which unaligned accesses and memset work."""
        try:
            (buffer.attributes / "sync_mode").write_text(f"{WRITE_COMBINE}")
        except OSError as error:
            raise DeviceAccessError(
                f"'{buffer.name}' must have sync_mode {WRITE_COMBINE}, since an unaligned access is a bus error in mode "
                f"{buffer.sync_mode}, and it cannot be set: {error.strerror}"
            ) from None

    def buffer(self, offset: int, size: int) -> ArrayBuffer:
        """Give `size` zeroed bytes from byte `offset` on."""
        array = self._bytes[offset : offset + size]
        array[:] = 0
        return _DmaPart(array, self.base + offset, self._attributes, offset)

    def close(self) -> None:
        """Unmap the buffer."""
        self._bytes = np.zeros(0, np.uint8)
        with suppress(BufferError):  # an array of it is still in use: the mapping ends with that array
            self._map.close()


class _DmaPart(ArrayBuffer):
    """A part of a u-dma-buf.

    `flush` and `invalidate` hand it over with the driver's sync_for_device and sync_for_cpu. Without a
    cache there is nothing to clean, but writes that are still being combined must leave before a register
    is written, and a barrier is nothing that Python has.
    """

    def __init__(self, array: Bytes, address: int, attributes: Path, offset: int) -> None:
        super().__init__(array, address)
        self._attributes, self._offset = attributes, offset

    def flush(self, start: int = 0, stop: int | None = None) -> None:
        """Hand bytes start..stop to the NPU."""
        self._sync("sync_for_device", start, stop, direction=1)

    def invalidate(self, start: int = 0, stop: int | None = None) -> None:
        """Take bytes start..stop back from the NPU."""
        self._sync("sync_for_cpu", start, stop, direction=2)

    def _sync(self, verb: str, start: int, stop: int | None, direction: int) -> None:
        stop = len(self.array) if stop is None else stop
        low = (self._offset + start) // _LINE * _LINE
        size = -(-(self._offset + stop - low) // _LINE) * _LINE
        # One word names range, direction (1 to, 2 from the device) and the verb's bit 0.
        (self._attributes / verb).write_text(f"0x{low:08X}{size | direction << 2 | 1:08X}")
