"""Fold ONNX nodes that depend on constants and shapes alone, within a budget of elements.

It covers the nodes that exporters write for reshapes and constant arithmetic.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from ..file import FOUR_BITS, Attributes, array_of, label, refuse
from ..reading.walk import Walk


def fold_node(walk: Walk, node: onnx.NodeProto) -> npt.NDArray[Any] | None:
    """Return the value of a node that depends on constants and shapes only, or None when it does not."""
    if node.op_type == "Constant":
        return constant_node(node)
    if node.op_type == "Shape" and node.input and node.input[0] in walk.values:
        # 0 stands for the batch: "copy this dimension" to the Reshape that such shapes end in
        whole = np.array([0, *walk.values[node.input[0]].onnx_shape])
        return np.asarray(whole[_span(Attributes(node))])
    if not node.input or not all(not name or walk.known(name) for name in node.input):
        return None
    arrays = [walk.optional(node, index) for index in range(len(node.input))]
    if node.op_type not in FOLDS or arrays[0] is None:
        return None
    attributes = Attributes(node)
    walk.afford(_size(node.op_type, arrays))
    with np.errstate(all="ignore"):
        folded = np.asarray(FOLDS[node.op_type](arrays, attributes))
    if folded.dtype.kind == "f":
        folded = folded.astype(np.float32, copy=False)
        if node.op_type not in _MOVES and not np.isfinite(folded).all():
            raise refuse(node, "must fold to finite numbers, and it gives NaN or infinity")
    return folded


def _size(operator: str, arrays: list[npt.NDArray[Any] | None]) -> int:
    """Return the elements of a fold's result, before anything is allocated."""
    given = [array for array in arrays if array is not None]
    if operator in _ELEMENTWISE:
        return math.prod(np.broadcast_shapes(*(array.shape for array in given)))
    if operator == "Expand":
        return math.prod(np.broadcast_shapes(given[0].shape, tuple(int(v) for v in given[1].reshape(-1))))
    if operator == "ConstantOfShape":
        return math.prod(max(0, int(v)) for v in given[0].reshape(-1))
    if operator == "Gather":
        return given[1].size * (given[0].size or 1)
    return sum(array.size for array in given)


def constant_node(node: onnx.NodeProto) -> npt.NDArray[Any]:
    """Return the value of a Constant node, in the file's shape."""
    attributes = Attributes(node)
    tensor = attributes.tensor("value")
    if tensor is not None:
        return array_of(tensor, f"constant '{label(node)}'")
    if "value_float" in attributes:
        return np.array(attributes.number("value_float", 0.0), np.float32)
    if "value_int" in attributes:
        return np.array(attributes.integer("value_int", 0))
    floats, ints = attributes.numbers("value_floats"), attributes.ints("value_ints")
    if floats is None and ints is None:
        raise refuse(node, "must hold a tensor or numbers")
    return np.array(floats, np.float32) if ints is None else np.array(ints, np.int64)


def _axes(arrays: _Arrays, attributes: Attributes) -> tuple[int, ...]:
    return tuple(int(a) for a in arrays[1].reshape(-1)) if len(arrays) > 1 else attributes.ints("axes") or ()


def _span(attributes: Attributes) -> slice:
    """Return the part of a shape that a Shape node gives."""
    return slice(attributes.integer("start", 0), attributes.integer("end", 99))


def _slice(arrays: _Arrays, attributes: Attributes) -> npt.NDArray[Any]:
    """Return starts, ends, axes and steps, which are inputs, or attributes before opset 10."""
    facts = [None if array is None else [int(v) for v in array.reshape(-1)] for array in arrays[1:5]]
    if not facts:
        facts = [list(attributes.ints(name) or ()) or None for name in ("starts", "ends", "axes")]
    facts += [None] * (4 - len(facts))
    starts, ends, axes, steps = facts
    if starts is None or ends is None:
        raise ValueError("a Slice needs starts and ends")
    index = [slice(None)] * arrays[0].ndim
    for rank, axis in enumerate(axes or range(len(starts))):
        index[axis] = slice(starts[rank], ends[rank], steps[rank] if steps else None)
    return np.asarray(arrays[0][tuple(index)])


def _reshape(arrays: _Arrays, attributes: Attributes) -> npt.NDArray[Any]:
    """Reshape a constant; 0 copies a dimension."""
    keep = not attributes.integer("allowzero", 0)
    target = [int(v) for v in arrays[1].reshape(-1)]
    return np.asarray(arrays[0].reshape([arrays[0].shape[i] if v == 0 and keep else v for i, v in enumerate(target)]))


def _cast(arrays: _Arrays, attributes: Attributes) -> npt.NDArray[Any]:
    to = attributes.integer("to", TensorProto.FLOAT)
    if to == TensorProto.BOOL:
        return np.asarray(arrays[0], bool)
    floats = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
    return np.asarray(arrays[0], np.float32 if to in floats else np.int64)


def _fill(arrays: _Arrays, attributes: Attributes) -> npt.NDArray[Any]:
    """Evaluate ConstantOfShape: a float zero by default."""
    tensor = attributes.tensor("value")
    value = np.zeros(1, np.float32) if tensor is None else array_of(tensor, "the value of a ConstantOfShape")
    return np.full([int(v) for v in arrays[0].reshape(-1)], value.reshape(()))


def _reduce(function: Callable[..., Any]) -> _Fold:
    def fold(arrays: _Arrays, attributes: Attributes) -> npt.NDArray[Any]:
        axes = _axes(arrays, attributes) or None
        if axes is None and attributes.integer("noop_with_empty_axes", 0):
            return np.asarray(arrays[0])
        return np.asarray(function(arrays[0], axis=axes, keepdims=bool(attributes.integer("keepdims", 1))))

    return fold


def _integers(arrays: _Arrays, attributes: Attributes) -> npt.NDArray[Any]:
    """Evaluate QuantizeLinear: rounded half to even, and saturated to the type of its zero point."""
    given = attributes.integer("output_dtype", 0)
    if given in FOUR_BITS:
        (low, high), kind = FOUR_BITS[given], np.dtype(np.int8 if given == TensorProto.INT4 else np.uint8)
    else:
        kind = np.dtype(np.uint8) if len(arrays) < 3 else arrays[2].dtype
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(given)) if given else kind
        low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    scale, zero = _per_block(arrays, attributes)
    return np.asarray(np.clip(np.rint(arrays[0] / scale) + zero, low, high), kind)


def _numbers(arrays: _Arrays, attributes: Attributes) -> npt.NDArray[Any]:
    """Evaluate DequantizeLinear."""
    scale, zero = _per_block(arrays, attributes)
    return np.asarray((arrays[0].astype(np.float64) - zero) * scale)


def _per_block(arrays: _Arrays, attributes: Attributes) -> list[npt.NDArray[np.float64]]:
    """Return scale and zero point of each element: of all, of a position along an axis, or of a block of
    them.
    """
    axis, block = attributes.integer("axis", 1), attributes.integer("block_size", 0)
    if not (arrays[1] > 0).all():
        raise ValueError("a scale is not above 0")
    named = []
    for array in (arrays[1], arrays[2] if len(arrays) > 2 else np.zeros(1)):
        array = np.asarray(array, np.float64)
        if array.size == 1:
            array = array.reshape(())
        elif block:
            array = array.take(np.arange(arrays[0].shape[axis]) // block, axis)
        else:
            array = array.reshape([-1 if at == axis % arrays[0].ndim else 1 for at in range(arrays[0].ndim)])
        named.append(array)
    return named


def _clip(arrays: _Arrays, attributes: Attributes) -> npt.NDArray[Any]:
    low, high = [*arrays[1:3], None, None][:2]
    low = attributes.number("min", -math.inf) if low is None and "min" in attributes else low
    high = attributes.number("max", math.inf) if high is None and "max" in attributes else high
    low, high = (bound if bound is None else np.asarray(bound).reshape(()) for bound in (low, high))
    return np.asarray(arrays[0] if low is None and high is None else np.clip(arrays[0], low, high))


_Arrays = list[Any]  # a None where an optional input is left out
_Fold = Callable[[_Arrays, Attributes], Any]
_ELEMENTWISE: dict[str, _Fold] = {
    "Add": lambda a, _: a[0] + a[1],
    "Div": lambda a, _: a[0] // a[1] if a[0].dtype.kind == "i" else a[0] / a[1],
    "Equal": lambda a, _: a[0] == a[1],
    "GreaterOrEqual": lambda a, _: a[0] >= a[1],
    "Max": lambda a, _: functools.reduce(np.maximum, a),
    "Min": lambda a, _: functools.reduce(np.minimum, a),
    "Mul": lambda a, _: a[0] * a[1],
    "Pow": lambda a, _: np.power(a[0], a[1].astype(a[0].dtype)),
    "Sub": lambda a, _: a[0] - a[1],
    "Sum": lambda a, _: functools.reduce(np.add, a),
    "Where": lambda a, _: np.where(a[0], a[1], a[2]),
}
_MOVES = (
    "Concat",
    "Expand",
    "Gather",
    "Identity",
    "Reshape",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)  # numbers as they were
FOLDS: dict[str, _Fold] = {
    **_ELEMENTWISE,
    "Abs": lambda a, _: np.abs(a[0]),
    "Cast": _cast,
    "Ceil": lambda a, _: np.ceil(a[0]),
    "Clip": _clip,
    "Concat": lambda a, at: np.concatenate([np.atleast_1d(x) for x in a], axis=at.integer("axis", 0)),
    "ConstantOfShape": _fill,
    "DequantizeLinear": _numbers,
    "Exp": lambda a, _: np.exp(a[0]),
    "Expand": lambda a, _: np.broadcast_to(a[0], np.broadcast_shapes(a[0].shape, tuple(a[1].reshape(-1)))).copy(),
    "Floor": lambda a, _: np.floor(a[0]),
    "Gather": lambda a, at: np.take(a[0], a[1], axis=at.integer("axis", 0)),
    "Identity": lambda a, _: a[0],
    "Neg": lambda a, _: -a[0],
    "QuantizeLinear": _integers,
    "Reciprocal": lambda a, _: 1 / a[0],
    "ReduceL2": _reduce(lambda a, **where: np.sqrt(np.sum(np.square(a), **where))),
    "ReduceMean": _reduce(np.mean),
    "ReduceSum": _reduce(np.sum),
    "Reshape": _reshape,
    "Round": lambda a, _: np.rint(a[0]),
    "Shape": lambda a, at: np.array(a[0].shape, np.int64)[_span(at)],
    "Slice": _slice,
    "Sqrt": lambda a, _: np.sqrt(a[0]),
    "Squeeze": lambda a, at: np.squeeze(a[0], _axes(a, at) or None),
    "Transpose": lambda a, at: np.transpose(a[0], at.ints("perm")),
    "Unsqueeze": lambda a, at: np.expand_dims(a[0], _axes(a, at)),
}
