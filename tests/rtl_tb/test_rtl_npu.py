"""The whole NPU as a library: registers, the promises and checks of the DRAM model, seeded bugs."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from npu_worlds import DESIGN, LAYERS, expected, npu_of, read, run_batch

from fluidnpu.boards import load_board
from fluidnpu.hls import register
from fluidnpu.hls.program import digest_build_id
from fluidnpu.rtl_tb import DramModel, NpuModel, RtlNpu, SimulationError


def test_it_says_what_it_is() -> None:
    npu = npu_of()
    assert read(npu, "BUILD_ID") == digest_build_id(DESIGN.hardware_digest)
    shape = register("SHAPE")
    assert [shape.field(f).get(read(npu, "SHAPE")) for f in ("B_MAX", "T_P", "T_C", "STACKABLE", "SPLIT")] == [
        4,
        4,
        8,
        1,
        1,
    ]
    assert npu.idle
    assert not npu.irq
    assert npu.read(0x7C) == 0


def test_layers_add_up_to_the_job_and_beats_to_the_network() -> None:
    npu = npu_of()
    for got, wanted in zip(run_batch(npu, 3), expected(3), strict=True):
        np.testing.assert_array_equal(got, wanted)
    runs = npu.take_layers()
    assert [run.layer for run in runs] == list(range(LAYERS))
    assert sum(run.cycles for run in runs) == read(npu, "CYCLES_LO")
    assert sum(run.weight_beats for run in runs) > 0
    for run in runs:
        layer = DESIGN.layers[run.layer]
        if run.output_beats:
            assert run.output_beats == 3 * layer.r * layer.groups * -(-layer.c // DESIGN.out_words)
            assert run.input_beats + run.blocked_cycles + run.starved_cycles <= run.cycles
            assert run.cycles >= run.input_beats
    assert not npu.take_layers()


@pytest.mark.parametrize("noise", range(1, 4))
def test_ideal_memory_gives_the_same_cycles_whatever_was_in_the_registers(noise: int) -> None:
    npus = [RtlNpu(NpuModel.of(DESIGN), memory_bytes=1 << 22, seed=seed) for seed in (noise, 1000 + noise)]
    for npu in npus:
        run_batch(npu, 2)
    assert read(npus[0], "CYCLES_LO") == read(npus[1], "CYCLES_LO")


def test_slower_memory_takes_longer_and_changes_no_bit() -> None:
    cycles = []
    for change in ({}, {"latency_cycles": 40}, {"latency_cycles": 40, "total_words": 2.0},
                   {"latency_cycles": 40, "total_words": 2.0, "refresh_interval_cycles": 500, "refresh_cycles": 250}):  # fmt: skip
        npu = npu_of(DramModel(**change))
        for got, wanted in zip(run_batch(npu, 2), expected(2), strict=True):
            np.testing.assert_array_equal(got, wanted)
        cycles.append(read(npu, "CYCLES_LO"))
    assert cycles == sorted(set(cycles))


def test_bandwidth_is_kept() -> None:
    """No layer moves more words a cycle than the model allows, and a bandwidth-bound one comes close."""
    limit = 2.0
    npu = npu_of(DramModel(latency_cycles=8, total_words=limit))
    run_batch(npu, 4)
    rates = [8 * (sum(run.read_beats) + run.write_beats) / run.cycles for run in npu.take_layers() if run.cycles > 500]
    assert max(rates) <= limit * 1.02
    assert max(rates) > limit * 0.7


@pytest.mark.long
@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("axi_read_master.sv", "m_axi_arburst = 2'b01;", "m_axi_arburst = 2'b00;"), "not of type INCR"),
        pytest.param(
            ("axi_read_master.sv", "m_axi_arsize  = 3'(Size);", "m_axi_arsize  = 3'(Size - 1);"),
            "port's width",
            marks=pytest.mark.matrix,
        ),
        pytest.param(
            ("axi_write_master.sv", "m_axi_wlast   = wlast_q;", "m_axi_wlast   = 1'b1;"),
            "WLAST",
            marks=pytest.mark.matrix,
        ),
    ],
)
def test_bugs_in_the_bus_masters_are_caught_by_the_memory(edit: tuple[str, str, str], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        run_batch(npu_of(edits=(edit,)), 1)


@pytest.mark.long
def test_an_npu_that_waits_for_no_answer_reads_old_data() -> None:
    """What `test_the_answer_of_a_write_is_awaited...` would see."""
    edit = ("fluidnpu_data_plane.sv", "layer_done && m2_write_idle && ", "layer_done && ")
    npu = npu_of(DramModel(write_latency_cycles=400), edits=(edit,))
    assert not all(np.array_equal(a, b) for a, b in zip(run_batch(npu, 2), expected(2), strict=True))


def test_the_answer_of_a_write_is_awaited_before_the_next_layer_reads() -> None:
    """The memory shows a write only when it is answered; so an NPU that did not wait would read old data
    here.
    """
    npu = npu_of(DramModel(write_latency_cycles=400))
    for got, wanted in zip(run_batch(npu, 2), expected(2), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_board_gives_its_memory() -> None:
    dram = DramModel.of(load_board("zc706"), "pl")
    assert (dram.link_words, dram.links) == (32.0, (0, 1, 2))
    assert round(dram.total_words, 2) == round(0.8 * 12.8e9 / 150e6 / 2, 2)
    assert DramModel.of(load_board("zc706"), "ps").link_words == 4.0
    with pytest.raises(ValueError, match="memory of board 'zc706' must be one of ps_striped, ps, pl, not 'hbm'"):
        DramModel.of(load_board("zc706"), "hbm")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"latency_cycles": 0}, "latency_cycles must be at least 1"),
        ({"link_words": -1}, "link_words must not be negative"),
        ({"refresh_interval_cycles": 10, "refresh_cycles": 10}, "less than refresh_interval_cycles"),
        ({"links": (0, 1)}, "links must name a port"),
        ({"links": (0, 1, 3)}, "links must name a port"),
    ],
)
def test_a_dram_that_cannot_be(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DramModel(**wrong)  # type: ignore[arg-type]
    assert asdict(DramModel.IDEAL) == asdict(DramModel())


def test_memory_outside_is_refused_to_python_too() -> None:
    npu = npu_of()
    with pytest.raises(ValueError, match="must lie in"):
        npu.view(0, 4)
    with pytest.raises(SimulationError, match="exactly once"):
        npu_of(edits=(("fluidnpu_regs.sv", "no such text", ""),))
