"""Blocks of a graph above the level of operators: one table, each row with a name and a remedy.

A pattern is found upwards from the node that gives its result. Three users share the table (ADR 60): a
refusal names what its node belongs to, `survey` counts what stands in the way, and the walk puts the
activation unit in place of a pattern that `lowers` to it. Matching reads names and constants alone; it knows
nothing of layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import onnx

from ...errors import ModelFileError, NetworkError
from ...graph.activations import FUNCTIONS, Activation, Use
from ..file import Attributes, OnnxFile, array_of
from .refusals import NO_NORM, NO_PRODUCT, NO_SEQUENCES, NO_TABLE

MOST_UP = 64  # nodes that a search upwards visits; the parts of one gate are fewer
MOST_CONSTANT = 16  # elements of a constant that a pattern compares


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """One place where a graph holds a known block of several nodes, or one node that stands for it."""

    name: str
    remedy: str
    nodes: frozenset[int]  # indices into the graph's nodes
    reads: str  # the activation that goes in
    gives: str  # the value that comes out
    lowers: Activation | None = None  # what the activation unit does in its place


class Any(NamedTuple):
    """Any value that depends on the input; the same name within a pattern is the same value."""

    name: str = "x"


class Number(NamedTuple):
    """A constant, near to a value where one is given; with a name it is that parameter of the function."""

    value: float | None = None
    name: str = ""


class Op(NamedTuple):
    """A node of one of some operators, over operands; sums and products match in either order.

    `attributes`: name, value, and value where it is left out.
    """

    kinds: str
    operands: tuple[Expression, ...]
    only_first: bool = False  # further inputs may be anything
    attributes: tuple[tuple[str, float | str, float | str], ...] = ()


Expression = Any | Number | Op


class Row(NamedTuple):
    """One row of the table: a shape with its name, and the function that it computes or a remedy."""

    name: str
    shape: Expression
    function: str = ""
    remedy: str = ""


def op(
    kinds: str, *operands: Expression, first: bool = False, where: tuple[tuple[str, float | str, float | str], ...] = ()
) -> Op:
    """Return an operator over operands; with `first` its further inputs may be anything."""
    return Op(kinds, operands, first, where)


X = Any()
_PLUS_3 = op("Add", X, Number(3.0))
_RELU6 = (
    op("Clip", _PLUS_3, Number(0.0), Number(6.0)),
    op("Clip", _PLUS_3, where=(("min", 0.0, -1.0), ("max", 6.0, -1.0))),  # before opset 11
)
_HARD = (
    op("HardSigmoid", X, where=(("alpha", 1 / 6, 0.2), ("beta", 0.5, 0.5))),
    *(op("Div", clipped, Number(6.0)) for clipped in _RELU6),
    *(op("Mul", clipped, Number(1 / 6)) for clipped in _RELU6),
)
_HALF_ERF = op("Add", op("Erf", op("Div", X, Number(2**0.5))), Number(1.0))
_HALF_ERF_BY = op("Add", op("Erf", op("Mul", X, Number(0.5**0.5))), Number(1.0))
_CUBES = (
    op("Pow", X, Number(3.0)),
    op("Mul", op("Mul", X, X), X),
)
_ROOT = Number((2 / math.pi) ** 0.5)
_TANHS = tuple(
    op("Add", op("Tanh", inner), Number(1.0))
    for inner in (
        *(op("Mul", op("Add", X, op("Mul", cube, Number(0.044715))), _ROOT) for cube in _CUBES),
        op("Mul", op("Mul", X, _ROOT), op("Add", op("Mul", op("Mul", X, X), Number(0.044715)), Number(1.0))),
        op("Mul", op("Mul", X, _ROOT), op("Add", op("Mul", op("Mul", X, Number(0.044715)), X), Number(1.0))),
    )
)


def _halved(half: Expression) -> tuple[Expression, ...]:
    """Return the ways to write x * half / 2."""
    return (
        op("Mul", op("Mul", X, half), Number(0.5)),
        op("Mul", op("Mul", X, Number(0.5)), half),
        op("Mul", X, op("Mul", half, Number(0.5))),
        op("Div", op("Mul", X, half), Number(2.0)),
    )


SHAPES: tuple[Row, ...] = (
    Row("SiLU", op("Mul", X, op("Sigmoid", X)), "silu"),
    Row("SiLU", op("Mul", X, op("Sigmoid", op("Mul", X, Number(name="beta")))), "silu"),
    Row("SiLU", op("Swish", X, where=(("alpha", 1.0, 1.0),)), "silu"),
    Row("HardSwish", op("HardSwish", X), "hard_swish"),
    *(Row("HardSwish", op("Mul", X, hard), "hard_swish") for hard in _HARD),
    *(Row("HardSwish", op("Div", op("Mul", X, clipped), Number(6.0)), "hard_swish") for clipped in _RELU6),
    *(Row("HardSwish", op("Mul", op("Mul", X, clipped), Number(1 / 6)), "hard_swish") for clipped in _RELU6),
    Row("GELU", op("Gelu", X, where=(("approximate", "none", "none"),)), "gelu"),
    Row("GELU", op("Gelu", X, where=(("approximate", "tanh", "none"),)), "gelu_tanh"),
    *(Row("GELU", shape, "gelu") for half in (_HALF_ERF, _HALF_ERF_BY) for shape in _halved(half)),
    *(Row("GELU", shape, "gelu_tanh") for half in _TANHS for shape in _halved(half)),
    Row("Mish", op("Mish", X), "mish"),
    Row("Mish", op("Mul", X, op("Tanh", op("Softplus", X))), "mish"),
    *(Row(name, op(name, X), name.lower()) for name in ("Elu", "Selu", "Celu", "Softplus", "Tanh")),
    Row("LayerNorm", op("LayerNormalization|RMSNormalization", X, first=True), remedy=NO_NORM),
    Row("GroupNorm", op("GroupNormalization", X, first=True), remedy=NO_NORM),
    Row("GroupNorm", op("InstanceNormalization", op("Reshape", X, first=True), first=True), remedy=NO_NORM),
    Row("InstanceNorm", op("InstanceNormalization", X, first=True), remedy=NO_NORM),
    *(Row(name, op(name, X, first=True), remedy=NO_SEQUENCES) for name in ("LSTM", "GRU", "RNN")),
    Row("attention", op("Attention|MultiHeadAttention", X, first=True), remedy=NO_SEQUENCES),
)
_BY_LAST: dict[str, list[Row]] = {}  # rows by the operator of their last node
for _row in SHAPES:
    assert isinstance(_row.shape, Op)
    for _kind in _row.shape.kinds.split("|"):
        _BY_LAST.setdefault(_kind, []).append(_row)


class Patterns:
    """All patterns of a graph, by the index of each of their nodes."""

    def __init__(self, file: OnnxFile) -> None:
        self.file = file
        self.nodes = file.model.graph.node
        self.readers: dict[str, list[int]] = {}
        self._index = {id(node): index for index, node in enumerate(self.nodes)}
        self.live = {value.name for value in file.model.graph.input if value.name not in file.protos}
        for node in file.order:
            for name in node.input:
                self.readers.setdefault(name, []).append(self._place(node))
            if node.op_type not in ("Shape", "Size") and not self.live.isdisjoint(node.input):
                self.live.update(node.output)
        self.at: dict[int, Pattern] = {}
        for pattern in self._all():
            for index in pattern.nodes:
                there = self.at.get(index)
                if there is None or len(there.nodes) < len(pattern.nodes):
                    self.at[index] = pattern

    def of(self, node: onnx.NodeProto) -> Pattern | None:
        """Return the largest pattern that a node belongs to."""
        index = next((self.file.producers[name] for name in node.output if name in self.file.producers), None)
        return None if index is None else self.at.get(index)

    def _place(self, node: onnx.NodeProto) -> int:
        return next(self.file.producers[name] for name in node.output if name in self.file.producers)

    def _all(self) -> Iterator[Pattern]:
        for node in self.file.order:
            index = self._place(node)
            for row in _BY_LAST.get(node.op_type, ()):
                bound = self._match(row.shape, node.output[0], {})
                if bound is not None:
                    yield self._of_row(row, node, bound)
                    break
            else:
                for search in SEARCHES:
                    made = search(self, index)
                    if made is not None:
                        yield made
                        break

    def _of_row(self, row: Row, node: onnx.NodeProto, bound: dict[str, str]) -> Pattern:
        return Pattern(
            name=row.name,
            remedy=row.remedy or NO_TABLE,
            nodes=frozenset(int(key) for key in bound if key.isdecimal()),
            reads=bound["x"],
            gives=node.output[0],
            lowers=_activation(row, node, bound),
        )

    def lowered(self) -> dict[str, Pattern]:
        """Return the patterns of several nodes that lower to the activation unit, by each value they compute.

        Values between their nodes have no reader beside them.
        """
        by_name: dict[str, Pattern] = {}
        for pattern in sorted(
            {id(candidate): candidate for candidate in self.at.values()}.values(),
            key=lambda candidate: -len(candidate.nodes),
        ):
            inside = {name for index in pattern.nodes for name in self.nodes[index].output} - {pattern.gives}
            closed = all(pattern.nodes.issuperset(self.readers.get(name, ())) for name in inside)
            free = all(self.at[index] is pattern for index in pattern.nodes)
            if pattern.lowers is not None and inside and closed and free and inside.isdisjoint(self.file.outputs):
                by_name |= dict.fromkeys((*inside, pattern.gives), pattern)
        return by_name

    def producer(self, name: str) -> onnx.NodeProto | None:
        """Return the node that writes a value, or None."""
        return self.nodes[self.file.producers[name]] if name in self.file.producers else None

    def number(self, name: str) -> npt.NDArray[np.float64] | None:
        """Return a small constant in the file's shape, or None."""
        node = self.producer(name)
        while node is not None and node.op_type in ("Cast", "Identity") and node.input:
            name = node.input[0]
            node = self.producer(name)
        proto = self.file.protos.get(name)
        if node is not None and node.op_type == "Constant":
            proto = next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
            plain = next((attribute.f for attribute in node.attribute if attribute.name == "value_float"), None)
            if proto is None:
                return None if plain is None else np.asarray(plain, np.float64)
        if proto is None or int(np.prod(list(proto.dims), dtype=np.float64)) > MOST_CONSTANT:
            return None
        try:
            return array_of(proto, name).astype(np.float64)
        except ModelFileError:
            return None

    def _match(self, shape: Expression, name: str, bound: dict[str, str]) -> dict[str, str] | None:
        """Match an expression with a value; return the names bound, with the index of each node as a key."""
        if isinstance(shape, Any):
            if name not in self.live or bound.get(shape.name, name) != name:
                return None
            return {**bound, shape.name: name}
        if isinstance(shape, Number):
            if name in self.live:
                return None
            array = self.number(name)
            if shape.name:
                alone = array is not None and array.size == 1
                return {**bound, shape.name: repr(float(array.reshape(())))} if array is not None and alone else None
            if shape.value is None:
                return bound
            fits = array is not None and array.size > 0 and np.allclose(array, shape.value, rtol=1e-3, atol=1e-5)
            return bound if fits else None
        node = self.producer(name)
        if node is None or node.op_type not in shape.kinds.split("|") or len(node.input) < len(shape.operands):
            return None
        if len(node.input) > len(shape.operands) and not shape.only_first:
            return None
        if not all(_has(node, *attribute) for attribute in shape.attributes):
            return None
        inputs = list(node.input[: len(shape.operands)])
        bound = {**bound, str(self.file.producers[name]): ""}
        orders = [inputs, inputs[::-1]] if node.op_type in ("Add", "Mul") and len(inputs) == 2 else [inputs]
        for order in orders:
            made: dict[str, str] | None = bound
            # An operand that is a leaf binds the name that the deeper ones must agree with.
            for operand, value in sorted(
                zip(shape.operands, order, strict=True), key=lambda pair: isinstance(pair[0], Op)
            ):
                made = self._match(operand, value, made) if made is not None else None
            if made is not None:
                return made
        return None

    def above(self, name: str, stop: str = "") -> set[int]:
        """Return the nodes that a value is computed by, up to a value or to `MOST_UP` nodes."""
        seen: set[int] = set()
        stack = [name]
        while stack and len(seen) < MOST_UP:
            value = stack.pop()
            if value == stop or value not in self.file.producers or value not in self.live:
                continue
            index = self.file.producers[value]
            if index not in seen:
                seen.add(index)
                stack += self.nodes[index].input
        return seen


def activation_of(node: onnx.NodeProto) -> Activation | None:
    """Return the use of the activation unit that a single node is; None for one that is none."""
    for row in _BY_LAST.get(node.op_type, ()):
        assert isinstance(row.shape, Op)
        if row.shape.operands == (X,) and all(_has(node, *attribute) for attribute in row.shape.attributes):
            return _activation(row, node, {})
    return None


def _activation(row: Row, node: onnx.NodeProto, bound: Mapping[str, str]) -> Activation | None:
    """Return the table of a row's function; the parameters of an operator of its own are its attributes."""
    if not row.function:
        return None
    usual = FUNCTIONS[row.function].usual
    assert isinstance(row.shape, Op)
    try:
        own = {name: Attributes(node).number(name, value) for name, value in usual.items()}
        given = {name: float(bound[name]) if name in bound else own[name] for name in usual}
        return Activation(use=Use.TABLE, function=row.function, parameters=tuple(given.values()))
    except NetworkError:  # parameters that no such function has
        return None


def _has(node: onnx.NodeProto, name: str, value: float | str, usual: float | str) -> bool:
    """True if an attribute of a node is a text, or near to a number."""
    attributes = Attributes(node)
    try:
        if isinstance(value, str):
            return attributes.text(name, str(usual)) == value
        number = attributes.number(name, float(usual))
    except NetworkError:  # of another type, or not finite
        return False
    return math.isclose(number, value, rel_tol=1e-3, abs_tol=1e-5)


_SIGMOIDS = ("Sigmoid", "HardSigmoid")
_POOLS = ("GlobalAveragePool", "ReduceMean", "GlobalMaxPool", "ReduceMax", "AveragePool")


def _gate(patterns: Patterns, index: int) -> Pattern | None:
    """A map times what is pooled from it: squeeze-and-excitation, or along channels a spatial gate."""
    node = patterns.nodes[index]
    if node.op_type != "Mul" or len(node.input) != 2 or not patterns.live.issuperset(node.input):
        return None
    for reads, factor in (tuple(node.input), tuple(node.input)[::-1]):
        inside = patterns.above(factor, stop=reads)
        pools = [
            index_
            for index_ in inside
            if patterns.nodes[index_].op_type in _POOLS and patterns.nodes[index_].input[0] == reads
        ]
        if pools and len(inside) < MOST_UP:
            spatial = all(patterns.nodes[pool].op_type in ("ReduceMean", "ReduceMax") for pool in pools)
            along = spatial and any(_reduces_channels(patterns, pool) for pool in pools)
            name = "spatial gate" if along else "squeeze-and-excitation gate"
            return Pattern(
                name=name,
                remedy=NO_PRODUCT,
                nodes=frozenset({index, *_ending(patterns, factor)}),
                reads=reads,
                gives=node.output[0],
            )
    return Pattern(
        name="product of maps", remedy=NO_PRODUCT, nodes=frozenset({index}), reads=node.input[0], gives=node.output[0]
    )


def _ending(patterns: Patterns, factor: str) -> set[int]:
    """Return the activation nodes that end a gate: what stands before them are layers as any other."""
    ending: set[int] = set()
    while (node := patterns.producer(factor)) is not None and node.op_type in (
        *_SIGMOIDS, "Clip", "Div", "Mul", "Add",
    ):  # fmt: skip
        live = [name for name in node.input if name in patterns.live]
        if len(live) != 1:
            break
        ending.add(patterns.file.producers[factor])
        factor = live[0]
    return ending


def _reduces_channels(patterns: Patterns, index: int) -> bool:
    node = patterns.nodes[index]
    axes = next((tuple(attribute.ints) for attribute in node.attribute if attribute.name == "axes"), None)
    if axes is None and len(node.input) > 1:
        array = patterns.number(node.input[1])
        axes = None if array is None else tuple(int(axis) for axis in array.reshape(-1))
    return axes is not None and 1 in axes


def _norm(patterns: Patterns, index: int) -> Pattern | None:
    """A layer norm in parts: what is left of a mean, divided by the root of its mean square."""
    node = patterns.nodes[index]
    if node.op_type not in ("Div", "Mul") or not patterns.live.issuperset(node.input):
        return None
    for centred in node.input:
        less = patterns.producer(centred)
        if less is None or less.op_type != "Sub":
            continue
        for other in node.input:
            inside = patterns.above(other, stop=centred)
            kinds = {patterns.nodes[index_].op_type for index_ in inside}
            if other != centred and {"Sqrt", "ReduceMean"} <= kinds and len(inside) < 8:
                mean = {patterns.file.producers[name] for name in less.input if _is_mean(patterns, name, less.input[0])}
                nodes = {index, patterns.file.producers[centred], *mean, *inside}
                return Pattern(
                    name="LayerNorm", remedy=NO_NORM, nodes=frozenset(nodes), reads=less.input[0], gives=node.output[0]
                )
    return None


def _is_mean(patterns: Patterns, name: str, of: str) -> bool:
    node = patterns.producer(name)
    return node is not None and node.op_type == "ReduceMean" and node.input[0] == of


_BETWEEN = ("Cast", "Conv", "Dropout", "Identity", "Transpose", "Reshape", "Squeeze", "Slice")  # Softmax to product
_SCALING = ("Mul", "Div", "Add", "Cast", "Where", "Reshape", "Transpose", "Unsqueeze", "Conv", "Slice")  # to Softmax


def _attention(patterns: Patterns, index: int) -> Pattern | None:
    """A product of two matrices that are both computed; with a Softmax between two of them, attention."""
    node = patterns.nodes[index]
    if node.op_type not in ("MatMul", "Gemm", "Einsum") or not patterns.live.issuperset(node.input[:2]):
        return None
    name = node.input[0] if node.op_type != "Einsum" else node.input[-1]
    nodes = {index}
    for value in node.input[:2]:
        path = [value]
        while (before := patterns.producer(path[-1])) is not None and len(path) < 8 and before.op_type != "Softmax":
            if before.op_type not in _BETWEEN:
                break
            path.append(before.input[0])
        if before is None or before.op_type != "Softmax":
            continue
        nodes |= {patterns.file.producers[tensor] for tensor in path if tensor in patterns.file.producers}
        scores = before.input[0]
        while (inner := patterns.producer(scores)) is not None and inner.op_type in _SCALING and len(nodes) < MOST_UP:
            nodes.add(patterns.file.producers[scores])
            scores = next((tensor for tensor in inner.input if tensor in patterns.live), "")
        if inner is not None and inner.op_type == "MatMul" and patterns.live.issuperset(inner.input):
            nodes.add(patterns.file.producers[scores])
            return Pattern(
                name="attention",
                remedy=NO_SEQUENCES,
                nodes=frozenset(nodes),
                reads=inner.input[0],
                gives=node.output[0],
            )
        return Pattern(
            name="attention", remedy=NO_SEQUENCES, nodes=frozenset(nodes), reads=before.input[0], gives=node.output[0]
        )
    return Pattern(
        name="product of two matrices", remedy=NO_SEQUENCES, nodes=frozenset(nodes), reads=name, gives=node.output[0]
    )


SEARCHES: tuple[Callable[[Patterns, int], Pattern | None], ...] = (_norm, _gate, _attention)
