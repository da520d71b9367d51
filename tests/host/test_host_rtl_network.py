"""The shipped network on the RTL equals the golden model, batch by batch and served. Long: minutes."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from fluidnpu.boards import load_board
from fluidnpu.dse import BatchPlan, Design, explore
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import compile_program
from fluidnpu.host import Driver, serve_requests
from fluidnpu.host.devices import RtlDevice
from fluidnpu.host.devices.rtl import rtl_device
from fluidnpu.models import QuantisedNetwork, golden, quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.rtl_tb import DramModel
from fluidnpu.scheduler import make_policy, poisson

pytestmark = pytest.mark.long


@cache
def qnet() -> QuantisedNetwork:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        return quantise(read_onnx(path))


@cache
def images() -> npt.NDArray[np.uint8]:
    return shipped_images(24).images


def small_design(plan: BatchPlan | None) -> Design:
    return design_for(qnet().network.workload, plan=plan, t_r=96, t_p=6, t_c=12, b_max=8, weight_slots=2, out_words=8)


def loaded(design: Design, dram: DramModel | None = None, core: str = "rtl") -> tuple[Driver, RtlDevice]:
    device = rtl_device(design, dram, core=core)
    driver = Driver(device, compile_program(qnet(), design), design, slots=16, patience=50_000)
    driver.load()
    return driver, device


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(BatchPlan(b_r=8), marks=pytest.mark.matrix),
        BatchPlan(b_r=4),
        pytest.param(BatchPlan(b_r=8, row_lanes=True), marks=pytest.mark.matrix),
    ],
)
def test_a_small_array_runs_the_shipped_network(plan: BatchPlan) -> None:
    """Most layers fall into many row blocks and column tiles."""
    driver, _ = loaded(small_design(plan), DramModel.IDEAL)
    expected = golden.run(qnet(), images()[:8])
    for batch in (1, 2, 3, 5, 8):
        if 2 * plan.b_r < batch:
            continue
        for slot in range(batch):
            driver.write_sample(slot, images()[slot])
        driver.activate(range(batch))
        for stage, logits in enumerate(expected):
            driver.run_stage(stage)
            np.testing.assert_array_equal(driver.stored_logits(range(batch), stage), logits[:batch])


@pytest.mark.parametrize(
    ("board", "core"),
    [
        ("zc706", "rtl"),
        ("zcu104", "hls"),
        pytest.param("zc706", "hls", marks=pytest.mark.matrix),
        pytest.param("zcu104", "rtl", marks=pytest.mark.matrix),
    ],
)
def test_each_boards_own_design_serves_the_shipped_network(board: str, core: str) -> None:
    """Through the runtime, with preemption and merges, behind the board's memory."""
    design = explore(qnet().network.workload, load_board(board), model="paper", core="rtl").design
    driver, device = loaded(design, core=core)
    count = len(images())
    alone_ns = 3 * design.latency.between(0, design.stages - 1, 1)
    requests = poisson(1e9 / alone_ns, count, slo_ns=10 * alone_ns, rng=np.random.default_rng(3))
    served = serve_requests(requests, images(), make_policy("fluid"), driver)
    exits, classes, _ = golden.early_exit(qnet(), images())
    assert [(a.exit, a.prediction) for a in served.answers] == list(zip(exits, classes, strict=True))
    assert not served.failures
    assert len({len(run.ids) for run in served.schedule.runs}) > 1  # batches of several sizes
    assert device.clock.now_ns() >= max(answer.end_ns for answer in served.replies)


@pytest.mark.matrix
@pytest.mark.parametrize("board", ["zc706", "zcu104"])
def test_a_job_takes_as_long_with_either_core(board: str) -> None:
    """The data plane in RTL with the core in SystemVerilog, and with the HLS core's C++, a call a cycle."""
    design = explore(qnet().network.workload, load_board(board), model="paper", core="rtl").design
    cycles = []
    for core in ("rtl", "hls"):
        driver, _ = loaded(design, core=core)
        for slot in range(3):
            driver.write_sample(slot, images()[slot])
        driver.activate(range(3))
        driver.run_layers(0, len(design.layers) - 1, 10_000_000)
        cycles.append(driver.status().cycles)
    assert abs(cycles[1] / cycles[0] - 1) < 0.005
