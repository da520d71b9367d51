"""Sources and sinks on valid/ready pairs, a stand-in for a read master, and waits with a deadline."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import cocotb
from cocotb.triggers import RisingEdge

from .clock import Dut


@dataclass
class StreamSource:
    """Offers items (a value for each data port) on a valid/ready pair at random pace."""

    dut: Dut
    rng: random.Random
    valid: str
    ready: str
    data: tuple[str, ...]
    pace: float = 0.7
    items: deque[tuple[int, ...]] = field(default_factory=deque)

    async def run(self) -> None:
        """Drive the ports until cancelled."""
        valid, ready = getattr(self.dut, self.valid), getattr(self.dut, self.ready)
        ports, offered = [getattr(self.dut, name) for name in self.data], False
        while True:
            await RisingEdge(self.dut.clk_i)
            if offered and ready.value:
                self.items.popleft()
                offered = False
            if not offered and self.items and self.rng.random() < self.pace:
                for port, value in zip(ports, self.items[0], strict=True):
                    port.value = value
                offered = True
            valid.value = int(offered)


@dataclass
class Sink:
    """Takes items from a valid/ready pair at random pace; with `steady`, an offer must not change before it
    is taken.
    """

    dut: Dut
    rng: random.Random
    valid: str
    ready: str
    data: tuple[str, ...]
    pace: float = 0.7
    steady: bool = True
    got: list[tuple[int, ...]] = field(default_factory=list)

    async def take(self, count: int, cycles: int, what: str = "the last beat") -> None:
        """Wait until `count` items have come; AssertionError after `cycles` cycles."""
        await until(self.dut, lambda: len(self.got) >= count, cycles, what)

    async def run(self) -> None:
        """Drive the ports until cancelled."""
        valid, ready = getattr(self.dut, self.valid), getattr(self.dut, self.ready)
        ports, was_ready = [getattr(self.dut, name) for name in self.data], 0
        held: tuple[int, ...] | None = None
        while True:
            await RisingEdge(self.dut.clk_i)
            now = tuple(int(port.value) for port in ports) if valid.value else None
            if self.steady and held is not None:
                assert now == held, f"{self.valid}: {held} was offered and became {now} before it was taken"
            held = None if was_ready else now
            if now is not None and was_ready:
                self.got.append(now)
            was_ready = int(self.rng.random() < self.pace)
            ready.value = was_ready


@dataclass
class Reader:
    """Stands in for a read master and the memory behind it: `fetch_*` in, `data_*` out, in order, after a
    random delay.
    """

    dut: Dut
    rng: random.Random
    memory: bytearray
    base: int
    port_bytes: int
    beats: int = 0  # of every fetch, where the module does not say
    pace: float = 0.7
    asked: list[tuple[int, int]] = field(default_factory=list)

    async def run(self) -> None:
        """Drive the ports until cancelled."""
        dut, words = self.dut, deque[int]()
        ready = valid = 0
        while True:
            await RisingEdge(dut.clk_i)
            if ready and dut.fetch_valid_o.value:
                address = int(dut.fetch_addr_o.value)
                beats = self.beats or int(dut.fetch_beats_o.value)
                self.asked.append((address, beats))
                at, size = address - self.base, self.port_bytes
                assert address % size == 0, f"{address:#x} is not aligned"
                assert 0 <= at <= at + beats * size <= len(self.memory), (
                    f"{address:#x} + {beats} beats leaves the memory"
                )
                words += [
                    int.from_bytes(self.memory[at + i * size : at + (i + 1) * size], "little") for i in range(beats)
                ]
            if valid and dut.data_ready_o.value:
                words.popleft()
                valid = 0
            if not valid and words and self.rng.random() < self.pace:
                dut.data_i.value = words[0]
                valid = 1
            dut.data_valid_i.value = valid
            ready = int(self.rng.random() < self.pace)
            dut.fetch_ready_i.value = ready


class BenchPart(Protocol):
    """A part of a bench that drives ports until it is cancelled."""

    async def run(self) -> None:
        """Drive the ports until cancelled."""


@contextmanager
def running(*parts: BenchPart) -> Iterator[None]:
    """Run parts of a bench beside the body."""
    tasks = [cocotb.start_soon(part.run()) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


async def pulse(dut: Dut, name: str) -> None:
    """Raise a strobe for one cycle."""
    getattr(dut, name).value = 1
    await RisingEdge(dut.clk_i)
    getattr(dut, name).value = 0


PATIENCE = 5_000  # cycles in which something must happen: a bench that hangs ends within a second or two


async def raised(dut: Dut, name: str) -> int:
    """Wait for the first clock edge at which a port is high; returns the cycles, or AssertionError."""
    port = getattr(dut, name)
    for cycle in range(1, PATIENCE + 1):
        await RisingEdge(dut.clk_i)
        if port.value:
            return cycle
    raise AssertionError(f"{name} was not high within {PATIENCE} cycles")


async def until(dut: Dut, done: Callable[[], object], cycles: int, what: str) -> None:
    """Wait for `done()`; AssertionError after `cycles` cycles."""
    for _ in range(cycles):
        if done():
            return
        await RisingEdge(dut.clk_i)
    raise AssertionError(f"{what} did not come within {cycles} cycles")
