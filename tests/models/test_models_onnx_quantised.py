"""Quantised files: read as the float graphs that they approximate, within the steps of their integers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_mutations import Mutator
from test_models_onnx_operators import Graph

from fluidnpu.models import (
    ModelsError,
    Network,
    NetworkError,
    golden,
    quantise,
    read_onnx,
    shipped_file,
    shipped_images,
)
from fluidnpu.models.numeric import run_float
from fluidnpu.models.numeric.float_reference import run_float_outputs
from fluidnpu.models.onnx.file import OnnxFile
from fluidnpu.models.onnx.rewriting.quantised import dequantise

onnxruntime = pytest.importorskip("onnxruntime")
MICROSOFT = "com.microsoft"
SHAPE = (6, 8, 7)
STEP = 0.02  # of the integers between layers


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Quantised:
    """A graph on integers in the making; `at` is the name of its newest value."""

    def __init__(self, shape: tuple[int, ...] = SHAPE, opset: int = 17) -> None:
        self.shape, self.opset = shape, opset
        self.rng = np.random.default_rng(3)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{len(self.constants)}"))
        return f"c{len(self.constants) - 1}"

    def op(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=name, **attributes))
        return name

    def grid(self, scale: float = STEP, zero: int = 100, kind: Any = np.uint8) -> tuple[str, str]:
        return self.const(scale), self.const(zero, kind)

    def integers(self, *shape: int, kind: Any = np.int8) -> str:
        return self.const(self.rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape), kind)

    def save(self, path: Path, output: str, kind: int = TensorProto.FLOAT) -> None:
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", *self.shape])
        end = helper.make_tensor_value_info(output, kind, None)
        graph = helper.make_graph(self.nodes, "hand", [image], [end], self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)

    def read(self, tmp_path: Path, output: str, steps: float = 2, step: float = STEP) -> Network:
        """Read the graph with a float output, and hold what it gives to onnxruntime within steps."""
        self.save(tmp_path / "m.onnx", output)
        images = np.random.default_rng(1).random((3, *self.shape), np.float32)
        (wanted,) = session(tmp_path / "m.onnx").run(None, {"image": images})
        nhwc = np.ascontiguousarray(np.moveaxis(images, 1, -1))
        network = read_onnx(tmp_path / "m.onnx", exits=[])
        floats = run_float_outputs(network, nhwc)[output]
        qnet = quantise(network, nhwc)
        stored = qnet.output(output, golden.run_outputs(qnet, nhwc)[output])
        for given in (floats, stored):
            np.testing.assert_allclose(given, wanted, rtol=0, atol=steps * step)
        assert wanted.std() > 4 * step  # something is compared
        return network


def of_one(g: Quantised, operator: str, domain: str = MICROSOFT, **attributes: Any) -> str:
    x = g.op("QuantizeLinear", "image", *g.grid(1 / 255, 0))
    return g.op(operator, x, *g.grid(1 / 255, 0), *g.grid(1 / 300, 10), domain=domain, **attributes)


def qlinear_conv(g: Quantised, zeros: Any = 0, kind: Any = np.int8, *, bias: bool = True) -> str:
    x = g.op("QuantizeLinear", "image", *g.grid(1 / 255, 0))
    scales = g.const(g.rng.uniform(0.004, 0.008, 8) / 2)
    given = [g.const(np.broadcast_to(zeros, 8), kind), *g.grid()]
    more = [g.const(g.rng.integers(-20000, 20000, 8), np.int32)] if bias else []
    weights = g.integers(8, 6, 3, 3, kind=kind)
    return g.op("QLinearConv", x, *g.grid(1 / 255, 0), weights, scales, *given, *more, pads=[1, 1, 0, 1])


def numbers(g: Quantised, name: str, *grid: str) -> str:
    return g.op("DequantizeLinear", name, *(grid or g.grid()))


@pytest.mark.parametrize("case", ["plain", "zero points", "no bias"])
def test_qlinear_conv(case: str, tmp_path: Path) -> None:
    g = Quantised()
    made = qlinear_conv(g, 120, np.uint8) if case == "zero points" else qlinear_conv(g, bias=case == "plain")
    network = g.read(tmp_path, numbers(g, made))
    assert len(network.layers) == 1  # saturation is the layer's clip
    assert network.layers[0].clip == pytest.approx((-100 * STEP, 155 * STEP))
    assert network.calibration == pytest.approx({"image": 1.0, network.layers[0].output: 155 * STEP})


def test_a_pair_of_one_activation_is_the_relu_that_was_removed(tmp_path: Path) -> None:
    g = Quantised()
    x = numbers(g, g.op("QuantizeLinear", "image", *g.grid(1 / 255, 0)), *g.grid(1 / 255, 0))
    weights = g.op("DequantizeLinear", g.integers(8, 6, 3, 3), g.const(g.rng.uniform(0.002, 0.004, 8)), axis=0)
    bias = g.op("DequantizeLinear", g.const(g.rng.integers(-300, 300, 8), np.int32), g.const(1e-3))
    made = g.op("QuantizeLinear", g.op("Conv", x, weights, bias), *g.grid(0.01, 0))
    network = g.read(tmp_path, numbers(g, made, *g.grid(0.01, 0)), step=0.01)
    (layer,) = network.layers
    assert layer.clip == pytest.approx((0.0, 2.55))


def test_sums_of_quantised_maps_stay_residuals(tmp_path: Path) -> None:
    g = Quantised()
    first, second = qlinear_conv(g), qlinear_conv(g)
    made = g.op("QLinearAdd", first, *g.grid(), second, *g.grid(), *g.grid(2 * STEP, 0), domain=MICROSOFT)
    network = g.read(tmp_path, numbers(g, made, *g.grid(2 * STEP, 0)), step=2 * STEP)
    assert len(network.layers) <= 2


@pytest.mark.parametrize("operator", ["QLinearMul", "QLinearAdd"])
def test_a_constant_operand(operator: str, tmp_path: Path) -> None:
    g = Quantised()
    constant = g.const(g.rng.integers(0, 256, (1, 8, 1, 1)), np.uint8)
    made = g.op(operator, qlinear_conv(g), *g.grid(), constant, *g.grid(0.01, 90), *g.grid(), domain=MICROSOFT)
    g.read(tmp_path, numbers(g, made), steps=5 if operator == "QLinearMul" else 3)


@pytest.mark.parametrize("output", ["integers", "floats"])
@pytest.mark.parametrize("transposed", [0, 1])
def test_dense_layers(output: str, transposed: int, tmp_path: Path) -> None:
    g = Quantised((6, 2, 2))
    x = g.op("Flatten", g.op("QuantizeLinear", "image", *g.grid(1 / 255, 0)))
    weights = g.integers(*((8, 24) if transposed else (24, 8)))
    given = [weights, g.const(g.rng.uniform(0.002, 0.004, 8)), g.const(np.zeros(8), np.int8)]
    bias = g.const(g.rng.integers(-9000, 9000, 8), np.int32)
    ends = g.grid() if output == "integers" else ()
    made = g.op("QGemm", x, *g.grid(1 / 255, 0), *given, bias, *ends, domain=MICROSOFT, transB=transposed, alpha=0.5)
    g.read(tmp_path, numbers(g, made) if ends else made)


def test_qlinear_matmul(tmp_path: Path) -> None:
    g = Quantised((6, 2, 2))
    x = g.op("Flatten", g.op("QuantizeLinear", "image", *g.grid(1 / 255, 0)))
    weights = [g.integers(24, 8), g.const(0.004), g.const(3, np.int8)]
    g.read(tmp_path, numbers(g, g.op("QLinearMatMul", x, *g.grid(1 / 255, 0), *weights, *g.grid())))


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("QLinearAveragePool", {"kernel_shape": [2, 3], "strides": [2, 1]}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("QLinearGlobalAveragePool", {}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearSigmoid", {}),
        ("QLinearSoftmax", {"axis": 1, "opset": 13}),
    ],
)
def test_operators_of_one_activation(operator: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    g = Quantised()
    scale, zero = (1 / 256, 0) if operator in ("QLinearSigmoid", "QLinearSoftmax") else (STEP, 100)
    made = g.op(operator, qlinear_conv(g), *g.grid(), *g.grid(scale, zero), domain=MICROSOFT, **attributes)
    g.read(tmp_path, numbers(g, made, *g.grid(scale, zero)), steps=3, step=max(scale, STEP / 4))


def test_joined_maps_of_other_scales(tmp_path: Path) -> None:
    g = Quantised()
    first, second = qlinear_conv(g), qlinear_conv(g)
    made = g.op("QLinearConcat", *g.grid(0.03, 90), first, *g.grid(), second, *g.grid(), domain=MICROSOFT, axis=1)
    network = g.read(tmp_path, numbers(g, made, *g.grid(0.03, 90)), step=0.03)
    assert len(network.layers) == 2


def test_what_is_saturated_already_takes_no_layer(tmp_path: Path) -> None:
    """A DenseNet's maps are joined and scaled anew, and read elsewhere, too; a ReLU among that stays."""
    g = Quantised()
    first, second = qlinear_conv(g), qlinear_conv(g)
    joined = g.op("QLinearConcat", *g.grid(0.018, 110), first, *g.grid(), second, *g.grid(), domain=MICROSOFT, axis=1)
    again = g.op("QLinearConcat", *g.grid(0.021, 95), joined, *g.grid(0.018, 110), first, *g.grid(),
                 domain=MICROSOFT, axis=1)  # fmt: skip
    network = g.read(tmp_path, numbers(g, again, *g.grid(0.021, 95)), step=0.021)
    assert len(network.layers) == 3  # the second join of the first map is a copy
    positive = g.op("QLinearConcat", *g.grid(0.01, 0), joined, *g.grid(0.018, 110), domain=MICROSOFT, axis=1)
    network = g.read(tmp_path, numbers(g, positive, *g.grid(0.01, 0)), step=0.01, steps=5)
    assert [layer.clip[0] for layer in network.layers[-2:]] == [0.0, 0.0]


def test_integers_are_moved(tmp_path: Path) -> None:
    g = Quantised()
    made = g.op("MaxPool", qlinear_conv(g), kernel_shape=[2, 2])
    made = g.op("Transpose", made, perm=[0, 2, 3, 1])
    network = g.read(tmp_path, numbers(g, made))
    assert len(network.layers) == 2


def test_integers_are_padded_and_enlarged(tmp_path: Path) -> None:
    g = Quantised()
    made = g.op("Pad", qlinear_conv(g), g.const([0, 0, 1, 0, 0, 0, 0, 2], np.int64), g.const(100, np.uint8))
    made = g.op("Resize", made, "", g.const([1, 1, 2, 2]), mode="nearest", coordinate_transformation_mode="asymmetric")
    g.read(tmp_path, numbers(g, made))
    g = Quantised()
    made = g.op("Pad", qlinear_conv(g), g.const([0, 0, 1, 0, 0, 0, 0, 2], np.int64))
    told = refusal(g, tmp_path / "m.onnx", numbers(g, made))
    assert "must pad integers with their zero point, 100, which stands for zero" in told


def test_a_saturation_that_a_sum_leaves_out_is_said(tmp_path: Path) -> None:
    """onnxruntime removes a Clip whose bounds are those of the integers, so the reader must not be silent."""
    graph = Graph()
    scale, zero = graph.const(0.01, np.float32), graph.const(0, np.int8)
    value = graph.conv("image", 3, 3, 1)
    stored = graph.op("QuantizeLinear", value, scale, zero)
    held = graph.op("DequantizeLinear", stored, scale, zero)
    onnx.save(graph.model(graph.op("Add", held, "image")), tmp_path / "sum.onnx")
    assert read_onnx(tmp_path / "sum.onnx").metadata["quantised"].endswith("operands of sums that are not saturated: 1")


def test_another_scale_is_read_as_it_says(tmp_path: Path) -> None:
    g = Quantised()
    g.read(tmp_path, numbers(g, qlinear_conv(g), *g.grid(0.03, 90)), step=0.03)


@pytest.mark.parametrize("kind", ["conv", "matmul", "fused", "scaled"])
def test_dynamic_integers_are_the_numbers_themselves(kind: str, tmp_path: Path) -> None:
    g = Quantised((6, 8, 7) if kind == "conv" else (6, 2, 2))
    x = "image" if kind == "conv" else g.op("Flatten", "image")
    scale = g.const(g.rng.uniform(0.002, 0.004, 8) if kind != "conv" else 0.004)
    zero = g.const(np.full(8, 4) if kind != "conv" else 4, np.int8)
    weights = g.integers(8, 6, 3, 3) if kind == "conv" else g.integers(24, 8)
    bias = g.const(g.rng.normal(0, 1, (1, 8, 1, 1) if kind == "conv" else 8))
    if kind == "fused":
        made = g.op("DynamicQuantizeMatMul", x, weights, scale, zero, bias, domain=MICROSOFT)
    else:
        q = g.op("DynamicQuantizeLinear", x, outputs=3)
        if kind == "scaled":
            given = (q, weights, f"{q}_1", scale, f"{q}_2", zero, bias)
            made = g.op("MatMulIntegerToFloat", *given, domain=MICROSOFT)
        else:
            operator = "ConvInteger" if kind == "conv" else "MatMulInteger"
            zeros = zero if kind == "conv" else g.const(4, np.int8)
            made = g.op("Cast", g.op(operator, q, weights, f"{q}_2", zeros), to=TensorProto.FLOAT)
            made = g.op("Add", g.op("Mul", made, g.op("Mul", f"{q}_1", scale)), bias)
    network = g.read(tmp_path, made, steps=3)
    assert len(network.layers) == 1


def test_dynamic_lstm_is_onnx_lstm_of_the_same_numbers(tmp_path: Path) -> None:
    """It stands in what the host computes, so its float form is held to onnxruntime by itself."""
    g, hidden = Quantised((4, 9)), 5
    steps = g.op("Transpose", "image", perm=[2, 0, 1])
    matrices = g.integers(1, 4, 4 * hidden), g.integers(1, hidden, 4 * hidden)
    grids = [g.const([0.01]), g.const([3], np.int8), g.const([0.008]), g.const([-2], np.int8)]
    given = (steps, *matrices, g.const(g.rng.normal(0, 0.3, (1, 8 * hidden))), "", "", "", "", *grids)
    g.op("DynamicQuantizeLSTM", *given, outputs=3, domain=MICROSOFT, hidden_size=hidden)
    g.save(tmp_path / "m.onnx", "n1_1")
    onnx.save(dequantise(OnnxFile(tmp_path / "m.onnx")).model, tmp_path / "float.onnx")
    images = np.random.default_rng(1).random((3, *g.shape), np.float32)
    whole, plain = (session(tmp_path / name).run(None, {"image": images})[0] for name in ("m.onnx", "float.onnx"))
    np.testing.assert_allclose(plain, whole, atol=0.02)
    assert whole.std() > 0.1


def scaled(scale: Any, shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(2).uniform(0.5 * scale, scale, shape)


def quantised_weights(case: str, g: Quantised) -> str:
    if case == "tensor":
        return g.op("DequantizeLinear", g.integers(8, 6, 3, 3), g.const(0.01), g.const(7, np.int8))
    if case == "channel":
        return g.op("DequantizeLinear", g.integers(8, 6, 3, 3), g.const(scaled(0.01, (8,))), axis=0)
    if case == "unsigned":
        given = g.integers(8, 6, 3, 3, kind=np.uint8), g.const(0.01), g.const(128, np.uint8)
        return g.op("DequantizeLinear", *given)
    if case in ("four", "blocks"):
        values = g.rng.integers(-8, 8, (8, 6, 3, 3))
        packed = helper.make_tensor("four", TensorProto.INT4, values.shape, values.reshape(-1))
        g.constants.append(packed)
        if case == "four":
            return g.op("DequantizeLinear", "four", g.const(0.1))
        return g.op("DequantizeLinear", "four", g.const(scaled(0.1, (8, 2, 3, 3))), axis=1, block_size=3)
    floats = g.const(g.rng.normal(0, 1, (8, 6, 3, 3)))  # brevitas: rounded, clipped to seven bits, scaled back
    scale, zero = g.const(scaled(0.02, (8,))), g.const(np.zeros(8), np.int8)
    narrow = g.op("QuantizeLinear", floats, scale, zero, axis=0)
    narrow = g.op("Clip", narrow, g.const(-63, np.int8), g.const(63, np.int8))
    return g.op("DequantizeLinear", narrow, scale, zero, axis=0)


@pytest.mark.parametrize("case", ["tensor", "channel", "unsigned", "four", "blocks", "brevitas"])
def test_weights_behind_dequantize_linear_fold(case: str, tmp_path: Path) -> None:
    g = Quantised(opset=21)
    weights = quantised_weights(case, g)
    network = g.read(tmp_path, g.op("Conv", "image", weights), steps=4e-3 / STEP * 5)
    assert len(network.layers) == 1
    assert "quantised" not in network.metadata


def qonnx_model(path: Path, node: onnx.NodeProto, constants: dict[str, Any], *, activation: bool) -> None:
    nodes = [node] if not activation else []
    conv = ["image", node.output[0]] if not activation else ["image", "w"]
    nodes.append(helper.make_node("Conv", conv, ["logits" if not activation else "sum"]))
    nodes += [node] if activation else []
    tensors = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in constants.items()]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 2, 3, 3])
    ends = [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "qonnx", [image], ends, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("qonnx.custom_op.general", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


@pytest.mark.parametrize(("bits", "signed", "narrow"), [(4, 1, 0), (4, 1, 1), (3, 0, 0), (8, 1, 1), (8, 0, 1)])
def test_qonnx_weights_are_rounded_and_saturated(bits: int, signed: int, narrow: int, tmp_path: Path) -> None:
    weights, scale = np.random.default_rng(0).normal(0, 1, (5, 2, 3, 3)), scaled(0.3, (5, 1, 1, 1))
    node = helper.make_node(
        "Quant", ["w", "s", "z", "b"], ["wq"], domain="qonnx.custom_op.general", signed=signed, narrow=narrow,
        rounding_mode="ROUND",
    )  # fmt: skip
    qonnx_model(tmp_path / "m.onnx", node, {"w": weights, "s": scale, "z": 0, "b": bits}, activation=False)
    network = read_onnx(tmp_path / "m.onnx")
    low = -(2 ** (bits - 1)) + narrow if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
    scale = scale.astype(np.float32)
    wanted = np.clip(np.rint(weights.astype(np.float32) / scale), low, high) * scale
    (layer,) = network.layers
    found = network.parameters[layer.name].weights.reshape(3, 3, 2, 5).transpose(3, 2, 0, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_qonnx_bipolar_weights_and_activations(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(0, 1, (5, 2, 3, 3))
    node = helper.make_node("BipolarQuant", ["w", "s"], ["wq"], domain="qonnx.custom_op.general")
    qonnx_model(tmp_path / "m.onnx", node, {"w": weights, "s": 0.25}, activation=False)
    network = read_onnx(tmp_path / "m.onnx")
    found = network.parameters[network.layers[0].name].weights.reshape(3, 3, 2, 5).transpose(3, 2, 0, 1)
    np.testing.assert_array_equal(found, np.where(weights >= 0, 0.25, -0.25))
    node = helper.make_node("Quant", ["sum", "s", "z", "b"], ["out"], domain="qonnx.custom_op.general", signed=0)
    constants = {"w": weights, "s": 0.1, "z": 0, "b": 8}
    qonnx_model(tmp_path / "m.onnx", node, constants, activation=True)
    assert read_onnx(tmp_path / "m.onnx").layers[0].clip == pytest.approx((0.0, 25.5))
    qonnx_model(tmp_path / "m.onnx", node, {**constants, "b": 4}, activation=True)
    with pytest.raises(ModelsError, match=r"node 'out' \(Quant\) must give activations of at least 255 steps"):
        read_onnx(tmp_path / "m.onnx")


def refusal(g: Quantised, path: Path, output: str, kind: int = TensorProto.FLOAT) -> str:
    g.save(path, output, kind)
    with pytest.raises(ModelsError) as caught:
        read_onnx(path)
    return str(caught.value)


def test_what_has_no_float_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    g = Quantised()
    made = qlinear_conv(g)
    told = refusal(g, path, made, TensorProto.UINT8)
    assert f"returns '{made}' as integers: end the graph with a DequantizeLinear" in told
    g = Quantised()
    ends = [g.const(np.full(6, 0.1)), g.const(np.zeros(6), np.uint8)]
    made = g.op("QuantizeLinear", "image", *ends, axis=1)
    told = refusal(g, path, g.op("DequantizeLinear", made, *ends))
    assert "must have one scale for an activation, and it has one for each channel" in told
    g = Quantised()
    made = g.op("QuantizeLinear", "image", *g.grid(-0.02))
    assert "must have a scale above 0, not -0.02" in refusal(g, path, numbers(g, made, *g.grid(-0.02)))
    g = Quantised()
    made = g.op("Sigmoid", qlinear_conv(g))
    assert "reads the integers 'n1', which only operators on integers can" in refusal(g, path, made)
    g = Quantised()
    made = g.op("QuantizeLinear", "image", g.op("ReduceMax", "image"), g.const(0, np.uint8))
    told = refusal(g, path, numbers(g, made))
    assert "must have a constant at input 1, and 'n0' is computed" in told
    g = Quantised()
    g.op("QuantizeLinear", "image")
    assert "must have an input 1, and it is left out" in refusal(g, path, numbers(g, "n0"))
    g = Quantised()
    g.nodes.append(helper.make_node("QLinearConv", ["image"], ["n0"], name="n0"))
    assert "must" in refusal(g, path, "n0")


def bases(tmp_path: Path) -> list[onnx.ModelProto]:
    """Return good graphs on integers of every family."""
    made = []
    for case in ("sum", "join", "dense", "pool", "dynamic", "moved"):
        g = Quantised((6, 2, 2) if case == "dense" else SHAPE)
        if case == "dense":
            x = g.op("Flatten", g.op("QuantizeLinear", "image", *g.grid(1 / 255, 0)))
            weights = g.integers(24, 8), g.const(np.full(8, 0.002)), g.const(np.zeros(8), np.int8)
            bias = g.const(np.zeros(8), np.int32)
            last = g.op("QGemm", x, *g.grid(1 / 255, 0), *weights, bias, *g.grid(), domain=MICROSOFT)
        elif case == "sum":
            x, y = qlinear_conv(g), qlinear_conv(g)
            last = g.op("QLinearAdd", x, *g.grid(), y, *g.grid(), *g.grid(), domain=MICROSOFT)
        elif case == "join":
            x, y = qlinear_conv(g), qlinear_conv(g)
            last = g.op("QLinearConcat", *g.grid(), x, *g.grid(), y, *g.grid(), domain=MICROSOFT, axis=1)
        elif case == "pool":
            last = g.op("QLinearGlobalAveragePool", qlinear_conv(g), *g.grid(), *g.grid(), domain=MICROSOFT)
        elif case == "moved":
            last = g.op("MaxPool", qlinear_conv(g), kernel_shape=[2, 2])
        else:
            q = g.op("DynamicQuantizeLinear", "image", outputs=3)
            last = g.op("ConvInteger", q, g.integers(8, 6, 3, 3), f"{q}_2")
            last = g.op("Mul", g.op("Cast", last, to=TensorProto.FLOAT), f"{q}_1")
        end = last if case == "dynamic" else numbers(g, last)
        g.save(tmp_path / "base.onnx", end)
        made.append(onnx.load(tmp_path / "base.onnx"))
    return made


def damaged_files_are_read_or_refused(tmp_path: Path, seeds: range) -> None:
    good = bases(tmp_path)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        try:
            data = Mutator(rng)(good[int(rng.integers(len(good)))]).SerializeToString()
        except (ValueError, TypeError):  # damage that protobuf itself cannot write down
            continue
        (tmp_path / "damaged.onnx").write_bytes(data)
        told = "a network"
        try:
            read_onnx(tmp_path / "damaged.onnx")
        except NetworkError as error:
            told = str(error)
        assert told.isprintable(), seed


def test_damaged_quantised_files_give_a_network_or_one_sentence(tmp_path: Path) -> None:
    damaged_files_are_read_or_refused(tmp_path, range(200))


@pytest.mark.long
def test_many_damaged_quantised_files_give_a_network_or_one_sentence(tmp_path: Path) -> None:
    damaged_files_are_read_or_refused(tmp_path, range(10_000, 14_000))


class Calibration:
    """Images for onnxruntime's quantiser."""

    def __init__(self, name: str, images: Any) -> None:
        self.feeds = iter([{name: image[None]} for image in images])

    def get_next(self) -> Any:
        return next(self.feeds, None)


def quantised_example(tmp_path: Path, form: str, kind: str) -> Path:
    """Quantise the shipped network as onnxruntime does it; its batch normalisations are folded first."""
    from onnxruntime import quantization

    with shipped_file("resnet8_fashion_mnist.onnx") as shipped:
        plain = onnx.load(shipped)
    del plain.metadata_props[:]
    onnx.save(plain, tmp_path / "plain.onnx")
    quantization.quant_pre_process(str(tmp_path / "plain.onnx"), str(tmp_path / "ready.onnx"), skip_symbolic_shape=True)
    made = tmp_path / "quantised.onnx"
    if form == "dynamic":
        quantization.quantize_dynamic(tmp_path / "ready.onnx", made)
        return made
    images = np.moveaxis(shipped_images().images[500:532], -1, 1) / np.float32(255)
    quantization.quantize_static(
        tmp_path / "ready.onnx",
        made,
        Calibration(plain.graph.input[0].name, images),
        quant_format=quantization.QuantFormat[form],
        activation_type=quantization.QuantType[kind],
        weight_type=quantization.QuantType.QInt8,
        per_channel=kind == "QInt8",
    )
    return made


def agreement(path: Path, count: int) -> list[float]:
    """The share of images on which the NPU's numbers and onnxruntime's integers name one class, by exit."""
    images = shipped_images().images[:count] / np.float32(255)
    running = session(path)
    wanted = running.run(None, {running.get_inputs()[0].name: np.ascontiguousarray(np.moveaxis(images, -1, 1))})
    names = [one.name for one in running.get_outputs()]
    network = read_onnx(path)
    assert len(network.layers) == 18
    record = network.metadata["quantised"]
    assert re.search(r"nodes on integers, read as float(; operands of sums that are not saturated: [1-9])?$", record)
    qnet = quantise(network, None if network.calibration else images[:50])
    found = golden.run(qnet, images)
    return [
        float(np.mean(qnet.logits(i, found[i]).argmax(1) == wanted[names.index(exit.name)].argmax(1)))
        for i, exit in enumerate(network.exits)
    ]


@pytest.mark.parametrize(("form", "kind"), [("QDQ", "QUInt8"), ("QOperator", "QInt8"), ("dynamic", "")])
def test_the_shipped_network_quantised_by_onnxruntime(form: str, kind: str, tmp_path: Path) -> None:
    shares = agreement(quantised_example(tmp_path, form, kind), 72)
    assert shares[-1] >= 71 / 72
    assert min(shares) >= 69 / 72  # early exits, whose margins are smaller


@pytest.mark.long
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("kind", ["QUInt8", "QInt8"])
def test_a_thousand_images_quantised_by_onnxruntime(form: str, kind: str, tmp_path: Path) -> None:
    assert agreement(quantised_example(tmp_path, form, kind), 1000)[-1] >= 0.98


def test_floats_and_integers_agree_without_a_layer_more(tmp_path: Path) -> None:
    """The float form is read as a float file is: by its own reference, too."""
    path = quantised_example(tmp_path, "QDQ", "QUInt8")
    network = read_onnx(path)
    assert set(network.calibration) == set(network.tensors)
    images = shipped_images().images[:8] / np.float32(255)
    assert [one.shape for one in run_float(network, images)] == [(8, 10)] * 3
