"""One random layer at one batch with everything that follows from it: struct fields, commands and beats.

All of it comes from `hls.core`, so nothing here knows the RTL's insides.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.hardware import InputRows, filter_steps, pool_beats
from fluidnpu.hls.core import LayerStreams, layer_streams, tiles
from fluidnpu.hls.formats import FBCB, LAYER, KindCode
from fluidnpu.hls.program import Descriptor, FbcbEntry, decode_layer, part_words, pieces_at

from .jobs import BenchProgram, Shape, SlotAllocator, array_under_test, make_program, place, random_fbcb, random_shape

Values = dict[str, int]
DESIGN = array_under_test()
NARROW_DESIGN = array_under_test(weight_slots=2, out_words=3)
PORT_BYTES = DESIGN.port_bytes


@dataclass
class Case:
    """A layer on some slots with everything that follows from it."""

    design: Design
    program: BenchProgram
    word: int
    active: list[int]

    def __post_init__(self) -> None:
        d, design = self.program.descriptors[0], self.design
        self.descriptor = d
        self.run: FbcbEntry = decode_layer(design, self.word, d, len(self.active))
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
        """The layer's input rows in the input buffer."""
        return InputRows.of(self.descriptor, PORT_BYTES, self.design.word_bytes)

    @property
    def base_port(self) -> int:
        """`base_i`: the place in the input buffer at which each sample of a lane begins."""
        return sum(i * self.rows.sample_pitch << 32 * i for i in range(self.design.b_max))

    @property
    def by_samples(self) -> bool:
        """True with lanes by samples, each of which has its own part of the input buffer."""
        return self.run.mode is Mode.LANES and not self.run.row_lanes

    def buffered(self) -> list[bytearray]:
        """The contents of each lane's part of the input buffer if nothing were ever dropped; zero outside
        rows.
        """
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

    def padded_memory(self) -> bytearray:
        """Memory with room for a port word that begins before its end."""
        return bytearray(self.program.memory) + bytes(64)

    def layer(self) -> Values:
        """Fields of `hls.formats.LAYER`."""
        blocks = [tile.command for tile in self.tiles if tile.group == tile.first_column == 0]
        fields = layer_of(self.descriptor, self.run, len(self.active), self.design)
        if self.descriptor.merged:
            return fields
        assert fields["p_tiles"] == self.tiles[0].command.p_tiles
        assert fields["beats0"] == sum(block.beats for block in blocks)
        assert fields["beats1"] == sum(block.lane1_beats for block in blocks)
        return fields

    def commands(self) -> list[Values]:
        """Fields of `hls.formats.TILE`, in order."""
        d, size, out = self.descriptor, self.design.word_bytes, []
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
                    "in_shift": size * shift,
                    "out_shift": size * (tile.group * d.columns + tile.first_column),
                    "block_first": int(starts),
                    "block_last": int(ends),
                    "layer_last": int(last),
                }
            )
        return out

    def reset_inputs(self) -> Values:
        """Inputs of a module that walks a layer, besides its streams."""
        return {"slot_i": self.slot_port, "layer_i": LAYER.pack(self.layer())}


def random_case(
    rng: random.Random, design: Design, shape: Shape | None = None, *, most: int = 16, **must: object
) -> Case:
    """Draw any layer at any batch up to `most`; `must` names fields of its `Shape` that are given.

    It has commands, unless `merged` is given.
    """
    must = {"merged": False} | must
    while True:
        chosen = random_shape(rng, design) if shape is None else shape
        if shape is not None or all(getattr(chosen, key) == value for key, value in must.items()):
            break
    batch = rng.randrange(1, min(most, design.b_max) + 1)
    word = random_fbcb(rng, design, place(chosen, random.Random(0), SlotAllocator(), design), batch)
    program = make_program(design, [chosen], rng, words={0: word} if FBCB.number("b_r", word) == batch - 1 else None)
    word = program.fbcb[batch - 1]
    return Case(design, program, word, sorted(rng.sample(range(program.slots), batch)))


def layer_of(d: Descriptor, run: FbcbEntry, batch: int, design: Design) -> Values:
    """Fields of `hls.formats.LAYER` of a layer of any size, from formulas alone."""
    pool = d.kind != KindCode.GEMM
    contiguous = not pool and d.dilation_w == 1 and d.in_pixel_bytes == design.word_bytes * d.group_words
    words = d.kernel_h * d.kernel_w * d.group_words
    rows = d.out_h * d.out_w
    lane0 = -(-rows * batch // 2) if run.row_lanes else rows * run.b_r
    by_samples = run.mode is Mode.LANES and not run.row_lanes
    same = (
        "shift", "residual_shift", "residual_multiplier", "kernel_h", "kernel_w", "out_h", "out_w", "group_words", "groups",
        "columns", "in_offset", "out_offset", "residual_offset", "lo", "hi", "pool_kernel", "pool_top", "pool_left", "pool_pitch", "merged",
        "residual_spread", "activation", "activation_window", "activation_shift", "activation_lo", "activation_hi", "pieces",
        "filter_kernel", "filter_stride", "filter_top", "filter_left", "filter_shift", "filter_lo", "filter_hi", "filter_table",
        "filter_window", "filter_unit_shift", "filter_unit_lo", "filter_unit_hi", "filter_rows", "walk_h", "walk_w",
    )  # fmt: skip
    weights = {"weights": 0, "block_words": 0}
    if not pool:
        size = part_words(p=words, columns=d.columns, groups=d.groups, mode=run.mode, design=design)
        weights = {"weights": d.weights[run.mode], "block_words": size}
    return (
        {name: getattr(d, name) for name in same}
        | weights
        | {
            "has_residual": int(d.adds),
            "multiplies": int(d.multiplies),
            "piece_address": pieces_at(d, run.mode, design) if d.pieces or d.filter_kernel else 0,
            "filter_steps": filter_steps(d.filter_kernel) if d.filter_kernel else 0,
            "pool": int(pool),
            "mode": int(run.mode),
            "row_lanes": int(run.row_lanes),
            "sample_lanes": int(by_samples),
            "b_r": run.b_r,
            "block": run.block,
            "out_row": d.out_row_bytes,
            "out_pixel": d.out_pixel_bytes,
            "residual_row": d.residual_row_bytes,
            "residual_pixel": d.residual_pixel_bytes,
            "step_w": d.in_pixel_bytes * d.stride_w,
            "tap_w": d.in_pixel_bytes * d.dilation_w,
            **asdict(InputRows.of(d, design.port_bytes, design.word_bytes)),
            "contiguous": int(contiguous),
            "run_words": d.group_words * (d.kernel_w if contiguous else 1),
            "p_tiles": pool_beats(d.kernel_h * d.kernel_w, maximum=run.mode is Mode.MAX_POOL)
            if pool
            else -(-words // design.tile(run.mode)[0]),
            "beats0": lane0,
            "beats1": 0 if pool else rows * batch - lane0,
        }
    )
