"""A bare job on the RTL of an NPU, without a driver, and the same job in the exact model. Samples are zeros: time does not depend on data."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from fluidnpu.dse import Design, DramModel
from fluidnpu.dse.exact import LayerCycles, Machine, job_cycles
from fluidnpu.hls import Program, by_name, layer_jobs

from .npu import LayerRun, NpuModel, RtlNpu

WEIGHTS = 0x1000_0000
SLOTS = 0x2000_0000
LAYERS = 128  # room of the FBCB: one build serves every network on an array


class BareNpu:
    """The array of a design in RTL behind a memory."""

    def __init__(self, design: Design, dram: DramModel) -> None:
        model = NpuModel.of(design)
        model = replace(model, parameters={**model.parameters, "Layers": LAYERS, "BuildId": 1})
        self.npu = RtlNpu(model, dram=dram, memory_bytes=1 << 30)

    def _write(self, **registers: int) -> None:
        for name, value in registers.items():
            self.npu.write(by_name(name).offset, value)

    def _command(self, name: str, mask: int | None = None) -> None:
        if mask is not None:
            self._write(SLOT_MASK=mask)
        self._write(CTRL=by_name("CTRL").field(name).mask)

    def run(self, program: Program, batch: int) -> list[LayerRun]:
        """Every layer of one job; RuntimeError when it does not end well."""
        image = np.frombuffer(program.image(), np.uint8)
        self.npu.view(WEIGHTS, len(image))[:] = image
        count = len(program.descriptors)
        self._write(
            PROGRAM_LO=WEIGHTS, WEIGHTS_LO=WEIGHTS + program.weights_offset, SLOT_BASE_LO=SLOTS, SLOT_BYTES=program.slot_bytes,
            LAYERS=count, FIRST_LAYER=0, LAST_LAYER=count - 1, IRQ_ENABLE=3, IRQ_STATUS=3, FBCB_INDEX=0,
        )  # fmt: skip
        for word in program.fbcb_words:
            self._write(FBCB_DATA=word)
        active = self.npu.read(by_name("ACTIVE").offset)
        if active:
            self._command("EXIT", active)
        self._command("MERGE", (1 << batch) - 1)
        self.npu.take_layers()
        self._command("START")
        if not self.npu.run(1 << 34, until_interrupt=True) or self.npu.read(by_name("ERROR").offset):
            raise RuntimeError("the job must end without an error, and it does not")
        return self.npu.take_layers()


def modelled(
    program: Program, design: Design, dram: DramModel, batch: int, *, first_cycle: int = 0
) -> tuple[LayerCycles, ...]:
    """The same job in the exact model, begun in `first_cycle` after reset."""
    slots = [SLOTS + index * program.slot_bytes for index in range(batch)]
    jobs = layer_jobs(program, design, batch, address=WEIGHTS)
    return job_cycles(jobs, slots, Machine.of(design), dram, first_cycle=first_cycle)


def differs(run: LayerRun, found: LayerCycles) -> bool:
    """Whether a layer took other cycles, or other beats or bursts, on the RTL than in the model."""
    return any(getattr(run, field.name) != getattr(found, field.name) for field in fields(LayerCycles))
