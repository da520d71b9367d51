"""Combine two activations, or one and a bound: Sub, Max and Min are sums and clips.

A difference is a sum with one sign turned, in the layer that writes the operand or in a copy. The larger of
two values is b + max(a - b, 0), the smaller b + min(a - b, 0).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from .combining import add_two
from .drafts import Clip
from .folding import per_channel, scale
from .walk import Value, Walk


def _subtract(walk: Walk, node: onnx.NodeProto) -> None:
    if any(walk.known(name) for name in node.input):
        scale(walk, node)
    else:
        walk.renamed(node, _difference(walk, node, walk.value(node), walk.value(node, 1, lazy=True)))


def _difference(walk: Walk, node: onnx.NodeProto, first: Value, second: Value) -> Value:
    """Return first - second, which nothing else reads yet."""
    second = walk.settle(node, second) if any(second.pad) else second
    plane = second.plane
    if second.settled and second.foldable and all(writer.open for writer in plane.writers):
        for writer in plane.writers:
            writer.scale(-np.ones(writer.channels), np.zeros(writer.channels))
        plane.name, plane.aliases = walk.aside(node, "negative"), []  # its old names are of other values
    else:
        ones = np.ones(second.shape[2])
        factor, shift = (ones, 0 * ones) if second.factor is None else (second.factor, second.shift)
        assert shift is not None
        second = walk.settle(node, replace(second, factor=-factor, shift=-shift))
    return add_two(walk, node, first, second)


def _extreme(walk: Walk, node: onnx.NodeProto) -> None:
    """Bound an activation by constants, and take the larger or smaller of several."""
    larger = node.op_type == "Max"
    own = [index for index, name in enumerate(node.input) if not walk.known(name)] or [0]
    total = first = walk.value(node, own[0])
    for index in own[1:]:
        other = replace(walk.value(node, index), exclusive=False)
        if _same(total, other):
            continue  # no difference, which would have no resolution
        rest = _clipped(walk, node, _difference(walk, node, total, other), (0.0, None) if larger else (None, 0.0))
        total = add_two(walk, node, rest, other)
    if total is first:
        walk.alias(node, total)
    else:
        walk.renamed(node, total)
    for index in (index for index in range(len(node.input)) if index not in own):
        _bounded(walk, node, walk.constant(node, index), larger)


def _same(first: Value, second: Value) -> bool:
    """True for the same numbers in the same places: a transposed map has the channels of its plane, too."""
    views = first.view.axes == second.view.axes and np.array_equal(first.view.channels, second.view.channels)
    affine = first.factor is second.factor and first.shift is second.shift
    return first.plane is second.plane and views and affine and first.pad == second.pad


def _bounded(walk: Walk, node: onnx.NodeProto, bound: npt.NDArray[Any], larger: bool) -> None:
    """Bound the value of a node's output by one number, or by one for each channel as zero behind a shift."""

    def value() -> Value:
        return walk.values[node.output[0]]

    bounds = per_channel(node, value(), bound)
    alike = bool((bounds == bounds[0]).all())
    limit = float(bounds[0]) if alike else 0.0
    if not alike:
        walk.affine(node, value(), np.ones_like(bounds), -bounds)
    walk.clip(node, (limit, None) if larger else (None, limit), value())
    if not alike:
        walk.affine(node, value(), np.ones_like(bounds), bounds)


def _clipped(walk: Walk, node: onnx.NodeProto, value: Value, clip: Clip) -> Value:
    """Return a value that nothing else reads, bounded."""
    walk.clip(node, clip, value)
    clipped = replace(walk.values[node.output[0]], exclusive=True)
    clipped.plane.name = walk.aside(node, "rest")
    return clipped


PAIR_OPERATORS = {"Max": _extreme, "Min": _extreme, "Sub": _subtract}
