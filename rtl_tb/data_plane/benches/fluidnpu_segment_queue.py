"""The segment queue against a list: every segment comes out once, in order, with the sum of its parts.

The oldest place that was given beside it is shown with it.
"""

from __future__ import annotations

import random
from collections import deque
from typing import NamedTuple

import cocotb
from cocotb.triggers import RisingEdge

from fluidnpu.hls.formats import SEGMENT, SEGMENT_PARTS

from ...common.benches.clock import Dut, begin, bench, reset, setting
from ...common.benches.streams import pulse, raised

COUNT_WIDTH, SIZE = setting("COUNT_WIDTH", 4), setting("WORD_BITS", 16) // 8


class Offer(NamedTuple):
    """A segment at the input: its parts, words and place."""

    parts: dict[str, int]
    words: int
    place: int

    def shown(self, span: int) -> tuple[int, int, int]:
        """Return what the row buffer must see."""
        parts = self.parts
        addr = sum(parts[name] for name in ("base", "offset", "row_reach", "column_reach")) + SIZE * parts["word"]
        segment = {"addr": addr & 0xFFFF_FFFF, "rows": parts["top"] + span & 0xFF_FFFF}
        kept = {name: parts[name] for name in ("lane", "ends_beat")}
        return SEGMENT.pack(segment | kept), self.words, self.place


def random_offer(rng: random.Random, ends: int) -> Offer:
    """Draw parts of any size."""
    parts = {bits.name: rng.getrandbits(rng.randrange(1, bits.width + 1)) for bits in SEGMENT_PARTS.fields}
    return Offer(parts | {"ends_beat": ends}, rng.getrandbits(COUNT_WIDTH), rng.getrandbits(COUNT_WIDTH))


def drive(dut: Dut, which: str, offer: Offer | None) -> None:
    """Put one segment on its ports, or none."""
    getattr(dut, f"{which}_valid_i").value = int(offer is not None)
    if offer is not None:
        getattr(dut, f"{which}_parts_i").value = SEGMENT_PARTS.pack(offer.parts)
        for name, value in (("words", offer.words), ("place", offer.place)):
            getattr(dut, f"{which}_{name}_i").value = value


async def give(dut: Dut, rng: random.Random, pairs: list[tuple[int, list[Offer]]], pace: float) -> None:
    """Offer pairs, or single segments, with the oldest place of each; an offer stays until it is taken."""
    for oldest, offers in pairs:
        while rng.random() > pace:
            await RisingEdge(dut.clk_i)
        dut.oldest_i.value = oldest
        drive(dut, "segment", offers[0])
        drive(dut, "second", offers[1] if len(offers) > 1 else None)
        await raised(dut, "segment_ready_o")
        drive(dut, "segment", None)
        drive(dut, "second", None)


@bench(60_000)
async def segments_come_out_in_order(dut: Dut) -> None:
    """Random segments at random paces, taken one by one or in pairs, are those that went in."""
    rng = await begin(dut)
    together = 0
    for _ in range(12):
        span = rng.randrange(1, 100)
        await reset(dut, span_i=span)
        await pulse(dut, "layer_start_i")
        pairs = []
        for index in range(120):
            ends = rng.randrange(2)
            offers = (
                [random_offer(rng, 0), random_offer(rng, ends)] if rng.random() < 0.6 else [random_offer(rng, ends)]
            )
            pairs.append((16 * index, offers))
        want = deque((oldest, offer.shown(span)) for oldest, offers in pairs for offer in offers)
        giving = cocotb.start_soon(give(dut, rng, pairs, rng.choice([1.0, 0.6])))
        pace, ready, second_ready = rng.choice([1.0, 0.7, 0.2]), 0, 0
        while want:
            await RisingEdge(dut.clk_i)
            if ready and dut.segment_valid_o.value:
                for which in ("segment", "second")[: 1 + (second_ready and int(dut.second_valid_o.value))]:
                    ports = (f"{which}_o", f"{which}_words_o", f"{which}_place_o")
                    got = tuple(int(getattr(dut, name).value) for name in ports)
                    assert (int(dut.oldest_o.value), got) == want.popleft()
                    together += which == "second"
            ready, second_ready = int(rng.random() < pace), int(rng.random() < 0.7)
            dut.segment_ready_i.value, dut.second_ready_i.value = ready, second_ready
        await giving
    assert together > 100
