"""The nine networks inside the onnx package: read with the multiplications that their nodes have, and exact.

The expected numbers come from onnx's own shape inference; values from onnxruntime, on random weights since
the package keeps constants in their place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, shape_inference

from fluidnpu.models import Kind, golden, quantise, read_onnx
from fluidnpu.models.errors import UnsupportedOperatorError
from fluidnpu.models.exits import attach_exits, equidistant_tensors
from fluidnpu.models.numeric import run_float
from fluidnpu.models.onnx import write_onnx

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
READ = ["densenet121", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19"]
REFUSED = ["bvlc_alexnet", "inception_v1", "zfnet512"]
SMALL = 64  # pixels, for the default tests


def light(name: str) -> onnx.ModelProto:
    return onnx.load(LIGHT / f"light_{name}.onnx")


def shapes_of(model: onnx.ModelProto) -> dict[str, list[int]]:
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    found = [*graph.value_info, *graph.input, *graph.output]
    shapes = {one.name: [d.dim_value for d in one.type.tensor_type.shape.dim] for one in found}
    return shapes | {one.name: list(one.dims) for one in graph.initializer}


def multiplications(model: onnx.ModelProto) -> Iterator[tuple[str, int, int]]:
    """Yield (node, multiply-accumulates of one image, groups) of every convolution and dense layer."""
    shapes = shapes_of(model)
    for node in model.graph.node:
        name = node.name or node.output[0]
        if node.op_type == "Conv":
            attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
            weights, out = shapes[node.input[1]], shapes[node.output[0]]
            yield name, math.prod(out[1:]) * math.prod(weights[1:]), int(attributes.get("group", 1))
        elif node.op_type in ("Gemm", "MatMul"):
            yield name, math.prod(shapes[node.input[1]]), 1


@pytest.mark.parametrize("name", READ)
def test_the_multiplications_are_those_of_the_nodes(name: str) -> None:
    model = light(name)
    network = read_onnx(LIGHT / f"light_{name}.onnx")
    by_name = {layer.name: layer for layer in network.layers}
    expected = list(multiplications(model))
    assert expected
    for node, macs, groups in expected:
        layer = by_name.pop(next(one for one in (node, node.replace("/", "_")) if one in by_name))
        densified = groups > 1 and layer.groups == 1  # behind a shuffle, where that is cheaper
        assert layer.shape.macs == macs * (groups if densified else 1), node
        assert not densified or name == "shufflenet"
    for layer in by_name.values():  # what is left does not multiply, scales channels, averages a border or shuffles
        gemm = layer.kind is Kind.GEMM
        assert not gemm or layer.groups == layer.channels or (layer.kernel == (1, 1) and name == "shufflenet")
    assert all(exit.classes for exit in network.exits)


@pytest.mark.parametrize("name", REFUSED)
def test_networks_that_need_another_operator_are_told_which(name: str) -> None:
    with pytest.raises(
        UnsupportedOperatorError, match=r"^fluidnpu takes image CNNs .*node 'n\d': operator LRN"
    ) as told:
        read_onnx(LIGHT / f"light_{name}.onnx")
    assert "batch normalisation" in told.value.suggestion


def with_random_weights(model: onnx.ModelProto, size: int) -> onnx.ModelProto:
    """The network for images of `size` pixels, with He-scaled noise and fair statistics for its constants."""
    rng = np.random.default_rng(7)
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    image = next(one for one in graph.input if len(one.type.tensor_type.shape.dim) == 4)
    for axis in (2, 3):
        image.type.tensor_type.shape.dim[axis].dim_value = size
    del graph.value_info[:]
    statistics = {name for node in graph.node if node.op_type == "BatchNormalization" for name in node.input[1:]}
    variances = {node.input[4] for node in graph.node if node.op_type == "BatchNormalization"}
    shapes = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            for one in node.attribute:  # the last pool covers its map, whatever size that has
                if one.name == "kernel_shape" and list(one.ints) == [7, 7] and node.op_type == "AveragePool":
                    one.ints[:] = [size // 32] * 2
            continue
        shape, name = shapes[node.input[0]], node.output[0]
        if name in variances:
            values = rng.uniform(0.5, 2, shape)
        elif name in statistics:
            values = rng.normal(0.5, 0.2, shape)
        else:
            values = rng.normal(0, math.sqrt(2 / max(1, math.prod(shape[1:]))), shape)
        graph.initializer.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
    del graph.node[:]
    graph.node.extend(kept)
    return made


def close_to_onnxruntime(name: str, size: int, path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx.save(with_random_weights(light(name), size), path)
    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    image = np.random.default_rng(3).random((1, 3, size, size), np.float32)
    wanted = session.run(None, {session.get_inputs()[0].name: image})[0].reshape(1, -1)
    network = read_onnx(path)
    nhwc = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    qnet = quantise(network, nhwc)
    real, stored = run_float(network, nhwc)[0], qnet.logits(0, golden.run(qnet, nhwc)[0])
    if "Softmax" in {node.op_type for node in light(name).graph.node}:  # the file ends in shares, an exit in logits
        real, stored = (np.exp(one - one.max()) / np.exp(one - one.max()).sum() for one in (real, stored))
    np.testing.assert_allclose(real, wanted, rtol=2e-3, atol=1e-3 * np.abs(wanted).max())
    np.testing.assert_allclose(stored, wanted, rtol=0, atol=2e-2 * np.abs(wanted).max())


def test_small_images_through_average_pools_that_leave_padding_out(tmp_path: Path) -> None:
    close_to_onnxruntime("inception_v2", SMALL, tmp_path / "small.onnx")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "shufflenet" else pytest.mark.long) for name in READ if name != "vgg19"],
)
def test_they_take_exits_and_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    network = read_onnx(LIGHT / f"light_{name}.onnx")
    more = attach_exits(network, equidistant_tensors(network, 3))
    write_onnx(more, tmp_path / "more.onnx")
    again = read_onnx(tmp_path / "more.onnx")
    assert (again.exits, again.layers) == (more.exits, more.layers)


@pytest.mark.long
@pytest.mark.parametrize("name", READ)
def test_whole_networks_equal_onnxruntime_within_quantisation(name: str, tmp_path: Path) -> None:
    close_to_onnxruntime(name, 224, tmp_path / "whole.onnx")
