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
from onnx_sweeps import REFUSED, RIGHT, Build, sweep


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
    one
    for one in product(
        (1, 2, 3, 4, 5),
        RESIZED,  # by a size or by a scale
        ("linear", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric"),
    )
    if not (one[2] in ("floor", "ceil") and one[3] == "half_pixel_symmetric")  # see below
]  # onnxruntime has such a coordinate in float32, and where it is a whole number lands beside it


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
    facts = {"coordinate_transformation_mode": coordinates, "mode": "linear" if mode == "linear" else "nearest"}
    facts |= {} if mode == "linear" else {"nearest_mode": mode}
    if by_size:
        return graph, graph.op("Resize", value, "", "", graph.const([2, 2, down, across], np.int64), **facts)
    return graph, graph.op("Resize", value, "", graph.const([1, 1, down, across]), **facts)


SWEEPS: dict[str, tuple[Build, int, int, tuple[str, ...]]] = {
    "pools": (
        pool,
        len(POOLS),
        150,
        ("no larger than its padded input", "which has no maximum", "without a tap", "pad differently"),
    ),
    "resizes": (resize, len(RESIZES), 150, ("must have an output of sizes",)),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_some_configurations_equal_onnxruntime(name: str) -> None:
    build, count, some, expected = SWEEPS[name]
    counts = sweep(build, np.random.default_rng(0).choice(count, some, replace=False).tolist(), expected)
    assert counts[RIGHT] > counts[REFUSED]


@pytest.mark.long
@pytest.mark.parametrize("name", SWEEPS)
def test_every_configuration_equals_onnxruntime(name: str) -> None:
    build, count, _, expected = SWEEPS[name]
    counts = sweep(build, range(count), expected)
    print(name, dict(counts))
    assert counts[RIGHT] > counts[REFUSED]
