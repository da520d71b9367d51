"""FBCB words: how a layer runs at one active batch size, as the hardware reads it (ADR 5). Pure arithmetic.

>>> from fluidnpu.dse import BatchPlan, Mode
>>> word = encode_fbcb(Mode.LANES, BatchPlan(b_r=2), batch=3)
>>> decode_fbcb(word, kind=0, batch=3, t_r=64, stackable=True)
FbcbEntry(mode=<Mode.LANES: 2>, batch=3, b_r=2, block=64, row_lanes=False)
"""

from __future__ import annotations

from dataclasses import dataclass

from fluidnpu.dse import BatchPlan, Design, Mode

from ..errors import FbcbError
from ..formats.table import FBCB, KindCode, StackCode
from .descriptor import Descriptor


@dataclass(frozen=True)
class FbcbEntry:
    """A decoded FBCB word: the core's mode, and the samples or rows that share a beat.

    With LANES by samples, lane 0 holds samples 0..b_r-1 and lane 1 the rest; with `row_lanes`, rows 2i and
    2i+1 share a beat. `block`: beats of a row block, the last one of a layer may be shorter.
    """

    mode: Mode
    batch: int
    b_r: int
    block: int
    row_lanes: bool = False


def encode_fbcb(mode: Mode, plan: BatchPlan, batch: int) -> int:
    """The FBCB word of a layer that runs in `mode`; fields that a mode ignores are written as for R-batching.

    >>> encode_fbcb(Mode.NORMAL, BatchPlan(b_r=1, block=5), batch=4) == 0 | 3 << 2 | 5 << 7
    True
    """
    lanes_by_samples = mode is Mode.LANES and not plan.row_lanes
    k = {Mode.WIDE: StackCode.TWO, Mode.SPLIT: StackCode.HALF}.get(mode, StackCode.ONE)
    if mode is Mode.LANES and plan.row_lanes:
        k = StackCode.ROW_LANES
    b_r = plan.b_r if lanes_by_samples else batch
    return FBCB.pack({"k": k, "b_r": b_r - 1, "block": plan.block})


def decode_fbcb(
    word: int, *, kind: int, batch: int, t_r: int, stackable: bool, split: bool = False, ordered: bool = False
) -> FbcbEntry:
    """Decode an FBCB word for a layer of `kind` (a `KindCode`). Raises FbcbError where hardware sets
    BAD_FBCB.

    `ordered`: the layer's outputs pass a pool or a filter in the order of the image.
    """
    k, b_r = StackCode(FBCB.number("k", word)), FBCB.number("b_r", word) + 1
    if not 1 <= b_r <= batch or (2 * b_r < batch and k == StackCode.ONE):
        raise FbcbError(
            f"b_r must lie in {-(-batch // 2)}..{batch} at batch {batch}, since there are two lanes, not {b_r}"
        )
    if k in (StackCode.TWO, StackCode.ROW_LANES) and not stackable:
        raise FbcbError(f"k code {k} needs stackable PEs, which this NPU was built without")
    if k == StackCode.HALF and not split:
        raise FbcbError("k = 1/2 needs split trees, which this NPU was built without")
    deepest = deepest_block(Mode.SPLIT if k == StackCode.HALF and kind == KindCode.GEMM else Mode.NORMAL, t_r)
    block = FBCB.number("block", word) or deepest
    if block > deepest:
        raise FbcbError(
            f"a row block must have at most {deepest} beats, which is what an accumulator bank holds, not {block}"
        )
    if kind != KindCode.GEMM:
        return FbcbEntry(Mode.MAX_POOL if kind == KindCode.MAX_POOL else Mode.SUM_POOL, batch, batch, block)
    if k == StackCode.ROW_LANES:
        return FbcbEntry(Mode.LANES, batch, batch, block, True)
    if k == StackCode.ONE and b_r < batch:
        if not stackable:
            raise FbcbError(
                f"b_r = {b_r} below the batch of {batch} needs stackable PEs, which this NPU was built without"
            )
        if ordered:
            raise FbcbError(
                f"b_r must be {batch} where outputs pass a pool or a filter in the order of the image, not {b_r}"
            )
        return FbcbEntry(Mode.LANES, batch, b_r, block)
    return FbcbEntry({StackCode.TWO: Mode.WIDE, StackCode.HALF: Mode.SPLIT}.get(k, Mode.NORMAL), batch, batch, block)


def decode_for(design: Design, word: int, *, kind: int, batch: int, ordered: bool = False) -> FbcbEntry:
    """Decode an FBCB word on the NPU of `design`; arguments and FbcbError as `decode_fbcb`."""
    t_r, stackable, split = design.t_r, design.stackable, design.split
    return decode_fbcb(word, kind=kind, batch=batch, t_r=t_r, stackable=stackable, split=split, ordered=ordered)


def decode_layer(design: Design, word: int, layer: Descriptor, batch: int) -> FbcbEntry:
    """Decode the FBCB word of a layer on the NPU of `design`; FbcbError as `decode_fbcb`."""
    return decode_for(design, word, kind=layer.kind, batch=batch, ordered=layer.ordered)


def deepest_block(mode: Mode, t_r: int) -> int:
    """Beats that an accumulator bank of `t_r` rows holds: half of it where two columns share one."""
    return max(1, t_r // 2) if mode is Mode.SPLIT else t_r
