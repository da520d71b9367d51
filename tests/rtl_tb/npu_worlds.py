"""A small network and its design on the whole NPU in RTL, without a driver; what every exit must say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fluidnpu.boards import load_board
from fluidnpu.dse import Design
from fluidnpu.dse.testing import design_for
from fluidnpu.hls import Program, compile_program, register
from fluidnpu.models import QuantisedNetwork, golden, quantise
from fluidnpu.models.zoo import random_network
from fluidnpu.rtl_tb import DramModel, NpuModel, RtlNpu
from fluidnpu.rtl_tb.npu.job import BareNpu

SEED = 0
QNET: QuantisedNetwork = quantise(random_network(SEED, exits=3))
ROOM = ((108, 7),)  # of the NPU: channels and pixels of a pooled row
# The design of tests/host, to the digest, so one build of each core serves both.
DESIGN: Design = (
    design_for(QNET.network.workload, t_r=24, split=True)
    .changed(board="zc706", facts=load_board("zc706"))
    .with_room(ROOM)
)
PROGRAM: Program = compile_program(QNET, DESIGN)
SLOTS = 0x1010_0000
LAYERS = len(DESIGN.layers)


def write(npu: RtlNpu, name: str, value: int) -> None:
    npu.write(register(name).offset, value)


def read(npu: RtlNpu, name: str) -> int:
    return npu.read(register(name).offset)


def npu_of(dram: DramModel = DramModel.IDEAL, edits: tuple[tuple[str, str, str], ...] = ()) -> RtlNpu:
    return RtlNpu(replace(NpuModel.of(DESIGN), edits=edits), dram=dram, memory_bytes=1 << 22)


def run_batch(npu: RtlNpu, batch: int, limit: int = 1_000_000) -> list[npt.NDArray[np.int16]]:
    """Run all layers on images 0..batch-1; every exit's stored logits."""
    shape = QNET.network.tensors[QNET.network.input]
    images = np.random.default_rng(1).integers(0, 256, (batch, *shape), dtype=np.uint8)
    slots = npu.view(SLOTS, batch * PROGRAM.slot_bytes).view(np.int16).reshape(batch, -1)
    for slot, stored in zip(slots, QNET.quantise_input(images), strict=True):
        PROGRAM.write_tensor(slot, PROGRAM.input, stored)
    BareNpu(npu, slots=SLOTS).start(PROGRAM, batch)
    assert npu.run(limit, until_interrupt=True)
    tensors = [exit.tensor for exit in PROGRAM.exits if exit.tensor is not None]
    return [np.stack([PROGRAM.read_tensor(slot, tensor).reshape(-1) for slot in slots]) for tensor in tensors]


def expected(batch: int) -> list[npt.NDArray[np.int16]]:
    shape = QNET.network.tensors[QNET.network.input]
    return golden.run(QNET, np.random.default_rng(1).integers(0, 256, (batch, *shape), dtype=np.uint8))
