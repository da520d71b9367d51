"""The whole data plane on foreign bus models: cocotbext-axi's memory on every port and its AXI4-Lite master.

Our ports carry no identifiers (every master has one stream in order); those models want some, so constants
stand in for them.
"""

from __future__ import annotations

import logging
import mmap
import random
from collections.abc import Iterator
from typing import Any

import cocotb
from cocotb.types import LogicArray

from ...common.benches.clock import Dut, begin, bench
from .host import DESIGN, LAYERS, ROUGH, CoreScoreboard, Host, change_batch, some_slots
from .jobs import BenchProgram, make_program, random_shape


class ZeroSignal:
    """Looks like a signal and holds zero after any write."""

    def __init__(self, name: str) -> None:
        self._name, self._path = name, name
        self._value = LogicArray(0, 1)

    def __len__(self) -> int:
        return 1

    @property
    def value(self) -> LogicArray:
        """The value zero."""
        return self._value

    @value.setter
    def value(self, _: object) -> None: ...

    def setimmediatevalue(self, value: int) -> None:
        """Ignore the value."""


class Ports:
    """The design's handle with the identifiers that it does not have."""

    def __init__(self, dut: Dut, prefix: str) -> None:
        self._dut, self._prefix = dut, prefix
        self._name, self._log = dut._name, dut._log
        self._constants = {
            f"{prefix}_{name}": ZeroSignal(f"{prefix}_{name}") for name in ("arid", "rid", "awid", "bid")
        }

    def __getattr__(self, name: str) -> Any:
        return self._constants[name] if name in self._constants else getattr(self._dut, name)

    def __dir__(self) -> list[str]:
        return [*dir(self._dut), *self._constants]


class ForeignMemory:
    """The part of a DRAM model that `Host` uses, on cocotbext-axi: contents, weather, tasks."""

    def __init__(self, dut: Dut, rng: random.Random, program: BenchProgram) -> None:
        from cocotbext.axi import AxiRamRead, AxiRamWrite, AxiReadBus, AxiWriteBus

        self.base, self.size, self.weather, self.tasks = program.base, len(program.memory), ROUGH, list[Any]()
        pages = mmap.mmap(-1, -(-(self.base + self.size) // 4096) * 4096)
        self.pages = pages
        self.memory = program.memory
        for prefix in ("m0_axi", "m1_axi", "m2_axi"):
            bus = AxiReadBus.from_prefix(Ports(dut, prefix), prefix)
            ram = AxiRamRead(bus, dut.clk_i, dut.rst_ni, reset_active_level=False, size=len(pages), mem=pages)
            self._quiet(ram, (ram.ar_channel, ram.r_channel), rng)
        bus = AxiWriteBus.from_prefix(Ports(dut, "m2_axi"), "m2_axi")
        ram = AxiRamWrite(bus, dut.clk_i, dut.rst_ni, reset_active_level=False, size=len(pages), mem=pages)
        self._quiet(ram, (ram.aw_channel, ram.w_channel, ram.b_channel), rng)

    @staticmethod
    def _quiet(ram: Any, channels: tuple[Any, ...], rng: random.Random) -> None:
        ram.log.setLevel(logging.WARNING)
        for channel in channels:
            channel.set_pause_generator(pauses(rng))

    @property
    def memory(self) -> bytearray:
        """The bytes from the program's base on."""
        return bytearray(self.pages[self.base : self.base + self.size])

    @memory.setter
    def memory(self, data: bytearray) -> None:
        self.pages[self.base : self.base + self.size] = bytes(data)


def pauses(rng: random.Random) -> Iterator[bool]:
    """Pause in three cycles of ten."""
    while True:
        yield rng.random() < 0.3


class ForeignLite:
    """The part of an AXI4-Lite master that `Host` uses, on cocotbext-axi."""

    def __init__(self, dut: Dut) -> None:
        from cocotbext.axi import AxiLiteBus, AxiLiteMaster

        bus = AxiLiteBus.from_prefix(dut, "s_axil")
        self.master = AxiLiteMaster(bus, dut.clk_i, dut.rst_ni, reset_active_level=False)
        for half in (self.master.write_if, self.master.read_if):
            half.log.setLevel(logging.WARNING)

    async def write(self, offset: int, value: int, strobe: int = 15) -> int:
        """Write a register and return the response code."""
        assert strobe == 15
        return int((await self.master.write(offset, value.to_bytes(4, "little"))).resp)

    async def read(self, offset: int) -> tuple[int, int]:
        """Read a register: (data, response code)."""
        answer = await self.master.read(offset, 4)
        return int.from_bytes(answer.data, "little"), int(answer.resp)


@bench(400_000)
async def another_bus_agrees(dut: Dut) -> None:
    """Random programs, exits and merges are right; an access outside the map answers SLVERR here too."""
    rng = await begin(dut)
    program = make_program(DESIGN, [random_shape(rng, DESIGN) for _ in range(LAYERS)], rng)
    memory, core, lite = ForeignMemory(dut, rng, program), CoreScoreboard(dut, rng, 0.8), ForeignLite(dut)
    running = cocotb.start_soon(core.run())
    host = Host(dut, rng, program, memory, core, lite, [running])  # type: ignore[arg-type]
    await host.load()
    assert (await lite.read(0x7C))[1] == 2
    assert await lite.write(0xF00, 1) == 2
    active: list[int] = []
    for _ in range(4):
        batch = some_slots(rng, program, rng.randrange(1, DESIGN.b_max + 1))
        if set(batch) != set(active):
            await change_batch(host, active, batch)
        active = batch
        await host.job(active, 0, LAYERS - 1)
