"""Random small quantised networks, designs and projects for the tests of this room.

Expectations always come from `models.golden`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fluidnpu.boards import load_board
from fluidnpu.dse import BatchPlan, Design
from fluidnpu.dse.design import Stack
from fluidnpu.dse.hardware.array import FIELD_BITS
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program, render_project
from fluidnpu.models import Exit, Kind, Layer, Network, QuantisedLayer, QuantisedNetwork
from fluidnpu.models.graph import Activation, Use
from fluidnpu.models.numeric.unit import Unit
from fluidnpu.models.numeric.words import INT8, INT16, WORDS, Stored, TensorFormat, Word

Plan = BatchPlan | str | None
Files = dict[str, str | bytes]
R_BATCHING = None
WIDE = BatchPlan(k=Stack.TWO)
SPLIT = BatchPlan(k=Stack.HALF)
ROW_LANES = BatchPlan(row_lanes=True)
SMALL: dict[str, Any] = {
    "t_r": 13,
    "t_p": 4,
    "t_c": 5,
    "b_max": 8,
    "weight_slots": 3,
    "out_words": 4,
}  # one compiled core for most tests
BYTES = SMALL | {"t_p": 8, "t_c": 8, "weight_slots": 4, "word_bits": 8}  # likewise, of words of 8 bits
# That of the shipped network in default tests of this room and of `rtl_tb`.
SHIPPED: dict[str, Any] = {"t_r": 1024, "t_p": 9, "t_c": 32, "b_max": 8, "weight_slots": 4, "out_words": 8}
FUNCTION = {**dict.fromkeys(Use, ""), Use.TABLE: "silu"}  # whose name is all that a compiler sees of it
LANES = "lanes"  # by samples: b_r = ceil(batch / 2)


@dataclass(frozen=True)
class Shape:
    """One conv, pool or head for `network_of`."""

    channels: int
    kind: Kind = Kind.GEMM
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    residual: str | None = None
    relu: bool = True
    use: Use | None = None
    residual_channel: int = 0
    residual_step: tuple[int, int] = (1, 1)
    residual_spread: bool = False


CHAIN = [
    Shape(5, kernel=(3, 3), padding=(1, 1, 1, 1)),
    Shape(5, kernel=(3, 2), stride=(1, 1), padding=(1, 0, 1, 1), residual="t1"),
    Shape(6, kernel=(1, 1), stride=(2, 2), relu=False),
    Shape(6, kernel=(3, 3), dilation=(1, 2), padding=(1, 2, 1, 2), groups=3, residual="t3"),
    Shape(6, kind=Kind.MAX_POOL, kernel=(3, 3), stride=(2, 1), padding=(1, 1, 1, 1)),
    Shape(6, kind=Kind.SUM_POOL, kernel=(2, 1)),
    Shape(11, kernel=(1, 3), relu=False),
]
# Every use of the activation unit, on sums and on passes without weights, with every step of a residual.
UNITS = [
    Shape(5, kernel=(3, 3), padding=(1, 1, 1, 1), use=Use.TABLE),
    Shape(5, kernel=(3, 2), padding=(1, 0, 1, 1), residual="t1", use=Use.PRODUCT),
    Shape(11, residual="t2", residual_channel=3, residual_spread=True, use=Use.TABLE, relu=False),
    Shape(12, kernel=(1, 1), use=Use.SLOPE, relu=False),
    Shape(12, kernel=(3, 3), padding=(1, 1, 1, 1), groups=6, residual="t4", use=Use.AFFINE, relu=False),
    Shape(12, kind=Kind.MAX_POOL, residual="t4", residual_step=(0, 0), use=Use.PRODUCT, relu=False),
    Shape(12, kind=Kind.MAX_POOL, residual="t5", residual_channel=11, residual_spread=True, use=Use.PRODUCT),
    Shape(12, kind=Kind.MAX_POOL, residual="t6", use=Use.AFFINE, relu=False),
    Shape(12, kind=Kind.SUM_POOL, kernel=(2, 1), use=Use.SLOPE, relu=False),
    Shape(12, kind=Kind.MAX_POOL, kernel=(3, 3), stride=(2, 1), padding=(1, 1, 1, 1), use=Use.TABLE),
    Shape(9, residual="t1", residual_step=(0, 0), residual_spread=True, use=Use.PRODUCT, relu=False),
    Shape(9, groups=3, use=Use.SLOPE, relu=False),
]


def network_of(
    rng: np.random.Generator,
    image: tuple[int, int, int],
    shapes: list[Shape],
    word: Word = INT16,
    zeros: bool = False,
) -> QuantisedNetwork:
    """A chain of layers `t0` -> `t1` -> ... with random integers, and one exit at its end.

    With `zeros`, tensors have random zero points.
    """
    tensors = {"t0": image}
    layers, quantised = [], []
    for i, shape in enumerate(shapes):
        layer = Layer(
            name=f"l{i}",
            kind=shape.kind,
            input=f"t{i}",
            output=f"t{i + 1}",
            channels=shape.channels,
            residual=shape.residual,
            residual_channel=shape.residual_channel,
            residual_step=shape.residual_step,
            residual_spread=shape.residual_spread,
            activation=None if shape.use is None else Activation(use=shape.use, function=FUNCTION[shape.use]),
            in_shape=tensors[f"t{i}"],
            kernel=shape.kernel,
            stride=shape.stride,
            dilation=shape.dilation,
            padding=shape.padding,
            groups=shape.groups,
        )
        tensors[layer.output] = (*layer.out_hw, shape.channels)
        layers.append(layer)
        quantised.append(random_layer(rng, layer, shape.relu, word))
    network = Network(
        name="random",
        input="t0",
        tensors=tensors,
        layers=tuple(layers),
        exits=(Exit(name="final", logits=layers[-1].output),),
        parameters={},
    )
    points = dict.fromkeys(tensors, 0)
    if zeros:
        points = {name: int(rng.integers(word.lowest, word.highest + 1)) for name in tensors}
        quantised = [replace(one, halo=points[one.layer.input]) for one in quantised]
    formats = {name: TensorFormat(fraction_bits=8, zero=zero) for name, zero in points.items()}
    return QuantisedNetwork(network=network, layers=tuple(quantised), formats=formats, intake=network.intake)


def random_layer(rng: np.random.Generator, layer: Layer, relu: bool, word: Word = INT16) -> QuantisedLayer:
    """Random integers that use the whole range of a word and saturate now and then."""
    shape = layer.shape
    lo = 0 if relu else word.lowest
    unit = None if layer.activation is None else random_unit(rng, layer.activation.use, layer.channels, word)
    if word is INT8:
        return random_bytes(rng, layer, lo, unit)
    if layer.kind is not Kind.GEMM:
        shift = layer.pool_shift if layer.kind is Kind.SUM_POOL else 0
        none = np.zeros((0, 0, 0), np.int16)
        return QuantisedLayer(
            layer=layer,
            weights=none,
            bias=np.zeros(0, np.int64),
            shift=shift,
            lo=lo,
            unit=unit,
        )
    weights = rng.integers(-32768, 32768, (shape.groups, shape.p, shape.c)).astype(np.int16)
    bias = rng.integers(-(1 << 33), 1 << 33, layer.channels)
    shift = 15 + int(np.ceil(np.log2(shape.p) / 2)) - int(rng.integers(0, 2))
    hi = int(rng.choice([32767, 20000]))
    shift_of_residual = shift - 1 if layer.residual and not layer.multiplies else 0
    return QuantisedLayer(
        layer=layer,
        weights=weights,
        bias=bias,
        shift=shift,
        residual_shift=shift_of_residual,
        lo=lo,
        hi=hi,
        unit=unit,
    )


def random_bytes(rng: np.random.Generator, layer: Layer, lo: int, unit: Unit | None) -> QuantisedLayer:
    """A layer of int8: scales with which most results are words, and often weights at their ends."""
    guard = int(rng.integers(0, 9)) if layer.adds else 0
    gemm, shape = layer.kind is Kind.GEMM, layer.shape
    size = (shape.groups, shape.p, shape.c) if gemm else (0, 0, 0)
    channels = layer.channels if gemm else 0
    weights = rng.choice([-127, 127], size) if rng.integers(0, 2) else rng.integers(-127, 128, size)
    at = 25 + int(shape.p).bit_length() // 2 - guard
    return QuantisedLayer(
        layer=layer,
        weights=weights.astype(np.int8),
        bias=rng.integers(-(1 << 16), 1 << 16, channels),
        multipliers=rng.integers(0, 1 << 17, channels),
        shifts=rng.integers(at - 1, at + 2, channels),
        shift=guard if gemm else guard + (layer.pool_shift if layer.kind is Kind.SUM_POOL else 0),
        residual_multiplier=int(rng.integers(0, 1 << (8 + guard))) if layer.adds else 0,
        lo=lo,
        hi=int(rng.choice([127, 90])),
        unit=unit,
    )


def random_units(rng: np.random.Generator, count: int) -> list[Shape]:
    """A chain of layers that keep the size of their maps, most of them with a use of the activation unit."""
    shapes, widths = list[Shape](), [3]
    for index in range(count):
        use = (None, *Use)[rng.integers(0, 5)]
        kind = (Kind.GEMM, Kind.GEMM, Kind.MAX_POOL)[rng.integers(0, 3)]
        groups = int(rng.choice([part for part in (1, 2, 3) if widths[-1] % part == 0])) if kind is Kind.GEMM else 1
        width = widths[-1] if kind is not Kind.GEMM else groups * int(rng.integers(1, 9))
        spread = bool(rng.integers(0, 2))
        sources = [at for at in range(1, len(widths)) if spread or widths[at] >= width]
        if not sources and use is Use.PRODUCT:
            use = Use.TABLE
        adds = use is Use.PRODUCT or rng.integers(0, 2) == 1
        beside: dict[str, Any] = {}
        if adds and sources:
            source = int(rng.choice(sources))
            beside = {
                "residual": f"t{source}",
                "residual_channel": int(rng.integers(0, widths[source] - (1 if spread else width) + 1)),
                "residual_step": (0, 0) if rng.integers(0, 2) else (1, 1),
                "residual_spread": spread,
            }
        side = int(rng.integers(0, 2)) if kind is Kind.GEMM else 0
        kernel, padding = (1 + 2 * side,) * 2, (side,) * 4
        shape = Shape(
            width, kind=kind, kernel=kernel, padding=padding, groups=groups, use=use, relu=index % 3 == 0, **beside
        )
        shapes.append(shape)
        widths.append(width)
    return shapes


def random_unit(rng: np.random.Generator, use: Use, channels: int, word: Word = INT16) -> Unit:
    """Random pieces, bases of the whole range of a word, which saturate now and then."""
    count = {Use.TABLE: 258, Use.PRODUCT: 0}.get(use, channels)
    pieces = rng.integers(-32768, 32768, (count, 2)).astype(np.int16)
    pieces[:, 0] >>= INT16.bits - word.bits
    if use is Use.SLOPE:
        pieces[:, 0] = 0
    window = int(rng.integers(8, 16)) if use is Use.TABLE else 0
    ends = word.lowest, word.highest
    lo, hi = sorted(rng.integers(ends[0], ends[1] + 1, 2).tolist()) if rng.integers(0, 3) == 0 else ends
    shift = int(rng.integers(window - 7, 16)) if window else int(rng.integers(13, 16))
    return Unit(use=use, window=window, shift=shift, lo=lo, hi=hi, pieces=pieces, bits=word.bits)


def images_for(rng: np.random.Generator, qnet: QuantisedNetwork, batch: int) -> Stored:
    word = WORDS[qnet.bits]
    return rng.integers(word.lowest, word.highest + 1, (batch, *qnet.network.tensors["t0"])).astype(word.dtype)


def design_of(qnet: QuantisedNetwork, plan: Plan = None, **options: Any) -> Design:
    """A design with one plan everywhere; LANES halves each batch."""
    if isinstance(plan, str):
        return with_b_r(design_for(qnet.network.workload, **options), lambda batch: -(-batch // 2))
    return design_for(qnet.network.workload, plan=plan, **options)


def with_b_r(design: Design, b_r: Callable[[int], int]) -> Design:
    """The same design with `b_r(batch)` samples a lane in every layer."""
    row = tuple(BatchPlan(b_r=b_r(batch)) for batch in range(1, design.b_max + 1))
    return design_with(design, plans=tuple(row for _ in design.layers))


def design_with(design: Design, **changes: Any) -> Design:
    """With changes; a board brings the width of its memory ports."""
    if "board" in changes:
        memory = load_board(changes["board"]).memory(changes.get("memory"))
        ports = {"port_bits": memory.port_bits, "stripes": memory.stripes}
        changes = ports | changes | {"memory": memory.name}
    return design.changed(**changes)


def project_of(
    board: str,
    *,
    core: str = "hls",
    rtl: Mapping[str, str] | None = None,
    split: bool = False,
    memory: str | None = "ps",
    tools: str = "2019.2",
    activation: str | None = None,
    word: Word = INT16,
) -> Files:
    """The project of a small network with every kind of layer on a small design for a board.

    Its first layer ends in a table where there is an activation unit.
    """
    rng = np.random.Generator(np.random.PCG64(7))
    shapes = [
        Shape(6, kernel=(3, 3), padding=(1, 1, 1, 1), use=Use.TABLE if activation else None),
        Shape(6, kernel=(1, 1), residual="t1"),
        Shape(6, kind=Kind.MAX_POOL, kernel=(2, 2), stride=(2, 2)),
        Shape(6, kind=Kind.SUM_POOL, kernel=(2, 2)),
        Shape(3, relu=False),
    ]
    qnet = network_of(rng, (4, 4, 2), shapes, word)
    least: dict[str, Any] = {"t_p": 4, "t_c": 6}
    if word is not INT16:
        field_bits = FIELD_BITS[load_board(board).dsp_primitive]
        least = {"t_p": 8, "t_c": 8, "word_bits": word.bits, "field_bits": field_bits}
    design = design_of(qnet, LANES, t_r=16, b_max=2, split=split, weight_slots=2, activation=activation, **least)
    design = design_with(design, board=board, memory=memory, clock_hz=load_board(board).clock_hz)
    return render_project(design, compile_program(qnet, design), load_board(board), core=core, rtl=rtl, tools=tools)


def texts(files: Mapping[str, str | bytes]) -> dict[str, str]:
    """The files of a project that are text."""
    return {name: content for name, content in files.items() if isinstance(content, str)}


def bytes_of(content: str | bytes) -> bytes:
    """A file of a project as it is written."""
    return content.encode() if isinstance(content, str) else content


def small_network() -> QuantisedNetwork:
    """One layer; for tests in which the network does not matter."""
    return network_of(np.random.default_rng(0), (4, 4, 2), [Shape(4)])
