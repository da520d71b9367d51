"""The plans of the `paper` model: k and B_R of each layer and batch size, as the FBCB holds them.

Two readings stand side by side. `published_plan` is Eq. 1 of Fluid Batching as printed, with B_R anywhere in
1..b. `buildable_plan` is for two lanes (ADR 4): all samples along the rows, or half of them in each lane, so
B_R is b or ceil(b / 2).

>>> from fluidnpu.models import LayerShape
>>> layer, point = LayerShape(name="fc", r=1, p=8, c=10), Point(t_r=64, t_p=8, t_c=32)
>>> [published_plan(layer, point, b, words_per_cycle=8).b_r for b in (1, 2, 3, 4)]
[1, 1, 1, 2]
>>> [buildable_plan(layer, point, b, words_per_cycle=8).b_r for b in (1, 2, 3, 4)]
[1, 1, 2, 2]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fluidnpu.models import Kind, LayerShape

from ..design import BatchPlan, Plans, Stack
from ..hardware.array import ceil_div
from ..hardware.space import Point
from .model import best_stack, eq1_cycles

Plan = Callable[[LayerShape, Point, int, int], BatchPlan]


def published_plan(layer: LayerShape, point: Point, batch: int, words_per_cycle: int) -> BatchPlan:
    """The faster k; with k = 1 the B_R in 1..b of fewest Eq. 1 cycles, else b. Pools: k = 1, B_R = b.

    Ties go to the larger B_R: samples along the rows share one weight tile, so they are never worse for
    memory than samples side by side. Since B_R = 1 never loses (`model.eq1_cycles`), this is the largest B_R
    that wastes nothing.
    """
    stack, _ = best_stack(layer, point, batch, words_per_cycle)
    if layer.kind is not Kind.GEMM or stack is Stack.TWO:
        return BatchPlan(k=stack, b_r=batch)
    b_r = min(range(batch, 0, -1), key=lambda rows: eq1_cycles(layer, point, batch, rows))
    return BatchPlan(k=stack, b_r=b_r)


def buildable_plan(layer: LayerShape, point: Point, batch: int, words_per_cycle: int) -> BatchPlan:
    """As `published_plan` for two lanes of T_C // 2 columns: B_R is b, or ceil(b / 2) if that is faster."""
    stack, _ = best_stack(layer, point, batch, words_per_cycle)
    if layer.kind is not Kind.GEMM or stack is Stack.TWO or point.t_c < 2:
        return BatchPlan(k=stack, b_r=batch)
    half = ceil_div(batch, 2)
    along_rows = batch * ceil_div(layer.c, point.t_c)
    in_lanes = half * ceil_div(layer.c, point.t_c // 2)
    return BatchPlan(k=stack, b_r=half if in_lanes < along_rows else batch)


def plan_all(layers: Sequence[LayerShape], point: Point, b_max: int, words_per_cycle: int, plan: Plan) -> Plans:
    """The whole block: one row a layer, one plan for each batch size 1..b_max."""
    return tuple(tuple(plan(layer, point, b, words_per_cycle) for b in range(1, b_max + 1)) for layer in layers)
