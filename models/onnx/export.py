"""Write a network as one ONNX file: every exit a named output, exit table and calibration in its metadata.

Activations are NCHW with a free batch size, as ONNX has it. A trained network keeps its batch
normalisations as nodes, so the file is the trained network; `read_onnx` folds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..errors import NetworkError
from ..files import write_file
from ..graph.network import Layer, Network, Parameters
from ..graph.outputs import Output
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


def from_oihw(layer: Layer, weight: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return weights in ONNX's order as a layer has them, (groups, P, C / groups): the inverse of `oihw`."""
    groups = layer.groups
    split = weight.reshape(groups, len(weight) // groups, *weight.shape[1:])
    return np.ascontiguousarray(split.transpose(0, 3, 4, 2, 1)).reshape(groups, -1, split.shape[1])


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
        self.pieces: dict[str, list[tuple[Layer, str]]] = {}
        self.joined: dict[str, dict[int, str]] = {}  # by tensor and channel, what is joined up to there

    def constant(self, name: str, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, operator: str, inputs: list[str], name: str, **attributes: object) -> str:
        """Append a node whose one output bears its name."""
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def layer(self, layer: Layer) -> None:
        source = self._read(layer)
        steps = self._gemm(layer, source) if layer.kind is Kind.GEMM else self._pool(layer, source)
        low, high = layer.clip
        if layer.residual is not None:
            added = self._channels(
                layer.residual, layer.residual_channel, layer.channels, layer.name + "_added", before=layer
            )
            steps = self.node("Add", [steps, added], layer.name + "_add")
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
        self._finish(layer)

    def _read(self, layer: Layer) -> str:
        """Return the name of what a layer reads: channels of a tensor, without the rows and columns it leaves
        out.
        """
        name = self._channels(layer.input, layer.input_channel, layer.in_shape[2], layer.name + "_in", before=layer)
        sides = [max(0, -side) for side in layer.padding]
        if any(sides):
            begins, ends = sides[:2], [size - side for size, side in zip(layer.in_shape[:2], sides[2:], strict=True)]
            facts = [
                self.constant(f"{layer.name}_crop.{key}", value, np.int64)
                for key, value in (("starts", begins), ("ends", ends), ("axes", [2, 3]))
            ]
            name = self.node("Slice", [name, *facts], layer.name + "_crop")
        return name

    def _channels(self, tensor: str, first: int, count: int, name: str, *, before: Layer) -> str:
        """Return the name of channels [first, first + count) of a tensor, also of one whose other channels
        are written later.
        """
        for piece, made in self.pieces.get(tensor, []):
            if (piece.output_channel, piece.channels) == (first, count) and not self._parts(piece):
                return made
        if (first, count) == (0, self.network.tensors[tensor][2]):
            return tensor
        if tensor in self.pieces:  # not all of it may be there yet
            index = self.network.layers.index(before)
            ready = self.network.writers(tensor, first, count, before=index)
            if len(ready) < len(self.network.writers(tensor)):
                spans = [self._span(self.network.layers[one]) for one in ready]
                low, high = min(first, *(s for s, _ in spans)), max(first + count, *(e for _, e in spans))
                before_it = self.network.writers(tensor, 0, high)
                if before_it == self.network.writers(tensor, 0, high, before=index):
                    low, ready = 0, before_it  # all channels up to there, which later readers extend
                layers = [self.network.layers[one] for one in sorted(ready)]
                whole = self._assemble(tensor, layers, (low, high), name + "_part")
                return self._sliced(whole, first - low, first + count - low, high - low, name)
        return self._sliced(tensor, first, first + count, self.network.tensors[tensor][2], name)

    def _sliced(self, value: str, start: int, end: int, size: int, name: str) -> str:
        if (start, end) == (0, size):
            return value
        facts = [
            self.constant(f"{name}.{key}", [number], np.int64)
            for key, number in (("starts", start), ("ends", end), ("axes", 1))
        ]
        return self.node("Slice", [value, *facts], name)

    def _finish(self, layer: Layer) -> None:
        """Give the value the tensor's name; pieces of a concatenation wait for one another."""
        node = self.nodes[-1]
        if layer.fills(self.network.tensors[layer.output]):
            node.output[0] = layer.output
            return
        row, column = layer.output_at
        at = f"_{row}_{column}" if self._parts(layer) else ""
        node.output[0] = f"{layer.output}_part{layer.output_channel}{at}"
        pieces = self.pieces.setdefault(layer.output, [])
        pieces.append((layer, node.output[0]))
        writers = self.network.writers(layer.output)
        if len(pieces) == len(writers):
            span = (0, self.network.tensors[layer.output][2])
            self._assemble(layer.output, [self.network.layers[one] for one in sorted(writers)], span, layer.output)

    def _parts(self, layer: Layer) -> bool:
        """True if a layer writes some rows or columns of its tensor alone."""
        return layer.out_hw != self.network.tensors[layer.output][:2]

    def _assemble(self, tensor: str, layers: list[Layer], span: tuple[int, int], name: str) -> str:
        """Join what layers write into channels [span) of a tensor: columns, then rows, then channels;
        channels between them are zeros. What was joined from channel 0 on is joined to the next.
        """
        made = {id(layer): value for layer, value in self.pieces[tensor]}
        joined = self.joined.setdefault(tensor, {})
        at = max((end for end in joined if end <= span[1]), default=0) if span[0] == 0 else span[0]
        if at == span[1]:
            return joined[at]
        groups: dict[tuple[int, int], dict[int, dict[int, str]]] = {}
        for layer in layers:
            if layer.output_channel >= at:
                rows = groups.setdefault(self._span(layer), {})
                rows.setdefault(layer.output_at[0], {})[layer.output_at[1]] = made[id(layer)]
        parts = [(0, joined[at])] if span[0] == 0 and at in joined else []
        for first, end in sorted(groups):
            rows = groups[first, end]
            strips = [
                self._joined([rows[row][column] for column in sorted(rows[row])], 3, f"{name}_{first}_row{row}")
                for row in sorted(rows)
            ]
            parts.append((first - at, self._joined(strips, 2, f"{name}_{first}_rows")))
            at = end
        values = []
        for index, (gap, value) in enumerate(parts):
            after = span[1] - at if index == len(parts) - 1 else 0
            if gap or after:
                pads = self.constant(f"{name}_{index}.pads", [0, gap, 0, 0, 0, after, 0, 0], np.int64)
                value = self.node("Pad", [value, pads], f"{name}_{index}_zeros")
            values.append(value)
        if len(values) > 1:
            self.node("Concat", values, name, axis=1)
        else:
            self.nodes[-1].output[0] = name  # of what was joined or padded last
        if span[0] == 0:
            joined[span[1]] = name
        return name

    def _span(self, layer: Layer) -> tuple[int, int]:
        """Return the first channel that a layer writes, and the one behind its last."""
        return layer.output_channel, layer.output_channel + layer.channels

    def _joined(self, values: list[str], axis: int, name: str) -> str:
        return values[0] if len(values) == 1 else self.node("Concat", values, name, axis=axis)

    def output(self, output: Output) -> None:
        """Write what arranges and ends an output: channels, axes, shape, activation."""
        value, base = output.tensor, f"{output.name}_out"
        if output.channels:
            picked = self.constant(f"{base}.channels", output.channels, np.int64)
            value = self.node("Gather", [value, picked], f"{base}_channels", axis=1)
        height, width, _ = self.network.tensors[output.tensor]
        wide = [axis for axis, size in (("h", height), ("w", width)) if axis in output.axes]
        sizes = [0, *output.split, *(height if axis == "h" else width for axis in wide)]
        value = self._reshaped(value, sizes, f"{base}_split")
        factors = iter(range(1, 1 + len(output.split)))
        order = [next(factors) if axis == "c" else 1 + len(output.split) + wide.index(axis) for axis in output.axes]
        if order != sorted(order):
            value = self.node("Transpose", [value], f"{base}_order", perm=[0, *order])
        value = self._reshaped(value, [0, *output.shape], f"{base}_shape")
        operator = {"": "Identity", "sigmoid": "Sigmoid", "softmax": "Softmax", "log_softmax": "LogSoftmax"}
        along = {"axis": output.axis} if output.activation.endswith("softmax") else {}
        self.nodes.append(helper.make_node(operator[output.activation], [value], [output.name], name=base, **along))

    def _reshaped(self, value: str, sizes: list[int], name: str) -> str:
        return self.node("Reshape", [value, self.constant(f"{name}.sizes", sizes, np.int64)], name)

    def _is_classifier(self, layer: Layer) -> bool:
        """True for a plain fully connected layer whose output leaves the network: written as Flatten and
        Gemm.
        """
        covers = layer.kernel == layer.in_shape[:2] and not any(layer.padding) and layer.groups == 1
        return layer.output in self.logits and layer.kind is Kind.GEMM and covers and layer.residual is None

    def _gemm(self, layer: Layer, source: str) -> str:
        weight = self.state[f"{layer.name}.weight"]
        bias = (
            [self.constant(f"{layer.name}.bias", self.state[f"{layer.name}.bias"])]
            if f"{layer.name}.bias" in self.state
            else []
        )
        if self._is_classifier(layer):
            flat = self.node("Flatten", [source], layer.name + "_flatten", axis=1)
            return self.node(
                "Gemm",
                [flat, self.constant(f"{layer.name}.weight", weight.reshape(len(weight), -1)), *bias],
                layer.name,
                transB=1,
            )
        inputs = [source, self.constant(f"{layer.name}.weight", weight), *bias]
        value = self.node("Conv", inputs, layer.name, group=layer.groups, dilations=layer.dilation, **_window(layer))
        if f"{layer.name}.gamma" in self.state:
            arrays = [
                self.constant(f"{layer.name}.{key}", self.state[f"{layer.name}.{key}"])
                for key in ("gamma", "beta", "mean", "variance")
            ]
            value = self.node("BatchNormalization", [value, *arrays], layer.name + "_bn", epsilon=BATCH_NORM_EPSILON)
        return value

    def _pool(self, layer: Layer, source: str) -> str:
        if layer.kind is Kind.MAX_POOL:
            return self.node("MaxPool", [source], layer.name, dilations=layer.dilation, **_window(layer))
        if layer.kernel == layer.in_shape[:2] and layer.stride == (1, 1) and not any(layer.padding):
            return self.node("GlobalAveragePool", [source], layer.name)
        if layer.dilation != (1, 1):
            raise NetworkError(
                f"average pool '{layer.name}' must not be dilated to be written as ONNX opset {OPSET}, and it is by {layer.dilation}"
            )
        return self.node("AveragePool", [source], layer.name, count_include_pad=1, **_window(layer))


def _window(layer: Layer) -> dict[str, object]:
    """Return kernel, strides and padding; what a negative padding leaves out is cut off before."""
    return {
        "kernel_shape": layer.kernel,
        "strides": layer.stride,
        "pads": tuple(max(0, side) for side in layer.padding),
    }


def build_onnx(network: Network, state: State | None = None) -> onnx.ModelProto:
    """Return the network as a checked ONNX model; `state` (TrainedModel.state) replaces the network's own
    parameters.
    """
    graph = _Graph(network, state_of(network) if state is None else state)
    for layer in network.layers:
        graph.layer(layer)
    for output in network.outputs:
        graph.output(output)
    height, width, channels = network.tensors[network.input]
    image = helper.make_tensor_value_info(network.input, TensorProto.FLOAT, ["batch", channels, height, width])
    outputs = [
        helper.make_tensor_value_info(
            exit.logits, TensorProto.FLOAT, ["batch", math.prod(network.tensors[exit.logits])]
        )
        for exit in network.exits
        if exit.logits is not None
    ] + [helper.make_tensor_value_info(one.name, TensorProto.FLOAT, ["batch", *one.shape]) for one in network.outputs]
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
