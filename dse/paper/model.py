"""The `paper` cycle model: cycles of one layer on one design point. Pure whole-number arithmetic.

For a layer <R, P, C> at batch b on <T_R, T_P, T_C>, with P^ = T_P ceil(P / T_P), n_C = ceil(C / T_C),
C^ = T_C n_C, n_R = ceil(b R / T_R):

    compute cycles = ceil(P / T_P) ceil(b R C / T_C)            idle PEs take other rows or samples
    memory words   = max(b R P^ n_C, P^ C^ n_R, b R C^)         inputs, weights, outputs, each on its own port
    time           = max(compute cycles, memory words / W)      W: 16-bit words a cycle

and with k = 2 the same on <T_R // 2, 2 T_P, T_C // 2>; each layer and batch takes the faster k. The form is
a fit to Table I of Fluid Batching, whose text gives the tiles, Eq. 1-2 and "analytical and roofline
modelling" but neither traffic nor bandwidth: good for that table, and nothing else should be built on it.
`groups` repeat a layer one after another. Pools have no multiply-accumulates and take no time here (latency
tables do count them); the residual operand of an add is not counted either.

Times are whole **ticks** of 1/W cycle, so that nothing is ever rounded: time in ticks = max(W * compute
cycles, memory words).

Worked example, one image on <4652, 7, 128> with W = 8: 576 = 83 tiles of 7 less 5, 64 columns are half an
array, so two rows share a beat:

>>> from fluidnpu.models import LayerShape
>>> layer = LayerShape(name="conv", r=3136, p=576, c=64)
>>> point = Point(t_r=4652, t_p=7, t_c=128)
>>> compute_cycles(layer, point, batch=1)      # 83 * ceil(3136 * 64 / 128)
130144
>>> memory_words(layer, point, batch=1)        # inputs: 3136 * 581 * 1
1822016
>>> layer_ticks(layer, point, batch=1, words_per_cycle=8)    # memory-bound: 8 * 130144 < 1822016
1822016
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from fluidnpu.models import Kind, LayerShape

from ..design import Stack
from ..errors import DesignError
from ..hardware.array import ceil_div
from ..hardware.space import Point


class Batching(str, Enum):
    """Ways of batching that the paper compares: where samples of a batch lie on the PEs.

    FLUID is the paper model's own term. R and P are Eq. 1 with B_R = b and B_R = 1. FC batches only layers
    with a single row and runs the others sample by sample. Eq. 1 with the best B_R would be P again: see
    `eq1_cycles`.
    """

    __str__ = str.__str__  # as of enum.StrEnum, which Python 3.10 lacks

    FLUID = "fluid"
    R = "r"
    P = "p"
    FC = "fc"


def compute_cycles(layer: LayerShape, point: Point, batch: int, batching: Batching = Batching.FLUID) -> int:
    """Cycles of the PE array for one group of a GEMM layer if memory is never waited for.

    Eq. 1 of Fluid Batching puts B_R samples along the rows and leaves (b - B_R + 1) side by side.
    """
    tiles = ceil_div(layer.p, point.t_p)
    match batching:
        case Batching.FLUID:
            return tiles * ceil_div(batch * layer.r * layer.c, point.t_c)
        case Batching.R:
            return eq1_cycles(layer, point, batch, batch)
        case Batching.P:
            return eq1_cycles(layer, point, batch, 1)
        case Batching.FC:
            return batch * eq1_cycles(layer, point, 1, 1) if layer.r > 1 else eq1_cycles(layer, point, batch, batch)


def eq1_cycles(layer: LayerShape, point: Point, batch: int, b_r: int) -> int:
    """Cycles of Eq. 1 as printed: B_R R rows, with (b - B_R + 1) C columns asked of T_C PEs.

    B_R = 1 is always among the cheapest, since B_R (b - B_R + 1) >= b: the hybrids of Eq. 1 provide more
    places than there are samples.
    """
    return b_r * layer.r * ceil_div(layer.p, point.t_p) * ceil_div((batch - b_r + 1) * layer.c, point.t_c)


def memory_words(layer: LayerShape, point: Point, batch: int) -> int:
    """Words on the busiest of the three ports for one group of a GEMM layer."""
    padded_p = point.t_p * ceil_div(layer.p, point.t_p)
    column_tiles = ceil_div(layer.c, point.t_c)
    padded_c = point.t_c * column_tiles
    rows = batch * layer.r
    inputs = rows * padded_p * column_tiles
    weights = padded_p * padded_c * ceil_div(rows, point.t_r)
    outputs = rows * padded_c
    return max(inputs, weights, outputs)


def layer_ticks(
    layer: LayerShape,
    point: Point,
    batch: int,
    words_per_cycle: int,
    stack: Stack = Stack.ONE,
    *,
    batching: Batching = Batching.FLUID,
) -> int:
    """Ticks (1/W cycle) of a layer at one k, all groups; none of a pool. Raises DesignError without that
    k.
    """
    if layer.kind is not Kind.GEMM:
        return 0
    if stack is Stack.HALF:
        raise DesignError("the paper model knows k = 1 and k = 2, not k = 1/2")
    shape = point if stack is Stack.ONE else point.stacked()
    if shape is None:
        raise DesignError(f"k = 2 needs at least two PEs and two rows, not {point}")
    if batching is Batching.FC and layer.r > 1:  # sample by sample: weights are read again for each
        sample = max(words_per_cycle * compute_cycles(layer, shape, 1, Batching.R), memory_words(layer, shape, 1))
        return layer.groups * batch * sample
    compute = words_per_cycle * compute_cycles(layer, shape, batch, batching)
    return layer.groups * max(compute, memory_words(layer, shape, batch))


def best_stack(
    layer: LayerShape,
    point: Point,
    batch: int,
    words_per_cycle: int,
    *,
    batching: Batching = Batching.FLUID,
    stackable: bool = True,
) -> tuple[Stack, int]:
    """The faster k and its ticks; k = 1 where both take the same time, since it switches nothing."""
    plain = layer_ticks(layer, point, batch, words_per_cycle, Stack.ONE, batching=batching)
    if not stackable or layer.kind is not Kind.GEMM or point.stacked() is None:
        return Stack.ONE, plain
    stacked = layer_ticks(layer, point, batch, words_per_cycle, Stack.TWO, batching=batching)
    return (Stack.TWO, stacked) if stacked < plain else (Stack.ONE, plain)


def total_ticks(
    layers: Iterable[LayerShape],
    point: Point,
    batch: int,
    words_per_cycle: int,
    *,
    batching: Batching = Batching.FLUID,
    stackable: bool = True,
) -> int:
    """Ticks of all layers one after another, each at its better k.

    The plain form, which the search's vectorised one must equal.
    """
    return sum(
        count * best_stack(layer, point, batch, words_per_cycle, batching=batching, stackable=stackable)[1]
        for layer, count in distinct(layers).items()
    )


def distinct(layers: Iterable[LayerShape]) -> Counter[LayerShape]:
    """GEMM layers that differ in shape, each with its count, in order of first appearance.

    Names and stages are dropped.

    >>> shape = dict(r=4, p=9, c=2)
    >>> list(distinct([LayerShape(name="a", **shape), LayerShape(name="b", **shape)]).values())
    [2]
    """
    return Counter(
        LayerShape(name="", r=layer.r, p=layer.p, c=layer.c, groups=layer.groups)
        for layer in layers
        if layer.kind is Kind.GEMM
    )


def gops(macs: float, batch: int, ticks: float, clock_hz: int, words_per_cycle: int) -> float:
    """T(d, b) of Eq. 2 in GOP/s: two operations a multiply-accumulate, `batch` samples in `ticks`.

    >>> gops(macs=1000, batch=1, ticks=16, clock_hz=100_000_000, words_per_cycle=8)  # in two cycles
    100.0
    """
    return operations_rate(macs, batch, clock_hz, words_per_cycle) / ticks


def operations_rate(macs: float, batch: int, clock_hz: int, words_per_cycle: int) -> float:
    """GOP/s times ticks: the factor of `gops` that does not depend on the design point."""
    return 2 * batch * macs * words_per_cycle * clock_hz / 1e9
