"""The shipped ResNet-8, layer by layer through the RTL core, against `models.golden`: every mode, every bit;
and how near the HLS core alone comes to its cycles.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from core_cycles import stream_cycles

from fluidnpu.dse import BatchPlan, Design
from fluidnpu.dse.design import Stack
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program
from fluidnpu.hls.core import layer_streams, scatter_output
from fluidnpu.hls.core.csim import CoreSimulator
from fluidnpu.hls.core.render import row_distance
from fluidnpu.models import QuantisedNetwork, golden, quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.rtl_tb.core.model import CoreModel

PLANS = {
    "normal": None,
    "wide": BatchPlan(k=Stack.TWO),
    "row_lanes": BatchPlan(row_lanes=True),
    "sample_lanes": BatchPlan(b_r=2),
    "split": BatchPlan(k=Stack.HALF),
}


@cache
def resnet8() -> QuantisedNetwork:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        return quantise(read_onnx(path))


def small_design(qnet: QuantisedNetwork, plan: str) -> Design:
    """One core for all plans: `all_modes` of test_rtl_core.py, so that both need but one build."""
    return design_for(
        qnet.network.workload, t_r=13, t_p=4, t_c=5, b_max=3, plan=PLANS[plan], split=True, weight_slots=3, out_words=4
    )


LONG = [("normal", 3), ("wide", 2), ("sample_lanes", 3), ("split", 2)]
CASES = [
    ("row_lanes", 1),
    pytest.param("normal", 1, marks=pytest.mark.matrix),
    *(pytest.param(*case, marks=pytest.mark.long) for case in LONG),
]


@pytest.mark.parametrize(("plan", "batch"), CASES)
def test_resnet8_equals_golden_and_takes_the_predicted_cycles(plan: str, batch: int) -> None:
    qnet = resnet8()
    design = small_design(qnet, plan)
    program, core = compile_program(qnet, design), CoreModel.of(design)
    slots = program.new_slots(batch)
    tensors = {qnet.network.input: qnet.quantise_input(shipped_images(batch).images)}
    for slot, image in zip(slots, tensors[qnet.network.input], strict=True):
        program.tensors[qnet.network.input].stored(slot)[...] = program.pack_sample(image)
    for index, qlayer in enumerate(qnet.layers):
        layer, word = qlayer.layer, program.fbcb_word(index, batch)
        streams = layer_streams(program.descriptors[index], word, design, slots, program.weights)
        run = core.run(streams)
        scatter_output(program.descriptors[index], word, design, run.output, slots)
        residual = tensors[layer.residual] if layer.residual else None
        tensors[layer.output], saturations = golden.run_layer_counting(qlayer, tensors[layer.input], residual)
        got = np.stack([program.read_tensor(slot, layer.output) for slot in slots])
        np.testing.assert_array_equal(got, tensors[layer.output], err_msg=layer.name)
        assert run.saturations == saturations, layer.name
        assert run.total_cycles == stream_cycles(streams.commands, design), layer.name


@pytest.mark.parametrize("plan", ["normal", "wide", "sample_lanes"])
def test_the_hls_core_alone_takes_nearly_as_many_calls_as_this_one_cycles(plan: str) -> None:
    """Tiles of few rows wait longer there; what it takes in the NPU to the cycle is test_rtl_exact's."""
    qnet = resnet8()
    design = design_for(
        qnet.network.workload, t_r=1024, t_p=9, t_c=32, b_max=3, plan=PLANS[plan], weight_slots=4, out_words=8
    )
    program = compile_program(qnet, design)
    slots, least = program.new_slots(3), row_distance(design)
    calls, cycles = [], []
    with CoreSimulator(design) as core:
        for index, descriptor in enumerate(program.descriptors):
            streams = layer_streams(descriptor, program.fbcb_word(index, 3), design, slots, program.weights)
            core.run(streams)
            calls.append(core.calls)
            cycles.append(stream_cycles(streams.commands, design))
            short = sum(command.p_tiles for command in streams.commands if command.beats < least)
            assert abs(calls[-1] - cycles[-1]) <= 8 + short * least, (plan, index)
    assert abs(sum(calls) / sum(cycles) - 1) < 0.005
