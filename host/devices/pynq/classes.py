"""The only file that imports pynq: the NPU as a PYNQ IP, and the simulated NPU as a PYNQ device.

`overlay.py` imports it when a PYNQ device is asked for. Importing it registers `FluidNpuIP`, which PYNQ then
binds to every NPU by its VLNV.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fluidnpu.hls.project import NPU_VLNV, PLATFORMS

from ...errors import HostError, OutOfMemory
from ..device import ArrayBuffer, Buffer, Clock, WallClock
from ..memory import SimulatedMemory
from ..polling import wait_for_event
from ..simulated import SimulatedNpu
from .bitstream import read_simulated_bitstream
from .hwh import IRQ_PIN, NPU_RANGE, PS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # off a board pynq warns, on import alone, of everything it will not find
    import pynq
    import pynq.interrupt
    import pynq.lib
    import pynq.pl_server.hwh_parser

_WORD_BYTES = 4
_LEAST_BYTES = 8192  # XRT gives smaller buffers addresses beyond 32 bits
_LOOK_NS = 1_000_000  # between two looks at the simulated interrupt line


class FluidNpuIP(pynq.DefaultIP):  # type: ignore[misc]
    """The NPU as PYNQ sees it, and a `Device` as the driver sees it."""

    bindto = [NPU_VLNV]  # noqa: RUF012  -- pynq's own protocol

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__(description)
        self.clock: Clock = getattr(self.device, "npu_clock", None) or WallClock()
        # A board's PYNQ device knows nothing of the NPU's interrupt, so there the event register is polled:
        # that works in any thread, while PYNQ's interrupts belong to the event loop of the thread that loaded
        # the overlay.
        self._wait: Callable[[int], bool] | None = getattr(self.device, "npu_wait", None)

    def read(self, offset: int = 0) -> int:
        """Read the 32-bit register at `offset`."""
        return int(self.mmio.read(offset))

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset`."""
        self.mmio.write(offset, int(value))

    def allocate(self, size: int) -> ArrayBuffer:
        """Allocate `size` zeroed bytes through PYNQ. Raises OutOfMemory."""
        size = max(size, _LEAST_BYTES)
        try:
            buffer = pynq.allocate((size,), dtype=np.uint8, target=self.device)
        except (MemoryError, RuntimeError) as error:
            raise OutOfMemory(f"{size} bytes of contiguous memory are needed, and PYNQ has none: {error}") from error
        buffer[:] = 0
        return _PynqMemory(buffer)

    def free(self, buffer: Buffer) -> None:
        """Give a buffer of `allocate` back to PYNQ."""
        owner = getattr(buffer, "owner", None)
        if owner is not None:
            owner.freebuffer()

    def wait_interrupt(self, deadline_ns: int) -> bool:
        """Return True once an enabled event is set, False when none is at `deadline_ns`."""
        if self._wait is not None:
            return self._wait(deadline_ns)
        return wait_for_event(self, deadline_ns)

    async def wait_interrupt_async(self) -> None:
        """Wait on PYNQ's own interrupt of the NPU's pin, in an event loop."""
        await getattr(self, IRQ_PIN).wait()


class _PynqMemory(ArrayBuffer):
    """A PYNQ buffer. It flushes and invalidates nothing that is coherent, and all of what is not."""

    def __init__(self, buffer: Any) -> None:
        super().__init__(np.asarray(buffer), int(buffer.physical_address), owner=buffer)

    def flush(self, start: int = 0, stop: int | None = None) -> None:
        """Let the NPU see the host's writes to bytes start..stop."""
        self.owner[start:stop].flush()

    def invalidate(self, start: int = 0, stop: int | None = None) -> None:
        """Let the host see the NPU's writes to bytes start..stop."""
        self.owner[start:stop].invalidate()


class SimulatedPynqDevice(pynq.Device):  # type: ignore[misc]
    """A Zynq without silicon: downloading a simulated overlay makes the NPU of the design in it.

    Most methods are those that PYNQ calls on any of its devices.
    """

    def __init__(self, clock: Clock | None = None, memory: SimulatedMemory | None = None) -> None:
        super().__init__("fluidnpu-simulated")
        self.name = "fluidnpu-simulated"
        self.arch = ""  # set with the overlay's family
        self.capabilities = {"REGISTER_RW": True}
        self.npu: SimulatedNpu | None = None
        self._clock, self._memory = clock, SimulatedMemory() if memory is None else memory
        self._registers: dict[int, int] = {}
        self._npu_base = 0

    @property
    def npu_clock(self) -> Clock | None:
        """The NPU's clock; None before an overlay was downloaded."""
        return self.npu.clock if self.npu else None

    def npu_wait(self, deadline_ns: int) -> bool:
        """Wait for the NPU's interrupt line as `Device.wait_interrupt` does."""
        return self._load_npu().wait_interrupt(deadline_ns)

    def _load_npu(self) -> SimulatedNpu:
        if self.npu is None:
            raise HostError("an overlay must be downloaded to the simulated device before its NPU answers")
        return self.npu

    def read_registers(self, address: int, length: int) -> bytes:
        """Read `length` bytes of the NPU's registers, or of the processing system's."""
        words = (self._word(address + at) for at in range(0, length, _WORD_BYTES))
        return b"".join(word.to_bytes(_WORD_BYTES, "little") for word in words)

    def _word(self, address: int) -> int:
        if 0 <= address - self._npu_base < NPU_RANGE:
            return self._load_npu().read(address - self._npu_base)
        return self._registers.get(address, 0)

    def write_registers(self, address: int, data: bytes) -> None:
        """Write bytes to the NPU's registers, or to the processing system's."""
        for at in range(0, len(data), _WORD_BYTES):
            word = int.from_bytes(data[at : at + _WORD_BYTES], "little")
            if 0 <= address + at - self._npu_base < NPU_RANGE:
                self._load_npu().write(address + at - self._npu_base, word)
            else:
                self._registers[address + at] = word

    def allocate(self, shape: Any, dtype: Any, **_: Any) -> Any:
        """Allocate a PYNQ buffer in simulated DRAM. Raises OutOfMemory."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = self._memory.allocate(size)
        address = memory.physical_address
        buffer = pynq.buffer.PynqBuffer(
            shape, dtype, buffer=memory.array, device=self, device_address=address, coherent=True
        )
        # So that freebuffer and the end of its life come back to `return_pointer`, once, and never to munmap.
        buffer.memory, buffer.pointer, buffer.return_to, buffer.freed = self._memory, memory, self, True
        return buffer

    def return_pointer(self, pointer: ArrayBuffer) -> None:
        """Free the memory of a PYNQ buffer whose life has ended."""
        self._memory.free(pointer)

    def get_bitfile_metadata(self, bitfile_name: str, partial: bool = False) -> Any:
        """Parse the .hwh beside a simulated bitstream, set up the processing system. Raises BundleError."""
        family, _ = read_simulated_bitstream(Path(bitfile_name))
        parsers = pynq.pl_server.hwh_parser
        parser_class = {"zynq7000": parsers._HWHZynq, "zynquplus": parsers._HWHUltrascale}[family]
        parser = parser_class(hwh_name=str(Path(bitfile_name).with_suffix(".hwh")))
        parser.systemgraph = None
        for clock in parser.clock_dict.values():
            clock["frequency"] = PS[family].source_hz / 1e6 / (clock["divisor0"] * clock["divisor1"])
        self.arch, self._npu_base = PS[family].arch, PLATFORMS[family].registers_base
        self._registers = dict(PS[family].resets)
        if hasattr(pynq.Clocks, "_real_instance"):  # PYNQ keeps the clocks of the device it saw first
            del pynq.Clocks._real_instance
        return parser

    def download(self, bitstream: Any, parser: Any = None) -> None:
        """Make the NPU of a simulated bitstream and connect its interrupt line."""
        _, design = read_simulated_bitstream(Path(bitstream.bitfile_name))
        self.npu = SimulatedNpu(design, clock=self._clock, memory=self._memory)
        for pin in parser.interrupt_pins.values():
            pynq.interrupt._InterruptController._uio_devices[pin["raw_irq"]] = _SimulatedLine(self.npu)
        super().post_download(bitstream, parser, self.name)


class _SimulatedLine:
    """The NPU's interrupt line as PYNQ's UIO device: it sets an asyncio event once the line is high."""

    def __init__(self, npu: SimulatedNpu) -> None:
        self._npu = npu

    def add_event(self, event: asyncio.Event, number: int) -> None:
        """Set `event` when interrupt `number` is active; PYNQ calls this."""
        asyncio.get_running_loop().call_soon(self._look, event)

    def _look(self, event: asyncio.Event) -> None:
        if self._npu.wait_interrupt(self._npu.clock.now_ns() + _LOOK_NS):
            event.set()
        else:
            asyncio.get_running_loop().call_later(0, self._look, event)
