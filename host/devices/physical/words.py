"""Physical memory mapped from a file such as /dev/mem, in aligned 32-bit accesses and no others.

Linux maps what is not its own memory as Device memory, whether or not the file was opened with O_SYNC
(arch/arm64/mm/mmu.c, `phys_mem_access_prot`). There an unaligned access, and the DC ZVA of a memset, is a bus
error; AXI4-Lite registers refuse bytes. So nothing here copies or fills more than a word at a time.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from ...errors import DeviceAccessError
from ..device import Bytes

_PAGE = mmap.ALLOCATIONGRANULARITY
WORD = 4


class Words:
    """`size` bytes from physical address `base` on, both multiples of 4, as 32-bit words of a memory file.

    Raises DeviceAccessError when the file cannot be mapped there.
    """

    def __init__(self, path: Path | str, base: int, size: int) -> None:
        self.base, self.size = base, size
        skip = base % _PAGE
        try:
            fd = os.open(path, os.O_RDWR | os.O_SYNC)
            try:
                self._map = mmap.mmap(fd, -(-(skip + size) // _PAGE) * _PAGE, offset=base - skip)
            finally:
                os.close(fd)
        except PermissionError:
            raise DeviceAccessError(
                f"'{path}' must be readable and writable, which it is for root only: run it with sudo"
            ) from None
        except (OSError, ValueError, OverflowError) as error:
            raise DeviceAccessError(
                f"{size} bytes at {base:#x} must be mapped from '{path}', and they cannot be: {error}"
            ) from error
        # An item of an aligned array is one 32-bit load or store; a slice of it, or of the mapping, is a
        # memcpy.
        self._words = np.frombuffer(self._map, np.uint32, size // WORD, offset=skip)

    def read(self, offset: int) -> int:
        """Read the word at byte `offset`."""
        return int(self._words[offset // WORD])

    def write(self, offset: int, value: int) -> None:
        """Write the word at byte `offset`."""
        self._words[offset // WORD] = value

    def store(self, offset: int, data: Bytes) -> None:
        """Write bytes (size,), a whole number of words, at byte `offset`."""
        words, first = self._words, offset // WORD
        for index, value in enumerate(data.view(np.uint32).tolist(), first):
            words[index] = value

    def fetch(self, offset: int, data: Bytes) -> None:
        """Read bytes, a whole number of words, at byte `offset` into `data` (size,)."""
        words, first = self._words, offset // WORD
        target = data.view(np.uint32)
        for index in range(len(target)):
            target[index] = words[first + index]

    def close(self) -> None:
        """Unmap the file."""
        self._words = np.zeros(0, np.uint32)
        with suppress(BufferError):  # an array of it is still in use: the mapping ends with that array
            self._map.close()
