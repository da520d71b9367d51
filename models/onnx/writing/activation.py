"""Write a use of the activation unit as ONNX nodes that `read_onnx` takes for the same use.

Functions without an operator in the opset that is written are spelled out as PyTorch's exporter does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...graph.activations import FUNCTIONS, Activation, Use
from ...graph.network import Parameters


class Writer(Protocol):
    """A graph in the making, to which nodes and constants are appended."""

    def constant(self, name: str, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        """Add a constant; return its name."""

    def node(self, operator: str, inputs: list[str], name: str, **attributes: object) -> str:
        """Add a node; return its output."""


def write_lines(graph: Writer, activation: Activation, own: Parameters, value: str, name: str) -> str:
    """Write slopes below zero, or affine lines, of the channels of a map; return what they give."""
    slopes = graph.constant(f"{name}.slopes", own.slopes.reshape(-1, 1, 1))
    if activation.use is Use.SLOPE:
        return graph.node("PRelu", [value, slopes], f"{name}_prelu")
    scaled = graph.node("Mul", [value, slopes], f"{name}_scale")
    return graph.node(
        "Add", [scaled, graph.constant(f"{name}.offsets", own.offsets.reshape(-1, 1, 1))], f"{name}_shift"
    )


def write_table(graph: Writer, activation: Activation, value: str, name: str) -> str:
    """Write the function of a table; return what it gives."""
    spelled = _SPELLED.get(activation.function)
    base = f"{name}_{activation.function}"
    if spelled is not None:
        return spelled(graph, activation.parameters, value, base)
    attributes = dict(zip(FUNCTIONS[activation.function].usual, activation.parameters, strict=True))
    return graph.node(_OPERATORS[activation.function], [value], base, **attributes)


_Numbers = tuple[float, ...]


def _silu(graph: Writer, numbers: _Numbers, x: str, name: str) -> str:
    return graph.node("Mul", [x, graph.node("Sigmoid", [_times(graph, x, numbers[0], name)], f"{name}_gate")], name)


def _times(graph: Writer, x: str, factor: float, name: str) -> str:
    return x if factor == 1 else graph.node("Mul", [x, graph.constant(f"{name}.beta", factor)], f"{name}_inner")


def _gelu(graph: Writer, _: _Numbers, x: str, name: str) -> str:
    inner = graph.node("Div", [x, graph.constant(f"{name}.root", math.sqrt(2))], f"{name}_inner")
    return _half(graph, x, graph.node("Erf", [inner], f"{name}_erf"), name)


def _gelu_tanh(graph: Writer, _: _Numbers, x: str, name: str) -> str:
    cube = graph.node("Mul", [graph.node("Mul", [x, x], f"{name}_square"), x], f"{name}_cube")
    part = graph.node("Mul", [cube, graph.constant(f"{name}.part", 0.044715)], f"{name}_part")
    total = graph.node("Add", [x, part], f"{name}_sum")
    inner = graph.node("Mul", [total, graph.constant(f"{name}.root", math.sqrt(2 / math.pi))], f"{name}_inner")
    return _half(graph, x, graph.node("Tanh", [inner], f"{name}_tanh"), name)


def _half(graph: Writer, x: str, value: str, name: str) -> str:
    """Write x * (value + 1) / 2."""
    more = graph.node("Add", [value, graph.constant(f"{name}.one", 1.0)], f"{name}_more")
    return graph.node("Mul", [graph.node("Mul", [x, more], f"{name}_twice"), graph.constant(f"{name}.half", 0.5)], name)


def _mish(graph: Writer, _: _Numbers, x: str, name: str) -> str:
    inner = graph.node("Tanh", [graph.node("Softplus", [x], f"{name}_inner")], f"{name}_tanh")
    return graph.node("Mul", [x, inner], name)


def _softplus(graph: Writer, numbers: _Numbers, x: str, name: str) -> str:
    (beta,) = numbers
    if beta == 1:
        return graph.node("Softplus", [x], name)
    inner = graph.node("Softplus", [_times(graph, x, beta, name)], f"{name}_large")
    return graph.node("Div", [inner, graph.constant(f"{name}.divisor", beta)], name)


def _reciprocal_root(graph: Writer, numbers: _Numbers, x: str, name: str) -> str:
    inner = graph.node("Add", [x, graph.constant(f"{name}.epsilon", numbers[0])], f"{name}_inner")
    return graph.node("Reciprocal", [graph.node("Sqrt", [inner], f"{name}_root")], name)


_SPELLED: dict[str, Callable[[Writer, _Numbers, str, str], str]] = {
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "mish": _mish,
    "softplus": _softplus,
    "reciprocal_root": _reciprocal_root,
}
_OPERATORS = {
    "hard_swish": "HardSwish",
    "hard_sigmoid": "HardSigmoid",
    "elu": "Elu",
    "celu": "Celu",
    "selu": "Selu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "leaky_relu": "LeakyRelu",
}
