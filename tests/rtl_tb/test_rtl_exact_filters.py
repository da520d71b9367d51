"""The exact model equals Verilator where depthwise layers are merged (ADR 70), in cycles, beats and bursts.

Jobs of several layers load the constants of one while another runs; whole networks merge pairs of any kind,
with plans of every mode and block.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from exact_worlds import check, random_plans, small_npu
from test_rtl_exact import DRAMS as MEMORIES
from test_rtl_exact_activation import DRAMS
from test_rtl_filtering import NPUS, pair

from fluidnpu.dse import CORES, Design
from fluidnpu.dse.testing import design_for
from fluidnpu.models import quantise
from fluidnpu.models.zoo import random_blocks
from fluidnpu.rtl_tb import NpuModel, SimulationError
from fluidnpu.rtl_tb.data_plane.environment.jobs import Shape, bench_design, random_shape
from fluidnpu.rtl_tb.npu.job import BareNpu
from fluidnpu.rtl_tb.npu.world import ARRAY, NpuWorld, filtering_of, model_of

LAYERS, JOBS = 8, 6  # of a program
ROOM = ((11, 32, 7, True),)  # of every network that is drawn: columns and pixels of a row, kernel, a table
STRIPED = model_of(ARRAY, stripes=2)  # the build of test_rtl_campaign


def run_drawn(seed: int, model: NpuModel, design: Design) -> tuple[int, int]:
    """Run jobs of one to four layers, of which most pass a filter; returns these and all cycles."""
    rng = random.Random(f"filters {seed}")
    shapes = [pair(rng, design) if rng.random() < 0.6 else random_shape(rng, design) for _ in range(LAYERS)]
    world = NpuWorld.of(seed, model, design, layers=shapes, dram=DRAMS[seed % len(DRAMS)])
    filtered = cycles = 0
    for job in range(JOBS):
        first = job * 3 % LAYERS
        layers = range(first, min(LAYERS, first + rng.randint(1, 4)))
        world.draw_batch()
        world.draw_plans(layers)
        cycles += world.right(layers)
        filtered += sum(world.program.descriptors[layer].filter_kernel > 0 for layer in layers)
    return filtered, cycles


def test_layers_drawn_with_a_filter_take_as_long_as_in_rtl() -> None:
    counts = [run_drawn(seed, STRIPED, ARRAY) for seed in range(4)]
    assert sum(filtered for filtered, _ in counts) > 20
    assert sum(cycles for _, cycles in counts) > 20_000


@pytest.mark.long
@pytest.mark.parametrize("name", NPUS)
def test_hundreds_of_layers_with_a_filter(name: str) -> None:
    sizes, core = NPUS[name]
    design = bench_design(sizes)
    model = model_of(design, core=core)
    assert sum(run_drawn(seed, model, design)[0] for seed in range(20)) > 100


@pytest.mark.long
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("lanes", [8, 16, pytest.param(32, marks=pytest.mark.matrix)])
def test_networks_with_merged_pairs(lanes: int, core: str) -> None:
    """All pairs of a network or every other one, at each batch size, on every memory."""
    npus: dict[int, BareNpu] = {}
    merged = 0
    for seed in range(12):
        qnet = quantise(random_blocks(seed, exits=3))
        work = qnet.network.workload
        design = design_for(work, t_r=24, split=True, activation="lut", out_words=lanes)
        design = replace(design, layers=work.filtered([one.producer for one in work.filters[:: 1 + seed % 2]]))
        design = random_plans(design.with_room((), ROOM), seed)
        memory = seed % len(MEMORIES)
        if memory not in npus:
            npus[memory] = small_npu(NpuModel.of(design, core=core), MEMORIES[memory])
        check(npus[memory], qnet, design, range(1, 5))
        merged += [layer.merged for layer in design.layers].count(True)
    assert merged > 30


LOST: Mapping[str, dict[str, int]] = {
    "weights": {"filter_rows": 0},
    "the table's steps": {"filter_table": 0},
}


@pytest.mark.parametrize("lost", LOST)
def test_what_a_model_leaves_out_is_told(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is able to fail."""
    filtering = filtering_of((4, 5), 3, 1, (1, 1, 1, 1), table=True)
    shape = Shape(kernel=(1, 1), group_words=4, columns=3, out=(4, 5), filter=filtering)
    world = NpuWorld.of(0, STRIPED, ARRAY, layers=[shape])
    world.draw_batch(1)
    world.draw_plans(range(1))
    monkeypatch.setattr(
        NpuWorld, "_job", lambda self, layer, job=NpuWorld._job: replace(job(self, layer), **LOST[lost])
    )
    with pytest.raises(SimulationError, match="must be the model's"):
        world.right(range(1))
