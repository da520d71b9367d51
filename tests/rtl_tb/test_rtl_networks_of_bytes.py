"""Networks at full size with words of 8 bits on the RTL (ADR 75): every stored word and every cycle."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from gated_networks import gated

from fluidnpu.boards import load_board
from fluidnpu.dse import Design, DramModel, explore
from fluidnpu.hls import compile_program
from fluidnpu.models import QuantisedNetwork, golden, quantise
from fluidnpu.models.zoo import random_full_size
from fluidnpu.rtl_tb.npu.job import BareNpu, differences, modelled

BOARD, MEMORY = load_board("zc706"), "pl"
PAIRS = {"mobilenet_v2": 17, "efficientnet_lite0": 16, "efficientnet_b0": 16}  # depthwise layers on the way out
GENERATED = ("resnet50", "mobilenet_v2", "efficientnet_lite0")
GATED = ("efficientnet_b0", "yolov8n")
BATCHES = (1, 2, 4, 8)


@cache
def network(name: str) -> tuple[QuantisedNetwork, Design]:
    """The network, and the design that a short search makes for one sample of it."""
    qnet = quantise(gated(name) if name in GATED else random_full_size(name), bits=8)
    largest = 1 if name in GATED else max(BATCHES)
    found = explore(
        qnet.network.workload,
        BOARD,
        b_max=largest,
        weights=[1] + [0] * (largest - 1),
        model="exact",
        memory=MEMORY,
        core="rtl",
        evaluations=1,
        bits=8,
    )
    return qnet, found.design


@pytest.mark.long
@pytest.mark.parametrize("core", ["rtl", pytest.param("hls", marks=pytest.mark.matrix)])
@pytest.mark.parametrize(
    ("name", "batch"),
    [
        *((name, batch) for name in GENERATED for batch in BATCHES if name in PAIRS or batch < BATCHES[-1]),
        *(pytest.param(name, BATCHES[-1], marks=pytest.mark.matrix) for name in GENERATED if name not in PAIRS),
        *((name, 1) for name in GATED),
    ],
)
def test_a_network_of_bytes_is_golden_and_exact(name: str, batch: int, core: str) -> None:
    """Behind the board's memory; no map in front of a filter or a pool is stored, all others are compared."""
    qnet, design = network(name)
    assert design.word_bits == qnet.bits == 8
    assert sum(layer.filtering is not None for layer in design.layers) == PAIRS.get(name, 0)
    program, dram = compile_program(qnet, design), DramModel.of(BOARD, MEMORY)
    shape = (batch, *qnet.network.tensors[qnet.network.input])
    tensors = {qnet.network.input: qnet.quantise_input(np.random.default_rng(1).integers(0, 256, shape, np.uint8))}
    golden.run_stage(qnet, 0, tensors)

    npu = BareNpu.of(design, dram, core)
    places = [npu.slots + sample * program.slot_bytes for sample in range(batch)]
    slots = [npu.npu.view(place, program.slot_bytes).view(program.dtype) for place in places]
    for sample, slot in enumerate(slots):
        program.write_tensor(slot, program.input, tensors[program.input][sample])
    runs = npu.run(program, batch)
    outputs = {
        layer.output
        for layer, of in zip(qnet.network.layers, design.layers, strict=True)
        if not (of.filtering or of.pooling)
    }
    compared = sorted(outputs & program.tensors.keys())
    assert compared
    wrong = [
        (tensor, sample)
        for sample, slot in enumerate(slots)
        for tensor in compared
        if not np.array_equal(program.read_tensor(slot, tensor).ravel(), tensors[tensor][sample].ravel())
    ]
    assert not wrong
    counted = modelled(program, design, dram, batch, core=core, first_cycle=runs[0].start_cycle)
    assert not [
        layer.name for layer, run, cycles in zip(design.layers, runs, counted, strict=True) if differences(run, cycles)
    ]
