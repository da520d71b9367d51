"""The per-exit latency table of a design: whole nanoseconds for each stage and batch size. Pure arithmetic.

GEMM layers take the time of the `paper` model. That model has no pools, so they are an addition of ours: a
pool costs the core R * P * ceil(C / W) cycles a sample (ADR 4: one beat a tap, W channels a beat), about half
of it if it is a max pool, and nothing overlaps it.

>>> from fluidnpu.dse.testing import tiny_design
>>> latency_table(tiny_design()).ns
((480, 960, 1440, 1920), (80, 80, 80, 80))
"""

from __future__ import annotations

from collections.abc import Sequence

from fluidnpu.models import Kind, LayerShape

from ..design import Design, LatencyTable
from ..hardware.array import ceil_div, pool_beats
from ..hardware.space import Point
from .model import Batching, best_stack

POOL_NOTE = "pools cost R * P * ceil(C / W) cycles a sample, W words a beat, max pools about half: an addition to the paper model, which has none"


def pool_cycles(layer: LayerShape, input_words: int) -> int:
    """Cycles of one sample of a pool, one tap a beat or two taps of a max pool; zero for a GEMM.

    >>> pool_cycles(LayerShape(name="pool", r=3136, p=9, c=64, kind=Kind.MAX_POOL), input_words=14)
    78400
    """
    beats = pool_beats(layer.p, maximum=layer.kind is Kind.MAX_POOL)
    return 0 if layer.kind is Kind.GEMM else layer.r * beats * ceil_div(layer.c, input_words)


def stage_latency(
    layers: Sequence[LayerShape],
    point: Point,
    *,
    clock_hz: int,
    words_per_cycle: int,
    b_max: int,
    batching: Batching = Batching.FLUID,
    stackable: bool = True,
    input_words: int | None = None,
) -> LatencyTable:
    """Nanoseconds of each stage of `layers` at batch 1..b_max, rounded up, never falling with the batch.

    `input_words`: of a beat, two lanes by default.
    """
    words = 2 * point.t_p if input_words is None else input_words
    stages = max(layer.stage for layer in layers) + 1
    ticks = [[0] * b_max for _ in range(stages)]
    for layer in layers:
        for b in range(1, b_max + 1):
            gemm = best_stack(layer, point, b, words_per_cycle, batching=batching, stackable=stackable)[1]
            ticks[layer.stage][b - 1] += gemm + b * words_per_cycle * pool_cycles(layer, words)
    per_second = clock_hz * words_per_cycle
    return LatencyTable(ns=tuple(tuple(ceil_div(value * 10**9, per_second) for value in row) for row in ticks))


def latency_table(design: Design, batching: Batching | str = Batching.FLUID) -> LatencyTable:
    """The table of a design under another way of batching, for the scheduler's baselines.

    "fluid" is the design's own; "r" puts all samples along the rows with k = 1 and lets idle PEs idle; "fc"
    batches only layers with a single row, with k = 1; "p" puts them side by side with k = 1. Words a cycle
    are `design.out_words`, which is the board's figure by construction.
    """
    asked = Batching(batching)
    return stage_latency(
        design.lowered_layers,
        Point(t_r=design.t_r, t_p=design.t_p, t_c=design.t_c),
        clock_hz=design.clock_hz,
        words_per_cycle=design.out_words,
        b_max=design.b_max,
        batching=asked,
        stackable=design.stackable and asked is Batching.FLUID,
        input_words=design.input_words,
    )
