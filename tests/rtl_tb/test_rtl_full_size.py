"""Networks at full size: cycles, beats and bursts of every layer equal the exact model's, with both cores."""

from __future__ import annotations

import pytest

from fluidnpu.boards import load_board
from fluidnpu.dse import CORES, DramModel, Point, build_design
from fluidnpu.hls import compile_program
from fluidnpu.models import quantise
from fluidnpu.models.zoo import random_full_size
from fluidnpu.rtl_tb.npu.job import BareNpu, differences, modelled

FULL_SIZE = [
    ("resnet50", "zc706", "pl", Point(t_r=1024, t_p=7, t_c=128)),
    ("resnet50", "zcu104", "ps_striped", Point(t_r=2560, t_p=27, t_c=64)),
    ("inception_v3", "zc706", "pl", Point(t_r=2048, t_p=28, t_c=32)),
    ("inception_v3", "zcu104", "ps_striped", Point(t_r=1536, t_p=54, t_c=32)),
    ("mobilenet_v2", "zc706", "pl", Point(t_r=1024, t_p=18, t_c=50)),
    ("efficientnet_lite0", "zcu104", "ps_striped", Point(t_r=2048, t_p=24, t_c=64)),
]


@pytest.mark.long
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    ("network", "board", "memory", "point"),
    [
        pytest.param(*case, id="-".join(case[:2]), marks=pytest.mark.matrix if case != FULL_SIZE[0] else ())
        for case in FULL_SIZE
    ],
)
def test_every_layer_of_a_network_at_full_size(network: str, board: str, memory: str, point: Point, core: str) -> None:
    """The arrays of docs/explanation/cycles behind the memory of their board, at B = 1; `make tables` goes
    on to B = 8 with the core in SystemVerilog. The HLS core places where the cascades of that one would not
    (ADR 27), so the arrays are those that fit with it.
    """
    qnet = quantise(random_full_size(network))
    design = build_design(qnet.network.workload, load_board(board), point, memory=memory, core="hls", b_max=1)
    program, dram = compile_program(qnet, design), DramModel.of(load_board(board), memory)
    runs = BareNpu.of(design, dram, core).run(program, 1)
    found = modelled(program, design, dram, 1, core=core, first_cycle=runs[0].start_cycle)
    assert len(runs) == len(design.layers)
    assert not [
        layer.name for layer, run, cycles in zip(design.layers, runs, found, strict=True) if differences(run, cycles)
    ]
