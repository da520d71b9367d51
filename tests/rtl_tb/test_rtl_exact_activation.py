"""The exact model equals Verilator on layers with an activation unit: cycles, beats, bursts, and every bit.

Layers are drawn in every use, as passes without weights, before a pool and with residuals that repeat; jobs
of several layers load the pieces of one while another runs.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fluidnpu.dse import CORES, Design, DramModel
from fluidnpu.hls.formats import ActivationCode
from fluidnpu.rtl_tb import NpuModel, SimulationError
from fluidnpu.rtl_tb.data_plane.environment.jobs import Shape, bench_design, random_shape
from fluidnpu.rtl_tb.npu.campaign import FAR, ROUGH
from fluidnpu.rtl_tb.npu.job import shared_model
from fluidnpu.rtl_tb.npu.world import ARRAY, LEAST, STEADY, NpuWorld, model_of

DRAMS = (STEADY, ROUGH, FAR, DramModel.IDEAL)
ARRAYS = {
    "split trees": {"t_r": 12, "t_p": 4, "t_c": 6, "split": 1, "weight_slots": 2, "out_words": 4, "port_bytes": 16},
    "pools wider than lanes": {"t_r": 24, "t_p": 4, "t_c": 6, "weight_slots": 4, "out_words": 16, "port_bytes": 32},
    "no pairs": {"t_r": 16, "t_p": 3, "t_c": 5, "stackable": 0, "out_words": 3, "port_bytes": 16},
    "narrow ports": {"t_r": 40, "t_p": 5, "t_c": 6, "weight_slots": 2, "out_words": 8, "port_bytes": 8, "activation_dsp": 1},
}  # fmt: skip
LAYERS = 8  # of a program
WORLDS = 10  # of them, on each of the arrays: 320 layers


def run_drawn(seed: int, model: NpuModel, design: Design, jobs: int) -> int:
    """Run jobs of one to four drawn layers, compared in all that there is; returns their cycles."""
    rng = random.Random(f"activations {seed}")
    shapes = [random_shape(rng, design) for _ in range(LAYERS)]
    world = NpuWorld.of(seed, model, design, layers=shapes, dram=DRAMS[seed % len(DRAMS)])
    cycles = 0
    for job in range(jobs):
        first = job * 3 % LAYERS
        layers = range(first, min(LAYERS, first + rng.randint(1, 4)))
        world.draw_batch()
        world.draw_plans(layers)
        cycles += world.right(layers)
    return cycles


@pytest.mark.parametrize(("design", "stripes"), [(LEAST, None), (ARRAY, 2)], ids=["one sample", "striped"])
def test_layers_drawn_with_an_activation_take_as_long_as_in_rtl(design: Design, stripes: int | None) -> None:
    """The builds of the campaign."""
    model = model_of(design, stripes=stripes)
    assert run_drawn(1, model, design, 5) > 1000


@pytest.mark.long
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("array", ARRAYS)
def test_hundreds_of_layers_with_an_activation(array: str, core: str) -> None:
    sizes = {"b_max": 4, "stackable": 1, "split": 0, "weight_slots": 1, "activation": 1, **ARRAYS[array]}
    design = bench_design(sizes)
    model = shared_model(design, core)
    assert sum(run_drawn(seed, model, design, LAYERS) for seed in range(WORLDS)) > 100_000


@pytest.mark.parametrize("lost", [{"pieces": 0}, {"activation": 0}], ids=["pieces", "steps of the unit"])
def test_what_a_model_leaves_out_is_told(lost: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is able to fail: pieces cost time before a layer begins, the unit's steps in it."""
    shape = Shape(out=(4, 5), columns=3, activation=ActivationCode.TABLE)
    world = NpuWorld.of(0, model_of(LEAST), LEAST, layers=[shape])
    world.draw_batch(1)
    world.draw_plans(range(1))
    monkeypatch.setattr(NpuWorld, "_job", lambda self, layer, job=NpuWorld._job: replace(job(self, layer), **lost))
    with pytest.raises(SimulationError, match="cycles must be the model's"):
        world.right(range(1))
