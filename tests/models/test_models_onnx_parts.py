"""The layers that moves, borders and outputs cost, on hand-made graphs; and the refusals that teach."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from test_models_onnx_operators import Graph

from fluidnpu.models import Kind, NetworkError, golden, quantise, read_onnx
from fluidnpu.models.errors import UnsupportedOperatorError
from fluidnpu.models.graph import Output
from fluidnpu.models.graph.network import Network
from fluidnpu.models.numeric import run_float
from fluidnpu.models.numeric.float_reference import run_float_outputs
from fluidnpu.models.onnx import write_onnx

onnxruntime = pytest.importorskip("onnxruntime")


def read(tmp_path: Path, graph: Graph, *outputs: str, **options: Any) -> Network:
    """Read a graph, and hold its logits and outputs to onnxruntime, in float and in int16."""
    onnx.save(graph.model(*outputs), tmp_path / "g.onnx")
    return compare(tmp_path / "g.onnx", np.random.default_rng(1).random((3, *graph.shape), np.float32), **options)


def compare(path: Path, images: Any, **options: Any) -> Network:
    """Read a file, and hold what it gives for images in its own layout to onnxruntime."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    expected = dict(zip(names, session.run(names, {session.get_inputs()[0].name: images}), strict=True))
    network = read_onnx(path, **options)
    height, width, channels = network.tensors[network.input]
    last = images.shape[1:] == (height, width, channels)
    nhwc = images if last else np.moveaxis(images, 1, -1).reshape(len(images), height, width, channels)
    nhwc = np.ascontiguousarray(nhwc)
    qnet = quantise(network, nhwc)
    for index, (exit, real) in enumerate(zip(network.exits, run_float(network, nhwc), strict=True)):
        if exit.name in expected:  # else the host computes what the user has of it
            wanted = expected[exit.name].reshape(real.shape)
            np.testing.assert_allclose(real, wanted, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(wanted).max()))
            stored = golden.run(qnet, nhwc)[index]
            np.testing.assert_allclose(qnet.logits(index, stored), wanted, atol=4e-3 * max(1.0, np.abs(wanted).max()))
    whole = run_float_outputs(network, nhwc)
    if network.tail is not None:
        for name, values in network.tail.joined(network.tail.each(whole)).items():
            np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-5)
    for name, values in whole.items():
        if name not in expected:
            continue
        np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-5 * max(1.0, np.abs(values).max()))
        stored = golden.run_outputs(qnet, nhwc)[name]
        np.testing.assert_allclose(
            qnet.output(name, stored), expected[name], atol=4e-3 * max(1.0, np.abs(values).max())
        )
    return network


def shuffled(g: Graph, source: str, channels: int, groups: int) -> str:
    split = g.op("Reshape", source, g.const([0, groups, channels // groups, 6, 5], np.int64))
    return g.op("Reshape", g.op("Transpose", split, perm=[0, 2, 1, 3, 4]), g.const([0, channels, 6, 5], np.int64))


def test_a_shuffle_before_a_dense_convolution_is_free(tmp_path: Path) -> None:
    g = Graph()
    moved = shuffled(g, g.op("Relu", g.conv("image", 6, 3)), 6, 2)
    network = read(tmp_path, g, g.head(g.conv(moved, 4, 6), 4))
    assert [layer.kernel for layer in network.layers[:2]] == [(3, 3), (3, 3)]
    assert len(network.layers) == 4


def test_a_shuffle_goes_through_depthwise_convolutions_and_pools(tmp_path: Path) -> None:
    g = Graph()
    moved = shuffled(g, g.op("Relu", g.conv("image", 6, 3)), 6, 3)
    moved = g.op("MaxPool", g.conv(moved, 6, 6, groups=6, pads=[1, 1, 1, 1]), kernel_shape=[2, 2])
    network = read(tmp_path, g, g.head(g.conv(moved, 4, 6, 1), 4))
    assert [layer.groups for layer in network.layers if layer.kind is Kind.GEMM] == [1, 6, 1, 1]


def test_a_shuffle_between_grouped_convolutions_is_one_dense_layer(tmp_path: Path) -> None:
    """Where one group with zeros needs no more multiplications than a permuted 1x1 and the groups."""
    g = Graph()
    moved = shuffled(g, g.conv("image", 6, 3, groups=3), 6, 3)
    network = read(tmp_path, g, g.head(g.conv(moved, 6, 6, 1, groups=3), 6))
    assert [layer.groups for layer in network.layers[:2]] == [3, 1]
    g = Graph()
    moved = shuffled(g, g.conv("image", 6, 3, groups=3), 6, 3)
    network = read(tmp_path, g, g.head(g.conv(moved, 12, 6, 3, groups=3), 12))
    assert [(layer.groups, layer.kernel) for layer in network.layers[:3]] == [(3, (3, 3)), (1, (1, 1)), (3, (3, 3))]


def test_splits_and_slices_are_offsets(tmp_path: Path) -> None:
    g = Graph()
    value = g.op("Relu", g.conv("image", 6, 3))
    upper = g.op("Slice", value, g.const([2], np.int64), g.const([6], np.int64), g.const([1], np.int64))
    g.nodes.append(helper.make_node("Split", [value, g.const([4, 2], np.int64)], ["left", "right"], axis=1))
    joined = g.op("Concat", g.conv(upper, 2, 4), g.conv("left", 2, 4), g.conv("right", 2, 2, groups=2), axis=1)
    network = read(tmp_path, g, g.head(joined, 6))
    reads = [(layer.input_channel, layer.in_shape[2], layer.input_pixel) for layer in network.layers[1:4]]
    assert reads == [(2, 4, 6), (0, 4, 6), (4, 2, 6)]


def test_a_dense_block_copies_nothing(tmp_path: Path) -> None:
    """Each concatenation is read again and joined again: DenseNet."""
    g = Graph()
    value = g.op("Relu", g.conv("image", 4, 3))
    for count in (4, 6, 8):
        value = g.op("Concat", value, g.op("Relu", g.conv(value, 2, count, pads=[1, 1, 1, 1])), axis=1)
    network = read(tmp_path, g, g.head(value, 10))
    assert [layer.in_shape[2] for layer in network.layers] == [3, 4, 6, 8, 10, 10]
    assert len({layer.output for layer in network.layers[:4]}) == 1
    write_onnx(network, tmp_path / "again.onnx")
    assert read_onnx(tmp_path / "again.onnx").layers == network.layers


def test_half_of_a_shuffled_map_is_joined_again_by_one_layer(tmp_path: Path) -> None:
    """ShuffleNetV2's unit: one half goes on as it is, the other through convolutions."""
    g = Graph()
    value = g.op("Relu", g.conv("image", 8, 3))
    for _ in range(2):
        halves = shuffled(g, value, 8, 2)
        left = g.op("Split", halves, g.const([4, 4], np.int64), outputs=2, axis=1)
        right = g.op("Relu", g.conv(f"{left}_1", 4, 4, 1))
        value = g.op("Concat", left, right, axis=1)
    network = read(tmp_path, g, g.head(value, 8))
    assert [layer.groups for layer in network.layers if layer.kind is Kind.GEMM] == [1] * 6
    assert len(network.layers) == 7


def test_a_convolution_that_is_added_to_an_average_takes_its_gain(tmp_path: Path) -> None:
    """A sum pool divides by a power of two: what is left of 1 / 9 is in the weights, and no copy is made."""
    g = Graph()
    value = g.op("Relu", g.conv("image", 4, 3))
    mean = g.op("AveragePool", value, kernel_shape=[3, 3])
    total = g.op("Add", g.conv(value, 4, 4), mean)
    total = g.op("Relu", g.op("Add", total, g.conv(mean, 4, 4, 1)))
    network = read(tmp_path, g, g.head(total, 4))
    assert [layer.kind for layer in network.layers[:4]] == [Kind.GEMM, Kind.SUM_POOL, Kind.GEMM, Kind.GEMM]
    assert len(network.layers) == 6  # with the head's two
    assert network.gains[network.layers[3].output] == 16 / 9


def test_a_clip_of_what_is_clipped_already_costs_nothing(tmp_path: Path) -> None:
    g = Graph()
    value = g.op("Clip", g.conv("image", 4, 3), g.const(-1.0), g.const(0.5))
    again = g.op("Clip", value, g.const(-1.0), g.const(2.0))
    network = read(tmp_path, g, g.head(g.op("Concat", g.conv(value, 3, 4, 1), g.conv(again, 3, 4, 1), axis=1), 6))
    assert len(network.layers) == 5
    g = Graph()  # a border of zeros that no layer writes is outside a clip to 1..2
    value = g.op("Clip", g.conv("image", 2, 3), g.const(1.0), g.const(2.0))
    value = g.op("Pad", value, g.const([0, 1, 0, 0, 0, 1, 0, 0], np.int64))
    read(tmp_path, g, g.head(g.op("Clip", value, g.const(1.0), g.const(2.0)), 4))


def test_a_dense_block_that_lists_all_pieces_copies_nothing(tmp_path: Path) -> None:
    """As PyTorch's exporter writes DenseNet: each concatenation joins all maps so far."""
    g = Graph()
    pieces = [g.op("Relu", g.conv("image", 4, 3))]
    whole = pieces[0]
    for count in (4, 6, 8):
        pieces.append(g.op("Relu", g.conv(whole, 2, count, pads=[1, 1, 1, 1])))
        whole = g.op("Concat", *pieces, axis=1)
    network = read(tmp_path, g, g.head(g.op("Concat", *pieces, axis=1), 10))
    assert [layer.in_shape[2] for layer in network.layers] == [3, 4, 6, 8, 10, 10]
    assert len({layer.output for layer in network.layers[:4]}) == 1


def test_zeros_around_channels_cost_nothing(tmp_path: Path) -> None:
    """ResNet's shortcut without weights: every second pixel, and channels of zeros."""
    g = Graph()
    value = g.op("Relu", g.conv("image", 4, 3))
    facts = [g.const(one, np.int64) for one in ([0, 0], [99, 99], [2, 3], [2, 2])]
    short = g.op("Pad", g.op("Slice", value, *facts), g.const([0, 2, 0, 0, 0, 2, 0, 0], np.int64))
    total = g.op("Relu", g.op("Add", g.conv(value, 8, 4, strides=[2, 2], pads=[1, 1, 1, 1]), short))
    network = read(tmp_path, g, g.head(total, 8))
    copy = network.layers[1]
    assert (copy.stride, copy.shape.macs, copy.channels, copy.output_channel) == ((2, 2), 4 * 9, 4, 2)
    assert network.tensors[copy.output] == (3, 3, 8)
    assert len(network.layers) == 5


@pytest.mark.parametrize("kernel", [2, 3])
def test_the_average_without_padding_is_exact_for_windows_of_two_and_three(tmp_path: Path, kernel: int) -> None:
    """A constant map keeps one stored value everywhere, border included: all rectangles round one sum."""
    g = Graph()
    value = g.op("Relu", g.conv("image", 4, 3))
    average = g.op("AveragePool", value, kernel_shape=[kernel] * 2, pads=[1] * 4)
    network = read(tmp_path, g, g.head(average, 4))
    tiles = [layer for layer in network.layers if layer.output == network.layers[1].output]
    assert sorted(layer.kind.value for layer in tiles) == ["gemm"] * 8 + ["sum_pool"]
    qnet = quantise(network, np.random.default_rng(1).random((3, 8, 7, 3), np.float32))
    flat = np.full((1, 6, 5, 4), 12345, np.int16)
    tensors = {network.input: np.zeros((1, 8, 7, 3), np.int16), network.layers[0].output: flat}
    out = np.zeros((1, *network.tensors[tiles[0].output]), np.int16)
    for qlayer in qnet.layers:
        if qlayer.layer in tiles:
            qlayer.layer.written(out)[...] = golden.run_layer(qlayer, tensors[qlayer.layer.input])
    assert len(np.unique(out)) == 1


def test_normalisation_before_an_unpadded_convolution_costs_nothing(tmp_path: Path) -> None:
    g = Graph()
    value = g.op("Div", g.op("Sub", "image", g.const(0.5)), g.const([[[0.2]], [[0.3]], [[0.4]]]))
    assert len(read(tmp_path, g, g.head(g.conv(value, 4, 3), 4)).layers) == 3
    g = Graph()
    value = g.op("Sub", "image", g.const(0.5))  # zeros come after the offset, so it takes a layer
    assert len(read(tmp_path, g, g.head(g.conv(value, 4, 3, pads=[1, 1, 1, 1]), 4)).layers) == 4
    g = Graph()
    value = g.batch_norm(g.op("Relu", g.conv("image", 4, 3)), 4)
    assert len(read(tmp_path, g, g.head(g.conv(value, 4, 4, groups=2), 4)).layers) == 4


def test_channels_last_images_of_bytes(tmp_path: Path) -> None:
    g = Graph()
    image = g.op("Transpose", g.op("Div", g.op("Cast", "image", to=1), g.const(255.0)), perm=[0, 3, 1, 2])
    proto = g.model(g.head(g.conv(image, 4, 3, pads=[1, 1, 1, 1]), 4))
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("image", TensorProto.UINT8, ["N", 8, 7, 3]))
    onnx.save(proto, tmp_path / "u.onnx")
    network = compare(tmp_path / "u.onnx", np.random.default_rng(1).integers(0, 256, (3, 8, 7, 3), np.uint8))
    assert network.tensors["image"] == (8, 7, 3)
    assert len(network.layers) == 3


def test_every_second_pixel_of_an_image_of_bytes(tmp_path: Path) -> None:
    g = Graph()
    facts = [g.const(one, np.int64) for one in ([1], [99], [2], [2])]
    half = g.op("Slice", g.op("Gather", "image", g.const([2, 0], np.int64), axis=1), *facts)
    image = g.op("Cast", half, to=1)
    proto = g.model(g.head(g.conv(image, 4, 2), 4))
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("image", TensorProto.UINT8, ["N", 3, 8, 7]))
    onnx.save(proto, tmp_path / "u.onnx")
    compare(tmp_path / "u.onnx", np.random.default_rng(1).integers(0, 256, (3, 3, 8, 7), np.uint8))


def test_shares_of_classes_are_not_cut(tmp_path: Path) -> None:
    g = Graph()
    shares = g.op("Softmax", g.head(g.conv("image", 4, 3), 4), axis=1)
    cut = g.op("Slice", shares, *(g.const([one], np.int64) for one in (0, 2, 1)))
    network = read(tmp_path, g, cut)  # so the host computes the shares, and cuts them
    assert network.tail is not None
    assert [one.operator for one in network.tail.nodes] == ["Softmax", "Slice"]
    g = Graph()
    heat = g.op("Sigmoid", g.conv("image", 4, 3))
    cut = g.op("Slice", heat, *(g.const([one], np.int64) for one in (0, 99, 2, 2)))
    network = read(tmp_path, g, cut)
    assert network.tail is not None
    assert [one.operator for one in network.tail.nodes] == ["Sigmoid", "Slice"]
    g = Graph()
    heat = g.op("Sigmoid", g.conv("image", 4, 3))  # of channels it is the same before and after
    network = read(tmp_path, g, g.op("Slice", heat, *(g.const([one], np.int64) for one in (1, 3, 1))))
    assert network.outputs[0].channels == (1, 2)


def test_signals_are_lines(tmp_path: Path) -> None:
    g = Graph(shape=(2, 24))
    value = g.op("Relu", g.op("Conv", "image", g.random(6, 2, 5), g.random(6), pads=[2, 2], strides=[2]))
    value = g.op("MaxPool", value, kernel_shape=[3], pads=[1, 1])
    value = g.op("AveragePool", value, kernel_shape=[3], pads=[1, 1])
    value = g.batch_norm(g.op("Conv", value, g.random(6, 1, 3), group=6), 6)
    flat = g.op("Flatten", g.op("GlobalAveragePool", value))
    network = read(tmp_path, g, g.op("Gemm", flat, g.random(4, 6), transB=1))
    assert network.tensors["image"] == (1, 24, 2)
    assert network.layers[0].kernel == (1, 5)


# -- what leaves the network --------------------------------------------------------------------------------


def test_maps_and_gates_of_them_are_outputs_of_one_stage(tmp_path: Path) -> None:
    g = Graph()
    trunk = g.op("Relu", g.conv("image", 6, 3))
    heat = g.op("Sigmoid", g.conv(trunk, 2, 6, 1))
    classes = g.op("Softmax", g.conv(trunk, 3, 6, 1), axis=1)
    network = read(tmp_path, g, heat, classes)
    assert [(exit.name, exit.logits) for exit in network.exits] == [("final", None)]
    assert [(one.name, one.shape, one.activation) for one in network.outputs] == [
        (heat, (2, 6, 5), "sigmoid"),
        (classes, (3, 6, 5), "softmax"),
    ]
    assert network.workload.exits == ("final",)


def test_an_output_belongs_to_the_first_stage_that_can_compute_it(tmp_path: Path) -> None:
    g = Graph()
    early = g.op("Relu", g.conv("image", 4, 3))
    late = g.op("Relu", g.conv(early, 6, 4))
    first, heat, mask, last = g.head(early, 4), g.conv(early, 2, 4, 1), g.conv(late, 2, 6, 1), g.head(late, 6)
    network = read(tmp_path, g, first, heat, mask, last)
    assert [exit.name for exit in network.exits] == [first, last]
    assert {one.name: one.stage for one in network.outputs} == {heat: 0, mask: 1}
    stages = {layer.output: layer.stage for layer in network.layers}
    assert [stages[one.tensor] for one in network.outputs] == [0, 1]


def test_one_number_is_no_class_and_boxes_are_no_exit(tmp_path: Path) -> None:
    g = Graph()
    flat = g.op("Flatten", g.op("GlobalAveragePool", g.op("Relu", g.conv("image", 6, 3))))
    classes, boxes, score = (g.op("Gemm", flat, g.random(6, n)) for n in (3, 4, 1))
    heads = read(tmp_path, g, classes, boxes, score)  # of one trunk: nobody leaves between them
    assert [exit.logits for exit in heads.exits] == [None]
    assert {one.name: one.shape for one in heads.outputs} == {classes: (3,), boxes: (4,), score: (1,)}
    network = read(tmp_path, g, classes, boxes, score, exits=[classes])
    assert [exit.name for exit in network.exits] == [classes]
    assert [(one.name, one.shape) for one in network.outputs] == [(boxes, (4,)), (score, (1,))]


def test_a_slice_of_the_logits_is_an_exit_of_its_own_tensor(tmp_path: Path) -> None:
    g = Graph()
    flat = g.op("Flatten", g.op("GlobalAveragePool", g.op("Relu", g.conv("image", 6, 3))))
    both = g.op("Gemm", flat, g.random(6, 8))
    g.nodes.append(helper.make_node("Split", [both, g.const([4, 4], np.int64)], ["a", "b"], axis=1))
    network = read(tmp_path, g, "a", "b", exits=["a"])
    assert network.tensors[network.exits[0].classes] == (1, 1, 4)
    assert network.outputs[0].channels == (4, 5, 6, 7)


def test_an_output_says_what_it_must_be() -> None:
    fields: dict[str, Any] = {"name": "o", "tensor": "t", "shape": (2, 3), "axes": "cw", "split": (2,)}
    assert Output.of(Output(**fields).facts()) == Output(**fields)
    with pytest.raises(NetworkError, match="must end in one of"):
        Output(**fields, activation="tanh")
    with pytest.raises(NetworkError, match="must end in one of"):
        Output(**fields, activation="softmax", axis=3)
    with pytest.raises(NetworkError, match="must have axes h and w once and a c for each"):
        Output(**{**fields, "axes": "ww"})


# -- refusals that teach ------------------------------------------------------------------------------------

FITS = r"^fluidnpu takes image CNNs \(one image in, NCHW or NHWC, of fixed size; convolutions, pools, upsampling, dense layers"


def message(tmp_path: Path, proto: onnx.ModelProto, **options: Any) -> str:
    onnx.save(proto, tmp_path / "no.onnx")
    with pytest.raises(NetworkError) as caught:
        read_onnx(tmp_path / "no.onnx", **options)
    assert len(str(caught.value)) < 800
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_sequences_attention_and_recurrence(tmp_path: Path) -> None:
    tokens = Graph(shape=(16,))
    proto = tokens.model(tokens.op("Gather", tokens.random(10, 8), "image", axis=0))
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("image", TensorProto.INT64, ["N", 16]))
    assert re.search(FITS + ".*holds INT64, as tokens do; a sequence model needs another", message(tmp_path, proto))
    g = Graph(shape=(4, 8))
    keys = g.op("Transpose", "image", perm=[0, 2, 1])
    told = message(tmp_path, g.model(g.op("Softmax", g.op("MatMul", "image", keys))))
    assert re.search(FITS + ".*operator MatMul multiplies two activations, as attention does", told)
    for operator in ("LayerNormalization", "LSTM", "MaxUnpool", "Erf", "TopK"):
        g = Graph()
        told = message(tmp_path, g.model(g.head(g.op(operator, g.conv("image", 4, 3)), 4)))
        assert re.search(FITS + f".*node 'n1': operator {operator} is not supported; .*", told), told


def test_dynamic_sizes_and_many_inputs_teach_the_export(tmp_path: Path) -> None:
    g = Graph()
    proto = g.model(g.head(g.conv("image", 4, 3), 4))
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, "H", "W"]))
    assert re.search(FITS + r".*not \('N', 3, 'H', 'W'\); say its size with --input", message(tmp_path, proto))
    proto.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["N", 3]))
    proto.graph.output.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, None))
    assert re.search(FITS + r".*it has 2 inputs \(image, mask\); export the model with", message(tmp_path, proto))


def test_refusals_name_node_operator_and_remedy(tmp_path: Path) -> None:
    g = Graph()
    onnx.save(g.model(g.head(g.op("LRN", g.conv("image", 4, 3), size=3), 4)), tmp_path / "lrn.onnx")
    with pytest.raises(UnsupportedOperatorError) as caught:
        read_onnx(tmp_path / "lrn.onnx")
    assert (caught.value.node, caught.value.operator) == ("n1", "LRN")
    assert "sum of squares" in caught.value.suggestion


# -- the limit of weights -----------------------------------------------------------------------------------


def constants(g: Graph, size: int) -> str:
    """Weights made by a node and transposed by another: each counts once, while it is needed."""
    made = g.op("Transpose", g.op("ConstantOfShape", g.const([size, 4], np.int64)), perm=[1, 0])
    flat = g.op("Flatten", g.conv("image", 2, 3))
    return g.op("Gemm", flat, made, transB=1)


def test_constants_count_once_while_they_are_needed(tmp_path: Path) -> None:
    g = Graph()
    onnx.save(g.model(constants(g, 60)), tmp_path / "w.onnx")
    needed = 2 * 60 * 4  # the constant and its transpose, at one time
    assert read_onnx(tmp_path / "w.onnx", most_weights=needed).workload.macs > 0
    told = message(tmp_path, g.model(constants(g, 60)), most_weights=needed - 1)
    assert "must have at most 479 weights and constants, and it has more; a larger --most-weights" in told
    with pytest.raises(NetworkError, match="must be at least 1, not 0"):
        read_onnx(tmp_path / "w.onnx", most_weights=0)


def test_weights_of_layers_count_however_often_a_constant_is_used(tmp_path: Path) -> None:
    g = Graph()
    weights, value = g.random(3, 3, 3, 3), "image"
    for _ in range(3):
        value = g.op("Conv", value, weights)
    proto = g.model(g.op("Flatten", g.op("GlobalAveragePool", value)))
    assert "weights and constants" in message(tmp_path, proto, most_weights=3 * 81 - 1)
    onnx.save(proto, tmp_path / "enough.onnx")
    assert len(read_onnx(tmp_path / "enough.onnx", most_weights=3 * 81).layers) == 4
