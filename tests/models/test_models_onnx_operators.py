"""Every operator the reader claims, against onnxruntime on hand-made graphs, in float and through the
golden model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fluidnpu.models import Kind, golden, quantise, read_onnx
from fluidnpu.models.numeric import run_float

onnxruntime = pytest.importorskip("onnxruntime")


class Graph:
    """A graph in the making; methods return the name of what they add."""

    def __init__(self, shape: tuple[int, ...] = (3, 8, 7), opset: int = 17) -> None:
        self.shape, self.opset = shape, opset
        self.rng = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def op(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=name, **attributes))
        return name

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def random(self, *shape: int) -> str:
        return self.const(self.rng.normal(0, 0.4, shape))

    def conv(
        self,
        source: str,
        out: int,
        channels: int,
        kernel: int | tuple[int, int] = 3,
        groups: int = 1,
        **attributes: Any,
    ) -> str:
        size = (kernel, kernel) if isinstance(kernel, int) else kernel
        weights = self.random(out, channels // groups, *size)
        return self.op("Conv", source, weights, self.random(out), group=groups, **attributes)

    def head(self, source: str, channels: int, classes: int = 4) -> str:
        flat = self.op("Flatten", self.op("GlobalAveragePool", source))
        return self.op("Gemm", flat, self.random(classes, channels), self.random(classes), transB=1)

    def model(self, *outputs: str) -> onnx.ModelProto:
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", *self.shape])
        ends = [helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in outputs]
        graph = helper.make_graph(self.nodes, "hand", [image], ends, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def batch_norm(self, source: str, channels: int) -> str:
        scale, shift, mean = (self.random(channels) for _ in range(3))
        return self.op("BatchNormalization", source, scale, shift, mean, self.const(self.rng.uniform(0.2, 2, channels)))


CASES: dict[str, Callable[[], tuple[Graph, str]]] = {}


def case(build: Callable[[Graph], str]) -> Callable[[Graph], str]:
    def made() -> tuple[Graph, str]:
        graph = Graph()
        return graph, build(graph)

    CASES[build.__name__] = made
    return build


@case
def conv_groups_dilation_asymmetric(g: Graph) -> str:
    first = g.conv("image", 6, 3, groups=3, pads=(0, 1, 2, 0), strides=(1, 2))
    return g.head(g.conv(first, 4, 6, (2, 3), groups=2, dilations=(2, 1), pads=(1, 1, 1, 1)), 4)


@case
def conv_auto_pad(g: Graph) -> str:
    upper = g.conv("image", 5, 3, 3, auto_pad="SAME_UPPER", strides=(2, 2))
    lower = g.conv(upper, 5, 5, (2, 2), auto_pad="SAME_LOWER")
    return g.head(g.conv(lower, 4, 5, 2, auto_pad="VALID"), 4)


@case
def depthwise_and_batch_norm_relu6(g: Graph) -> str:
    value = g.batch_norm(g.conv("image", 6, 3), 6)
    value = g.op("Clip", value, g.const(0.0), g.const(6.0))
    value = g.batch_norm(g.conv(value, 6, 6, groups=6, pads=(1, 1, 1, 1)), 6)
    return g.head(g.op("Relu", value), 6)


@case
def batch_norm_of_the_image_and_after_relu(g: Graph) -> str:
    value = g.op("Relu", g.conv(g.batch_norm("image", 3), 5, 3))
    return g.head(g.batch_norm(value, 5), 5)


@case
def flatten_a_map_into_gemm(g: Graph) -> str:
    value = g.op("Relu", g.conv("image", 5, 3, strides=(2, 2)))  # 5 x 3 x 3: order of the features matters
    hidden = g.op("Relu", g.op("Gemm", g.op("Flatten", value), g.random(45, 7), g.random(7), alpha=0.5, beta=2.0))
    return g.op("Gemm", hidden, g.random(4, 7), transB=1)


@case
def matmul_and_add(g: Graph) -> str:
    flat = g.op("Reshape", g.op("Relu", g.conv("image", 2, 3)), g.const([0, -1], np.int64))
    return g.op("Add", g.op("MatMul", flat, g.random(60, 4)), g.random(4))


@case
def reshape_through_shape_arithmetic(g: Graph) -> str:
    value = g.conv("image", 2, 3)
    batch = g.op("Gather", g.op("Shape", value), g.const(0, np.int64), axis=0)
    shape = g.op("Concat", g.op("Unsqueeze", batch, g.const([0], np.int64)), g.op("Constant", value_ints=[-1]), axis=0)
    return g.op("MatMul", g.op("Reshape", value, shape), g.op("Transpose", g.random(4, 60), perm=[1, 0]))


@case
def residual_with_downsampling(g: Graph) -> str:
    trunk = g.op("Relu", g.conv("image", 6, 3))
    short = g.batch_norm(g.conv(trunk, 8, 6, 1, strides=(2, 2)), 8)
    inner = g.op("Relu", g.batch_norm(g.conv(trunk, 8, 6, pads=(1, 1, 1, 1), strides=(2, 2)), 8))
    inner = g.batch_norm(g.conv(inner, 8, 8, pads=(1, 1, 1, 1)), 8)
    return g.head(g.op("Relu", g.op("Add", short, inner)), 8)


@case
def add_of_two_relus_needs_a_copy(g: Graph) -> str:
    first, second = (g.op("Relu", g.conv("image", 4, 3)) for _ in range(2))
    return g.head(g.op("Relu", g.op("Add", first, second)), 4)


@case
def add_of_one_to_itself_and_sum_of_three(g: Graph) -> str:
    value = g.conv("image", 4, 3)
    double = g.op("Add", value, value)
    return g.head(g.op("Sum", double, value, g.conv("image", 4, 3)), 4)


@case
def add_with_average_pool_gain(g: Graph) -> str:
    value = g.op("Relu", g.conv("image", 4, 3))
    pooled = [g.op("AveragePool", value, kernel_shape=[3, 3]) for _ in range(2)]
    third = g.conv(value, 4, 4)
    return g.head(g.op("Add", g.op("Add", pooled[0], pooled[1]), g.op("Add", third, pooled[0])), 4)


@case
def concat_nested_shared_and_pooled(g: Graph) -> str:
    a, b = g.op("Relu", g.conv("image", 2, 3)), g.conv("image", 3, 3)
    inner = g.op("Concat", a, b, axis=1)
    pool = g.op("MaxPool", a, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    average = g.op("AveragePool", b, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    outer = g.op("Concat", inner, pool, average, inner, axis=1)
    return g.head(g.op("Relu", g.batch_norm(g.conv(outer, 5, 15), 5)), 5)


@case
def batch_norm_and_relu_after_concat(g: Graph) -> str:
    joined = g.op("Concat", g.conv("image", 2, 3), g.conv("image", 3, 3), axis=1)
    return g.head(g.op("Relu", g.batch_norm(joined, 5)), 5)


@case
def concat_of_the_image(g: Graph) -> str:
    joined = g.op("Concat", "image", g.conv("image", 2, 3, pads=(1, 1, 1, 1)), axis=-3)
    return g.head(g.conv(joined, 4, 5), 4)


@case
def relu_after_max_pool_moves_up(g: Graph) -> str:
    value = g.op("Relu", g.op("MaxPool", g.conv("image", 4, 3), kernel_shape=[2, 2], strides=[2, 2]))
    return g.head(g.op("MaxPool", value, kernel_shape=[3, 2], pads=[1, 0, 1, 1]), 4)


@case
def signed_max_pool_whose_padding_no_window_reaches(g: Graph) -> str:
    pool = g.op("MaxPool", g.conv("image", 4, 3), kernel_shape=[3, 2], strides=[3, 3], pads=[0, 0, 1, 1])
    return g.head(g.op("MaxPool", pool, kernel_shape=[1, 1]), 4)


@case
def relu_after_shared_max_pool_copies(g: Graph) -> str:
    value = g.conv("image", 4, 3)
    pool = g.op("Relu", g.op("MaxPool", value, kernel_shape=[2, 2]))
    other = g.op("MaxPool", value, kernel_shape=[2, 2])
    return g.head(g.op("Concat", pool, other, axis=1), 8)


@case
def max_pool_ceil_mode_and_dilation(g: Graph) -> str:
    value = g.op("Relu", g.conv("image", 4, 3))  # 6 x 5
    value = g.op("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    return g.head(g.op("MaxPool", value, kernel_shape=[2, 2], dilations=[2, 1]), 4)


@case
def average_pools(g: Graph) -> str:
    value = g.op(
        "AveragePool",
        g.conv("image", 4, 3),
        kernel_shape=[3, 2],
        strides=[1, 2],
        pads=[1, 0, 1, 1],
        count_include_pad=1,
    )
    value = g.op("AveragePool", value, kernel_shape=[2, 2], ceil_mode=1)
    return g.head(g.op("Clip", value, g.const(-0.1), g.const(0.2)), 4)


@case
def pad_is_taken_over(g: Graph) -> str:
    padded = g.op("Pad", "image", g.const([0, 0, 1, 2, 0, 0, 0, 1], np.int64))
    value = g.op("Relu", g.conv(padded, 4, 3, pads=(0, 1, 0, 0)))
    return g.head(
        g.op("MaxPool", g.op("Pad", value, g.const([0, 0, 1, 1, 0, 0, 1, 1], np.int64)), kernel_shape=[2, 2]), 4
    )


@case
def reduce_mean_global_max_squeeze(g: Graph) -> str:
    value = g.conv("image", 4, 3)
    mean = g.op("ReduceMean", value, axes=[-1, -2], keepdims=0)
    top = g.op("Squeeze", g.op("GlobalMaxPool", value), g.const([2, 3], np.int64))
    return g.op("Gemm", g.op("Concat", mean, top, axis=1), g.random(8, 4))


@case
def shapes_made_of_slices(g: Graph) -> str:
    value = g.conv("image", 2, 3)
    batch = g.op("Slice", g.op("Cast", g.op("Shape", value), to=7), g.const([0], np.int64), g.const([1], np.int64))
    rest = g.op("Unsqueeze", g.op("Constant", value_int=60), g.const([0], np.int64))
    flat = g.op("Reshape", value, g.op("Concat", batch, rest, axis=0))
    half = g.op("Constant", value_float=0.5)
    return g.op("MatMul", flat, g.op("Mul", g.op("Sub", g.random(60, 4), half), g.op("Div", half, g.const(0.25))))


@case
def vector_back_to_a_map(g: Graph) -> str:
    pooled = g.op("Squeeze", g.op("GlobalAveragePool", g.conv("image", 5, 3)), g.const([2, 3], np.int64))
    wide = g.op("Unsqueeze", pooled, g.const([2, 3], np.int64))
    again = g.op("Reshape", g.op("Flatten", g.conv(wide, 6, 5, 1)), g.const([0, 6, 1, -1], np.int64))
    return g.op("Flatten", g.conv(again, 4, 6, 1))


@case
def sum_of_one_and_clip_without_bounds(g: Graph) -> str:
    return g.head(g.op("Clip", g.op("Sum", g.conv("image", 4, 3))), 4)


@case
def preprocessing_constants(g: Graph) -> str:
    value = g.op(
        "Div", g.op("Sub", "image", g.const([[[0.4]], [[0.5]], [[0.6]]])), g.const([[[[0.2]], [[0.3]], [[0.4]]]])
    )
    value = g.op("Sub", g.const(1.0), g.op("Mul", g.conv(value, 4, 3), g.const(0.5)))
    return g.head(g.op("Add", g.const([[[0.1]], [[0.2]], [[0.3]], [[0.4]]]), value), 4)


@case
def identities_and_constant_nodes(g: Graph) -> str:
    weights = g.op("Constant", value=numpy_helper.from_array(g.rng.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)))
    value = g.op("Conv", "image", g.op("Identity", weights))
    value = g.op("Relu", g.op("Dropout", g.op("Identity", value)))
    return g.head(value, 4)


@case
def clip_of_clip(g: Graph) -> str:
    value = g.op("Clip", g.conv("image", 4, 3), "", g.const(0.3))
    return g.head(g.op("Clip", g.op("Relu", value), g.const(0.05)), 4)


@case
def fully_convolutional_logits(g: Graph) -> str:
    return g.op("Flatten", g.op("GlobalAveragePool", g.conv("image", 4, 3)))


@case
def weight_normalisation_is_a_constant(g: Graph) -> str:
    direction = g.random(4, 3, 3, 3)
    length = g.op("ReduceL2", direction, axes=[1, 2, 3], keepdims=1)
    gain = g.op(
        "Expand", g.op("Reshape", g.random(4), g.const([0, 1, 1, 1], np.int64)), g.const([4, 1, 1, 1], np.int64)
    )
    return g.head(g.op("Conv", "image", g.op("Mul", gain, g.op("Div", direction, length))), 4)


@case
def batch_norm_taken_apart(g: Graph) -> str:
    variance = g.const(g.rng.uniform(0.2, 2, (1, 4, 1, 1)))
    factor = g.op("Reciprocal", g.op("Sqrt", g.op("Add", variance, g.const(1e-3))))
    centred = g.op("Sub", g.conv("image", 4, 3), g.op("Neg", g.random(1, 4, 1, 1)))
    return g.head(g.op("Mul", g.op("Mul", centred, factor), g.op("Abs", g.random(4, 1, 1))), 4)


@case
def weights_cut_out_of_weights(g: Graph) -> str:
    whole = g.random(6, 5, 3, 3)
    inner = g.op("Slice", whole, g.const([1, -4], np.int64), g.const([5, 9999], np.int64), g.const([0, 1], np.int64))
    every = g.op(
        "Slice",
        inner,
        g.const([3], np.int64),
        g.const([-9999], np.int64),
        g.const([1], np.int64),
        g.const([-1], np.int64),
    )
    return g.head(g.conv(g.op("Conv", g.conv("image", 4, 3), every), 4, 4, 1), 4)


@case
def masks_and_filled_constants(g: Graph) -> str:
    value = numpy_helper.from_array(np.array([0.25], np.float32))
    filled = g.op("ConstantOfShape", g.const([4, 3, 1, 1], np.int64), value=value)
    mask = g.op("Equal", g.const([[[[0]]], [[[1]]], [[[2]]], [[[1]]]], np.int64), g.const([1], np.int64))
    weights = g.op("Where", mask, filled, g.op("Max", g.random(4, 3, 1, 1), g.const(0.0), g.const(0.1)))
    return g.head(g.op("Conv", "image", g.op("Pow", g.op("Min", weights, g.const(0.8)), g.const(2.0))), 4)


@case
def part_of_a_shape(g: Graph) -> str:
    value = g.conv("image", 2, 3)
    batch = g.op("Shape", value, start=0, end=1)
    return g.op(
        "MatMul", g.op("Reshape", value, g.op("Concat", batch, g.const([-1], np.int64), axis=0)), g.random(60, 4)
    )


@case
def sum_with_constants(g: Graph) -> str:
    value = g.op("Sum", g.random(4, 1, 1), g.conv("image", 4, 3), g.conv("image", 4, 3), g.const(0.5))
    return g.head(g.op("Sum", g.op("Relu", value), g.random(1, 4, 1, 1)), 4)


@case
def identity_behind_a_pad(g: Graph) -> str:
    padded = g.op("Pad", "image", g.const([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    return g.head(g.conv(g.op("Dropout", g.op("Identity", padded)), 4, 3), 4)


@case
def sizes_kept_by_a_reshape(g: Graph) -> str:
    value = g.op("Reshape", g.conv("image", 4, 3), g.const([0, 0, 0, -1], np.int64))
    return g.op("Gemm", g.op("Flatten", value, axis=-3), g.random(120, 4))


def old_clip() -> tuple[Graph, str]:
    g = Graph(opset=10)
    value = g.op("Clip", g.conv("image", 4, 3), min=0.0, max=6.0)
    return g, g.head(value, 4)


def vector_input() -> tuple[Graph, str]:
    g = Graph(shape=(9,))
    hidden = g.op("Relu", g.op("Gemm", "image", g.random(9, 6), g.random(6)))
    return g, g.op("Gemm", hidden, g.random(6, 4))


def new_reduce_mean_and_pad() -> tuple[Graph, str]:
    g = Graph(opset=18)
    padded = g.op("Pad", "image", g.const([1, 2, 0, 1], np.int64), "", g.const([2, 3], np.int64))
    value = g.op("ReduceMean", g.conv(padded, 4, 3), g.const([2, 3], np.int64), keepdims=0)
    return g, g.op("Gemm", value, g.random(4, 4))


CASES |= {"old_clip": old_clip, "vector_input": vector_input, "new_reduce_mean_and_pad": new_reduce_mean_and_pad}


def _compare(path: Path, graph: Graph, *outputs: str) -> None:
    onnx.save(graph.model(*outputs), path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    images = np.random.default_rng(1).random((3, *graph.shape), np.float32)
    expected = dict(zip(outputs, session.run(list(outputs), {"image": images}), strict=True))
    network = read_onnx(path)
    nhwc = images[:, None, None] if images.ndim == 2 else np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    qnet = quantise(network, nhwc)
    stored = golden.run(qnet, nhwc)
    for index, (exit, floats) in enumerate(zip(network.exits, run_float(network, nhwc), strict=True)):
        wanted = expected[exit.classes].reshape(3, -1)
        np.testing.assert_allclose(floats, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
        np.testing.assert_allclose(
            qnet.logits(index, stored[index]), wanted, rtol=0, atol=4e-3 * max(1.0, np.abs(wanted).max())
        )


@pytest.mark.parametrize("name", CASES)
def test_operator_equals_onnxruntime(name: str, tmp_path: Path) -> None:
    graph, output = CASES[name]()
    _compare(tmp_path / "model.onnx", graph, output)


def test_relu_and_batch_norm_cost_no_layer(tmp_path: Path) -> None:
    graph, output = CASES["residual_with_downsampling"]()
    onnx.save(graph.model(output), tmp_path / "m.onnx")
    network = read_onnx(tmp_path / "m.onnx")
    assert [layer.kind for layer in network.layers] == [Kind.GEMM] * 4 + [Kind.SUM_POOL, Kind.GEMM]
    assert sum(layer.residual is not None for layer in network.layers) == 1


def test_concatenation_is_a_channel_offset(tmp_path: Path) -> None:
    graph, output = CASES["batch_norm_and_relu_after_concat"]()
    onnx.save(graph.model(output), tmp_path / "m.onnx")
    first, second = read_onnx(tmp_path / "m.onnx").layers[:2]
    assert (first.output, first.output_channel, second.output_channel, second.channels) == (second.output, 0, 2, 3)


def test_softmax_is_dropped_and_logits_beside_it_are_one_exit(tmp_path: Path) -> None:
    graph = Graph()
    logits = graph.head(graph.conv("image", 4, 3), 4)
    soft = graph.op("Softmax", logits, axis=1)
    onnx.save(graph.model(logits, soft), tmp_path / "m.onnx")
    network = read_onnx(tmp_path / "m.onnx")
    assert [exit.logits for exit in network.exits] == [logits]
    onnx.save(graph.model(soft), tmp_path / "m.onnx")
    alone = read_onnx(tmp_path / "m.onnx")
    assert alone.exits[0].name == soft
    images = np.random.default_rng(0).random((2, 8, 7, 3), np.float32)
    np.testing.assert_array_equal(run_float(alone, images)[0], run_float(network, images)[0])


def test_an_identity_behind_the_softmax_is_the_same_exit(tmp_path: Path) -> None:
    graph = Graph()
    graph.op("Identity", graph.op("Softmax", graph.head(graph.conv("image", 4, 3), 4)))
    onnx.save(graph.model(f"n{len(graph.nodes) - 1}"), tmp_path / "model.onnx")
    network = read_onnx(tmp_path / "model.onnx")
    assert [exit.logits for exit in network.exits] == [f"n{len(graph.nodes) - 3}"]


def test_exits_are_ordered_by_macs_and_heads_follow_their_backbone(tmp_path: Path) -> None:
    graph = Graph()
    trunk = graph.op("Relu", graph.conv("image", 4, 3))
    early = graph.head(trunk, 4)
    deep = graph.op("Relu", graph.conv(trunk, 6, 4))
    late = graph.head(deep, 6)
    onnx.save(graph.model(late, early), tmp_path / "m.onnx")  # the later exit is given out first
    network = read_onnx(tmp_path / "m.onnx", threshold=0.6)
    assert [exit.name for exit in network.exits] == [early, late]
    assert [exit.threshold for exit in network.exits] == [0.6, None]
    assert network.exits[0].rate is None
    assert [layer.stage for layer in network.layers] == [0, 0, 0, 1, 1, 1]
    _compare(tmp_path / "n.onnx", graph, early, late)


def test_nodes_out_of_order_and_dead_nodes_do_not_matter(tmp_path: Path) -> None:
    graph = Graph()
    output = graph.head(graph.op("Relu", graph.conv("image", 4, 3)), 4)
    graph.op("Erf", "image")  # nobody needs it
    straight = graph.model(output)
    onnx.save(straight, tmp_path / "a.onnx")
    nodes = list(straight.graph.node)
    del straight.graph.node[:]
    straight.graph.node.extend(reversed(nodes))
    onnx.save(straight, tmp_path / "b.onnx")
    assert read_onnx(tmp_path / "a.onnx").layers == read_onnx(tmp_path / "b.onnx").layers
