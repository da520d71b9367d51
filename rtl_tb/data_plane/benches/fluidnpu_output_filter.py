"""Filter on the way out against its definition in numpy (ADR 70): every beat that leaves, every saturation.

Weights of a layer are written while the layer before runs. Lanes without a column get words that no core
gives, so that one that is not masked shows.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt
from cocotb.triggers import RisingEdge

from fluidnpu.hls.formats import LAYER, TILE

from ...common.benches.clock import Dut, begin, bench, reset, setting
from ...common.benches.streams import Sink, StreamSource, pulse, running, until

LANES = setting("OUT_WORDS", 3)
KERNEL = setting("KERNEL", 5)  # the largest
SAMPLES = setting("B_MAX", 4)
ROOM = {name: setting(name.upper(), 0) for name in ("windows", "rows", "deep_rows", "weights")}
BITS = setting("WORD_BITS", 16)
LEAST, MOST, TAPS, WORDS = -(1 << BITS - 1), (1 << BITS - 1) - 1, 9, 12
FIRST = -(-TAPS * BITS // 16)  # word of a row that follows its weights
KERNELS = range(2, KERNEL + 1)
Int64 = npt.NDArray[np.int64]
Kind = tuple[int, int]  # kernel, stride; (0, 1) without a filter
KINDS: tuple[Kind, ...] = ((0, 1), *product(KERNELS, (1, 2)))


@dataclass
class FilterLayer:
    """A layer, its map (samples, rows, columns, channels), and the order in which its beats come.

    `tiles` are the columns of each column tile, `blocks` the pixels of each row block, over all samples.
    """

    kernel: int
    stride: int
    before: tuple[int, int]  # rows above and columns left of the map
    out: tuple[int, int]
    maps: Int64
    weights: Int64  # (kernel, kernel, channels)
    bias: Int64
    factor: Int64  # multiplier of each channel; 1 where words have 16 bits
    shift: Int64  # of each channel; the same of all where words have 16 bits
    lo: int
    hi: int
    tiles: list[int]
    blocks: list[int]
    row_lanes: bool
    rng: random.Random
    beats: list[int] = field(default_factory=list)
    left: list[tuple[int, int]] = field(default_factory=list)  # words and lanes
    commands: list[dict[str, int]] = field(default_factory=list)
    saturations: int = 0

    def __post_init__(self) -> None:
        results = self._results() if self.kernel else self.maps
        pixels, first = list(np.ndindex(self.maps.shape[:3])), 0
        for number, size in enumerate(self.blocks):
            block, channel = pixels[first : first + size], 0
            first += size
            for tile, columns in enumerate(self.tiles):
                self._command(size, columns, tile, number)
                channels = slice(channel, channel + columns)
                channel += columns
                for pixel in block:
                    self.beats += [beat for beat, _ in self._packed(self.maps[pixel][channels], garbage=True)]
                    for sample, y, x in self._positions(*pixel) if self.kernel else ():
                        self.left += self._packed(results[sample, y, x, channels])
        if not self.kernel:
            self.left = [(beat, (1 << LANES) - 1) for beat in self.beats]

    @property
    def pitch(self) -> int:
        """Beats of a pixel."""
        return sum(-(-columns // LANES) for columns in self.tiles)

    @property
    def steps(self) -> int:
        """Cycles of a window."""
        return -(-self.kernel * self.kernel // TAPS)

    @property
    def walk(self) -> tuple[int, int]:
        """Rows and columns of the positions."""
        lasts = [
            (out - 1) * self.stride - before + self.kernel for out, before in zip(self.out, self.before, strict=True)
        ]
        return max(self.maps.shape[1], lasts[0]), max(self.maps.shape[2], lasts[1])

    @property
    def fields(self) -> int:
        """`layer_i`."""
        samples, rows, columns, _ = self.maps.shape
        shared = {"out_h": rows, "out_w": columns, "b_r": samples, "row_lanes": int(self.row_lanes)}
        if not self.kernel:
            return LAYER.pack(shared)
        return LAYER.pack(
            shared
            | {
                "filter_kernel": self.kernel,
                "filter_stride": self.stride,
                "filter_top": self.before[0],
                "filter_left": self.before[1],
                "filter_steps": self.steps,
                "filter_shift": int(self.shift[0]) if BITS == 16 else 0,
                "filter_lo": self.lo,
                "filter_hi": self.hi,
                "walk_h": self.walk[0],
                "walk_w": self.walk[1],
                "pool_pitch": self.pitch,
            }
        )

    def rows_of_weights(self) -> Iterator[tuple[int, int, int, list[int]]]:
        """Yield (row, pair, first lane, pairs of lanes) as port words of two pairs bring them."""
        channel, row = 0, 0
        for columns in self.tiles:
            for at in range(0, columns, LANES):
                used = min(LANES, columns - at)
                for step in range(self.steps):
                    words = np.zeros((LANES, WORDS), np.int64)
                    for lane in range(used):
                        taps = self.weights[:, :, channel + at + lane].reshape(-1)[TAPS * step : TAPS * (step + 1)]
                        packed = sum((int(tap) & (1 << BITS) - 1) << BITS * i for i, tap in enumerate(taps))
                        words[lane, :FIRST] = [packed >> 16 * i & 0xFFFF for i in range(FIRST)]
                        if not step:
                            header = self._header(channel + at + lane)
                            words[lane, FIRST:] = [header >> 16 * i & 0xFFFF for i in range(WORDS - FIRST)]
                    for pair, first in product(range(WORDS // 2), range(0, LANES, 2)):
                        pairs = [
                            int(words[lane, 2 * pair + 1] & 0xFFFF) << 16 | int(words[lane, 2 * pair] & 0xFFFF)
                            for lane in range(first, min(first + 2, LANES))
                        ]
                        yield row, pair, first, pairs
                    row += 1
            channel += columns

    def _header(self, channel: int) -> int:
        """The bits behind a channel's weights."""
        bias = int(self.bias[channel])
        if BITS == 16:
            return bias & (1 << 48) - 1
        return bias & (1 << 32) - 1 | int(self.factor[channel]) << 32 | int(self.shift[channel]) << 56

    def _results(self) -> Int64:
        """The filter's map: windows over zeros around the map, rounded half to even, limited, clipped."""
        samples, rows, columns, channels = self.maps.shape
        (top, left), size = self.before, 2 * self.kernel
        padded = np.zeros((samples, rows + size + top, columns + size + left, channels), np.int64)
        padded[:, top : top + rows, left : left + columns] = self.maps
        sums = np.broadcast_to(self.bias, (samples, *self.out, channels)).copy()
        for y, x in product(range(self.kernel), repeat=2):
            part = padded[:, y :: self.stride, x :: self.stride][:, : self.out[0], : self.out[1]]
            sums += part * self.weights[y, x]
        sums *= self.factor
        whole = sums >> self.shift
        rest, half = sums - (whole << self.shift), np.left_shift(1, self.shift) >> 1
        whole += (self.shift > 0) & ((rest > half) | ((rest == half) & (whole & 1 == 1)))
        held = np.clip(whole, LEAST, MOST)
        self.saturations = int((held != whole).sum())
        return np.clip(held, self.lo, self.hi)

    def _positions(self, sample: int, y: int, x: int) -> Iterator[tuple[int, int, int]]:
        """Yield the windows (sample, row, column) that leave at a pixel and at what follows it."""
        (_, rows, columns, _), (high, wide) = self.maps.shape, self.walk
        visited = [(y, at) for at in range(x, wide if x == columns - 1 else x + 1)]
        if x == columns - 1 and y == rows - 1:
            visited += product(range(rows, high), range(wide))
        for place in visited:
            ends = [at - self.kernel + 1 + before for at, before in zip(place, self.before, strict=True)]
            if all(end >= 0 and end % self.stride == 0 for end in ends):
                yield sample, ends[0] // self.stride, ends[1] // self.stride

    def _packed(self, words: Int64, *, garbage: bool = False) -> list[tuple[int, int]]:
        """The beats of a pixel's columns, and their lanes with a column."""
        out = []
        for at in range(0, len(words), LANES):
            used = [int(word) for word in words[at : at + LANES]]
            rest = [self.rng.randint(LEAST, MOST) if garbage else 0 for _ in range(LANES - len(used))]
            packed = sum((word & (1 << BITS) - 1) << BITS * lane for lane, word in enumerate(used + rest))
            out.append((packed, (1 << len(used)) - 1))
        return out

    def _command(self, size: int, columns: int, tile: int, block: int) -> None:
        last = tile + 1 == len(self.tiles)
        self.commands.append(
            {
                "beats": (size + 1) // 2 if self.row_lanes else size,
                "lane1_beats": size // 2 if self.row_lanes else 0,
                "cols": columns,
                "block_first": int(not tile),
                "block_last": int(last),
                "layer_last": int(last and block + 1 == len(self.blocks)),
            }
        )


def random_layer(
    rng: random.Random,
    kind: Kind,
    *,
    tiles: Sequence[int] = (),
    size: tuple[int, int] | None = None,
    samples: int = 0,
    row_lanes: bool | None = None,
    whole: bool = False,
) -> FilterLayer:
    """Draw a small layer of a kind that fits the room.

    Columns of its tiles, rows and columns of its map, samples and lanes may be given. `whole`: one row block.
    """
    kernel, stride = kind
    while True:
        widths = list(tiles) or [rng.randrange(1, 2 * LANES + 2) for _ in range(rng.choice([1, 1, 2, 3]))]
        shape = (samples or rng.choice([1, 1, 2, 3]), *(size or (rng.randrange(1, 7), rng.randrange(4, 9))))
        before, behind = (tuple(rng.randrange(max(kernel, 1)) for _ in range(2)) for _ in range(2))
        out = [(shape[1 + axis] + before[axis] + behind[axis] - kernel) // stride + 1 for axis in (0, 1)]
        pitch = sum(-(-columns // LANES) for columns in widths)
        fits = pitch <= ROOM["windows"] and shape[2] * pitch <= ROOM["deep_rows" if kernel > 3 else "rows"]
        fits &= pitch * -(-kernel * kernel // TAPS) <= ROOM["weights"] and shape[0] <= SAMPLES
        if fits and min(out) > 0 and (tiles or pitch * math.prod(shape) <= 150):
            break
    source = np.random.default_rng(rng.getrandbits(32))
    channels, most = sum(widths), rng.choice([3, MOST + 1, MOST + 1])
    shift = rng.choice([0, 1, rng.randrange(2, 12), rng.randrange(12, 24), rng.randrange(24, 48)])
    bias = min(rng.choice([4, 1 << 20, 1 << (15 + shift), 1 << 45]), 1 << 45)
    lo, hi = rng.choice([(LEAST, MOST), (LEAST, MOST), (0, MOST), (-9, 5000 >> 16 - BITS), (-20000 >> 16 - BITS, -1)])
    shifts, factors = np.full(channels, shift), np.ones(channels, np.int64)
    if BITS == 8:  # no sum leaves 32 bits, nor what becomes of it
        bias = rng.choice([4, 1 << 20, 1 << 30])
        shifts = source.choice([0, 1, 9, 17, 20, 24, 30, 33, 47], channels)
        most_of = np.minimum(1 << 17, 1 << np.minimum(shifts + (0 if bias > 1 << 20 else 9), 17))
        factors = np.where(source.random(channels) < 0.2, most_of - 1, source.integers(0, most_of))
    return FilterLayer(
        kernel=kernel,
        stride=stride,
        before=(before[0], before[1]),
        out=(out[0], out[1]),
        maps=source.integers(-most, most, (*shape, channels)),
        weights=source.integers(-most, most, (kernel, kernel, channels)),
        bias=source.integers(-bias, bias, channels),
        factor=factors,
        shift=shifts,
        lo=lo,
        hi=hi,
        tiles=widths,
        blocks=[math.prod(shape)] if whole else _blocks(rng, math.prod(shape)),
        row_lanes=rng.random() < 0.4 if row_lanes is None else row_lanes,
        rng=rng,
    )


def _blocks(rng: random.Random, pixels: int) -> list[int]:
    """Pixels of each row block: all in one, or blocks that end anywhere."""
    most = rng.choice([pixels, rng.randrange(1, pixels + 1)])
    return [min(most, pixels - first) for first in range(0, pixels, most)]


@dataclass
class FilterLoader:
    """Writes the weights of the next layer at random pace, then names their bank the one filled last."""

    dut: Dut
    rng: random.Random
    layer: FilterLayer | None
    done: bool = False

    async def run(self) -> None:
        """Drive the ports until all is written."""
        dut = self.dut
        filters = self.layer is not None and self.layer.kernel > 0
        for row, pair, first, pairs in self.layer.rows_of_weights() if filters and self.layer else ():
            while self.rng.random() < 0.1:
                dut.write_i.value = 0
                await RisingEdge(dut.clk_i)
            dut.write_i.value = 1
            dut.write_lanes_i.value = (1 << len(pairs)) - 1 << first
            dut.write_row_i.value, dut.write_pair_i.value = row, pair
            dut.write_pairs_i.value = sum(
                pairs[lane % 2] << 32 * lane for lane in range(LANES) if lane % 2 < len(pairs)
            )
            await RisingEdge(dut.clk_i)
        dut.write_i.value = 0
        if filters:
            dut.bank_i.value = 1 - int(dut.bank_i.value)
        for _ in range(3):
            await RisingEdge(dut.clk_i)
        self.done = True


async def play(dut: Dut, rng: random.Random, layers: list[FilterLayer], pace: float = 0.8) -> None:
    """Run layers one behind another; the weights of each are written while the one before runs."""
    total = int(dut.saturations_o.value)
    await FilterLoader(dut, rng, layers[0]).run()
    for layer, following in zip(layers, [*layers[1:], None], strict=True):
        await _run(dut, rng, layer, FilterLoader(dut, rng, following), pace)
        total += layer.saturations
        assert int(dut.saturations_o.value) == total


async def _run(dut: Dut, rng: random.Random, layer: FilterLayer, loader: FilterLoader, pace: float) -> None:
    """Run one layer, and a loader beside it."""
    dut.layer_i.value = layer.fields
    await pulse(dut, "layer_start_i")
    commands, beats, out = _streams(dut, rng, layer, pace)
    with running(commands, beats, out, loader):
        await RisingEdge(dut.clk_i)
        await until(dut, lambda: _over(dut, layer, commands, beats, out) and loader.done, _most(layer), "the last beat")
        for _ in range(6):
            await RisingEdge(dut.clk_i)
    assert out.got == layer.left, (layer.kernel, layer.stride, layer.before, layer.maps.shape, layer.tiles)
    assert not dut.busy_o.value
    _quiet(dut)


def _streams(dut: Dut, rng: random.Random, layer: FilterLayer, pace: float) -> tuple[StreamSource, StreamSource, Sink]:
    commands = StreamSource(dut, rng, "command_valid_i", "command_ready_o", ("command_i",), pace)
    beats = StreamSource(dut, rng, "beat_valid_i", "beat_ready_o", ("beat_i",), rng.choice([1.0, pace]))
    ports = ("filtered_o", "filtered_lanes_o")
    out = Sink(dut, rng, "filtered_valid_o", "filtered_ready_i", ports, rng.choice([1.0, pace, 0.15]))
    if layer.kernel:
        commands.items.extend((TILE.pack(command),) for command in layer.commands)
    beats.items.extend((beat,) for beat in layer.beats)
    return commands, beats, out


def _over(dut: Dut, layer: FilterLayer, commands: StreamSource, beats: StreamSource, out: Sink) -> bool:
    busy = bool(dut.busy_o.value)
    return len(out.got) >= len(layer.left) and not (commands.items or beats.items or busy)


def _most(layer: FilterLayer) -> int:
    positions = layer.walk[0] * layer.walk[1] * layer.maps.shape[0] * layer.pitch
    return 20 * layer.steps * positions + 2_000


def _quiet(dut: Dut) -> None:
    for name in ("beat_valid_i", "command_valid_i", "filtered_ready_i", "write_i"):
        getattr(dut, name).value = 0


@bench(300_000)
async def windows_meet_their_definition(dut: Dut) -> None:
    """Layers of every kernel and stride behind any others, with everything late; a clear ends the count."""
    rng = await begin(dut)
    kinds = deque(KINDS * 4)
    rng.shuffle(kinds)
    layers = [random_layer(rng, kind) for kind in kinds]
    await play(dut, rng, layers)
    assert any(layer.saturations for layer in layers)
    await pulse(dut, "clear_i")
    await RisingEdge(dut.clk_i)
    assert int(dut.saturations_o.value) == 0


@bench(300_000)
async def the_narrowest_maps_at_full_pace(dut: Dut) -> None:
    """Four columns and one beat a pixel, so that RAM entries are used again as soon as they may be."""
    rng = await begin(dut)
    layers = [
        random_layer(rng, kind, tiles=[rng.randrange(1, LANES + 1)], size=(rng.randrange(1, 8), 4), row_lanes=lanes)
        for kind in KINDS[1:]
        for lanes in (False, True)
    ]
    await play(dut, rng, layers, pace=1.0)


@bench(100_000)
async def a_reset_in_the_middle_of_a_row(dut: Dut) -> None:
    """Layers behind a reset in mid-row know nothing of the words that it leaves in the RAMs."""
    rng = await begin(dut)
    for kind in KINDS[1:]:
        layer = random_layer(rng, kind, size=(4, 6))
        await FilterLoader(dut, rng, layer).run()
        dut.layer_i.value = layer.fields
        await pulse(dut, "layer_start_i")
        commands, beats, out = _streams(dut, rng, layer, 1.0)
        with running(commands, beats, out):
            for _ in range(rng.randrange(20, 60)):
                await RisingEdge(dut.clk_i)
        _quiet(dut)
        await reset(dut)
        await play(dut, rng, [random_layer(rng, rng.choice(KINDS[1:]), samples=1)])


@bench(100_000)
async def a_position_a_cycle(dut: Dut) -> None:
    """A layer takes a cycle for each position, or each step of a window that leaves, and those of its way."""
    rng = await begin(dut)
    for kind in KINDS[1:]:
        layer = random_layer(rng, kind, samples=1, tiles=[LANES], size=(5, 7), whole=True)
        await FilterLoader(dut, rng, layer).run()
        dut.layer_i.value = layer.fields
        await pulse(dut, "layer_start_i")
        await RisingEdge(dut.clk_i)
        beats = deque(layer.beats)
        dut.command_i.value, dut.command_valid_i.value = TILE.pack(layer.commands[0]), 1
        dut.beat_i.value, dut.beat_valid_i.value, dut.filtered_ready_i.value = beats[0], 1, 1
        times, first = [], None
        for cycle in range(layer.walk[0] * layer.walk[1] * layer.steps + 60):
            await RisingEdge(dut.clk_i)
            if dut.command_ready_o.value:
                dut.command_valid_i.value = 0
            if dut.beat_ready_o.value and dut.beat_valid_i.value:
                first = cycle if first is None else first
                beats.popleft()
                dut.beat_valid_i.value, dut.beat_i.value = int(bool(beats)), beats[0] if beats else 0
            if dut.filtered_valid_o.value:
                times.append(cycle)
        assert first is not None
        assert times == [first + at for at in _times(layer)]
        _quiet(dut)


def _times(layer: FilterLayer) -> list[int]:
    """Cycles from the first beat at which windows leave the filter, if nothing is late."""
    at, out = 0, []
    for y, x in np.ndindex(*layer.walk):
        ends = [place - layer.kernel + 1 + before for place, before in zip((y, x), layer.before, strict=True)]
        if all(end >= 0 and end % layer.stride == 0 for end in ends):
            out.append(at + 24 + layer.steps)
            at += layer.steps - 1
        at += 1
    return out


@bench(300_000)
async def entries_up_to_the_last(dut: Dut) -> None:
    """Maps whose rows, windows and weights fill the RAMs, in several column tiles."""
    rng = await begin(dut)
    for kernel in KERNELS:
        steps, rows = -(-kernel * kernel // TAPS), ROOM["deep_rows" if kernel > 3 else "rows"]
        pitch = min(ROOM["windows"], ROOM["weights"] // steps, rows // 4)
        tiles = [LANES * (pitch // 2), LANES * (pitch - pitch // 2)]
        await play(dut, rng, [random_layer(rng, (kernel, 1), tiles=tiles, size=(2, rows // pitch), samples=1)])
