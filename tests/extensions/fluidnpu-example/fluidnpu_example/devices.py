"""The simulated NPU, with a line in `trace.txt` for each access to a register."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from fluidnpu.host import Bundle, Device, open_device
from fluidnpu.host.devices import Buffer, Clock


class Traced:
    """Passes everything on to another device."""

    def __init__(self, inner: Device, trace: TextIO) -> None:
        self.inner, self.trace = inner, trace

    @property
    def clock(self) -> Clock:
        return self.inner.clock

    def read(self, offset: int) -> int:
        value = self.inner.read(offset)
        self.trace.write(f"read {offset:#06x} {value:#010x}\n")
        return value

    def write(self, offset: int, value: int) -> None:
        self.trace.write(f"write {offset:#06x} {value:#010x}\n")
        self.inner.write(offset, value)

    def allocate(self, size: int) -> Buffer:
        return self.inner.allocate(size)

    def free(self, buffer: Buffer) -> None:
        self.inner.free(buffer)

    def wait_interrupt(self, deadline_ns: int) -> bool:
        return self.inner.wait_interrupt(deadline_ns)


@contextmanager
def open_traced(bundle: Bundle, folder: Path | None, clock: Clock | None) -> Iterator[Device]:
    """Open the device for a bundle, and close it at the end of the `with` block."""
    with open_device("simulated", bundle, folder, clock=clock) as npu, open("trace.txt", "w") as trace:
        yield Traced(npu, trace)
