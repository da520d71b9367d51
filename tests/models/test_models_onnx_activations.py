"""What exporters make of the activation unit's work: layers, their answers, and the file written of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_models_onnx_operators import Graph
from test_models_onnx_upsampling import compare

from fluidnpu.models import Network, quantise
from fluidnpu.models.graph.activations import Use
from fluidnpu.models.graph.shapes import Kind
from fluidnpu.models.numeric.float_reference import tensor_ranges
from fluidnpu.models.onnx.file import OnnxFile
from fluidnpu.models.onnx.reading.reader import read_parsed
from fluidnpu.models.onnx.writing.export import build_onnx

BUILT: dict[str, tuple[Callable[[Graph], str], str]] = {}  # with the kinds of its layers


def case(layers: str) -> Callable[[Callable[[Graph], str]], Callable[[Graph], str]]:
    """Keep a graph; `layers` in order: gemm, pool or pass, with what ends each."""

    def keep(build: Callable[[Graph], str]) -> Callable[[Graph], str]:
        BUILT[build.__name__] = build, layers
        return build

    return keep


def told(network: Network) -> str:
    """Return the kinds of layers, and what ends them."""
    words = []
    for layer in network.layers:
        kind = "pass" if layer.kind is Kind.MAX_POOL and layer.kernel == (1, 1) else "pool"
        word = "gemm" if layer.kind is Kind.GEMM else kind
        word += "+add" if layer.adds else ""
        if layer.activation is not None:
            word += f"+{layer.activation.function or layer.activation.use}"
        words.append(word)
    return " ".join(words)


def silu(g: Graph, x: str) -> str:
    return g.op("Mul", x, g.op("Sigmoid", x))


def hard_sigmoid(g: Graph, x: str) -> str:
    """The parts that TorchScript's exporter writes."""
    return g.op("Div", g.op("Clip", g.op("Add", x, g.const(3.0)), g.const(0.0), g.const(6.0)), g.const(6.0))


def gate(g: Graph, x: str, channels: int, end: Callable[[str], str]) -> str:
    squeezed = g.op("Relu", g.conv(g.op("GlobalAveragePool", x), 2, channels, 1))
    return g.op("Mul", x, end(g.conv(squeezed, channels, 2, 1)))


@case("gemm+silu pool gemm gemm+sigmoid pass+product gemm")
def squeeze_and_excitation(g: Graph) -> str:
    """EfficientNet, RegNetY: two readers of the map, so the product is a pass."""
    return g.conv(gate(g, silu(g, g.conv("image", 4, 3)), 4, lambda x: g.op("Sigmoid", x)), 5, 4, 1)


@case("gemm+hard_swish pool gemm gemm pass+product gemm")
def gate_by_a_hard_sigmoid(g: Graph) -> str:
    """MobileNetV3: the gate is linear and clipped, so it needs no table."""
    x = g.conv("image", 4, 3)
    x = g.op("Mul", x, hard_sigmoid(g, x))
    return g.conv(gate(g, x, 4, lambda x: hard_sigmoid(g, x)), 5, 4, 1)


@case("gemm pool gemm+sigmoid pass+product gemm")
def gate_of_the_mean_alone(g: Graph) -> str:
    """The gain of an average pool, 64 / 30 here, goes before the table."""
    x = g.op("Relu", g.conv("image", 4, 3))
    return g.conv(g.op("Mul", g.op("Sigmoid", g.op("GlobalAveragePool", x)), x), 4, 4, 1)


@case("gemm pool gemm gemm pass+product gemm")
def gate_of_channels_last(g: Graph) -> str:
    """As tf2onnx writes it: the mean over rows and columns of a transposed map."""
    x = g.op("Relu", g.conv("image", 4, 3))
    last = g.op("Transpose", x, perm=[0, 2, 3, 1])
    mean = g.op("ReduceMean", last, axes=[1, 2], keepdims=1)
    inner = g.conv(g.op("Transpose", mean, perm=[0, 3, 1, 2]), 2, 4, 1)
    factor = g.op("HardSigmoid", g.conv(g.op("Relu", inner), 4, 2, 1))
    gated = g.op("Mul", last, g.op("Transpose", factor, perm=[0, 2, 3, 1]))
    return g.conv(g.op("Transpose", gated, perm=[0, 3, 1, 2]), 4, 4, 1)


@case("gemm gemm gemm+sigmoid pass+product gemm")
def spatial_gate(g: Graph) -> str:
    """A mean over the channels, and one channel that multiplies them all."""
    x = g.op("Relu", g.conv("image", 4, 3))
    factor = g.op("Sigmoid", g.conv(g.op("ReduceMean", x, axes=[1]), 1, 1, 3, pads=[1, 1, 1, 1]))
    return g.conv(g.op("Mul", x, factor), 4, 4, 1)


@case("gemm gemm+product gemm")
def product_of_two_branches(g: Graph) -> str:
    """StarNet: the clip of a branch is the layer's own, before the product."""
    clipped = g.op("Clip", g.conv("image", 6, 3), g.const(0.0), g.const(6.0))
    return g.conv(g.op("Mul", clipped, g.conv("image", 6, 3)), 4, 6, 1)


@case("gemm gemm+product")
def gated_unit_of_halves(g: Graph) -> str:
    """The halves of one convolution: the second passes a table, a layer of its own."""
    left = g.conv("image", 3, 3)
    return g.op("Relu", g.op("Mul", left, g.op("HardSigmoid", g.conv("image", 3, 3))))


@case("gemm pass+sigmoid pass+product gemm gemm")
def gate_of_itself_read_twice(g: Graph) -> str:
    """SiLU in another order of reading: its Sigmoid is given out, too, so it is no pattern."""
    x = g.conv("image", 3, 3)
    y = g.op("Sigmoid", x)
    return g.op("Concat", g.conv(g.op("Mul", x, y), 2, 3), g.conv(y, 2, 3), axis=1)


@case("gemm pass+product")
def square(g: Graph) -> str:
    return g.op("Pow", g.conv("image", 3, 3), g.const(2.0))


@case("gemm+slope gemm+slope gemm")
def slopes(g: Graph) -> str:
    x = g.op("PRelu", g.conv("image", 4, 3), g.const(np.array([-0.4, 0.1, 0.7, 1.6]).reshape(4, 1, 1)))
    return g.conv(g.op("LeakyRelu", g.conv(x, 5, 4), alpha=0.1), 4, 5, 1)


@case("gemm pass+slope gemm gemm")
def slope_beside_another_reader(g: Graph) -> str:
    x = g.conv("image", 4, 3)
    steep = g.op("PRelu", x, g.const(np.full((4, 1, 1), 0.3)))
    return g.op("Concat", g.conv(steep, 2, 4, 1), g.conv(x, 2, 4, 1), axis=1)


@case("gemm gemm pass+affine gemm pass")
def normalised_behind_a_concat(g: Graph) -> str:
    """DenseNet: what is joined is joined again, so the batch norm cannot go into its writers."""
    first = g.op("Relu", g.conv("image", 3, 3))
    joined = g.op("Concat", first, g.op("Relu", g.conv("image", 4, 3)), axis=1)
    normal = g.op("Relu", g.batch_norm(joined, 7))
    return g.op("Concat", g.conv(normal, 4, 7, 1), first, joined, axis=1)


@case("gemm gemm pass+add")
def sum_of_what_is_clipped(g: Graph) -> str:
    return g.op("Relu", g.op("Add", g.op("Relu", g.conv("image", 4, 3)), g.op("Relu", g.conv("image", 4, 3))))


@case("gemm pool gemm gemm+add")
def sum_with_one_pixel(g: Graph) -> str:
    """A global context, repeated for the map."""
    x = g.op("Relu", g.conv("image", 4, 3))
    context = g.conv(g.op("GlobalMaxPool", x), 4, 4, 1)
    return g.op("Relu", g.op("Add", g.conv(x, 4, 4, 1), context))


@case("gemm+add+mish gemm+tanh")
def tables_behind_sums(g: Graph) -> str:
    x = g.op("Add", g.conv("image", 3, 3, pads=[1, 1, 1, 1]), "image")
    x = g.op("Mul", x, g.op("Tanh", g.op("Softplus", x)))
    return g.op("Clip", g.op("Tanh", g.conv(x, 4, 3)), g.const(-0.5), g.const(0.9))


@case("gemm+elu pool gemm+selu gemm+gelu gemm+celu gemm+softplus")
def functions_with_operators(g: Graph) -> str:
    x = g.op("MaxPool", g.op("Elu", g.conv("image", 4, 3), alpha=0.7), kernel_shape=[2, 2], strides=[1, 1])
    x = g.op("Selu", g.conv(x, 4, 4, 1))
    x = g.conv(x, 4, 4, 1)
    half = g.op("Add", g.op("Erf", g.op("Div", x, g.const(2**0.5))), g.const(1.0))
    x = g.op("Mul", g.op("Mul", x, half), g.const(0.5))
    return g.op("Softplus", g.conv(g.op("Celu", g.conv(x, 4, 4, 1), alpha=1.3), 4, 4, 1))


@case("gemm+silu gemm+silu gemm+silu gemm")
def pieces_that_end_alike(g: Graph) -> str:
    """MixNet: convolutions side by side, and one function behind their concatenation."""
    x = silu(g, g.conv("image", 6, 3))
    first = g.conv(x, 2, 6, 3, pads=[1, 1, 1, 1])
    return g.conv(silu(g, g.op("Concat", first, g.conv(x, 3, 6, 1), axis=1)), 4, 5, 1)


@case("gemm+affine gemm+product")
def scaled_behind_a_clip(g: Graph) -> str:
    """An affine map behind a ReLU that nothing can take over ends the layer of the ReLU."""
    x = g.op("Relu", g.conv("image", 4, 3))
    y = g.op("Mul", g.op("Relu", g.conv("image", 4, 3)), g.const(np.array([0.3, -2, 1, 0.1]).reshape(4, 1, 1)))
    return g.op("Mul", x, g.op("Add", y, g.const(0.2)))


@case("gemm+mish pass+affine gemm gemm")
def scaled_and_clipped_for_two_readers(g: Graph) -> str:
    """Each part of an affine map and its clip has a node, and the pass the name that it had."""
    x = g.conv("image", 4, 3)
    x = g.op("Mul", x, g.op("Tanh", g.op("Softplus", x)))
    y = g.op("HardSigmoid", x, alpha=0.3, beta=0.4)
    return g.op("Concat", g.conv(y, 2, 4, 1), g.conv(y, 2, 4, 1), axis=1)


@case("gemm+elu gemm+sigmoid gemm")
def clipped_beyond_what_a_function_gives(g: Graph) -> str:
    x = g.op("Clip", g.op("Elu", g.conv("image", 4, 3)), g.const(-3.0), g.const(-1.5))
    x = g.op("Clip", g.op("Sigmoid", g.conv(x, 4, 4, 1)), g.const(1.25), g.const(2.0))
    return g.conv(x, 4, 4, 1)


@case("gemm+tanh pass+affine pool gemm gemm")
def padded_pool_behind_rising_lines(g: Graph) -> str:
    """Lines that rise from nothing below zero keep what they take from being negative."""
    x = g.op("Tanh", g.op("Relu", g.conv("image", 3, 3)))
    y = g.op("Mul", x, g.const(np.array([0.5, 2.0, 1.0]).reshape(3, 1, 1)))
    pooled = g.op("MaxPool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return g.op("Concat", g.conv(pooled, 2, 3, 1), g.conv(x, 2, 3, 1), axis=1)


@pytest.mark.parametrize("name", BUILT)
def test_it_equals_onnxruntime_and_comes_back(name: str, tmp_path: Path) -> None:
    build, layers = BUILT[name]
    graph = Graph()
    network = compare(tmp_path, graph, build(graph))
    assert told(network) == layers
    images = np.random.default_rng(2).random((2, 8, 7, 3), np.float32)
    network = network.recalibrated(tensor_ranges(network, images))
    again = read_parsed(OnnxFile(tmp_path / "again.onnx", build_onnx(network)), exits=[])
    assert [layer.facts() for layer in again.layers] == [layer.facts() for layer in network.layers]
    assert again.calibration == network.calibration
    assert quantise(again).digest == quantise(network).digest


def test_a_product_read_twice_is_not_scaled_for_one_of_its_readers(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.op("Mul", graph.conv("image", 3, 3), graph.conv("image", 3, 3))
    network = compare(tmp_path, graph, graph.op("Concat", graph.op("Relu", x), graph.op("Neg", x), axis=1))
    assert {layer.activation.use for layer in network.layers if layer.activation} == {Use.PRODUCT, Use.AFFINE}


def test_what_ends_in_the_unit_is_no_branch_of_a_convolution(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.op("Relu", graph.conv("image", 3, 3))
    branches = (graph.op("LeakyRelu", graph.conv(x, 4, 3, 1), alpha=0.2), graph.conv(x, 4, 3, 1))
    assert told(compare(tmp_path, graph, graph.op("Add", *branches))) == "gemm gemm+slope gemm+add"


def test_slopes_follow_their_channels_into_phases(tmp_path: Path) -> None:
    graph = Graph()
    slope = graph.const(np.linspace(-0.5, 1.5, 12).reshape(12, 1, 1))
    parted = graph.op("DepthToSpace", graph.op("PRelu", graph.conv("image", 12, 3), slope), blocksize=2, mode="CRD")
    assert told(compare(tmp_path, graph, graph.conv(parted, 2, 3))) == " ".join(["gemm+slope"] * 4 + ["gemm"])


def test_what_is_tiny_beside_what_it_is_added_to_is_quantised(tmp_path: Path) -> None:
    """A layer scale of 1e-6, as ConvNeXt and FastViT begin with."""
    graph = Graph()
    x = graph.op("Relu", graph.conv("image", 4, 3))
    inner = graph.op("Mul", silu(graph, graph.conv(x, 4, 4, 1)), graph.const(1e-6))
    network = compare(tmp_path, graph, graph.conv(graph.op("Add", x, inner), 4, 4, 1))
    assert told(network) == "gemm gemm+silu pass+affine pass+add gemm"


def test_phases_that_are_read_before_all_is_joined_are_written_once(tmp_path: Path) -> None:
    graph = Graph()
    sizes = graph.const([2, 3, 15, 19], np.int64)
    x = graph.op("Resize", "image", "", "", sizes, mode="linear", coordinate_transformation_mode="align_corners")
    y = graph.op("HardSigmoid", x, alpha=0.2, beta=0.4)
    compare(tmp_path, graph, graph.conv(graph.op("Concat", y, y, x, axis=1), 2, 9, 1))
