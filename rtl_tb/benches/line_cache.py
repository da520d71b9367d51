"""Line cache: whatever segments come, beats are right; what is in the buffer is not read twice; it never waits for itself."""

from __future__ import annotations

import random

import cocotb

from .common import Dut, begin, bench, reset, setting
from .parts import Reader, Sink, Source, pulse, until

IN_WORDS, PORT_WORDS, LINE_WORDS, SETS = 8, 4, 8, setting("SETS", 8)
BASE, SIZE = 0x1_0000, 1 << 14
Segment = tuple[int, int, int, int]  # address, words, place, ends beat


def memory(rng: random.Random) -> bytearray:
    """No word is zero, so that a guard word cannot be mistaken."""
    return bytearray(b"".join(rng.randrange(1, 1 << 16).to_bytes(2, "little") for _ in range(SIZE // 2)))


def random_beat(rng: random.Random, near: int, reach: int) -> list[Segment]:
    """Up to three segments that leave some words of the beat uncovered."""
    out: list[Segment] = []
    place = rng.choice([0, 0, 0, 1, 4])
    for _ in range(rng.choice([1, 1, 2, 3])):
        if place == IN_WORDS:
            break
        words = rng.randrange(1, IN_WORDS - place + 1)
        address = BASE + (near + 2 * rng.randrange(reach)) % (SIZE - 2 * IN_WORDS)
        out.append((address // 2 * 2, words, place, 0))
        place += words
    address, words, place, _ = out[-1]
    out[-1] = (address, words, place, 1)
    return out


def beat_of(segments: list[Segment], data: bytearray) -> int:
    """What the core must get: the words of the segments, all others zero."""
    return sum(int.from_bytes(data[a - BASE : a - BASE + 2 * n], "little") << 16 * place for a, n, place, _ in segments)


def folded(pair: int) -> int:
    """The set of a pair of lines."""
    return pair % SETS ^ pair // SETS % SETS


class World:
    """Segments in, lines from memory, beats out."""

    def __init__(self, dut: Dut, rng: random.Random, pace: float) -> None:
        self.dut, self.data = dut, memory(rng)
        ports = ("segment_addr_i", "segment_words_i", "segment_place_i", "segment_ends_beat_i")
        self.segments = Source(dut, rng, "segment_valid_i", "segment_ready_o", ports, pace)
        self.lines = Reader(dut, rng, self.data, BASE, 2 * PORT_WORDS, beats=LINE_WORDS // PORT_WORDS, pace=pace)
        self.beats = Sink(dut, rng, "beat_valid_o", "beat_ready_i", ("beat_o",), pace)
        self.tasks = [cocotb.start_soon(part.run()) for part in (self.segments, self.lines, self.beats)]
        self.want: list[tuple[int, ...]] = []

    def ask(self, beat: list[Segment]) -> None:
        """One more beat."""
        self.segments.items.extend(beat)
        self.want.append((beat_of(beat, self.data),))

    async def finish(self, cycles: int) -> None:
        """All beats have come and are right."""
        await until(self.dut, lambda: len(self.beats.got) >= len(self.want), cycles, "the last beat")
        assert self.beats.got == self.want

    async def layer(self) -> None:
        """Begin a layer: what was read before is forgotten."""
        await until(self.dut, lambda: self.dut.ready_o.value, 4 * SETS + 10, "the sweep's end")
        await pulse(self.dut, "layer_start_i")
        self.lines.asked.clear()

    def stop(self) -> None:
        """Let go of the ports."""
        for task in self.tasks:
            task.cancel()


@bench(50_000)
async def beats_are_what_memory_holds(dut: Dut) -> None:
    """Near and far segments at several paces; memory changes between layers, and the new contents come."""
    rng = await begin(dut)
    for pace in (1.0, 0.7, 0.3):
        await reset(dut)
        world = World(dut, rng, pace)
        for _ in range(4):
            await world.layer()
            near, reach = rng.randrange(SIZE), rng.choice([30, 200, SIZE // 2])
            for _ in range(150):
                world.ask(random_beat(rng, near, reach))
            await world.finish(30_000)
            world.data[:] = memory(rng)
        world.stop()


@bench(10_000)
async def what_fits_is_read_once(dut: Dut) -> None:
    """Overlapping windows inside as many lines as the buffer holds: every line is fetched exactly once."""
    rng = await begin(dut)
    world = World(dut, rng, 1.0)
    await world.layer()
    words = 2 * SETS * LINE_WORDS
    for start in range(0, words - IN_WORDS, 3):
        world.ask([(BASE + 2 * start, IN_WORDS, 0, 1)])
    await world.finish(20_000)
    assert len(world.lines.asked) == len(set(world.lines.asked))
    assert {address for address, _ in world.lines.asked} <= set(range(BASE, BASE + 2 * words, 2 * LINE_WORDS))
    world.stop()


@bench(2_000)
async def a_flush_forgets_what_was_under_way(dut: Dut) -> None:
    """At any moment; the next layer is right. As in the data plane, the flush lasts until memory owes nothing."""
    rng = await begin(dut)
    for _ in range(12):
        world = World(dut, rng, 0.7)
        await world.layer()
        for _ in range(60):
            world.ask(random_beat(rng, 0, 300))
        for _ in range(rng.randrange(1, 150)):
            await cocotb.triggers.RisingEdge(dut.clk_i)
        world.stop()
        for name in ("segment_valid_i", "data_valid_i", "fetch_ready_i"):
            getattr(dut, name).value = 0
        await pulse(dut, "flush_i")
        world = World(dut, rng, 0.7)
        await world.layer()
        for _ in range(20):
            world.ask(random_beat(rng, 0, 300))
        await world.finish(5_000)
        world.stop()


@bench(1_000)
async def it_never_waits_for_itself(dut: Dut) -> None:
    """Segment numbers wrap at 65536: a line that was used exactly so many segments ago may be replaced like any other."""
    rng = await begin(dut)
    world = World(dut, rng, 1.0)
    await world.layer()
    pair_bytes = 2 * 2 * LINE_WORDS  # an even line and the odd one beside it
    first, other = BASE, BASE + pair_bytes
    # Sets are the low bits of a pair's number folded with the next ones: this pair shares the set of `first`.
    rival = next(
        address
        for address in range(BASE + pair_bytes, BASE + SIZE, pair_bytes)
        if folded(address // pair_bytes) == folded(first // pair_bytes)
    )
    world.ask([(first, 1, 0, 1)])
    for _ in range(65535):
        world.ask([(other, 1, 0, 1)])
    world.ask([(rival, 1, 0, 1)])
    await world.finish(80_000)
    world.stop()
