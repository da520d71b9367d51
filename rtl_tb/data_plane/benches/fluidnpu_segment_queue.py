"""The segment queue against a list: every segment comes out once, in order, with the sum of its parts.

The oldest place that was given beside it is shown with it.
"""

from __future__ import annotations

import random
from collections import deque
from typing import NamedTuple

import cocotb
from cocotb.triggers import RisingEdge

from ...common.benches.clock import Dut, begin, bench, reset, setting
from ...common.benches.streams import pulse, raised

COUNT_WIDTH = setting("COUNT_WIDTH", 4)
PARTS = (32, 32, 32, 32, 24, 24, 1)  # bits of `parts_t`: four distances, word, top, lane
OUTPUTS = ("addr", "lane", "rows", "words", "place", "ends_beat")


class Offer(NamedTuple):
    """A segment at the input: its parts, words, place, and whether it ends the beat."""

    parts: tuple[int, ...]
    words: int
    place: int
    ends: int

    def shown(self, span: int) -> tuple[int, ...]:
        """Return what the row buffer must see."""
        *distances, word, top, lane = self.parts
        return sum(distances) + 2 * word & 0xFFFF_FFFF, lane, top + span & 0xFF_FFFF, self.words, self.place, self.ends


def random_offer(rng: random.Random, ends: int) -> Offer:
    """Draw parts of any size."""
    parts = tuple(rng.getrandbits(rng.randrange(1, bits + 1)) for bits in PARTS)
    return Offer(parts, rng.getrandbits(COUNT_WIDTH), rng.getrandbits(COUNT_WIDTH), ends)


def drive(dut: Dut, which: str, offer: Offer | None) -> None:
    """Put one segment on its ports, or none."""
    getattr(dut, f"{which}_valid_i").value = int(offer is not None)
    if offer is not None:
        packed = 0
        for value, bits in zip(offer.parts, PARTS, strict=True):
            packed = packed << bits | value
        getattr(dut, f"{which}_parts_i").value = packed
        for name, value in (("words", offer.words), ("place", offer.place), ("ends_beat", offer.ends)):
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
                    got = tuple(int(getattr(dut, f"{which}_{name}_o").value) for name in OUTPUTS)
                    assert (int(dut.oldest_o.value), got) == want.popleft()
                    together += which == "second"
            ready, second_ready = int(rng.random() < pace), int(rng.random() < 0.7)
            dut.segment_ready_i.value, dut.second_ready_i.value = ready, second_ready
        await giving
    assert together > 100
