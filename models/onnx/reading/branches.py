"""Convolutions of one input that are added: one convolution, where that needs no more multiplications.

Re-parameterised networks are trained so: RepVGG (Ding et al., CVPR 2021) adds a 3x3, a 1x1 and the batch
normalisation of the input; MobileOne (Vasu et al., CVPR 2023) adds several of each. A tap of a kernel stands
at a distance from its output's own pixel, so kernels of other sizes, paddings and dilations have a kernel in
common that holds the taps of both.

>>> Taps(begin=1, step=1, taps=3).beside(Taps(begin=0, step=1, taps=1))  # 3 padded by 1, and 1
Taps(begin=1, step=1, taps=3)
>>> Taps(begin=0, step=3, taps=2).beside(Taps(begin=1, step=2, taps=2))  # at 0 and 3, and at -1 and 1
Taps(begin=1, step=1, taps=5)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...graph.shapes import Pair
from .drafts import Array, Draft
from .view import Indices
from .walk import Value


class Taps(NamedTuple):
    """The taps of a kernel along an axis: the first `begin` before the window's own pixel, `step` apart."""

    begin: int
    step: int
    taps: int

    @property
    def reach(self) -> int:
        """The distance of the last tap behind the window's own pixel."""
        return (self.taps - 1) * self.step - self.begin

    def beside(self, other: Taps) -> Taps:
        """Return the fewest evenly spaced taps among which are those of both."""
        step = math.gcd(*(side.step for side in (self, other) if side.taps > 1), self.begin - other.begin) or 1
        begin = max(self.begin, other.begin)
        return Taps(begin, step, 1 + (max(self.reach, other.reach) + begin) // step)

    def places(self, inner: Taps) -> slice:
        """Return where the taps of another kernel, which are among these, stand."""
        first, step = (self.begin - inner.begin) // self.step, max(1, inner.step // self.step)
        return slice(first, first + (inner.taps - 1) * step + 1, step)


def branch(value: Value) -> Draft | None:
    """Return the convolution, or the pass that is one, that writes a value and nothing else and may become
    another; else None.
    """
    plane = value.plane
    alone = value.foldable and len(plane.own) == 1 and not plane.pieces
    return plane.own[0] if alone and plane.own[0].convolution() is not None else None


def merge(into: Draft, added: Draft, rows: Indices) -> bool:
    """Let a convolution give the sum of itself and of another one, whose output channel rows[i] is added to
    channel i.

    `rows` is (channels,). False, and nothing has changed, where no one convolution is that with as few
    multiplications.
    """
    other = added.convolution()
    if into.weights is None or into.bias is None or other is None or other.weights is None or other.bias is None:
        return False
    if into.input is not other.input or into.stride != other.stride or other.residual is not None:
        return False
    groups = math.gcd(into.groups, other.groups)
    same_range = (into.first, into.reads) == (other.first, other.reads)
    in_order = np.array_equal(rows, np.arange(rows.size))
    if groups > 1 and not (same_range and in_order):
        return False
    first = min(into.first, other.first)
    reads = max(into.first + into.reads, other.first + other.reads) - first
    taps = tuple(ours.beside(theirs) for ours, theirs in zip(_taps(into), _taps(other), strict=True))
    size = into.channels * (reads // groups) * math.prod(tap.taps for tap in taps)
    if size > into.weights.size + other.weights.size:
        return False
    out = into.layer().out_hw
    total = np.zeros((into.channels, reads // groups, taps[0].taps, taps[1].taps))
    for draft, order in ((into, np.arange(rows.size)), (other, rows)):
        own = _taps(draft)
        channels = slice(draft.first - first, draft.first - first + draft.reads) if groups == 1 else slice(None)
        total[:, channels, taps[0].places(own[0]), taps[1].places(own[1])] += _in_groups(draft, groups)[order]
    ends = []
    for axis in (0, 1):
        needed = (out[axis] - 1) * into.stride[axis] + taps[axis].reach + 1 - into.input.shape[axis]
        ends.append(max(needed, min(into.padding[axis + 2], other.padding[axis + 2])))
    into.weights, into.bias = total.astype(np.float32), into.bias + other.bias[rows]
    into.first, into.reads, into.groups = first, reads, groups
    into.kernel, into.dilation = _pair([tap.taps for tap in taps]), _pair([tap.step for tap in taps])
    into.padding = (taps[0].begin, taps[1].begin, ends[0], ends[1])
    return True


def _pair(values: list[int]) -> Pair:
    return values[0], values[1]


def _taps(draft: Draft) -> tuple[Taps, Taps]:
    return (
        Taps(draft.padding[0], draft.dilation[0], draft.kernel[0]),
        Taps(draft.padding[1], draft.dilation[1], draft.kernel[1]),
    )


def _in_groups(draft: Draft, groups: int) -> Array:
    """Return the weights of a convolution in fewer groups, zero where its own do not meet."""
    assert draft.weights is not None
    per = draft.groups // groups  # groups of its own in each
    out, reads = draft.weights.shape[:2]
    rows = out // draft.groups
    whole = np.zeros((groups, per, rows, per, reads, *draft.kernel), np.float32)
    split = draft.weights.reshape(groups, per, rows, reads, *draft.kernel)
    whole[:, np.arange(per), :, np.arange(per)] = split.swapaxes(0, 1)
    return whole.reshape(out, per * reads, *draft.kernel)
