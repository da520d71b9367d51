"""Write a tail behind a network: its nodes in ONNX, of one opset with the network's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from ...graph.network import Network
from ...tail.graph import Tail, TailNode, TailOutput

MARK = "tail/"  # before the names of what no user has
_AS_INPUTS = {
    "Clip": ("min", "max"),
    "Pad": ("pads", "value"),
    "ReduceSum": ("axes",),
    "Slice": ("starts", "ends", "axes"),
    "Split": ("split",),
    "Squeeze": ("axes",),
    "TopK": ("k",),
    "Unsqueeze": ("axes",),
}  # attributes of opsets before 13 that are inputs since


def hidden_apart(network: Network) -> Network:
    """Return a network whose outputs that only its tail reads have names of their own."""
    if network.tail is None:
        return network
    users = {output.name for output in network.tail.outputs}
    names = {output.name: output.name if output.name in users else MARK + output.name for output in network.outputs}
    tail = network.tail
    nodes = tuple(replace(node, inputs=tuple(names.get(name, name) for name in node.inputs)) for node in tail.nodes)
    return replace(
        network,
        outputs=tuple(replace(output, name=names[output.name]) for output in network.outputs),
        tail=replace(tail, inputs=tuple(names[name] for name in tail.inputs), nodes=nodes),
    )


@dataclass
class TailWriter:
    """Writes nodes and constants of a tail into those of a graph."""

    nodes: list[onnx.NodeProto]
    initializers: list[onnx.TensorProto]

    def write(self, tail: Tail) -> None:
        """Write a tail, whose outputs and inputs keep their names."""
        kept = {"", *tail.inputs, *(output.name for output in tail.outputs)}
        names: Callable[[str], str] = lambda name: name if name in kept else MARK + name  # noqa: E731
        for name, array in tail.constants.items():
            self._constant(names(name), array)
        for node in tail.nodes:
            self._node(
                TailNode(
                    node.operator, tuple(map(names, node.inputs)), tuple(map(names, node.outputs)), node.attributes
                ),
                tail.opset,
            )

    def _constant(self, name: str, array: npt.ArrayLike) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _node(self, node: TailNode, opset: int) -> None:
        operator, first = node.operator, node.outputs[0]
        inputs, attributes = list(node.inputs), dict(node.attributes)
        if operator == "Dropout":  # which does nothing here, and has other attributes in each opset
            operator, attributes, inputs = "Identity", {}, inputs[:1]
        if operator in ("Softmax", "LogSoftmax") and opset < 13:  # over all axes from one on
            self._made("Shape", [inputs[0]], [first + "_shape"], {})
            self._made("Flatten", [inputs[0]], [first + "_flat"], {"axis": attributes.get("axis", 1)})
            self._made(operator, [first + "_flat"], [first + "_shares"], {"axis": 1})
            self._made("Reshape", [first + "_shares", first + "_shape"], [first], {})
            return
        moved = _AS_INPUTS.get(operator, ()) if opset < 13 else ()
        for key in moved if not attributes.keys().isdisjoint(moved) else ():
            if key in attributes:
                kind = np.float32 if key in ("min", "max", "value") else np.int64
                value = np.asarray(attributes.pop(key), kind)
                inputs.append(self._constant(f"{first}.{key}", value.reshape(1) if key == "k" else value))
            elif key != moved[-1]:
                inputs.append("")
        self._made(operator, inputs, list(node.outputs), attributes)

    def _made(self, operator: str, inputs: list[str], outputs: list[str], attributes: Mapping[str, Any]) -> None:
        facts = {
            key: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
            for key, value in attributes.items()
        }
        self.nodes.append(helper.make_node(operator, inputs, outputs, name=outputs[0], **facts))


def output_info(output: TailOutput) -> onnx.ValueInfoProto:
    """Return an output as the graph declares it, for an image."""
    sizes = [f"{output.name}.{axis}" if size < 0 else size for axis, size in enumerate(output.shape)]
    return helper.make_tensor_value_info(output.name, helper.np_dtype_to_tensor_dtype(np.dtype(output.dtype)), sizes)
