"""Phases of larger maps on the RTL: every cycle of the exact model, every word of the golden model. Long."""

from __future__ import annotations

import numpy as np
import pytest
from exact_worlds import check, random_plans, small_npu

from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program, csim_network
from fluidnpu.host import Driver
from fluidnpu.host.devices.rtl import rtl_device
from fluidnpu.models import Network, golden, quantise
from fluidnpu.models.zoo.patchwork import random_patchwork
from fluidnpu.rtl_tb import DramModel, NpuModel

pytestmark = pytest.mark.long
ROUGH = DramModel(
    latency_cycles=37, write_latency_cycles=23, link_words=5.3, total_words=7.1, links=(0, 1, 0),
    refresh_interval_cycles=900, refresh_cycles=60, outstanding=3,
)  # fmt: skip
SEEDS = [seed for seed in range(40) if any(one.output_step != (1, 1) for one in random_patchwork(seed, exits=1).layers)]


def upsampling(seed: int) -> Network:
    return random_patchwork(seed, exits=1)


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_phases_take_as_long_as_in_rtl(seed: int) -> None:
    qnet = quantise(upsampling(seed))
    design = random_plans(design_for(qnet.network.workload, t_r=24, split=True, b_max=2), seed)
    for dram in (DramModel.IDEAL, ROUGH):
        assert check(small_npu(NpuModel.of(design, port_bytes=16), dram), qnet, design, range(1, 3)) > 0


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_phases_are_the_same_in_c_and_rtl(seed: int) -> None:
    qnet = quantise(upsampling(seed))
    design = random_plans(design_for(qnet.network.workload, t_r=24, split=True, b_max=2), seed)
    shape = qnet.network.tensors[qnet.network.input]
    images = np.random.default_rng(seed).integers(0, 256, (2, *shape), dtype=np.uint8)
    report = csim_network(qnet, design, images, [1, 2])
    assert report.ok, report.summary()
    driver = Driver(rtl_device(design, ROUGH), compile_program(qnet, design), design, patience=50_000)
    driver.load()
    for slot, image in enumerate(images):
        driver.write_sample(slot, image)
    driver.activate(range(2))
    driver.run_stage(0)
    np.testing.assert_array_equal(driver.stored_logits(range(2), 0), golden.run(qnet, images)[0])
    for name, stored in golden.run_outputs(qnet, images).items():
        np.testing.assert_array_equal(driver.stored_outputs(range(2), 0)[name], stored)
