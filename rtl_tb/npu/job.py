"""A job on the RTL of an NPU without a driver, and the same job in the exact cycle model.

Samples are zeros, since time does not depend on data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from fluidnpu.dse import Design, DramModel
from fluidnpu.dse.exact import LayerCycles, Machine, job_cycles
from fluidnpu.hls import Program, register
from fluidnpu.hls.program import layer_jobs

from .device import LayerRun, RtlNpu
from .model import NpuModel

WEIGHTS = 0x1000_0000
SLOTS = 0x2000_0000
LAYERS = 128  # room of the FBCB: one build serves every network on an array
LIMIT = 1 << 34  # cycles of a job


def shared_model(design: Design, core: str = "rtl") -> NpuModel:
    """One build for all networks on a design's array, with one of `dse.CORES`."""
    model = NpuModel.of(design, core=core)
    return replace(model, parameters={**model.parameters, "Layers": LAYERS, "BuildId": 1})


class BareNpu:
    """One NPU in RTL, driven by its registers alone; `slots` is the address of its first slot."""

    def __init__(self, npu: RtlNpu, *, slots: int = SLOTS) -> None:
        self.npu, self.slots = npu, slots
        self.machine = npu.model.machine

    @classmethod
    def of(cls, design: Design, dram: DramModel, core: str = "rtl") -> BareNpu:
        """The array of a design with a core, behind a memory large enough for full-size networks."""
        return cls(RtlNpu(shared_model(design, core), dram=dram, memory_bytes=1 << 30))

    def start(self, program: Program, batch: int, layers: range | None = None) -> None:
        """Load a program, merge `batch` samples into the empty batch and start its layers, all by default."""
        image = np.frombuffer(program.image(), np.uint8)
        self.npu.view(WEIGHTS, len(image))[:] = image
        count = len(program.descriptors)
        layers = range(count) if layers is None else layers
        self._write(
            PROGRAM_LO=WEIGHTS, WEIGHTS_LO=WEIGHTS + program.weights_offset, SLOT_BASE_LO=self.slots,
            SLOT_BYTES=program.slot_bytes, LAYERS=count, FIRST_LAYER=layers[0], LAST_LAYER=layers[-1],
            IRQ_ENABLE=3, IRQ_STATUS=3, FBCB_INDEX=0,
        )  # fmt: skip
        for word in program.fbcb_words:
            self._write(FBCB_DATA=word)
        active = self.npu.read(register("ACTIVE").offset)
        if active:
            self._command("EXIT", active)
        self._command("MERGE", (1 << batch) - 1)
        self.npu.take_layers()
        self._command("START")

    def run(self, program: Program, batch: int, layers: range | None = None) -> list[LayerRun]:
        """Run layers of a program as one job on `batch` samples. Raises RuntimeError when it does not end
        well.
        """
        self.start(program, batch, layers)
        if not self.npu.run(LIMIT, until_interrupt=True) or self.npu.read(register("ERROR").offset):
            raise RuntimeError("the job must end without an error, and it does not")
        return self.npu.take_layers()

    def both(
        self, program: Program, design: Design, batch: int, layers: range | None = None
    ) -> list[tuple[LayerRun, LayerCycles]]:
        """Run layers on the RTL and in the exact model: (run, cycles) of each."""
        runs = self.run(program, batch, layers)
        jobs = layer_jobs(program, design, batch, address=WEIGHTS)
        cycles = job_cycles(
            [jobs[run.layer] for run in runs],
            _slots(program, batch, self.slots),
            self.machine,
            self.npu.dram,
            first_cycle=runs[0].start_cycle,
            limit=4 * sum(run.cycles for run in runs),
        )
        return list(zip(runs, cycles, strict=True))

    def _write(self, **registers: int) -> None:
        for name, value in registers.items():
            self.npu.write(register(name).offset, value)

    def _command(self, name: str, mask: int | None = None) -> None:
        if mask is not None:
            self._write(SLOT_MASK=mask)
        self._write(CTRL=register("CTRL").field(name).mask)


def modelled(
    program: Program, design: Design, dram: DramModel, batch: int, *, core: str = "rtl", first_cycle: int = 0
) -> Sequence[LayerCycles]:
    """The job of `BareNpu.of(design, dram, core)` in the exact model alone.

    It begins in `first_cycle` after reset.
    """
    jobs = layer_jobs(program, design, batch, address=WEIGHTS)
    return job_cycles(jobs, _slots(program, batch, SLOTS), Machine.of(design, core), dram, first_cycle=first_cycle)


def differences(run: LayerRun, cycles: LayerCycles) -> dict[str, tuple[object, object]]:
    """Cycles, beats and bursts of a layer that differ: (RTL, model) by name."""
    both = {field.name: (getattr(run, field.name), getattr(cycles, field.name)) for field in fields(LayerCycles)}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def _slots(program: Program, batch: int, base: int) -> list[int]:
    return [base + index * program.slot_bytes for index in range(batch)]
