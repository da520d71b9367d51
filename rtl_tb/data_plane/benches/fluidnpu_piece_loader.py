"""Piece loader against the image: each piece in its lane and row of the bank that is not in use.

A stand-in for the reader of residuals shares the read master, which must be quiet when pieces are asked for.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from cocotb.triggers import RisingEdge

from fluidnpu.hls.formats import LAYER, ActivationCode

from ...common.benches.clock import Dut, begin, bench, reset, setting
from ...common.benches.streams import pulse, running
from .jobs import TABLE_PIECES

OUT_WORDS = setting("OUT_WORDS", 3)
PORT_BYTES = 2 * setting("PORT_WORDS", 8)
ROWS = 256
BASE = 0xFF_FFFF_0000  # of the image, so that addresses carry into their upper bits
Bank = dict[tuple[int, int], int]  # (lane, row) -> piece; outer pieces of a table in rows 256 and 257


@dataclass
class Master:
    """The read master behind both: answers in order, after some cycles; residuals are asked for in between.

    A residual's data are taken by nobody but its reader, at any pace.
    """

    dut: Dut
    rng: random.Random
    image: bytes
    residuals: float = 0.5  # chance that their reader asks in a cycle in which it may
    asked: list[tuple[int, int]] = field(default_factory=list)
    stole: bool = False

    async def run(self) -> None:
        """Drive the ports until cancelled."""
        dut, rng = self.dut, self.rng
        queue: deque[tuple[bool, int]] = deque()  # (a piece's, port word)
        ready = valid = delay = 0
        while True:
            await RisingEdge(dut.clk_i)
            turn, reads = int(dut.turn_o.value), int(dut.reads_o.value)
            if ready and dut.fetch_valid_o.value:
                assert turn
                assert not queue, "pieces are asked for when all residuals are taken"
                address, beats = int(dut.fetch_addr_o.value), int(dut.fetch_beats_o.value)
                self.asked.append((address, beats))
                at = (address - BASE) % (1 << 40)
                words = [self.image[at + i * PORT_BYTES :][:PORT_BYTES] for i in range(beats)]
                queue += [(True, int.from_bytes(word, "little")) for word in words]
                delay = rng.randrange(12)
            elif not turn and rng.random() < self.residuals:
                queue += [(False, rng.getrandbits(8 * PORT_BYTES)) for _ in range(rng.randrange(1, 4))]
            if valid and queue[0][0] and dut.data_ready_o.value:
                assert reads
                queue.popleft()
            elif valid and not queue[0][0]:
                assert not reads, "a residual's port word is not the loader's"
                if rng.random() < 0.5:
                    queue.popleft()
            delay -= delay > 0
            valid = int(bool(queue) and not delay and (valid or rng.random() < 0.7))
            ready = int(rng.random() < 0.6)
            dut.data_valid_i.value, dut.fetch_ready_i.value = valid, ready
            dut.quiet_i.value = int(not queue)
            dut.data_i.value = queue[0][1] if valid else rng.getrandbits(8 * PORT_BYTES)


@dataclass
class Banks:
    """Both banks as the unit would hold them, each piece with the cycle in which it came."""

    dut: Dut
    held: tuple[Bank, Bank] = field(default_factory=lambda: ({}, {}))

    async def run(self) -> None:
        """Look at the ports until cancelled."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk_i)
            if dut.write_o.value:
                row = int(dut.write_row_o.value) + ROWS * int(dut.write_outer_o.value)
                for lane in range(OUT_WORDS):
                    if int(dut.write_lanes_o.value) >> lane & 1:
                        self.held[1 - int(dut.bank_o.value)][lane, row] = int(dut.write_piece_o.value)


def layer(rng: random.Random, use: ActivationCode, pieces: int, image: bytes) -> tuple[int, Bank]:
    """A layer's bits, and the bank that it needs."""
    offset = 64 * rng.randrange((len(image) - 4 * pieces) // 64)
    words = [int.from_bytes(image[offset + 4 * i : offset + 4 * i + 4], "little") for i in range(pieces)]
    if use is ActivationCode.TABLE:
        bank = {(lane, row): word for row, word in enumerate(words) for lane in range(OUT_WORDS)}
    else:
        bank = {(i % OUT_WORDS, i // OUT_WORDS): word for i, word in enumerate(words)}
    fields = dict.fromkeys((bits.name for bits in LAYER.fields), 0)
    fields |= {"activation": use, "pieces": pieces, "piece_address": offset, "has_residual": 1}
    return LAYER.pack(fields), bank


async def load(dut: Dut, bits: int, cycles: int = 1000 + 3 * ROWS * OUT_WORDS) -> None:
    """Show a plan until its pieces are there."""
    dut.layer_i.value = bits
    for _ in range(2):
        await RisingEdge(dut.clk_i)
    dut.planned_i.value = 1
    for _ in range(cycles):
        await RisingEdge(dut.clk_i)
        if dut.loaded_o.value:
            dut.planned_i.value = 0
            return
    raise AssertionError(f"the pieces are not there within {cycles} cycles")


def uses(rng: random.Random) -> list[tuple[ActivationCode, int]]:
    """Tables, channels from one piece to full banks, and layers that have no pieces, in any order."""
    most = ROWS * OUT_WORDS
    channels = [
        (use, count)
        for use in (ActivationCode.SLOPE, ActivationCode.AFFINE)
        for count in (1, OUT_WORDS, rng.randrange(1, 99))
    ]
    plain = [(use, 0) for use in (ActivationCode.NONE, ActivationCode.PRODUCT)]
    every = [*channels, *plain, (ActivationCode.AFFINE, most), *[(ActivationCode.TABLE, TABLE_PIECES)] * 4]
    return rng.sample(every, len(every))


@bench(200_000)
async def pieces_lie_where_the_unit_looks(dut: Dut) -> None:
    """Every layer's pieces, and nothing else, go into the bank that the layer before does not use."""
    rng = await begin(dut)
    image = rng.randbytes(4 * ROWS * OUT_WORDS + 4096)
    await reset(dut, image_i=BASE)
    master, banks = Master(dut, rng, image), Banks(dut)
    used = int(dut.bank_o.value)
    with running(master, banks):
        for use, pieces in uses(rng):
            master.residuals = rng.choice([0.0, 0.2, 0.9])
            bits, want = layer(rng, use, pieces, image)
            before, asked = dict(banks.held[used]), len(master.asked)
            await load(dut, bits)
            await RisingEdge(dut.clk_i)  # the last piece comes with the end of the plan
            await RisingEdge(dut.clk_i)
            bank = int(dut.bank_o.value)
            if not pieces:
                assert len(master.asked) == asked
                continue
            assert banks.held[used] == before, "the bank in use stays as it is"
            assert bank != used
            assert {place: banks.held[bank][place] for place in want} == want, use
            port_words = -(-4 * pieces // PORT_BYTES)
            assert [words for _, words in master.asked[asked:]] == [port_words]
            used = bank


@bench(20_000)
async def a_layer_without_pieces_waits_for_nothing(dut: Dut) -> None:
    """It is loaded as soon as it is planned, and the read master is left alone."""
    rng = await begin(dut)
    await reset(dut, image_i=BASE)
    bits, _ = layer(rng, ActivationCode.PRODUCT, 0, bytes(128))
    dut.layer_i.value = bits
    await RisingEdge(dut.clk_i)
    await pulse(dut, "planned_i")
    for _ in range(20):
        assert dut.loaded_o.value
        assert not dut.turn_o.value
        await RisingEdge(dut.clk_i)


@bench(50_000)
async def a_reset_forgets_what_was_asked_for(dut: Dut) -> None:
    """A reset in any cycle of a load; the next load is whole."""
    rng = await begin(dut)
    image = rng.randbytes(1 << 12)
    for cycles in (1, 3, 4, 9, 40, 200):
        await reset(dut, image_i=BASE)
        master, banks = Master(dut, rng, image, residuals=0.1), Banks(dut)
        with running(master, banks):
            bits, _ = layer(rng, ActivationCode.TABLE, TABLE_PIECES, image)
            dut.layer_i.value, dut.planned_i.value = bits, 1
            for _ in range(cycles):
                await RisingEdge(dut.clk_i)
        await reset(dut, image_i=BASE)
        assert not dut.turn_o.value
        master, banks = Master(dut, rng, image), Banks(dut)
        with running(master, banks):
            bits, want = layer(rng, ActivationCode.TABLE, TABLE_PIECES, image)
            await load(dut, bits)
            await RisingEdge(dut.clk_i)
            await RisingEdge(dut.clk_i)
            assert banks.held[int(dut.bank_o.value)] == want
