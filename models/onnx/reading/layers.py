"""Open a layer for an ONNX operator: convolutions and fully connected layers, with the Pad they absorb."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ...errors import UnsupportedOperatorError
from ...graph.shapes import Kind, Pair
from ..file import Attributes, label, refuse
from .drafts import NO_PADDING, Array
from .refusals import NO_SEQUENCES, misfit
from .view import AxisView
from .walk import Value, Walk, absorb


def pair_of(source: Value, along: tuple[int, ...], other: int) -> Pair:
    """Return (vertical, horizontal) of a window's sizes, which a line has along its own axis alone."""
    if source.view.is_map:
        return along[0], along[1]
    return (along[0], other) if source.upright else (other, along[0])


def window_of(node: onnx.NodeProto, source: Value, kernel: tuple[int, ...]) -> dict[str, Any]:
    """Return kernel, stride, dilation and the padding of a convolution or pool of its own, auto_pad
    included.
    """
    attributes = Attributes(node)
    ones = (1,) * len(kernel)
    stride = pair_of(source, attributes.extents("strides", ones, 1), 1)
    dilation = pair_of(source, attributes.extents("dilations", ones, 1), 1)
    given = attributes.extents("pads", (0,) * (2 * len(kernel)), 0)
    begin, end = pair_of(source, given[: len(kernel)], 0), pair_of(source, given[len(kernel) :], 0)
    pads = [*begin, *end]
    size = pair_of(source, kernel, 1)
    auto = attributes.text("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        for axis in (0, 1):
            reach = source.shape[axis] + source.pad[axis] + source.pad[axis + 2]
            extent = (size[axis] - 1) * dilation[axis] + 1
            total = max(0, (math.ceil(reach / stride[axis]) - 1) * stride[axis] + extent - reach)
            small, large = total // 2, total - total // 2
            pads[axis], pads[axis + 2] = (small, large) if auto == "SAME_UPPER" else (large, small)
    elif auto == "VALID":
        pads = [0, 0, 0, 0]
    elif auto != "NOTSET":
        raise refuse(node, f"must have an auto_pad of NOTSET, VALID, SAME_UPPER or SAME_LOWER, not '{auto[:40]}'")
    return {"kernel": size, "stride": stride, "dilation": dilation, "padding": (pads[0], pads[1], pads[2], pads[3])}


def taking_over(walk: Walk, node: onnx.NodeProto, source: Value, window: dict[str, Any]) -> Value:
    """Add what a Pad or a Slice left to the window's padding; settle first what cannot be added exactly.

    Rows that are left out and then padded with zeros again are zeros, so a crop and a padding do not add up.
    """
    if any(before < 0 < own for before, own in zip(source.pad, window["padding"], strict=True)):
        return walk.settle(node, source)
    window["padding"] = tuple(own + before for own, before in zip(window["padding"], source.pad, strict=True))
    return replace(source, pad=NO_PADDING)


def _conv(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node, lazy=True)
    weights = walk.constant(node, 1)
    rank = len(source.view.axes) + 1
    if weights.ndim != rank:
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"has weights of {weights.ndim} dimensions for an input of {rank}",
            "the NPU is two-dimensional",
        )
    if 0 in weights.shape:
        raise refuse(node, f"must have weights, not an empty array {weights.shape}")
    groups, channels = Attributes(node).integer("group", 1), source.shape[2]
    out, per_group = weights.shape[:2]
    if groups < 1 or out % groups or per_group * groups != channels:
        raise refuse(
            node, f"must have weights for {channels} channels in {groups} groups, and their shape is {weights.shape}"
        )
    kernel = tuple(int(n) for n in weights.shape[2:])
    if Attributes(node).extents("kernel_shape", kernel, 1) != kernel:
        raise refuse(node, f"must have the kernel_shape of its weights, {kernel}")
    window = window_of(node, source, kernel)
    weights = weights.astype(np.float32, copy=False).reshape(out, per_group, *window["kernel"])
    bias = bias_of(node, walk.optional(node, 2), int(out))
    walk.put(node, convolution(walk, node, source, weights, bias, groups, window))


def convolution(
    walk: Walk, node: onnx.NodeProto, source: Value, weights: Array, bias: Array, groups: int, window: dict[str, Any]
) -> Value:
    """Open a convolution on a map or line in any view; its window has its own padding.

    Weights are (O, I / groups, kernel height, kernel width), the bias (O,). A pending affine map goes into
    the weights where no zeros are read beside it.
    """
    source = taking_over(walk, node, source, window)
    zeros = max(window["padding"]) > 0
    if source.factor is not None and source.shift is not None and zeros and source.shift.any():
        source = walk.settle(node, source)
    if 1 < groups < source.shape[2] and not source.ordered and _cheaperdense(source, weights, groups, window):
        weights, groups = _one_group(weights, groups), 1
    if groups == 1 and not _worth_a_layer(source, weights, window):
        return dense(walk, node, source, weights, bias, window)
    if groups == source.shape[2]:
        source, first, order = walk.per_channel(node, source)
        if source.factor is not None and source.shift is not None:
            per = weights.shape[0] // groups
            weights, more = _absorbed_by_channel(weights, source, per)
            bias = bias + more
        per = weights.shape[0] // groups
        places = (order[:, None] * per + np.arange(per)).reshape(-1)  # output channel of the node at each place
        weights, bias, back = weights[places], bias[places], np.argsort(places)
    else:
        if source.factor is not None and source.shift is not None:
            per = source.shape[2] // groups
            parts = [
                absorb(part, replace(source, factor=source.factor[at], shift=source.shift[at]))
                for part, at in zip(
                    np.split(weights, groups), (slice(g * per, (g + 1) * per) for g in range(groups)), strict=True
                )
            ]
            weights, bias = np.concatenate([w for w, _ in parts]), bias + np.concatenate([b for _, b in parts])
            source = replace(source, factor=None, shift=None)
        source, first = walk.ranged(node, source)
        back = np.arange(weights.shape[0])
    return walk.open(
        node,
        source,
        node.output[0],
        axes=source.window_axes,
        channel_order=back,
        kind=Kind.GEMM,
        channels=int(weights.shape[0]),
        first=first,
        reads=source.shape[2],
        groups=groups,
        weights=weights,
        bias=bias,
        **window,
    )


def _absorbed_by_channel(weights: Array, source: Value, per: int) -> tuple[Array, Array]:
    assert source.factor is not None
    assert source.shift is not None
    factor, shift = np.repeat(source.factor, per), np.repeat(source.shift, per)
    with np.errstate(all="ignore"):
        more = (weights.astype(np.float64).sum(axis=(1, 2, 3)) * shift).astype(np.float32)
        return (weights * factor[:, None, None, None]).astype(np.float32), more


def _cheaperdense(source: Value, weights: Array, groups: int, window: Mapping[str, Any]) -> bool:
    """True if one group with zeros between needs fewer multiplications than groups behind a gathered copy."""
    own = weights.size / math.prod(window["stride"])
    return bool(groups * own <= own + source.shape[2] ** 2)


def _one_group(weights: Array, groups: int) -> Array:
    """Return the weights of a grouped convolution as those of one group, zero where groups do not meet."""
    out, per = weights.shape[:2]
    whole = np.zeros((out, groups * per, *weights.shape[2:]), np.float32)
    for group in range(groups):
        rows = slice(group * out // groups, (group + 1) * out // groups)
        whole[rows, group * per : (group + 1) * per] = weights[rows]
    return whole


def _worth_a_layer(source: Value, weights: Array, window: Mapping[str, Any]) -> bool:
    """True if gathering scattered channels first needs fewer multiplications than reading past the others."""
    index = source.view.index
    reach = int(index.max() - index.min()) + 1
    beside = (reach - index.size) * weights[:, :1].size / math.prod(window["stride"])
    return bool(beside > reach * index.size)


def dense(
    walk: Walk, node: onnx.NodeProto, source: Value, weights: Array, bias: Array, window: dict[str, Any]
) -> Value:
    """Open a convolution of one group over the range that holds a view's channels; the others weigh nothing.

    Weights are (O, I, kernel height, kernel width), the bias (O,).
    """
    weights, more = absorb(weights, source)
    index = source.view.index
    first = int(index.min())
    if not source.ordered:
        placed = np.zeros((weights.shape[0], int(index.max()) - first + 1, *weights.shape[2:]), np.float32)
        for channel, column in zip(index - first, weights.swapaxes(0, 1), strict=True):
            placed[:, channel] += column
        weights = placed
    return walk.open(
        node,
        source,
        node.output[0],
        axes=source.window_axes,
        kind=Kind.GEMM,
        channels=int(weights.shape[0]),
        first=first,
        reads=int(weights.shape[1]),
        weights=weights,
        bias=bias + more,
        **window,
    )


def bias_of(node: onnx.NodeProto, array: npt.NDArray[Any] | None, size: int) -> Array:
    """Return a bias (size,), broadcast from the given one; zeros without one."""
    if array is None:
        return np.zeros(size, np.float32)
    if array.size not in (1, size) or array.size != (array.shape[-1] if array.ndim else 1):
        raise refuse(node, f"must have {size} biases, not an array {array.shape}")
    return np.broadcast_to(array.reshape(-1).astype(np.float32), (size,)).copy()


def _over_features(walk: Walk, node: onnx.NodeProto, weights: Array, bias: Array) -> None:
    """Open a layer for weights (features, out) over the last axis: dense over a vector, else 1x1."""
    source = walk.value(node, lazy=True)
    view = source.view
    if any(source.pad):
        source = walk.settle(node, source)
    if weights.ndim != 2 or weights.shape[0] != view.shape[-1] or not weights.shape[1]:
        raise refuse(node, f"must have weights for {view.shape[-1]} features, and their shape is {weights.shape}")
    out = int(weights.shape[1])
    weights = np.ascontiguousarray(weights.T)
    if view.is_vector:
        wanted = replace(source, view=AxisView.of(("c", "h", "w"), (*view.size, view.channels.size), view.index))
        tokens = view.axes[0]
        factors = iter(view.channels.shape)
        sizes = [next(factors) if token == "c" else view.size["hw".index(token)] for token in tokens]
        order = [*(i for i, t in enumerate(tokens) if t == "c"), *(tokens.index(t) for t in "hw" if t in tokens)]
        split = weights.reshape(out, *sizes).transpose(0, *(1 + i for i in order))
        placed = np.ascontiguousarray(split).reshape(out, view.channels.size, *view.size)
        window: dict[str, Any] = {"kernel": view.size, "padding": NO_PADDING}
        made = dense(walk, node, wanted, placed, bias, window)
        walk.put(node, replace(made, view=AxisView.of(("c",), made.plane.shape)))
        return
    if view.axes[-1].strip("c") or any("c" in axis for axis in view.axes[:-1]):
        raise misfit(
            node, f"multiplies the axis {view.shape[-1]} of {view.shape}, which is not the channels", NO_SEQUENCES
        )
    made = dense(walk, node, source, weights.reshape(*weights.shape, 1, 1), bias, {"padding": NO_PADDING})
    axes = (*view.axes[:-1], "c")
    walk.put(node, replace(made, view=AxisView.of(axes, made.plane.shape)))


def _gemm(walk: Walk, node: onnx.NodeProto) -> None:
    attributes = Attributes(node)
    _two_activations(walk, node)
    weights = walk.constant(node, 1)
    if attributes.integer("transA", 0) or weights.ndim != 2:
        raise refuse(node, "must multiply (N, features) by a constant matrix, without transA")
    if not walk.value(node, lazy=True).view.is_vector:
        raise refuse(
            node,
            f"must read a flattened input, and '{node.input[0]}' is (N, {', '.join(map(str, walk.raw(node).onnx_shape))})",
        )
    weights = weights.T if attributes.integer("transB", 0) else weights
    bias = bias_of(node, walk.optional(node, 2), weights.shape[1]) * np.float32(attributes.number("beta", 1.0))
    alpha = np.float32(attributes.number("alpha", 1.0))
    _over_features(walk, node, weights.astype(np.float32, copy=False) * alpha if alpha != 1 else weights, bias)


def _matmul(walk: Walk, node: onnx.NodeProto) -> None:
    _two_activations(walk, node)
    weights = walk.constant(node, 1)
    _over_features(
        walk, node, weights.astype(np.float32), np.zeros(weights.shape[-1] if weights.ndim else 0, np.float32)
    )


def _two_activations(walk: Walk, node: onnx.NodeProto) -> None:
    if len(node.input) > 1 and node.input[0] in walk.values and node.input[1] in walk.values:
        raise misfit(node, "multiplies two activations, as attention does", NO_SEQUENCES)


LAYER_OPERATORS = {
    "Conv": _conv,
    "Gemm": _gemm,
    "MatMul": _matmul,
}
