"""The RTL as a device for tests: one build serves every random network with no more layers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from fluidnpu.boards import load_board
from fluidnpu.dse import BatchPlan, Design
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import Program, compile_program, register
from fluidnpu.host import Driver
from fluidnpu.host.devices import RtlDevice
from fluidnpu.host.identity import build_id_word
from fluidnpu.models import QuantisedNetwork, quantise
from fluidnpu.models.zoo import random_network
from fluidnpu.rtl_tb import DramModel, NpuModel, RtlNpu

BASE_SEED, EXITS = 0, 3
ROOM = ((108, 7),)  # of the NPU, as in tests/rtl_tb/npu_worlds: channels and pixels of a pooled row
ROUGH = DramModel(
    latency_cycles=37, write_latency_cycles=23, link_words=5.3, total_words=7.1, links=(0, 1, 0),
    refresh_interval_cycles=900, refresh_cycles=60, outstanding=3,
)  # fmt: skip


@cache
def network(seed: int) -> QuantisedNetwork:
    return quantise(random_network(seed, exits=EXITS))


@cache
def pooled() -> QuantisedNetwork:
    """A network of every kind of layer, with a max pool that is merged with the layer before it."""
    return quantise(random_network(72, exits=EXITS, least=10))


@cache
def activated(seed: int) -> QuantisedNetwork:
    """A network whose layers use the activation unit; that of seed 38 uses it in every way."""
    return quantise(random_network(seed, exits=EXITS, activations=True))


Shape = tuple[tuple[str, int | bool | str], ...]
SMALL: Shape = (
    ("t_r", 24),
    ("split", True),
    ("activation", "lut"),
)  # 4 x 8 PEs that can do everything; few rows, so that layers fall into blocks


def design_of(seed: int, plan: BatchPlan | None = None, shape: Shape = SMALL) -> Design:
    design = design_for(network(seed).network.workload, plan=plan, **dict(shape))  # type: ignore[arg-type]
    return design.changed(board="zc706", facts=load_board("zc706")).with_room(ROOM)


@cache
def model(shape: Shape = SMALL, port_bytes: int = 16, core: str = "rtl") -> NpuModel:
    return NpuModel.of(design_of(BASE_SEED, shape=shape), core=core, port_bytes=port_bytes)


class Forged(RtlDevice):
    """An RTL device that claims another design, which differs in layers and plans only."""

    design: Design

    def read(self, offset: int) -> int:
        return build_id_word(self.design) if offset == register("BUILD_ID").offset else super().read(offset)


@dataclass
class RtlWorld:
    """A random network, its program, and a loaded driver on the RTL."""

    qnet: QuantisedNetwork
    design: Design
    program: Program
    device: RtlDevice
    driver: Driver

    def images(self, count: int, seed: int = 0) -> npt.NDArray[np.uint8]:
        shape = self.qnet.network.tensors[self.qnet.network.input]
        return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)

    def put(self, images: npt.NDArray[np.uint8]) -> None:
        """Image i into slot i."""
        for slot, image in enumerate(images):
            self.driver.write_sample(slot, image)


def rtl_world(
    seed: int = BASE_SEED,
    plan: BatchPlan | None = None,
    dram: DramModel = DramModel.IDEAL,
    *,
    shape: Shape = SMALL,
    port_bytes: int = 16,
    noise: int = 1,
    core: str = "rtl",
    qnet: QuantisedNetwork | None = None,
) -> RtlWorld:
    """Load a driver with a program; `qnet` replaces the seed's network and has no more layers."""
    if qnet is None:
        qnet, design = network(seed), design_of(seed, plan, shape)
    else:
        design = design_for(qnet.network.workload, plan=plan, **dict(shape))  # type: ignore[arg-type]
    npu = RtlNpu(model(shape, port_bytes, core), dram=dram, memory_bytes=1 << 22, seed=noise)
    device = Forged(npu, design.clock_hz)
    device.design = design
    program = compile_program(qnet, design)
    # More slots than a batch; patience, since the design's predictions are not meant for this array.
    driver = Driver(device, program, design, slots=design.b_max + 4, patience=20_000)
    driver.load()
    return RtlWorld(qnet, design, program, device, driver)
