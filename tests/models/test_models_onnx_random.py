"""Random graphs of every operator the reader claims: what it reads equals onnxruntime, nothing of what they
ask for is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fluidnpu.models import golden, quantise, read_onnx
from fluidnpu.models.errors import UnsupportedOperatorError
from fluidnpu.models.numeric import run_float

onnxruntime = pytest.importorskip("onnxruntime")

Shape = tuple[int, int, int]  # channels, height, width


class RandomGraph:
    """A graph drawn step by step from maps made so far; each step appends nodes and returns a map's name."""

    def __init__(self, seed: int, steps: int = 7) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.image: Shape = (self.pick(1, 2, 3, 4), self.pick(5, 6, 8), self.pick(5, 7))
        self.batch = self.pick(0, 0, 3)
        self.maps: dict[str, Shape] = {"image": self.image}
        for _ in range(steps):
            step: Callable[[str], str] = self.rng.choice(STEPS)  # type: ignore[arg-type]
            made = step(self, self.source())  # type: ignore[call-arg, arg-type]
            if made is not None and self.pick(0, 1):
                self.activation(made)
        self.outputs = [self.head(list(self.maps)[-1])]
        if self.pick(0, 0, 1):
            self.outputs.insert(0, self.head(self.source()))

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

    def activation(self, source: str) -> str:
        shape = self.maps[source]
        kind = self.pick("Relu", "Relu", "Relu6", "low", "high")
        if kind == "Relu":
            return self.put(self.op("Relu", source), shape)
        low = "" if kind == "high" else self.const(np.float32(self.pick(0, -0.2)))
        high = [] if kind == "low" else [self.const(np.float32(self.pick(0.5, 6)))]
        return self.put(self.op("Clip", source, low, *high), shape)

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


def compare(path: Path, graph: RandomGraph) -> None:
    """Float and int16 logits against onnxruntime's."""
    onnx.save(graph.model(), path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    images = np.random.default_rng(1).random((3, *graph.image), np.float32)
    expected = dict(zip(graph.outputs, session.run(graph.outputs, {"image": images}), strict=True))
    network = read_onnx(path)
    nhwc = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    qnet = quantise(network, nhwc)
    stored = golden.run(qnet, nhwc)
    for index, (exit, floats) in enumerate(zip(network.exits, run_float(network, nhwc), strict=True)):
        wanted = expected[exit.logits].reshape(3, -1)
        np.testing.assert_allclose(floats, wanted, rtol=1e-3, atol=1e-4 * max(1.0, np.abs(wanted).max()))
        np.testing.assert_allclose(
            qnet.logits(index, stored[index]), wanted, rtol=0, atol=8e-3 * max(1.0, np.abs(wanted).max())
        )


def read_or_refuse(seed: int, path: Path) -> str | None:
    """None where the graph was read and agrees; else the refusal."""
    try:
        compare(path, RandomGraph(seed))
    except UnsupportedOperatorError as error:
        return str(error)
    return None


def test_random_graphs_equal_onnxruntime(tmp_path: Path) -> None:
    refusals = [read_or_refuse(seed, tmp_path / "random.onnx") for seed in range(150)]
    assert not any(refusals), refusals


@pytest.mark.long
def test_more_random_graphs_equal_onnxruntime(tmp_path: Path) -> None:
    refusals = [read_or_refuse(seed, tmp_path / "random.onnx") for seed in range(1000, 2200)]
    assert not any(refusals), refusals
