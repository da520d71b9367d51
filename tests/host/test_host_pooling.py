"""A network whose max pools are merged with the layers before them, on the simulated NPU."""

import numpy as np
import pytest

from fluidnpu.dse import BatchPlan
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import Program, compile_program
from fluidnpu.host import Driver, SimulatedNpu
from fluidnpu.models import Exit, Kind, QuantisedNetwork, golden, quantise
from fluidnpu.models.graph import Builder
from fluidnpu.models.zoo import with_random_weights


def pooled() -> QuantisedNetwork:
    """Two pools that are merged, one of them behind a residual, and one that is not."""
    net = Builder({"image": (24, 20, 3)})
    first = net.pool(Kind.MAX_POOL, "pool1", net.conv("conv1", "image", 10, 3, 1), 2, 1)
    side = net.conv("side", first, 7, 1)
    added = net.conv("conv2", first, 7, 3, residual=side)
    second = net.pool(Kind.MAX_POOL, "pool2", added, 2, 1)
    third = net.pool(Kind.MAX_POOL, "pool3", net.conv("conv3", second, 6, 3, 1), 1, 1)
    net.classifier(("mean", "fc"), third, 5, "logits")
    return quantise(with_random_weights(net.network("pooled", [Exit(name="final", logits="logits")]), seed=4))


@pytest.mark.parametrize("row_lanes", [False, True])
def test_logits_are_those_of_the_golden_model(row_lanes: bool) -> None:
    qnet = pooled()
    design = design_for(qnet.network.workload, plan=BatchPlan(row_lanes=row_lanes, b_r=4))
    program: Program = compile_program(qnet, design)
    assert [one.merged for one in program.descriptors].count(1) == 2
    npu = SimulatedNpu(design)
    driver = Driver(npu, program, design)
    driver.load()
    images = np.random.default_rng(1).integers(0, 256, (4, 24, 20, 3), dtype=np.uint8)
    for slot, image in enumerate(images):
        driver.write_sample(slot, image)
    driver.merge([0, 1, 2, 3])
    driver.run_to_exit(0)
    assert np.array_equal(driver.stored_logits([0, 1, 2, 3], 0), golden.run(qnet, images)[0])
