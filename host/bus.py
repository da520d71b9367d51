"""A device as the driver touches it: what the operating system reports of it (an OSError) is a DeviceAccessError with the place named."""

from __future__ import annotations

from fluidnpu.hls import REGISTERS

from .devices.device import Buffer, Device
from .errors import DeviceAccessError

_NAMES = {register.offset: register.name for register in REGISTERS}


class Bus:
    """The verbs of a `Device`, each as it is but for its errors: DeviceAccessError where the device raises an OSError."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def read(self, offset: int) -> int:
        """The 32-bit register at `offset`."""
        try:
            return self._device.read(offset)
        except OSError as error:
            raise _failed(f"reading {_NAMES.get(offset)}", error) from error

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset`."""
        try:
            self._device.write(offset, value)
        except OSError as error:
            raise _failed(f"writing {_NAMES.get(offset)}", error) from error

    def allocate(self, size: int) -> Buffer:
        """At least `size` bytes of zeros; raises OutOfMemory, too."""
        try:
            return self._device.allocate(size)
        except OSError as error:
            raise _failed(f"allocating {size} bytes", error) from error

    def free(self, buffer: Buffer) -> None:
        """Give a buffer back."""
        try:
            self._device.free(buffer)
        except OSError as error:
            raise _failed("freeing memory", error) from error

    def wait_interrupt(self, deadline_ns: int) -> bool:
        """Whether the interrupt line is high by `deadline_ns`."""
        try:
            return self._device.wait_interrupt(deadline_ns)
        except OSError as error:
            raise _failed("waiting for the interrupt", error) from error


def _failed(what: str, error: OSError) -> DeviceAccessError:
    return DeviceAccessError(f"the device failed while {what}: {error}")
