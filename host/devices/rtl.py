"""The NPU's RTL as a `Device`: register accesses become AXI4-Lite transfers, buffers lie in the model's DRAM.

Time is simulated cycles at the design's clock. While the NPU is idle, time jumps instead of being simulated,
since an idle NPU does not change. `rtl_tb` is imported only when such a device is opened, so a board needs no
Verilator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidnpu.dse import Design
from fluidnpu.hls import WINDOW_BYTES

from .device import ArrayBuffer, Buffer
from .memory import SimulatedMemory

if TYPE_CHECKING:
    from fluidnpu.rtl_tb import DramModel, RtlNpu

_WORD = 0xFFFF_FFFF


class RtlClock:
    """A clock of simulated cycles in nanoseconds; `sleep_until` runs the NPU until it is idle, then jumps."""

    def __init__(self, npu: RtlNpu, clock_hz: int) -> None:
        self._npu, self._clock_hz, self._skipped = npu, clock_hz, 0

    @property
    def cycles(self) -> int:
        """Cycles since reset, including the skipped ones."""
        return self._npu.cycle + self._skipped

    def now_ns(self) -> int:
        """Return nanoseconds since reset, rounded down."""
        return self.cycles * 1_000_000_000 // self._clock_hz

    def sleep_until(self, time_ns: int) -> None:
        """Run the NPU until `time_ns`."""
        self.advance(time_ns, until_interrupt=False)

    def advance(self, time_ns: int, *, until_interrupt: bool) -> bool:
        """Run to the first cycle at or after `time_ns`, or to the interrupt; return the level of the line."""
        target = -(-time_ns * self._clock_hz // 1_000_000_000)
        while (remaining := target - self.cycles) > 0:
            if self._npu.run(remaining, until_interrupt=until_interrupt, until_idle=True) and until_interrupt:
                return True
            if self._npu.idle:
                # A cycle more lets an event of the last one reach the interrupt line.
                if self._npu.run(min(2, target - self.cycles)) and until_interrupt:
                    return True
                if self._npu.idle:
                    self._skipped += max(0, target - self.cycles)
        return self._npu.irq


class RtlDevice:
    """A `Device` over an `RtlNpu` with the core "rtl" or "hls" that runs at `clock_hz`."""

    def __init__(self, npu: RtlNpu, clock_hz: int, core: str = "rtl") -> None:
        self.npu, self.core = npu, core
        self.memory = SimulatedMemory(npu.base, storage=npu.memory)
        self._clock = RtlClock(npu, clock_hz)

    @property
    def clock(self) -> RtlClock:
        """The clock of simulated cycles."""
        return self._clock

    @property
    def first_cycle(self) -> int:
        """The first cycle of the last job, on the clock of the modelled memory's refresh."""
        return self.npu.began + 1

    def read(self, offset: int) -> int:
        """Read the 32-bit register at `offset`."""
        return self.npu.read(_check_offset(offset))

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset`. Raises ValueError for a wrong value or offset."""
        if not 0 <= value <= _WORD:
            raise ValueError(f"a register takes 32 bits, so {value:#x} does not fit")
        self.npu.write(_check_offset(offset), value)

    def allocate(self, size: int) -> ArrayBuffer:
        """Allocate zeroed bytes of the model's DRAM. Raises OutOfMemory."""
        return self.memory.allocate(size)

    def free(self, buffer: Buffer) -> None:
        """Free a buffer of `allocate`."""
        self.memory.free(buffer)

    def wait_interrupt(self, deadline_ns: int) -> bool:
        """Run until the interrupt line is high or the deadline is reached; return the level of the line."""
        return self._clock.advance(deadline_ns, until_interrupt=True)


def rtl_device(design: Design, dram: DramModel | None = None, *, core: str = "rtl", seed: int = 1) -> RtlDevice:
    """Open the RTL of a design as a device, building the model if needed.

    `dram` defaults to the memory of the design's board. With `core` "hls" the HLS core's C++ replaces the
    SystemVerilog core, one call a cycle. Raises rtl_tb's SimulationError or hls' CsimError when the extra
    `rtl`, the ap_int headers or a compiler is missing, and DesignError where the design carries no facts.
    """
    from fluidnpu.rtl_tb import NpuModel, RtlNpu

    dram = design.dram if dram is None else dram
    npu = RtlNpu(NpuModel.of(design, core=core), dram=dram, seed=seed)
    return RtlDevice(npu, design.clock_hz, core)


def _check_offset(offset: int) -> int:
    if offset % 4 or not 0 <= offset < WINDOW_BYTES:
        raise ValueError(f"a register's offset must be a multiple of 4 in 0..{WINDOW_BYTES - 4:#x}, not {offset:#x}")
    return offset
