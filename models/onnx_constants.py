"""Nodes that depend on constants and shapes alone: folded while reading, within a budget. Enough for what exporters write."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from .onnx_file import Attributes, array_of, label, refuse
from .onnx_walk import Walk


def folded(walk: Walk, node: onnx.NodeProto) -> npt.NDArray[Any] | None:
    """The value of a node that only depends on constants and shapes, or None when it does not."""
    if node.op_type == "Constant":
        return _constant_node(node)
    if node.op_type == "Shape" and node.input and node.input[0] in walk.values:
        value = walk.values[node.input[0]]
        height, width, channels = value.shape
        # 0 stands for the batch: "copy this dimension" to the Reshape that such shapes end in
        return np.array([0, height * width * channels] if value.vector else [0, channels, height, width])
    if not node.input or not all(not name or walk.known(name) for name in node.input):
        return None
    arrays = [walk.optional(node, index) for index in range(len(node.input))]
    if node.op_type not in _FOLDS or arrays[0] is None:
        return None
    given = [array for array in arrays if array is not None]
    size = (
        math.prod(np.broadcast_shapes(*(a.shape for a in given)))
        if node.op_type in ("Add", "Sub", "Mul", "Div")
        else sum(a.size for a in given)
    )
    walk.spend(size)
    return np.asarray(_FOLDS[node.op_type](given, Attributes(node)))


def _constant_node(node: onnx.NodeProto) -> npt.NDArray[Any]:
    attributes = Attributes(node)
    tensor = attributes.tensor("value")
    if tensor is not None:
        return array_of(tensor, f"constant '{label(node)}'")
    if "value_float" in attributes:
        return np.array(attributes.number("value_float", 0.0), np.float32)
    if "value_int" in attributes:
        return np.array(attributes.integer("value_int", 0))
    ints = attributes.ints("value_ints")
    if ints is None:
        raise refuse(node, "must hold a tensor, a number or integers")
    return np.array(ints, np.int64)


def _axes(arrays: list[npt.NDArray[Any]], attributes: Attributes) -> tuple[int, ...]:
    return tuple(int(a) for a in arrays[1].reshape(-1)) if len(arrays) > 1 else attributes.ints("axes") or ()


def _slice(arrays: list[npt.NDArray[Any]], attributes: Attributes) -> npt.NDArray[Any]:
    """Slices of a shape: one dimension."""
    start, end, *rest = [int(a.reshape(-1)[0]) for a in arrays[1:]] or [
        (attributes.ints("starts") or (0,))[0],
        (attributes.ints("ends") or (1,))[0],
    ]
    return np.asarray(arrays[0][start : end : rest[1] if len(rest) > 1 else 1])


_Fold = Callable[[list[npt.NDArray[Any]], Attributes], Any]
_FOLDS: dict[str, _Fold] = {
    "Add": lambda a, _: a[0] + a[1],
    "Cast": lambda a, _: a[0],
    "Concat": lambda a, at: np.concatenate([np.atleast_1d(x) for x in a], axis=at.integer("axis", 0)),
    "Div": lambda a, _: a[0] // a[1] if a[0].dtype.kind == "i" else a[0] / a[1],
    "Gather": lambda a, at: np.take(a[0], a[1], axis=at.integer("axis", 0)),
    "Identity": lambda a, _: a[0],
    "Mul": lambda a, _: a[0] * a[1],
    "Reshape": lambda a, _: a[0].reshape([int(v) for v in a[1]]),
    "Shape": lambda a, _: np.array(a[0].shape),
    "Slice": _slice,
    "Squeeze": lambda a, at: np.squeeze(a[0], _axes(a, at) or None),
    "Sub": lambda a, _: a[0] - a[1],
    "Transpose": lambda a, at: np.transpose(a[0], at.ints("perm")),
    "Unsqueeze": lambda a, at: np.expand_dims(a[0], _axes(a, at)),
}
