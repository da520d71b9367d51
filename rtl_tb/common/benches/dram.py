"""A DRAM model on an AXI port with random latency, idle gaps and back-pressure; it checks the protocol of its
masters.

`Weather` says how rough the bus is. Reads answer in order. Addresses in `bad` answer with an error.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from .clock import Dut

PAGE = 4096
SLVERR = 2


@dataclass(frozen=True, kw_only=True)
class Weather:
    """Latency in cycles (least, most) and the chance that a channel pauses in a cycle."""

    latency: tuple[int, int] = (0, 0)
    pause: float = 0.0


@dataclass
class Counters:
    """Bursts and beats that passed in either direction.

    `log` holds (cycle, "r" or "w", address, beats, note).
    """

    read_bursts: int = 0
    read_beats: int = 0
    write_bursts: int = 0
    write_beats: int = 0
    answers: int = 0
    log: list[tuple[int, str, int, int, str]] = field(default_factory=list)

    @property
    def owed(self) -> tuple[int, int]:
        """(Read beats asked for and not given, write bursts asked for and not answered)."""
        asked = sum(beats for _, way, _, beats, _ in self.log if way == "r")
        return asked - self.read_beats, self.write_bursts - self.answers


class BenchDram:
    """A memory whose first byte lies at address `base`, behind any number of read and write ports."""

    def __init__(
        self, dut: Dut, rng: random.Random, memory: bytearray, base: int = 0, weather: Weather | None = None
    ) -> None:
        self.dut, self.rng, self.memory, self.base = dut, rng, memory, base
        self.weather = weather or Weather()
        self.bad: set[int] = set()  # byte addresses whose access answers SLVERR
        self.note: Callable[[], str] = str  # an addition to a burst's log entry
        self.silent = False  # a bus that stops answering
        self.cycle = 0
        self.counters: dict[str, Counters] = {}
        self.written = 0
        self.tasks: list[Any] = []

    def read_port(self, prefix: str, data_bytes: int) -> None:
        """Serve `<prefix>_ar*` and `<prefix>_r*`."""
        self.tasks.append(cocotb.start_soon(self._reads(prefix, data_bytes)))

    def write_port(self, prefix: str, data_bytes: int) -> None:
        """Serve `<prefix>_aw*`, `<prefix>_w*` and `<prefix>_b*`."""
        self.tasks.append(cocotb.start_soon(self._writes(prefix, data_bytes)))

    def stop(self) -> None:
        """Release the ports, when nothing is outstanding."""
        for task in self.tasks:
            task.cancel()

    def _check(self, name: str, address: int, beats: int, data_bytes: int) -> None:
        size = beats * data_bytes
        assert address % data_bytes == 0, f"{name}: burst at {address:#x} is not aligned"
        assert address // PAGE == (address + size - 1) // PAGE, f"{name}: burst {address:#x} + {size} crosses 4 KiB"
        inside = self.base <= address and address + size <= self.base + len(self.memory)
        assert inside, f"{name}: burst {address:#x} + {size} leaves the memory"

    def _late(self) -> int:
        return self.cycle + self.rng.randint(*self.weather.latency)

    def _go(self) -> int:
        return int(not self.silent and self.rng.random() >= self.weather.pause)

    async def _reads(self, prefix: str, size: int) -> None:
        port = {n: getattr(self.dut, f"{prefix}_{n}") for n in (
            "araddr", "arlen", "arsize", "arburst", "arvalid", "arready", "rdata", "rresp", "rlast", "rvalid", "rready"
        )}  # fmt: skip
        count = self.counters.setdefault(prefix, Counters())
        beats: deque[tuple[int, int, int]] = deque()  # (due cycle, address, last)
        ready = valid = 0
        port["arready"].value, port["rvalid"].value = 0, 0
        while True:
            await RisingEdge(self.dut.clk_i)
            self.cycle += prefix == next(iter(self.counters))
            if ready and port["arvalid"].value:
                address, length = int(port["araddr"].value), int(port["arlen"].value) + 1
                assert int(port["arburst"].value) == 1
                assert 1 << int(port["arsize"].value) == size
                self._check(prefix, address, length, size)
                due = max(self._late(), beats[-1][0] if beats else 0)
                beats.extend((due, address + i * size, int(i == length - 1)) for i in range(length))
                count.read_bursts += 1
                count.log.append((self.cycle, "r", address, length, self.note()))
            if valid and port["rready"].value:
                beats.popleft()
                count.read_beats += 1
                valid = 0
            if not valid and beats and beats[0][0] <= self.cycle and self._go():
                _, address, last = beats[0]
                at = address - self.base
                port["rdata"].value = int.from_bytes(self.memory[at : at + size], "little")
                port["rresp"].value = SLVERR if not self.bad.isdisjoint(range(address, address + size)) else 0
                port["rlast"].value = last
                valid = 1
            port["rvalid"].value = valid
            ready = self._go()
            port["arready"].value = ready

    async def _writes(self, prefix: str, size: int) -> None:
        port = {n: getattr(self.dut, f"{prefix}_{n}") for n in (
            "awaddr", "awlen", "awsize", "awburst", "awvalid", "awready", "wdata", "wstrb", "wlast", "wvalid", "wready",
            "bresp", "bvalid", "bready",
        )}  # fmt: skip
        count = self.counters.setdefault(prefix, Counters())
        bursts: deque[tuple[int, int]] = deque()
        words: deque[tuple[int, int, int]] = deque()
        answers: deque[tuple[int, int]] = deque()
        aw_ready = w_ready = valid = 0
        port["awready"].value, port["wready"].value, port["bvalid"].value = 0, 0, 0
        while True:
            await RisingEdge(self.dut.clk_i)
            self.cycle += prefix == next(iter(self.counters))
            if aw_ready and port["awvalid"].value:
                address, length = int(port["awaddr"].value), int(port["awlen"].value) + 1
                assert int(port["awburst"].value) == 1
                assert 1 << int(port["awsize"].value) == size
                self._check(prefix, address, length, size)
                bursts.append((address, length))
                count.write_bursts += 1
                count.log.append((self.cycle, "w", address, length, self.note()))
            if w_ready and port["wvalid"].value:
                words.append((int(port["wdata"].value), int(port["wstrb"].value), int(port["wlast"].value)))
                count.write_beats += 1
            if bursts and len(words) >= bursts[0][1]:
                address, length = bursts.popleft()
                response = 0
                for i in range(length):
                    data, strobe, last = words.popleft()
                    assert last == (i == length - 1), f"{prefix}: WLAST at beat {i} of {length}"
                    response |= self._store(address + i * size, data.to_bytes(size, "little"), strobe)
                answers.append((self._late(), response))
            if valid and port["bready"].value:
                count.answers += 1
                valid = 0
            if not valid and answers and answers[0][0] <= self.cycle and self._go():
                port["bresp"].value = answers.popleft()[1]
                valid = 1
            port["bvalid"].value = valid
            aw_ready, w_ready = self._go(), self._go()
            port["awready"].value, port["wready"].value = aw_ready, w_ready

    def _store(self, address: int, data: bytes, strobe: int) -> int:
        if not self.bad.isdisjoint(range(address, address + len(data))):
            return SLVERR
        for i, byte in enumerate(data):
            if strobe >> i & 1:
                self.memory[address - self.base + i] = byte
                self.written += 1
        return 0
