"""Every distinct layer shape of ResNet-50 and Inception-v3 and EfficientNet-lite0's depthwise layers, small
in height and width, on the whole NPU: data plane and core in RTL, every stored word held to the model."""

from __future__ import annotations

import json
import random
from importlib.resources import files

import numpy as np
import pytest

from fluidnpu.dse import Design
from fluidnpu.hls import register
from fluidnpu.hls.core import execute_streams_reference, layer_streams, scatter_output
from fluidnpu.hls.formats import FBCB
from fluidnpu.rtl_tb import DramModel, NpuModel, RtlNpu, data_plane_parameters
from fluidnpu.rtl_tb.data_plane.benches.jobs import Program, Shape, bench_design, make_program
from fluidnpu.rtl_tb.data_plane.benches.networks import convolutions, shapes
from fluidnpu.rtl_tb.data_plane.coverage import plans

SIZES = {"t_r": 16, "t_p": 7, "t_c": 32, "b_max": 8, "stackable": 1, "split": 0, "weight_slots": 1, "out_words": 8}
DESIGN: Design = bench_design(SIZES)
ROUGH = DramModel(latency_cycles=100, write_latency_cycles=30, link_words=6.0, total_words=12.0, outstanding=5)
PLANS = [(word, batch) for _, word, batch in plans(DESIGN)]


def npu_of(dram: DramModel) -> RtlNpu:
    return RtlNpu(
        NpuModel(parameters=data_plane_parameters(DESIGN, buffer_words=1 << 21) | {"Layers": 1, "BuildId": 0}),
        dram=dram,
    )


def put(npu: RtlNpu, name: str, value: int) -> None:
    npu.write(register(name).offset, value)


def run_layer(npu: RtlNpu, program: Program, word: int, active: list[int]) -> None:
    """One job on one layer; the memory it leaves must be the model's, in every word of every slot."""
    shift = npu.base - program.base
    npu.view(npu.base, len(program.memory))[:] = np.frombuffer(program.memory, np.uint8)
    addresses = {"PROGRAM_LO": program.program, "WEIGHTS_LO": program.weights, "SLOT_BASE_LO": program.slot_base}
    for name, address in addresses.items():
        put(npu, name, address + shift)
    put(npu, "SLOT_BYTES", program.slot_bytes)
    put(npu, "LAYERS", 1)
    put(npu, "IRQ_ENABLE", 3)
    put(npu, "FBCB_INDEX", len(active) - 1)
    put(npu, "FBCB_DATA", word)
    put(npu, "SLOT_MASK", sum(1 << slot for slot in active))
    put(npu, "CTRL", register("CTRL").field("SOFT_RESET").mask)
    assert not npu.run(100)
    put(npu, "CTRL", register("CTRL").field("MERGE").mask)
    put(npu, "CTRL", register("CTRL").field("START").mask)
    assert npu.run(30_000_000, until_interrupt=True)
    assert npu.read(register("ERROR").offset) == 0
    put(npu, "IRQ_STATUS", 3)
    want = bytearray(program.memory)
    every = program.slot_words(want)
    slots = every[active]
    streams = layer_streams(program.descriptors[0], word, DESIGN, slots, program.image)
    answer, _ = execute_streams_reference(streams, DESIGN)
    scatter_output(program.descriptors[0], word, DESIGN, answer, slots)
    every[active] = slots
    assert bytes(npu.view(npu.base, len(want))) == bytes(want)


def run_shape(npu: RtlNpu, number: int, shape: Shape) -> None:
    word, batch = PLANS[number * 7 % len(PLANS)]
    rng = random.Random(number)
    block = rng.choice([0, rng.randrange(1, SIZES["t_r"] + 1)])
    program = make_program(DESIGN, [shape], rng, words={0: FBCB.pack(FBCB.unpack(word) | {"block": block})})
    run_layer(npu, program, program.fbcb[batch - 1], sorted(rng.sample(range(program.slots), batch)))


SHAPES = list(enumerate(shapes()))


def test_the_shapes_are_those_of_the_tables() -> None:
    for network in ("resnet50", "inception_v3"):
        table = json.loads(files("fluidnpu.models").joinpath("data").joinpath(f"layers_{network}.json").read_text())
        wanted = {(layer["P"], layer["C"]) for layer in table["layers"]}
        assert {(kh * kw * inputs, outputs) for kh, kw, _, inputs, outputs in convolutions(network)} == wanted


def is_small(shape: Shape) -> bool:
    """At most 20 000 weights."""
    return (
        shape.kernel[0] * shape.kernel[1] * shape.group_words * shape.columns * shape.groups <= 20_000 or shape.kind > 0
    )


SMALL = [entry for entry in SHAPES if is_small(entry[1][1])]


def test_some_shapes_of_the_networks() -> None:
    npu = npu_of(DramModel.IDEAL)
    for number, (_, shape) in SMALL[::6]:
        run_shape(npu, number, shape)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_every_shape_of_the_networks(part: int) -> None:
    """Plans, batches and row blocks take turns; small layers meet rough memory, in which large ones would
    take long.
    """
    ideal, rough = npu_of(DramModel.IDEAL), npu_of(ROUGH)
    for number, (_, shape) in SHAPES[part::4]:
        run_shape(rough if is_small(shape) else ideal, number, shape)
