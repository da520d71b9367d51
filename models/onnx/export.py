"""Write a network as one ONNX file: every exit a named output, exit table and calibration in its metadata.

Activations are NCHW with a free batch size, as ONNX has it. A trained network keeps its batch
normalisations as nodes, so the file is the trained network; `read_onnx` folds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..errors import NetworkError
from ..files import write_file
from ..graph.network import Layer, Network, Parameters
from ..graph.shapes import Kind
from .metadata import metadata_of

OPSET = 17
IR_VERSION = 8
BATCH_NORM_EPSILON = 1e-5

State = Mapping[str, npt.NDArray[np.float32]]


def oihw(layer: Layer, parameters: Parameters) -> npt.NDArray[np.float32]:
    """Return a layer's weights (groups, P, C / groups) in ONNX's order (C, C in / groups, kernel rows,
    kernel columns).
    """
    groups, _, per_group = parameters.weights.shape
    rows, columns = layer.kernel
    folded = parameters.weights.reshape(groups, rows, columns, -1, per_group)
    return np.ascontiguousarray(folded.transpose(0, 4, 3, 1, 2)).reshape(groups * per_group, -1, rows, columns)


def state_of(network: Network) -> dict[str, npt.NDArray[np.float32]]:
    """Return a network's parameters as "layer.weight" (OIHW) and "layer.bias", for a network that was not
    trained here.
    """
    state: dict[str, npt.NDArray[np.float32]] = {}
    for layer in network.layers:
        if layer.kind is not Kind.GEMM:
            continue
        if layer.name not in network.parameters:
            raise NetworkError(
                f"layer '{layer.name}' must have weights to be exported, and network '{network.name}' brings none"
            )
        parameters = network.parameters[layer.name]
        state |= {f"{layer.name}.weight": oihw(layer, parameters), f"{layer.name}.bias": parameters.bias}
    return state


class _Graph:
    """Nodes and initialisers as they are written; `last` follows one layer's value from node to node."""

    def __init__(self, network: Network, state: State) -> None:
        self.network, self.state = network, state
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.logits = {exit.logits for exit in network.exits}
        self.pieces: dict[str, dict[int, str]] = {}

    def constant(self, name: str, value: npt.ArrayLike) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def node(self, operator: str, inputs: list[str], name: str, **attributes: object) -> str:
        """Append a node whose one output bears its name."""
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def layer(self, layer: Layer) -> None:
        steps = self._gemm(layer) if layer.kind is Kind.GEMM else self._pool(layer)
        low, high = layer.clip
        if layer.residual is not None:
            steps = self.node("Add", [steps, layer.residual], layer.name + "_add")
        if low == 0 and high is None:
            steps = self.node("Relu", [steps], layer.name + "_relu")
        elif low is not None or high is not None:
            limits = [
                "" if one is None else self.constant(f"{layer.name}.clip{i}", np.float32(one))
                for i, one in enumerate(layer.clip)
            ]
            steps = self.node("Clip", [steps, *limits], layer.name + "_clip")
        if layer.output in self.logits and not self._is_classifier(layer):
            steps = self.node("Flatten", [steps], layer.name + "_flatten", axis=1)
        self._finish(layer, steps)

    def _finish(self, layer: Layer, value: str) -> None:
        """Give the value the tensor's name; pieces of a concatenation wait for one another."""
        node, channels = self.nodes[-1], self.network.tensors[layer.output][2]
        if layer.channels == channels:
            node.output[0] = layer.output
            return
        node.output[0] = f"{layer.output}_part{layer.output_channel}"
        pieces = self.pieces.setdefault(layer.output, {})
        pieces[layer.output_channel] = node.output[0]
        if sum(one.output == layer.output for one in self.network.layers) == len(pieces):
            self.node("Concat", [pieces[offset] for offset in sorted(pieces)], layer.output, axis=1)

    def _is_classifier(self, layer: Layer) -> bool:
        """True for a plain fully connected layer whose output leaves the network: written as Flatten and
        Gemm.
        """
        covers = layer.kernel == layer.in_shape[:2] and not any(layer.padding) and layer.groups == 1
        return layer.output in self.logits and layer.kind is Kind.GEMM and covers and layer.residual is None

    def _gemm(self, layer: Layer) -> str:
        weight = self.state[f"{layer.name}.weight"]
        bias = (
            [self.constant(f"{layer.name}.bias", self.state[f"{layer.name}.bias"])]
            if f"{layer.name}.bias" in self.state
            else []
        )
        if self._is_classifier(layer):
            flat = self.node("Flatten", [layer.input], layer.name + "_flatten", axis=1)
            return self.node(
                "Gemm",
                [flat, self.constant(f"{layer.name}.weight", weight.reshape(len(weight), -1)), *bias],
                layer.name,
                transB=1,
            )
        inputs = [layer.input, self.constant(f"{layer.name}.weight", weight), *bias]
        value = self.node("Conv", inputs, layer.name, group=layer.groups, dilations=layer.dilation, **_window(layer))
        if f"{layer.name}.gamma" in self.state:
            arrays = [
                self.constant(f"{layer.name}.{key}", self.state[f"{layer.name}.{key}"])
                for key in ("gamma", "beta", "mean", "variance")
            ]
            value = self.node("BatchNormalization", [value, *arrays], layer.name + "_bn", epsilon=BATCH_NORM_EPSILON)
        return value

    def _pool(self, layer: Layer) -> str:
        if layer.kind is Kind.MAX_POOL:
            return self.node("MaxPool", [layer.input], layer.name, dilations=layer.dilation, **_window(layer))
        if layer.kernel == layer.in_shape[:2] and layer.stride == (1, 1) and not any(layer.padding):
            return self.node("GlobalAveragePool", [layer.input], layer.name)
        if layer.dilation != (1, 1):
            raise NetworkError(
                f"average pool '{layer.name}' must not be dilated to be written as ONNX opset {OPSET}, and it is by {layer.dilation}"
            )
        return self.node("AveragePool", [layer.input], layer.name, count_include_pad=1, **_window(layer))


def _window(layer: Layer) -> dict[str, object]:
    return {"kernel_shape": layer.kernel, "strides": layer.stride, "pads": layer.padding}


def build_onnx(network: Network, state: State | None = None) -> onnx.ModelProto:
    """Return the network as a checked ONNX model; `state` (TrainedModel.state) replaces the network's own
    parameters.
    """
    graph = _Graph(network, state_of(network) if state is None else state)
    for layer in network.layers:
        graph.layer(layer)
    height, width, channels = network.tensors[network.input]
    image = helper.make_tensor_value_info(network.input, TensorProto.FLOAT, ["batch", channels, height, width])
    outputs = [
        helper.make_tensor_value_info(
            exit.logits, TensorProto.FLOAT, ["batch", int(np.prod(network.tensors[exit.logits]))]
        )
        for exit in network.exits
    ]
    proto = helper.make_graph(graph.nodes, network.name, [image], outputs, graph.initializers)
    model = helper.make_model(
        proto, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="fluidnpu", ir_version=IR_VERSION
    )
    helper.set_model_props(model, metadata_of(network))
    onnx.checker.check_model(model)
    return model


def write_onnx(network: Network, path: Path | str, state: State | None = None) -> None:
    """Write `build_onnx` to one file, whole or not at all (`models.files`)."""
    write_file(path, onnx_bytes(network, state))


def onnx_bytes(network: Network, state: State | None = None) -> bytes:
    """Return `build_onnx` as the bytes of a file."""
    return bytes(build_onnx(network, state).SerializeToString(deterministic=True))
