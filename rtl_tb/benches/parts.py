"""What the benches of single modules share: packed structs, streams, a stand-in for a read master, and a layer with all that must follow from it.

A `Case` is one random layer at one batch; its fields, commands and beats come from `hls.streams`, so nothing here knows the RTL's insides.
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt
from cocotb.triggers import RisingEdge

from fluidnpu.dse import Design, Mode
from fluidnpu.hls import InputRows, LayerStreams, FbcbEntry, decode_fbcb, layer_streams, part_words, tiles

from ..sources import sources
from .common import Dut
from .jobs import Layout, Program, Shape, make_program, place, random_fbcb, random_shape

Values = dict[str, int]
PORT_BYTES = 16  # of every module that asks for it


@cache
def struct(name: str) -> tuple[tuple[str, int], ...]:
    """(field, width) of a packed struct of `fluidnpu_pkg`, highest bits first.

    >>> struct("command_t")[0]
    ('beats', 16)
    """
    body = re.search(rf"typedef struct packed \{{([^}}]*)\}} {name};", sources()["fluidnpu_pkg.sv"])
    if body is None:
        raise KeyError(f"fluidnpu_pkg has no struct {name}")
    found = re.findall(r"^\s*logic\s*(?:\[(\d+):0\])?\s*(\w+);", body[1], re.M)
    return tuple((field_name, int(high or 0) + 1) for high, field_name in found)


def pack(name: str, values: Mapping[str, int]) -> int:
    """A struct as a number; what `values` does not name is zero, and it names nothing else."""
    unknown = set(values) - {key for key, _ in struct(name)}
    assert not unknown, f"{name} has no {unknown}"
    word = 0
    for key, width in struct(name):
        word = word << width | values.get(key, 0) & (1 << width) - 1
    return word


def unpack(name: str, word: int) -> Values:
    """Inverse of `pack`."""
    values = {}
    for key, width in reversed(struct(name)):
        values[key] = word & (1 << width) - 1
        word >>= width
    return values


@dataclass
class Case:
    """A layer on some slots with everything it leads to."""

    design: Design
    program: Program
    word: int
    active: list[int]

    def __post_init__(self) -> None:
        d, design = self.program.descriptors[0], self.design
        self.descriptor = d
        self.run: FbcbEntry = decode_fbcb(
            self.word,
            kind=d.kind,
            batch=len(self.active),
            t_r=design.t_r,
            stackable=design.stackable,
            split=design.split,
        )
        self.tiles = list(tiles(d, self.run, design))
        slots = self.program.slot_words(self.program.memory)[self.active]
        self.streams: LayerStreams = layer_streams(d, self.word, design, slots, self.program.image)

    @property
    def slot_port(self) -> int:
        """`slot_i`: the addresses of the active samples, sample 0 lowest."""
        p = self.program
        return sum((p.slot_base + slot * p.slot_bytes) << 40 * i for i, slot in enumerate(self.active))

    @property
    def rows(self) -> InputRows:
        """Its input rows in the input buffer."""
        return InputRows.of(self.descriptor, PORT_BYTES)

    @property
    def base_port(self) -> int:
        """`base_i`: where each sample of a lane begins in the input buffer."""
        return sum(i * self.rows.sample_pitch << 32 * i for i in range(self.design.b_max))

    @property
    def by_samples(self) -> bool:
        """Lanes by samples: each lane has a part of the input buffer for itself."""
        return self.run.mode is Mode.LANES and not self.run.row_lanes

    def buffered(self) -> list[bytearray]:
        """What a lane's part of the input buffer would hold if nothing were ever dropped; zero where no row lies."""
        d, rows, p = self.descriptor, self.rows, self.program
        first = self.run.b_r if self.by_samples else len(self.active)
        lanes = []
        for slots in (self.active[:first], self.active[first:]):
            lane = bytearray(len(slots) * rows.sample_pitch + 2 * PORT_BYTES)
            for sample, slot in enumerate(slots):
                for row in range(rows.sample_rows):
                    source = p.slot_base - p.base + slot * p.slot_bytes + d.in_offset + row * rows.row_step
                    at = sample * rows.sample_pitch + row * rows.pitch + d.in_offset % PORT_BYTES
                    lane[at : at + rows.row_bytes] = p.memory[source : source + rows.row_bytes]
            lanes.append(lane)
        return lanes

    def layer(self) -> Values:
        """Fields of `layer_t`."""
        d, run, pool = self.descriptor, self.run, self.descriptor.kind != 0
        contiguous = not pool and d.dilation_w == 1 and d.in_pixel_bytes == 2 * d.group_words
        blocks = [tile.command for tile in self.tiles if tile.group == tile.first_column == 0]
        size = {
            "p": d.kernel_h * d.kernel_w * d.group_words,
            "columns": d.columns,
            "groups": d.groups,
            "mode": run.mode,
            "design": self.design,
        }
        same = (
            "has_residual", "shift", "residual_shift", "kernel_h", "kernel_w", "out_h", "out_w", "group_words", "groups", "columns",
            "in_offset", "out_offset", "residual_offset",
        )  # fmt: skip
        return {name: getattr(d, name) for name in same} | {
            "pool": int(pool),
            "mode": int(run.mode),
            "row_lanes": int(run.row_lanes),
            "sample_lanes": int(self.by_samples),
            "b_r": run.b_r,
            "block": run.block,
            "lo": d.lo & 0xFFFF,
            "hi": d.hi & 0xFFFF,
            "out_row": d.out_row_bytes,
            "out_pixel": d.out_pixel_bytes,
            "residual_row": d.residual_row_bytes,
            "residual_pixel": d.residual_pixel_bytes,
            "step_w": d.in_pixel_bytes * d.stride_w,
            "tap_w": d.in_pixel_bytes * d.dilation_w,
            **asdict(self.rows),
            "contiguous": int(contiguous),
            "run_words": d.group_words * (d.kernel_w if contiguous else 1),
            "p_tiles": self.tiles[0].command.p_tiles,
            "beats0": sum(block.beats for block in blocks),
            "beats1": sum(block.lane1_beats for block in blocks),
            "weights": 0 if pool else d.weights[run.mode],
            "block_words": 0 if pool else part_words(**size),  # type: ignore[arg-type]
        }

    def commands(self) -> list[Values]:
        """Fields of `command_t`, in order."""
        d, out = self.descriptor, []
        for number, tile in enumerate(self.tiles):
            starts = number == 0 or tile.lanes[0][0] != self.tiles[number - 1].lanes[0][0]
            last = number + 1 == len(self.tiles)
            ends = last or tile.lanes[0][0] != self.tiles[number + 1].lanes[0][0]
            shift = tile.first_column if d.kind else tile.group * d.group_words
            out.append(
                {
                    "beats": tile.command.beats,
                    "lane1_beats": tile.command.lane1_beats,
                    "cols": tile.command.cols,
                    "in_shift": 2 * shift,
                    "out_shift": 2 * (tile.group * d.columns + tile.first_column),
                    "block_first": int(starts),
                    "block_last": int(ends),
                    "layer_last": int(last),
                }
            )
        return out

    def reset_inputs(self) -> Values:
        """What a module that walks a layer must be given besides its streams."""
        return {"slot_i": self.slot_port, "layer_i": pack("layer_t", self.layer())}


def random_case(rng: random.Random, design: Design, shape: Shape | None = None, **must: object) -> Case:
    """Any layer at any batch; `must` names fields of its `Shape` that are given."""
    while True:
        chosen = random_shape(rng, design) if shape is None else shape
        if all(getattr(chosen, key) == value for key, value in must.items()):
            break
    batch = rng.randrange(1, design.b_max + 1)
    word = random_fbcb(rng, design, place(chosen, random.Random(0), Layout()), batch)
    program = make_program(design, [chosen], rng, words={0: word} if word >> 2 & 31 == batch - 1 else None)
    word = program.fbcb[batch - 1]
    return Case(design, program, word, sorted(rng.sample(range(program.slots), batch)))


@dataclass
class Source:
    """Gives items (a value for each data port) on a valid/ready pair, at random pace."""

    dut: Dut
    rng: random.Random
    valid: str
    ready: str
    data: tuple[str, ...]
    pace: float = 0.7
    items: deque[tuple[int, ...]] = field(default_factory=deque)

    async def run(self) -> None:
        """For ever."""
        valid, ready = getattr(self.dut, self.valid), getattr(self.dut, self.ready)
        ports, offered = [getattr(self.dut, name) for name in self.data], False
        while True:
            await RisingEdge(self.dut.clk_i)
            if offered and ready.value:
                self.items.popleft()
                offered = False
            if not offered and self.items and self.rng.random() < self.pace:
                for port, value in zip(ports, self.items[0], strict=True):
                    port.value = value
                offered = True
            valid.value = int(offered)


@dataclass
class Sink:
    """Takes what comes on a valid/ready pair, at random pace, and sees that nothing offered changes or vanishes."""

    dut: Dut
    rng: random.Random
    valid: str
    ready: str
    data: tuple[str, ...]
    pace: float = 0.7
    steady: bool = True
    got: list[tuple[int, ...]] = field(default_factory=list)

    async def run(self) -> None:
        """For ever."""
        valid, ready = getattr(self.dut, self.valid), getattr(self.dut, self.ready)
        ports, was_ready = [getattr(self.dut, name) for name in self.data], 0
        held: tuple[int, ...] | None = None
        while True:
            await RisingEdge(self.dut.clk_i)
            now = tuple(int(port.value) for port in ports) if valid.value else None
            if self.steady and held is not None:
                assert now == held, f"{self.valid}: {held} was offered and became {now} before it was taken"
            held = None if was_ready else now
            if now is not None and was_ready:
                self.got.append(now)
            was_ready = int(self.rng.random() < self.pace)
            ready.value = was_ready


@dataclass
class Reader:
    """Stands in for a read master and the memory behind it: `fetch_*` in, `data_*` out, in order, after a random while."""

    dut: Dut
    rng: random.Random
    memory: bytearray
    base: int
    port_bytes: int
    beats: int = 0  # of every fetch, where the module does not say
    pace: float = 0.7
    asked: list[tuple[int, int]] = field(default_factory=list)

    async def run(self) -> None:
        """For ever."""
        dut, words = self.dut, deque[int]()
        ready = valid = 0
        while True:
            await RisingEdge(dut.clk_i)
            if ready and dut.fetch_valid_o.value:
                address = int(dut.fetch_addr_o.value)
                beats = self.beats or int(dut.fetch_beats_o.value)
                self.asked.append((address, beats))
                at, size = address - self.base, self.port_bytes
                assert address % size == 0, f"{address:#x} is not aligned"
                assert 0 <= at <= at + beats * size <= len(self.memory), (
                    f"{address:#x} + {beats} beats leaves the memory"
                )
                words += [
                    int.from_bytes(self.memory[at + i * size : at + (i + 1) * size], "little") for i in range(beats)
                ]
            if valid and dut.data_ready_o.value:
                words.popleft()
                valid = 0
            if not valid and words and self.rng.random() < self.pace:
                dut.data_i.value = words[0]
                valid = 1
            dut.data_valid_i.value = valid
            ready = int(self.rng.random() < self.pace)
            dut.fetch_ready_i.value = ready


async def pulse(dut: Dut, name: str) -> None:
    """One cycle of a strobe."""
    getattr(dut, name).value = 1
    await RisingEdge(dut.clk_i)
    getattr(dut, name).value = 0


async def until(dut: Dut, done: Callable[[], object], cycles: int, what: str) -> None:
    """Wait until `done()`; AssertionError after so many cycles."""
    for _ in range(cycles):
        if done():
            return
        await RisingEdge(dut.clk_i)
    raise AssertionError(f"{what} did not come within {cycles} cycles")


def larger_words(a: int, b: int, words: int) -> int:
    """Of two beats of int16 words the larger word at every place.

    >>> hex(larger_words(0x0001_FFFF, 0xFFFE_0002, 2))
    '0x10002'
    """
    both = (np.frombuffer(beat.to_bytes(2 * words, "little"), "<i2") for beat in (a, b))
    return int.from_bytes(np.maximum(*both).astype("<i2").tobytes(), "little")


def as_ints(array: npt.NDArray[np.int16]) -> list[int]:
    """Rows of int16 words as numbers, word 0 lowest."""
    return [int.from_bytes(row.tobytes(), "little") for row in array.astype("<i2")]
