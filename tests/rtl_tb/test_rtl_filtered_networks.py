"""MobileNet-v2 and EfficientNet-lite0 whole on the RTL, every pair of layers merged that a filter can merge
(ADR 70): every stored word and every cycle.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fluidnpu.boards import load_board
from fluidnpu.dse import CORES, Design, DramModel, Point, build_design
from fluidnpu.dse.hardware import filterings
from fluidnpu.hls import compile_program
from fluidnpu.models import QuantisedNetwork, golden, quantise
from fluidnpu.models.zoo import random_full_size
from fluidnpu.rtl_tb.npu.job import BareNpu, differences, modelled

BOARD, MEMORY = load_board("zc706"), "pl"
POINT, LANES = Point(t_r=1024, t_p=18, t_c=50), 16
PAIRS = {"mobilenet_v2": 17, "efficientnet_lite0": 16}
B_MAX = 2


def merged(qnet: QuantisedNetwork) -> Design:
    """All pairs in a filter; a layer in front of one runs neighbouring rows in its lanes."""
    work = qnet.network.workload
    built = build_design(work, BOARD, POINT, memory=MEMORY, core="hls", b_max=B_MAX)
    layers = work.filtered([pair.producer for pair in work.filters])
    plans = tuple(
        tuple(replace(plan, b_r=b, row_lanes=plan.row_lanes or plan.b_r < b) for b, plan in enumerate(row, 1))
        if layer.filtering
        else row
        for row, layer in zip(built.plans, layers, strict=True)
    )
    return replace(built, array=replace(built.array, out_words=LANES), layers=layers, plans=plans)


@cache
def networks() -> dict[str, tuple[QuantisedNetwork, Design]]:
    """Both networks on one NPU, whose filter has room for either."""
    qnets = {name: quantise(random_full_size(name)) for name in PAIRS}
    designs = {name: merged(qnet) for name, qnet in qnets.items()}
    room = filterings([layer for design in designs.values() for layer in design.layers])
    return {name: (qnet, designs[name].with_room((), room)) for name, qnet in qnets.items()}


@pytest.mark.long
@pytest.mark.parametrize("core", ["rtl", pytest.param("hls", marks=pytest.mark.matrix)])
@pytest.mark.parametrize("batch", range(1, B_MAX + 1))
@pytest.mark.parametrize("name", PAIRS)
def test_a_network_with_all_pairs_merged_is_golden_and_exact(name: str, batch: int, core: str) -> None:
    """Behind the board's memory; no map in front of a filter is stored, all others are compared."""
    assert core in CORES
    qnet, design = networks()[name]
    assert [layer.merged for layer in design.layers].count(True) == PAIRS[name]
    program, dram = compile_program(qnet, design), DramModel.of(BOARD, MEMORY)
    shape = (batch, *qnet.network.tensors[qnet.network.input])
    tensors = {qnet.network.input: qnet.quantise_input(np.random.default_rng(1).integers(0, 256, shape, np.uint8))}
    golden.run_stage(qnet, 0, tensors)

    npu = BareNpu.of(design, dram, core)
    places = [npu.slots + sample * program.slot_bytes for sample in range(batch)]
    slots = [npu.npu.view(place, program.slot_bytes).view(np.int16) for place in places]
    for sample, slot in enumerate(slots):
        program.write_tensor(slot, program.input, tensors[program.input][sample])
    runs = npu.run(program, batch)
    outputs = {layer.output for layer, of in zip(qnet.network.layers, design.layers, strict=True) if not of.filtering}
    wrong = [
        (tensor, sample)
        for sample, slot in enumerate(slots)
        for tensor in sorted(outputs & program.tensors.keys())
        if not np.array_equal(program.read_tensor(slot, tensor).ravel(), tensors[tensor][sample].ravel())
    ]
    assert not wrong
    counted = modelled(program, design, dram, batch, core=core, first_cycle=runs[0].start_cycle)
    assert not [
        layer.name for layer, run, cycles in zip(design.layers, runs, counted, strict=True) if differences(run, cycles)
    ]
