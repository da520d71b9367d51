"""Open a layer for an ONNX operator: convolutions, fully connected layers and pools, with the Pad they
absorb.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ..errors import UnsupportedOperatorError
from ..graph.shapes import Kind, Pair
from .drafts import Array, Padding
from .file import MOST_EXTENT, Attributes, label, refuse
from .walk import Value, Walk


def window_of(node: onnx.NodeProto, source: Value, kernel: Pair) -> dict[str, Any]:
    """Return stride, dilation and padding of a convolution or pool, auto_pad and a folded Pad included."""
    attributes = Attributes(node)
    stride = attributes.extents("strides", (1, 1), 1)
    dilation = attributes.extents("dilations", (1, 1), 1)
    pads = list(attributes.extents("pads", (0, 0, 0, 0), 0))
    auto = attributes.text("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        for axis in (0, 1):
            size = source.shape[axis] + source.pad[axis] + source.pad[axis + 2]
            extent = (kernel[axis] - 1) * dilation[axis] + 1
            total = max(0, (math.ceil(size / stride[axis]) - 1) * stride[axis] + extent - size)
            small, large = total // 2, total - total // 2
            pads[axis], pads[axis + 2] = (small, large) if auto == "SAME_UPPER" else (large, small)
    elif auto == "VALID":
        pads = [0, 0, 0, 0]
    elif auto != "NOTSET":
        raise refuse(node, f"must have an auto_pad of NOTSET, VALID, SAME_UPPER or SAME_LOWER, not '{auto[:40]}'")
    padding = tuple(own + before for own, before in zip(pads, source.pad, strict=True))
    return {"kernel": kernel, "stride": stride, "dilation": dilation, "padding": padding}


def _conv(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node, padded=True)
    weights = walk.constant(node, 1)
    if weights.ndim != 4:
        raise UnsupportedOperatorError(
            label(node), node.op_type, f"has weights of {weights.ndim} dimensions", "the NPU is two-dimensional"
        )
    if 0 in weights.shape:
        raise refuse(node, f"must have weights, not an empty array {weights.shape}")
    groups, channels = Attributes(node).integer("group", 1), source.shape[2]
    out, per_group = weights.shape[:2]
    if groups < 1 or out % groups or per_group * groups != channels:
        raise refuse(
            node, f"must have weights for {channels} channels in {groups} groups, and their shape is {weights.shape}"
        )
    kernel = (int(weights.shape[2]), int(weights.shape[3]))
    if Attributes(node).extents("kernel_shape", kernel, 1) != kernel:
        raise refuse(node, f"must have the kernel_shape of its weights, {kernel}")
    value = walk.open(
        node,
        source,
        node.output[0],
        kind=Kind.GEMM,
        channels=int(out),
        groups=groups,
        weights=weights.astype(np.float32),
        bias=_vector(node, walk.optional(node, 2), int(out)),
        **window_of(node, source, kernel),
    )
    walk.put(node, value)


def _vector(node: onnx.NodeProto, array: npt.NDArray[Any] | None, size: int) -> Array:
    """Return a bias (size,), broadcast from the given one; zeros without one."""
    if array is None:
        return np.zeros(size, np.float32)
    if array.size not in (1, size) or array.size != (array.shape[-1] if array.ndim else 1):
        raise refuse(node, f"must have {size} biases, not an array {array.shape}")
    return np.broadcast_to(array.reshape(-1).astype(np.float32), (size,)).copy()


def _fully_connected(walk: Walk, node: onnx.NodeProto, weights: Array, bias: Array) -> None:
    """Open a convolution over the whole plane for weights (features, out), features ordered (channel, row,
    column).
    """
    source = walk.value(node)
    height, width, channels = source.shape
    if not source.vector:
        raise refuse(node, f"must read a flattened input, and '{node.input[0]}' is (N, {channels}, {height}, {width})")
    if weights.ndim != 2 or weights.shape[0] != height * width * channels or not weights.shape[1]:
        raise refuse(
            node, f"must have weights for {height * width * channels} features, and their shape is {weights.shape}"
        )
    out = int(weights.shape[1])
    value = walk.open(
        node,
        source,
        node.output[0],
        vector=True,
        kind=Kind.GEMM,
        channels=out,
        kernel=(height, width),
        weights=np.ascontiguousarray(weights.T).reshape(out, channels, height, width),
        bias=bias,
    )
    walk.put(node, value)


def _gemm(walk: Walk, node: onnx.NodeProto) -> None:
    attributes = Attributes(node)
    weights = walk.constant(node, 1)
    if attributes.integer("transA", 0) or weights.ndim != 2:
        raise refuse(node, "must multiply (N, features) by a constant matrix, without transA")
    weights = weights.T if attributes.integer("transB", 0) else weights
    bias = _vector(node, walk.optional(node, 2), weights.shape[1]) * np.float32(attributes.number("beta", 1.0))
    _fully_connected(walk, node, (weights * np.float32(attributes.number("alpha", 1.0))).astype(np.float32), bias)


def _matmul(walk: Walk, node: onnx.NodeProto) -> None:
    weights = walk.constant(node, 1)
    _fully_connected(
        walk, node, weights.astype(np.float32), np.zeros(weights.shape[-1] if weights.ndim else 0, np.float32)
    )


def _max_pool(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node, padded=True)
    attributes = Attributes(node)
    kernel = attributes.extents("kernel_shape", (0, 0), 1)
    window = window_of(node, source, (kernel[0], kernel[1]))
    if attributes.integer("ceil_mode", 0):
        window["padding"] = _ceil_padding(source, window)
    if any(window["padding"]) and not source.plane.non_negative:
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            "pads an input that may be negative, where the NPU stores zeros",
            "put a ReLU before the pool",
        )
    walk.put(node, walk.open(node, source, node.output[0], kind=Kind.MAX_POOL, channels=source.shape[2], **window))


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
    source = walk.map(node, padded=True)
    attributes = Attributes(node)
    kernel = attributes.extents("kernel_shape", (0, 0), 1)
    window = window_of(node, source, (kernel[0], kernel[1]))
    if attributes.integer("ceil_mode", 0) and _ceil_padding(source, window) != window["padding"]:
        raise UnsupportedOperatorError(
            label(node), node.op_type, "has partial windows (ceil_mode)", "choose sizes that divide evenly"
        )
    own_padding = tuple(total - before for total, before in zip(window["padding"], source.pad, strict=True))
    if any(own_padding) and not attributes.integer("count_include_pad", 0):
        raise UnsupportedOperatorError(
            label(node), node.op_type, "divides by fewer taps at the border", "set count_include_pad or do not pad"
        )
    walk.put(node, walk.open(node, source, node.output[0], kind=Kind.SUM_POOL, channels=source.shape[2], **window))


def _global_pool(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node)
    vector = False
    if node.op_type == "ReduceMean":
        attributes = Attributes(node)
        given = walk.optional(node, 1)
        axes = attributes.ints("axes") if given is None else tuple(int(a) for a in given.reshape(-1))
        if axes is None or sorted(a % 4 for a in axes) != [2, 3]:
            raise UnsupportedOperatorError(
                label(node), node.op_type, f"averages over axes {axes}", "only height and width (2, 3) can be averaged"
            )
        vector = not attributes.integer("keepdims", 1)
    kind = Kind.MAX_POOL if node.op_type == "GlobalMaxPool" else Kind.SUM_POOL
    walk.put(
        node,
        walk.open(
            node, source, node.output[0], vector=vector, kind=kind, channels=source.shape[2], kernel=source.shape[:2]
        ),
    )


def _pad(walk: Walk, node: onnx.NodeProto) -> None:
    source, attributes = walk.map(node, padded=True), Attributes(node)
    given = walk.optional(node, 1)
    pads = attributes.ints("pads") if given is None else tuple(int(p) for p in given.reshape(-1))
    fill = walk.optional(node, 2)
    value = attributes.number("value", 0.0) if fill is None else float(fill.reshape(-1)[0]) if fill.size else 0.0
    axes = walk.optional(node, 3)
    if axes is not None and pads is not None and len(pads) == 2 * axes.size:
        full = [0] * 8
        for index, axis in enumerate(axes.reshape(-1)):
            full[int(axis) % 4], full[int(axis) % 4 + 4] = pads[index], pads[index + axes.size]
        pads = tuple(full)
    fair = (
        pads is not None
        and len(pads) == 8
        and all(0 <= p <= MOST_EXTENT for p in pads)
        and not any(pads[i] for i in (0, 1, 4, 5))
    )
    if attributes.text("mode", "constant") != "constant" or value != 0.0 or pads is None or not fair:
        raise UnsupportedOperatorError(
            label(node), node.op_type, "is not a border of zeros in height and width", "pad with zeros"
        )
    before = source.pad
    walk.alias(node, source, pad=(pads[2] + before[0], pads[3] + before[1], pads[6] + before[2], pads[7] + before[3]))


LAYER_OPERATORS = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "MatMul": _matmul,
    "MaxPool": _max_pool,
    "Pad": _pad,
    "ReduceMean": _global_pool,
}
