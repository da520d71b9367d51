"""The driver's access to a device: an OSError becomes a DeviceAccessError that names the register."""

from __future__ import annotations

from fluidnpu.hls import REGISTERS

from ..errors import DeviceAccessError
from .device import Buffer, Device

_NAMES = {register.offset: register.name for register in REGISTERS}


class Bus:
    """The verbs of a `Device`. Each raises DeviceAccessError where the device raises an OSError."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def read(self, offset: int) -> int:
        """Read the 32-bit register at `offset`. Raises DeviceAccessError."""
        try:
            return self._device.read(offset)
        except OSError as error:
            raise _failure(f"reading {_NAMES.get(offset)}", error) from error

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset`. Raises DeviceAccessError."""
        try:
            self._device.write(offset, value)
        except OSError as error:
            raise _failure(f"writing {_NAMES.get(offset)}", error) from error

    def allocate(self, size: int) -> Buffer:
        """Allocate at least `size` zeroed bytes. Raises DeviceAccessError, OutOfMemory."""
        try:
            return self._device.allocate(size)
        except OSError as error:
            raise _failure(f"allocating {size} bytes", error) from error

    def free(self, buffer: Buffer) -> None:
        """Give a buffer back. Raises DeviceAccessError."""
        try:
            self._device.free(buffer)
        except OSError as error:
            raise _failure("freeing memory", error) from error

    def flush(self, buffer: Buffer, start: int = 0, stop: int | None = None) -> None:
        """Let the NPU see the host's writes to bytes start..stop of a buffer. Raises DeviceAccessError."""
        try:
            buffer.flush(start, stop)
        except OSError as error:
            raise _failure("handing memory to the NPU", error) from error

    def invalidate(self, buffer: Buffer, start: int = 0, stop: int | None = None) -> None:
        """Let the host see the NPU's writes to bytes start..stop of a buffer. Raises DeviceAccessError."""
        try:
            buffer.invalidate(start, stop)
        except OSError as error:
            raise _failure("taking memory back from the NPU", error) from error

    def wait_interrupt(self, deadline_ns: int) -> bool:
        """Return True once the interrupt line is high, False when it is still low at `deadline_ns`.

        Raises DeviceAccessError.
        """
        try:
            return self._device.wait_interrupt(deadline_ns)
        except OSError as error:
            raise _failure("waiting for the interrupt", error) from error


def _failure(what: str, error: OSError) -> DeviceAccessError:
    return DeviceAccessError(f"the device failed while {what}: {error}")
