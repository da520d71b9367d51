"""The window segments against the address model: put together, they are the input stream with its guard
words.
"""

from __future__ import annotations

import random

from cocotb.triggers import RisingEdge

from fluidnpu.dse import Mode
from fluidnpu.hls.formats import LAYER, SEGMENT_PARTS, TILE

from ...common.benches.clock import Dut, begin, bench, reset, setting
from ...common.benches.streams import StreamSource, pulse, running, until
from ...common.benches.words import beats_of, larger_words
from ..environment.cases import DESIGN, PORT_BYTES, Case, random_case

LINE_WORDS = setting("LINE_WORDS", 16)
IN_WORDS = setting("IN_WORDS", 2 * DESIGN.t_p)

SIZE = DESIGN.word_bytes

Segment = tuple[int, ...]  # address, lane, rows, words, place, ends beat


def added_up(packed: int, span: int) -> tuple[int, int, int, int]:
    """Return address, lane and rows of a segment from its parts, as `fluidnpu_segment_queue` adds them up.

    The last number says whether it ends its beat.
    """
    parts = SEGMENT_PARTS.numbers(packed)
    addr = sum(parts[name] for name in ("base", "offset", "row_reach", "column_reach")) + SIZE * parts["word"]
    return addr & 0xFFFF_FFFF, parts["lane"], parts["top"] + span, parts["ends_beat"]


def put_together(case: Case, segments: list[Segment]) -> list[int]:
    """Build beats from (address, lane, rows, words, place, ends beat) of segments.

    A word that no segment covers is zero; one that two cover is the larger.
    """
    lanes, beats, beat, covered = case.buffered(), [], 0, 0
    for address, lane, rows, words, place, ends in segments:
        assert 0 < words <= LINE_WORDS
        assert place + words <= IN_WORDS
        sample, row = divmod(rows - 1, case.rows.sample_rows)
        end = sample * case.rows.sample_pitch + (row + 1) * case.rows.pitch + PORT_BYTES
        assert address + SIZE * words <= end, "a segment needs no row but those that it names"
        mask = (1 << 8 * SIZE * words) - 1 << 8 * SIZE * place
        assert case.run.mode is Mode.MAX_POOL or not covered & mask, "only taps of a max pool share a place"
        piece = int.from_bytes(lanes[lane][address : address + SIZE * words], "little") << 8 * SIZE * place
        beat = larger_words(beat, piece, IN_WORDS, SIZE) if covered & mask else beat | piece
        covered |= mask
        if ends:
            beats.append(beat)
            beat = covered = 0
    return beats


class SegmentTaker:
    """Takes segments, one or two of a beat in a cycle.

    An offer must not change before it is taken; a second segment that is not taken comes first in the next
    cycle.
    """

    def __init__(self, dut: Dut, rng: random.Random, span: int) -> None:
        self.dut, self.rng, self.span, self.got, self.pairs = dut, rng, span, list[Segment](), set[str]()

    def _offered(self, which: str) -> Segment | None:
        if not getattr(self.dut, f"{which}_valid_o").value:
            return None
        words, place = (int(getattr(self.dut, f"{which}_{port}_o").value) for port in ("words", "place"))
        *at, ends = added_up(int(getattr(self.dut, f"{which}_parts_o").value), self.span)
        return (*at, words, place, ends)

    async def run(self) -> None:
        """Drive the ports until cancelled."""
        dut, held, ready, second_ready = self.dut, None, 0, 0
        pace = self.rng.choice([1.0, 0.5, 0.0])
        while True:
            await RisingEdge(dut.clk_i)
            first, second = self._offered("segment"), self._offered("second")
            assert first is not None or second is None
            if held is not None and first is not None:
                assert first == held, f"{held} was offered and became {first}"
            held = None if ready else first
            if first is not None and ready:
                if second is not None and second_ready:
                    assert not first[-1], "a second segment belongs to the same beat"
                    self.got += [(*first[:-1], 0), second]
                    self.pairs.add("rows" if second[4] == DESIGN.t_p and not first[4] else "runs")
                else:
                    self.got.append(first)
                    if second is not None:
                        held = second
            ready, second_ready = int(self.rng.random() < 0.7), int(self.rng.random() < pace)
            dut.segment_ready_i.value = ready
            dut.second_ready_i.value = second_ready


async def walk(dut: Dut, rng: random.Random, case: Case) -> set[str]:
    """Walk one layer; returns the kinds of pairs that were taken."""
    await reset(dut, base_i=case.base_port, layer_i=LAYER.pack(case.layer()))
    await pulse(dut, "layer_start_i")
    commands = StreamSource(dut, rng, "command_valid_i", "command_ready_o", ("command_i",))
    commands.items.extend((TILE.pack(command),) for command in case.commands())
    segments = SegmentTaker(dut, rng, case.rows.span)
    expected = beats_of(case.streams.input)
    with running(commands, segments):
        await until(
            dut,
            lambda: sum(segment[-1] for segment in segments.got) >= len(expected),
            60 * len(expected) + 500,
            "the last beat",
        )
        for _ in range(20):
            await pulse(dut, "layer_start_i")
    assert put_together(case, segments.got) == expected
    return segments.pairs


@bench(100_000)
async def segments_make_the_toeplitz_rows(dut: Dut) -> None:
    """The segments of random layers of every kind make the Toeplitz rows."""
    rng = await begin(dut)
    seen: set[tuple[int, bool, bool]] = set()
    pairs: set[tuple[Mode, str]] = set()
    while len(seen) < 8 or len(pairs) < 6:
        case = random_case(rng, DESIGN)
        if len(case.streams.input) < 400:
            pairs |= {(case.run.mode, pair) for pair in await walk(dut, rng, case)}
            seen.add((int(case.run.mode), case.run.row_lanes, case.descriptor.groups > 1 and case.run.mode < 2))
