"""Fold ONNX operators that compute into open layers: normalisation, activation, sums, constant arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ..errors import UnsupportedOperatorError
from .branches import branch, merge
from .drafts import Doubles
from .file import Attributes, label, refuse
from .refusals import NO_GATES, misfit
from .walk import Value, Walk

_UNBOUNDED = 3e38  # what older exporters write for "no limit" in a Clip
_ONE_FACTOR = "only a constant factor per channel can be folded"


def _batch_normalization(walk: Walk, node: onnx.NodeProto) -> None:
    source, attributes = walk.value(node, lazy=True), Attributes(node)
    if attributes.integer("training_mode", 0):
        raise UnsupportedOperatorError(
            label(node), node.op_type, "is in training mode", "export the model in evaluation mode"
        )
    if not source.view.holds(0, "") or any("c" in axis for axis in source.view.axes[1:]):
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


def _hard_sigmoid(walk: Walk, node: onnx.NodeProto) -> None:
    """Fold clamp(alpha * x + beta, 0, 1), which is an affine map and a clip."""
    source, attributes = walk.value(node, lazy=True), Attributes(node)
    ones = np.ones(source.shape[2])
    walk.affine(node, source, attributes.number("alpha", 0.2) * ones, attributes.number("beta", 0.5) * ones)
    walk.clip(node, (0.0, 1.0), walk.values[node.output[0]])


def _leaky_relu(walk: Walk, node: onnx.NodeProto) -> None:
    """Fold slope * x + (1 - slope) * max(x, 0): two layers, the second adds the first; three for a slope
    above 1.
    """
    source = replace(walk.value(node), exclusive=False)
    if node.op_type == "PRelu":
        slope = per_channel(node, source, walk.constant(node, 1))
    else:
        slope = np.full(source.shape[2], Attributes(node).number("alpha", 0.01))
    zeros, gentle = np.zeros_like(slope), bool((slope <= 1).all())

    def scaled(value: Value, factor: Doubles, output: str | None = None) -> Value:
        return walk.copy(node, replace(value, factor=factor, shift=zeros), output)

    # (1 - slope) * max(x, 0) is max((1 - slope) * x, 0) where 1 - slope is not negative
    positive = scaled(source, 1 - slope if gentle else np.ones_like(slope))
    positive.plane.own[0].clip = (0.0, None)
    if gentle:
        made = scaled(source, slope, node.output[0])
        made.plane.own[0].residual = positive.plane
    else:
        below = scaled(source, slope)
        made = scaled(positive, 1 - slope, node.output[0])
        made.plane.own[0].residual = below.plane
    walk.put(node, made)


def _operands(walk: Walk, node: onnx.NodeProto) -> tuple[Value, npt.NDArray[Any], bool] | None:
    """Return (activation, constant, constant comes first) of a two-input node, or None when neither is
    constant.
    """
    if len(node.input) != 2:
        return None
    for index in (1, 0):
        if walk.known(node.input[index]):
            value = walk.value(node, 1 - index, lazy=True)
            return value, walk.constant(node, index).astype(np.float32), index == 0
    return None


def per_channel(node: onnx.NodeProto, source: Value, array: npt.NDArray[Any]) -> Doubles:
    """Return a constant operand as (n,) when it broadcasts over channels alone."""
    found = source.view.spread(array)
    if found is None:
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"has a constant of shape {array.shape}",
            f"only one number, or one for each of {source.shape[2]} channels, can be folded",
        )
    return found.astype(np.float64)


def scale(walk: Walk, node: onnx.NodeProto) -> None:
    """Fold Mul, Div, Sub or Add with a constant operand."""
    found = _operands(walk, node)
    if found is None:
        raise _product(walk, node)
    source, array, first = found
    constant = per_channel(node, source, array)
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


def _product(walk: Walk, node: onnx.NodeProto) -> UnsupportedOperatorError:
    """Return the refusal of a node that combines two activations."""
    return misfit(node, "combines two activations", f"{_ONE_FACTOR}; {NO_GATES}")


def _negate(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.value(node, lazy=True)
    walk.affine(node, source, -np.ones(source.shape[2]), np.zeros(source.shape[2]))


def _add(walk: Walk, node: onnx.NodeProto) -> None:
    if node.op_type == "Add" and _operands(walk, node) is not None:
        scale(walk, node)
        return
    indices = [index for index, name in enumerate(node.input) if not walk.known(name)] or [0]
    total = walk.value(node, indices[0], lazy=len(indices) == 1)
    for index in indices[1:]:
        total = add_two(walk, node, total, walk.value(node, index))
    constants = [per_channel(node, total, walk.constant(node, i)) for i in range(len(node.input)) if i not in indices]
    if constants:
        walk.affine(node, total, np.ones(total.shape[2]), np.sum(constants, axis=0, dtype=np.float64))
    elif len(indices) == 1:
        walk.alias(node, total)
    else:
        walk.renamed(node, total)


def add_two(walk: Walk, node: onnx.NodeProto, first: Value, second: Value) -> Value:
    """Fold a sum into the layer that writes one operand and has no other reader; else into a copy of one."""
    if first.onnx_shape != second.onnx_shape or _places(first) != _places(second):
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"adds {first.onnx_shape} to {second.onnx_shape}",
            "both operands must have one shape (channels, height, width)",
        )
    merged = _one_convolution(walk, first, second)
    if merged is not None:
        return merged
    into, other = (second, first) if second.plane.gain != 1.0 else (first, second)
    if _open(first):
        into, other = first, second
    elif _open(second):
        into, other = second, first
    else:
        into = walk.copy(node, into)
    start = _residual_start(into, other)
    if start is None:
        into, other = (value if value.ordered else walk.gathered(node, value) for value in (into, other))
        into = into if _open(into) else walk.copy(node, into)
        start = int(other.view.index[0])
    if other.plane.gain != 1.0 and into.plane.inside is None:
        into.plane.gain = other.plane.gain  # its convolutions take it into their weights
    elif other.plane.gain != 1.0:
        other = walk.copy(node, other)
        start = _residual_start(into, other)
    assert start is not None
    for draft in into.plane.writers:
        place = draft.output.within(into.plane)
        draft.residual, draft.residual_first = other.plane, start
        draft.residual_at, draft.residual_step = place.of(draft.at), place.step
    return replace(into, exclusive=True)


def _one_convolution(walk: Walk, first: Value, second: Value) -> Value | None:
    """Return the sum of two convolutions of one input as the larger of them, or None where it is no such
    sum.
    """
    mine, theirs = branch(first), branch(second)
    if mine is None or theirs is None or mine is theirs:
        return None
    if (mine.residual is not None, mine.layer().shape.macs) < (theirs.residual is not None, theirs.layer().shape.macs):
        first, second, mine, theirs = second, first, theirs, mine
    if not merge(mine, theirs, second.view.index[np.argsort(first.view.index)]):
        return None
    walk.drafts.remove(theirs)
    return replace(first, exclusive=True)


def _places(value: Value) -> tuple[str, ...]:
    """Return where height and width stand among a value's axes."""
    return tuple(axis.strip("c") if not value.view.holds(i, "") else "" for i, axis in enumerate(value.view.axes))


def _residual_start(into: Value, other: Value) -> int | None:
    """Return the first channel to add of the other's plane when it has the order of the writer's; else
    None.
    """
    place = np.argsort(into.view.index)  # the value's channel at each place of the plane that is written
    added = other.view.index[place]
    return int(added[0]) if np.array_equal(added, added[0] + np.arange(added.size)) else None


def _open(value: Value) -> bool:
    """True if nothing else reads a value, and each layer that writes it writes all channels of some pixels
    and still takes a residual.
    """
    plane = value.plane
    return value.foldable and all(one.open and one.channels == plane.shape[2] for one in plane.writers)


def _sigmoid(walk: Walk, node: onnx.NodeProto) -> None:
    """Leave a Sigmoid to the host: it may only end an output."""
    walk.alias(node, walk.value(node), activation="sigmoid")


def _softmax(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.value(node)
    rank = len(source.view.axes)
    given = Attributes(node).integer("axis", -1 if walk.file.opset >= 13 else 1)
    axis = given + rank + 1 if given < 0 else given
    shape = source.onnx_shape
    fits = 1 <= axis <= rank
    if fits and walk.file.opset < 13:  # it ran over all axes from there on
        fits = math.prod(shape[axis - 1 :]) == shape[axis - 1]
    if not fits:
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"runs along axis {given} of (N, {', '.join(map(str, shape))})",
            "it must run over an exit's classes, or over the channels of an output",
        )
    walk.alias(node, source, activation="log_softmax" if node.op_type == "LogSoftmax" else "softmax", axis=axis)


FOLDING_OPERATORS = {
    "Add": _add,
    "BatchNormalization": _batch_normalization,
    "Clip": _clip,
    "Div": scale,
    "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": _leaky_relu,
    "LogSoftmax": _softmax,
    "Mul": scale,
    "Neg": _negate,
    "PRelu": _leaky_relu,
    "Relu": _relu,
    "Sigmoid": _sigmoid,
    "Softmax": _softmax,
    "Sum": _add,
}
