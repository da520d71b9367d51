"""The AXI masters against memory: data are right under any pauses, errors are told, a flush always reaches
idle.

Runs on the volume model of `dram.py` and, for protocol variety, on the memory of cocotbext-axi. With PORTS
the masters are striped over that number of narrow ports.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass

import cocotb
from cocotb.triggers import RisingEdge

from ...common.benches.clock import Dut, begin, bench, setting
from ...common.benches.dram import BenchDram, Weather
from ...common.benches.streams import PATIENCE, raised

SIZE = 1 << 16
BYTES = setting("DATA_BYTES", 8)
PORTS = setting("PORTS", 1)
ROUGH = Weather(latency=(0, 30), pause=0.4)


def attach(dram: BenchDram) -> None:
    """Attach memory to all ports."""
    for port in range(PORTS):
        prefix = "m_axi" if PORTS == 1 else f"m{port}_axi"
        dram.read_port(prefix, BYTES // PORTS)
        dram.write_port(prefix, BYTES // PORTS)


@dataclass
class MasterTraffic:
    """Random requests on the user side of both masters."""

    dut: Dut
    rng: random.Random

    async def reads(self, requests: list[tuple[int, int]]) -> list[bytes]:
        """Ask for all (address, beats) and return the data of each."""
        total = sum(beats for _, beats in requests)
        collector = cocotb.start_soon(self._collect(total))
        for address, beats in requests:
            self.dut.req_valid_i.value, self.dut.req_addr_i.value, self.dut.req_beats_i.value = 1, address, beats
            await raised(self.dut, "req_ready_o")
            self.dut.req_valid_i.value = 0
            if self.rng.random() < 0.2:
                await RisingEdge(self.dut.clk_i)
        words = await collector
        out, at = [], 0
        for _, beats in requests:
            out.append(b"".join(words[at : at + beats]))
            at += beats
        return out

    async def _collect(self, total: int) -> list[bytes]:
        words: list[bytes] = []
        quiet = 0
        while len(words) < total:
            quiet += 1
            assert quiet < PATIENCE, f"a word must come within {PATIENCE} cycles"
            ready = int(self.rng.random() < 0.7)
            self.dut.data_ready_i.value = ready
            await RisingEdge(self.dut.clk_i)
            if ready and self.dut.data_valid_o.value:
                words.append(int(self.dut.data_o.value).to_bytes(BYTES, "little"))
                quiet = 0
        self.dut.data_ready_i.value = 0
        return words

    async def write(self, address: int, data: bytes, strobe: int) -> None:
        """Write one port word."""
        dut = self.dut
        dut.word_valid_i.value, dut.word_addr_i.value = 1, address
        dut.word_data_i.value, dut.word_strb_i.value = int.from_bytes(data, "little"), strobe
        await raised(dut, "word_ready_o")
        dut.word_valid_i.value = 0

    async def close(self) -> None:
        """Wait until everything written is in memory."""
        self.dut.close_i.value = 1
        await raised(self.dut, "write_idle_o")
        self.dut.close_i.value = 0


def some_requests(rng: random.Random, number: int) -> list[tuple[int, int]]:
    """Draw long, short and adjacent requests, most of them near page borders."""
    out: list[tuple[int, int]] = []
    for _ in range(number):
        beats = rng.choice([1, 2, 3, rng.randrange(1, 40), rng.randrange(1, 600)])
        address = rng.randrange(0, SIZE // 4096) * 4096 - rng.randrange(40) * BYTES
        if out and rng.random() < 0.4:
            address = out[-1][0] + out[-1][1] * BYTES
        address = max(0, min(address, SIZE - beats * BYTES))
        out.append((address, beats))
    return out


async def write_some(traffic: MasterTraffic, rng: random.Random, memory: bytearray, number: int) -> bytearray:
    """Write random words through the master; returns the memory that must result.

    Stripes keep no order between bursts on different ports, so there a place is written again only after an
    answer.
    """
    expected = bytearray(memory)
    address = 0
    under_way: set[int] = set()
    for _ in range(number):
        address = address + BYTES if rng.random() < 0.8 else rng.randrange(SIZE // BYTES) * BYTES
        address %= SIZE
        if PORTS > 1 and address in under_way:
            await traffic.close()
            under_way.clear()
        under_way.add(address)
        data, strobe = rng.randbytes(BYTES), rng.choice([(1 << BYTES) - 1, rng.getrandbits(BYTES)])
        await traffic.write(address, data, strobe)
        for i in range(BYTES):
            if strobe >> i & 1:
                expected[address + i] = data[i]
        if rng.random() < 0.2:
            await RisingEdge(traffic.dut.clk_i)
    await traffic.close()
    return expected


@bench(3000)
async def reads_and_writes_are_right(dut: Dut) -> None:
    """Fair and rough weather, long and adjacent requests."""
    rng = await begin(dut)
    for weather in (Weather(), ROUGH, Weather(latency=(60, 60))):
        dram = BenchDram(dut, rng, bytearray(rng.randbytes(SIZE)), weather=weather)
        attach(dram)
        traffic = MasterTraffic(dut, rng)
        requests = some_requests(rng, 40)
        for (address, beats), data in zip(requests, await traffic.reads(requests), strict=True):
            assert data == dram.memory[address : address + beats * BYTES]
        expected = await write_some(traffic, rng, dram.memory, 400)
        assert dram.memory == expected
        await settle(dut)
        dram.stop()


async def settle(dut: Dut) -> None:
    """Check that both masters are idle after fifty quiet cycles."""
    for _ in range(50):
        await RisingEdge(dut.clk_i)
    assert int(dut.read_idle_o.value)
    assert int(dut.write_idle_o.value)


def count_errors(dut: Dut) -> dict[str, int]:
    """Error pulses of each side so far; they are counted from now on."""
    errors = {"read": 0, "write": 0}

    async def watch() -> None:
        while True:
            await RisingEdge(dut.clk_i)
            errors["read"] += int(dut.read_error_o.value)
            errors["write"] += int(dut.write_error_o.value)

    cocotb.start_soon(watch())
    return errors


@bench(3000)
async def errors_are_told(dut: Dut) -> None:
    """One bad address gives error pulses on the side it was met."""
    rng = await begin(dut)
    dram = BenchDram(dut, rng, bytearray(SIZE), weather=ROUGH)
    dram.bad = {0x1008}
    attach(dram)
    errors = count_errors(dut)
    traffic = MasterTraffic(dut, rng)
    await traffic.reads([(0x0, 8), (0x2000, 8)])
    assert errors == {"read": 0, "write": 0}
    await traffic.reads([(0x1000, 4 * 16 // BYTES)])
    assert errors["read"] == 1
    await traffic.write(0x1008 // BYTES * BYTES, bytes(BYTES), 1)
    await traffic.close()
    assert errors["write"] == 1


Word = tuple[int, bytes]  # address and data of a whole port word


async def random_words(traffic: MasterTraffic, rng: random.Random, half: int) -> list[Word]:
    """Offer requests and words in the lower half of memory for some cycles, no place twice; returns the words
    taken.
    """
    dut, taken, address = traffic.dut, list[Word](), rng.randrange(half // BYTES) * BYTES
    for _ in range(rng.randrange(60)):
        dut.req_valid_i.value, dut.req_addr_i.value = rng.randrange(2), rng.randrange(half) // BYTES * BYTES
        dut.req_beats_i.value = rng.randrange(1, 64)
        offered, data = rng.randrange(2), rng.randbytes(BYTES)
        dut.word_valid_i.value, dut.word_strb_i.value = offered, (1 << BYTES) - 1
        dut.word_addr_i.value, dut.word_data_i.value = address, int.from_bytes(data, "little")
        await RisingEdge(dut.clk_i)
        if offered and dut.word_ready_o.value:
            taken.append((address, data))
            if rng.random() < 0.2:
                address = rng.randrange(half // BYTES) * BYTES
            while address in {place for place, _ in taken}:
                address = (address + BYTES) % half
    dut.req_valid_i.value, dut.word_valid_i.value = 0, 0
    return taken


def check_flushed(memory: bytearray, before: bytes, words: list[Word], sent: int) -> None:
    """Check that a flush wrote the words sent before it, at most two more, and nothing else.

    One more word may have been on its way and one seen late. Stripes queue words behind the master, so there
    each word is written or not, whole.
    """
    images = [bytearray(before)]
    for address, data in words:
        images.append(bytearray(images[-1]))
        images[-1][address : address + BYTES] = data
    if PORTS == 1:
        assert memory in images[sent : sent + 3], f"{sent} of {len(words)} words had gone out"
        return
    for address, _ in words:
        place = slice(address, address + BYTES)
        assert memory[place] in (images[0][place], images[-1][place])
        images[0][place] = memory[place]
    assert memory == images[0]


@bench(6000)
async def a_flush_reaches_idle(dut: Dut) -> None:
    """A flush at any moment, with bursts under way in both directions, reaches idle; flushed words are not
    written.
    """
    rng = await begin(dut)
    dram = BenchDram(dut, rng, bytearray(rng.randbytes(SIZE)), weather=ROUGH)
    attach(dram)
    traffic = MasterTraffic(dut, rng)
    for _ in range(40):
        dut.data_ready_i.value, dut.flush_i.value = 1, 0
        before, beats = bytes(dram.memory), sum(count.write_beats for count in dram.counters.values())
        words = await random_words(traffic, rng, SIZE // 2)
        dut.flush_i.value = 1
        sent = sum(count.write_beats for count in dram.counters.values()) - beats
        for cycles in range(3000):
            await RisingEdge(dut.clk_i)
            if cycles > 2 and dut.read_idle_o.value and dut.write_idle_o.value:
                break
        else:
            raise AssertionError("no idle within 3000 cycles of a flush")
        assert not dut.data_valid_o.value
        check_flushed(dram.memory, before, words, sent)
    dut.flush_i.value = 0
    assert await traffic.reads([(0x4000, 4)]) == [bytes(dram.memory[0x4000 : 0x4000 + 4 * BYTES])]


@bench(3000)
async def another_memory_agrees(dut: Dut) -> None:
    """The masters agree with cocotbext-axi's memory under pauses on all channels."""
    from cocotbext.axi import AxiBus, AxiRam

    rng = await begin(dut)
    ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk_i, dut.rst_ni, reset_active_level=False, size=SIZE)
    for log in (ram.write_if.log, ram.read_if.log):
        log.setLevel(logging.WARNING)

    def pauses() -> object:
        while True:
            yield rng.random() < 0.3

    for channel in (ram.write_if.aw_channel, ram.write_if.w_channel, ram.write_if.b_channel):
        channel.set_pause_generator(pauses())
    for channel in (ram.read_if.ar_channel, ram.read_if.r_channel):
        channel.set_pause_generator(pauses())
    traffic = MasterTraffic(dut, rng)
    expected = await write_some(traffic, rng, bytearray(SIZE), 400)
    assert ram.read(0, SIZE) == bytes(expected)
    requests = some_requests(rng, 30)
    for (address, beats), data in zip(requests, await traffic.reads(requests), strict=True):
        assert data == expected[address : address + beats * BYTES]
