"""Random jobs on odd arrays with either core: every byte of memory, and the cycles of every layer.

The tests of test_rtl_exact.py run networks; here the layers are drawn, of every shape that a descriptor has.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from npu_worlds import DESIGN

from fluidnpu.dse import CORES, Design, DramModel
from fluidnpu.rtl_tb import NpuModel, SimulationError
from fluidnpu.rtl_tb.data_plane.environment.jobs import bench_design, random_shape
from fluidnpu.rtl_tb.npu.campaign import FAR, ROUGH
from fluidnpu.rtl_tb.npu.world import STEADY, NpuWorld

ONE_BY_ONE = DramModel(latency_cycles=21, write_latency_cycles=8, outstanding=1)
DRAMS = (DramModel.IDEAL, STEADY, FAR, ROUGH, ONE_BY_ONE)
USUAL = {"b_max": 4, "stackable": 1, "split": 0, "weight_slots": 1, "out_words": 4}
ARRAYS: dict[str, tuple[Design, int]] = {  # with the number of stripes
    "split, 64-bit port": (
        bench_design({**USUAL, "t_r": 33, "t_p": 6, "t_c": 7, "split": 1, "weight_slots": 2, "port_bytes": 8}), 1,
    ),
    "no pairs, pieces": (
        bench_design({**USUAL, "t_r": 11, "t_p": 9, "t_c": 12, "b_max": 8, "stackable": 0, "weight_slots": 2}).changed(piece=4, broken=5), 1,
    ),
    "split, 32-bit port": (
        bench_design({**USUAL, "t_r": 29, "t_p": 4, "t_c": 10, "split": 1, "weight_slots": 3, "port_bytes": 4, "out_words": 2}), 1,
    ),
    "one row, one PE": (bench_design({**USUAL, "t_r": 1, "t_p": 3, "t_c": 1, "b_max": 1, "stackable": 0, "out_words": 1}), 1),
    "16 samples, four stripes": (
        bench_design({**USUAL, "t_r": 40, "t_p": 12, "t_c": 3, "b_max": 16, "weight_slots": 2, "port_bytes": 64, "out_words": 32}), 4,
    ),
}  # fmt: skip
LAYERS = 8
JOBS = 4  # of each world, whose memory is one of DRAMS


def model_of(name: str, core: str) -> NpuModel:
    design, stripes = ARRAYS[name]
    model = NpuModel.of(design, core=core, stripes=stripes)
    return replace(model, parameters={**model.parameters, "Layers": LAYERS, "BuildId": 1})


def run_jobs(seed: int, model: NpuModel, design: Design, jobs: int = JOBS) -> int:
    """Run drawn jobs of one to four layers, the last on a full batch; returns their cycles.

    SimulationError where a byte or a count differs.
    """
    rng = random.Random(f"jobs {seed}")
    shapes = [random_shape(rng, design) for _ in range(LAYERS)]
    world, cycles = NpuWorld.of(seed, model, design, layers=shapes, dram=DRAMS[seed % len(DRAMS)]), 0
    for job in range(jobs):
        layers = world.draw_layers(4)
        world.draw_batch(design.b_max if job + 1 == jobs else None)
        world.draw_plans(layers)
        cycles += world.right(layers)
    return cycles


@pytest.mark.parametrize("core", CORES)
def test_layers_of_every_shape_take_as_long_as_in_the_model(core: str) -> None:
    """The builds of tests/host."""
    assert sum(run_jobs(seed, NpuModel.of(DESIGN, core=core), DESIGN) for seed in range(5)) > 25_000


def test_a_core_that_waits_longer_is_told() -> None:
    """The comparison is able to fail: by a call more between rows, and with the cores exchanged."""
    right, other = NpuModel.of(DESIGN, core="hls"), NpuModel.of(DESIGN)
    distance = right.machine.row_distance
    text = right.hls_core["params.h"].replace(f"RowDistance = {distance};", f"RowDistance = {distance + 1};")
    longer = replace(right, hls_core={**right.hls_core, "params.h": text})
    assert longer.machine.row_distance == distance + 1
    for machine in (longer.machine, other.machine):
        model = replace(right)
        model.__dict__["machine"] = machine
        with pytest.raises(SimulationError, match="cycles must be the model's"):
            run_jobs(1, model, DESIGN)


@pytest.mark.long
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("core", ["hls", pytest.param("rtl", marks=pytest.mark.matrix)])
def test_sixty_jobs_on_odd_arrays(core: str, name: str) -> None:
    model = model_of(name, core)
    assert sum(run_jobs(seed, model, ARRAYS[name][0]) for seed in range(15)) > 100_000
