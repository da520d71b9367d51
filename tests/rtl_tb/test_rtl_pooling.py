"""A network whose max pools are merged with the layers before them, on the whole NPU in RTL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exact_worlds import check, random_plans, small_npu

from fluidnpu.dse import Design, DramModel
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program
from fluidnpu.models import Exit, Kind, QuantisedNetwork, golden, quantise
from fluidnpu.models.graph import Builder
from fluidnpu.models.zoo import random_full_size, with_random_weights
from fluidnpu.rtl_tb import NpuModel
from fluidnpu.rtl_tb.npu.job import BareNpu
from fluidnpu.rtl_tb.npu.world import ARRAY, model_of

SLOW = DramModel(latency_cycles=37, write_latency_cycles=23, link_words=5.3, total_words=7.1, outstanding=3)
MEMORIES = pytest.mark.parametrize("dram", [DramModel.IDEAL, SLOW], ids=["ideal", "slow"])
STRIPED = model_of(ARRAY, stripes=2)  # the build of test_rtl_campaign, which has room for eleven layers


def pooled(*, whole: bool = False) -> QuantisedNetwork:
    """Pools of three and of two that are merged, one behind a residual, and in the whole one that is not."""
    net = Builder({"image": (16, 14, 3)})
    first = net.pool(Kind.MAX_POOL, "pool1", net.conv("conv1", "image", 10, 3, 1), 2, 1)
    side = net.conv("side", first, 19, 1)
    added = net.conv("conv2", net.enlarge("wider", side, 19), 19, 3, residual=None)
    last = net.add(Kind.MAX_POOL, "pool2", added, 19, (2, 2), stride=(2, 2))
    if whole:
        last = net.pool(Kind.MAX_POOL, "pool3", net.conv("conv3", last, 6, 3, 1), 1, 1)
    net.classifier(("mean", "fc"), last, 5, "logits")
    return quantise(with_random_weights(net.network("pooled", [Exit(name="final", logits="logits")]), seed=4))


def on_array(qnet: QuantisedNetwork) -> Design:
    """The network's design on the array of STRIPED."""
    array, work = ARRAY.array, qnet.network.workload
    design = replace(design_for(work, b_max=ARRAY.b_max, buffer_words=ARRAY.buffer_words), array=array)
    assert [layer.merged for layer in design.layers].count(True) == 2
    return design


@MEMORIES
def test_cycles_of_merged_pools_are_the_models(dram: DramModel) -> None:
    """Every mode and block that such layers may have, and what comes behind a pool that takes no time."""
    qnet = pooled()
    npu, design = small_npu(STRIPED, dram), on_array(qnet)
    for seed in range(2):
        assert check(npu, qnet, random_plans(design, seed), range(1, 4)) > 1000


@pytest.mark.long
@MEMORIES
def test_cycles_of_merged_pools_on_another_array(dram: DramModel) -> None:
    """Ports in one piece, a large buffer, and a pool that is not merged."""
    qnet = pooled(whole=True)
    design = design_for(qnet.network.workload, t_r=24, b_max=3)
    npu = small_npu(NpuModel.of(design), dram)
    for seed in range(4):
        assert check(npu, qnet, random_plans(design, seed), range(1, 4)) > 1000


def test_a_merged_pool_moves_nothing() -> None:
    qnet = pooled()
    design = on_array(qnet)
    runs = small_npu(STRIPED).run(compile_program(qnet, design), 2)
    merged = [run for run, layer in zip(runs, design.layers, strict=True) if layer.merged]
    assert len(merged) == 2
    for run in merged:
        assert run.cycles < 400, "no more than a plan takes"
        assert (run.input_beats, run.output_beats, run.write_beats, sum(run.read_beats[1:])) == (0, 0, 0, 0)


@pytest.mark.long
def test_words_of_a_merged_pool_at_full_size() -> None:
    """ResNet-50's first layers, whole, on one image: rows of 448 beats of pooled maxima, word by word."""
    qnet = quantise(random_full_size("resnet50"))
    design = design_for(qnet.network.workload, t_r=512, t_p=9, t_c=64, b_max=1, weight_slots=4, out_words=8)
    assert design.pool_room == (8, 448)
    program, npu = compile_program(qnet, design), BareNpu.of(design, DramModel.IDEAL)
    images = np.random.default_rng(1).integers(0, 256, (1, *qnet.network.tensors[qnet.network.input]), dtype=np.uint8)
    stored = qnet.quantise_input(images)
    slot = npu.npu.view(npu.slots, program.slot_bytes).view(np.int16)
    program.write_tensor(slot, program.input, stored[0])
    npu.run(program, 1, range(3))
    assert [layer.merged for layer in design.layers[:3]] == [False, True, False]
    tensors = {qnet.network.input: stored}
    for qlayer in qnet.layers[:3]:
        tensors[qlayer.layer.output] = golden.run_layer(qlayer, qlayer.layer.read(tensors[qlayer.layer.input]))
    for qlayer in qnet.layers[1:3]:
        name = qlayer.layer.output
        np.testing.assert_array_equal(program.read_tensor(slot, name), tensors[name][0])
