"""Full-size networks behind the driver: all exits, preempted and merged."""

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import pytest

from fluidnpu.boards import load_board
from fluidnpu.dse import Design, explore
from fluidnpu.hls import compile_program
from fluidnpu.host import Device, Driver, SimulatedNpu
from fluidnpu.host.devices.rtl import rtl_device
from fluidnpu.models import golden, quantise
from fluidnpu.models.zoo import FULL_SIZE, random_full_size

IN_RTL = ("resnet18", "resnet50", "inception_v3", "mobilenet_v2", "efficientnet_lite0")  # others repeat their layers
PATIENCE = 100  # of the latency that the `paper` model expects: it knows of no memory


DEVICES: dict[str, Callable[[Design], Device]] = {
    "simulated": SimulatedNpu,
    "rtl": rtl_device,
    "cosim": partial(rtl_device, core="hls"),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "device"),
    [*product(FULL_SIZE, ("simulated",)), *product(IN_RTL, ("rtl",)), ("resnet50", "cosim")],
)
def test_a_full_size_network_is_golden_behind_the_driver(name: str, device: str) -> None:
    qnet = quantise(random_full_size(name, 4))
    design = explore(qnet.network.workload, load_board("zc706"), b_max=3, memory="pl", model="paper", core="rtl").design
    npu = DEVICES[device](design)
    driver = Driver(npu, compile_program(qnet, design), design, slots=3, patience=PATIENCE)
    driver.load()
    shape = (3, *qnet.network.tensors[qnet.network.input])
    images = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    for slot, image in enumerate(images):
        driver.write_sample(slot, image)
    driver.activate([0, 2])
    driver.run_stage(0)
    driver.run_stage(1)
    driver.activate([1])  # a later sample overtakes nobody: it catches up, then all go on together
    driver.run_stage(0)
    driver.run_stage(1)
    driver.merge([0, 2])
    driver.run_stage(2)
    driver.run_stage(3)
    for index, logits in enumerate(golden.run(qnet, images)):
        np.testing.assert_array_equal(driver.stored_logits([0, 1, 2], index), logits)
