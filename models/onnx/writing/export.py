"""Write a network as one ONNX file: every exit a named output, exit table and calibration in its metadata.

Activations are NCHW with a free batch size, as ONNX has it. A trained network keeps its batch
normalisations as nodes, so the file is the trained network; `read_onnx` folds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...errors import NetworkError
from ...files import write_file
from ...graph.activations import NO_CLIP, Activation, Clip, Use
from ...graph.checks import MapCheck
from ...graph.network import Layer, Network, Parameters
from ...graph.outputs import Output
from ...graph.shapes import Kind, Pair, Shape
from ..metadata import metadata_of
from .activation import write_lines, write_table
from .tails import TailWriter, hidden_apart, output_info
from .transposed import Transposed, find_transposed

OPSET = 17
IR_VERSION = 8
BATCH_NORM_EPSILON = 1e-5

_OF_LAYERS = ("AveragePool", "Conv", "ConvTranspose", "Gemm", "GlobalAveragePool", "MaxPool")

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
    """Return a network's parameters for a network that was not trained here.

    They are "layer.weight" (O, I / groups, kernel height, kernel width) and "layer.bias" (O,). Raises
    NetworkError for a GEMM without weights.
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
        self.taken = {*network.tensors, *(output.name for output in network.outputs)}
        if network.tail is not None:
            self.taken |= {output.name for output in network.tail.outputs}
        self.layers = {layer.name for layer in network.layers}
        self.logits = {exit.logits for exit in network.exits}
        self.maps = isinstance(network.check, MapCheck)
        self.pieces: dict[str, list[tuple[Layer, str]]] = {}
        self.transposed: dict[str, Transposed | None] = {}
        self.spread: dict[str, str] = {}  # by layer, its pixels in a map of zeros
        self.joined: dict[str, dict[int, str]] = {}  # by tensor and channel, what is joined up to there

    def constant(self, name: str, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, operator: str, inputs: list[str], name: str, **attributes: object) -> str:
        """Append a node whose one output bears its name; a layer's name is its own node's, a tensor's waits
        for the node that ends it.
        """
        key = name if operator in _OF_LAYERS or name not in self.layers else f"{name}_made"
        output = f"{name}_value" if name in self.taken else name
        self.nodes.append(helper.make_node(operator, inputs, [output], name=key, **attributes))
        return output

    def layer(self, layer: Layer) -> None:
        if layer.output_step != (1, 1) and self._phase(layer):
            return
        source = self._read(layer)
        steps = self._gemm(layer, source) if layer.kind is Kind.GEMM else self._pool(layer, source)
        if not self._ended_together(layer.output):
            self._ended(layer, steps, layer.name)
        if layer.output in self.logits and not self.maps and not self._is_classifier(layer):
            steps = self.node("Flatten", [steps], layer.name + "_flatten", axis=1)
        self._finish(layer)

    def _ended(self, layer: Layer, value: str, name: str, *, whole: bool = False) -> None:
        """Write what ends a layer, where it has any: its residual, clip and activation, and the clip of that.

        `whole`: all the residual's pixels. The node where a reader would open a pass is named as the layer.
        """
        begin, at = len(self.nodes), 0
        if layer.adds:
            value = self.node("Add", [value, self._residual(layer, name, whole=whole)], name + "_add")
            at = len(self.nodes)
        value = self._clipped(value, layer.clip, name)
        if layer.activation is not None:
            at = at or (len(self.nodes) if layer.clip != NO_CLIP else 0)
            value = self._activated(layer, layer.activation, value, name, whole=whole)
            late = layer.activation.use is Use.AFFINE and layer.activation.clip != NO_CLIP and self._shared(layer.input)
            at = at or (0 if late else len(self.nodes))
            self._clipped(value, layer.activation.clip, name + "_after")
        if _is_pass(layer) and len(self.nodes) > begin:
            self.nodes[(at or len(self.nodes)) - 1].name = layer.name

    def _shared(self, tensor: str) -> bool:
        """True if more than one layer reads a tensor, or it is returned."""
        reads = sum((layer.input, layer.residual).count(tensor) for layer in self.network.layers)
        return reads > 1 or tensor in self.network.given_out

    def _residual(self, layer: Layer, name: str, *, whole: bool) -> str:
        """Return the name of what a layer adds or multiplies by."""
        assert layer.residual is not None
        first, end = layer.residual_part.start, layer.residual_part.stop
        value = self._channels(layer.residual, first, end - first, name + "_added", before=layer)
        return value if whole else self._pixels(layer, value, name + "_pixels")

    def _clipped(self, value: str, clip: Clip, name: str) -> str:
        if clip == (0, None):
            return self.node("Relu", [value], name + "_relu")
        if clip == NO_CLIP:
            return value
        limits = [
            "" if bound is None else self.constant(f"{name}.clip{i}", np.float32(bound)) for i, bound in enumerate(clip)
        ]
        return self.node("Clip", [value, *limits], name + "_clip")

    def _activated(self, layer: Layer, activation: Activation, value: str, name: str, *, whole: bool) -> str:
        if activation.use is Use.TABLE:
            return write_table(self, activation, value, name)
        if activation.use is Use.PRODUCT:
            return self.node("Mul", [value, self._residual(layer, name, whole=whole)], name + "_product")
        if layer.name not in self.network.parameters:
            raise NetworkError(
                f"layer '{layer.name}' must have slopes to be exported, and network '{self.network.name}' brings none"
            )
        return write_lines(self, activation, self.network.parameters[layer.name], value, name)

    def _pixels(self, layer: Layer, value: str, name: str) -> str:
        """Take the pixels that a layer adds, where they are not all."""
        assert layer.residual is not None
        repeated = layer.residual_step == (0, 0)
        counts, steps = ((1, 1), (1, 1)) if repeated else (layer.out_hw, layer.residual_step)
        begins = layer.residual_at
        if (*begins, *steps, *counts) == (0, 0, 1, 1, *self.network.tensors[layer.residual][:2]):
            return value
        ends = [at + (count - 1) * step + 1 for at, count, step in zip(begins, counts, steps, strict=True)]
        facts = [
            self.constant(f"{name}.{key}", given, np.int64)
            for key, given in (("starts", begins), ("ends", ends), ("axes", [2, 3]), ("steps", steps))
        ]
        return self.node("Slice", [value, *facts], name)

    def _ended_together(self, tensor: str) -> bool:
        """True if layers that lie between one another add the same residual at their own pixels, or none, and
        clip alike: so the map that they make is added to and clipped as one, as it was read.
        """
        layers = [self.network.layers[writer] for writer in sorted(self.network.writers(tensor))]
        ends = {self._end(layer) for layer in layers}
        height, width, channels = self.network.tensors[tensor]
        first = layers[0]
        if not any(layer.output_step != (1, 1) for layer in layers) or len(ends) > 1:
            return False
        if any((layer.output_channel, layer.channels) != (0, channels) for layer in layers):
            return False
        if sum(layer.shape.r for layer in layers) != height * width:  # zeros of the memory are not clipped
            return False
        return first.residual is None or (
            self.network.tensors[first.residual][:2] == (height, width)
            and all(
                (layer.residual_at, layer.residual_step) == (layer.output_at, layer.output_step) for layer in layers
            )
        )

    def _end(self, layer: Layer) -> tuple[object, ...]:
        """Return what ends a layer, to be compared."""
        own = self.network.parameters.get(layer.name)
        lines = b"" if own is None else own.slopes.tobytes() + own.offsets.tobytes()
        return layer.residual, layer.residual_part.start, layer.residual_spread, layer.clip, layer.activation, lines

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
        there = self.pieces.get(tensor, [])
        for piece, made in there if len(there) < len(self.network.writers(tensor)) else []:
            if (piece.output_channel, piece.channels) == (first, count) and not self._parts(piece):
                return made
        if (first, count) == (0, self.network.tensors[tensor][2]):
            return tensor
        if tensor in self.pieces:  # not all of it may be there yet
            index = self.network.layers.index(before)
            ready = self.network.writers(tensor, first, count, before=index)
            if len(self.network.writers(tensor, before=index)) < len(self.network.writers(tensor)):
                spans = [self._span(self.network.layers[index]) for index in ready]
                low, high = min(first, *(s for s, _ in spans)), max(first + count, *(e for _, e in spans))
                before_it = self.network.writers(tensor, 0, high)
                if before_it == self.network.writers(tensor, 0, high, before=index):
                    low, ready = 0, before_it  # all channels up to there, which later readers extend
                layers = [self.network.layers[index] for index in sorted(ready)]
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
            self._assemble(
                layer.output, [self.network.layers[writer] for writer in sorted(writers)], span, layer.output
            )

    def _parts(self, layer: Layer) -> bool:
        """True if a layer writes some rows or columns of its tensor alone."""
        return layer.out_hw != self.network.tensors[layer.output][:2]

    def _assemble(self, tensor: str, layers: list[Layer], span: tuple[int, int], name: str) -> str:
        """Join what layers write into channels [span) of a tensor: columns, then rows, then channels;
        channels between them are zeros. What was joined from channel 0 on is joined to the next.
        """
        made, nodes = {id(layer): value for layer, value in self.pieces[tensor]}, len(self.nodes)
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
            spanning = [layer for layer in layers if self._span(layer) == (first, end)]
            if any(layer.output_step != (1, 1) for layer in spanning):
                value = self._woven(tensor, spanning, made, f"{name}_{first}")
            else:
                value = self._grid(rows, f"{name}_{first}")
            parts.append((first - at, value))
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
            self.nodes[-1].output[0] = name
        elif len(self.nodes) > nodes:
            self.nodes[-1].output[0] = name  # of what was joined or padded last
        else:
            name = values[0]
        if span[0] == 0:
            joined[span[1]] = name
        return name

    def _grid(self, rows: Mapping[int, Mapping[int, str]], name: str) -> str:
        """Join rectangles by row and column: columns, then rows."""
        strips = [
            self._joined([rows[row][column] for column in sorted(rows[row])], 3, f"{name}_row{row}")
            for row in sorted(rows)
        ]
        return self._joined(strips, 2, f"{name}_rows")

    def _woven(self, tensor: str, layers: list[Layer], made: Mapping[int, str], name: str) -> str:
        """Put what layers write between one another together: DepthToSpace of their phases where these fill a
        map of whole blocks, else each with zeros between its pixels, and all added up. What was read from a
        ConvTranspose of odd sizes is written as one (`transposed.py`).
        """
        height, width, _ = self.network.tensors[tensor]
        step = layers[0].output_step
        phases: dict[Pair, dict[int, dict[int, Layer]]] = {}
        for layer in layers:
            (row, column), (down, right) = layer.output_at, layer.output_step
            phases.setdefault((row % down, column % right), {}).setdefault(row // down, {})[column // right] = layer
        if _blocks(layers, self.network.tensors[tensor]):
            values = [
                self._grid(
                    {
                        row: {column: made[id(value)] for column, value in line.items()}
                        for row, line in phases[phase].items()
                    },
                    f"{name}_phase{phase[0]}_{phase[1]}",
                )
                for phase in sorted(phases)
            ]
            value = self._joined(values, 1, f"{name}_phases")
            value = self.node("DepthToSpace", [value], f"{name}_woven", blocksize=step[0], mode="DCR")
        else:
            spread = [self._spread(layer, made[id(layer)], (height, width), layer.name) for layer in layers]
            value = self.node("Sum", spread, f"{name}_woven")
        if self._ended_together(tensor):
            self._ended(layers[-1], value, name, whole=True)
            value = self.nodes[-1].output[0]
        return value

    def _phase(self, layer: Layer) -> bool:
        """Write the whole of a ConvTranspose with the last of its phases. Returns False for any other
        layer.
        """
        if layer.output not in self.transposed:
            self.transposed[layer.output] = self._transposed(layer.output)
        whole = self.transposed[layer.output]
        if whole is None:
            return False
        writers = sorted(self.network.writers(layer.output))
        if layer is self.network.layers[writers[-1]]:
            name = self.network.layers[writers[0]].name
            weights = self.constant(f"{name}.weight", whole.weights)
            bias = self.constant(f"{name}.bias", self.state[f"{layer.name}.bias"])
            source = self._channels(layer.input, layer.input_channel, layer.in_shape[2], name + "_in", before=layer)
            value = self.node("ConvTranspose", [source, weights, bias], name, **whole.attributes)
            self._ended(layer, value, name, whole=True)
            self.nodes[-1].output[0] = layer.output
        return True

    def _transposed(self, tensor: str) -> Transposed | None:
        """Return the ConvTranspose that is a tensor's only writer, spread over the layers of its phases,
        where they are none that DepthToSpace can put together; else None.
        """
        layers = [self.network.layers[writer] for writer in sorted(self.network.writers(tensor))]
        shape = self.network.tensors[tensor]
        trained = any(f"{layer.name}.gamma" in self.state for layer in layers)
        if trained or not self._ended_together(tensor) or _blocks(layers, shape):
            return None
        biases = [self.state.get(f"{layer.name}.bias") for layer in layers]
        if any(bias is None or not np.array_equal(bias, biases[0]) for bias in biases):  # type: ignore[arg-type]
            return None
        return find_transposed(layers, [self.state[f"{layer.name}.weight"] for layer in layers], shape[:2])

    def _spread(self, layer: Layer, value: str, size: Pair, name: str) -> str:
        """Put what a layer writes into its pixels of a map of zeros, once for all that is joined of it."""
        if name in self.spread:
            return self.spread[name]
        ones = self.constant(f"{name}.ones", np.ones((layer.channels, 1, 1, 1)))
        value = self.node(
            "ConvTranspose", [value, ones], f"{name}_spread", strides=layer.output_step, group=layer.channels
        )
        (row, column), (down, right), (rows, columns) = layer.output_at, layer.output_step, layer.out_hw
        behind = (size[0] - row - (rows - 1) * down - 1, size[1] - column - (columns - 1) * right - 1)
        pads = self.constant(f"{name}_placed.pads", [0, 0, row, column, 0, 0, *behind], np.int64)
        self.spread[name] = self.node("Pad", [value, pads], f"{name}_placed")
        return self.spread[name]

    def _span(self, layer: Layer) -> tuple[int, int]:
        """Return the first channel that a layer writes, and the one behind its last."""
        return layer.output_channel, layer.output_channel + layer.channels

    def _joined(self, values: list[str], axis: int, name: str) -> str:
        return values[0] if len(values) == 1 else self.node("Concat", values, name, axis=axis)

    def output(self, output: Output) -> None:
        """Write what arranges and ends an output: channels, axes, shape, activation; nothing for a plain
        map.
        """
        if _is_plain(output, self.network):
            return
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
        return (
            not self.maps
            and layer.output in self.logits
            and layer.kind is Kind.GEMM
            and covers
            and layer.residual is None
            and layer.activation is None
        )

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
        if _is_pass(layer) and (layer.residual is not None or layer.clip != NO_CLIP or layer.activation is not None):
            return source
        if layer.kind is Kind.MAX_POOL:
            return self.node("MaxPool", [source], layer.name, dilations=layer.dilation, **_window(layer))
        if layer.kernel == layer.in_shape[:2] and layer.stride == (1, 1) and not any(layer.padding):
            return self.node("GlobalAveragePool", [source], layer.name)
        if layer.dilation != (1, 1):
            raise NetworkError(
                f"average pool '{layer.name}' must not be dilated to be written as ONNX opset {OPSET}, and it is by {layer.dilation}"
            )
        return self.node("AveragePool", [source], layer.name, count_include_pad=1, **_window(layer))


def _is_pass(layer: Layer) -> bool:
    """True for a pool of one tap, which stands for what ends it."""
    return layer.kind is Kind.MAX_POOL and layer.kernel == layer.stride == (1, 1)


def _blocks(layers: Sequence[Layer], shape: Shape) -> bool:
    """True if the phases of layers make blocks of pixels that fill a map, as those of DepthToSpace do."""
    step = layers[0].output_step
    phases = {(layer.output_at[0] % step[0], layer.output_at[1] % step[1]) for layer in layers}
    alike = all(layer.output_step == step for layer in layers) and len(phases) == step[0] * step[1]
    whole = sum(layer.shape.r for layer in layers) == shape[0] * shape[1]
    return alike and whole and step[0] == step[1] and not (shape[0] % step[0] or shape[1] % step[1])


def _is_plain(output: Output, network: Network) -> bool:
    """True for an output that is its tensor and has its name."""
    height, width, channels = network.tensors[output.tensor]
    axes = "".join(axis for axis, size in zip("chw", (channels, height, width), strict=True) if size > 1)
    untouched = output.name == output.tensor and not output.channels and not output.activation
    return untouched and output.axes == axes and output.shape == (channels, height, width)


def _named_apart(network: Network) -> Network:
    """Return the network with other names for tensors that have the name of an output, which is another
    value.
    """
    taken = {output.name for output in network.outputs if not _is_plain(output, network)}
    taken |= (
        {output.name for output in network.tail.outputs if output.name not in network.tail.inputs}
        if network.tail
        else set()
    )
    clashing = taken & set(network.tensors)
    if not clashing:
        return network
    names = {name: name for name in network.tensors}
    for name in sorted(clashing):
        count = 1
        while (new := f"{name}_stored{count}") in names or new in taken or new in names.values():
            count += 1
        names[name] = new
    return replace(
        network,
        tensors={names[name]: shape for name, shape in network.tensors.items()},
        layers=tuple(
            replace(
                layer,
                input=names[layer.input],
                output=names[layer.output],
                residual=None if layer.residual is None else names[layer.residual],
            )
            for layer in network.layers
        ),
        exits=tuple(
            replace(exit, logits=None if exit.logits is None else names[exit.logits]) for exit in network.exits
        ),
        outputs=tuple(replace(output, tensor=names[output.tensor]) for output in network.outputs),
        calibration={names.get(name, name): value for name, value in network.calibration.items()},
        equalisation={names.get(name, name): shifts for name, shifts in network.equalisation.items()},
        grids={names.get(name, name): grid for name, grid in network.grids.items()},
    )


def _exit_sizes(network: Network, logits: str) -> tuple[int, ...]:
    """Return the sizes of an exit's values behind the batch: maps as ONNX has them, or one vector."""
    height, width, channels = network.tensors[logits]
    return (channels, height, width) if isinstance(network.check, MapCheck) else (height * width * channels,)


def _window(layer: Layer) -> dict[str, object]:
    """Return kernel, strides and padding; what a negative padding leaves out is cut off before."""
    return {
        "kernel_shape": layer.kernel,
        "strides": layer.stride,
        "pads": tuple(max(0, side) for side in layer.padding),
    }


def build_onnx(network: Network, state: State | None = None) -> onnx.ModelProto:
    """Return the network as a checked ONNX model.

    `state` (TrainedModel.state), in the shapes of `state_of`, replaces the network's own parameters.
    """
    network = _named_apart(hidden_apart(network))
    graph = _Graph(network, state_of(network) if state is None else state)
    for layer in network.layers:
        graph.layer(layer)
    for output in network.outputs:
        graph.output(output)
    height, width, channels = network.tensors[network.input]
    batch = "batch" if network.tail is None else 1  # for which alone a tail is made
    image = helper.make_tensor_value_info(network.input, TensorProto.FLOAT, [batch, channels, height, width])
    outputs = [
        helper.make_tensor_value_info(exit.logits, TensorProto.FLOAT, [batch, *_exit_sizes(network, exit.logits)])
        for exit in network.exits
        if exit.logits is not None
    ]
    opset = OPSET
    if network.tail is None:
        for described in network.outputs:
            outputs.append(helper.make_tensor_value_info(described.name, TensorProto.FLOAT, [batch, *described.shape]))
    else:
        TailWriter(graph.nodes, graph.initializers).write(network.tail)
        outputs += map(output_info, network.tail.outputs)
        opset = max(OPSET, network.tail.opset)
    proto = helper.make_graph(graph.nodes, network.name, [image], outputs, graph.initializers)
    model = helper.make_model(
        proto, opset_imports=[helper.make_opsetid("", opset)], producer_name="fluidnpu", ir_version=IR_VERSION
    )
    helper.set_model_props(model, metadata_of(network))
    onnx.checker.check_model(model)
    return model


def write_onnx(network: Network, path: Path | str, state: State | None = None) -> None:
    """Write `build_onnx` to one file, whole or not at all (`models.files`).

    `state` has the shapes of `state_of`.
    """
    write_file(path, onnx_bytes(network, state))


def onnx_bytes(network: Network, state: State | None = None) -> bytes:
    """Return `build_onnx` as the bytes of a file. `state` has the shapes of `state_of`."""
    return bytes(build_onnx(network, state).SerializeToString(deterministic=True))
