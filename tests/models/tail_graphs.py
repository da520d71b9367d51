"""Small networks that the host ends, as exporters write them: detectors, a segmenter, text, top classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper


class TailGraph:
    """An ONNX graph of one image, written node by node."""

    def __init__(self, shape: tuple[int, ...] = (3, 32, 32), seed: int = 0) -> None:
        self.shape, self.rng = shape, np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def op(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"n{len(self.nodes)}" + (f"_{index}" if index else "") for index in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, name=names[0], **attributes))
        return names[0] if outputs == 1 else tuple(names)

    def const(self, values: npt.ArrayLike, dtype: npt.DTypeLike = np.int64) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def random(self, *shape: int, scale: float = 0.3) -> str:
        return self.const(self.rng.standard_normal(shape) * scale, np.float32)

    def conv(self, x: str, out: int, given: int, kernel: int = 3, stride: int = 1, *, relu: bool = True) -> str:
        pads = [kernel // 2] * 4
        weights = self.random(out, given, kernel, kernel, scale=1 / (kernel * given**0.5))
        made = str(self.op("Conv", x, weights, self.random(out), strides=[stride] * 2, pads=pads))
        return str(self.op("Relu", made)) if relu else made

    def reshape(self, x: str, *sizes: int) -> str:
        return str(self.op("Reshape", x, self.const(sizes)))

    def model(self, *outputs: tuple[str, int, list[Any]], opset: int = 13) -> onnx.ModelProto:
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", *self.shape])
        ends = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs]
        graph = helper.make_graph(self.nodes, "tailed", [image], ends, self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.checker.check_model(made)
        return made


def peaks() -> onnx.ModelProto:
    """A detector of centres: a value of the heat map that is the largest around it, and the ten best."""
    g = TailGraph()
    features = g.conv(g.conv("image", 8, 3, stride=2), 12, 8, stride=2)
    heat = g.op("Sigmoid", g.conv(features, 4, 12, 1, relu=False))
    sizes = g.conv(features, 2, 12, 1)
    best = g.op("Equal", heat, g.op("MaxPool", heat, kernel_shape=[3, 3], pads=[1] * 4))
    peak = g.reshape(g.op("Mul", heat, g.op("Cast", best, to=1)), 0, 256)
    score, place = g.op("TopK", peak, g.const([10]), outputs=2)
    label, cell = (g.op(operator, place, g.const(64)) for operator in ("Div", "Mod"))
    both = [g.op("Cast", g.op(operator, cell, g.const(8)), to=1) for operator in ("Mod", "Div")]
    centre = g.op("Concat", *(g.op("Unsqueeze", one, g.const([1])) for one in both), axis=1)
    there = g.op("Expand", g.op("Unsqueeze", cell, g.const([1])), g.const([1, 2, 10]))
    half = g.op("Mul", g.op("GatherElements", g.reshape(sizes, 0, 2, 64), there, axis=2), g.const(0.5, np.float32))
    corners = g.op("Concat", g.op("Sub", centre, half), g.op("Add", centre, half), axis=1)
    boxes = g.op("Transpose", g.op("Mul", corners, g.const(4.0, np.float32)), perm=[0, 2, 1])
    whole, number = TensorProto.INT64, TensorProto.FLOAT
    return g.model((boxes, number, ["batch", 10, 4]), (score, number, ["batch", 10]), (label, whole, ["batch", 10]))


def distances() -> onnx.ModelProto:
    """A detector whose boxes are distances in shares over steps, as in YOLOv8: Softmax and a weighted sum."""
    g = TailGraph()
    fine = g.conv(g.conv("image", 8, 3, stride=2), 12, 8, stride=2)
    heads = [g.conv(one, 35, 12, 1, relu=False) for one in (fine, g.conv(fine, 12, 12, stride=2))]
    lines = [g.reshape(one, 0, 35, -1) for one in heads]
    boxes, classes = g.op("Split", g.op("Concat", *lines, axis=2), g.const([32, 3]), axis=1, outputs=2)
    shares = g.op("Softmax", g.op("Transpose", g.reshape(boxes, 0, 4, 8, 80), perm=[0, 2, 1, 3]), axis=1)
    steps = g.op("Conv", shares, g.const(np.arange(8).reshape(1, 8, 1, 1), np.float32))
    first, second = g.op("Split", g.reshape(steps, 0, 4, 80), axis=1, outputs=2)
    grid = np.concatenate([np.indices((n, n)).reshape(2, -1)[::-1] + 0.5 for n in (8, 4)], 1)[None]
    anchors, strides = g.const(grid, np.float32), g.const([[4.0] * 64 + [8.0] * 16], np.float32)
    low, high = g.op("Sub", anchors, first), g.op("Add", anchors, second)
    middle = g.op("Div", g.op("Add", low, high), g.const(2.0, np.float32))
    place = g.op("Mul", g.op("Concat", middle, g.op("Sub", high, low), axis=1), strides)
    answer = g.op("Concat", place, g.op("Sigmoid", classes), axis=1)
    return g.model((answer, TensorProto.FLOAT, ["batch", 7, 80]))


def suppressed() -> onnx.ModelProto:
    """A detector with anchors and non-maximum suppression in the graph, as in SSD: so many rows as boxes."""
    g = TailGraph()
    features = g.conv(g.conv("image", 8, 3, stride=2), 12, 8, stride=2)
    ends = [
        g.reshape(g.op("Transpose", g.conv(features, n, 12, 3, relu=False), perm=[0, 2, 3, 1]), 0, -1, size)
        for n, size in ((8, 4), (6, 3))
    ]
    cells = (np.indices((8, 8)).transpose(1, 2, 0).reshape(-1, 2) + 0.5) / 8
    anchors = np.concatenate([np.repeat(cells, 2, 0), np.full((128, 2), 0.3)], 1)[None]
    boxes = g.op("Add", g.op("Mul", ends[0], g.const(0.05, np.float32)), g.const(anchors, np.float32))
    scores = g.op("Transpose", g.op("Softmax", ends[1], axis=2), perm=[0, 2, 1])
    limits = (g.const(5), g.const(0.4, np.float32), g.const(0.42, np.float32))
    kept = g.op("NonMaxSuppression", boxes, scores, *limits, center_point_box=1)
    label, place = (g.op("Gather", kept, g.const([column]), axis=1) for column in (1, 2))
    found = g.op("Gather", g.reshape(boxes, -1, 4), g.op("Squeeze", place, g.const([1])), axis=0)
    label = g.op("Squeeze", label, g.const([1]))
    return g.model((found, TensorProto.FLOAT, ["boxes", 4]), (label, TensorProto.INT64, ["boxes"]))


def segmented() -> onnx.ModelProto:
    """A segmenter that gives the class of each pixel."""
    g = TailGraph()
    values = g.conv(g.conv("image", 8, 3, stride=2), 5, 8, 1, relu=False)
    large = g.op("Resize", values, "", g.const([1, 1, 2, 2], np.float32), mode="nearest")
    labels = g.op("ArgMax", large, axis=1, keepdims=0)
    return g.model((labels, TensorProto.INT64, ["batch", 32, 32]))


def text() -> onnx.ModelProto:
    """A reader of lines: columns of features through an LSTM in both directions, and shares of characters."""
    g = TailGraph((1, 16, 32))
    features = g.conv(g.conv("image", 8, 1, stride=2), 12, 8)
    columns = g.op("Squeeze", g.op("ReduceMean", features, axes=[2], keepdims=1), g.const([2]))
    steps = g.op("Transpose", columns, perm=[2, 0, 1])
    hidden, _, _ = g.op(
        "LSTM", steps, g.random(2, 40, 12), g.random(2, 40, 10), g.random(2, 80),
        hidden_size=10, direction="bidirectional", outputs=3,
    )  # fmt: skip
    lines = g.reshape(g.op("Transpose", hidden, perm=[0, 2, 1, 3]), 0, 0, 20)
    ends = g.op("Add", g.op("MatMul", lines, g.random(20, 7)), g.random(7))
    answer = g.op("LogSoftmax", g.op("Transpose", ends, perm=[1, 0, 2]), axis=2)
    return g.model((answer, TensorProto.FLOAT, ["batch", 16, 7]))


def best_behind_exits() -> onnx.ModelProto:
    """A classifier with an early exit, whose last one gives the three best classes and their shares."""
    g = TailGraph()
    first = g.conv("image", 8, 3, stride=2)
    early = g.op("Gemm", g.op("Flatten", g.op("GlobalAveragePool", first)), g.random(8, 6, scale=2.0))
    pooled = g.op("Flatten", g.op("GlobalAveragePool", g.conv(g.conv(first, 16, 8), 16, 16, stride=2)))
    last = g.op("Gemm", pooled, g.random(16, 6, scale=2.0))
    share, label = g.op("TopK", g.op("Softmax", last, axis=1), g.const([3]), outputs=2)
    number = TensorProto.FLOAT
    ends = ((early, number, ["batch", 6]), (share, number, ["batch", 3]), (label, TensorProto.INT64, ["batch", 3]))
    return g.model(*ends, (last, number, ["batch", 6]))


def of_old_opset() -> onnx.ModelProto:
    """The operators whose attributes are inputs today, and a Softmax over all axes from one on."""
    g = TailGraph()
    maps = g.conv(g.conv("image", 8, 3, stride=4), 4, 8, 1, relu=False)
    shares = g.op("Softmax", maps, axis=1)
    bounded = g.op("Clip", g.op("Log", shares), min=-6.0, max=-4.0)
    padded = g.op("Pad", bounded, pads=[0, 0, 1, 0, 0, 0, 0, 1], value=-1.5)
    first, second = g.op("Split", padded, axis=1, split=[1, 3], outputs=2)
    some = g.op("Sub", g.op("Squeeze", first, axes=[1]), g.op("ReduceSum", second, axes=[1], keepdims=0))
    kept = g.op("Dropout", g.op("Unsqueeze", some, axes=[1]), ratio=0.5)
    cut = g.op("Slice", kept, g.const([1, 0]), g.const([8, -1]), g.const([2, 3]))
    best, place = g.op("TopK", g.reshape(cut, 0, -1), g.const([4]), outputs=2)
    kinds = (TensorProto.FLOAT, TensorProto.INT64)
    return g.model(*((name, kind, ["batch", 4]) for name, kind in zip((best, place), kinds, strict=True)), opset=10)


GRAPHS: dict[str, Callable[[], onnx.ModelProto]] = {
    "peaks": peaks,
    "distances": distances,
    "suppressed": suppressed,
    "segmented": segmented,
    "text": text,
    "best": best_behind_exits,
    "old": of_old_opset,
}
