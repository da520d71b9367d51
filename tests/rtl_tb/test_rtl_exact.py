"""The exact model equals Verilator with either core: cycles of every layer, and beats and bursts of every
port, with ideal memory and with slow ones.

Also with the DRAM model the difference is zero: the model repeats its arbitration, cycle for cycle.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from exact_worlds import check, random_plans, small_npu
from npu_worlds import DESIGN, QNET

from fluidnpu.boards import load_board
from fluidnpu.dse import CORES, DramModel, explore
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program
from fluidnpu.models import quantise
from fluidnpu.models.zoo import random_full_size, random_network
from fluidnpu.rtl_tb import NpuModel, RtlNpu
from fluidnpu.rtl_tb.npu.job import BareNpu, differences, shared_model

SLOW = (
    DramModel(latency_cycles=38, write_latency_cycles=20, link_words=8.0, total_words=11.0, refresh_interval_cycles=1170, refresh_cycles=39),
    DramModel(latency_cycles=7, write_latency_cycles=40, link_words=3.7, total_words=5.3, links=(0, 1, 0), refresh_interval_cycles=300,
              refresh_cycles=99, outstanding=3),
    DramModel(latency_cycles=100, total_words=20.0, outstanding=4),
)  # fmt: skip
DRAMS = (DramModel.IDEAL, *SLOW)
ARRAYS: dict[str, tuple[int, dict[str, Any]]] = {  # bits of a port, sizes
    "narrow ports, a small buffer": (
        64, {"t_r": 40, "t_p": 5, "t_c": 6, "weight_slots": 2, "out_words": 8, "buffer_words": 2048, "activation": "lut"}
    ),
    "wide ports": (256, {"t_r": 32, "t_p": 12, "t_c": 8, "split": True, "buffer_words": 4096}),
    "pools wider than lanes": (256, {"t_r": 24, "t_p": 4, "t_c": 6, "weight_slots": 4, "out_words": 16, "buffer_words": 4096, "activation": "dsp"}),
    "no pairs": (128, {"t_r": 16, "t_p": 3, "t_c": 5, "stackable": False, "out_words": 3, "buffer_words": 2048, "activation": "lut"}),
    "many slots": (128, {"t_r": 64, "t_p": 6, "t_c": 16, "split": True, "weight_slots": 3, "out_words": 8, "buffer_words": 1 << 15}),
    "chains in pieces": (128, {"t_r": 24, "t_p": 9, "t_c": 6, "weight_slots": 2, "out_words": 8, "buffer_words": 4096}),
    "words of 8 bits": (64, {"t_r": 40, "t_p": 9, "t_c": 8, "weight_slots": 2, "out_words": 8, "buffer_words": 8192, "word_bits": 8}),
    "words of 8 bits in two segments": (
        256, {"t_r": 32, "t_p": 20, "t_c": 8, "weight_slots": 2, "out_words": 8, "buffer_words": 8192, "activation": "lut", "word_bits": 8,
              "field_bits": 17}
    ),
    "words of 8 bits, no pairs": (
        128, {"t_r": 16, "t_p": 8, "t_c": 6, "weight_slots": 2, "out_words": 3, "buffer_words": 8192, "stackable": False, "activation": "dsp",
              "word_bits": 8}
    ),
}  # fmt: skip
CHAINS = {"chains in pieces": {"piece": 4, "broken": 2}}
UNLIKE = (
    "pools wider than lanes",
    "no pairs",
    "chains in pieces",
    "words of 8 bits",
)  # the arrays that differ most from the one of the default test


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dram", DRAMS[:3], ids=["ideal", "board", "slow"])
def test_every_layer_takes_as_long_as_in_rtl(dram: DramModel, core: str) -> None:
    """The builds of tests/host and their network, with plans of every mode and block."""
    npu = small_npu(NpuModel.of(DESIGN, core=core), dram)
    cycles = sum(check(npu, QNET, random_plans(DESIGN, seed), range(1, 5)) for seed in range(6))
    assert cycles > 100_000


@pytest.mark.long
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    "array", [name if name in UNLIKE else pytest.param(name, marks=pytest.mark.matrix) for name in ARRAYS]
)
def test_arrays_ports_and_buffers_of_other_shapes(array: str, core: str) -> None:
    port_bits, sizes = ARRAYS[array]
    npus: dict[DramModel, BareNpu] = {}
    for seed in range(8):
        rng = random.Random(seed)
        unit = "activation" in sizes  # which a network in two then uses
        net = random_network(seed, exits=rng.randint(1, 3), steps=rng.randint(2, 4), activations=unit and seed % 2 == 1)
        qnet = quantise(net, bits=sizes.get("word_bits", 16))
        built = design_for(qnet.network.workload, **sizes).changed(port_bits=port_bits, **CHAINS.get(array, {}))
        design = random_plans(built, seed)
        dram = DRAMS[seed % len(DRAMS)]
        if dram not in npus:
            npus[dram] = small_npu(shared_model(design, core), dram, memory_bytes=1 << 23)
        check(npus[dram], qnet, design, range(1, 5))


STRIPED = (
    DramModel(latency_cycles=50, write_latency_cycles=50, link_words=3.0, total_words=9.0, refresh_interval_cycles=600, refresh_cycles=20),
    DramModel(latency_cycles=9, write_latency_cycles=70, link_words=1.3, total_words=3.7, refresh_interval_cycles=301, refresh_cycles=77,
              outstanding=2),
    DramModel(latency_cycles=38, total_words=30.0, outstanding=8),
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("stripes", "port_bytes"), [(2, 16), (4, 64)])
def test_stripes(stripes: int, port_bytes: int) -> None:
    """The builds of test_rtl_stripes."""
    qnet = quantise(random_network(0, exits=3))
    design = design_for(qnet.network.workload, t_r=24, split=True)
    model = NpuModel.of(design, stripes=stripes, port_bytes=port_bytes)
    for dram in (DramModel.IDEAL, *STRIPED):
        npu = small_npu(model, dram)
        for seed in range(3):
            check(npu, qnet, random_plans(design, seed), range(1, 5))
    npu.machine = replace(npu.machine, stripes=6 - stripes)
    with pytest.raises(AssertionError):
        check(npu, qnet, design, range(4, 5))


@pytest.mark.long
@pytest.mark.parametrize("memory", ["dram", pytest.param("ideal", marks=pytest.mark.matrix)])
def test_layers_of_resnet50_on_its_board(memory: str) -> None:
    """Some of the layers, each a job of its own, behind 64-bit ports."""
    board = load_board("zc706")
    qnet = quantise(random_full_size("resnet50"))
    design = explore(qnet.network.workload, board, b_max=2, model="paper", core="rtl").design
    program = compile_program(qnet, design)
    dram = DramModel.IDEAL if memory == "ideal" else DramModel.of(board)
    model = shared_model(design)
    npu = BareNpu(RtlNpu(model, dram=dram, memory_bytes=1 << 29))
    for index in (2, 5, 14, 16, 28, 30, 46, 48, 54, 55):
        ((run, found),) = npu.both(program, design, 1 + index % 2, range(index, index + 1))
        assert not differences(run, found), design.layers[index]


def test_a_model_of_another_machine_is_told_apart() -> None:
    """Narrower outputs, one weight slot more: the comparison is able to fail."""
    array = DESIGN.array
    for other in (replace(array, weight_slots=2), replace(array, out_words=3)):
        npu = small_npu(NpuModel.of(DESIGN))
        npu.machine = replace(npu.machine, array=other)
        with pytest.raises(AssertionError):
            check(npu, QNET, DESIGN, range(4, 5))
