"""Two random networks side by side on one NPU, simulated or in Verilator, and what each gives alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from host_worlds import design_of, network, pixels

from fluidnpu.dse import Design
from fluidnpu.hls import Program, compile_program
from fluidnpu.host import Device, Driver, SimulatedNpu
from fluidnpu.models import QuantisedNetwork, golden

SEEDS, EXITS = (4, 16), 2  # together as many layers as the RTL build of `rtl_worlds` has, so that it serves both
NAMES = ("doors", "cameras")


@dataclass
class PairWorld:
    """Two networks, their programs, and one loaded driver for both."""

    qnets: tuple[QuantisedNetwork, ...]
    design: Design
    programs: tuple[Program, ...]
    device: Device
    driver: Driver

    def images(self, which: int, count: int, seed: int = 0) -> npt.NDArray[np.uint8]:
        return pixels(self.qnets[which], count, seed)

    def golden(self, which: int, images: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.int16]]:
        return golden.run(self.qnets[which], images)


def joint_design(seeds: Sequence[int] = SEEDS, *, millis: bool = False, **options: Any) -> Design:
    designs = [
        replace(design_of(network(seed, EXITS), millis=millis, **options), network=name)
        for seed, name in zip(seeds, NAMES, strict=True)
    ]
    return Design.joined(designs)


def pair(
    device: Device | None = None,
    *,
    seeds: Sequence[int] = SEEDS,
    slots: Sequence[int] | None = None,
    guarded: bool = False,
    millis: bool = False,
    patience: float = 16.0,
    **options: Any,
) -> PairWorld:
    design = joint_design(seeds, millis=millis, **options)
    qnets = tuple(network(seed, EXITS) for seed in seeds)
    programs = tuple(compile_program(qnet, design.part(index)) for index, qnet in enumerate(qnets))
    device = SimulatedNpu(design) if device is None else device
    driver = Driver(device, programs, design, slots=slots, guarded=guarded, patience=patience)
    driver.load()
    return PairWorld(qnets, design, programs, device, driver)


def any_company(w: PairWorld, rng: np.random.Generator, count: int = 4) -> int:
    """Run samples of both networks in random company until all have left; return the changes of network.

    After every run all results that are there so far must equal those of the golden model.
    """
    driver, side = w.driver, w.driver.networks({})
    images = [w.images(which, count, seed=which) for which in (0, 1)]
    expected = [w.golden(which, mine) for which, mine in enumerate(images)]
    for which, mine in enumerate(images):
        for slot, image in zip(driver.slots_of[which], mine, strict=False):
            driver.write_sample(slot, image)
    reached, last, changes = np.zeros((2, count), int), -1, 0
    while (reached < EXITS).any():
        which, sample = rng.choice(np.argwhere(reached < EXITS))
        stage = reached[which, sample]
        there = np.flatnonzero(reached[which] == stage)
        chosen = np.sort(rng.permutation(there)[: rng.integers(1, 1 + min(len(there), w.design.b_max))])
        slots = [driver.slots_of[which][index] for index in chosen]
        driver.activate(slots)
        driver.run_stage(side.first[which] + stage)
        reached[which, chosen] += 1
        changes += last not in (-1, which)
        last = which
        for other in (0, 1):
            for index, done in enumerate(reached[other]):
                for exit in range(done):
                    found = driver.stored_logits([driver.slots_of[other][index]], side.first[other] + exit)
                    np.testing.assert_array_equal(found[0], expected[other][exit][index])
    return changes
