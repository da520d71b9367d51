"""From an ONNX file to a `Network`: one pass over the nodes, each folded into the layer before it or opening a new one.

Every graph output is an exit. Whatever the NPU cannot do exactly is refused in one sentence that names node and operator.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from .export import PREFIX
from .layer_table import read_layer_table
from .network import Exit, Kind, Network, NetworkError, Pair, Shape, Workload
from .onnx_drafts import (
    NO_PADDING,
    Array,
    Clip,
    Doubles,
    Draft,
    Padding,
    Plane,
    apply_clip,
    build_network,
    clip_targets,
)
from .onnx_file import (
    MOST_ELEMENTS,
    MOST_EXTENT,
    Attributes,
    ModelFileError,
    OnnxFile,
    UnsupportedOperatorError,
    array_of,
    label,
    refuse,
)

DEFAULT_THRESHOLD = 0.8
MOST_EXITS = 64
_UNBOUNDED = 3e38  # what older exporters write for "no limit" in a Clip
_SUGGESTIONS = {
    "Sigmoid": "end exits in logits or Softmax and use ReLU inside",
    "HardSigmoid": "use ReLU or ReLU6",
    "HardSwish": "use ReLU or ReLU6",
    "LeakyRelu": "train with ReLU",
    "PRelu": "train with ReLU",
    "Elu": "train with ReLU",
    "Gelu": "train with ReLU",
    "Tanh": "train with ReLU",
    "Mul": "only a constant factor per channel can be folded",
    "Transpose": "export the model with NCHW activations",
    "ConvTranspose": "the NPU does not upsample",
    "Resize": "the NPU does not upsample; resize on the host",
    "Upsample": "the NPU does not upsample; resize on the host",
    "QuantizeLinear": "give the float model: fluidnpu quantises it itself",
    "DequantizeLinear": "give the float model: fluidnpu quantises it itself",
    "QLinearConv": "give the float model: fluidnpu quantises it itself",
    "LRN": "train with batch normalisation",
    "InstanceNormalization": "train with batch normalisation",
    "LayerNormalization": "train with batch normalisation",
    "If": "export the exits as plain outputs: the runtime decides, not the graph",
    "Loop": "export the exits as plain outputs: the runtime decides, not the graph",
}


@dataclass(frozen=True, kw_only=True)
class _Value:
    """What an ONNX name stands for: a plane, seen as a map (N, C, H, W) or as a vector (N, C*H*W)."""

    plane: Plane
    vector: bool
    exclusive: bool  # nothing else reads it, under any name
    pad: Padding = NO_PADDING  # zeros a Pad node put around it, still to be folded
    softmaxed: bool = False

    @property
    def shape(self) -> Shape:
        return self.plane.shape

    @property
    def pixel(self) -> bool:
        return self.shape[0] * self.shape[1] == 1


class _Walk:
    """The state of one pass: values and constants by name, drafts in the order they were opened."""

    def __init__(self, file: OnnxFile) -> None:
        self.file = file
        self.uses = file.uses()
        self.values: dict[str, _Value] = {}
        self.constants: dict[str, npt.NDArray[Any]] = {}
        self.drafts: list[Draft] = []
        self.names: set[str] = set()
        self.budget = 2 * MOST_ELEMENTS  # of weights and folded constants together
        self.source = self._input()

    # -- what nodes read and write ------------------------------------------------------------------------------------

    def _input(self) -> Plane:
        graph = self.file.model.graph
        found = [one for one in graph.input if one.name not in self.file.protos]
        if len(found) != 1:
            raise ModelFileError(f"{self.file.path} must have one input image, and it has {len(found)} inputs")
        dims = [d.dim_value if d.HasField("dim_value") else 0 for d in found[0].type.tensor_type.shape.dim]
        if (
            len(dims) not in (2, 4)
            or not all(1 <= d <= MOST_EXTENT for d in dims[1:])
            or math.prod(dims[1:]) > MOST_ELEMENTS
        ):
            raise ModelFileError(
                f"input '{found[0].name}' must have the shape (N, channels, height, width) with fixed positive sizes, not "
                f"{tuple(_dim(d) for d in found[0].type.tensor_type.shape.dim)}"
            )
        shape = (dims[2], dims[3], dims[1]) if len(dims) == 4 else (1, 1, dims[1])
        plane = Plane(name=found[0].name, shape=shape)
        self.values[plane.name] = _Value(plane=plane, vector=len(dims) == 2, exclusive=False)
        return plane

    def value(self, node: onnx.NodeProto, index: int = 0, *, padded: bool = False) -> _Value:
        """The activation at an input of a node."""
        name = node.input[index] if index < len(node.input) else ""
        if name not in self.values:
            what = f"'{name}' is a constant" if self.known(name) else f"'{name}' is nowhere in the file"
            raise refuse(node, f"must read an activation at input {index}, and {what}")
        found = self.values[name]
        if found.softmaxed:
            raise UnsupportedOperatorError(
                label(node), node.op_type, "follows a Softmax", "a Softmax may only end an exit"
            )
        if any(found.pad) and not padded:
            raise UnsupportedOperatorError(
                label(node), node.op_type, "follows a Pad", "only a convolution or a pool can take over the padding"
            )
        return found

    def map(self, node: onnx.NodeProto, *, padded: bool = False) -> _Value:
        """The activation at input 0, which must be (N, C, H, W)."""
        found = self.value(node, padded=padded)
        if found.vector:
            raise refuse(node, f"must read (N, C, H, W), and '{node.input[0]}' is a vector")
        return found

    def known(self, name: str) -> bool:
        return name in self.constants or name in self.file.protos

    def optional(self, node: onnx.NodeProto, index: int) -> npt.NDArray[Any] | None:
        """The constant at an input, or None where the input is left out."""
        if index >= len(node.input) or not node.input[index]:
            return None
        name = node.input[index]
        if name not in self.constants:
            if name not in self.file.protos:
                what = "is computed" if name in self.values else "is nowhere in the file"
                raise refuse(node, f"must find a constant at input {index}, and '{name}' {what}")
            self.keep(name, self.file.constant(name))
        return self.constants[name]

    def constant(self, node: onnx.NodeProto, index: int) -> npt.NDArray[Any]:
        """The constant at an input."""
        found = self.optional(node, index)
        if found is None:
            raise refuse(node, f"must have an input {index}, and it is left out")
        return found

    def keep(self, name: str, array: npt.NDArray[Any]) -> None:
        """Remember a constant, within the budget."""
        self.spend(array.size)
        self.constants[name] = array

    def spend(self, elements: int) -> None:
        """Count elements of weights against what one model may hold."""
        self.budget -= elements
        if self.budget < 0:
            raise ModelFileError(
                f"{self.file.path} must have at most {2 * MOST_ELEMENTS} weights and constants, and it has more"
            )

    def put(self, node: onnx.NodeProto, value: _Value) -> None:
        """Give a node's first output its value; further outputs must not be used."""
        for extra in node.output[1:]:
            if self.uses.get(extra):
                raise UnsupportedOperatorError(
                    label(node), node.op_type, "has a second output in use", "only the first one exists here"
                )
        self.values[node.output[0]] = value

    def alias(self, node: onnx.NodeProto, source: _Value, **changes: Any) -> None:
        """The same plane under a further name."""
        name = node.output[0]
        if not changes.get("softmaxed") and not any(changes.get("pad", ())):
            source.plane.aliases.append(name)
        self.put(node, replace(source, exclusive=source.exclusive and self.uses[name] == 1, **changes))

    def renamed(self, node: onnx.NodeProto, source: _Value) -> None:
        """The plane after something was folded into its writers: its old name means nothing any more."""
        source.plane.name, source.plane.aliases = node.output[0], []
        self.put(node, replace(source, exclusive=self.uses[node.output[0]] == 1))

    # -- opening layers -----------------------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """A layer name that is not taken."""
        candidate, count = name, 1
        while candidate in self.names:
            count += 1
            candidate = f"{name}_{count}"
        self.names.add(candidate)
        return candidate

    def open(self, node: onnx.NodeProto, source: _Value, output: str, *, vector: bool = False, **fields: Any) -> _Value:
        """A new layer on a value; checks its geometry."""
        kind, channels = fields["kind"], fields["channels"]
        kernel, dilation = fields.get("kernel", (1, 1)), fields.get("dilation", (1, 1))
        padding = fields.get("padding", NO_PADDING)
        for axis in (0, 1):
            available = source.shape[axis] + padding[axis] + padding[axis + 2]
            if (kernel[axis] - 1) * dilation[axis] + 1 > available:
                raise refuse(
                    node,
                    f"must have a window no larger than its padded input, and it needs {(kernel[axis] - 1) * dilation[axis] + 1} of {available}",
                )
        plane = Plane(name=output, shape=(1, 1, channels))
        draft = Draft(
            name=self.unique(label(node)), input=source.plane, output=plane, sole_reader=source.exclusive, **fields
        )
        plane.shape = (*draft.layer().out_hw, channels)
        if math.prod(plane.shape) > MOST_ELEMENTS or math.prod(kernel) > MOST_ELEMENTS:
            raise refuse(node, f"must have an output of at most {MOST_ELEMENTS} values, not {plane.shape}")
        plane.gain = 1.0 if kind is Kind.GEMM else source.plane.gain
        if kind is Kind.SUM_POOL:
            taps = math.prod(kernel)
            plane.gain *= 2 ** (taps - 1).bit_length() / taps
        if kind is not Kind.GEMM:
            draft.passes_sign = source.plane.non_negative
        else:
            self.spend(draft.weights.size if draft.weights is not None else 0)
        plane.writers.append(draft)
        self.drafts.append(draft)
        return _Value(plane=plane, vector=vector, exclusive=self.uses.get(output, 1) == 1)

    def copy(self, node: onnx.NodeProto, source: _Value, output: str | None = None) -> _Value:
        """A 1x1 depthwise layer of weight one: for what cannot be folded anywhere."""
        channels = source.shape[2]
        return self.open(
            node,
            source,
            output or self.unique(f"{node.output[0]}_copy"),
            vector=source.vector,
            kind=Kind.GEMM,
            channels=channels,
            groups=channels,
            weights=np.ones((channels, 1, 1, 1), np.float32),
            bias=np.zeros(channels, np.float32),
        )

    def affine(self, node: onnx.NodeProto, source: _Value, factor: Doubles, shift: Doubles) -> None:
        """Value * factor + shift, both (C,), folded into the writers or a layer of its own."""
        if source.exclusive and source.plane.writers and all(writer.open for writer in source.plane.writers):
            self.renamed(node, source)
        else:
            source = self.copy(node, source, node.output[0])
            self.put(node, source)
        for writer in source.plane.writers:
            part = slice(writer.offset, writer.offset + writer.channels)
            writer.scale(factor[part], shift[part])

    def clip(self, node: onnx.NodeProto, clip: Clip) -> None:
        """Bound the value at input 0."""
        source = self.value(node)
        if clip[0] is not None and clip[1] is not None and clip[0] > clip[1]:
            raise refuse(node, f"must clip to a range, not to {clip[0]:g}..{clip[1]:g}")
        if clip == (None, None) or (
            clip[0] is not None and clip[0] <= 0 and clip[1] is None and source.plane.non_negative
        ):
            self.alias(node, source)
            return
        targets = clip_targets(source.plane) if source.exclusive else None
        if targets is None:
            source = self.copy(node, source, node.output[0])
            self.put(node, source)
            targets = source.plane.writers
        else:
            self.renamed(node, source)
        apply_clip(targets, clip)


def _dim(dim: Any) -> object:
    return dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or "?")


# -- one function per operator ----------------------------------------------------------------------------------------


def _window(node: onnx.NodeProto, source: _Value, kernel: Pair) -> dict[str, Any]:
    """Stride, dilation and padding of a convolution or pool, auto_pad and a folded Pad included."""
    attributes = Attributes(node)
    stride = attributes.extents("strides", (1, 1), 1)
    dilation = attributes.extents("dilations", (1, 1), 1)
    pads = list(attributes.extents("pads", (0, 0, 0, 0), 0))
    auto = attributes.text("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        for axis in (0, 1):
            size = source.shape[axis] + source.pad[axis] + source.pad[axis + 2]
            extent = (kernel[axis] - 1) * dilation[axis] + 1
            total = max(0, (math.ceil(size / stride[axis]) - 1) * stride[axis] + extent - size)
            small, large = total // 2, total - total // 2
            pads[axis], pads[axis + 2] = (small, large) if auto == "SAME_UPPER" else (large, small)
    elif auto == "VALID":
        pads = [0, 0, 0, 0]
    elif auto != "NOTSET":
        raise refuse(node, f"must have an auto_pad of NOTSET, VALID, SAME_UPPER or SAME_LOWER, not '{auto[:40]}'")
    padding = tuple(own + before for own, before in zip(pads, source.pad, strict=True))
    return {"kernel": kernel, "stride": stride, "dilation": dilation, "padding": padding}


def _conv(walk: _Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node, padded=True)
    weights = walk.constant(node, 1)
    if weights.ndim != 4:
        raise UnsupportedOperatorError(
            label(node), node.op_type, f"has weights of {weights.ndim} dimensions", "the NPU is two-dimensional"
        )
    if 0 in weights.shape:
        raise refuse(node, f"must have weights, not an empty array {weights.shape}")
    groups, channels = Attributes(node).integer("group", 1), source.shape[2]
    out, per_group = weights.shape[:2]
    if groups < 1 or out % groups or per_group * groups != channels:
        raise refuse(
            node, f"must have weights for {channels} channels in {groups} groups, and their shape is {weights.shape}"
        )
    kernel = (int(weights.shape[2]), int(weights.shape[3]))
    if Attributes(node).extents("kernel_shape", kernel, 1) != kernel:
        raise refuse(node, f"must have the kernel_shape of its weights, {kernel}")
    value = walk.open(
        node,
        source,
        node.output[0],
        kind=Kind.GEMM,
        channels=int(out),
        groups=groups,
        weights=weights.astype(np.float32),
        bias=_vector(node, walk.optional(node, 2), int(out)),
        **_window(node, source, kernel),
    )
    walk.put(node, value)


def _vector(node: onnx.NodeProto, array: npt.NDArray[Any] | None, size: int) -> Array:
    """A bias (size,), broadcast from what is given; zeros when nothing is."""
    if array is None:
        return np.zeros(size, np.float32)
    if array.size not in (1, size) or array.size != (array.shape[-1] if array.ndim else 1):
        raise refuse(node, f"must have {size} biases, not an array {array.shape}")
    return np.broadcast_to(array.reshape(-1).astype(np.float32), (size,)).copy()


def _fully_connected(walk: _Walk, node: onnx.NodeProto, weights: Array, bias: Array) -> None:
    """Weights (features, out), features in ONNX's order (channel, row, column): a convolution that covers the whole plane."""
    source = walk.value(node)
    height, width, channels = source.shape
    if not source.vector:
        raise refuse(node, f"must read a flattened input, and '{node.input[0]}' is (N, {channels}, {height}, {width})")
    if weights.ndim != 2 or weights.shape[0] != height * width * channels or not weights.shape[1]:
        raise refuse(
            node, f"must have weights for {height * width * channels} features, and their shape is {weights.shape}"
        )
    out = int(weights.shape[1])
    value = walk.open(
        node,
        source,
        node.output[0],
        vector=True,
        kind=Kind.GEMM,
        channels=out,
        kernel=(height, width),
        weights=np.ascontiguousarray(weights.T).reshape(out, channels, height, width),
        bias=bias,
    )
    walk.put(node, value)


def _gemm(walk: _Walk, node: onnx.NodeProto) -> None:
    attributes = Attributes(node)
    weights = walk.constant(node, 1)
    if attributes.integer("transA", 0) or weights.ndim != 2:
        raise refuse(node, "must multiply (N, features) by a constant matrix, without transA")
    weights = weights.T if attributes.integer("transB", 0) else weights
    bias = _vector(node, walk.optional(node, 2), weights.shape[1]) * np.float32(attributes.number("beta", 1.0))
    _fully_connected(walk, node, (weights * np.float32(attributes.number("alpha", 1.0))).astype(np.float32), bias)


def _matmul(walk: _Walk, node: onnx.NodeProto) -> None:
    weights = walk.constant(node, 1)
    _fully_connected(
        walk, node, weights.astype(np.float32), np.zeros(weights.shape[-1] if weights.ndim else 0, np.float32)
    )


def _batch_normalization(walk: _Walk, node: onnx.NodeProto) -> None:
    source, attributes = walk.value(node), Attributes(node)
    if attributes.integer("training_mode", 0):
        raise UnsupportedOperatorError(
            label(node), node.op_type, "is in training mode", "export the model in evaluation mode"
        )
    if source.vector and not source.pixel:
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


def _relu(walk: _Walk, node: onnx.NodeProto) -> None:
    walk.clip(node, (0.0, None))


def _clip(walk: _Walk, node: onnx.NodeProto) -> None:
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


def _operands(walk: _Walk, node: onnx.NodeProto) -> tuple[_Value, npt.NDArray[Any], bool] | None:
    """(activation, constant, whether the constant comes first) of a two-input node, or None when neither is constant."""
    if len(node.input) != 2:
        return None
    for index in (1, 0):
        if walk.known(node.input[index]):
            return walk.value(node, 1 - index), walk.constant(node, index).astype(np.float32), index == 0
    return None


def _per_channel(node: onnx.NodeProto, source: _Value, array: Array) -> Array:
    """A constant operand as (C,), when it broadcasts over channels alone."""
    channels = source.shape[2]
    shape = array.shape
    if array.size == 1:
        return np.full(channels, array.reshape(()))
    rank = 2 if source.vector else 4
    aligned = (1,) * (rank - len(shape)) + shape
    wanted = (1, channels) if source.vector else (1, channels, 1, 1)
    if aligned != wanted or (source.vector and not source.pixel):
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"has a constant of shape {shape}",
            f"only one number, or one for each of {channels} channels, can be folded",
        )
    return array.reshape(-1)


def _scale(walk: _Walk, node: onnx.NodeProto) -> None:
    """Mul, Div and Sub with a constant; Add comes here too when one operand is constant."""
    found = _operands(walk, node)
    if found is None:
        raise UnsupportedOperatorError(label(node), node.op_type, "combines two activations", _SUGGESTIONS["Mul"])
    source, array, first = found
    constant = _per_channel(node, source, array).astype(np.float64)
    one, zero = np.ones_like(constant), np.zeros_like(constant)
    if node.op_type == "Div" and (first or not constant.all()):
        raise UnsupportedOperatorError(
            label(node), node.op_type, "divides by an activation or by zero", _SUGGESTIONS["Mul"]
        )
    factor, shift = {
        "Mul": (constant, zero),
        "Div": (1 / np.where(constant == 0, 1, constant), zero),
        "Add": (one, constant),
        "Sub": (-one, constant) if first else (one, -constant),
    }[node.op_type]
    walk.affine(node, source, factor, shift)


def _add(walk: _Walk, node: onnx.NodeProto) -> None:
    if node.op_type == "Add" and _operands(walk, node) is not None:
        _scale(walk, node)
        return
    total = walk.value(node, 0)
    for index in range(1, len(node.input)):
        total = _add_two(walk, node, total, walk.value(node, index))
    if len(node.input) == 1:
        walk.alias(node, total)
        return
    walk.renamed(node, total)


def _add_two(walk: _Walk, node: onnx.NodeProto, first: _Value, second: _Value) -> _Value:
    """Fold the sum into the layer that writes either operand and nothing else reads; else into a copy of one."""
    if first.shape != second.shape or (first.vector != second.vector and not first.pixel):
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"adds {first.shape} to {second.shape}",
            "both operands must have one shape (height, width, channels)",
        )
    into, other = (second, first) if second.plane.gain != 1.0 else (first, second)
    if _open(first):
        into, other = first, second
    elif _open(second):
        into, other = second, first
    else:
        into = walk.copy(node, into)
    if other.plane.gain != 1.0:
        other = walk.copy(node, other)
    into.plane.writers[0].residual = other.plane
    return replace(into, exclusive=True)


def _open(value: _Value) -> bool:
    """Whether one layer writes all of a value, still takes a residual, and nothing else reads the value."""
    return value.exclusive and len(value.plane.writers) == 1 and value.plane.writers[0].open


def _concat(walk: _Walk, node: onnx.NodeProto) -> None:
    pieces = [walk.value(node, index) for index in range(len(node.input))]
    first = pieces[0]
    axis = Attributes(node).integer("axis", 1)
    flat = all(piece.vector and piece.pixel for piece in pieces)
    maps = not any(piece.vector for piece in pieces)
    if (
        not (flat or maps)
        or axis not in ((1, -1) if flat else (1, -3))
        or any(piece.shape[:2] != first.shape[:2] for piece in pieces)
    ):
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"joins {[piece.shape for piece in pieces][:8]} along axis {axis}",
            "only maps of one size can be joined, by channels",
        )
    plane = Plane(name=node.output[0], shape=(*first.shape[:2], sum(piece.shape[2] for piece in pieces)))
    if math.prod(plane.shape) > MOST_ELEMENTS:
        raise refuse(node, f"must have an output of at most {MOST_ELEMENTS} values, not {plane.shape}")
    mixed = any(piece.plane.gain != first.plane.gain for piece in pieces) or not all(
        piece.exclusive for piece in pieces
    )
    offset = 0
    for piece in pieces:
        fits = piece.exclusive and piece.plane.writers and (piece.plane.gain == 1.0 or not mixed)
        moved = piece if fits else walk.copy(node, piece)
        plane.gain = moved.plane.gain
        for writer in moved.plane.writers:
            writer.output = plane
            writer.offset += offset
            plane.writers.append(writer)
        offset += piece.shape[2]
    walk.put(node, _Value(plane=plane, vector=flat, exclusive=walk.uses[node.output[0]] == 1))


def _max_pool(walk: _Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node, padded=True)
    attributes = Attributes(node)
    kernel = attributes.extents("kernel_shape", (0, 0), 1)
    window = _window(node, source, (kernel[0], kernel[1]))
    if attributes.integer("ceil_mode", 0):
        window["padding"] = _ceil_padding(source, window)
    if any(window["padding"]) and not source.plane.non_negative:
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            "pads an input that may be negative, where the NPU stores zeros",
            "put a ReLU before the pool",
        )
    walk.put(node, walk.open(node, source, node.output[0], kind=Kind.MAX_POOL, channels=source.shape[2], **window))


def _ceil_padding(source: _Value, window: Mapping[str, Any]) -> Padding:
    """Padding with which rounding down gives what rounding up would have: a last, partial window at the far edges."""
    padding = list(window["padding"])
    for axis in (0, 1):
        size, stride = source.shape[axis] + padding[axis] + padding[axis + 2], window["stride"][axis]
        extent = (window["kernel"][axis] - 1) * window["dilation"][axis] + 1
        count = -(-(size - extent) // stride) + 1
        if (count - 1) * stride >= source.shape[axis] + padding[axis]:  # a window must begin inside the input
            count -= 1
        padding[axis + 2] += max(0, (count - 1) * stride + extent - size)
    return padding[0], padding[1], padding[2], padding[3]


def _average_pool(walk: _Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node, padded=True)
    attributes = Attributes(node)
    kernel = attributes.extents("kernel_shape", (0, 0), 1)
    window = _window(node, source, (kernel[0], kernel[1]))
    if attributes.integer("ceil_mode", 0) and _ceil_padding(source, window) != window["padding"]:
        raise UnsupportedOperatorError(
            label(node), node.op_type, "has partial windows (ceil_mode)", "choose sizes that divide evenly"
        )
    own_padding = tuple(total - before for total, before in zip(window["padding"], source.pad, strict=True))
    if any(own_padding) and not attributes.integer("count_include_pad", 0):
        raise UnsupportedOperatorError(
            label(node), node.op_type, "divides by fewer taps at the border", "set count_include_pad or do not pad"
        )
    walk.put(node, walk.open(node, source, node.output[0], kind=Kind.SUM_POOL, channels=source.shape[2], **window))


def _global_pool(walk: _Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node)
    vector = False
    if node.op_type == "ReduceMean":
        attributes = Attributes(node)
        given = walk.optional(node, 1)
        axes = attributes.ints("axes") if given is None else tuple(int(a) for a in given.reshape(-1))
        if axes is None or sorted(a % 4 for a in axes) != [2, 3]:
            raise UnsupportedOperatorError(
                label(node), node.op_type, f"averages over axes {axes}", "only height and width (2, 3) can be averaged"
            )
        vector = not attributes.integer("keepdims", 1)
    kind = Kind.MAX_POOL if node.op_type == "GlobalMaxPool" else Kind.SUM_POOL
    walk.put(
        node,
        walk.open(
            node, source, node.output[0], vector=vector, kind=kind, channels=source.shape[2], kernel=source.shape[:2]
        ),
    )


def _flatten(walk: _Walk, node: onnx.NodeProto) -> None:
    source = walk.value(node)
    if Attributes(node).integer("axis", 1) != 1:
        raise UnsupportedOperatorError(
            label(node), node.op_type, "does not keep the batch apart", "flatten from axis 1"
        )
    walk.alias(node, source, vector=True)


def _reshape(walk: _Walk, node: onnx.NodeProto) -> None:
    source = walk.value(node)
    height, width, channels = source.shape
    count = height * width * channels
    target = [int(v) for v in walk.constant(node, 1).reshape(-1)[:9]]
    batch_kept = bool(target) and target[0] in (0, -1, 1) and target.count(-1) <= 1
    if batch_kept and len(target) == 2 and target[1] in (count, -1):
        walk.alias(node, source, vector=True)
        return
    now = (count, 1, 1) if source.vector and source.pixel else (channels, height, width)
    if batch_kept and len(target) == 4 and not (source.vector and not source.pixel) and _fills(target[1:], now):
        walk.alias(node, source, vector=False)
        return
    raise UnsupportedOperatorError(
        label(node),
        node.op_type,
        f"turns (N, {channels}, {height}, {width}) into {tuple(target)}",
        "only flattening to (N, features) is possible",
    )


def _fills(target: list[int], shape: Shape) -> bool:
    """Whether a Reshape to `target` leaves (C, H, W) as it is."""
    if target.count(-1) == 1:
        known = math.prod(v for v in target if v != -1)
        target = [math.prod(shape) // known if v == -1 and known else v for v in target]
    return tuple(shape[i] if v == 0 else v for i, v in enumerate(target)) == shape


def _squeeze(walk: _Walk, node: onnx.NodeProto) -> None:
    source = walk.value(node)
    given = walk.optional(node, 1)
    axes = Attributes(node).ints("axes") if given is None else tuple(int(a) for a in given.reshape(-1))
    squeeze = node.op_type == "Squeeze"
    if source.vector == squeeze or not source.pixel or axes is None or sorted(a % 4 for a in axes) != [2, 3]:
        raise UnsupportedOperatorError(
            label(node), node.op_type, "changes more than trailing ones", "flatten to (N, features) instead"
        )
    walk.alias(node, source, vector=squeeze)


def _identity(walk: _Walk, node: onnx.NodeProto) -> None:
    walk.alias(node, walk.value(node))


def _softmax(walk: _Walk, node: onnx.NodeProto) -> None:
    source = walk.value(node)
    axis = Attributes(node).integer("axis", -1 if walk.file.opset >= 13 else 1)
    good = axis in (1, -1) if source.vector else source.pixel and axis in (1, -3)
    if not good:
        raise UnsupportedOperatorError(
            label(node), node.op_type, f"runs along axis {axis} of {source.shape}", "it must run over an exit's classes"
        )
    walk.alias(node, source, softmaxed=True)


def _pad(walk: _Walk, node: onnx.NodeProto) -> None:
    source, attributes = walk.map(node, padded=True), Attributes(node)
    given = walk.optional(node, 1)
    pads = attributes.ints("pads") if given is None else tuple(int(p) for p in given.reshape(-1))
    fill = walk.optional(node, 2)
    value = attributes.number("value", 0.0) if fill is None else float(fill.reshape(-1)[0]) if fill.size else 0.0
    axes = walk.optional(node, 3)
    if axes is not None and pads is not None and len(pads) == 2 * axes.size:
        full = [0] * 8
        for index, axis in enumerate(axes.reshape(-1)):
            full[int(axis) % 4], full[int(axis) % 4 + 4] = pads[index], pads[index + axes.size]
        pads = tuple(full)
    fair = (
        pads is not None
        and len(pads) == 8
        and all(0 <= p <= MOST_EXTENT for p in pads)
        and not any(pads[i] for i in (0, 1, 4, 5))
    )
    if attributes.text("mode", "constant") != "constant" or value != 0.0 or pads is None or not fair:
        raise UnsupportedOperatorError(
            label(node), node.op_type, "is not a border of zeros in height and width", "pad with zeros"
        )
    before = source.pad
    walk.alias(node, source, pad=(pads[2] + before[0], pads[3] + before[1], pads[6] + before[2], pads[7] + before[3]))


_OPERATORS: dict[str, Callable[[_Walk, onnx.NodeProto], None]] = {
    "Add": _add,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "Div": _scale,
    "Dropout": _identity,
    "Flatten": _flatten,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "Identity": _identity,
    "LogSoftmax": _softmax,
    "MatMul": _matmul,
    "MaxPool": _max_pool,
    "Mul": _scale,
    "Pad": _pad,
    "ReduceMean": _global_pool,
    "Relu": _relu,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Squeeze": _squeeze,
    "Sub": _scale,
    "Sum": _add,
    "Unsqueeze": _squeeze,
}
OPERATORS = tuple(sorted({*_OPERATORS, "Constant", "Shape", "Gather", "Slice", "Cast", "Transpose"}))


# -- constants --------------------------------------------------------------------------------------------------------


def _folded(walk: _Walk, node: onnx.NodeProto) -> npt.NDArray[Any] | None:
    """The value of a node that only depends on constants and shapes, or None when it does not."""
    if node.op_type == "Constant":
        return _constant_node(node)
    if node.op_type == "Shape" and node.input and node.input[0] in walk.values:
        value = walk.values[node.input[0]]
        height, width, channels = value.shape
        # 0 stands for the batch: "copy this dimension" to the Reshape that such shapes end in
        return np.array([0, height * width * channels] if value.vector else [0, channels, height, width])
    if not node.input or not all(not name or walk.known(name) for name in node.input):
        return None
    arrays = [walk.optional(node, index) for index in range(len(node.input))]
    if node.op_type not in _FOLDS or arrays[0] is None:
        return None
    given = [array for array in arrays if array is not None]
    size = (
        math.prod(np.broadcast_shapes(*(a.shape for a in given)))
        if node.op_type in ("Add", "Sub", "Mul", "Div")
        else sum(a.size for a in given)
    )
    walk.spend(size)
    return np.asarray(_FOLDS[node.op_type](given, Attributes(node)))


def _constant_node(node: onnx.NodeProto) -> npt.NDArray[Any]:
    attributes = Attributes(node)
    tensor = attributes.tensor("value")
    if tensor is not None:
        return array_of(tensor, f"constant '{label(node)}'")
    if "value_float" in attributes:
        return np.array(attributes.number("value_float", 0.0), np.float32)
    if "value_int" in attributes:
        return np.array(attributes.integer("value_int", 0))
    ints = attributes.ints("value_ints")
    if ints is None:
        raise refuse(node, "must hold a tensor, a number or integers")
    return np.array(ints, np.int64)


def _axes(arrays: list[npt.NDArray[Any]], attributes: Attributes) -> tuple[int, ...]:
    return tuple(int(a) for a in arrays[1].reshape(-1)) if len(arrays) > 1 else attributes.ints("axes") or ()


def _slice(arrays: list[npt.NDArray[Any]], attributes: Attributes) -> npt.NDArray[Any]:
    """Slices of a shape: one dimension."""
    start, end, *rest = [int(a.reshape(-1)[0]) for a in arrays[1:]] or [
        (attributes.ints("starts") or (0,))[0],
        (attributes.ints("ends") or (1,))[0],
    ]
    return np.asarray(arrays[0][start : end : rest[1] if len(rest) > 1 else 1])


_Fold = Callable[[list[npt.NDArray[Any]], Attributes], Any]
_FOLDS: dict[str, _Fold] = {
    "Add": lambda a, _: a[0] + a[1],
    "Cast": lambda a, _: a[0],
    "Concat": lambda a, at: np.concatenate([np.atleast_1d(x) for x in a], axis=at.integer("axis", 0)),
    "Div": lambda a, _: a[0] // a[1] if a[0].dtype.kind == "i" else a[0] / a[1],
    "Gather": lambda a, at: np.take(a[0], a[1], axis=at.integer("axis", 0)),
    "Identity": lambda a, _: a[0],
    "Mul": lambda a, _: a[0] * a[1],
    "Reshape": lambda a, _: a[0].reshape([int(v) for v in a[1]]),
    "Shape": lambda a, _: np.array(a[0].shape),
    "Slice": _slice,
    "Squeeze": lambda a, at: np.squeeze(a[0], _axes(a, at) or None),
    "Sub": lambda a, _: a[0] - a[1],
    "Transpose": lambda a, at: np.transpose(a[0], at.ints("perm")),
    "Unsqueeze": lambda a, at: np.expand_dims(a[0], _axes(a, at)),
}


# -- the whole file ---------------------------------------------------------------------------------------------------


def read_onnx(path: Path | str, threshold: float = DEFAULT_THRESHOLD) -> Network:
    """Read an ONNX file; `threshold` is every exit's when the file's metadata has no exit table.

    Exits stand in the table's order, or without one in the order of the MACs they need.
    """
    path = Path(path)
    if not 0 <= threshold <= 1:
        raise ModelFileError(f"the threshold must be a confidence of 0..1, not {threshold}")
    walk = _Walk(OnnxFile(path))
    for node in walk.file.order:
        _visit(walk, node)
    table = _exit_table(walk)
    exits = _exits(walk, table, threshold)
    metadata = walk.file.metadata
    name = metadata.get(PREFIX + "name") or walk.file.model.graph.name or path.stem
    ranges = _json_object(walk, "calibration", {})
    for tensor, value in ranges.items():
        if not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ModelFileError(
                f"the calibration of tensor '{tensor}' in {path} must be a number of at least 0, not {str(value)[:80]}"
            )
    provenance = {key: str(value) for key, value in _json_object(walk, "provenance", {}).items()}
    rank = {output: index for index, output in enumerate(table)}
    ordered = all(plane.name in rank for _, plane in exits)  # the exit table's order is the designer's own
    if ordered:
        exits.sort(key=lambda one: rank[one[1].name])
    return build_network(name, walk.source, walk.drafts, exits, ranges, provenance, ordered=ordered)


def _visit(walk: _Walk, node: onnx.NodeProto) -> None:
    """Fold one node; whatever goes wrong inside is the file's fault and says so."""
    if not node.output or not node.output[0]:
        raise refuse(node, "must have an output")
    try:
        if node.domain in ("", "ai.onnx"):
            constant = _folded(walk, node)
            if constant is not None:
                walk.keep(node.output[0], constant)
                return
        operator = _OPERATORS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if operator is None:
            _missing_inputs(walk, node)
            full = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
            hint = _SUGGESTIONS.get(
                node.op_type, "replace it, or cut the graph before it; the supported ones are " + ", ".join(OPERATORS)
            )
            raise UnsupportedOperatorError(label(node), full, "is not supported", hint)
        operator(walk, node)
    except NetworkError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, ZeroDivisionError) as error:
        raise refuse(node, f"must be well formed, and folding it failed with: {str(error)[:120]}") from error


def _missing_inputs(walk: _Walk, node: onnx.NodeProto) -> None:
    for name in filter(None, node.input):
        if name not in walk.values and not walk.known(name):
            raise refuse(node, f"reads '{name}', which is nowhere in the file")


def _exits(walk: _Walk, table: Mapping[str, dict[str, Any]], threshold: float) -> list[tuple[Exit, Plane]]:
    """Every graph output as an exit, with its row of the exit table where there is one."""
    outputs = [one.name for one in walk.file.model.graph.output]
    if not 1 <= len(outputs) <= MOST_EXITS:
        raise ModelFileError(
            f"{walk.file.path} must have 1 to {MOST_EXITS} outputs, each an exit, and it has {len(outputs)}"
        )
    found: list[tuple[Exit, Plane]] = []
    for output in outputs:
        value = walk.values.get(output)
        if value is None or not value.plane.writers:
            raise ModelFileError(
                f"output '{output}' of {walk.file.path} must be computed from the input, and it is not: no exit there"
            )
        if not value.pixel or any(value.pad):
            raise ModelFileError(
                f"output '{output}' must be one vector of logits per image to be an exit, and its shape is {value.shape}"
            )
        if any(plane is value.plane for _, plane in found):
            continue  # logits and their Softmax, both given out: one exit
        if not value.softmaxed and value.plane.name != output:
            value.plane.aliases.append(value.plane.name)
            value.plane.name = output
        row = table.get(output, {"name": output, "threshold": threshold, "rate": None, "accuracy": None})
        exit = Exit(
            name=row["name"],
            logits=value.plane.name,
            threshold=row["threshold"],
            rate=row["rate"],
            accuracy=row["accuracy"],
        )
        found.append((exit, value.plane))
    classes = sorted({plane.shape[2] for _, plane in found})
    if len(classes) > 1:
        raise ModelFileError(f"all exits must tell the same classes apart, and their numbers of logits are {classes}")
    if len({exit.name for exit, _ in found}) < len(found):
        raise ModelFileError(
            f"the exits of {walk.file.path} must have different names, and they are {[exit.name for exit, _ in found]}"
        )
    return found


def _exit_table(walk: _Walk) -> dict[str, dict[str, Any]]:
    """Rows of the metadata's exit table by output name, checked."""
    rows = _json_value(walk, "exits", [])
    good = isinstance(rows, list) and all(isinstance(row, dict) and isinstance(row.get("output"), str) for row in rows)
    if not good:
        raise ModelFileError(
            f"the exit table in {walk.file.path} must be a list of objects that name their output, and it is not"
        )
    table = {}
    for row in rows:
        entry = {"name": row.get("name", row["output"])} | {
            key: row.get(key) for key in ("threshold", "rate", "accuracy")
        }
        shares = [entry["threshold"], *(one for one in (entry["rate"], entry["accuracy"]) if one is not None)]
        if not isinstance(entry["name"], str) or not all(
            isinstance(one, int | float) and 0 <= one <= 1 for one in shares
        ):
            raise ModelFileError(
                f"the exit table's row of '{row['output']}' must have a name and shares of 0..1, not {str(row)[:120]}"
            )
        table[row["output"]] = entry
    return table


def _json_value(walk: _Walk, key: str, default: Any) -> Any:
    text = walk.file.metadata.get(PREFIX + key)
    if text is None:
        return default
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ModelFileError(f"the metadata {PREFIX}{key} of {walk.file.path} must be JSON, and it is not") from None


def _json_object(walk: _Walk, key: str, default: dict[str, Any]) -> dict[str, Any]:
    found = _json_value(walk, key, default)
    if not isinstance(found, dict):
        raise ModelFileError(f"the metadata {PREFIX}{key} of {walk.file.path} must be an object, and it is not")
    return found


def read_model(path: Path | str, threshold: float = DEFAULT_THRESHOLD) -> Network | Workload:
    """An ONNX file as a Network, a JSON layer table as a Workload: by suffix, else by the first byte."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".json" or (suffix != ".onnx" and _looks_like_json(path)):
        return read_layer_table(path)
    return read_onnx(path, threshold)


def _looks_like_json(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(64).lstrip()[:1] in (b"{", b"[")
    except OSError:
        return False
