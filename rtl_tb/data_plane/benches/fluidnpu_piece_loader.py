"""Piece loader against the image: each constant in its lane and row of the bank that is not in use.

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
from ..environment.jobs import TABLE_PIECES

OUT_WORDS = setting("OUT_WORDS", 3)
PORT_BYTES = setting("PORT_WORDS", 8) * setting("WORD_BITS", 16) // 8
WEIGHTS = setting("FILTER_WEIGHTS", 0)  # rows of the filter's banks
ROWS, PAIRS = 256, 6
PORT_WORD_PIECES = PORT_BYTES // 4
BASE = 0xFF_FFFF_0000  # of the image, so that addresses carry into their upper bits
# (section, lane, row) -> piece, outer pieces of a table in rows 256 and 257; of weights a row for each pair
Bank = dict[tuple[str, int, int], int]


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
    """Both banks as units and filter would hold them."""

    dut: Dut
    held: tuple[Bank, Bank] = field(default_factory=lambda: ({}, {}))

    async def run(self) -> None:
        """Look at the ports until cancelled."""
        dut = self.dut
        while True:
            await RisingEdge(dut.clk_i)
            bank = self.held[1 - int(dut.bank_o.value)]
            assert int(dut.write_o.value) + int(dut.write_behind_o.value) + int(dut.weights_o.value) <= 1
            for section, valid in (("front", dut.write_o), ("behind", dut.write_behind_o)):
                row = int(dut.write_row_o.value) + ROWS * int(dut.write_outer_o.value)
                for lane in lanes_of(int(dut.write_lanes_o.value)) if valid.value else ():
                    bank[section, lane, row] = int(dut.write_piece_o.value)
            for lane in lanes_of(int(dut.weights_lanes_o.value)) if dut.weights_o.value else ():
                row = PAIRS * int(dut.weights_row_o.value) + int(dut.weights_pair_o.value)
                pairs = int(dut.weights_words_o.value)
                bank["weights", lane, row] = pairs >> 32 * (lane % (PORT_BYTES // 4)) & 0xFFFF_FFFF


def lanes_of(mask: int) -> list[int]:
    """The lanes of a mask."""
    return [lane for lane in range(OUT_WORDS) if mask >> lane & 1]


def layer(
    rng: random.Random, use: ActivationCode, pieces: int, image: bytes, rows: int = 0, table: int = 0
) -> tuple[int, Bank, int]:
    """A layer's bits, the bank that it needs, and the port words that hold it; `rows` of filter weights."""
    per_pair = 4 * PORT_WORD_PIECES * -(-OUT_WORDS // PORT_WORD_PIECES)  # bytes
    sizes = [4 * pieces, rows * PAIRS * per_pair, 4 * TABLE_PIECES * table]
    port_words = [-(-size // PORT_BYTES) for size in sizes]
    offset = 64 * rng.randrange((len(image) - PORT_BYTES * sum(port_words)) // 64)
    starts = [offset + PORT_BYTES * sum(port_words[:i]) for i in range(3)]

    def piece(start: int, index: int) -> int:
        return int.from_bytes(image[start + 4 * index : start + 4 * index + 4], "little")

    if use is ActivationCode.TABLE:
        bank = {("front", lane, row): piece(starts[0], row) for row in range(pieces) for lane in range(OUT_WORDS)}
    else:
        bank = {("front", i % OUT_WORDS, i // OUT_WORDS): piece(starts[0], i) for i in range(pieces)}
    for row in range(rows * PAIRS):
        bank |= {("weights", lane, row): piece(starts[1] + row * per_pair, lane) for lane in range(OUT_WORDS)}
    for row in range(TABLE_PIECES * table):
        bank |= {("behind", lane, row): piece(starts[2], row) for lane in range(OUT_WORDS)}
    fields = dict.fromkeys((bits.name for bits in LAYER.fields), 0)
    fields |= {"activation": use, "pieces": pieces, "piece_address": offset, "has_residual": 1}
    fields |= {"filter_kernel": 3, "filter_rows": rows, "filter_table": table} if rows else {}
    return LAYER.pack(fields), bank, sum(port_words)


async def load(dut: Dut, bits: int, cycles: int = 3000 + 3 * ROWS * OUT_WORDS) -> None:
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


def uses(rng: random.Random) -> list[tuple[ActivationCode, int, int, int]]:
    """Draw uses, pieces, rows of filter weights and tables behind them, in any order.

    There are tables, channels from one piece to full banks, and layers that have no pieces.
    """
    most = ROWS * OUT_WORDS
    channels = [
        (use, count)
        for use in (ActivationCode.SLOPE, ActivationCode.AFFINE)
        for count in (1, OUT_WORDS, rng.randrange(1, 99))
    ]
    plain = [(use, 0) for use in (ActivationCode.NONE, ActivationCode.PRODUCT)]
    every = [*channels, *plain, (ActivationCode.AFFINE, most), *[(ActivationCode.TABLE, TABLE_PIECES)] * 4]
    behind = (
        [(rows, table) for rows in (1, WEIGHTS, rng.randrange(1, WEIGHTS + 1)) for table in (0, 1)] if WEIGHTS else []
    )
    filtered = [(use, pieces, *filter_) for filter_ in behind for use, pieces in (plain[0], channels[1], every[-1])]
    whole = [*((use, pieces, 0, 0) for use, pieces in every), *filtered]
    return rng.sample(whole, len(whole))


@bench(200_000)
async def pieces_lie_where_the_unit_looks(dut: Dut) -> None:
    """Every layer's pieces, and nothing else, go into the bank that the layer before does not use."""
    rng = await begin(dut)
    image = rng.randbytes(4 * ROWS * OUT_WORDS + 8192 + 4 * PAIRS * PORT_BYTES * WEIGHTS)
    await reset(dut, image_i=BASE)
    master, banks = Master(dut, rng, image), Banks(dut)
    used = int(dut.bank_o.value)
    with running(master, banks):
        for use, pieces, rows, table in uses(rng):
            master.residuals = rng.choice([0.0, 0.2, 0.9])
            bits, want, port_words = layer(rng, use, pieces, image, rows, table)
            before, asked = dict(banks.held[used]), len(master.asked)
            await load(dut, bits)
            await RisingEdge(dut.clk_i)  # the last piece comes with the end of the plan
            await RisingEdge(dut.clk_i)
            bank = int(dut.bank_o.value)
            if not want:
                assert len(master.asked) == asked
                continue
            assert banks.held[used] == before, "the bank in use stays as it is"
            assert bank != used
            assert {place: banks.held[bank][place] for place in want} == want, use
            assert [words for _, words in master.asked[asked:]] == [port_words]
            used = bank


@bench(20_000)
async def a_layer_without_pieces_waits_for_nothing(dut: Dut) -> None:
    """It is loaded as soon as it is planned, and the read master is left alone."""
    rng = await begin(dut)
    await reset(dut, image_i=BASE)
    bits, *_ = layer(rng, ActivationCode.PRODUCT, 0, bytes(128))
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
    image = rng.randbytes(1 << 13)
    for cycles in (1, 3, 4, 9, 40, 200, 300, 380):
        await reset(dut, image_i=BASE)
        master, banks = Master(dut, rng, image, residuals=0.1), Banks(dut)
        with running(master, banks):
            bits, *_ = layer(rng, ActivationCode.TABLE, TABLE_PIECES, image, min(2, WEIGHTS), min(1, WEIGHTS))
            dut.layer_i.value, dut.planned_i.value = bits, 1
            for _ in range(cycles):
                await RisingEdge(dut.clk_i)
        await reset(dut, image_i=BASE)
        assert not dut.turn_o.value
        master, banks = Master(dut, rng, image), Banks(dut)
        with running(master, banks):
            bits, want, _ = layer(rng, ActivationCode.TABLE, TABLE_PIECES, image, min(2, WEIGHTS), min(1, WEIGHTS))
            await load(dut, bits)
            await RisingEdge(dut.clk_i)
            await RisingEdge(dut.clk_i)
            assert banks.held[int(dut.bank_o.value)] == want
