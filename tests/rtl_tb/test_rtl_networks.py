"""Every distinct layer shape of ResNet-50 and Inception-v3 and EfficientNet-lite0's depthwise layers, small
in height and width, on the whole NPU: data plane and core in RTL, every stored word and every cycle held to
the models."""

from __future__ import annotations

import json
import random
from importlib.resources import files

import pytest

from fluidnpu.dse import Design
from fluidnpu.hls.formats import FBCB
from fluidnpu.rtl_tb import DramModel, NpuModel, RtlNpu
from fluidnpu.rtl_tb.data_plane.coverage import plans
from fluidnpu.rtl_tb.data_plane.environment.jobs import Shape, bench_design, make_program
from fluidnpu.rtl_tb.data_plane.environment.networks import convolutions, shapes
from fluidnpu.rtl_tb.data_plane.parameters import data_plane_parameters
from fluidnpu.rtl_tb.npu.job import differences
from fluidnpu.rtl_tb.npu.layers import exact_cycles, is_right, run_layer

SIZES = {"t_r": 16, "t_p": 7, "t_c": 32, "b_max": 8, "stackable": 1, "split": 0, "weight_slots": 1, "out_words": 8}
DESIGN: Design = bench_design(SIZES)
ROUGH = DramModel(latency_cycles=100, write_latency_cycles=30, link_words=6.0, total_words=12.0, outstanding=5)
PLANS = [(word, batch) for _, word, batch in plans(DESIGN)]


def npu_of(dram: DramModel) -> RtlNpu:
    return RtlNpu(
        NpuModel(parameters=data_plane_parameters(DESIGN, buffer_words=1 << 21) | {"Layers": 1, "BuildId": 0}),
        dram=dram,
    )


def run_shape(npu: RtlNpu, number: int, shape: Shape) -> None:
    word, batch = PLANS[number * 7 % len(PLANS)]
    rng = random.Random(number)
    block = rng.choice([0, rng.randrange(1, SIZES["t_r"] + 1)])
    program = make_program(DESIGN, [shape], rng, words={0: FBCB.pack(FBCB.unpack(word) | {"block": block})})
    word, active = program.fbcb[batch - 1], sorted(rng.sample(range(program.slots), batch))
    run = run_layer(npu, program, word, active, limit=30_000_000)
    assert is_right(npu, program, word, active)
    assert not differences(run, exact_cycles(npu, program, word, active, run))


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


@pytest.mark.long
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
