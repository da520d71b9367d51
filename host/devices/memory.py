"""Simulated DRAM: buffers at physical addresses, read by address as the NPU does.

>>> dram = SimulatedMemory(base=0x1000_0000, size=1 << 20)
>>> buffer = dram.allocate(100)
>>> buffer.array[3] = 7
>>> int(dram.view(buffer.physical_address, 100)[3])
7
"""

from __future__ import annotations

import numpy as np

from ..errors import OutOfMemory
from .device import ArrayBuffer, Buffer, Bytes

ALIGNMENT = 4096  # of a buffer's address: a page, as from a contiguous memory allocator


class BusError(Exception):
    """No memory answers at an address. The simulated device catches this and reports a Cause."""


class SimulatedMemory:
    """Physical memory [base, base + size), of which only the allocated buffers exist.

    `storage` backs the whole range with bytes shared with another model; without it every buffer has its own.
    """

    def __init__(self, base: int = 0x1000_0000, size: int = 1 << 30, storage: Bytes | None = None) -> None:
        if storage is not None:
            size = len(storage)
        self._base, self._size, self._storage = base, size, storage
        self._buffers: list[ArrayBuffer] = []
        self._spans: list[tuple[int, int, Bytes]] = []  # first address, end and bytes of every buffer
        self.generation = 0  # grows whenever a buffer comes or goes: views of before may be of freed memory

    @property
    def buffers(self) -> tuple[ArrayBuffer, ...]:
        """The allocated buffers, by address."""
        return tuple(self._buffers)

    def allocate(self, size: int) -> ArrayBuffer:
        """Allocate `size` zeroed bytes at the lowest free aligned address.

        Raises OutOfMemory, and ValueError for less than one byte.
        """
        if size < 1:
            raise ValueError(f"a buffer must have at least one byte, not {size}")
        address = self._base
        for index, buffer in enumerate(self._buffers):
            if buffer.physical_address - address >= size:
                return self._insert(index, address, size)
            end = buffer.physical_address + len(buffer.array)
            address = -(-end // ALIGNMENT) * ALIGNMENT
        if address + size > self._base + self._size:
            raise OutOfMemory(
                f"{size} bytes of contiguous memory are needed, and {self._base + self._size - address} are free"
            )
        return self._insert(len(self._buffers), address, size)

    def _insert(self, index: int, address: int, size: int) -> ArrayBuffer:
        # NumPy aligns to 16 bytes; nothing here needs more, since addresses are simulated.
        if self._storage is None:
            array = np.zeros(size, np.uint8)
        else:
            array = self._storage[address - self._base : address - self._base + size]
            array[:] = 0
        buffer = ArrayBuffer(array, address)
        self._buffers.insert(index, buffer)
        self._note_change()
        return buffer

    def _note_change(self) -> None:
        self.generation += 1
        self._spans = [
            (buffer.physical_address, buffer.physical_address + len(buffer.array), buffer.array)
            for buffer in self._buffers
        ]

    def free(self, buffer: Buffer) -> None:
        """Free a buffer; access to its addresses is a bus error from now on."""
        self._buffers = [b for b in self._buffers if b.physical_address != buffer.physical_address]
        self._note_change()

    def view(self, address: int, size: int) -> Bytes:
        """Return a view (size,) of `size` bytes at an address.

        Raises BusError unless they lie inside one buffer.
        """
        for start, end, array in self._spans:
            if start <= address and address + size <= end:
                return array[address - start : address - start + size]
        raise BusError(f"{size} bytes at {address:#x}")
