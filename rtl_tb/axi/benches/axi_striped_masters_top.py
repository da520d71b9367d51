"""The striped AXI masters: bursts of every length at every place, errors of any part, throughput over all
ports.

Throughput is counted in cycles on a memory of fixed latency; everything else is in `axi_masters_top`, whose
bench runs on this top too.
"""

from __future__ import annotations

import cocotb
from cocotb.triggers import RisingEdge

from ...common.benches.clock import Dut, begin, bench, setting
from ...common.benches.dram import SLVERR, BenchDram, Weather
from ...common.benches.streams import PATIENCE, raised
from .axi_masters_top import BYTES, PORTS, SIZE, MasterTraffic, attach, count_errors, settle

BURST = setting("MAX_BURST", 16)
LATENCY = 50
ROUGH = Weather(latency=(0, 40), pause=0.5)


def ports_of(dram: BenchDram, kind: str) -> list[int]:
    """Count the bursts of each port, "r" or "w"."""
    return [sum(entry[1] == kind for entry in count.log) for count in dram.counters.values()]


@bench(20000)
async def bursts_of_every_length(dut: Dut) -> None:
    """Bursts from one word to the longest, also across a page end, read and write the right bytes.

    Each is alone, so that the ports turn from any position.
    """
    rng = await begin(dut)
    for weather in (Weather(), ROUGH):
        dram = BenchDram(dut, rng, bytearray(rng.randbytes(SIZE)), weather=weather)
        attach(dram)
        traffic = MasterTraffic(dut, rng)
        expected = bytearray(dram.memory)
        for beats in (*range(1, BURST + 2), *range(BURST, 0, -3)):
            place = rng.randrange(BURST) if beats < BURST else 0
            address = rng.randrange(1, SIZE // 4096 - 1) * 4096 - place * BYTES
            assert await traffic.reads([(address, beats)]) == [bytes(expected[address : address + beats * BYTES])]
            for i in range(beats):
                at, word = address + i * BYTES, rng.randbytes(BYTES)
                await traffic.write(at, word, (1 << BYTES) - 1)
                expected[at : at + BYTES] = word
            await traffic.close()
            assert dram.memory == expected
        assert min(ports_of(dram, "r")) > BURST // 4
        assert min(ports_of(dram, "w")) > BURST // 4
        assert max(entry[3] for count in dram.counters.values() for entry in count.log) == max(BURST, PORTS)
        await settle(dut)
        dram.stop()


@bench(3000)
async def bursts_of_one_word_take_the_ports_in_turn(dut: Dut) -> None:
    """Bursts of one word spread evenly over the ports."""
    rng = await begin(dut)
    dram = BenchDram(dut, rng, bytearray(rng.randbytes(SIZE)))
    attach(dram)
    traffic = MasterTraffic(dut, rng)
    places = [2 * i * BYTES for i in range(8 * PORTS)]
    await traffic.reads([(place, 1) for place in places])
    for place in places:
        await traffic.write(place, bytes(BYTES), 1)
    await traffic.close()
    assert ports_of(dram, "r") == [8] * PORTS
    assert ports_of(dram, "w") == [8] * PORTS


@bench(6000)
async def an_error_of_any_part_is_told_once(dut: Dut) -> None:
    """A bad word anywhere in a burst gives one error pulse, on the side it was met."""
    rng = await begin(dut)
    dram = BenchDram(dut, rng, bytearray(SIZE), weather=ROUGH)
    attach(dram)
    errors = count_errors(dut)
    traffic = MasterTraffic(dut, rng)
    assert SLVERR & 2
    # A first burst sets the port at which a short one begins: any port is the first, the last, or unused.
    short = [(1, first, second) for first in range(1, PORTS + 1) for second in range(1, PORTS)]
    anywhere = [(rng.randrange(2), *(rng.randrange(1, BURST + 1) for _ in range(2))) for _ in range(20)]
    for which, *beats in short + anywhere:
        bursts = list(zip((0x2000, 0x4000), beats, strict=True))
        for place in range(beats[which]) if beats[which] < PORTS else [rng.randrange(beats[which])]:
            dram.bad = {bursts[which][0] + place * BYTES + rng.randrange(BYTES)}
            errors.update(read=0, write=0)
            await traffic.reads(bursts)
            for base, count in bursts:
                for i in range(count):
                    await traffic.write(base + i * BYTES, bytes(BYTES), (1 << BYTES) - 1)
            await traffic.close()
            assert errors == {"read": 1, "write": 1}


async def cycles_of_reads(dut: Dut, dram: BenchDram, requests: list[tuple[int, int]]) -> int:
    """Count the cycles from the first word to the last, with the master's queue emptied at once."""
    words, first, cycle = 0, 0, 0
    total = sum(beats for _, beats in requests)
    dut.data_ready_i.value = 1

    async def ask() -> None:
        for address, beats in requests:
            dut.req_valid_i.value, dut.req_addr_i.value, dut.req_beats_i.value = 1, address, beats
            await raised(dut, "req_ready_o")
        dut.req_valid_i.value = 0

    cocotb.start_soon(ask())
    data = []
    while words < total:
        await RisingEdge(dut.clk_i)
        cycle += 1
        assert cycle < PATIENCE, f"all words must come within {PATIENCE} cycles"
        if dut.data_valid_o.value:
            first = first or cycle
            words += 1
            data.append(int(dut.data_o.value).to_bytes(BYTES, "little"))
    dut.data_ready_i.value = 0
    assert b"".join(data) == b"".join(dram.memory[a : a + n * BYTES] for a, n in requests)
    return cycle - first + 1


@bench(20000)
async def reads_stream_a_wide_word_a_cycle(dut: Dut) -> None:
    """Back-to-back bursts of one length stream a word a cycle at a latency of 50 cycles.

    Only the start of the first burst is extra.
    """
    rng = await begin(dut)
    dram = BenchDram(dut, rng, bytearray(rng.randbytes(SIZE)), weather=Weather(latency=(LATENCY, LATENCY)))
    attach(dram)
    total = 1024
    cycles = await cycles_of_reads(dut, dram, [(0, total)])
    dut._log.info("read: %d words in %d cycles, bursts of %d", total, cycles, BURST)
    assert total <= cycles <= total + BURST
    for beats in (2, 3, 5, 8, 11, 15) if BURST == 16 else ():
        number = 256 // beats
        requests = [(i * 4096 % SIZE + rng.randrange(4096 // BYTES - beats) * BYTES, beats) for i in range(number)]
        words = beats * number
        cycles = await cycles_of_reads(dut, dram, requests)
        dut._log.info("read: %d words in %d cycles, bursts of %d", words, cycles, beats)
        # The master takes a request that continues none only in every other cycle, and page ends make bursts
        # shorter.
        assert cycles <= words * 1.12 + BURST


@bench(20000)
async def writes_stream(dut: Dut) -> None:
    """The write master sends a burst of 16 in 17 or 18 cycles at any latency.

    A port takes PORTS cycles a word, all ports together one.
    """
    rng = await begin(dut)
    dram = BenchDram(dut, rng, bytearray(SIZE), weather=Weather(latency=(LATENCY, LATENCY)))
    attach(dram)
    total, cycle = 1024, 0
    data = rng.randbytes(total * BYTES)
    dut.word_strb_i.value = (1 << BYTES) - 1
    for i in range(total):
        dut.word_valid_i.value, dut.word_addr_i.value = 1, i * BYTES
        dut.word_data_i.value = int.from_bytes(data[i * BYTES : (i + 1) * BYTES], "little")
        cycle += await raised(dut, "word_ready_o")
    dut.word_valid_i.value, dut.close_i.value = 0, 1
    cycle += await raised(dut, "write_idle_o") - 1
    dut._log.info("write: %d words in %d cycles", total, cycle)
    assert dram.memory[: len(data)] == data
    assert cycle <= total * (BURST + 2) // BURST + LATENCY + 8 * BURST
