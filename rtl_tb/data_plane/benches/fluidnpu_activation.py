"""Activation unit against its definition in plain integers (ADR 69): every word, and all saturations counted.

Pieces of a layer are written while the layer before runs. Lanes without a column get words that no core
gives, so that one that is not masked shows. The unit behind a filter (ADR 70) knows tables alone, and its
beats say which lanes have a column.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from cocotb.triggers import RisingEdge

from fluidnpu.hls.formats import LAYER, TILE, ActivationCode

from ...common.benches.clock import Dut, begin, bench, setting
from ...common.benches.streams import Sink, StreamSource, pulse, running, until

WORDS, BITS = setting("OUT_WORDS", 3), setting("WORD_BITS", 16)
BANK_ROWS, BELOW, ABOVE = 256, 256, 257  # rows of a bank; the outer pieces of a table
LEAST, MOST = -(1 << BITS - 1), (1 << BITS - 1) - 1
WINDOWS = range(8, BITS) if BITS > 8 else (8,)  # of bytes one that has all of them
BEHIND = setting("BEHIND", 0)
USES = (ActivationCode.NONE, ActivationCode.TABLE) if BEHIND else tuple(ActivationCode)
Piece = tuple[int, int]  # base, slope
# What a word meets: the use, and where it lies or how it leaves.
Bin = tuple[ActivationCode, str]


@dataclass
class UnitUse:
    """A layer's use of the unit: its constants, and its pieces by row and lane."""

    use: ActivationCode
    window: int = 0
    shift: int = 0
    lo: int = LEAST
    hi: int = MOST
    pieces: dict[tuple[int, int], Piece] = field(default_factory=dict)

    def word(self, x: int, residual: int, row: int, lane: int) -> tuple[int, bool, str]:
        """Return what becomes of a word, whether a word could not hold it, and what it met."""
        if self.use is ActivationCode.TABLE:
            half = 1 << self.window
            inside = -half <= x < half
            row = (x + half) >> (self.window - 7) if inside else BELOW if x < 0 else ABOVE
            rest = (x + half) % (1 << (self.window - 7)) if inside else x + half if x < 0 else x - half
            base, slope = self.pieces[row, lane]
            value, met = base + self.rounded(slope * rest), "inside" if inside else "below" if x < 0 else "above"
        elif self.use is ActivationCode.PRODUCT:
            value, met = self.rounded(x * residual), "product"
        elif self.use is ActivationCode.SLOPE:
            value = self.rounded(self.pieces[row, lane][1] * x) if x < 0 else x
            met = "negative" if x < 0 else "not negative"
        else:
            base, slope = self.pieces[row, lane]
            value, met = base + self.rounded(slope * x), "channel"
        held = min(max(value, LEAST), MOST)
        return min(max(held, self.lo), self.hi), held != value, met

    def rounded(self, value: int) -> int:
        """Shift right, half up."""
        return (value + (1 << self.shift >> 1)) >> self.shift


@dataclass
class ActivationLayer:
    """A layer with its commands, its beats in order, and what must come of them."""

    unit: UnitUse
    commands: list[dict[str, int]]
    beats: list[int]
    used: list[int]  # lanes of each that have a column
    residuals: list[int]
    given: list[int]
    saturations: int
    met: set[Bin]

    @property
    def uses(self) -> bool:
        """True for a layer with a unit."""
        return self.unit.use is not ActivationCode.NONE

    @property
    def fields(self) -> int:
        """`layer_i`."""
        unit = self.unit
        numbers = {"window": unit.window, "shift": unit.shift, "lo": unit.lo, "hi": unit.hi}
        if not BEHIND:
            return LAYER.pack({"activation": unit.use} | {f"activation_{name}": n for name, n in numbers.items()})
        behind = {"filter_window": numbers.pop("window")} | {f"filter_unit_{name}": n for name, n in numbers.items()}
        return LAYER.pack({"filter_table": int(self.uses)} | behind)


def random_layer(rng: random.Random, use: ActivationCode, rows: int = 0, **extremes: int) -> ActivationLayer:
    """Draw a layer of one use; `rows` is the number of pieces that a lane has (0: few), `extremes` name
    constants of its unit.
    """
    columns, blocks = _columns(rng, rows), rng.randrange(1, 3)
    table = use is ActivationCode.TABLE
    unit = UnitUse(
        use,
        window=rng.choice(WINDOWS) if table else 0,
        shift=rng.choice([0, 1, rng.randrange(2, 31), rng.randrange(6, 17), 31]),
    )
    if rng.random() < 0.5:
        unit.lo, unit.hi = sorted(_number(rng) for _ in range(2))
    for name, value in extremes.items():
        setattr(unit, name, value)
    beats_of_pixel = sum(-(-cols // WORDS) for cols in columns)
    if table:
        pieces = [_piece(rng, unit.shift) for _ in range(BANK_ROWS + 2)]
        unit.pieces = {(row, lane): piece for row, piece in enumerate(pieces) for lane in range(WORDS)}
    elif use in (ActivationCode.SLOPE, ActivationCode.AFFINE):
        lanes = product(range(beats_of_pixel), range(WORDS))
        unit.pieces = {place: _piece(rng, unit.shift) for place in lanes}
    layer = ActivationLayer(unit, [], [], [], [], [], 0, set())
    for block in range(blocks):
        lane0 = rng.randrange(1, 4)
        lane1 = rng.choice([0, 0, lane0, rng.randrange(lane0 + 1)])
        first = 0
        for number, cols in enumerate(columns):
            last = number + 1 == len(columns)
            layer.commands.append(
                {
                    "beats": lane0, "lane1_beats": lane1, "cols": cols, "block_first": int(not number),
                    "block_last": int(last), "layer_last": int(last and block + 1 == blocks),
                }
            )  # fmt: skip
            for _ in range(lane0 + lane1):
                _row(rng, layer, cols, first)
            first += -(-cols // WORDS)
    return layer


def _columns(rng: random.Random, rows: int) -> list[int]:
    """Columns of the tiles of all groups of a row block: of few beats, or of so many together."""
    if not rows:
        return [rng.randrange(1, 3 * WORDS + 2) for _ in range(rng.randrange(1, 5))]
    most = min(rows, 4095 // WORDS)
    return [WORDS * most, *([WORDS * (rows - most)] if rows > most else [])]


def _row(rng: random.Random, layer: ActivationLayer, cols: int, first: int) -> None:
    """Append the beats of a row, whose first beat meets the pieces of row `first`."""
    unit = layer.unit
    for beat in range(-(-cols // WORDS)):
        words = [_word(rng, unit) for _ in range(WORDS)]
        factors = [_number(rng) for _ in range(WORDS)]
        given = list(words)
        for lane in range(WORDS) if layer.uses else ():
            if beat * WORDS + lane >= cols:
                given[lane] = 0
                continue
            given[lane], saturated, met = unit.word(words[lane], factors[lane], first + beat, lane)
            layer.saturations += saturated
            layer.met |= {(unit.use, met), *([(unit.use, "saturated")] if saturated else [])}
        layer.beats.append(_packed(words))
        layer.used.append((1 << min(WORDS, cols - beat * WORDS)) - 1)
        layer.given.append(_packed(given))
        if unit.use is ActivationCode.PRODUCT:
            layer.residuals.append(_packed(factors))


def _number(rng: random.Random, bits: int = BITS) -> int:
    """Any signed number of so many bits, often one at an end or near 0."""
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    return rng.choice([rng.randint(least, most), rng.randint(-9, 9), rng.choice([least, least + 1, most - 1, most])])


def _word(rng: random.Random, unit: UnitUse) -> int:
    """A word of the core: any, and at the ends of windows and segments more often."""
    if unit.use is not ActivationCode.TABLE:
        return _number(rng)
    half, step = 1 << unit.window, 1 << (unit.window - 7)
    at = rng.choice([-half, half, rng.randrange(-128, 129) * step]) + rng.randint(-2, 1)
    return min(max(rng.choice([_number(rng), at]), LEAST), MOST)


def _piece(rng: random.Random, shift: int) -> Piece:
    """A piece whose product is about a word after the shift, or any."""
    slope = rng.randint(-(1 << min(shift, 15)), (1 << min(shift, 15)) - 1)
    return _number(rng, 16), rng.choice([slope, _number(rng, 16)])


def _packed(words: list[int]) -> int:
    return sum((word & (1 << BITS) - 1) << BITS * lane for lane, word in enumerate(words))


def writes(unit: UnitUse) -> Iterator[dict[str, int]]:
    """Yield the ports of the pieces' writes: a table's into all lanes, outer ones last."""
    for (row, lane), (base, slope) in unit.pieces.items():
        if unit.use is ActivationCode.TABLE and lane:
            continue
        lanes = (1 << WORDS) - 1 if unit.use is ActivationCode.TABLE else 1 << lane
        yield {
            "write_i": 1, "write_lanes_i": lanes, "write_row_i": row % BANK_ROWS, "write_outer_i": row // BANK_ROWS,
            "write_piece_i": (slope & 0xFFFF) << 16 | (base & 0xFFFF),
        }  # fmt: skip


@dataclass
class ActivationLoader:
    """Writes the pieces of the next layer at random pace, then names their bank the one filled last."""

    dut: Dut
    rng: random.Random
    unit: UnitUse
    done: bool = False

    async def run(self) -> None:
        """Drive the ports until all is written."""
        for ports in writes(self.unit):
            while self.rng.random() < 0.1:
                self.dut.write_i.value = 0
                await RisingEdge(self.dut.clk_i)
            for name, value in ports.items():
                getattr(self.dut, name).value = value
            await RisingEdge(self.dut.clk_i)
        self.dut.write_i.value = 0
        if self.unit.pieces:
            self.dut.bank_i.value = 1 - int(self.dut.bank_i.value)
        for _ in range(2):
            await RisingEdge(self.dut.clk_i)
        self.done = True


async def play(dut: Dut, rng: random.Random, layers: list[ActivationLayer], pace: float = 0.7) -> None:
    """Run layers one behind another; the pieces of each are written while the one before runs."""
    total = int(dut.saturations_o.value)
    await ActivationLoader(dut, rng, layers[0].unit).run()
    for layer, following in zip(
        layers, [*(layer.unit for layer in layers[1:]), UnitUse(ActivationCode.NONE)], strict=True
    ):
        await _run(dut, rng, layer, ActivationLoader(dut, rng, following), pace)
        total += layer.saturations
        assert int(dut.saturations_o.value) == total


async def _run(dut: Dut, rng: random.Random, layer: ActivationLayer, loader: ActivationLoader, pace: float) -> None:
    """Run one layer, and a loader beside it."""
    dut.layer_i.value = layer.fields
    await pulse(dut, "layer_start_i")
    commands = StreamSource(dut, rng, "command_valid_i", "command_ready_o", ("command_i",), pace)
    beats = StreamSource(dut, rng, "beat_valid_i", "beat_ready_o", ("beat_i", "used_i"), pace)
    residuals = StreamSource(dut, rng, "residual_valid_i", "residual_ready_o", ("residual_i",), rng.choice([pace, 0.2]))
    out = Sink(dut, rng, "given_valid_o", "given_ready_i", ("given_o",), rng.choice([pace, pace, 0.15]))
    commands.items.extend((TILE.pack(command),) for command in layer.commands if layer.uses and not BEHIND)
    beats.items.extend(zip(layer.beats, layer.used, strict=True))
    residuals.items.extend((beat,) for beat in layer.residuals)
    with running(commands, beats, residuals, out, loader):
        await RisingEdge(dut.clk_i)
        most = 40 * len(layer.beats) + 2_000
        await until(dut, lambda: len(out.got) >= len(layer.given) and loader.done, most, "the last beat")
        for _ in range(3):
            await RisingEdge(dut.clk_i)
    assert [beat for (beat,) in out.got] == layer.given, layer.unit
    assert not [*commands.items, *beats.items, *residuals.items]
    for name in ("beat_valid_i", "residual_valid_i", "command_valid_i", "given_ready_i"):
        getattr(dut, name).value = 0


@bench(200_000)
async def words_meet_their_definition(dut: Dut) -> None:
    """Layers of every use behind layers of every other, with everything late; each kind of word is met, and a
    clear ends the count.
    """
    rng = await begin(dut)
    pairs = list(product(USES, USES))
    rng.shuffle(pairs)
    layers = [random_layer(rng, use) for pair in pairs for use in pair]
    await play(dut, rng, layers)
    met = set().union(*(layer.met for layer in layers))
    table = {(ActivationCode.TABLE, place) for place in ("inside", *(("below", "above") if BITS > 8 else ()))}
    slope = {(ActivationCode.SLOPE, place) for place in ("negative", "not negative")}
    others = {(ActivationCode.PRODUCT, "product"), (ActivationCode.AFFINE, "channel")}
    wanted = table | slope | others | {(use, "saturated") for use in USES[1:]}
    assert {(use, what) for use, what in wanted if use in USES} <= met
    await pulse(dut, "clear_i")
    await RisingEdge(dut.clk_i)
    assert int(dut.saturations_o.value) == 0


@bench(100_000)
async def constants_go_to_their_ends(dut: Dut) -> None:
    """Every window and shift, bounds at both ends of a word, and banks that are full of pieces."""
    rng = await begin(dut)
    layers = [random_layer(rng, ActivationCode.TABLE, window=window) for window in WINDOWS]
    layers += [random_layer(rng, rng.choice(USES[1:]), shift=shift) for shift in range(32)]
    bounds = [(LEAST, LEAST), (MOST, MOST), (0, 0), (LEAST, MOST)]
    layers += [random_layer(rng, use, lo=lo, hi=hi) for use in USES[1:] for lo, hi in bounds]
    layers += [
        random_layer(rng, use, rows=BANK_ROWS) for use in USES if use in (ActivationCode.SLOPE, ActivationCode.AFFINE)
    ]
    await play(dut, rng, layers, pace=0.95)


@bench(20_000)
async def a_beat_a_cycle(dut: Dut) -> None:
    """A long layer takes no cycle more than its beats, but those of its way."""
    rng = await begin(dut)
    for use in USES[1:]:
        layer = random_layer(rng, use, rows=200)
        await ActivationLoader(dut, rng, layer.unit).run()
        dut.layer_i.value = layer.fields
        await pulse(dut, "layer_start_i")
        ports = ("command_valid_i", "beat_valid_i", "residual_valid_i")
        rows = sum(command["beats"] + command["lane1_beats"] for command in layer.commands[:1])
        beats, taken, got, first = rows * -(-layer.commands[0]["cols"] // WORDS), 0, 0, 0
        dut.command_i.value, dut.beat_i.value = TILE.pack(layer.commands[0]), layer.beats[0]
        dut.given_ready_i.value = 1
        for name in ports:
            getattr(dut, name).value = 1
        for cycle in range(beats + 40):
            await RisingEdge(dut.clk_i)
            if dut.command_ready_o.value:
                dut.command_valid_i.value = 0
            if dut.beat_ready_o.value:
                first, taken = first if taken else cycle, taken + 1
                dut.beat_valid_i.value = int(taken < beats)
            if dut.given_valid_o.value:
                got += 1
                last = cycle
        assert got == beats
        assert last - first == beats - 1 + 14
        for name in (*ports, "given_ready_i"):
            getattr(dut, name).value = 0
