"""What the tests of the exact model run on RTL: a job without a driver, and designs whose plans are drawn."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import numpy as np

from fluidnpu.dse import BatchPlan, Design, Stack
from fluidnpu.dse.exact import LayerCycles, Machine, job_cycles
from fluidnpu.dse.hardware import needed_bytes
from fluidnpu.hls import Program, by_name, compile_program, layer_jobs
from fluidnpu.models import Kind, LayerShape, QuantisedNetwork
from fluidnpu.rtl_tb import LayerRun, NpuModel, RtlNpu

WEIGHTS = 0x1000_0000


class Bench:
    """One NPU in RTL and the exact model beside it."""

    def __init__(self, npu: RtlNpu, slots: int = WEIGHTS + 0x10_0000) -> None:
        self.npu, self.slots = npu, slots
        self.machine = Machine.of_parameters(npu.model.parameters)

    def _write(self, name: str, value: int) -> None:
        self.npu.write(by_name(name).offset, value)

    def _command(self, name: str) -> None:
        self._write("CTRL", by_name("CTRL").field(name).mask)

    def run(self, program: Program, batch: int, layers: range | None = None) -> list[LayerRun]:
        """Layers of a program (all by default) as one job on `batch` samples of zeros: time does not depend on data."""
        image = np.frombuffer(program.image(), np.uint8)
        self.npu.view(WEIGHTS, len(image))[:] = image
        every = len(program.descriptors)
        layers = range(every) if layers is None else layers
        addresses = {"PROGRAM_LO": WEIGHTS, "WEIGHTS_LO": WEIGHTS + program.weights_offset, "SLOT_BASE_LO": self.slots}
        numbers = {
            "SLOT_BYTES": program.slot_bytes,
            "LAYERS": every,
            "FIRST_LAYER": layers[0],
            "LAST_LAYER": layers[-1],
        }
        numbers |= {"IRQ_ENABLE": 3, "IRQ_STATUS": 3}
        for name, value in (addresses | numbers | {"FBCB_INDEX": 0}).items():
            self._write(name, value)
        for word in program.fbcb_words:
            self._write("FBCB_DATA", word)
        active = self.npu.read(by_name("ACTIVE").offset)
        if active:
            self._write("SLOT_MASK", active)
            self._command("EXIT")
        self._write("SLOT_MASK", (1 << batch) - 1)
        self._command("MERGE")
        self.npu.take_layers()
        self._command("START")
        assert self.npu.run(500_000_000, until_interrupt=True)
        assert self.npu.read(by_name("ERROR").offset) == 0
        return self.npu.take_layers()

    def both(
        self, program: Program, design: Design, batch: int, layers: range | None = None
    ) -> list[tuple[LayerRun, LayerCycles]]:
        """Every layer as the RTL ran it and as the model has it."""
        runs = self.run(program, batch, layers)
        jobs = layer_jobs(program, design, batch, address=WEIGHTS)
        found = job_cycles(
            [jobs[run.layer] for run in runs],
            [self.slots + index * program.slot_bytes for index in range(batch)],
            self.machine,
            self.npu.dram,
            first_cycle=runs[0].start_cycle,
            limit=4 * sum(run.cycles for run in runs),
        )
        return list(zip(runs, found, strict=True))


def differences(run: LayerRun, found: LayerCycles) -> dict[str, tuple[object, object]]:
    """What differs: (RTL, model) by name."""
    both = {field.name: (getattr(run, field.name), getattr(found, field.name)) for field in fields(LayerCycles)}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def shared_model(design: Design, **memory: int) -> NpuModel:
    """One build for all networks on a design's array."""
    model = NpuModel.of(design, **memory)
    return replace(model, parameters={**model.parameters, "Layers": 64, "BuildId": 1})


def random_plans(design: Design, seed: int) -> Design:
    """The design with another FBCB: every mode and block that it may have."""
    rng = random.Random(seed)

    def plan(layer: LayerShape, batch: int) -> BatchPlan:
        kind = layer.kind
        ways: list[tuple[Stack, int, bool]] = [(Stack.ONE, batch, False)]
        if kind is Kind.GEMM and design.stackable:
            ways += [(Stack.TWO, batch, False), (Stack.ONE, batch, True)]
            ways += [(Stack.ONE, b_r, False) for b_r in range(-(-batch // 2), batch)]
        if kind is Kind.GEMM and design.split:
            ways.append((Stack.HALF, batch, False))
        k, b_r, row_lanes = rng.choice(ways)
        deepest = design.t_r // 2 if k is Stack.HALF else design.t_r
        block = rng.choice((deepest, rng.randint(1, deepest)))
        while needed_bytes(layer, batch=batch, block=block, row_lanes=row_lanes, b_r=b_r) > 2 * design.buffer_words:
            assert block > 1, f"no block of {layer} fits"
            block //= 2
        return BatchPlan(k=k, b_r=b_r, row_lanes=row_lanes, block=block)

    rows = (tuple(plan(layer, b) for b in range(1, design.b_max + 1)) for layer in design.layers)
    return replace(design, plans=tuple(rows))


def check(bench: Bench, qnet: QuantisedNetwork, design: Design, batches: range) -> int:
    """Cycles compared; AssertionError names the first layer that differs and all that differs in it."""
    program, cycles = compile_program(qnet, design), 0
    for batch in batches:
        for run, found in bench.both(program, design, batch):
            wrong = differences(run, found)
            layer = design.layers[run.layer]
            assert not wrong, (layer, design.plans[run.layer][batch - 1], batch, bench.npu.dram, wrong)
            cycles += run.cycles
    return cycles
