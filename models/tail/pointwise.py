"""Operators that treat each value by itself: arithmetic, comparisons, activations, casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from .call import DTYPES, Array, Operator, OperatorCall, axis_of, together

_erf = np.frompyfunc(math.erf, 1, 1)


def _binary(function: Callable[[Array, Array], Array]) -> Operator:
    def run(call: OperatorCall) -> Array:
        together(call[0], call[1])
        return np.asarray(function(call[0], call[1]))

    return run


def _unary(function: Callable[[Array], Array]) -> Operator:
    return lambda call: np.asarray(function(call[0]))


def _many(function: Callable[[Array, Array], Array]) -> Operator:
    def run(call: OperatorCall) -> Array:
        arrays = [call[index] for index in range(len(call.inputs))]
        together(*arrays)
        return np.asarray(reduce(function, arrays))

    return run


def _divide(a: Array, b: Array) -> Array:
    """Divide; whole numbers towards zero, as C does."""
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    if not b.all():
        raise ValueError("whole numbers must not be divided by zero")
    down = a // b
    return np.asarray(down + ((down < 0) & (down * b != a)), a.dtype)


def _power(a: Array, b: Array) -> Array:
    """Raise to a power; the result has the type of the base."""
    if a.dtype.kind in "iu" and b.dtype.kind in "iu" and not (b < 0).any():
        return np.asarray(np.power(a, b), a.dtype)
    return np.asarray(np.power(a.astype(np.float64), b.astype(np.float64))).astype(a.dtype)


def _modulo(call: OperatorCall) -> Array:
    together(call[0], call[1])
    if call[0].dtype.kind in "iu" and not call[1].all():
        raise ValueError("whole numbers must not be divided by zero")
    return np.asarray((np.fmod if call.integer("fmod", 0) else np.mod)(call[0], call[1]))


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) in the type and shape of x; where exp gives infinity it is 0."""
    return np.asarray(1 / (1 + np.exp(-x)), x.dtype)


def _hard_sigmoid(call: OperatorCall) -> Array:
    x = call[0]
    alpha, beta = call.number("alpha", 0.2), call.number("beta", 0.5)
    return np.asarray(np.clip(x * np.float32(alpha) + np.float32(beta), 0, 1), x.dtype)


def _clip(call: OperatorCall) -> Array:
    x, low, high = call[0], call.optional(1), call.optional(2)
    if "min" in call.attributes or low is not None:
        x = np.maximum(x, np.asarray(call.attributes.get("min", low), x.dtype))
    if "max" in call.attributes or high is not None:
        x = np.minimum(x, np.asarray(call.attributes.get("max", high), x.dtype))
    return np.asarray(x)


def cast(x: Array, dtype: str) -> Array:
    """Convert as ONNX does, in the shape of x.

    Floats become whole numbers towards zero; anything that is not zero is true.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        return x.astype(np.dtype(dtype))


def _cast(call: OperatorCall) -> Array:
    to = call.integer("to", 1)
    if to not in DTYPES:
        raise ValueError(f"the type {to} of a Cast must be a number or a boolean")
    return cast(call[0], DTYPES[to])


def _softmax(call: OperatorCall, *, logarithm: bool = False) -> Array:
    """Shares along an axis; before opset 13, along all axes from one on together."""
    x = call[0]
    axis = axis_of(call.integer("axis", -1 if call.opset >= 13 else 1), x.ndim)
    work = x if call.opset >= 13 else x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    along = axis if call.opset >= 13 else 1
    if not work.size:
        return x
    shifted = work - work.max(axis=along, keepdims=True)
    powers = np.exp(shifted)
    total = powers.sum(axis=along, keepdims=True)
    return np.asarray(shifted - np.log(total) if logarithm else powers / total, x.dtype).reshape(x.shape)


def _where(call: OperatorCall) -> Array:
    together(call[0], call[1], call[2])
    return np.where(call[0], call[1], call[2])


def _prelu(call: OperatorCall) -> Array:
    together(call[0], call[1])
    return np.asarray(np.where(call[0] < 0, call[0] * call[1], call[0]))


def _leaky(call: OperatorCall) -> Array:
    x = call[0]
    return np.asarray(np.where(x < 0, x * np.asarray(call.number("alpha", 0.01), x.dtype), x))


def _elu(call: OperatorCall) -> Array:
    x = call[0]
    alpha = np.asarray(call.number("alpha", 1.0), x.dtype)
    return np.asarray(np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x))


def _mean(call: OperatorCall) -> Array:
    total = POINTWISE["Sum"](call)
    return np.asarray(total / np.asarray(len(call.inputs), call[0].dtype))


def _gelu(call: OperatorCall) -> Array:
    x = call[0]
    if call.text("approximate", "none") == "tanh":
        inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
        return np.asarray(np.float32(0.5) * x * (1 + np.tanh(inner)), x.dtype)
    return np.asarray(np.float32(0.5) * x * (1 + _error_function(x * np.float32(math.sqrt(0.5)))), x.dtype)


def _error_function(x: Array) -> Array:
    return np.asarray(_erf(x.astype(np.float64)), np.float64).astype(x.dtype)


def _hard_swish(call: OperatorCall) -> Array:
    x = call[0]
    return np.asarray(x * np.clip(x * np.float32(1 / 6) + np.float32(0.5), 0, 1), x.dtype)


def _softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(np.zeros((), x.dtype), x))


def _mish(x: Array) -> Array:
    return np.asarray(x * np.tanh(_softplus(x)))


def _reciprocal(x: Array) -> Array:
    return np.asarray(np.ones((), x.dtype) / x)


def _identity(call: OperatorCall) -> Array:
    return call[0]


def _truth(function: Callable[..., Any]) -> Operator:
    return _binary(lambda a, b: np.asarray(function(a, b), np.bool_))


POINTWISE: dict[str, Operator] = {
    "Abs": _unary(np.abs),
    "Add": _binary(np.add),
    "And": _truth(np.logical_and),
    "Cast": _cast,
    "Ceil": _unary(np.ceil),
    "Clip": _clip,
    "Cos": _unary(np.cos),
    "Div": _binary(_divide),
    "Dropout": _identity,
    "Elu": _elu,
    "Equal": _truth(np.equal),
    "Erf": _unary(_error_function),
    "Exp": _unary(np.exp),
    "Floor": _unary(np.floor),
    "Gelu": _gelu,
    "Greater": _truth(np.greater),
    "GreaterOrEqual": _truth(np.greater_equal),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Identity": _identity,
    "LeakyRelu": _leaky,
    "Less": _truth(np.less),
    "LessOrEqual": _truth(np.less_equal),
    "Log": _unary(np.log),
    "LogSoftmax": lambda call: _softmax(call, logarithm=True),
    "Max": _many(np.maximum),
    "Mean": _mean,
    "Min": _many(np.minimum),
    "Mish": _unary(_mish),
    "Mod": _modulo,
    "Mul": _binary(np.multiply),
    "Neg": _unary(np.negative),
    "Not": _unary(np.logical_not),
    "Or": _truth(np.logical_or),
    "PRelu": _prelu,
    "Pow": _binary(_power),
    "Reciprocal": _unary(_reciprocal),
    "Relu": _unary(lambda x: np.maximum(x, np.zeros((), x.dtype))),
    "Round": _unary(np.rint),
    "Sigmoid": _unary(sigmoid),
    "Sign": _unary(np.sign),
    "Sin": _unary(np.sin),
    "Softmax": _softmax,
    "Softplus": _unary(_softplus),
    "Sqrt": _unary(np.sqrt),
    "Sub": _binary(np.subtract),
    "Sum": _many(np.add),
    "Tanh": _unary(np.tanh),
    "Where": _where,
    "Xor": _truth(np.logical_xor),
}
