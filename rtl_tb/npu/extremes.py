"""Layers at the ends of every field of descriptor, layer and tile, each as a job on the RTL of one array.

Small layers say nothing of the upper bits of a counter. So the ends that must be met come from
`hls.formats`: those of every field, unless `NEARER` gives a lower one with its reason. A job compares all
words that it may write, the words that saturate, and its cycles with the exact model.

>>> wanted("descriptor", "kernel_h"), wanted("descriptor", "in_offset"), wanted("tile", "beats")
((1, 255), (0, 4294967294), (1, 17))
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fluidnpu.dse import DramModel
from fluidnpu.hls import Cause, register
from fluidnpu.hls.core import execute_streams_reference, scatter_output
from fluidnpu.hls.formats import DESCRIPTOR, FBCB, LAYER, NO_WEIGHTS, TILE, ActivationCode
from fluidnpu.hls.program import Descriptor

from ..data_plane.environment.cases import Case, Values, layer_of
from ..data_plane.environment.jobs import BenchProgram, Shape, make_program
from ..errors import SimulationError
from .device import RtlNpu
from .job import differences
from .layers import exact_cycles, run_layer
from .model import NpuModel
from .world import LAYERS, LEAST, NpuWorld, filtering_of, model_of

FORMATS = {"descriptor": DESCRIPTOR, "layer": LAYER, "tile": TILE}
MEMORY = 1 << 23
BASE = 1 << 33  # an address less the largest offset is still one
TOP = 1 << 32
APART = (1 << 31) + 0x1_2340  # bytes from row to row, of which a simulated memory holds but the pages that rows touch
LIMIT = 3_000_000  # cycles of a job; the longest of the default ones takes some 300,000
WIDE, LANES = (FBCB.pack({"k": k}) for k in (1, 3))
# It answers late, so that much is on its way at once.
DRAM = DramModel(latency_cycles=23, write_latency_cycles=17)


@dataclass(frozen=True, kw_only=True)
class Extreme:
    """A job of one layer on one sample.

    `word`: its FBCB word. `changes`: fields of the descriptor that `shape` does not give; an offset below
    zero counts from the slot's end. `lifted`: slot and weights lie so far above their bases that they end at
    2**32. `apart`: rows lie `APART` bytes from one another. `rails`: the sample's words are -32768, -1, 0, 1
    and 32767. `long`: it takes more than a second.
    """

    name: str
    shape: Shape
    word: int = 0
    changes: Mapping[str, int] = field(default_factory=dict)
    lifted: bool = False
    apart: bool = False
    rails: bool = False
    long: bool = False

    @cached_property
    def near(self) -> Case:
        """The layer with its tensors side by side in a small slot, as the models take it."""
        rng = random.Random(self.name)
        made = make_program(LEAST, [self.shape], rng, words={0: self.word}, slots=1)
        ends = {name: made.slot_bytes + value for name, value in self.changes.items() if "offset" in name and value < 0}
        changes: dict[str, Any] = {**self.changes, **ends}
        program = _with(made, replace(made.descriptors[0], **changes))
        words = program.slot_words(program.memory)
        source = np.random.default_rng(rng.getrandbits(32))
        words[:] = source.choice([-32768, -1, 0, 1, 32767], words.shape) if self.rails else 10 * words
        return Case(LEAST, program, self.word, [0])

    @cached_property
    def program(self) -> BenchProgram:
        """The layer as the hardware gets it: far away where it is lifted or apart."""
        near, layer = self.near.program, self.near.descriptor
        if self.apart:
            rows: dict[str, Any] = {f"{name}_row_bytes": APART for name in ("in", "out", "residual")}
            return _with(near, replace(layer, **rows))
        if not self.lifted:
            return near
        slot, image = TOP - near.slot_bytes, TOP - 64 - (len(near.image) & -64)
        offsets: dict[str, Any] = {
            name: getattr(layer, name) + slot for name in ("in_offset", "out_offset", "residual_offset")
        }
        mode0, mode1, mode2, mode3 = (part if part == NO_WEIGHTS else part + image for part in layer.weights)
        moved = _with(near, replace(layer, **offsets, weights=(mode0, mode1, mode2, mode3)))
        return replace(moved, slot_base=near.slot_base - slot, weights=near.weights - image)

    def values(self) -> Iterator[tuple[str, Values]]:
        """The fields of its descriptor, its layer and its tiles, as (format, fields)."""
        layer = self.program.descriptors[0]
        yield (
            "descriptor",
            {**vars(layer), "weights": max((part for part in layer.weights if part != NO_WEIGHTS), default=0)},
        )
        fields = layer_of(layer, self.near.run, 1, LEAST)
        yield "layer", fields | ({"weights": 0} if layer.merged else {})
        for tile in self.near.commands():
            yield "tile", tile

    def check(self, model: NpuModel | None = None) -> int:
        """Run it on the RTL; returns its cycles. SimulationError tells what is wrong."""
        far, near = self.program, self.near
        npu = RtlNpu(model or model_of(LEAST), dram=DRAM, base=BASE, memory_bytes=APART * self.apart + MEMORY)
        rows = [_Row.second(near, name) for name in ("in", "residual", "out") if self.apart]
        for row in rows:
            npu.view(BASE + row.far, row.size)[:] = np.frombuffer(far.memory, np.uint8)[row.near]
        run = run_layer(npu, far, self.word, [0], limit=LIMIT)
        want = bytearray(far.memory)
        answer, saturated = execute_streams_reference(near.streams, LEAST)
        saturated += scatter_output(
            near.descriptor, self.word, LEAST, answer, near.program.slot_words(want), near.program.image
        )
        got = npu.view(BASE, len(want)).copy()
        for row in rows:
            got[row.near] = npu.view(BASE + row.far, row.size)
        wrong = np.flatnonzero(got != np.frombuffer(want, np.uint8))
        self._must(not len(wrong), f"memory must be the model's, and byte {wrong[:1]} is not")
        counted = npu.read(register("SATURATIONS").offset)
        self._must(counted == saturated, f"{saturated} words must be counted as saturated, not {counted}")
        unequal = differences(run, exact_cycles(npu, far, self.word, [0], run))
        self._must(not unequal, f"cycles must be the model's: {unequal}")
        return run.cycles

    def _must(self, holds: bool, what: str) -> None:
        if not holds:
            raise SimulationError(f"{self.name}: {what}")


class _Row(NamedTuple):
    """The second row of a tensor: its bytes beside the first, and where it lies when rows are apart."""

    near: slice
    far: int
    size: int

    @classmethod
    def second(cls, case: Case, name: str) -> _Row:
        first = case.program.slot_base - case.program.base + getattr(case.descriptor, f"{name}_offset")
        size = getattr(case.descriptor, f"{name}_row_bytes")
        return cls(near=slice(first + size, first + 2 * size), far=first + APART, size=size)


def _with(program: BenchProgram, layer: Descriptor) -> BenchProgram:
    """The program with another descriptor."""
    memory = bytearray(program.memory)
    memory[:128] = layer.pack()
    return replace(program, descriptors=(layer,), memory=memory)


_EDGE = {f"{name}_{of}_bytes": TOP - 2 for name in ("in", "out", "residual") for of in ("row", "pixel")}
_AT_0 = dict.fromkeys(("in_offset", "out_offset", "residual_offset"), 0)
_AT_END = dict.fromkeys(_AT_0, -2)
_ONE = Shape(out=(1, 1), group_words=1, columns=1, residual=True)
_PASS = Shape(kind=1, out=(1, 1), group_words=1, residual=True, activation=ActivationCode.PRODUCT)
_WHOLE = {"filter_lo": -32768, "filter_hi": 32767, "filter_unit_lo": -32768, "filter_unit_hi": 32767}
_POOLED = Shape(out=(5, 23), group_words=3, columns=168, pool=(3, 1, 1))

EXTREMES = (
    Extreme(
        name="a word in its place", shape=_ONE, changes=_AT_0 | dict.fromkeys(_EDGE, 0) | {"lo": -32768, "hi": -32768}
    ),
    Extreme(name="the last word of 2**32", shape=_ONE, changes=_AT_END | {"lo": 32767, "hi": 32767}, lifted=True),
    Extreme(
        name="distances to nowhere",
        shape=_ONE,
        changes=_EDGE | {"stride_h": 255, "stride_w": 255, "dilation_h": 255, "dilation_w": 255},
    ),
    Extreme(
        name="a slot that ends at 2**32",
        shape=Shape(kernel=(3, 3), out=(5, 6), group_words=7, columns=8, residual=True),
        lifted=True,
    ),
    Extreme(name="rows 2 GiB apart", shape=Shape(out=(2, 9), group_words=7, columns=8, residual=True), apart=True),
    Extreme(name="255 rows of a window", shape=Shape(kernel=(255, 1), out=(3, 2), group_words=3, columns=7)),
    Extreme(
        name="76,247 input rows", shape=Shape(kernel=(2, 1), stride=(255, 1), out=(300, 1), group_words=1, columns=1)
    ),
    Extreme(
        name="255 columns of a window", shape=Shape(kernel=(1, 255), out=(2, 3), group_words=3, columns=7), word=WIDE
    ),
    Extreme(
        name="strides of 255",
        shape=Shape(kernel=(2, 2), stride=(255, 255), out=(3, 3), group_words=2, columns=4),
        word=LANES,
    ),
    Extreme(
        name="dilations of 255", shape=Shape(kernel=(3, 3), dilation=(255, 255), out=(2, 2), group_words=2, columns=4)
    ),
    Extreme(
        name="a window of 64,771 rows",
        shape=Shape(kernel=(255, 1), dilation=(255, 1), out=(1, 1), group_words=1, columns=1),
    ),
    Extreme(
        name="an input row of 1 MiB",
        shape=Shape(kernel=(1, 2), dilation=(1, 255), out=(2, 3), group_words=5, columns=3, beside=2030),
    ),
    Extreme(name="a maximum of 65,025 taps", shape=Shape(kind=1, kernel=(255, 255), out=(1, 2), group_words=3)),
    Extreme(name="a sum of 65,025 taps", shape=Shape(kind=2, kernel=(255, 255), out=(1, 1), group_words=2), rails=True),
    Extreme(name="65,535 rows of two pixels", shape=Shape(out=(65_535, 2), group_words=1, columns=1)),
    Extreme(name="65,535 pixels", shape=Shape(out=(1, 65_535), group_words=1, columns=1, residual=True), word=LANES),
    Extreme(  # 16 rows are as large as the ring, which takes 15, so that a port word decides when one is asked for
        name="31 rows of 131,056 bytes",
        shape=Shape(kernel=(1, 2), dilation=(1, 255), out=(31, 1), group_words=248, columns=4, beside=8),
        word=15 << 7,
    ),
    Extreme(name="a run of 4,500 words", shape=Shape(kernel=(1, 3), out=(1, 3), group_words=1500, columns=4)),
    Extreme(
        name="runs of 4,503 words",
        shape=Shape(kernel=(2, 1), out=(2, 2), group_words=4503, columns=3, beside=5),
        word=WIDE,
    ),
    Extreme(name="a run of 9,000 words", shape=Shape(out=(2, 2), group_words=9000, columns=4), word=LANES),
    Extreme(
        name="17 rows of 65,535 words", shape=Shape(out=(17, 1), group_words=65_535, columns=1), word=WIDE | 4 << 7
    ),
    Extreme(
        name="2,200 channels in 1,100 groups",
        shape=Shape(out=(2, 2), group_words=2, groups=1100, columns=2, residual=True),
    ),
    Extreme(name="4,097 groups", shape=Shape(out=(1, 2), group_words=1, groups=4097, columns=1), word=LANES),
    Extreme(
        name="65,535 groups", shape=Shape(out=(1, 1), group_words=1, groups=65_535, columns=1), word=LANES, long=True
    ),
    Extreme(name="5 groups of 13,107 words", shape=Shape(out=(1, 2), group_words=13_107, groups=5, columns=2)),
    Extreme(name="65,535 channels", shape=Shape(out=(1, 1), group_words=1, columns=65_535)),
    Extreme(name="a pooled row of 1,344 beats", shape=_POOLED, word=LANES),
    Extreme(
        name="1,000 columns pooled", shape=Shape(out=(4, 1000), group_words=2, columns=3, pool=(2, 0, 0)), rails=True
    ),
    Extreme(
        name="pooled pixels 447 beats apart",
        shape=Shape(out=(3, 8), group_words=2, columns=2, pool=(2, 1, 0)),
        changes={"pool_pitch": 447},
    ),
    Extreme(name="rails", shape=Shape(kernel=(3, 3), out=(6, 6), group_words=9, columns=9, residual=True), rails=True),
    Extreme(
        name="rails, a residual shifted by 31",
        shape=Shape(out=(6, 6), group_words=9, columns=9, residual=True),
        rails=True,
        changes={"residual_shift": 31, "shift": 31},
    ),
    Extreme(
        name="a sum shifted by 47", shape=Shape(out=(6, 6), group_words=9, columns=9), rails=True, changes={"shift": 47}
    ),
    Extreme(name="a pool of 65,535 channels", shape=Shape(kind=1, kernel=(2, 2), out=(1, 1), group_words=65_535)),
    Extreme(
        name="a pool that is computed already",
        shape=Shape(kind=1, kernel=(2, 2), out=(3, 3), group_words=4, merged=True),
    ),
    Extreme(
        name="rails through a table, shifted by 31",
        shape=Shape(out=(6, 6), group_words=9, columns=9, activation=ActivationCode.TABLE),
        rails=True,
        changes={"activation_window": 15, "activation_shift": 31, "activation_lo": -32768, "activation_hi": 32767},
    ),
    Extreme(
        name="products of rails",
        shape=replace(_PASS, out=(3, 5), group_words=9, spread=True),
        rails=True,
        changes={"activation_shift": 0, "activation_lo": -32768, "activation_hi": 32767, "lo": -32768, "hi": 32767},
    ),
    Extreme(name="a product that is -32768", shape=_PASS, changes={"activation_lo": -32768, "activation_hi": -32768}),
    Extreme(name="a product that is 32767", shape=_PASS, changes={"activation_lo": 32767, "activation_hi": 32767}),
    Extreme(
        name="factors 2 GiB apart",
        shape=Shape(out=(2, 9), group_words=7, columns=8, residual=True, activation=ActivationCode.PRODUCT),
        apart=True,
    ),
    Extreme(
        name="lanes full of offsets",
        shape=Shape(out=(3, 2), group_words=2, columns=384, activation=ActivationCode.AFFINE),
        word=LANES,
    ),
    Extreme(
        name="lanes full of slopes",
        shape=Shape(kind=1, out=(2, 3), group_words=512, activation=ActivationCode.SLOPE),
        rails=True,
    ),
    Extreme(
        name="pieces that end at 2**32",
        shape=Shape(out=(2, 3), group_words=7, columns=1, activation=ActivationCode.SLOPE),
        lifted=True,
    ),
    Extreme(
        name="a filtered row of 1,344 beats",
        shape=Shape(
            out=(4, 12), group_words=3, columns=168, filter=filtering_of((4, 12), 7, 1, (6, 6, 6, 6), table=True)
        ),
        word=LANES,
    ),
    Extreme(
        name="a walk of 1,347 columns",
        shape=Shape(out=(3, 1344), group_words=2, columns=2, filter=filtering_of((3, 1344), 4, 1, (3, 0, 3, 3))),
    ),
    Extreme(
        name="a walk of 8,197 rows",
        shape=Shape(out=(8192, 4), group_words=1, columns=1, filter=filtering_of((8192, 4), 7, 2, (0, 3, 6, 3))),
    ),
    Extreme(
        name="rails through a filter and its table, shifted by 47 and 31",
        shape=Shape(out=(6, 6), group_words=9, columns=9, filter=filtering_of((6, 6), 3, 2, (1, 1, 1, 1), table=True)),
        rails=True,
        changes={"filter_shift": 47, "filter_window": 15, "filter_unit_shift": 31, **_WHOLE},
    ),
    Extreme(
        name="rails through a filter, not shifted",
        shape=Shape(out=(6, 6), group_words=9, columns=9, filter=filtering_of((6, 6), 6, 1, (3, 3, 2, 2))),
        rails=True,
        changes={"filter_shift": 0, "filter_unit_shift": 0, **_WHOLE},
    ),
    Extreme(
        name="filtered words that are -32768",
        shape=Shape(out=(3, 5), group_words=2, columns=3, filter=filtering_of((3, 5), 2, 1, (0, 0, 0, 0))),
        changes=dict.fromkeys(_WHOLE, -32768),
    ),
    Extreme(
        name="filtered words that are 32767",
        shape=Shape(out=(3, 5), group_words=2, columns=3, filter=filtering_of((3, 5), 5, 1, (2, 2, 2, 2))),
        changes=dict.fromkeys(_WHOLE, 32767),
    ),
    Extreme(
        name="a filter's constants that end at 2**32",
        shape=Shape(out=(2, 4), group_words=7, columns=1, filter=filtering_of((2, 4), 3, 1, (1, 1, 1, 1), table=True)),
        lifted=True,
    ),
    Extreme(
        name="a layer that a filter has computed",
        shape=Shape(kernel=(3, 3), out=(3, 3), group_words=1, groups=4, columns=1, merged=True),
    ),
)

# Fields that have but one right value.
FIXED = {
    ("descriptor", "magic"): "the planner refuses every other value",
    ("descriptor", "checksum"): "it follows from the other words",
}
_BATCH = "there are as many samples as the array takes, and this one takes one"
_BUFFER = "what a window needs lies in the input buffer, and has to be read"
_TILE = "a tile is no larger than the array"
# The ends that are met where they are nearer than the field's, and why.
NEARER: dict[tuple[str, str], tuple[int, int, str]] = {
    ("descriptor", "byte_words"): (0, 0, "an NPU of int16 words refuses int8"),
    ("descriptor", "residual_multiplier"): (0, 0, "likewise"),
    ("descriptor", "groups"): (1, 4097, "65,535 take ten seconds: a job that is not run by default"),
    ("descriptor", "weights"): (0, TOP - 64, "weights begin at a multiple of 64"),
    ("descriptor", "pieces"): (0, 512, "a lane holds 256 pieces of channels, and there are two"),
    ("descriptor", "pool_pitch"): (0, 447, "four pixels lie in a RAM of 1,344 beats"),
    ("descriptor", "filter_rows"): (0, 672, "six for each beat of a pixel, and 112 beats of pixels lie in a lane"),
    ("descriptor", "walk_h"): (0, 8197, "each position has to be visited"),
    ("descriptor", "walk_w"): (0, 1347, "1,344 columns lie in the RAM of a row"),
    ("layer", "filter_steps"): (0, 6, "49 taps, nine in a step"),
    ("layer", "piece_address"): (0, TOP - 64, "pieces begin at a multiple of 64"),
    ("layer", "sample_lanes"): (0, 0, _BATCH),
    ("layer", "b_r"): (1, 1, _BATCH),
    ("layer", "block"): (4, 17, _TILE),
    ("layer", "step_w"): (0, TOP - 510, "255 pixels that far apart; no row has more than one of them"),
    ("layer", "tap_w"): (0, TOP - 510, "likewise"),
    ("layer", "row_step"): (0, TOP - 510, "likewise"),
    ("layer", "row_bytes"): (2, 1_046_000, _BUFFER),
    ("layer", "sample_rows"): (1, 76_247, "each row has to be read"),
    ("layer", "rise"): (1, 255, "a stride is no longer"),
    ("layer", "span"): (1, 255 * 254 + 1, "255 rows, 255 apart, are the most"),
    ("layer", "pitch"): (16, 1_046_028, _BUFFER),
    ("layer", "sample_pitch"): (16, 4_063_232, _BUFFER),
    ("layer", "step_h"): (16, 1_046_028, _BUFFER),
    ("layer", "tap_h"): (16, 1_046_028, _BUFFER),
    ("layer", "run_words"): (1, 65_535, _BUFFER),
    ("layer", "p_tiles"): (1, 65_025, "255 by 255 taps of a word are the most below 65,536"),
    ("layer", "beats0"): (1, 131_070, "each has to be computed"),
    ("layer", "beats1"): (0, 32_767, "half of them"),
    ("layer", "block_words"): (0, 655_350, "each word has to be read"),
    ("tile", "beats"): (1, 17, _TILE),
    ("tile", "lane1_beats"): (0, 17, _TILE),
    ("tile", "cols"): (1, 10, _TILE),
    ("tile", "in_shift"): (0, 131_060, _BUFFER),
    ("tile", "out_shift"): (0, 131_064, "each channel has to be computed"),
}
# Fields of a layer that are fields of the descriptor by another name.
_SAME = {
    "out_row": "out_row_bytes", "out_pixel": "out_pixel_bytes", "residual_row": "residual_row_bytes",
    "residual_pixel": "residual_pixel_bytes",
}  # fmt: skip


def wanted(form: str, name: str) -> tuple[int, int]:
    """The least and the largest value of a field that jobs must meet. Raises KeyError for one of `FIXED`."""
    if (form, name) in FIXED:
        raise KeyError(f"{name} has one right value: {FIXED[form, name]}")
    if (form, name) in NEARER:
        return NEARER[form, name][:2]
    same = _SAME.get(name, name)
    if form == "layer" and any(bits.name == same for bits in DESCRIPTOR.fields):
        return wanted("descriptor", same)
    bits = FORMATS[form].field(name)
    least, most = bits.limits
    return least, most - most % 2 if "even" in bits.meaning else most


def met() -> dict[tuple[str, str], tuple[int, int]]:
    """The least and the largest value in the jobs that are run by default, by (format, field)."""
    ends: dict[tuple[str, str], tuple[int, int]] = {}
    for form, values in (both for extreme in EXTREMES if not extreme.long for both in extreme.values()):
        for name, value in values.items():
            bits = FORMATS[form].field(name)
            value = value if bits.signed else value & (1 << bits.width) - 1
            low, high = ends.get((form, name), (value, value))
            ends[form, name] = min(low, value), max(high, value)
    return ends


def every_layer_counts(model: NpuModel | None = None) -> None:
    """Run the layers around number 256 and the last ones of `LAYERS`, then jobs that end in one of them.

    SimulationError tells what is wrong.
    """
    layer = Shape(out=(1, 2), group_words=3, columns=2)
    world = NpuWorld.of(1, model or model_of(LEAST), LEAST, layers=[layer] * LAYERS)
    world.draw_batch(1)
    for layers in (range(250, 263), range(LAYERS - 3, LAYERS)):
        world.draw_plans(layers)
        world.right(layers)
    for bad in (258, 2):
        at = world.at(world.program.program + 128 * bad)
        world.npu.view(at, 128)[5] ^= 1
        layers = range(bad - 2, bad + 2)
        world.draw_plans(layers)
        world.start(layers)
        ending = world.ends()
        world.must(ending is Cause.BAD_DESCRIPTOR, f"the bad descriptor of layer {bad} must be told, not {ending.name}")
        number = world.get("ERROR", "LAYER")
        world.must(number == bad, f"the error of layer {bad} must name it, not {number}")
        world.put("IRQ_STATUS", 3)
        world.idle()  # until then the FBCB stands still


def first_wrong(model: NpuModel) -> str:
    """Run all that is run by default; return how the first wrong job shows, or "" when all are right."""
    try:
        every_layer_counts(model)
        for extreme in EXTREMES:
            if not extreme.long:
                extreme.check(model)
    except SimulationError as error:
        return str(error)
    return ""
