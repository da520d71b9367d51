"""Cut a graph where the NPU ends and the host begins: what the walk refuses and what only outputs need.

A node may run on the host if the interpreter of `models/tail` knows its operator and if all that read it may,
too, or are outputs of the graph. It does if the walk refuses it, or if it reads what the host makes (ADR 60).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

from ...errors import ModelFileError, NetworkError, TailError
from ...graph.network import Network
from ...tail.call import DTYPES, Array
from ...tail.graph import OPERATORS, Tail, TailNode, TailOutput, Work, evaluate
from ...tail.reductions import is_weighted_sum
from ..file import Attributes, OnnxFile, array_of
from .ends import shown
from .walk import Walk

_GIVES_ANY_SIZE = {"NonZero", "NonMaxSuppression"}  # as many rows as the data say
_SIZED_BY = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Tile": (1,),
    "TopK": (1,),
}  # inputs that say how large a result is
_MOST_VALUES = 1 << 28  # that are made to read a tail, so that reading ends soon
_FLOATS = (TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
_LISTS = {AttributeProto.INTS: "ints", AttributeProto.FLOATS: "floats", AttributeProto.STRINGS: "strings"}
_SINGLES = {AttributeProto.INT: "i", AttributeProto.FLOAT: "f", AttributeProto.STRING: "s"}


@dataclass(frozen=True, kw_only=True)
class GraphCut:
    """The cut of a graph: the nodes behind it, what they read of the network, and the first refusal.

    `ends` are the outputs of the graph before the cut: those of the user that are left, and `values`.
    """

    nodes: tuple[onnx.NodeProto, ...]
    values: tuple[str, ...]
    ends: tuple[str, ...]
    constants: Mapping[str, Array]
    refusal: ModelFileError


class Behind:
    """The nodes that run on the host, as a walk comes upon them."""

    def __init__(self, file: OnnxFile) -> None:
        self.file = file
        self.nodes: list[onnx.NodeProto] = []
        self.refusal: ModelFileError | None = None
        self._written: set[str] = set()
        self._work = Work(most_values=_MOST_VALUES, most_macs=_MOST_VALUES)  # of constants
        self._may: set[str] | None = None  # outputs of nodes that may run on the host

    def reads(self, node: onnx.NodeProto) -> bool:
        """True if a node reads what the host makes."""
        return not self._written.isdisjoint(node.input)

    def add(self, node: onnx.NodeProto) -> None:
        """Let a node run on the host."""
        self.nodes.append(node)
        self._written.update(filter(None, node.output))

    def refused(self, node: onnx.NodeProto, refusal: NetworkError) -> None:
        """Let a node that the walk refuses run on the host. Raises its refusal where it cannot."""
        if not isinstance(refusal, ModelFileError) or refusal.node is None or not self._can(node):
            raise refusal
        self.refusal = self.refusal or refusal
        self.add(node)

    def _can(self, node: onnx.NodeProto) -> bool:
        if self._may is None:
            self._may = possible(self.file)
        return bool(node.output) and node.output[0] in self._may

    def cut(self, walk: Walk) -> GraphCut:
        """Return where the graph is cut, after a walk to its end. Raises the first refusal where it cannot.

        A value that leaves the network is a map or a vector of each image. What ends in an activation that
        nobody else is given ends before it, since the host is free to compute it.
        """
        assert self.refusal is not None
        while late := self._too_late(walk):
            more = [self.file.model.graph.node[self.file.producers[name]] for name in late]
            if not all(map(self._can, more)):
                raise self.refusal
            self._written.update(name for node in more for name in node.output if name)
            chosen = {id(node) for node in (*self.nodes, *more)}
            self.nodes = []
            for node in self.file.order:
                if id(node) in chosen or self.reads(node):
                    self.add(node)
        constants = self._constants(walk)
        values = dict.fromkeys(name for name in self._read() if name not in constants)
        left = [name for name in self.file.outputs if name not in self._written]
        return GraphCut(
            nodes=tuple(self.nodes),
            values=tuple(values),
            ends=tuple(dict.fromkeys((*left, *values))),
            constants=constants,
            refusal=self.refusal,
        )

    def _read(self) -> list[str]:
        """Return the names that the nodes read and do not write."""
        return [name for node in self.nodes for name in node.input if name and name not in self._written]

    def _too_late(self, walk: Walk) -> list[str]:
        """Return the values of the network that it cannot return, or should not: all of them at once."""
        assert self.refusal is not None
        late = []
        for name in dict.fromkeys(self._read()):
            value = walk.values.get(name)
            if value is None:
                continue
            if value.unbatched or (value.activation and name not in self.file.outputs):
                late.append(name)
            elif value.pixels or not value.plane.writers:  # the image itself
                raise self.refusal
        return late

    def _constants(self, walk: Walk) -> dict[str, Array]:
        """Return what the nodes read that depends on no image, with the batch of one in shapes.

        Raises the first refusal where something is not there.
        """
        assert self.refusal is not None
        wanted = [name for name in self._read() if name not in walk.values]
        needed, stack = set[int](), list(wanted)
        while stack:
            name = stack.pop()
            index = self.file.producers.get(name)
            if index is None and name not in self.file.protos:
                raise self.refusal
            if index is not None and index not in needed:
                needed.add(index)
                node = self.file.model.graph.node[index]
                if not _asks_shape(node, walk):
                    stack += filter(None, node.input)
        constants: dict[str, Array] = {}
        for node in self.file.order:
            if not needed.isdisjoint(self.file.producers[name] for name in node.output if name):
                constants.update(self._folded(walk, node, constants))
        constants |= {name: self.file.constant(name) for name in wanted if name in self.file.protos}
        return {name: constants[name] for name in wanted}

    def _folded(self, walk: Walk, node: onnx.NodeProto, constants: dict[str, Array]) -> dict[str, Array]:
        assert self.refusal is not None
        if node.op_type == "Constant":
            return {node.output[0]: _constant(node)}
        if _asks_shape(node, walk):
            whole = np.array([1, *walk.values[node.input[0]].onnx_shape], np.int64)
            attributes = Attributes(node)
            return {node.output[0]: whole[attributes.integer("start", 0) : attributes.integer("end", len(whole))]}
        for name in node.input:
            if name in self.file.protos and name not in constants:
                constants[name] = self.file.constant(name)
        made = _node_of(node)
        if made is None or not all(name in constants for name in made.inputs if name):
            raise self.refusal
        try:
            return dict(zip(made.outputs, evaluate(made, constants, self.file.opset, self._work), strict=False))
        except TailError:
            raise self.refusal from None


def _asks_shape(node: onnx.NodeProto, walk: Walk) -> bool:
    """True for the Shape of a value of the network."""
    return node.op_type == "Shape" and len(node.input) == 1 and node.input[0] in walk.values


def _constant(node: onnx.NodeProto) -> Array:
    attributes = _attributes(node) or {}
    value = next(iter(attributes.values()), np.zeros(0, np.float32))
    kind = np.float32 if "value_float" in attributes or "value_floats" in attributes else None
    return np.asarray(value, kind)


_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def possible(file: OnnxFile, *, layers: bool = True) -> set[str]:
    """Return the outputs of nodes that may run on the host; without `layers`, of those behind the last."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in file.order:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    may: set[str] = set()
    for node in reversed(file.order):
        after = [reader for name in node.output for reader in readers.get(name, ())]
        usable = (layers or node.op_type not in _LAYERS) and _node_of(node) is not None and _usable(file, node)
        if usable and all(not may.isdisjoint(reader.output) for reader in after):
            may.update(filter(None, node.output))
    return may


def _usable(file: OnnxFile, node: onnx.NodeProto) -> bool:
    """True unless a node is a convolution with a window: that is work for the NPU."""
    if node.op_type != "Conv":
        return True
    weights = file.protos.get(node.input[1]) if len(node.input) > 1 else None
    made = _node_of(node)
    return weights is not None and made is not None and is_weighted_sum(made.attributes, tuple(weights.dims[2:]))


def _node_of(node: onnx.NodeProto) -> TailNode | None:
    """Return a node as the tail has it, with floats of one width; None for one that it does not know."""
    shipped = node.domain in ("", "ai.onnx") and node.op_type in OPERATORS
    attributes = _attributes(node) if shipped else None
    if attributes is None:
        return None
    if node.op_type == "Cast" and attributes.get("to") in _FLOATS:  # as constants are read
        attributes["to"] = TensorProto.FLOAT
    return TailNode(node.op_type, tuple(node.input), tuple(node.output), attributes)


def _attributes(node: onnx.NodeProto) -> dict[str, Any] | None:
    """Return attributes in plain types and arrays; None where one is of another kind, as a graph is."""
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.type in _SINGLES:
            attributes[attribute.name] = _text(getattr(attribute, _SINGLES[attribute.type]))
        elif attribute.type in _LISTS:
            attributes[attribute.name] = tuple(_text(text) for text in getattr(attribute, _LISTS[attribute.type]))
        elif attribute.type == AttributeProto.TENSOR:
            attributes[attribute.name] = array_of(attribute.t, f"attribute '{attribute.name}'")
        else:
            return None
    return attributes


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


# -- the tail of a network ---------------------------------------------------------------------------------


def with_tail(network: Network, cut: GraphCut, file: OnnxFile, given: Collection[str]) -> Network:
    """Return a network with the tail behind it; `given` are the outputs of the graph that it gives untouched.

    The tail is run once on drawn values, so that its outputs have types and shapes. Raises the first refusal
    where it does not run, or would hold most of the multiply-accumulates.
    """
    names = {name: shown(name) for name in (*cut.values, *given)}
    if len(set(names.values())) < len(names):
        raise cut.refusal
    nodes = tuple(
        TailNode(
            node.operator, tuple(names.get(input_, input_) for input_ in node.inputs), node.outputs, node.attributes
        )
        for node in filter(None, map(_node_of, cut.nodes))
    )
    written = {name for node in nodes for name in node.outputs}
    users = {names.get(name, name): value for name, value in file.declared.items() if name in written or name in given}
    work = Work(most_values=_MOST_VALUES, most_macs=network.workload.macs)
    try:
        draft = Tail(
            opset=file.opset,
            inputs=tuple(names.values()),
            nodes=nodes,
            outputs=tuple(TailOutput(name, "float32", ()) for name in users),
            constants=cut.constants,
        )
        drawn, depends = draft.drawn({output.name: output.shape for output in network.outputs}), _depends(draft)
        still = {name for name, how in depends.items() if how == (False, False)}
        made = {**cut.constants, **draft.made(drawn, {*users, *still}, work)}
    except TailError as error:
        raise _too_much(cut.refusal, work, network.workload.macs, error) from None
    left = tuple(node for node in nodes if not still.issuperset(node.outputs))
    read = {*users, *(name for node in left for name in node.inputs)}
    tail = replace(
        draft,
        nodes=left,
        outputs=tuple(_output(name, value, made[name], depends[name][1], file.batch) for name, value in users.items()),
        constants={name: made[name] for name in (*cut.constants, *still) if name in read},
    )
    return replace(network, tail=_typed(tail, {name: made[name].dtype.name for name in users}))


def _too_much(refusal: ModelFileError, work: Work, npu: int, error: TailError) -> ModelFileError:
    """Return the refusal, which also says why the host does not continue: too much work, or what failed."""
    why = "would do most of the multiplications" if work.macs > npu else f"fails on drawn values: {error}"
    refusal.args = (f"{refusal}; the host could go on there, but {why}",)
    return refusal


def _typed(tail: Tail, made: Mapping[str, str]) -> Tail:
    """Return a tail whose outputs are cast to the types that the file declares; `made`: those they have."""
    numbers = {dtype: number for number, dtype in sorted(DTYPES.items(), reverse=True)}
    odd = {
        output.name: output.dtype
        for output in tail.outputs
        if output.dtype != made[output.name] and output.name not in tail.inputs
    }
    before: Callable[[str], str] = lambda name: f"{name}/{made[name]}" if name in odd else name  # noqa: E731
    nodes = [
        replace(node, inputs=tuple(map(before, node.inputs)), outputs=tuple(map(before, node.outputs)))
        for node in tail.nodes
    ]
    nodes += [TailNode("Cast", (before(name),), (name,), {"to": numbers[dtype]}) for name, dtype in odd.items()]
    constants = {before(name): array for name, array in tail.constants.items()}
    outputs = tuple(
        replace(output, dtype="float32") if output.name in tail.inputs else output for output in tail.outputs
    )
    return replace(tail, nodes=tuple(nodes), constants=constants, outputs=outputs)


def _output(name: str, declared: onnx.ValueInfoProto, made: Array, ragged: bool, batch: str) -> TailOutput:
    """Return an output with the type and the sizes that the file declares, where what was made agrees."""
    kind, shape = declared.type.tensor_type, list(made.shape)
    if ragged:
        dims = list(kind.shape.dim) if len(kind.shape.dim) == made.ndim else [None] * made.ndim
        shape = [
            size if dim is not None and _stated(dim, size, batch) else -1 for size, dim in zip(shape, dims, strict=True)
        ]
    return TailOutput(name, DTYPES.get(kind.elem_type, made.dtype.name), tuple(shape))


def _stated(dim: onnx.TensorShapeProto.Dimension, size: int, batch: str) -> bool:
    """Return if a file says a size: a name of its own has the value 0, and a batch is one image."""
    if dim.HasField("dim_value"):
        return bool(dim.dim_value == size)
    return bool(dim.dim_param) and dim.dim_param == batch and size == 1


def _depends(tail: Tail) -> dict[str, tuple[bool, bool]]:
    """Tell of each value if its numbers and if its sizes depend on the image."""
    depends = dict.fromkeys(tail.inputs, (True, False))
    for node in tail.nodes:
        read = [depends.get(name, (False, False)) for name in node.inputs]
        sized = any(read[index][0] for index in _SIZED_BY.get(node.operator, ()) if index < len(read))
        value, shape = any(flags[0] for flags in read), sized or any(flags[1] for flags in read)
        if node.operator in ("Shape", "Size"):
            value, shape = shape, False
        depends |= dict.fromkeys(node.outputs, (value, shape or (value and node.operator in _GIVES_ANY_SIZE)))
    return depends
