"""Small worlds for tests: a random network, its design and program, and a driver on a simulated NPU."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from waiting import PATIENCE_S as PATIENCE_S
from waiting import eventually as eventually

from fluidnpu.dse import BatchPlan, Design, LatencyTable
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import REGISTERS, Program, compile_program, register
from fluidnpu.host import Device, Driver, SimulatedNpu
from fluidnpu.models import QuantisedNetwork, golden, quantise
from fluidnpu.models.exits.rule import confidence
from fluidnpu.models.zoo import random_network
from fluidnpu.scheduler import Request, poisson

Images = npt.NDArray[np.uint8]  # (count, height, width, channels)
HOUR_NS = 3600 * 10**9  # objective or limit of a request that is not about lateness

FIELDS = register("CTRL").fields
CTRL = {field.name: field.mask for field in FIELDS}


def read(device: Device, name: str) -> int:
    return device.read(register(name).offset)


def write(device: Device, name: str, value: int) -> None:
    device.write(register(name).offset, value)


def field(device: Device, of: str, name: str) -> int:
    return register(of).field(name).get(read(device, of))


def snapshot(device: Device, *, but: Sequence[str] = ()) -> dict[str, int]:
    return {register.name: read(device, register.name) for register in REGISTERS if register.name not in but}


class HeldClock:
    """A wall clock in the hands of a test: it stands still until it is moved, and sleepers wait for that."""

    def __init__(self) -> None:
        self._now_ns, self._free, self._changed = 0, False, threading.Condition()
        self.sleeps_until_ns: int | None = None  # of the thread that sleeps

    def now_ns(self) -> int:
        return self._now_ns

    def sleep_until(self, time_ns: int) -> None:
        with self._changed:
            self.sleeps_until_ns = time_ns
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._free or self._now_ns >= time_ns, PATIENCE_S)
            self._now_ns, self.sleeps_until_ns = max(self._now_ns, time_ns), None

    def move(self, time_ns: int) -> None:
        """Let it be this time."""
        with self._changed:
            self._now_ns = time_ns
            self._changed.notify_all()

    def wait_for_sleep(self, time_ns: int) -> None:
        """Return when a thread sleeps until this time."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.sleeps_until_ns == time_ns, PATIENCE_S)

    def let_go(self) -> None:
        """Let it jump from now on, as a virtual clock does."""
        with self._changed:
            self._free = True
            self._changed.notify_all()


@cache
def network(seed: int, exits: int = 2, activations: bool = False, bits: int = 16) -> QuantisedNetwork:
    """A quantised random network whose early exits take about half of random images."""
    qnet = quantise(random_network(seed, exits=exits, activations=activations), bits=bits)
    logits = golden.run(qnet, pixels(qnet, 64, seed=99))
    thresholds = [float(np.median(confidence(qnet.logits(i, stored)))) for i, stored in enumerate(logits)]
    chosen = [replace(one, threshold=limit) for one, limit in zip(qnet.network.exits, thresholds, strict=True)]
    return quantise(replace(qnet.network, exits=tuple(chosen)), bits=bits)


def pixels(qnet: QuantisedNetwork, count: int, seed: int = 0) -> Images:
    shape = qnet.network.tensors[qnet.network.input]
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


@dataclass
class HostWorld:
    """Everything that belongs to one network on one design."""

    qnet: QuantisedNetwork
    design: Design
    program: Program
    npu: SimulatedNpu
    driver: Driver

    def images(self, count: int, seed: int = 0) -> Images:
        return pixels(self.qnet, count, seed)


def design_of(qnet: QuantisedNetwork, *, plan: BatchPlan | None = None, millis: bool = False, **options: Any) -> Design:
    """A small design; its latency is made irregular, so that no test holds by luck of round numbers."""
    design = design_for(qnet.network.workload, plan=plan, **options)
    unit = 200_000 if millis else 1
    rows = tuple(tuple(unit * (7 * ns // 3 + 5 * b + 1) for b, ns in enumerate(row)) for row in design.latency.ns)
    if millis:
        rows = tuple(tuple(unit * (4 + 2 * s + 3 * b) for b in range(design.b_max)) for s in range(design.stages))
    return replace(design, latency=LatencyTable(ns=rows))


def world(seed: int = 3, *, exits: int = 2, slots: int | None = None, loaded: bool = True, **options: Any) -> HostWorld:
    npu_options = {key: options.pop(key) for key in ("clock", "faults", "build", "memory") if key in options}
    qnet = network(seed, exits, "activation" in options, options.get("word_bits", 16))
    design = design_of(qnet, **options)
    program = compile_program(qnet, design)
    npu = SimulatedNpu(design, **npu_options)
    driver = Driver(npu, program, design, slots=slots)
    if loaded:
        driver.load()
    return HostWorld(qnet, design, program, npu, driver)


def traffic_of(w: HostWorld, count: int, load: float = 0.9, slo: float = 4.0, seed: int = 0) -> list[Request]:
    """Poisson arrivals at `load` times the rate of lone samples, with an objective of `slo` lone runs."""
    alone = w.design.latency.between(0, w.design.stages - 1, 1)
    return poisson(load * 1e9 / alone, count, slo_ns=int(slo * alone), rng=np.random.default_rng(seed))


def right(w: HostWorld, batch: int, seed: int = 0) -> None:
    """Run a batch in slots that are not neighbours; hold its logits and saturations to golden."""
    images = w.images(batch, seed=seed)
    slots = sorted(np.random.default_rng(seed).permutation(9)[:batch].tolist())
    for slot, image in zip(slots, images, strict=True):
        w.driver.write_sample(slot, image)
    w.driver.activate(slots)
    saturated = 0
    for stage in range(w.design.stages):
        w.driver.run_stage(stage)
        saturated += read(w.npu, "SATURATIONS")
    logits, counted = golden.run_counting(w.qnet, images)
    for exit_index, wanted in enumerate(logits):
        np.testing.assert_array_equal(w.driver.stored_logits(slots, exit_index), wanted)
    assert saturated == sum(counted.values())
