"""Fold ONNX operators that compute into open layers: normalisation, activation, sums, products, constants."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ...errors import UnsupportedOperatorError
from ...graph.activations import Activation, Use
from ..file import Attributes, label, refuse
from .combining import add_two, multiply
from .drafts import Doubles
from .patterns import activation_of
from .refusals import NO_TABLE, misfit
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
    """Multiply what is negative by the slope of its channel."""
    source = walk.value(node)
    if node.op_type == "PRelu":
        slopes = per_channel(node, source, walk.constant(node, 1))
    else:
        slopes = np.full(source.shape[2], Attributes(node).number("alpha", 0.01))
    walk.put(node, walk.activate(node, source, Activation(use=Use.SLOPE), node.output[0], slopes))


def _table(walk: Walk, node: onnx.NodeProto) -> None:
    """Look a function up in a table of the activation unit."""
    activation = activation_of(node)
    if activation is None:
        raise misfit(node, "has parameters that the function does not allow", NO_TABLE)
    walk.put(node, walk.activate(node, walk.value(node), activation, node.output[0]))


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
    """Return a constant operand as (n,) when it broadcasts over channels alone.

    Raises UnsupportedOperatorError for any other.
    """
    spread = source.view.spread(array)
    if spread is None:
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"has a constant of shape {array.shape}",
            f"only one number, or one for each of {source.shape[2]} channels, can be folded",
        )
    return spread.astype(np.float64)


def scale(walk: Walk, node: onnx.NodeProto) -> None:
    """Fold Mul, Div, Sub or Add with a constant operand; multiply two activations.

    Raises UnsupportedOperatorError for a division by an activation or by zero.
    """
    operands = _operands(walk, node)
    if operands is None and node.op_type == "Mul" and len(node.input) == 2:
        walk.renamed(node, multiply(walk, node, walk.value(node), walk.value(node, 1)))
        return
    if operands is None:
        raise misfit(node, "divides one activation by another", _ONE_FACTOR)
    source, array, first = operands
    constant = per_channel(node, source, array)
    ones, zero = np.ones_like(constant), np.zeros_like(constant)
    if node.op_type == "Div" and (first or not constant.all()):
        raise UnsupportedOperatorError(label(node), node.op_type, "divides by an activation or by zero", _ONE_FACTOR)
    factor, shift = {
        "Mul": (constant, zero),
        "Div": (1 / np.where(constant == 0, 1, constant), zero),
        "Add": (ones, constant),
        "Sub": (-ones, constant) if first else (ones, -constant),
    }[node.op_type]
    walk.affine(node, source, factor, shift)


def _power(walk: Walk, node: onnx.NodeProto) -> None:
    """Multiply an activation by itself."""
    exponent = walk.constant(node, 1)
    if exponent.size != 1 or float(exponent.reshape(())) not in (1.0, 2.0):
        raise misfit(node, "is another power than a square", "multiply instead")
    if float(exponent.reshape(())) == 1.0:
        walk.alias(node, walk.raw(node))
        return
    source = replace(walk.value(node), exclusive=False)
    walk.renamed(node, multiply(walk, node, source, source))


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


def _sigmoid(walk: Walk, node: onnx.NodeProto) -> None:
    """Leave a Sigmoid to what reads it: the host, where it ends an output, else a table (`Walk.value`)."""
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
    **dict.fromkeys(("Celu", "Elu", "Gelu", "HardSwish", "Mish", "Selu", "Softplus", "Swish", "Tanh"), _table),
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
    "Pow": _power,
    "Relu": _relu,
    "Sigmoid": _sigmoid,
    "Softmax": _softmax,
    "Sum": _add,
}
