"""Operators of many attributes over the product of them: equal to onnxruntime, or refused truly.

A default run draws some configurations, `long` takes all.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from test_models_onnx_operators import Graph

pytest.importorskip("onnxruntime")
from onnx_sweeps import RIGHT, Build, sweep


def source(graph: Graph, signed: bool) -> str:
    """Two channels of values that may be negative, and mostly are, or of none that is."""
    made = graph.op(
        "Conv", "image", graph.random(2, graph.shape[0], *([1] * (len(graph.shape) - 1))), graph.const([-0.3, 0.1])
    )
    return made if signed else graph.op("Relu", made)


# -- pools -------------------------------------------------------------------------------------------


class PoolAxis(NamedTuple):
    size: int
    pad: tuple[int, int]  # of a Pad before the pool
    kernel: int
    own: tuple[int, int]
    stride: int
    dilation: int


POOL_AXES = [
    axis
    for axis in (
        PoolAxis(size, pad, kernel, own, stride, dilation)
        for size, pad, kernel, own, stride, dilation in product(
            (1, 2, 4, 7),
            ((0, 0), (0, 0), (0, 1), (1, 0), (2, 1), (-1, 0), (1, -1)),
            (1, 2, 3),
            ((0, 0), (0, 1), (1, 0), (1, 1), (2, 1)),
            (1, 2, 3),
            (1, 2),
        )
    )
    if max(axis.own) < axis.kernel
    and (axis.kernel > 1 or axis.dilation == 1)
    and min(axis.size + axis.pad[0], axis.size + axis.pad[1], axis.size + sum(axis.pad)) > 0
]
POOLS = list(
    product(
        POOL_AXES,
        (("MaxPool", 0), ("AveragePool", 0), ("AveragePool", 1)),  # operator, count_include_pad
        (False, True),  # of values that may be negative
        (0, 1),  # ceil_mode
    )
)


def pool(index: int) -> tuple[Graph, str]:
    rng = np.random.default_rng(index)
    columns, (operator, counted), signed, ceil = POOLS[index]
    rows = POOL_AXES[int(rng.integers(len(POOL_AXES)))]
    axes = [rows, columns]
    graph = Graph(shape=(3, rows.size, columns.size), opset=22)
    value = source(graph, signed)
    if any(any(axis.pad) for axis in axes):
        begin, end = ([axis.pad[side] for axis in axes] for side in (0, 1))
        value = graph.op("Pad", value, graph.const([0, 0, *begin, 0, 0, *end], np.int64))
    facts: dict[str, Any] = {
        "kernel_shape": [axis.kernel for axis in axes],
        "strides": [axis.stride for axis in axes],
        "dilations": [axis.dilation for axis in axes],
        "ceil_mode": ceil,
    }
    auto = rng.choice([*["NOTSET"] * 9, "SAME_UPPER", "SAME_LOWER", "VALID"])
    if auto == "NOTSET":
        facts["pads"] = [axis.own[side] for side in (0, 1) for axis in axes]
    else:
        facts["auto_pad"] = str(auto)
    if operator == "AveragePool":
        facts["count_include_pad"] = counted
    return graph, graph.op(operator, value, **facts)


# -- resizes -----------------------------------------------------------------------------------------

RESIZED = [*((True, outputs) for outputs in (1, 2, 3, 4, 7, 8)), *((False, s) for s in (0.5, 1, 1.5, 2, 3, 4))]
RESIZES = [
    values
    for values in product(
        (1, 2, 3, 4, 5),
        RESIZED,  # by a size or by a scale
        ("linear", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric"),
    )
    if not (values[2] in ("floor", "ceil") and values[3] == "half_pixel_symmetric")
]  # onnxruntime has such a coordinate in float32, and where it is a whole number may land beside it


def resize(index: int) -> tuple[Graph, str]:
    rng = np.random.default_rng(index)
    width, (by_size, across), mode, coordinates = RESIZES[index]
    height = int(rng.integers(1, 6))
    same = [target for kind, target in RESIZED if kind == by_size]
    down = same[int(rng.integers(len(same)))]
    graph = Graph(shape=(3, height, width), opset=19)
    value = source(graph, signed=bool(rng.integers(2)))
    if rng.random() < 0.2:
        value = graph.op("Add", graph.op("Mul", value, graph.const([[[1.5]], [[-0.7]]])), graph.const(0.3))
    facts: dict[str, Any] = {
        "coordinate_transformation_mode": coordinates,
        "mode": "linear" if mode == "linear" else "nearest",
    }
    facts |= {} if mode == "linear" else {"nearest_mode": mode}
    if by_size:
        return graph, graph.op("Resize", value, "", "", graph.const([2, 2, down, across], np.int64), **facts)
    return graph, graph.op("Resize", value, "", graph.const([1, 1, down, across]), **facts)


# -- transposed convolutions -------------------------------------------------------------------------

TRANSPOSED = list(
    product(
        (1, 2, 4),  # width
        (1, 2, 3, 4),  # kernel
        (1, 2, 3),  # stride
        (1, 2),  # dilation
        ((0, 0), (0, 1), (1, 0), (1, 2)),  # padding
        (0, 1),  # output_padding
        ("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    )
)


def conv_transpose(index: int) -> tuple[Graph, str]:
    rng = np.random.default_rng(index)
    width, kernel, stride, dilation, padding, more, auto = TRANSPOSED[index]
    across = TRANSPOSED[int(rng.integers(len(TRANSPOSED)))]
    height, kernels, strides = across[0], (across[1], kernel), (across[2], stride)
    graph = Graph(shape=(3, height, width))
    value = source(graph, signed=bool(rng.integers(2)))
    groups = int(rng.integers(1, 3))
    weights = graph.random(2, int(rng.integers(1, 3)), *kernels)
    facts: dict[str, Any] = {"strides": strides, "dilations": (across[3], dilation), "group": groups, "auto_pad": auto}
    if auto == "NOTSET":
        facts["pads"] = (across[4][0], padding[0], across[4][1], padding[1])
        facts["output_padding"] = (min(across[5], strides[0] - 1), min(more, stride - 1))
    return graph, graph.op("ConvTranspose", value, weights, **facts)


# -- slices ------------------------------------------------------------------------------------------

SLICES = [
    values
    for values in product(
        (1, 2, 3),  # axis
        (0, 1, -1, -3, 99, -99),  # start
        (0, 1, 4, -1, -2, 99, -99),  # end
        (1, 2, 3, -1, -2),  # step
        ("Slice", "Pad", "moved"),  # what stands before it
        (False, True),  # and behind it
    )
    if values[1] == values[2] or range(4)[slice(*values[1:4])]  # of what takes nothing a part
]


def slices(index: int) -> tuple[Graph, str]:
    axis, start, end, step, before, behind = SLICES[index]
    rng = np.random.default_rng(index)
    graph = Graph(shape=(3, int(rng.integers(3, 6)), int(rng.integers(3, 6))))
    value = graph.conv("image", 5, 3, 1)
    if before == "Slice":
        facts = [graph.const([number], np.int64) for number in (1, 99, int(rng.integers(2, 4)))]
        value = graph.op("Slice", value, *facts)
    elif before == "Pad":
        value = graph.op("Pad", value, graph.const([0, 0, 1, 0, 0, 0, 0, 2], np.int64))
    else:
        value = graph.op("Transpose", value, perm=[0, *rng.permutation([1, 2, 3])])
    value = graph.op("Slice", value, *(graph.const([number], np.int64) for number in (start, end, axis, step)))
    if not behind:
        return graph, value
    if before == "moved":
        return graph, graph.op("Relu", value)
    return graph, graph.op("MaxPool", value, kernel_shape=[2, 2], pads=[1, 0, 0, 1])


# -- what stands behind a Pad ------------------------------------------------------------------------

PADDED = list(
    product(
        ((0, 0), (1, 0), (0, 2), (-1, 1), (-1, 0), (2, -1), (-3, 2)),
        (
            "Conv",
            "ConvTranspose",
            "Relu",
            "Add",
            "Concat",
            "Resize",
            "MatMul",
            "ReduceMean",
            "GlobalMaxPool",
            "DepthToSpace",
            "Pad",
            "LeakyRelu",
            "Sub",
            "Max",
            "Mul",
            "Flatten",
            "Tile",
            "Slice",
            "zeros alone",
        ),
        (False, True),  # of values that may be negative
        (0, 1, 2),  # an affine map between: none, a factor, a shift
    )
)


def behind_a_pad(index: int) -> tuple[Graph, str]:
    (left, right), operator, signed, affine = PADDED[index]
    rng = np.random.default_rng(index)
    top, bottom = PADDED[int(rng.integers(len(PADDED)))][0]
    graph = Graph(shape=(3, 4, 5))
    value = graph.conv("image", 4, 3, 1)
    value = value if signed else graph.op("Relu", value)
    pad = graph.const([0, 0, top, left, 0, 0, bottom, right], np.int64)
    value = graph.op("Pad", graph.op("Add", value, graph.const(0.5)) if affine and rng.random() < 0.5 else value, pad)
    height, width = 4 + top + bottom, 5 + left + right
    if affine:
        value = graph.op("Mul" if affine == 1 else "Add", value, graph.const(rng.normal(0, 1, (4, 1, 1))))
    if operator == "Conv":
        return graph, graph.conv(value, 2, 4, (2, 3), pads=[1, 0, 0, 1])
    if operator == "ConvTranspose":
        return graph, graph.op(operator, value, graph.random(4, 2, 3, 2), strides=[2, 1])
    if operator in ("Add", "Sub", "Max"):
        return graph, graph.op(operator, value, graph.conv(value, 4, 4, 1))
    if operator == "Concat":
        return graph, graph.op(operator, value, graph.conv(value, 4, 4, 1), axis=int(rng.integers(1, 4)))
    if operator == "Resize":
        return graph, graph.op(operator, value, "", graph.const([1, 1, 2, 1]), mode="linear")
    if operator == "MatMul":
        return graph, graph.op(operator, graph.op("Flatten", value), graph.random(4 * height * width, 1))
    if operator == "Pad":
        return graph, graph.op(operator, value, graph.const([0, 1, 0, 1, 0, 0, -1, 0], np.int64))
    if operator == "Mul":
        return graph, graph.op(operator, value, graph.const([[[2.0]], [[-1.0]], [[0.5]], [[3.0]]]))
    if operator == "Tile":
        return graph, graph.op(operator, value, graph.const([1, 2, 1, 2], np.int64))
    if operator == "Slice":
        return graph, graph.op(operator, value, *(graph.const([number], np.int64) for number in (1, 99, 3)))
    if operator == "zeros alone":
        begins = max(0, top) + 4 + min(0, bottom)
        places = [graph.const([number], np.int64) for number in (begins, 99, 2)]
        return graph, graph.op(
            "Pad", graph.op("Slice", value, *places), graph.const([0, 0, 1, 0, 0, 0, 0, 0], np.int64)
        )
    facts: dict[str, dict[str, Any]] = {
        "DepthToSpace": {"blocksize": 2},
        "ReduceMean": {"axes": [2, 3]},
        "LeakyRelu": {"alpha": 0.1},
    }
    return graph, graph.op(operator, value, **facts.get(operator, {}))


# -- matrices and shapes -----------------------------------------------------------------------------

GEMMS = list(
    product((0, 1), (0, 1), (0.5, 1.0), (0.0, 2.0), ("none", "scalar", "row", "matrix"), (1, 3), (False, True))
)


def gemm(index: int) -> tuple[Graph, str]:
    trans_a, trans_b, alpha, beta, bias, out, mapped = GEMMS[index]
    graph = Graph(shape=(3, 4, 5))
    value = graph.op("Relu", graph.conv("image", 2, 3))
    flat = graph.op("Flatten", value if mapped else graph.op("GlobalAveragePool", value))
    weights = graph.random(*((out, 12 if mapped else 2) if trans_b else (12 if mapped else 2, out)))
    more = {"none": [], "scalar": [graph.const(0.3)], "row": [graph.random(out)], "matrix": [graph.random(1, out)]}[
        bias
    ]
    return graph, graph.op("Gemm", flat, weights, *more, transA=trans_a, transB=trans_b, alpha=alpha, beta=beta)


SHAPES = [
    (before, after)
    for before in ((6, 2, 4), (6, 1, 4), (6, 2, 1), (1, 2, 4), (6, 1, 1))
    for after in (
        (0, 0, -1),
        (0, -1),
        (-1, 0, 0, 0),
        (0, 0, 0, 0),
        (0, 2, -1),
        (0, 2, 3, -1),
        (0, 3, 2, 0),
        (0, -1, 4),
        (0, 6, -1, 1),
        (0, 1, -1),
        (0, 2, 3, -1, 4),
        (-1, 2),
        (0, 0, 4, -1),
    )
]
ORDERS = [None, (0, 2, 3, 1), (0, 3, 2, 1), (0, 1, 3, 2)]
RESHAPES = list(product(SHAPES, ORDERS, ("given out", "Relu", "transposed", "Softmax")))


def reshape(index: int) -> tuple[Graph, str]:
    ((channels, height, width), target), order, behind = RESHAPES[index]
    graph = Graph(shape=(3, height, width))
    value = graph.conv("image", channels, 3, 1)
    value = value if order is None else graph.op("Transpose", value, perm=list(order))
    value = graph.op("Reshape", value, graph.const(list(target), np.int64))
    if behind == "transposed":
        return graph, graph.op("Transpose", value, perm=[0, *range(len(target) - 1, 0, -1)])
    if behind == "Softmax":
        return graph, graph.op("Softmax", value, axis=-1)
    return graph, value if behind == "given out" else graph.op("Relu", value)


SWEEPS: dict[str, tuple[Build, int, int, tuple[str, ...]]] = {
    "pools": (
        pool,
        len(POOLS),
        150,
        ("no larger than its padded input", "which has no maximum", "without a tap", "pad differently"),
    ),
    "resizes": (resize, len(RESIZES), 150, ("must have an output of sizes",)),
    "transposed": (conv_transpose, len(TRANSPOSED), 100, ("different sizes", "must have an output of sizes")),
    "slices": (
        slices,
        len(SLICES),
        100,
        ("at least one of the positions", "reverses height or width", "cut before axes are moved"),
    ),
    "behind a pad": (behind_a_pad, len(PADDED), 100, ("at least one of the positions",)),
    "matrices": (gemm, len(GEMMS), 60, ("without transA",)),
    "shapes": (
        reshape,
        len(RESHAPES),
        100,
        ("whole heights and widths with them", "keep the batch as the first dimension"),
    ),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_some_configurations_equal_onnxruntime(name: str) -> None:
    build, count, some, expected = SWEEPS[name]
    counts = sweep(build, np.random.default_rng(0).choice(count, some, replace=False).tolist(), expected)
    assert counts[RIGHT] > sum(counts.values()) / 3


@pytest.mark.long
@pytest.mark.parametrize("name", SWEEPS)
def test_every_configuration_equals_onnxruntime(name: str) -> None:
    build, count, _, expected = SWEEPS[name]
    counts = sweep(build, range(count), expected)
    print(name, dict(counts))
    assert counts[RIGHT] > sum(counts.values()) / 3
