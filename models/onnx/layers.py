"""Open a layer for an ONNX operator: convolutions, fully connected layers and pools, with the Pad they
absorb.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ..errors import UnsupportedOperatorError
from ..graph.shapes import Kind, Pair
from .averages import average
from .drafts import NO_PADDING, Array, Padding
from .file import Attributes, label, refuse
from .refusals import NO_SEQUENCES, misfit
from .view import View
from .walk import Value, Walk, absorbed


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


def _kernel(node: onnx.NodeProto, source: Value) -> tuple[int, ...]:
    return Attributes(node).extents("kernel_shape", (0,) * (len(source.view.axes) - 1), 1)


def _taking_over(walk: Walk, node: onnx.NodeProto, source: Value, window: dict[str, Any]) -> Value:
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
    """Open a convolution with OIHW weights on a map or line in any view; its window has its own padding.

    A pending affine map goes into the weights where no zeros are read beside it.
    """
    source = _taking_over(walk, node, source, window)
    zeros = max(window["padding"]) > 0
    if source.factor is not None and source.shift is not None and zeros and source.shift.any():
        source = walk.settle(node, source)
    if 1 < groups < source.shape[2] and not source.ordered and _cheaper_dense(source, weights, groups, window):
        weights, groups = _one_group(weights, groups), 1
    if groups == 1 and not _worth_a_layer(source, weights, window):
        return _dense(walk, node, source, weights, bias, window)
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
                absorbed(part, replace(source, factor=source.factor[at], shift=source.shift[at]))
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


def _cheaper_dense(source: Value, weights: Array, groups: int, window: Mapping[str, Any]) -> bool:
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


def _dense(
    walk: Walk, node: onnx.NodeProto, source: Value, weights: Array, bias: Array, window: dict[str, Any]
) -> Value:
    """Open a convolution of one group over the range that holds a view's channels; the others weigh
    nothing.
    """
    weights, more = absorbed(weights, source)
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
        wanted = replace(source, view=View.of(("c", "h", "w"), (*view.size, view.channels.size), view.index))
        tokens = view.axes[0]
        factors = iter(view.channels.shape)
        sizes = [next(factors) if token == "c" else view.size["hw".index(token)] for token in tokens]
        order = [*(i for i, t in enumerate(tokens) if t == "c"), *(tokens.index(t) for t in "hw" if t in tokens)]
        split = weights.reshape(out, *sizes).transpose(0, *(1 + i for i in order))
        placed = np.ascontiguousarray(split).reshape(out, view.channels.size, *view.size)
        window: dict[str, Any] = {"kernel": view.size, "padding": NO_PADDING}
        made = _dense(walk, node, wanted, placed, bias, window)
        walk.put(node, replace(made, view=View.of(("c",), made.plane.shape)))
        return
    if view.axes[-1].strip("c") or any("c" in axis for axis in view.axes[:-1]):
        raise misfit(
            node, f"multiplies the axis {view.shape[-1]} of {view.shape}, which is not the channels", NO_SEQUENCES
        )
    made = _dense(walk, node, source, weights.reshape(*weights.shape, 1, 1), bias, {"padding": NO_PADDING})
    axes = (*view.axes[:-1], "c")
    walk.put(node, replace(made, view=View.of(axes, made.plane.shape)))


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


def _max_pool(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node, lazy=True)
    attributes = Attributes(node)
    window = window_of(node, source, _kernel(node, source))
    signed_border = max(source.pad) > 0 and not source.plane.non_negative  # zeros that may win: a layer of their own
    if source.factor is not None or signed_border:
        source = walk.settle(node, source)
    source = _taking_over(walk, node, source, window)
    if attributes.integer("ceil_mode", 0):
        window["padding"] = _ceil_padding(source, window)
    if max(window["padding"]) > 0 and not source.plane.non_negative:
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            "pads an input that may be negative, where the NPU stores zeros",
            "put a ReLU before the pool",
        )
    walk.put(node, _pool(walk, node, source, Kind.MAX_POOL, source.window_axes, **window))


def _pool(walk: Walk, node: onnx.NodeProto, source: Value, kind: Kind, axes: tuple[str, ...], **window: Any) -> Value:
    source, first, order = walk.per_channel(node, source)
    return walk.open(
        node,
        source,
        node.output[0],
        axes=axes,
        channel_order=np.argsort(order),
        kind=kind,
        channels=source.shape[2],
        first=first,
        reads=source.shape[2],
        **window,
    )


def _ceil_padding(source: Value, window: Mapping[str, Any]) -> Padding:
    """Return the padding with which rounding down equals rounding up: a last, partial window at the far
    edges.
    """
    padding = list(window["padding"])
    for axis in (0, 1):
        size, stride = source.shape[axis] + padding[axis] + padding[axis + 2], window["stride"][axis]
        extent = (window["kernel"][axis] - 1) * window["dilation"][axis] + 1
        count = -(-(size - extent) // stride) + 1
        if (count - 1) * stride >= source.shape[axis] + padding[axis]:  # a window must begin inside the input
            count -= 1
        padding[axis + 2] += max(0, (count - 1) * stride + extent - size)
    return padding[0], padding[1], padding[2], padding[3]


def _average_pool(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node, lazy=True)
    window = window_of(node, source, _kernel(node, source))
    ceil, counted = (Attributes(node).integer(name, 0) for name in ("ceil_mode", "count_include_pad"))
    own = window["padding"]
    adds_up = not any(before < 0 < one for before, one in zip(source.pad, own, strict=True))
    if any(source.pad) and source.factor is None and adds_up and (counted or not any(own)):
        both = tuple(before + one for before, one in zip(source.pad, own, strict=True))
        padded = {**window, "padding": both}  # zeros of a Pad node count as values do
        if not ceil or _ceil_padding(source, padded) == both:
            walk.put(node, _pool(walk, node, source, Kind.SUM_POOL, source.window_axes, **padded))
            return
    source, first, order = walk.per_channel(node, walk.settle(node, source))
    ceiled = _ceil_padding(source, window) if ceil else window["padding"]
    plane = average(walk, node, source, window, ceiled, first)
    view = View.of(source.window_axes, plane.shape, np.argsort(order))
    walk.put(node, Value(plane=plane, view=view, exclusive=walk.uses[node.output[0]] == 1))


def _global_pool(walk: Walk, node: onnx.NodeProto) -> None:
    """Open a pool over height and width, as GlobalAveragePool or as a reduction along axes."""
    source = walk.value(node)
    rank = len(source.view.axes)
    attributes = Attributes(node)
    reduces = node.op_type.startswith("Reduce")
    given = walk.optional(node, 1) if reduces else None
    axes = attributes.ints("axes") if given is None else tuple(int(a) for a in given.reshape(-1))
    if not reduces:
        axes = tuple(range(2, rank + 1))
    named = sorted({a % (rank + 1) for a in axes}) if axes else []
    tokens = "".join(source.view.axes[a - 1] for a in named if a)
    if not named or 0 in named or "c" in tokens or (not reduces and not source.view.holds(0, "")):
        raise misfit(
            node,
            f"reduces axes {axes} of (N, {', '.join(map(str, source.view.shape))})",
            "reduce height and width alone",
        )
    kernel = (source.shape[0] if "h" in tokens else 1, source.shape[1] if "w" in tokens else 1)
    keep = not reduces or attributes.integer("keepdims", 1)
    top = node.op_type in ("GlobalMaxPool", "ReduceMax")
    source, first, order = walk.per_channel(node, source)
    made = walk.open(
        node, source, node.output[0], channel_order=np.argsort(order), kind=Kind.MAX_POOL if top else Kind.SUM_POOL,
        channels=source.shape[2], first=first, reads=source.shape[2], kernel=kernel,
    )  # fmt: skip
    view = replace(source.view.without(tokens), channels=np.argsort(order).reshape(source.view.channels.shape))
    if not keep:
        for axis in reversed(named):
            view = view.remove(axis - 1)
    made = replace(made, view=view)
    if node.op_type == "ReduceSum":
        count = float(math.prod(kernel))
        ones = np.ones(made.shape[2])
        made = replace(made, factor=count * ones, shift=0 * ones)
    walk.put(node, made)


LAYER_OPERATORS = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "MatMul": _matmul,
    "MaxPool": _max_pool,
    "ReduceMax": _global_pool,
    "ReduceMean": _global_pool,
    "ReduceSum": _global_pool,
}
