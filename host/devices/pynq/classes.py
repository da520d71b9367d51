"""The only file that imports pynq, and only when asked: the NPU as a PYNQ IP, and the simulated NPU as a PYNQ device.

`npu_of(overlay)` is the same on a board and here: PYNQ binds `FluidNpuIP` to the NPU by its VLNV, and that driver is a `Device` of
ours. What differs is which PYNQ device the overlay was loaded on: a board's own, or `simulated_pynq_device()`, whose "bitstream" is
the design itself. The latter is what has been run; a board's own has not yet.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fluidnpu.hls import NPU_VLNV, PLATFORMS

from ...errors import BundleError, DeviceAccessError, HostError, OutOfMemory, PynqMissingError
from ..device import ArrayBuffer, Buffer, Clock, Device, WallClock
from ..memory import SimulatedMemory
from ..polling import wait_for_event
from ..simulated import SimulatedNpu
from .bitstream import read_simulated_bitstream
from .hwh import IRQ_PIN, NPU_RANGE, PS

_WORD_BYTES = 4
_LOOK_NS = 1_000_000  # between two looks of the simulated interrupt line


@cache
def _pynq() -> Any:
    """The pynq package with the corners we use. Raises PynqMissingError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # off a board pynq warns, on import alone, of everything it will not find
            import pynq
            import pynq.interrupt
            import pynq.lib
            import pynq.pl_server.hwh_parser
    except ImportError as error:
        raise PynqMissingError(
            f"PYNQ must be installed for this device (pip install 'fluidnpu[board]'), and it is not: {error}"
        ) from None
    return pynq


@cache
def pynq_classes() -> SimpleNamespace:
    """`FluidNpuIP` and `SimulatedPynqDevice`; the first call imports pynq and registers the driver. Raises PynqMissingError."""
    pynq = _pynq()

    class FluidNpuIP(pynq.DefaultIP):  # type: ignore[misc, name-defined]
        """The NPU as PYNQ sees it, and a `Device` as the driver sees it."""

        bindto = [NPU_VLNV]  # noqa: RUF012  -- pynq's own protocol

        def __init__(self, description: dict[str, Any]) -> None:
            super().__init__(description)
            self.clock: Clock = getattr(self.device, "npu_clock", None) or WallClock()
            # A board's PYNQ device knows nothing of the NPU's interrupt, so there the event register is polled: that works in
            # any thread, while PYNQ's interrupts belong to the event loop of the thread that loaded the overlay.
            self._wait: Callable[[int], bool] | None = getattr(self.device, "npu_wait", None)

        def read(self, offset: int = 0) -> int:
            return int(self.mmio.read(offset))

        def write(self, offset: int, value: int) -> None:
            self.mmio.write(offset, int(value))

        def allocate(self, size: int) -> ArrayBuffer:
            try:
                buffer = pynq.allocate((size,), dtype=np.uint8, target=self.device)
            except (MemoryError, RuntimeError) as error:
                raise OutOfMemory(
                    f"{size} bytes of contiguous memory are needed, and PYNQ has none: {error}"
                ) from error
            buffer[:] = 0
            return ArrayBuffer(np.asarray(buffer), int(buffer.physical_address), owner=buffer)

        def free(self, buffer: Buffer) -> None:
            owner = getattr(buffer, "owner", None)
            if owner is not None:
                owner.freebuffer()

        def wait_interrupt(self, deadline_ns: int) -> bool:
            if self._wait is not None:
                return self._wait(deadline_ns)
            return wait_for_event(self, deadline_ns)

        async def wait_interrupt_async(self) -> None:
            """Wait on PYNQ's own interrupt of the NPU's pin, in an event loop."""
            await getattr(self, IRQ_PIN).wait()

    class SimulatedPynqDevice(pynq.Device):  # type: ignore[misc, name-defined]
        """A Zynq without silicon: downloading a simulated overlay makes the NPU of the design in it."""

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
            return self.npu.clock if self.npu else None

        def npu_wait(self, deadline_ns: int) -> bool:
            return self._loaded().wait_interrupt(deadline_ns)

        def _loaded(self) -> SimulatedNpu:
            if self.npu is None:
                raise HostError("an overlay must be downloaded to the simulated device before its NPU answers")
            return self.npu

        def read_registers(self, address: int, length: int) -> bytes:
            words = (self._word(address + at) for at in range(0, length, _WORD_BYTES))
            return b"".join(word.to_bytes(_WORD_BYTES, "little") for word in words)

        def _word(self, address: int) -> int:
            if 0 <= address - self._npu_base < NPU_RANGE:
                return self._loaded().read(address - self._npu_base)
            return self._registers.get(address, 0)

        def write_registers(self, address: int, data: bytes) -> None:
            for at in range(0, len(data), _WORD_BYTES):
                word = int.from_bytes(data[at : at + _WORD_BYTES], "little")
                if 0 <= address + at - self._npu_base < NPU_RANGE:
                    self._loaded().write(address + at - self._npu_base, word)
                else:
                    self._registers[address + at] = word

        def allocate(self, shape: Any, dtype: Any, **_: Any) -> Any:
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
            self._memory.free(pointer)

        def get_bitfile_metadata(self, bitfile_name: str, partial: bool = False) -> Any:
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
            _, design = read_simulated_bitstream(Path(bitstream.bitfile_name))
            self.npu = SimulatedNpu(design, clock=self._clock, memory=self._memory)
            for pin in parser.interrupt_pins.values():
                pynq.interrupt._InterruptController._uio_devices[pin["raw_irq"]] = _SimulatedLine(self.npu)
            super().post_download(bitstream, parser, self.name)

    return SimpleNamespace(FluidNpuIP=FluidNpuIP, SimulatedPynqDevice=SimulatedPynqDevice)


class _SimulatedLine:
    """The simulated NPU's interrupt line where PYNQ expects a UIO device: sets an asyncio event once the line is high."""

    def __init__(self, npu: SimulatedNpu) -> None:
        self._npu = npu

    def add_event(self, event: asyncio.Event, number: int) -> None:
        """PYNQ's call: set `event` when interrupt `number` is active."""
        asyncio.get_running_loop().call_soon(self._look, event)

    def _look(self, event: asyncio.Event) -> None:
        if self._npu.wait_interrupt(self._npu.clock.now_ns() + _LOOK_NS):
            event.set()
        else:
            asyncio.get_running_loop().call_later(0, self._look, event)


def simulated_pynq_device(*, clock: Clock | None = None, memory: SimulatedMemory | None = None) -> Any:
    """A PYNQ device without silicon, for `open_overlay` or `pynq.Overlay(..., device=...)`. Raises PynqMissingError."""
    return pynq_classes().SimulatedPynqDevice(clock=clock, memory=memory)


@contextmanager
def active_device(device: Any) -> Iterator[None]:
    """Make `device` the one PYNQ takes when none is named; what was active before comes back afterwards."""
    cls = _pynq().Device
    before = getattr(cls, "_active_device", None)
    cls.active_device = device
    try:
        yield
    finally:
        if before is None:
            del cls._active_device
        else:
            cls.active_device = before


def open_overlay(bit: Path | str, device: Any = None) -> Device:
    """Download a bitstream and return its NPU, on this board or on a `simulated_pynq_device`.

    Raises PynqMissingError, BundleError, and DeviceAccessError where PYNQ finds no board or cannot load the bitstream.
    """
    pynq = _pynq()
    pynq_classes()
    try:
        if device is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "No devices found")  # our sentence says it
                return npu_of(pynq.Overlay(str(bit)))
        with active_device(device):
            return npu_of(pynq.Overlay(str(bit), device=device))
    except HostError:
        raise
    except Exception as error:  # PYNQ says what it cannot do in errors of any kind
        reason = str(error) or type(error).__name__
        raise DeviceAccessError(f"PYNQ must load '{bit}' on a board, and it cannot: {reason}") from error


def npu_of(overlay: Any) -> Device:
    """The NPU of a loaded overlay, bound to our driver; BundleError unless there is exactly one."""
    names = [name for name, ip in overlay.ip_dict.items() if ip["type"] == NPU_VLNV]
    if len(names) != 1:
        raise BundleError(f"an overlay must hold exactly one {NPU_VLNV}, and it holds {len(names)}")
    npu: Device = getattr(overlay, names[0])
    return npu
