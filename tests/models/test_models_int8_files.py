"""Quantised files at 8 bits: layer by layer beside onnxruntime, given the same integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from fluidnpu.models import Kind, Network, golden, quantise, read_onnx
from fluidnpu.models.graph.network import Parameters
from fluidnpu.models.numeric.float_reference import run_float_layer
from fluidnpu.models.numeric.given_scales import grid_scales, with_given_scales
from fluidnpu.models.zoo import full_size

SIZE = (1, 3, 10, 10)
INTEGERS = {"QuantizeLinear", "QLinearConv", "QLinearAdd", "MaxPool", "QGemm", "QLinearGlobalAveragePool"}
TIE = 0.005  # of a step on either side of a tie: multipliers have 17 bits, biases a step of the sums


def float_model() -> onnx.ModelProto:
    """Every kind of layer: padded, depthwise, with a residual, strided, a max pool, an average, a product."""
    rng = np.random.default_rng(4)
    shapes = {"a": (8, 3, 3, 3), "b": (8, 1, 3, 3), "c": (8, 8, 1, 1), "d": (12, 8, 3, 3)}
    constants = {f"{name}_w": rng.normal(0, 0.3, shape) for name, shape in shapes.items()}
    constants |= {f"{name}_b": rng.normal(0, 0.3, shape[0]) for name, shape in shapes.items()}
    constants |= {"f_w": rng.normal(0, 0.3, (5, 12)), "f_b": rng.normal(0, 0.3, 5)}

    def conv(name: str, source: str, target: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node("Conv", [source, f"{name}_w", f"{name}_b"], [target], name=name, **attributes)

    nodes = [
        conv("a", "x", "a0", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a0"], ["a1"]),
        conv("b", "a1", "b0", pads=[1, 1, 1, 1], group=8),
        conv("c", "b0", "c0"),
        helper.make_node("Add", ["c0", "a1"], ["c1"], name="sum"),
        helper.make_node("Relu", ["c1"], ["c2"]),
        helper.make_node("MaxPool", ["c2"], ["p"], name="p", kernel_shape=[2, 2], strides=[2, 2]),
        conv("d", "p", "d0", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["d0"], ["g"], name="g"),
        helper.make_node("Flatten", ["g"], ["h"]),
        helper.make_node("Gemm", ["h", "f_w", "f_b"], ["y"], name="f", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SIZE)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 5))],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class Reader(CalibrationDataReader):  # type: ignore[misc]
    """Eight images of noise."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self._images = iter([{"x": rng.random(SIZE).astype(np.float32)} for _ in range(8)])

    def get_next(self) -> Any:
        return next(self._images, None)


@pytest.fixture(scope="module", params=["qdq, uint8", "qdq, int8", "operators, uint8"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantised")
    onnx.save(float_model(), folder / "float.onnx")
    form, kind = request.param.split(", ")
    quantize_static(
        folder / "float.onnx",
        folder / "file.onnx",
        Reader(),
        quant_format=QuantFormat.QDQ if form == "qdq" else QuantFormat.QOperator,
        per_channel=True,
        activation_type=QuantType.QUInt8 if kind == "uint8" else QuantType.QInt8,
        weight_type=QuantType.QInt8,
    )
    return folder / "file.onnx"


def integers_of(path: Path, images: npt.NDArray[np.float32]) -> Mapping[str, npt.NDArray[Any]]:
    """Return every value of onnxruntime that is quantised, as int8 (N, H, W, C), and the output."""
    model = onnx.load(path)
    known = {output.name for output in model.graph.output}
    names = [name for node in model.graph.node if node.op_type in INTEGERS for name in node.output if name not in known]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    rows = [session.run(None, {"x": image[None]}) for image in images]
    values = {
        output.name: np.concatenate(row)
        for output, row in zip(session.get_outputs(), zip(*rows, strict=True), strict=True)
    }
    found = {}
    for name, value in values.items():
        stored = (value.astype(np.int16) - 128).astype(np.int8) if value.dtype == np.uint8 else value
        found[name] = stored.transpose(0, 2, 3, 1) if stored.ndim == 4 else stored[:, None, None, :]
    return found


def of_tensor(values: Mapping[str, npt.NDArray[Any]], tensor: str) -> npt.NDArray[Any]:
    names = (tensor, f"{tensor}_QuantizeLinear_Output", f"{tensor}_quantized", tensor.removesuffix("_float"))
    return next(values[name] for name in names if name in values and values[name].dtype == np.int8)


def test_layers_are_within_a_step_of_onnxruntime_on_ties_alone(path: Path) -> None:
    """A sum is another matter: its operand has no rounding and no saturation of its own here."""
    network = read_onnx(path)
    qnet = quantise(network, bits=8)
    images = np.random.default_rng(2).random((32, *SIZE[1:])).astype(np.float32)
    values = integers_of(path, images)
    own = qnet.quantise_input(images.transpose(0, 2, 3, 1)).astype(int)
    assert np.mean(own != of_tensor(values, network.input)) < 0.005
    assert set(qnet.zeros) == set(qnet.network.grids) == set(network.tensors)
    assert all(qlayer.layer.kind is not Kind.SUM_POOL for qlayer in qnet.layers)
    for qlayer in qnet.layers:
        layer = qlayer.layer
        x, theirs = of_tensor(values, layer.input), of_tensor(values, layer.output)
        residual = None if layer.residual is None else of_tensor(values, layer.residual)
        out = golden.run_layer(qlayer, x, residual)
        apart = np.abs(out.astype(int) - theirs.reshape(out.shape))
        if residual is not None:
            assert np.mean(apart <= 1) > 0.97
            continue
        assert apart.max() <= 1
        assert np.mean(apart) < 0.005
        real = run_float_layer(
            replace(layer, clip=(None, None)),
            qnet.network.parameters.get(layer.name),
            qnet.real(layer.input, x).astype(np.float32),
        )
        steps = qnet.formats[layer.output].steps(real.astype(np.float64))[apart > 0]
        assert np.all(np.abs(np.abs(steps - np.floor(steps)) - 0.5) < TIE)


def test_whole_files_answer_within_two_steps(path: Path) -> None:
    network = read_onnx(path)
    qnet = quantise(network, bits=8)
    images = np.random.default_rng(3).random((32, *SIZE[1:])).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    theirs = np.concatenate([session.run(None, {"x": image[None]})[0] for image in images])
    mine = qnet.logits(0, golden.run(qnet, images.transpose(0, 2, 3, 1))[0])
    step = qnet.formats[network.exits[0].classes].gain
    assert np.abs(mine - theirs).max() <= 2.01 * step
    assert np.abs(mine - theirs).mean() <= 0.6 * step


def test_16_bits_read_the_files_as_before(path: Path) -> None:
    """Grids change no integer at 16 bits."""
    network = read_onnx(path)
    assert quantise(network).digest == quantise(replace(network, grids={})).digest
    assert any(layer.kind is Kind.SUM_POOL for layer in quantise(network).network.layers)


def test_networks_without_scales_are_themselves(path: Path) -> None:
    network = replace(read_onnx(path), grids={})
    assert with_given_scales(network) is network


def test_scales_that_pools_cannot_take_are_left_out(path: Path) -> None:
    network = read_onnx(path)
    pool = next(layer for layer in network.layers if layer.kind is Kind.MAX_POOL)
    other = replace(network, grids={**network.grids, pool.output: (0.5, 3)})
    assert set(network.grids) - set(with_given_scales(other).grids) == {pool.input, pool.output}
    qnet = quantise(other, bits=8)
    assert (qnet.zeros[pool.input], qnet.zeros[pool.output]) == (0, 0)


def test_the_scale_of_weights_is_found_again() -> None:
    rng = np.random.default_rng(0)
    integers, scale = rng.integers(-100, 101, (2, 18, 3)), rng.uniform(0.001, 0.1, (2, 1, 3))
    weights = (integers * scale).astype(np.float32).astype(np.float64)
    found = grid_scales(weights).reshape(2, 1, 3)
    np.testing.assert_allclose(weights / found, np.rint(weights / found), atol=2e-3)
    assert np.all(np.abs(weights / found) <= 127.001)


def test_averages_and_passes_become_layers_of_equal_weights(path: Path) -> None:
    network = with_given_scales(read_onnx(path))
    (average,) = (layer for layer in network.layers if layer.kernel[0] > 1 and layer.groups == layer.channels == 12)
    own: Parameters = network.parameters[average.name]
    np.testing.assert_allclose(own.weights, 1 / own.weights.shape[1])
    assert isinstance(network, Network)


def test_layers_with_a_halo_of_words_are_not_merged() -> None:
    """Filters and pools on the way out know no halo but 0."""
    network = full_size("mobilenet_v2")
    pair = network.filters[3]
    tensor = network.layers[pair.depthwise].input
    assert pair not in replace(network, halos={tensor: -128}).filters
    assert network.filters == replace(network, halos={tensor: 0}).filters
    pooled = full_size("resnet50")
    assert pooled.merged
    assert not replace(pooled, halos={pooled.layers[pool].input: 5 for pool in pooled.merged.values()}).merged


def test_halos_are_zero_points(path: Path) -> None:
    scaled = with_given_scales(read_onnx(path))
    assert dict(scaled.halos) == dict(quantise(scaled, bits=8).zeros)
