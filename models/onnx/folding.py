"""Fold ONNX operators into open layers: normalisation, activation, sums, concatenation, changes of shape."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ..errors import UnsupportedOperatorError
from ..graph.shapes import Shape
from .drafts import Array, Plane
from .file import MOST_ELEMENTS, Attributes, label, refuse
from .walk import Value, Walk

_UNBOUNDED = 3e38  # what older exporters write for "no limit" in a Clip
_ONE_FACTOR = "only a constant factor per channel can be folded"


def _batch_normalization(walk: Walk, node: onnx.NodeProto) -> None:
    source, attributes = walk.value(node), Attributes(node)
    if attributes.integer("training_mode", 0):
        raise UnsupportedOperatorError(
            label(node), node.op_type, "is in training mode", "export the model in evaluation mode"
        )
    if source.vector and not source.pixel:
        raise UnsupportedOperatorError(
            label(node), node.op_type, "normalises a flattened map", "normalise before flattening"
        )
    arrays = [walk.constant(node, index).astype(np.float64).reshape(-1) for index in (1, 2, 3, 4)]
    if any(array.size != source.shape[2] for array in arrays):
        raise refuse(
            node, f"must have {source.shape[2]} scales, offsets, means and variances, not {[a.size for a in arrays]}"
        )
    gamma, beta, mean, variance = arrays
    with np.errstate(all="ignore"):  # what is not finite is refused by name when the layer is built
        factor = gamma / np.sqrt(variance + attributes.number("epsilon", 1e-5))
        shift = beta - mean * factor
    walk.affine(node, source, factor, shift)


def _relu(walk: Walk, node: onnx.NodeProto) -> None:
    walk.clip(node, (0.0, None))


def _clip(walk: Walk, node: onnx.NodeProto) -> None:
    attributes = Attributes(node)
    bounds: list[float | None] = []
    for index, name in ((1, "min"), (2, "max")):
        given = walk.optional(node, index)
        if given is not None and given.size != 1:
            raise refuse(node, f"must have one number as its {name}, not an array {given.shape}")
        bound = (
            attributes.number(name, math.copysign(_UNBOUNDED, index - 1.5))
            if given is None
            else float(given.reshape(()))
        )
        bounds.append(None if abs(bound) >= _UNBOUNDED else bound)
    walk.clip(node, (bounds[0], bounds[1]))


def _operands(walk: Walk, node: onnx.NodeProto) -> tuple[Value, npt.NDArray[Any], bool] | None:
    """Return (activation, constant, constant comes first) of a two-input node, or None when neither is
    constant.
    """
    if len(node.input) != 2:
        return None
    for index in (1, 0):
        if walk.known(node.input[index]):
            return walk.value(node, 1 - index), walk.constant(node, index).astype(np.float32), index == 0
    return None


def _per_channel(node: onnx.NodeProto, source: Value, array: Array) -> Array:
    """Return a constant operand as (C,) when it broadcasts over channels alone."""
    channels = source.shape[2]
    shape = array.shape
    rank = 2 if source.vector else 4
    if array.size == 1 and len(shape) <= rank:
        return np.full(channels, array.reshape(()))
    aligned = (1,) * (rank - len(shape)) + shape
    wanted = (1, channels) if source.vector else (1, channels, 1, 1)
    if aligned != wanted or (source.vector and not source.pixel):
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"has a constant of shape {shape}",
            f"only one number, or one for each of {channels} channels, can be folded",
        )
    return array.reshape(-1)


def _scale(walk: Walk, node: onnx.NodeProto) -> None:
    """Fold Mul, Div, Sub or Add with a constant operand."""
    found = _operands(walk, node)
    if found is None:
        raise UnsupportedOperatorError(label(node), node.op_type, "combines two activations", _ONE_FACTOR)
    source, array, first = found
    constant = _per_channel(node, source, array).astype(np.float64)
    one, zero = np.ones_like(constant), np.zeros_like(constant)
    if node.op_type == "Div" and (first or not constant.all()):
        raise UnsupportedOperatorError(label(node), node.op_type, "divides by an activation or by zero", _ONE_FACTOR)
    factor, shift = {
        "Mul": (constant, zero),
        "Div": (1 / np.where(constant == 0, 1, constant), zero),
        "Add": (one, constant),
        "Sub": (-one, constant) if first else (one, -constant),
    }[node.op_type]
    walk.affine(node, source, factor, shift)


def _add(walk: Walk, node: onnx.NodeProto) -> None:
    if node.op_type == "Add" and _operands(walk, node) is not None:
        _scale(walk, node)
        return
    indices = [index for index, name in enumerate(node.input) if not walk.known(name)] or [0]
    total = walk.value(node, indices[0])
    for index in indices[1:]:
        total = _add_two(walk, node, total, walk.value(node, index))
    constants = [_per_channel(node, total, walk.constant(node, i)) for i in range(len(node.input)) if i not in indices]
    if constants:
        walk.affine(node, total, np.ones(total.shape[2]), np.sum(constants, axis=0, dtype=np.float64))
    elif len(indices) == 1:
        walk.alias(node, total)
    else:
        walk.renamed(node, total)


def _add_two(walk: Walk, node: onnx.NodeProto, first: Value, second: Value) -> Value:
    """Fold a sum into the layer that writes one operand and has no other reader; else into a copy of one."""
    if first.shape != second.shape or (first.vector != second.vector and not first.pixel):
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"adds {first.shape} to {second.shape}",
            "both operands must have one shape (height, width, channels)",
        )
    into, other = (second, first) if second.plane.gain != 1.0 else (first, second)
    if _open(first):
        into, other = first, second
    elif _open(second):
        into, other = second, first
    else:
        into = walk.copy(node, into)
    if other.plane.gain != 1.0:
        other = walk.copy(node, other)
    into.plane.writers[0].residual = other.plane
    return replace(into, exclusive=True)


def _open(value: Value) -> bool:
    """True if one layer writes all of a value, still takes a residual, and nothing else reads the value."""
    return value.exclusive and len(value.plane.writers) == 1 and value.plane.writers[0].open


def _concat(walk: Walk, node: onnx.NodeProto) -> None:
    pieces = [walk.value(node, index) for index in range(len(node.input))]
    first = pieces[0]
    axis = Attributes(node).integer("axis", 1)
    flat = all(piece.vector and piece.pixel for piece in pieces)
    maps = not any(piece.vector for piece in pieces)
    if (
        not (flat or maps)
        or axis not in ((1, -1) if flat else (1, -3))
        or any(piece.shape[:2] != first.shape[:2] for piece in pieces)
    ):
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"joins {[piece.shape for piece in pieces][:8]} along axis {axis}",
            "only maps of one size can be joined, by channels",
        )
    plane = Plane(name=node.output[0], shape=(*first.shape[:2], sum(piece.shape[2] for piece in pieces)))
    if math.prod(plane.shape) > MOST_ELEMENTS:
        raise refuse(node, f"must have an output of at most {MOST_ELEMENTS} values, not {plane.shape}")
    mixed = any(piece.plane.gain != first.plane.gain for piece in pieces) or not all(
        piece.exclusive for piece in pieces
    )
    offset = 0
    for piece in pieces:
        fits = piece.exclusive and piece.plane.writers and (piece.plane.gain == 1.0 or not mixed)
        moved = piece if fits else walk.copy(node, piece)
        plane.gain = moved.plane.gain
        for writer in moved.plane.writers:
            writer.output = plane
            writer.offset += offset
            plane.writers.append(writer)
        offset += piece.shape[2]
    walk.put(node, Value(plane=plane, vector=flat, exclusive=walk.uses[node.output[0]] == 1))


def _flatten(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.value(node)
    if Attributes(node).integer("axis", 1) not in (1, -1 if source.vector else -3):
        raise UnsupportedOperatorError(
            label(node), node.op_type, "does not keep the batch apart", "flatten from axis 1"
        )
    walk.alias(node, source, vector=True)


def _reshape(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.value(node)
    height, width, channels = source.shape
    count = height * width * channels
    target = [int(v) for v in walk.constant(node, 1).reshape(-1)[:9]]
    if walk.batch == 1 and source.pixel and target in ([-1], [count]):
        walk.alias(node, source, vector=True, joined=True)
        return
    batch_kept = bool(target) and target[0] in (0, -1, 1, walk.batch) and target.count(-1) <= 1
    if batch_kept and len(target) == 2 and target[1] in (count, -1):
        walk.alias(node, source, vector=True, joined=False)
        return
    now = (count, 1, 1) if source.vector and source.pixel else (channels, height, width)
    if not source.vector:  # 0 copies a dimension
        target = [now[i - 1] if v == 0 and 0 < i < 4 else v for i, v in enumerate(target)]
    if batch_kept and len(target) == 4 and not (source.vector and not source.pixel) and _fills(target[1:], now):
        walk.alias(node, source, vector=False, joined=False)
        return
    raise UnsupportedOperatorError(
        label(node),
        node.op_type,
        f"turns (N, {channels}, {height}, {width}) into {tuple(target)}",
        "only flattening to (N, features) is possible",
    )


def _gather(walk: Walk, node: onnx.NodeProto) -> None:
    """Pass on a Gather of one line of values in order: PyTorch's `as_strided` of a pooled map, for a batch of
    one.
    """
    source, index = walk.value(node), walk.constant(node, 1)
    count = source.shape[2]
    inside = source.joined and Attributes(node).integer("axis", 0) == 0
    if not inside or index.shape not in ((1, count, 1, 1), (1, count)) or index.ravel().tolist() != list(range(count)):
        raise UnsupportedOperatorError(
            label(node), node.op_type, "picks values", "only one that leaves all values in their order can be read"
        )
    walk.alias(node, source, vector=index.ndim == 2, joined=False)


def _fills(target: list[int], shape: Shape) -> bool:
    """True if a Reshape to `target` leaves (C, H, W) as it is."""
    if target.count(-1) == 1:
        known = math.prod(v for v in target if v != -1)
        target = [math.prod(shape) // known if v == -1 and known else v for v in target]
    return tuple(target) == shape


def _squeeze(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.value(node)
    given = walk.optional(node, 1)
    axes = Attributes(node).ints("axes") if given is None else tuple(int(a) for a in given.reshape(-1))
    squeeze = node.op_type == "Squeeze"
    if source.vector == squeeze or not source.pixel or axes is None or sorted(a % 4 for a in axes) != [2, 3]:
        raise UnsupportedOperatorError(
            label(node), node.op_type, "changes more than trailing ones", "flatten to (N, features) instead"
        )
    walk.alias(node, source, vector=squeeze)


def _identity(walk: Walk, node: onnx.NodeProto) -> None:
    """Pass Identity and Dropout through, also behind a Softmax or a Pad."""
    training = walk.optional(node, 2)
    if training is not None and training.any():
        raise UnsupportedOperatorError(
            label(node), node.op_type, "is in training mode", "export the model in evaluation mode"
        )
    name = node.input[0] if node.input else ""
    source = walk.values[name] if name in walk.values else walk.value(node)
    walk.alias(node, source, softmaxed=source.softmaxed, pad=source.pad)


def _softmax(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.value(node)
    axis = Attributes(node).integer("axis", -1 if walk.file.opset >= 13 else 1)
    good = axis in (1, -1) if source.vector else source.pixel and axis in (1, -3)
    if not good:
        raise UnsupportedOperatorError(
            label(node), node.op_type, f"runs along axis {axis} of {source.shape}", "it must run over an exit's classes"
        )
    walk.alias(node, source, softmaxed=True)


FOLDING_OPERATORS = {
    "Add": _add,
    "BatchNormalization": _batch_normalization,
    "Clip": _clip,
    "Concat": _concat,
    "Div": _scale,
    "Dropout": _identity,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": _identity,
    "LogSoftmax": _softmax,
    "Mul": _scale,
    "Relu": _relu,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Squeeze": _squeeze,
    "Sub": _scale,
    "Sum": _add,
    "Unsqueeze": _squeeze,
}
