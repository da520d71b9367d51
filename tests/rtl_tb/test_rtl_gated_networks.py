"""MobileNetV3-Large, EfficientNet-B0 and YOLOv8n whole on the RTL: every stored word and every cycle."""

from __future__ import annotations

import numpy as np
import pytest
from gated_networks import GATED, gated

from fluidnpu.boards import load_board
from fluidnpu.dse import CORES, DramModel, Point, build_design
from fluidnpu.hls import compile_program
from fluidnpu.models import golden, quantise
from fluidnpu.models.graph import Use
from fluidnpu.rtl_tb.npu.job import BareNpu, differences, modelled

BOARD, MEMORY = load_board("zc706"), "pl"
ARRAY = Point(t_r=1024, t_p=18, t_c=50)  # that of MobileNet-v2 among networks at full size; one build serves all


@pytest.mark.parametrize(
    ("name", "macs", "layers"),
    [("mobilenet_v3_large", 219e6, 81), ("efficientnet_b0", 390e6, 115), ("yolov8n", 8.7e9 / 8, 123)],
)
def test_the_networks_are_those_of_the_papers(name: str, macs: float, layers: int) -> None:
    """MACs as published, within what biases and poolings count; YOLOv8n's 8.7 GFLOPs are for 640 x 640."""
    network = gated(name)
    assert len(network.layers) == layers
    assert network.workload.macs == pytest.approx(macs, rel=0.015)
    uses = {layer.activation.use for layer in network.layers if layer.activation}
    assert uses == ({Use.TABLE} if name == "yolov8n" else {Use.TABLE, Use.PRODUCT})


@pytest.mark.long
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", GATED)
def test_a_network_with_activations_is_golden_and_exact(name: str, core: str) -> None:
    """At B = 1, behind the board's memory. No two tensors share a place, so all of them are compared."""
    qnet = quantise(gated(name))
    design = build_design(qnet.network.workload, BOARD, ARRAY, memory=MEMORY, core="hls", b_max=1)
    assert design.activation
    program, dram = compile_program(qnet, design), DramModel.of(BOARD, MEMORY)
    shape = qnet.network.tensors[qnet.network.input]
    image = np.random.default_rng(1).integers(0, 256, (1, *shape), dtype=np.uint8)
    tensors = {qnet.network.input: qnet.quantise_input(image)}
    golden.run_stage(qnet, 0, tensors)

    npu = BareNpu.of(design, dram, core)
    slot = npu.npu.view(npu.slots, program.slot_bytes).view(np.int16)
    program.write_tensor(slot, program.input, tensors[program.input][0])
    runs = npu.run(program, 1)
    stored = {tensor: program.read_tensor(slot, tensor) for tensor in program.tensors}
    assert set(stored) == set(tensors)
    assert not [tensor for tensor in stored if not np.array_equal(stored[tensor].ravel(), tensors[tensor].ravel())]
    found = modelled(program, design, dram, 1, core=core, first_cycle=runs[0].start_cycle)
    assert not [
        layer.name for layer, run, cycles in zip(design.layers, runs, found, strict=True) if differences(run, cycles)
    ]
