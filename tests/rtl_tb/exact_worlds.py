"""Designs whose plans are drawn, and the comparison of their jobs on RTL with the exact model."""

from __future__ import annotations

import random
from dataclasses import replace

from fluidnpu.dse import BatchPlan, Design, DramModel
from fluidnpu.dse.design import Stack
from fluidnpu.dse.hardware import needed_bytes
from fluidnpu.hls import compile_program
from fluidnpu.models import Kind, LayerShape, QuantisedNetwork
from fluidnpu.rtl_tb import NpuModel, RtlNpu
from fluidnpu.rtl_tb.npu.job import WEIGHTS, BareNpu, differences


def small_npu(model: NpuModel, dram: DramModel = DramModel.IDEAL, memory_bytes: int = 1 << 22) -> BareNpu:
    """An NPU for small networks: its slots follow their weights closely."""
    return BareNpu(RtlNpu(model, dram=dram, memory_bytes=memory_bytes), slots=WEIGHTS + 0x10_0000)


def random_joins(design: Design, seed: int) -> tuple[int, ...]:
    """A number of groups to compute as one for each layer."""
    rng = random.Random(f"joins {seed}")
    return tuple(
        rng.choice([n for n in range(1, layer.groups + 1) if layer.groups % n == 0]) for layer in design.layers
    )


def random_plans(design: Design, seed: int) -> Design:
    """The design with another FBCB and other joined groups: every mode and block that it may have."""
    rng = random.Random(seed)

    def plan(layer: LayerShape, batch: int) -> BatchPlan:
        kind = layer.kind
        ways: list[tuple[Stack, int, bool]] = [(Stack.ONE, batch, False)]
        if kind is Kind.GEMM and design.stackable:
            ways += [(Stack.TWO, batch, False), (Stack.ONE, batch, True)]
            by_samples = range(-(-batch // 2), batch if layer.behind is None else 0)
            ways += [(Stack.ONE, b_r, False) for b_r in by_samples]
        if kind is Kind.GEMM and design.split:
            ways.append((Stack.HALF, batch, False))
        k, b_r, row_lanes = rng.choice(ways)
        deepest = design.t_r // 2 if k is Stack.HALF else design.t_r
        block = rng.choice((deepest, rng.randint(1, deepest)))
        size, room = design.word_bytes, design.word_bytes * design.buffer_words
        while needed_bytes(layer, batch=batch, block=block, row_lanes=row_lanes, b_r=b_r, word_bytes=size) > room:
            assert block > 1, f"no block of {layer} fits"
            block //= 2
        return BatchPlan(k=k, b_r=b_r, row_lanes=row_lanes, block=block)

    rows = (tuple(plan(layer, b) for b in range(1, design.b_max + 1)) for layer in design.layers)
    return replace(design, plans=tuple(rows), joins=random_joins(design, seed))


def check(npu: BareNpu, qnet: QuantisedNetwork, design: Design, batches: range) -> int:
    """Cycles compared; AssertionError names the first layer that differs and all that differs in it."""
    program, cycles = compile_program(qnet, design), 0
    for batch in batches:
        for run, found in npu.both(program, design, batch):
            wrong = differences(run, found)
            layer = design.layers[run.layer]
            assert not wrong, (layer, design.plans[run.layer][batch - 1], batch, npu.npu.dram, wrong)
            cycles += run.cycles
    return cycles
