"""The row buffer against memory: segments get the words of their rows, and every row is read once and in
order.

A block that cannot fit is told.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator

import cocotb
from cocotb.triggers import RisingEdge

from fluidnpu.dse import Mode
from fluidnpu.hls.formats import LAYER, SEGMENT

from ...common.benches.clock import Dut, begin, bench, reset, setting
from ...common.benches.streams import Reader, Sink, pulse, until
from ...common.benches.words import larger_words
from ..environment.cases import DESIGN, PORT_BYTES, Case, random_case
from ..environment.jobs import Shape

IN_WORDS = setting("IN_WORDS", 8)
SIZE = DESIGN.word_bytes
CAPACITY = 2 * SIZE * setting("SETS", 128) * setting("LINE_WORDS", 16)  # bytes of two banks
MOST = 4  # samples of a case: more take longer and try nothing else
ANY = setting(
    "CASES", 200
)  # cases of any kind; after them only those of a kind that has not come yet, some of which are rare
Segment = tuple[int, int, int, int, int, int]  # address, lane, rows, words, place, ends beat


def windows(case: Case) -> Iterator[tuple[int, int, int]]:
    """Yield (sample of a lane, first input row, rows that must be loaded) of every window in order.

    The samples of both lanes advance side by side.
    """
    rows, samples = case.rows, case.run.b_r if case.by_samples else len(case.active)
    for sample in range(samples):
        for top in range(0, rows.sample_rows - rows.span + 1, rows.rise):
            yield sample, top, sample * rows.sample_rows + top + rows.span


def random_beat(rng: random.Random, case: Case, lane: int, window: tuple[int, int, int]) -> list[Segment]:
    """Draw one to three runs of words somewhere in the window's rows.

    Some words of the beat stay uncovered; of a max pool some are covered twice.
    """
    (sample, top, need), rows = window, case.rows
    low, out = case.descriptor.in_offset % PORT_BYTES, list[Segment]()
    place = rng.choice([0, 0, 1, min(4, IN_WORDS - 1)])
    if case.run.mode is Mode.MAX_POOL:
        words = rng.randrange(1, min(IN_WORDS, rows.row_bytes // SIZE) + 1)
        for ends in range(2):
            word = rng.randrange(rows.row_bytes // SIZE - words + 1)
            at = sample * rows.sample_pitch + (top + rng.randrange(rows.span)) * rows.pitch + low + SIZE * word
            out.append((at, lane, need, words, 0, ends))
        return out
    for _ in range(rng.choice([1, 1, 2, 3])):
        words = rng.randrange(1, min(IN_WORDS - place, rows.row_bytes // SIZE) + 1)
        word = rng.randrange(rows.row_bytes // SIZE - words + 1)
        at = sample * rows.sample_pitch + (top + rng.randrange(rows.span)) * rows.pitch + low + SIZE * word
        out.append((at, lane, need, words, place, 0))
        place += words
        if place == IN_WORDS:
            break
    return [*out[:-1], (*out[-1][:-1], 1)]


class Giver:
    """Offers segments at random pace, with or without the next one of the same beat."""

    def __init__(self, dut: Dut, rng: random.Random, pace: float) -> None:
        self.dut, self.rng, self.pace, self.items, self.pairs = dut, rng, pace, deque[Segment](), 0

    def _offer(self, which: str, segment: Segment | None) -> None:
        getattr(self.dut, f"{which}_valid_i").value = int(segment is not None)
        if segment is not None:
            addr, lane, rows, words, place, ends = segment
            fields = {"addr": addr, "lane": lane, "rows": rows, "ends_beat": ends}
            getattr(self.dut, f"{which}_i").value = SEGMENT.pack(fields)
            getattr(self.dut, f"{which}_words_i").value = words
            getattr(self.dut, f"{which}_place_i").value = place

    async def run(self) -> None:
        """Drive the ports until cancelled."""
        dut, offered = self.dut, 0
        while True:
            await RisingEdge(dut.clk_i)
            if offered and dut.segment_ready_o.value:
                self.items.popleft()
                if offered == 2 and dut.second_ready_o.value:
                    self.items.popleft()
                    self.pairs += 1
                offered = 0
            if not offered and self.items and self.rng.random() < self.pace:
                offered = 2 if len(self.items) > 1 and not self.items[0][-1] and self.rng.random() < 0.8 else 1
            self._offer("segment", self.items[0] if offered else None)
            self._offer("second", self.items[1] if offered == 2 else None)


class RowBufferWorld:
    """Offers segments, serves rows from memory and compares beats; the bench sets the oldest place that is
    needed.
    """

    def __init__(self, dut: Dut, rng: random.Random, case: Case, pace: float) -> None:
        self.dut, self.rng, self.case, self.lanes = dut, rng, case, case.buffered()
        self.segments = Giver(dut, rng, pace)
        self.memory = Reader(dut, rng, case.program.memory, case.program.base, PORT_BYTES, pace=pace)
        self.beats = Sink(dut, rng, "beat_valid_o", "beat_ready_i", ("beat_o",), pace)
        self.tasks: list[cocotb.task.Task[None]] = []
        self.want: list[tuple[int, ...]] = []

    async def start(self) -> None:
        """Reset and begin the layer."""
        inputs = {
            "slot_i": self.case.slot_port,
            "b_act_i": len(self.case.active),
            "layer_i": LAYER.pack(self.case.layer()),
        }
        await reset(self.dut, **inputs)
        self.tasks = [cocotb.start_soon(part.run()) for part in (self.segments, self.memory, self.beats)]
        await pulse(self.dut, "layer_start_i")
        for _ in range(2):
            await RisingEdge(self.dut.clk_i)
        assert int(self.dut.base_o.value) == self.case.base_port, "two cycles on, every sample has its place"

    def ask(self, beat: list[Segment]) -> None:
        """Offer one more beat."""
        self.segments.items.extend(beat)
        words = [
            int.from_bytes(self.lanes[lane][at : at + SIZE * n], "little") << 8 * SIZE * p
            for at, lane, _, n, p, _ in beat
        ]
        pooled = self.case.run.mode is Mode.MAX_POOL and len(words) == 2
        self.want.append((larger_words(words[0], words[1], IN_WORDS, SIZE) if pooled else sum(words),))

    async def served(self, cycles: int) -> None:
        """Wait for all beats so far and compare them."""
        await until(self.dut, lambda: len(self.beats.got) >= len(self.want), cycles, "the last beat")
        assert self.beats.got == self.want

    def stop(self) -> None:
        """Release the ports."""
        for task in self.tasks:
            task.cancel()


def fetched(case: Case) -> list[list[int]]:
    """The port words of memory that each lane must read, in order."""
    d, rows, p = case.descriptor, case.rows, case.program
    first = case.run.b_r if case.by_samples else len(case.active)
    lanes = []
    for slots in (case.active[:first], case.active[first:]):
        words: list[int] = []
        for slot in slots:
            for row in range(rows.sample_rows):
                start = p.slot_base + slot * p.slot_bytes + d.in_offset + row * rows.row_step
                words += range(start // PORT_BYTES, (start + rows.row_bytes - 1) // PORT_BYTES + 1)
        lanes.append(words)
    return lanes


@bench(400_000)
async def windows_get_what_memory_holds(dut: Dut) -> None:
    """Random layers at several paces get their words; rows above a window are dropped once it is served."""
    rng = await begin(dut)
    seen: set[tuple[bool, bool, bool]] = set()
    tried = pairs = 0
    while tried < ANY or len(seen) < 6 or not pairs:
        case = random_case(rng, DESIGN, most=MOST, kind=rng.randrange(2))
        part = CAPACITY // 2 if case.by_samples else CAPACITY
        if (case.rows.span + 1) * case.rows.pitch + PORT_BYTES > part:
            continue
        kind = (case.by_samples, case.rows.sample_rows * case.rows.pitch > part // 2, case.run.mode is Mode.MAX_POOL)
        if tried >= ANY and kind in seen and pairs:
            continue
        tried += 1
        world = RowBufferWorld(dut, rng, case, rng.choice([1.0, 0.7, 0.3]))
        await world.start()
        for sample, top, need in windows(case):
            dut.oldest_i.value = sample * case.rows.sample_pitch + top * case.rows.pitch
            for lane in range(1 + case.by_samples):
                if case.by_samples and sample >= (case.run.b_r, len(case.active) - case.run.b_r)[lane]:
                    continue
                for _ in range(rng.randrange(1, 4)):
                    world.ask(random_beat(rng, case, lane, (sample, top, need)))
            await world.served(20_000)
            assert not dut.stuck_o.value
        asked = [address // PORT_BYTES + beat for address, beats in world.memory.asked for beat in range(beats)]
        lanes = fetched(case)
        assert sorted(asked) == sorted(lanes[0] + lanes[1]), "every row once"
        if not case.by_samples:
            assert asked == lanes[0]
        seen.add(kind)
        pairs += world.segments.pairs
        world.stop()


@bench(50_000)
async def a_block_that_does_not_fit_is_told(dut: Dut) -> None:
    """`stuck_o` rises as soon as no awaited row can come, not before, in any part of the ring."""
    rng = await begin(dut)
    shape = Shape(kernel=(3, 3), group_words=16, out=(CAPACITY // (135 * SIZE), 6), columns=8)
    for by_samples in (False, True):
        for lane in range(1 + by_samples):
            case = random_case(rng, DESIGN, shape, most=MOST)
            while case.by_samples != by_samples:
                case = random_case(rng, DESIGN, shape, most=MOST)
            await too_large(dut, rng, case, lane)


async def too_large(dut: Dut, rng: random.Random, case: Case, lane: int) -> None:
    """Ask for the rows that fit, then for one more, which comes when the oldest is given up."""
    world = RowBufferWorld(dut, rng, case, 0.7)
    await world.start()
    fits = next(
        n for n in range(1, CAPACITY) if (n + 1) * case.rows.pitch + PORT_BYTES > CAPACITY // (1 + case.by_samples)
    )
    dut.oldest_i.value = 0
    world.ask(random_beat(rng, case, lane, (0, fits - 3, fits)))
    await world.served(20_000)
    assert not dut.stuck_o.value
    world.segments.items.extend(random_beat(rng, case, lane, (0, fits - 2, fits + 1)))
    await until(dut, lambda: dut.stuck_o.value, 2_000, "the end")
    dut.oldest_i.value = case.rows.pitch
    world.ask([])
    world.want.pop()
    await until(dut, lambda: len(world.beats.got) == 2, 2_000, "the row")
    assert not dut.stuck_o.value
    world.stop()
    for name in ("segment_valid_i", "second_valid_i", "data_valid_i", "fetch_ready_i", "beat_ready_i"):
        getattr(dut, name).value = 0


@bench(100_000)
async def a_reset_forgets_what_was_under_way(dut: Dut) -> None:
    """After a reset at any moment the next layer is right."""
    rng = await begin(dut)
    for _ in range(12):
        for moment in (rng.randrange(1, 200), 0):
            case = random_case(rng, DESIGN, Shape(kernel=(3, 3), group_words=5, out=(4, 4), columns=8), most=MOST)
            world = RowBufferWorld(dut, rng, case, 0.7)
            await world.start()
            dut.oldest_i.value = 0
            for lane in range(1 + case.by_samples):
                for sample, top, need in windows(case):
                    if sample < (case.run.b_r, len(case.active) - case.run.b_r)[lane]:
                        world.ask(random_beat(rng, case, lane, (sample, top, need)))
            if not moment:
                await world.served(20_000)
            for _ in range(moment):
                await RisingEdge(dut.clk_i)
            world.stop()
            for name in ("segment_valid_i", "second_valid_i", "data_valid_i", "fetch_ready_i", "beat_ready_i"):
                getattr(dut, name).value = 0
