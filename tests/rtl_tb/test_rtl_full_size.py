"""Networks at full size: cycles, beats and bursts of every layer equal the exact model's, with both cores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from fluidnpu.boards import load_board
from fluidnpu.dse import CORES, DramModel, Point, build_design
from fluidnpu.hls import compile_program
from fluidnpu.models import quantise
from fluidnpu.models.zoo import random_full_size
from fluidnpu.rtl_tb.npu.job import BareNpu, differences, modelled


def full_size_cases() -> Any:
    """Those that the page of either core counts: network, board, memory and array."""
    folder = str(Path(__file__).parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return __import__("either_core").FULL_SIZE
    finally:
        sys.path.remove(folder)


FULL_SIZE = full_size_cases()


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
