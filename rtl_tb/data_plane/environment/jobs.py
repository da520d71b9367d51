"""Random jobs for the data plane: descriptors, FBCB words, weights and slot memory, with every expected beat.

The expectation is `hls.core.layer_streams` and `hls.core.execute_streams_reference`, layer after layer;
nothing here knows the RTL.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.hardware import filter_steps, pooled_beats
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import FbcbError
from fluidnpu.hls.core import execute_streams_reference, layer_streams, output_beats, scatter_output
from fluidnpu.hls.formats import FBCB, NO_WEIGHTS, ActivationCode
from fluidnpu.hls.program import (
    Descriptor,
    FbcbEntry,
    buffer_bytes,
    decode_for,
    decode_layer,
    headers,
    pack_pieces,
    pack_rows,
    pack_weights,
)
from fluidnpu.models import LayerShape, Workload
from fluidnpu.models.graph import LEAST_FILTERED, LEAST_POOLED, Filtering, Pooling
from fluidnpu.models.numeric import WORDS, Stored, Word

from ...common.benches.words import beats_of
from ..coverage import plans

Int16 = npt.NDArray[np.int16]
Int64 = npt.NDArray[np.int64]
ALIGN = 64
MOST_POOLED = (12, 12)  # rows and columns of a map whose outputs a bench design pools
MOST_FILTERED = 12  # columns of one that it filters
# Sizes of the array that most benches play.
USUAL: Mapping[str, int] = {
    "t_r": 7, "t_p": 4, "t_c": 8, "b_max": 4, "stackable": 1, "split": 1, "weight_slots": 1, "out_words": 4, "port_bytes": 16,
}  # fmt: skip
TABLE_PIECES = 258
_CHANNELS = (ActivationCode.SLOPE, ActivationCode.AFFINE)


def bench_design(sizes: Mapping[str, int]) -> Design:
    """A design of the given sizes.

    The data plane depends on nothing else of it but on what it can pool and filter: up to `filter` taps a
    side (0: none), with a table behind them where `filter_table` is set.
    """
    pooling = Pooling(kernel=3, padded=(1, 1), out=(MOST_POOLED[0] // 2, MOST_POOLED[1] // 2))
    layer = LayerShape(name="any", r=MOST_POOLED[0] * MOST_POOLED[1], p=1, c=12 * sizes["t_c"] + 12, pooling=pooling)
    unit = None if not sizes.get("activation") else "dsp" if sizes.get("activation_dsp") else "lut"
    workload = Workload(name="bench", layers=(layer, LayerShape(name="pool", r=1, p=1, c=1, merged=True)))
    design = design_for(
        workload,
        t_r=sizes["t_r"],
        t_p=sizes["t_p"],
        t_c=sizes["t_c"],
        b_max=sizes["b_max"],
        stackable=bool(sizes["stackable"]),
        split=bool(sizes["split"]),
        weight_slots=sizes["weight_slots"],
        out_words=sizes["out_words"],
        port_bits=8 * sizes.get("port_bytes", 16),
        buffer_words=sizes.get("buffer_words", 1 << 13),
        word_bits=sizes.get("word_bits", 16),
    ).changed(activation=unit)
    kernel, table = sizes.get("filter", 0), bool(sizes.get("filter_table", 0))
    room = (3 * sizes["t_c"] + 4, MOST_FILTERED, kernel, table)
    return design.with_room(design.hardware_poolings, (room,)) if kernel else design


def sizes_of(design: Design) -> dict[str, int]:
    """Return the sizes with which `bench_design` makes the array of a design.

    >>> sizes = sizes_of(bench_design({**USUAL, "t_p": 6}))
    >>> sizes["t_p"], sizes == sizes_of(bench_design(sizes))
    (6, True)
    """
    sizes = {name: int(getattr(design, name)) for name in (*USUAL, "buffer_words")}
    sizes |= {"word_bits": design.word_bits} if design.word_bits != 16 else {}
    sizes |= {"activation": 1, "activation_dsp": int(design.activation == "dsp")} if design.activation else {}
    room = design.filter_room
    return sizes | ({"filter": room.kernel, "filter_table": room.activation} if room.kernel else {})


# Parameter of a module -> size of the array.
PARAMETER_OF: Mapping[str, str] = {
    "TR": "t_r", "TP": "t_p", "TC": "t_c", "BMax": "b_max", "Stackable": "stackable", "Split": "split", "WeightSlots": "weight_slots",
    "OutWords": "out_words", "PortBytes": "port_bytes", "Activation": "activation", "ActivationDsp": "activation_dsp",
    "FilterKernel": "filter", "FilterActivation": "filter_table", "WordBits": "word_bits",
}  # fmt: skip


def array_under_test(**usual: int) -> Design:
    """Return the array whose layers a bench plays.

    Its sizes come from `$SIZES` (JSON), else from the parameters that the module was built with, else from
    `usual`.
    """
    built: dict[str, int] = json.loads(os.environ.get("PARAMETERS", "{}"))
    sizes = {PARAMETER_OF[name]: value for name, value in built.items() if name in PARAMETER_OF}
    if "PortWords" in built:
        sizes["port_bytes"] = built["PortWords"] * built.get("WordBits", 16) // 8
    return bench_design(of_words({**USUAL, **usual, **sizes, **json.loads(os.environ.get("SIZES", "{}"))}))


def of_words(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes, with words of 8 bits the next larger ones that an array of them can have (ADR 75).

    >>> of_words({**USUAL, "word_bits": 8})["t_p"], of_words(USUAL) == USUAL
    (8, True)
    """
    if sizes.get("word_bits", 16) == 16:
        return dict(sizes)
    columns, slots = 4 if sizes["stackable"] else 2, 2
    fitted = {
        "t_p": max(8, sizes["t_p"]),
        "t_c": -(-sizes["t_c"] // columns) * columns,
        "split": 0,
        "weight_slots": -(-sizes["weight_slots"] // slots) * slots,
    }
    return {**sizes, **fitted}


def align(value: int) -> int:
    """The next multiple of 64."""
    return -(-value // ALIGN) * ALIGN


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A layer before it has a place in memory."""

    kind: int = 0
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    out: tuple[int, int] = (4, 4)
    group_words: int = 8
    groups: int = 1
    columns: int = 8
    residual: bool = False
    extra: int = 0  # channels of the output tensor beyond this layer's: concatenation
    beside: int = 0  # channels of the input tensor that this layer does not read
    spare: tuple[int, int] = (0, 0)  # rows and columns of stored halo that no window reaches
    pool: tuple[int, int, int] = (0, 0, 0)  # kernel of the max pool that outputs pass, rows above and columns left
    filter: Filtering | None = None  # the depthwise filter that outputs pass
    merged: bool = False  # a pool, or a depthwise layer, that the layer before has computed
    activation: ActivationCode = ActivationCode.NONE
    spread: bool = False  # the residual has one word a pixel
    fixed: bool = False  # it has one pixel

    @property
    def pools(self) -> bool:
        """True where the NPU can pool the outputs: windows that leave nothing out, of more than a pixel."""
        kernel, *padded = self.pool
        last = [size - 1 + pad for size, pad in zip(self.out, padded, strict=True)]
        whole = all(at % 2 == 1 if kernel == 2 else at >= 1 for at in last)
        return kernel > 0 and self.kind == 0 and self.out[1] >= LEAST_POOLED and whole

    @property
    def stored(self) -> tuple[int, int]:
        """Rows and columns of what is written, where a filter can make it larger than the layer's map."""
        return self.out if self.filter is None else self.filter.out


def random_shape(rng: random.Random, design: Design) -> Shape:
    """Draw a mostly small layer with any feature of a network; its windows fit the input buffer, also shared
    by lanes.
    """
    while True:
        shape = _any_shape(rng, design)
        run = FbcbEntry(Mode.LANES, batch=2, b_r=1, block=1)
        if (
            buffer_bytes(place(shape, random.Random(0), SlotAllocator(), design), run)
            <= design.word_bytes * design.buffer_words
        ):
            return shape


def _any_shape(rng: random.Random, design: Design) -> Shape:
    kind = rng.choices((0, 1, 2), (8, 1, 1))[0]
    kernel = rng.choice([(1, 1), (1, 1), (3, 3), (3, 3), (1, 3), (3, 1), (5, 2), (2, 2)])
    depthwise = kind == 0 and rng.random() < 0.15
    pooled = kind == 0 and design.pool_room[1] > 0 and rng.random() < 0.2
    groups = rng.randrange(2, 6) if kind == 0 and (depthwise or rng.random() < 0.15) else 1
    shape = Shape(
        kind=kind,
        kernel=kernel,
        stride=rng.choice([(1, 1), (1, 1), (2, 2), (1, 2), (3, 1)]),
        dilation=rng.choice([(1, 1), (1, 1), (1, 1), (2, 2), (1, 2)]),
        out=(rng.randrange(1, 7), rng.randrange(1, 7)),
        group_words=1 if depthwise else rng.choice([1, 3, design.t_p, 2 * design.t_p, rng.randrange(1, 24)]),
        groups=groups,
        columns=1
        if depthwise
        else rng.choice([1, design.t_c, max(1, design.t_c // 2), rng.randrange(1, 2 * design.t_c + 3)]),
        residual=rng.random() < 0.3,
        extra=rng.choice([0, 0, 1, 5]),
        spare=(rng.randrange(2), rng.randrange(2)),
        merged=kind == 1 and rng.random() < 0.2,
    )
    if design.has_filter and rng.random() < 0.3:
        return filtered(rng, design, shape) if rng.random() < 0.8 else replace(shape, kind=0, merged=True)
    while pooled and not shape.pools:
        out = rng.randrange(1, MOST_POOLED[0] + 1), rng.randrange(LEAST_POOLED, MOST_POOLED[1] + 1)
        shape = replace(shape, out=out, pool=(rng.choice([2, 3]), rng.randrange(2), rng.randrange(2)))
    return with_unit(shape, rng) if design.activation and not shape.merged else shape


def filtered(rng: random.Random, design: Design, shape: Shape) -> Shape:
    """Make a layer one whose outputs pass a filter that the design has room for, of any map and padding."""
    room = design.filter_room
    most = max(columns for columns, *_ in design.hardware_filterings)
    out = rng.randrange(1, 10), rng.randrange(LEAST_FILTERED, MOST_FILTERED + 1)
    filtering = None
    while filtering is None:
        filtering = any_filtering(rng, rng.randrange(2, room.kernel + 1), out, table=bool(room.activation))
    plain = replace(shape, kind=0, kernel=rng.choice([(1, 1), (1, 1), (3, 3)]), groups=1, merged=False, pool=(0, 0, 0))
    plain = replace(plain, columns=min(plain.columns, most), out=out, stride=(1, 1), dilation=(1, 1), filter=filtering)
    return with_unit(plain, rng) if design.activation else plain


def any_filtering(rng: random.Random, kernel: int, out: tuple[int, int], *, table: bool) -> Filtering | None:
    """Draw a filter over a map of `out`, with a table where there may be one; None where no window fits."""
    stride, padded = rng.choice([1, 2]), (rng.randrange(kernel), rng.randrange(kernel))
    spans = [size + before + rng.randrange(kernel) - kernel for size, before in zip(out, padded, strict=True)]
    if min(spans) < 0:
        return None
    high, wide = (span // stride + 1 for span in spans)
    use = "table" if table and rng.random() < 0.5 else ""
    return Filtering(kernel=kernel, stride=stride, padded=padded, out=(high, wide), activation=use)


def with_unit(shape: Shape, rng: random.Random) -> Shape:
    """Draw how a layer uses the activation unit, if it does, and what its residual repeats.

    One of two that use it without weights of their own is a pass of one tap, element by element.
    """
    use = rng.choice([ActivationCode.NONE, *ActivationCode])
    passes = shape.kind == 1 and rng.random() < 0.5
    return replace(
        shape,
        activation=use,
        residual=shape.residual or use == ActivationCode.PRODUCT,
        spread=rng.random() < 0.3,
        fixed=rng.random() < 0.3,
        kernel=(1, 1) if passes else shape.kernel,
    )


@dataclass
class SlotAllocator:
    """Hands out places in a slot, one after another."""

    used: int = 0

    def take(self, size: int) -> int:
        """Return the offset of `size` new bytes."""
        at = self.used
        self.used = align(at + size)
        return at


def place(shape: Shape, rng: random.Random, layout: SlotAllocator, design: Design) -> Descriptor:
    """Make a descriptor with its own input, output and residual tensors."""
    (kh, kw), (sh, sw), (dh, dw), (oh, ow) = shape.kernel, shape.stride, shape.dilation, shape.out
    in_h, in_w = (oh - 1) * sh + (kh - 1) * dh + 1 + shape.spare[0], (ow - 1) * sw + (kw - 1) * dw + 1 + shape.spare[1]
    channels = shape.groups * shape.group_words
    columns = shape.group_words if shape.kind else shape.columns
    word, size = WORDS[design.word_bits], design.word_bytes
    in_pixel, out_pixel = size * (channels + shape.beside), size * (shape.groups * columns + shape.extra)
    pooling = (
        {"pool_kernel": shape.pool[0], "pool_top": shape.pool[1], "pool_left": shape.pool[2]} if shape.pools else {}
    )
    pitch = shape.groups * pooled_beats(columns, design.array)
    in_row, out_row = in_w * in_pixel, (shape.stored[1] + shape.spare[1]) * out_pixel
    input_at = layout.take((in_h + 1) * in_row)
    output_at = layout.take((shape.stored[0] + shape.spare[0]) * out_row)
    residual_pixel = size * (1 + shape.extra) if shape.spread else out_pixel
    residual_at = layout.take(oh * ow * residual_pixel) if shape.residual else 0
    steps = (0, 0) if shape.fixed else (ow * residual_pixel, residual_pixel)
    adds = shape.residual and shape.activation != ActivationCode.PRODUCT
    return Descriptor(
        kind=shape.kind,
        in_offset=input_at + shape.spare[0] * in_row + shape.spare[1] * in_pixel - shape.spare[1] * in_pixel,
        in_row_bytes=in_row,
        in_pixel_bytes=in_pixel,
        kernel_h=kh,
        kernel_w=kw,
        stride_h=sh,
        stride_w=sw,
        dilation_h=dh,
        dilation_w=dw,
        out_h=oh,
        out_w=ow,
        group_words=shape.group_words,
        groups=shape.groups,
        columns=columns,
        out_offset=output_at + size * rng.randrange(shape.extra + 1),
        out_row_bytes=out_row,
        out_pixel_bytes=out_pixel,
        has_residual=int(shape.residual),
        residual_offset=residual_at,
        residual_row_bytes=steps[0],
        residual_pixel_bytes=steps[1],
        residual_spread=int(shape.residual and shape.spread),
        **_scales(rng, word, shifts=bool(shape.kind) or adds),
        lo=rng.choice([word.lowest, 0]),
        hi=rng.choice([word.highest, 6000 >> 16 - word.bits]),
        byte_words=int(size == 1),
        **(pooling | {"pool_pitch": pitch} if pooling else {}),
        merged=int(shape.merged),
        **_unit_fields(shape, columns, rng, design),
        **(_filter_fields(shape.filter, shape.out, pitch, rng, word) if shape.filter else {}),
    )


def _scales(rng: random.Random, word: Word, *, shifts: bool) -> dict[str, Any]:
    """Shifts of sums and residuals; where words have 8 bits, a factor of residuals instead."""
    shift, residual_shift = rng.randrange(12), rng.randrange(8)
    if word.bits == 16:
        return {"shift": shift, "residual_shift": residual_shift}
    factor = rng.choice([1 << residual_shift, rng.randrange(1 << 16)])
    return {"shift": shift if shifts else 0, "residual_multiplier": factor}


def _bounds(rng: random.Random, word: Word, name: str) -> dict[str, Any]:
    """Draw clip bounds; those within int16 are as many bits further inside where words are shorter."""
    lower = 16 - word.bits
    return {
        f"{name}lo": rng.choice([word.lowest, word.lowest, -20000 >> lower, 0]),
        f"{name}hi": rng.choice([word.highest, word.highest, 9000 >> lower]),
    }


def _filter_fields(
    filtering: Filtering, out: tuple[int, int], pitch: int, rng: random.Random, word: Word
) -> dict[str, Any]:
    high, wide = filtering.walk(out)
    table = filtering.activation == "table"
    return {
        "filter_kernel": filtering.kernel,
        "filter_stride": filtering.stride,
        "filter_top": filtering.padded[0],
        "filter_left": filtering.padded[1],
        "filter_shift": rng.choice([0, rng.randrange(8, 24), rng.randrange(48)]) if word.bits == 16 else 0,
        **_bounds(rng, word, "filter_"),
        "filter_rows": filter_steps(filtering.kernel) * pitch,
        "walk_h": high,
        "walk_w": wide,
        "pool_pitch": pitch,
        "filter_table": int(table),
        "filter_window": _window(rng, word) if table else 0,
        "filter_unit_shift": rng.choice([0, rng.randrange(6, 18), rng.randrange(32)]),
        **_bounds(rng, word, "filter_unit_"),
    }


def _window(rng: random.Random, word: Word) -> int:
    """Draw the window of a table; that of bytes has all of them."""
    return rng.randrange(8, 16) if word.bits == 16 else 8


def _unit_fields(shape: Shape, columns: int, rng: random.Random, design: Design) -> dict[str, Any]:
    use = shape.activation
    if use == ActivationCode.NONE:
        return {}
    beats = pooled_beats(columns, design.array) if shape.kind == 0 else _pool_beats(columns, design)
    channels, word = shape.groups * beats * design.out_words, WORDS[design.word_bits]
    return {
        "activation": int(use),
        "activation_window": _window(rng, word) if use == ActivationCode.TABLE else 0,
        "activation_shift": rng.choice([0, rng.randrange(6, 18), rng.randrange(32)]),
        **_bounds(rng, word, "activation_"),
        "pieces": TABLE_PIECES if use == ActivationCode.TABLE else channels if use in _CHANNELS else 0,
    }


def _pool_beats(columns: int, design: Design) -> int:
    """Output beats of a pixel of a layer that is a pool, whose column tiles are beats of inputs."""
    tiles = range(0, columns, design.input_words)
    return sum(-(-min(design.input_words, columns - first) // design.out_words) for first in tiles)


def random_fbcb(rng: random.Random, design: Design, descriptor: Descriptor, batch: int) -> int:
    """Draw a word that the hardware can obey."""
    while True:
        block = rng.choice([0, 0, design.t_r, rng.randrange(1, design.t_r + 1)])
        word = FBCB.pack({"k": rng.randrange(4), "b_r": rng.randrange(batch), "block": block})
        try:
            run = decode_layer(design, word, descriptor, batch)
        except FbcbError:
            continue
        if buffer_bytes(descriptor, run) <= design.word_bytes * design.buffer_words:
            return word


@dataclass(frozen=True, kw_only=True)
class BenchProgram:
    """A program at absolute addresses: `memory` from `base` on holds descriptors, weights and slots."""

    design: Design
    descriptors: tuple[Descriptor, ...]
    fbcb: tuple[int, ...]
    memory: bytearray
    base: int
    program: int
    weights: int
    image: bytes
    slot_base: int
    slot_bytes: int
    slots: int

    def slot_words(self, memory: bytearray) -> Stored:
        """View the slots in a memory as words: (slots, words)."""
        start, size = self.slot_base - self.base, self.design.word_bytes
        flat = np.frombuffer(memory, f"<i{size}", count=self.slots * self.slot_bytes // size, offset=start)
        return flat.reshape(self.slots, -1)


def make_program(
    design: Design,
    shapes: list[Shape],
    rng: random.Random,
    *,
    words: dict[int, int] | None = None,
    every_mode: bool = False,
    slots: int | None = None,
    slot_align: int = ALIGN,
) -> BenchProgram:
    """Make layers with random contents at absolute addresses.

    `words` gives the FBCB word of a layer for every batch size at which it is legal. `every_mode` stores the
    weights of all modes, so that the FBCB may be changed afterwards. `slots`: two more than a batch by
    default; `slot_align`: their bytes are a multiple of it.
    """
    layout, slots = SlotAllocator(), slots or design.b_max + 2
    descriptors = [place(shape, rng, layout, design) for shape in shapes]
    image = bytearray()
    fbcb: list[int] = []
    for index, descriptor in enumerate(descriptors):
        row = []
        for batch in range(1, design.b_max + 1):
            word = words.get(index) if words else None
            if word is not None:
                b_r = min(FBCB.number("b_r", word), batch - 1)
                ordered = 2 * (b_r + 1) >= batch and not descriptor.ordered
                word = FBCB.pack({**FBCB.unpack(word), "b_r": b_r if ordered else batch - 1})
            row.append(random_fbcb(rng, design, descriptor, batch) if word is None else word)
        fbcb += row
        if descriptor.merged:
            continue
        if descriptor.kind:  # a pool has no weights, and its word may name lanes that a GEMM could not use
            descriptors[index] = _add_pieces(descriptor, design, image, rng)
            continue
        modes = {_mode(word, batch, design) for batch, word in enumerate(row, 1)}
        if every_mode:
            modes = {_mode(word, batch, design) for _, word, batch in plans(design)}
        descriptors[index] = _add_weights(descriptor, modes, design, image, rng)
    program, weights = 0x1_0000, 0x1_0000 + align(128 * len(descriptors))
    slot_base, slot_bytes = align(weights + len(image)) + ALIGN, layout.used + ALIGN
    slot_bytes = -(-slot_bytes // slot_align) * slot_align
    base = program
    memory = bytearray(slot_base + slots * slot_bytes - base)
    memory[: 128 * len(descriptors)] = b"".join(d.pack() for d in descriptors)
    memory[weights - base : weights - base + len(image)] = image
    most, size = (3000, 2) if design.word_bytes == 2 else (128, 1)
    filling = np.random.default_rng(rng.getrandbits(32)).integers(-most, most, slots * slot_bytes // size)
    memory[slot_base - base :] = filling.astype(f"<i{size}").tobytes()
    return BenchProgram(
        design=design,
        descriptors=tuple(descriptors),
        fbcb=tuple(fbcb),
        memory=memory,
        base=base,
        program=program,
        weights=weights,
        image=bytes(image),
        slot_base=slot_base,
        slot_bytes=slot_bytes,
        slots=slots,
    )


def _mode(word: int, batch: int, design: Design) -> Mode:
    return decode_for(design, word, kind=0, batch=batch).mode


def _add_weights(
    descriptor: Descriptor, modes: set[Mode], design: Design, image: bytearray, rng: random.Random
) -> Descriptor:
    """Append the GEMM's weights to the image, once for each mode, and its constants behind each."""
    p = descriptor.kernel_h * descriptor.kernel_w * descriptor.group_words
    source = np.random.default_rng(rng.getrandbits(32))
    shape = (descriptor.groups, p, descriptor.columns)
    word = WORDS[design.word_bits]
    most = min(300, word.highest + 1)
    weights = source.integers(max(-most, -word.highest), most, shape).astype(word.dtype)
    bias = source.integers(-(1 << 20), 1 << 20, (descriptor.groups, descriptor.columns))
    pieces, constants = _random_pieces(descriptor, source), _Filter.of(descriptor, source, word)
    header = _headers(bias, source, word)
    parts = [NO_WEIGHTS] * 4
    for mode in sorted(modes):
        image.extend(bytes(-len(image) % ALIGN))
        parts[mode] = len(image)
        for group in range(descriptor.groups):
            image += _bytes(pack_weights(weights[group], header[group], mode, design))
        image += bytes(-len(image) % ALIGN if descriptor.pieces or descriptor.filter_kernel else 0)
        image += _packed(descriptor, mode, design, pieces)
        if descriptor.filter_kernel:
            image += bytes(-len(image) % design.port_bytes) + constants.packed(descriptor, mode, design)
    return replace(descriptor, weights=(parts[0], parts[1], parts[2], parts[3]))


def _add_pieces(descriptor: Descriptor, design: Design, image: bytearray, rng: random.Random) -> Descriptor:
    """Append the pieces of a layer that is no GEMM to the image."""
    if not descriptor.pieces:
        return descriptor
    image.extend(bytes(-len(image) % ALIGN))
    at = len(image)
    pieces = _random_pieces(descriptor, np.random.default_rng(rng.getrandbits(32)))
    image += _packed(descriptor, Mode.MAX_POOL, design, pieces)
    return replace(descriptor, weights=(*descriptor.weights[:3], at))


def _random_pieces(descriptor: Descriptor, source: np.random.Generator) -> Int16:
    """Bases and slopes (pieces, 2): of a table's segments, or of channels in their own order."""
    table = descriptor.activation == ActivationCode.TABLE
    count = TABLE_PIECES if table else descriptor.groups * descriptor.columns if descriptor.pieces else 0
    pieces = source.integers(-32768, 32768, (count, 2)).astype(np.int16)
    if descriptor.activation == ActivationCode.SLOPE:
        pieces[:, 0] = 0
    return pieces


def _bytes(words: Stored) -> bytes:
    """The words as they lie in memory."""
    return words.astype(words.dtype.newbyteorder("<")).tobytes()


def _headers(bias: Int64, source: np.random.Generator, word: Word) -> Int64:
    """Add a multiplier and a shift to each bias where words have 8 bits; no product leaves 32 bits."""
    if word.bits == 16:
        return bias
    shifts = source.choice([0, 9, 17, 20, 24, 30, 33, 47], bias.shape)
    multipliers = source.integers(0, np.minimum(1 << 17, 1 << np.minimum(shifts + 6, 20)))
    return headers(bias.reshape(-1), multipliers.reshape(-1), shifts.reshape(-1)).reshape(bias.shape)


@dataclass(frozen=True)
class _Filter:
    """A filter's weights (channels, k * k), headers (channels,) and the pieces of a table behind it."""

    taps: Stored
    header: Int64
    table: Int16

    @classmethod
    def of(cls, descriptor: Descriptor, source: np.random.Generator, word: Word) -> _Filter:
        """Draw one; half of them with words at both ends, and biases that only the widest sums hold."""
        taps, reach = descriptor.filter_kernel**2, (1 << 20, 1 << 46 if word.bits == 16 else 1 << 23)
        wide = source.integers(2) if descriptor.filter_kernel else 0
        lowest, most = max(word.lowest, -300), min(word.highest + 1, 300)
        weights = source.integers(
            word.lowest if wide else lowest, word.highest + 1 if wide else most, (descriptor.columns, taps)
        )
        if wide:
            ends = source.choice([word.lowest, word.highest], weights.shape)
            weights = np.where(source.random(weights.shape) < 0.2, ends, weights)
        bias = source.integers(-reach[wide], reach[wide], descriptor.columns)
        pieces = source.integers(-32768, 32768, (TABLE_PIECES if descriptor.filter_table else 0, 2))
        return cls(weights.astype(word.dtype), _headers(bias, source, word), pieces.astype(np.int16))

    def packed(self, descriptor: Descriptor, mode: Mode, design: Design) -> bytes:
        """Its constants as they lie in the image, each part of them with whole words of the port."""
        rows = pack_rows(self.taps, self.header, mode, design, count=descriptor.filter_rows)
        table = self.table.astype("<i2").tobytes()
        return rows.astype("<i2").tobytes() + table + bytes(-len(table) % design.port_bytes)


def _packed(descriptor: Descriptor, mode: Mode, design: Design, pieces: Int16) -> bytes:
    """Pieces as they lie in the image."""
    if descriptor.activation in _CHANNELS:
        pieces = pack_pieces(
            pieces,
            columns=descriptor.columns,
            groups=descriptor.groups,
            mode=mode,
            design=design,
            count=descriptor.pieces,
        )
    return pieces.astype("<i2").tobytes()


@dataclass
class ExpectedBeats:
    """Every beat of a job in order, as integers.

    `after` holds the beats that must be in before a command's outputs leave.
    """

    cmd: list[int] = field(default_factory=list)
    input: list[int] = field(default_factory=list)
    weight: list[int] = field(default_factory=list)
    residual: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    after: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # (input, residual, output beats) at each command's end
    memory: bytearray = field(default_factory=bytearray)
    modes: list[Mode] = field(default_factory=list)
    saturated: int = 0  # words in the activation unit
    input_words: int = 0  # words of windows that were delivered, padding not counted


def expect(program: BenchProgram, active: list[int], layers: range, memory: bytearray) -> ExpectedBeats:
    """Compute the beats and the memory of a job on `layers` with these slots."""
    out = ExpectedBeats(memory=bytearray(memory))
    every = program.slot_words(out.memory)
    design = program.design
    for layer in layers:
        descriptor = program.descriptors[layer]
        word = program.fbcb[layer * design.b_max + len(active) - 1]
        slots = every[active]
        streams = layer_streams(descriptor, word, design, slots, program.image)
        answer, _ = execute_streams_reference(streams, design)
        out.saturated += scatter_output(descriptor, word, design, answer, slots, program.image)
        every[active] = slots
        out.cmd += [command.pack() for command in streams.commands]
        for name in ("input", "weight", "residual"):
            getattr(out, name).extend(beats_of(getattr(streams, name)))
        out.output += beats_of(answer)
        inputs, residuals, outputs = out.after[-1] if out.after else (0, 0, 0)
        for command in streams.commands:
            inputs += command.p_tiles * command.beats
            outputs += output_beats(command, design)
            residuals += output_beats(command, design) * command.has_residual
            out.after.append((inputs, residuals, outputs))
        out.modes += [command.mode for command in streams.commands[:1]]
    return out
