"""A network whose max pools are merged with the layers before them, on the whole NPU in RTL."""

from __future__ import annotations

import pytest
from exact_worlds import check, random_plans, small_npu

from fluidnpu.dse import DramModel
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program
from fluidnpu.models import Exit, Kind, QuantisedNetwork, quantise
from fluidnpu.models.graph import Builder
from fluidnpu.models.zoo import with_random_weights
from fluidnpu.rtl_tb import NpuModel

SLOW = DramModel(latency_cycles=37, write_latency_cycles=23, link_words=5.3, total_words=7.1, outstanding=3)


def pooled() -> QuantisedNetwork:
    """Pools of three and of two that are merged, one behind a residual, and one that is not."""
    net = Builder({"image": (16, 14, 3)})
    first = net.pool(Kind.MAX_POOL, "pool1", net.conv("conv1", "image", 10, 3, 1), 2, 1)
    side = net.conv("side", first, 19, 1)
    added = net.conv("conv2", net.enlarge("wider", side, 19), 19, 3, residual=None)
    two = net.add(Kind.MAX_POOL, "pool2", added, 19, (2, 2), stride=(2, 2))
    third = net.pool(Kind.MAX_POOL, "pool3", net.conv("conv3", two, 6, 3, 1), 1, 1)
    net.classifier(("mean", "fc"), third, 5, "logits")
    return quantise(with_random_weights(net.network("pooled", [Exit(name="final", logits="logits")]), seed=4))


@pytest.mark.parametrize("dram", [DramModel.IDEAL, SLOW], ids=["ideal", "slow"])
def test_cycles_of_merged_pools_are_the_models(dram: DramModel) -> None:
    """Every mode and block that such layers may have, and what comes behind a pool that takes no time."""
    qnet = pooled()
    design = design_for(qnet.network.workload, t_r=24, b_max=3)
    assert [layer.merged for layer in design.layers].count(True) == 2
    npu = small_npu(NpuModel.of(design), dram)
    for seed in range(4):
        assert check(npu, qnet, random_plans(design, seed), range(1, 4)) > 1000


def test_a_merged_pool_moves_nothing() -> None:
    qnet = pooled()
    design = design_for(qnet.network.workload, t_r=24, b_max=3)
    npu = small_npu(NpuModel.of(design))
    runs = npu.run(compile_program(qnet, design), 2)
    merged = [run for run, layer in zip(runs, design.layers, strict=True) if layer.merged]
    assert len(merged) == 2
    for run in merged:
        assert run.cycles < 400, "no more than a plan takes"
        assert (run.input_beats, run.output_beats, run.write_beats, sum(run.read_beats[1:])) == (0, 0, 0, 0)
