"""Random graphs of every operator the reader claims: what it reads equals onnxruntime, nothing of what they
ask for is refused.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fluidnpu.models import golden, quantise, read_onnx
from fluidnpu.models.errors import UnsupportedOperatorError
from fluidnpu.models.numeric import run_float
from fluidnpu.models.numeric.float_reference import run_float_outputs

onnxruntime = pytest.importorskip("onnxruntime")

Shape = tuple[int, int, int]  # channels, height, width


class RandomGraph:
    """A graph drawn step by step from maps made so far; each step appends nodes and returns a map's name."""

    def __init__(self, seed: int, steps: int = 7, among: Any = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.image: Shape = (self.pick(1, 2, 3, 4), self.pick(5, 6, 8), self.pick(5, 7))
        self.batch = self.pick(0, 0, 3)
        self.maps: dict[str, Shape] = {"image": self.image}
        for _ in range(steps):
            step: Any = self.pick(*(STEPS if among is None else among))
            made = step(self, self.source())
            if made is not None and self.pick(0, 1):
                self.activation(made)
        self.outputs = [self.head(list(self.maps)[-1])]
        if self.pick(0, 0, 1):
            self.outputs.insert(0, self.head(self.source()))
        if self.pick(0, 0, 1):
            self.outputs.append(self.given_out(self.source()))

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def source(self) -> str:
        """Mostly the newest map."""
        names = list(self.maps)
        return names[-1] if self.pick(0, 1, 1) else str(self.pick(*names))

    def op(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        """An initialiser, or a Constant node, or one behind an Identity."""
        tensor = numpy_helper.from_array(np.asarray(value, dtype), f"c{len(self.constants)}")
        kind = self.pick("initialiser", "initialiser", "node", "identity")
        if kind == "node":
            return self.op("Constant", value=tensor)
        self.constants.append(tensor)
        return self.op("Identity", tensor.name) if kind == "identity" else tensor.name

    def normal(self, *shape: int) -> str:
        return self.const(self.rng.normal(0, 1 / math.sqrt(max(1, math.prod(shape[1:]))), shape))

    def put(self, name: str, shape: Shape) -> str:
        self.maps[name] = shape
        return name

    def head(self, source: str) -> str:
        """Logits of three classes, by one of the ways exporters write them."""
        channels, height, width = self.maps[source]
        kind = self.pick("gap", "mean", "whole", "conv", "pooled")
        if kind == "whole":
            features = channels * height * width
            flat = self.op("Flatten", source, axis=self.pick(1, -3))
        elif kind == "conv":
            end = self.op("Conv", source, self.normal(3, channels, height, width))
            return self.op("Reshape", end, self.const([0, 3], np.int64))
        else:
            features = channels
            if kind == "mean":
                flat = self.op("ReduceMean", source, axes=self.pick([2, 3], [-1, -2]), keepdims=0)
            else:
                pool = (
                    self.op("GlobalAveragePool", source)
                    if kind == "gap"
                    else self.op("AveragePool", source, kernel_shape=[height, width])
                )
                flat = self.op("Reshape", pool, self.const(self.pick([0, -1], [-1, channels]), np.int64))
        if self.pick(0, 1):
            return self.op("Gemm", flat, self.normal(3, features), self.normal(3), transB=1)
        return self.op("Add", self.op("MatMul", flat, self.normal(features, 3)), self.normal(3))

    def given_out(self, source: str) -> str:
        """A map that leaves the network, in one of the arrangements of detection and segmentation heads."""
        channels, height, width = self.maps[source]
        made = self.op("Conv", source, self.normal(6, channels, 1, 1), self.normal(6))
        kind = self.pick("map", "sigmoid", "softmax", "anchors", "list", "flat")
        if kind == "sigmoid":
            return self.op("Sigmoid", made)
        if kind == "softmax":
            return self.op(self.pick("Softmax", "LogSoftmax"), made, axis=self.pick(1, -3))
        if kind == "anchors":
            split = self.op("Reshape", made, self.const([0, 2, 3, height, width], np.int64))
            return self.op("Sigmoid", self.op("Transpose", split, perm=[0, 1, 3, 4, 2]))
        if kind == "list":
            moved = self.op("Transpose", made, perm=[0, 2, 3, 1])
            return self.op("Reshape", moved, self.const([0, -1, 3], np.int64))
        return self.op("Flatten", made) if kind == "flat" else made

    def activation(self, source: str) -> str:
        shape = self.maps[source]
        kind = self.pick("Relu", "Relu", "Relu6", "low", "high", "leaky", "prelu", "hard")
        if kind == "Relu":
            return self.put(self.op("Relu", source), shape)
        if kind == "leaky":
            return self.put(self.op("LeakyRelu", source, alpha=self.pick(0.1, 0.25)), shape)
        if kind == "prelu":
            slope = self.const(self.rng.uniform(-0.5, self.pick(1.0, 1.5), (shape[0], 1, 1)))
            return self.put(self.op("PRelu", source, slope), shape)
        if kind == "hard":
            return self.put(self.op("HardSigmoid", source, alpha=0.2, beta=0.4), shape)
        low = "" if kind == "high" else self.const(np.float32(self.pick(0, -0.2)))
        high = [] if kind == "low" else [self.const(np.float32(self.pick(0.5, 6)))]
        return self.put(self.op("Clip", source, low, *high), shape)

    def table(self, source: str) -> str:
        """A function that needs a table, as an operator or in parts."""
        kind = self.pick("silu", "swish", "gelu", "mish", "Sigmoid", "Tanh", "Elu", "Softplus", "HardSwish")
        if kind == "silu":
            made = self.op("Mul", source, self.op("Sigmoid", source))
        elif kind == "swish":
            clipped = self.op("Clip", self.op("Add", source, self.const(3.0)), self.const(0.0), self.const(6.0))
            made = self.op("Mul", source, self.op("Div", clipped, self.const(6.0)))
        elif kind == "gelu":
            half = self.op("Add", self.op("Erf", self.op("Div", source, self.const(2**0.5))), self.const(1.0))
            made = self.op("Mul", self.op("Mul", source, half), self.const(0.5))
        elif kind == "mish":
            made = self.op("Mul", source, self.op("Tanh", self.op("Softplus", source)))
        else:
            made = self.op(kind, source)
        return self.put(made, self.maps[source])

    def gate(self, source: str) -> str:
        """A map times a pixel or a channel made of it; or added to it."""
        channels = self.maps[source][0]
        kind = self.pick("squeeze", "spatial")
        pooled = self.op("GlobalAveragePool", source) if kind == "squeeze" else self.op("ReduceMean", source, axes=[1])
        count = channels if kind == "squeeze" else 1
        inner = self.op("Conv", pooled, self.normal(count, count, 1, 1), self.normal(count))
        factor = self.op(self.pick("Sigmoid", "HardSigmoid", "Relu", "Identity"), inner)
        operands = (source, factor) if self.pick(0, 1) else (factor, source)
        return self.put(self.op(self.pick("Mul", "Mul", "Add"), *operands), self.maps[source])

    def product(self, source: str) -> str:
        """Two maps of one shape multiplied, also one with itself; then bounded, as powers are not."""
        same = [name for name, shape in self.maps.items() if shape == self.maps[source]]
        made = self.op("Mul", source, str(self.pick(*same)))
        return self.put(self.op("Clip", made, self.const(-4.0), self.const(4.0)), self.maps[source])

    def window(self, size: tuple[int, int]) -> tuple[dict[str, Any], tuple[int, int]]:
        """Kernel, stride, dilation and padding that fit, and the output size."""
        kernel = [min(n, self.pick(1, 2, 3)) for n in size]
        dilation = [self.pick(1, 2) if (k - 1) * 2 < n else 1 for k, n in zip(kernel, size, strict=True)]
        stride = [self.pick(1, 1, 2), self.pick(1, 1, 2)]
        extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        pads = [self.pick(0, 0, 1) if k > 1 else 0 for k in kernel * 2]
        out = [(n + pads[i] + pads[i + 2] - extent[i]) // stride[i] + 1 for i, n in enumerate(size)]
        fields = {"kernel_shape": kernel, "strides": stride, "dilations": dilation, "pads": pads}
        return fields, (out[0], out[1])

    def conv(self, source: str) -> str:
        channels, *size = self.maps[source]
        groups = self.pick(*(g for g in (1, 1, 2, channels) if channels % g == 0))
        out = groups * self.pick(1, 2, 3)
        window, area = self.window((size[0], size[1]))
        weights = self.normal(out, channels // groups, *window["kernel_shape"])
        bias = [self.normal(out)] if self.pick(0, 1) else []
        return self.put(self.op("Conv", source, weights, *bias, group=groups, **window), (out, *area))

    def batch_norm(self, source: str) -> str:
        channels = self.maps[source][0]
        rest = [self.normal(channels), self.normal(channels), self.const(self.rng.uniform(0.3, 2, channels))]
        scale = self.const(self.rng.normal(0, 1, channels))
        return self.put(self.op("BatchNormalization", source, scale, *rest), self.maps[source])

    def affine(self, source: str) -> str:
        """Mul, Add, Sub or Div by a constant, in one of the shapes that broadcast over channels; either
        operand may come first.
        """
        channels = self.maps[source][0]
        shape = self.pick((), (1,), (channels, 1, 1), (1, channels, 1, 1))
        constant = self.const(self.rng.uniform(0.4, 1.5, shape) * self.pick(1, -1))
        operator = self.pick("Mul", "Add", "Sub", "Div", "Sum")
        first = operator not in ("Div",) and self.pick(0, 1)
        made = self.op(operator, *((constant, source) if first else (source, constant)))
        return self.put(made, self.maps[source])

    def sum(self, source: str) -> str:
        """Maps of one shape added: two, or three with Sum, also with themselves."""
        same = [name for name, shape in self.maps.items() if shape == self.maps[source]]
        others = [str(self.pick(*same)) for _ in range(self.pick(1, 1, 2))]
        operator = "Sum" if len(others) > 1 else self.pick("Add", "Sum")
        return self.put(self.op(operator, source, *others), self.maps[source])

    def concat(self, source: str) -> str:
        size = self.maps[source][1:]
        same = [name for name, shape in self.maps.items() if shape[1:] == size]
        parts = [source, *(str(self.pick(*same)) for _ in range(self.pick(1, 1, 2)))]
        made = self.op("Concat", *parts, axis=self.pick(1, -3))
        return self.put(made, (sum(self.maps[one][0] for one in parts), *size))

    def pool(self, source: str) -> str:
        channels, *size = self.maps[source]
        window, area = self.window((size[0], size[1]))
        if self.pick(0, 1):
            window["dilations"] = [1, 1]
            rows, columns = window["kernel_shape"]
            area = tuple(
                (n + window["pads"][i] + window["pads"][i + 2] - k) // window["strides"][i] + 1
                for i, (n, k) in enumerate(zip(size, (rows, columns), strict=True))
            )
            del window["dilations"]
            return self.put(self.op("AveragePool", source, count_include_pad=1, **window), (channels, *area))
        made = self.op("MaxPool", self.op("Relu", source) if any(window["pads"]) else source, **window)
        return self.put(made, (channels, *area))

    def pad(self, source: str) -> str:
        """A border of zeros, and the convolution that takes it over."""
        channels, height, width = self.maps[source]
        top, left, bottom, right = (self.pick(0, 1, 2) for _ in range(4))
        made = self.op("Pad", source, self.const([0, 0, top, left, 0, 0, bottom, right], np.int64))
        made = self.op("Identity", made) if self.pick(0, 0, 1) else made
        size = (height + top + bottom, width + left + right)
        kernel = (min(2, size[0]), min(2, size[1]))
        made = self.op("Conv", made, self.normal(2, channels, *kernel))
        return self.put(made, (2, size[0] - kernel[0] + 1, size[1] - kernel[1] + 1))

    def shuffle(self, source: str) -> str:
        """A channel shuffle, by five dimensions or by four."""
        channels, height, width = self.maps[source]
        groups = self.pick(*(g for g in (1, 2, 3, channels) if channels % g == 0))
        rest = self.pick([height, width], [height * width])
        split = self.op("Reshape", source, self.const([0, groups, channels // groups, *rest], np.int64))
        moved = self.op("Transpose", split, perm=[0, 2, 1, *range(3, 3 + len(rest))])
        made = self.op("Reshape", moved, self.const([0, -1, height, width], np.int64))
        return self.put(made, (channels, height, width))

    def split(self, source: str) -> str:
        """Two or three parts of the channels, joined again in another order, or one of them alone."""
        channels, *size = self.maps[source]
        if channels < 2:
            return self.nothing(source)
        first = self.pick(*range(1, channels))
        names = [f"n{len(self.nodes)}_{i}" for i in range(2)]
        sizes = self.const([first, channels - first], np.int64)
        self.nodes.append(helper.make_node("Split", [source, sizes], names, name=names[0], axis=self.pick(1, -3)))
        for name, count in zip(names, (first, channels - first), strict=True):
            self.put(name, (count, size[0], size[1]))
        if self.pick(0, 1):
            return str(self.pick(*names))
        return self.put(self.op("Concat", names[1], names[0], axis=1), (channels, size[0], size[1]))

    def channels(self, source: str) -> str:
        """Some channels by a Slice with any step, or by a Gather."""
        channels, *size = self.maps[source]
        if self.pick(0, 1):
            chosen = self.rng.integers(0, channels, self.pick(1, 2, 4))
            made = self.op("Gather", source, self.const(chosen, np.int64), axis=1)
            return self.put(made, (len(chosen), size[0], size[1]))
        start, end, step = self.pick((0, 9999, 2), (-1, -9999, -1), (1 % channels, 9999, 1), (0, channels - 1 or 1, 1))
        count = len(range(channels)[start:end:step])
        facts = [self.const([one], np.int64) for one in (start, end, 1, step)]
        return self.put(self.op("Slice", source, *facts), (count, size[0], size[1]))

    def crop(self, source: str) -> str:
        """Rows and columns cut off, every second one taken, or zeros put on one side and rows cut on the
        other.
        """
        channels, height, width = self.maps[source]
        if height < 4 or width < 4:
            return self.nothing(source)
        kind = self.pick("slice", "step", "pad")
        if kind == "pad":
            made = self.op("Pad", source, self.const([0, 0, -1, 1, 0, 0, 2, -2], np.int64))
            return self.put(made, (channels, height + 1, width - 1))
        start, step = self.pick(0, 1), 2 if kind == "step" else 1
        facts = [self.const(one, np.int64) for one in ([start, 1], [9999, -1], [2, 3], [step, 1])]
        return self.put(self.op("Slice", source, *facts), (channels, len(range(start, height, step)), width - 2))

    def wider(self, source: str) -> str:
        """Channels of zeros before or behind."""
        channels, height, width = self.maps[source]
        before, behind = self.pick((0, 2), (1, 0), (1, 3))
        made = self.op("Pad", source, self.const([0, before, 0, 0, 0, behind, 0, 0], np.int64))
        return self.put(made, (before + channels + behind, height, width))

    def average(self, source: str) -> str:
        """An average pool whose padding does not count, or does, with rounding up or without."""
        channels, *size = self.maps[source]
        kernel = [min(n, self.pick(2, 3, 3)) for n in size]
        fields: dict[str, Any] = {"kernel_shape": kernel, "strides": [self.pick(1, 2), self.pick(1, 2)]}
        fields["pads"] = [self.pick(0, 1) if k > 1 else 0 for k in kernel * 2]
        fields |= {"ceil_mode": self.pick(0, 0, 1), "count_include_pad": self.pick(0, 0, 1)}
        area = []
        for axis in (0, 1):
            begin, end = fields["pads"][axis], fields["pads"][axis + 2]
            free, stride = size[axis] + begin + end - kernel[axis], fields["strides"][axis]
            if -(-free // stride) * stride >= size[axis] + begin:
                fields["ceil_mode"] = 0  # onnxruntime infers a window beyond the input, and leaves it out when run
            area.append((free, stride))
        rows, columns = ((-(-free // s) if fields["ceil_mode"] else free // s) + 1 for free, s in area)
        return self.put(self.op("AveragePool", source, **fields), (channels, rows, columns))

    def by_pixel(self, source: str) -> str:
        """A dense layer over the channels of each pixel, between two transposes."""
        channels, *size = self.maps[source]
        last = self.op("Transpose", source, perm=[0, 2, 3, 1])
        made = self.op("Add", self.op("MatMul", last, self.normal(channels, 3)), self.normal(3))
        return self.put(self.op("Transpose", made, perm=[0, 3, 1, 2]), (3, size[0], size[1]))

    def stack(self, source: str) -> str:
        """Maps joined by height or by width."""
        channels, height, width = self.maps[source]
        axis = self.pick(2, 3)
        made = self.op("Concat", source, source, axis=axis)
        return self.put(made, (channels, height * (1 + (axis == 2)), width * (1 + (axis == 3))))

    def signed_pool(self, source: str) -> str:
        """A padded max pool of what may be negative, perhaps as large as those of a spatial pyramid."""
        channels, height, width = self.maps[source]
        kernel = self.pick(2, 3, 5)
        pads = [self.pick(0, kernel // 2) for _ in range(2)]
        made = self.op(
            "MaxPool", source, kernel_shape=[kernel] * 2, pads=[*pads, kernel - 1 - pads[0], kernel - 1 - pads[1]]
        )
        return self.put(made, (channels, height, width))

    def resize(self, source: str) -> str:
        """Another size, of anything the corners of which are aligned or not."""
        channels, height, width = self.maps[source]
        mode = self.pick("linear", "nearest")  # of whole factors: else onnxruntime's floor is that of a float32
        size = (height * self.pick(1, 2, 3), width * self.pick(1, 2, 3))
        size = (self.pick(size[0], 3), self.pick(size[1], 4)) if mode == "linear" else size
        if math.prod(size) > 400:
            return self.nothing(source)
        facts = {"mode": mode, "nearest_mode": "floor"}
        facts["coordinate_transformation_mode"] = self.pick("half_pixel", "align_corners", "asymmetric")
        sizes = self.const([3, channels, *size], np.int64)
        return self.put(self.op("Resize", source, "", "", sizes, **facts), (channels, *size))

    def pooled(self, source: str) -> str:
        """A map beside the mean of another, which is repeated over it."""
        channels, height, width = self.maps[source]
        mean = self.op("GlobalAveragePool", source)
        if self.pick(0, 1):
            wide = self.op("Expand", mean, self.const([1, 1, height, width], np.int64))
        else:
            wide = self.op("Resize", mean, "", "", self.const([3, channels, height, width], np.int64), mode="linear")
        return self.put(self.op("Concat", source, wide, axis=1), (2 * channels, height, width))

    def pair(self, source: str) -> str:
        """The difference, the larger or the smaller of two maps of one shape."""
        shape = self.maps[source]
        kind = self.pick("Sub", "Max", "Min")
        if kind == "Sub":
            other = str(self.pick(*(name for name, size in self.maps.items() if size == shape)))
        else:  # of values that are nearly alike the larger has no resolution
            other = self.op("Conv", source, self.normal(shape[0], shape[0], 1, 1), self.normal(shape[0]))
        return self.put(self.op(kind, *self.pick((source, other), (other, source))), shape)

    def tile(self, source: str) -> str:
        channels, height, width = self.maps[source]
        times = self.pick((2, 1, 1), (1, 2, 1), (1, 1, 2))
        if channels * height * width > 2000:
            return self.nothing(source)
        made = self.op("Tile", source, self.const([1, *times], np.int64))
        return self.put(made, (channels * times[0], height * times[1], width * times[2]))

    def row(self, source: str) -> str:
        """One row or column, with its axis."""
        channels, height, width = self.maps[source]
        axis = self.pick(2, 3)
        made = self.op("Gather", source, self.const([self.pick(0, -1)], np.int64), axis=axis)
        return self.put(made, (channels, 1 if axis == 2 else height, 1 if axis == 3 else width))

    def nothing(self, source: str) -> str:
        return self.put(self.op(self.pick("Identity", "Dropout"), source), self.maps[source])

    def shuffle_free_reshape(self, source: str) -> str:
        """A Reshape to the shape the map has."""
        shape = self.maps[source]
        target = self.pick([0, *shape], [0, -1, *shape[1:]], [-1, *shape], [0, 0, 0, -1])
        return self.put(self.op("Reshape", source, self.const(target, np.int64)), shape)

    def model(self) -> onnx.ModelProto:
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [self.batch or "N", *self.image])
        ends = [helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in self.outputs]
        graph = helper.make_graph(self.nodes, "random", [image], ends, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


R = RandomGraph
STEPS = (
    R.conv,
    R.conv,
    R.conv,
    R.batch_norm,
    R.affine,
    R.sum,
    R.concat,
    R.pool,
    R.pad,
    R.nothing,
    R.shuffle_free_reshape,
)
MOVES = (
    R.shuffle,
    R.shuffle,
    R.split,
    R.channels,
    R.crop,
    R.wider,
    R.average,
    R.by_pixel,
    R.stack,
)
UNIT = (R.table, R.table, R.table, R.gate, R.gate, R.product, R.product)
PAIRS = (R.signed_pool, R.signed_pool, R.resize, R.resize, R.pooled, R.pair, R.pair, R.tile, R.row)


def compare(path: Path, graph: RandomGraph) -> None:
    """Float and int16 logits against onnxruntime's."""
    onnx.save(graph.model(), path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    images = np.random.default_rng(1).random((3, *graph.image), np.float32)
    expected = dict(zip(graph.outputs, session.run(graph.outputs, {"image": images}), strict=True))
    logits = [one for one in graph.outputs if expected[one].shape == (3, 3)]
    network = read_onnx(path, exits=logits)
    nhwc = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    qnet = quantise(network, nhwc)
    stored = golden.run(qnet, nhwc)
    floats_out, stored_out = run_float_outputs(network, nhwc), golden.run_outputs(qnet, nhwc)
    for name, floats in floats_out.items():
        wanted = expected[name]
        assert floats.shape == wanted.shape
        largest = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(floats, wanted, rtol=1e-3, atol=1e-4 * largest)
        np.testing.assert_allclose(qnet.output(name, stored_out[name]), wanted, rtol=0, atol=8e-3 * largest)
    for index, (exit, floats) in enumerate(zip(network.exits, run_float(network, nhwc), strict=True)):
        wanted = expected[exit.classes].reshape(3, -1)
        np.testing.assert_allclose(floats, wanted, rtol=1e-3, atol=1e-4 * max(1.0, np.abs(wanted).max()))
        np.testing.assert_allclose(
            qnet.logits(index, stored[index]), wanted, rtol=0, atol=8e-3 * max(1.0, np.abs(wanted).max())
        )


def read_or_refuse(seed: int, path: Path, among: Any = None) -> str | None:
    """None where the graph was read and agrees; else the refusal."""
    try:
        compare(path, RandomGraph(seed, among=among))
    except UnsupportedOperatorError as error:
        return str(error)
    return None


def test_random_graphs_equal_onnxruntime(tmp_path: Path) -> None:
    refusals = [read_or_refuse(seed, tmp_path / "random.onnx") for seed in range(150)]
    assert not any(refusals), refusals


def test_random_graphs_of_moves_equal_onnxruntime(tmp_path: Path) -> None:
    refusals = [read_or_refuse(seed, tmp_path / "random.onnx", (*STEPS, *MOVES, *MOVES)) for seed in range(150)]
    assert not any(refusals), refusals


def test_random_graphs_of_pairs_and_resizes_equal_onnxruntime(tmp_path: Path) -> None:
    refusals = [read_or_refuse(seed, tmp_path / "random.onnx", (*STEPS, *PAIRS, *PAIRS)) for seed in range(60)]
    assert not any(refusals), refusals


def test_random_graphs_with_tables_and_products_equal_onnxruntime(tmp_path: Path) -> None:
    refusals = [read_or_refuse(seed, tmp_path / "random.onnx", (*STEPS, *UNIT, *UNIT)) for seed in range(25)]
    assert not any(refusals), refusals


def test_a_difference_that_cancels_to_rounding_is_quantised(tmp_path: Path) -> None:
    drawn: list[tuple[Any, int]] = [((*STEPS, *MOVES, *PAIRS, *PAIRS), 2715), ((*STEPS, *MOVES, *PAIRS, *PAIRS), 3112)]
    drawn += [((*STEPS, *MOVES, *PAIRS, *UNIT, *UNIT), 2688)]
    refusals = [read_or_refuse(seed, tmp_path / "random.onnx", steps) for steps, seed in drawn]
    assert not any(refusals), refusals


@pytest.mark.long
@pytest.mark.parametrize(
    "steps",
    [STEPS, (*STEPS, *MOVES, *MOVES), (*STEPS, *MOVES, *PAIRS, *PAIRS), (*STEPS, *MOVES, *PAIRS, *UNIT, *UNIT)],
)
def test_more_random_graphs_equal_onnxruntime(tmp_path: Path, steps: Any) -> None:
    refusals = [read_or_refuse(seed, tmp_path / "random.onnx", steps) for seed in range(1000, 3800)]
    assert not any(refusals), refusals
