"""One NPU in simulation, callable from Python: registers, memory, interrupt, and the cycles of every layer.

Cycles are those of the RTL; DRAM is modelled (`DramModel`), so figures with it are simulated. SimulationError
tells that a master broke a rule of AXI or that an assertion in the RTL failed. `host` makes a device of it.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import DramModel as DramModel
from fluidnpu.dse.exact import LayerCycles

from ..errors import SimulationError
from .model import NpuModel

Bytes = npt.NDArray[np.uint8]

SLVERR, DECERR = 2, 3
_MOST_SAMPLES = 1 << 14  # more than there are different ones
_FRACTION = 1024  # the harness counts bandwidth in bytes of 1 / 1024
_IRQ, _IDLE = 1, 2
_NO_LAYER = 0xFFFF_FFFF
_FAILURES = {
    1: "a burst crosses 4 KiB",
    2: "a burst's address is not aligned to the port",
    3: "a burst is not of type INCR",
    4: "a burst's size is not the port's width",
    5: "a burst has more beats than the port takes",
    6: "an address changed or vanished before it was taken",
    7: "write data changed or vanished before they were taken",
    8: "WLAST is not at the last beat of its burst",
    9: "write data came without an address",
    10: "the registers did not answer",
    11: "an assertion in the RTL failed",
    12: "the NPU said that it is idle while memory owed it data or an answer",
}


class _Settings(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in (
            "latency", "write_latency", "link_rate", "total_rate", "refresh_interval", "refresh_cycles", "outstanding", "max_burst"
        )),
        ("link", ctypes.c_uint32 * 3),
    )  # fmt: skip


class _Event(ctypes.Structure):
    _fields_ = (
        ("cycle", ctypes.c_uint64),
        ("read_beats", ctypes.c_uint64 * 3),
        ("read_bursts", ctypes.c_uint64 * 3),
        *((name, ctypes.c_uint64) for name in (
            "write_beats", "write_bursts", "input_taken", "input_blocked", "input_starved", "weight_taken", "residual_taken",
            "output_taken",
        )),
        ("layer", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )  # fmt: skip


class _Count(ctypes.Structure):
    _fields_ = (("key", ctypes.c_uint64), ("hits", ctypes.c_uint64))


@dataclass(frozen=True, kw_only=True)
class LayerRun(LayerCycles):
    """One layer of one job as the RTL ran it; `start_cycle` counts from reset.

    `cycles` are from the cycle in which the layer's number shows to the one in which the next shows or the
    job ends.
    """

    layer: int
    start_cycle: int


class RtlNpu:
    """One NPU in simulation: registers, memory [base, base + memory_bytes), interrupt and clock.

    `memory` is shared with the model: the NPU reads what Python writes, and the other way round.
    Uninitialised state is random by `seed`.
    """

    def __init__(
        self,
        model: NpuModel,
        *,
        dram: DramModel = DramModel.IDEAL,
        base: int = 0x1000_0000,
        memory_bytes: int = 1 << 28,
        seed: int = 1,
    ) -> None:
        self.model, self.dram, self.base = model, dram, base
        self.memory: Bytes = np.zeros(memory_bytes, np.uint8)
        self._library = _library(model.build())
        rates = [round(2 * words * _FRACTION) for words in (dram.link_words, dram.total_words)]
        settings = _Settings(
            base, memory_bytes, seed, dram.latency_cycles, dram.write_latency_cycles, *rates, dram.refresh_interval_cycles,
            dram.refresh_cycles, dram.outstanding, dram.max_burst, (ctypes.c_uint32 * 3)(*dram.links),
        )  # fmt: skip
        self._handle = ctypes.c_void_p(
            self._library.npu_open(ctypes.c_void_p(self.memory.ctypes.data), ctypes.byref(settings))
        )
        self._open: _Event | None = None  # the last event told
        weakref.finalize(self, self._library.npu_close, self._handle)

    def read(self, offset: int) -> int:
        """Read the 32-bit register at `offset` through AXI4-Lite; zero where there is none."""
        value = ctypes.c_uint32()
        self._library.npu_read(self._handle, offset, ctypes.byref(value))
        self._check()
        return value.value

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset` through AXI4-Lite."""
        self._library.npu_write(self._handle, offset, value)
        self._check()

    def run(self, cycles: int, *, until_interrupt: bool = False, until_idle: bool = False) -> bool:
        """Run `cycles` cycles, fewer if the awaited event comes; returns the level of the interrupt line."""
        until = _IRQ * until_interrupt | _IDLE * until_idle
        state = self._library.npu_run(self._handle, ctypes.c_uint64(cycles), until)
        self._check()
        return bool(state & _IRQ)

    @property
    def irq(self) -> bool:
        """The interrupt line."""
        return self.run(0)

    @property
    def idle(self) -> bool:
        """True when nothing runs and nothing is outstanding on the bus."""
        return bool(self._library.npu_run(self._handle, ctypes.c_uint64(0), 0) & _IDLE)

    @property
    def cycle(self) -> int:
        """Cycles simulated since reset."""
        return int(self._library.npu_cycle(self._handle))

    def view(self, address: int, size: int) -> Bytes:
        """The bytes [address, address + size) of memory, (size,). Raises ValueError where there are fewer."""
        start = address - self.base
        if not 0 <= start <= start + size <= len(self.memory):
            raise ValueError(
                f"{size} bytes at {address:#x} must lie in [{self.base:#x}, {self.base + len(self.memory):#x})"
            )
        return self.memory[start : start + size]

    def fault(self, *, silent: bool = False, bad: tuple[int, int] = (0, 0), response: int = SLVERR) -> None:
        """Stop all answers of memory (`silent`), or answer addresses [bad[0], bad[1]) with `response`, from
        now on.

        Of a read just the beats that hold such an address answer so, of a write the whole burst, which then
        leaves memory as it is. What lies outside memory answers DECERR.
        """
        low, high = (ctypes.c_uint64(address) for address in bad)
        self._library.npu_fault(self._handle, int(silent), low, high, ctypes.c_uint32(response))

    @property
    def state(self) -> int:
        """The sequencer's state in three bits, and above them how far the next layer is (`coverage`)."""
        return int(self._library.npu_state(self._handle))

    @property
    def began(self) -> int:
        """The cycle in which the last START was obeyed."""
        return int(self._library.npu_began(self._handle))

    @property
    def failed(self) -> int:
        """The first cycle since then with a bus error, a bad plan or a block that does not fit; else 0."""
        return int(self._library.npu_ended(self._handle))

    def take_samples(self) -> Counter[tuple[int, int]]:
        """Take what coverage has sampled since the last call: hits by (kind, what); `coverage` names them."""
        counts = (_Count * _MOST_SAMPLES)()
        taken = self._library.npu_take_samples(self._handle, counts, ctypes.c_uint64(_MOST_SAMPLES))
        return Counter({(count.key >> 48, count.key & (1 << 48) - 1): count.hits for count in counts[:taken]})

    def take_layers(self) -> list[LayerRun]:
        """Take the layers that ran since the last call, in order; a layer that still runs comes with the next
        call.

        A soft reset shows as some cycles of the layer that it dropped or that ran last.
        """
        count = self._library.npu_events(self._handle)
        events = (_Event * count)()
        self._library.npu_take_events(self._handle, events)
        runs: list[LayerRun] = []
        last = self._open
        for event in events:
            if last is not None and last.layer != _NO_LAYER:
                runs.append(_layer_run(last, event))
            last = event
        self._open = last
        return runs

    def _check(self) -> None:
        code = self._library.npu_code(self._handle)
        if code:
            raise SimulationError(f"{_FAILURES[code]}, in cycle {self.cycle} of the NPU")


def _layer_run(first: _Event, after: _Event) -> LayerRun:
    def grown(name: str) -> int:
        return int(getattr(after, name) - getattr(first, name))

    def each(name: str) -> tuple[int, int, int]:
        a, b = getattr(first, name), getattr(after, name)
        return (b[0] - a[0], b[1] - a[1], b[2] - a[2])

    return LayerRun(
        layer=first.layer,
        start_cycle=first.cycle,
        cycles=grown("cycle"),
        input_beats=grown("input_taken"),
        blocked_cycles=grown("input_blocked"),
        starved_cycles=grown("input_starved"),
        weight_beats=grown("weight_taken"),
        residual_beats=grown("residual_taken"),
        output_beats=grown("output_taken"),
        read_beats=each("read_beats"),
        read_bursts=each("read_bursts"),
        write_beats=grown("write_beats"),
        write_bursts=grown("write_bursts"),
    )


@cache
def _library(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.npu_open.restype = ctypes.c_void_p
    for name in ("npu_cycle", "npu_events", "npu_take_samples", "npu_began", "npu_ended"):
        getattr(library, name).restype = ctypes.c_uint64
    for name in ("npu_run", "npu_code", "npu_state"):
        getattr(library, name).restype = ctypes.c_uint32
    return library
