"""Small designs for the tests and doctests of every room: real `Design` objects, shipped for all to share."""

from __future__ import annotations

from fluidnpu.models import LayerShape, Workload

from .design import BatchPlan, Design, LatencyTable
from .hardware.array import Array, acc_bits_for, ceil_div, input_words


def design_for(
    workload: Workload,
    *,
    t_r: int = 64,
    t_p: int = 4,
    t_c: int = 8,
    b_max: int = 4,
    plan: BatchPlan | None = None,
    stackable: bool = True,
    split: bool = False,
    weight_slots: int = 1,
    out_words: int = 4,
    port_bits: int = 128,
    buffer_words: int = 1 << 20,
    activation: str | None = None,
    word_bits: int = 16,
    field_bits: int = 18,
) -> Design:
    """A design of any size for a workload, with one plan for all layers (default: R-batching).

    `plan.b_r` is lowered to the batch where it is larger; without a plan, b_r = batch. The latency is one ns
    for each GEMM row and P-tile.
    """

    def at(batch: int) -> BatchPlan:
        if plan is None:
            return BatchPlan(b_r=batch)
        return BatchPlan(k=plan.k, b_r=min(plan.b_r, batch), row_lanes=plan.row_lanes, block=plan.block)

    stages = range(len(workload.exits))
    cost = [sum(x.r * ceil_div(x.p, t_p) * x.groups for x in workload.layers if x.stage == s) for s in stages]
    array = Array(
        t_r=t_r,
        t_p=t_p,
        t_c=t_c,
        weight_slots=weight_slots,
        in_words=input_words(t_p, port_bits, stackable=stackable, word_bits=word_bits),
        out_words=out_words,
        stackable=stackable,
        split=split,
        word_bits=word_bits,
        field_bits=field_bits,
    )
    return Design(
        network=workload.name,
        workload_digest=workload.digest,
        board="test",
        clock_hz=100_000_000,
        array=array,
        b_max=b_max,
        layers=workload.layers,
        exits=workload.exits,
        exit_rates=workload.exit_rates,
        plans=tuple(tuple(at(b) for b in range(1, b_max + 1)) for _ in workload.layers),
        latency=LatencyTable(ns=tuple(tuple(c * b for b in range(1, b_max + 1)) for c in cost)),
        published_t_r=t_r,
        port_bits=port_bits,
        buffer_words=buffer_words,
        activation=activation,
        model="paper" if word_bits == 16 else "exact",
        acc_bits=acc_bits_for(word_bits),
    )


def tiny_design(b_max: int = 4) -> Design:
    """Two layers, two stages, 4 x 8 MACs, batches of at most `b_max`.

    >>> tiny_design().latency.ns[0]
    (48, 96, 144, 192)
    """
    layers = (LayerShape(name="conv", r=16, p=9, c=8), LayerShape(name="fc", r=1, p=8, c=4, stage=1))
    return design_for(Workload(name="tiny", layers=layers, exits=("early", "final")), b_max=b_max)
