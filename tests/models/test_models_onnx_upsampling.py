"""Operators that write more pixels than they read, against onnxruntime, golden, and through a file written
here.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_models_onnx_operators import Graph

from fluidnpu.models import Kind, Network, golden, quantise, read_onnx
from fluidnpu.models.errors import ModelsError
from fluidnpu.models.numeric.float_reference import run_float_outputs
from fluidnpu.models.onnx.writing.export import build_onnx

onnxruntime = pytest.importorskip("onnxruntime")
Floats = npt.NDArray[np.float32]

PROPERTY = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def network_of(graph: Graph, output: str, folder: Path) -> Network:
    onnx.save(graph.model(output), folder / "net.onnx")
    return read_onnx(folder / "net.onnx")


def wanted(path: Path, values: Floats) -> Floats:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    found: Floats = session.run(None, {"image": values})[0]
    return found


def compare(folder: Path, graph: Graph, output: str) -> Network:
    """Hold float, golden and the file written from the network to onnxruntime; return the network."""
    network = network_of(graph, output, folder)
    shape = graph.shape if len(graph.shape) == 3 else (graph.shape[0], 1, graph.shape[1])
    images = np.random.default_rng(1).random((2, shape[1], shape[2], shape[0]), np.float32)
    values = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(2, *graph.shape)
    real = wanted(folder / "net.onnx", values)
    (name,) = (one.name for one in network.outputs)
    np.testing.assert_allclose(run_float_outputs(network, images)[name], real, rtol=1e-4, atol=1e-5)
    qnet = quantise(network, images)
    stored = golden.run_outputs(qnet, images)[name]
    np.testing.assert_allclose(qnet.output(name, stored), real, atol=4e-3 * max(1.0, np.abs(real).max()))
    onnx.save(build_onnx(network), folder / "again.onnx")
    again = read_onnx(folder / "again.onnx")
    np.testing.assert_allclose(run_float_outputs(again, images)[name], real, rtol=1e-4, atol=1e-5)
    if len(graph.shape) == 3:  # a line is written as a map of one row
        np.testing.assert_allclose(wanted(folder / "again.onnx", values), real, rtol=1e-4, atol=1e-5)
    return network


@PROPERTY
@given(st.integers(0, 10_000))
def test_any_transposed_convolution(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = Graph(shape=(3, *(int(n) for n in rng.integers(2, 6, 2))))
    channels, groups = 4, int(rng.choice([1, 2, 4]))
    source = graph.conv("image", channels, 3, 1)
    kernel, stride, dilation = rng.integers(1, 5, 2), rng.integers(1, 4, 2), rng.integers(1, 3, 2)
    reach = (kernel - 1) * dilation + 1
    pads = [int(rng.integers(0, min(r, 3))) for r in (*reach, *reach)]
    more = [int(rng.integers(0, s)) for s in stride]
    weights = graph.random(channels, int(rng.integers(1, 4)), *kernel)
    bias = [graph.random(int(graph.constants[-1].dims[1]) * groups)] if rng.random() < 0.7 else []
    facts: dict[str, Any] = {"strides": stride.tolist(), "dilations": dilation.tolist(), "group": groups}
    sizes = [
        s * (n - 1) + o + r - pads[i] - pads[i + 2]
        for i, (s, n, o, r) in enumerate(zip(stride, graph.shape[1:], more, reach, strict=True))
    ]
    if min(sizes) < 1:
        return
    how = rng.integers(0, 3)
    if how == 0:
        facts |= {"pads": pads, "output_padding": more}
    elif how == 1 and min(r - s for r, s in zip(reach, stride, strict=True)) >= 0:
        facts |= {"auto_pad": str(rng.choice(["SAME_UPPER", "SAME_LOWER"]))}
    up = graph.op("ConvTranspose", source, weights, *bias, **facts)
    if rng.random() < 0.5:
        up = graph.op("Relu", up)
    network = compare(tmp_path, graph, up)
    step = tuple(int(s) for s in stride)
    assert all(layer.output_step in (step, (1, 1)) or min(step) > 1 for layer in network.layers)


@PROPERTY
@given(st.integers(0, 10_000))
def test_any_resize(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = Graph(shape=(3, *(int(n) for n in rng.integers(2, 6, 2))), opset=int(rng.choice([13, 18])))
    source = graph.op("Relu", graph.conv("image", 4, 3, 1)) if rng.random() < 0.7 else "image"
    if rng.random() < 0.3:
        source = graph.op("Add", graph.op("Mul", source, graph.random(1, 1, 1)), graph.random(1, 1, 1))
    linear = rng.random() < 0.6
    facts: dict[str, Any] = {"mode": "linear" if linear else "nearest"}
    modes = ["half_pixel", "pytorch_half_pixel", "asymmetric"] if linear else ["half_pixel", "asymmetric"]
    facts["coordinate_transformation_mode"] = str(rng.choice(modes))
    facts["nearest_mode"] = str(rng.choice(["round_prefer_floor", "floor", "round_prefer_ceil", "ceil"]))
    scales = [int(n) for n in rng.choice([1, 2, 2, 4], 2)]
    if rng.random() < 0.5:
        inputs = ["", graph.const([1, 1, *scales])]
    else:
        sizes = [2, _channels(graph), *np.multiply(scales, graph.shape[1:])]
        inputs = ["", "", graph.const(sizes, np.int64)]
    up = graph.op("Resize", source, *inputs, **facts)
    made = graph.conv(up, 2, _channels(graph), 3, pads=[1, 1, 1, 1])
    compare(tmp_path, graph, made)


def _channels(graph: Graph) -> int:
    return 4 if any(node.op_type == "Conv" for node in graph.nodes) else graph.shape[0]


@PROPERTY
@given(st.integers(0, 10_000))
def test_any_shuffle_of_pixels(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    block, each = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    graph = Graph(shape=(3, *(int(n) for n in rng.integers(2, 5, 2))))
    source = graph.conv("image", each * block**2, 3, int(rng.choice([1, 3])), pads=[1, 1, 1, 1])
    if rng.random() < 0.5:
        source = graph.op("Relu", source)
    if rng.random() < 0.3:
        graph.op("Neg", source)  # nobody needs it, so nothing changes
    elif rng.random() < 0.5:
        source = graph.op("Concat", source, source, axis=1)
    up = graph.op("DepthToSpace", source, blocksize=block, mode=str(rng.choice(["DCR", "CRD"])))
    if rng.random() < 0.5:
        up = graph.op("SpaceToDepth", graph.op("Relu", up), blocksize=block)
    compare(tmp_path, graph, up)


def test_a_transposed_convolution_multiplies_no_zeros(tmp_path: Path) -> None:
    """Four phases of 2 x 2 taps: as many multiplications as a 4 x 4 kernel has at stride 2."""
    graph = Graph()
    source = graph.op("Relu", graph.conv("image", 6, 3))
    up = graph.op("ConvTranspose", source, graph.random(6, 5, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1])
    phases = compare(tmp_path, graph, up).layers[1:]
    assert [(one.output_at, one.output_step) for one in phases] == [((r, c), (2, 2)) for r in (0, 1) for c in (0, 1)]
    assert sum(one.shape.macs for one in phases) == 6 * 5 * 4 * 4 * 6 * 5
    assert {one.output for one in phases} == {phases[0].output}


@pytest.mark.parametrize(
    ("kernel", "facts"),
    [
        (3, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        (3, {"strides": [3, 2], "pads": [0, 1, 1, 0]}),
        (1, {"strides": [2, 2]}),
        (3, {"strides": [3, 3], "dilations": [2, 2], "pads": [2, 2, 2, 2], "group": 2}),
    ],
)
def test_phases_of_odd_sizes_are_written_as_the_one_operator_that_they_were(
    kernel: int, facts: dict[str, Any], tmp_path: Path
) -> None:
    graph = Graph()
    source = graph.op("Relu", graph.conv("image", 4, 3))
    weights = graph.random(4, 3, kernel, kernel)
    up = graph.op("ConvTranspose", source, weights, graph.random(3 * int(facts.get("group", 1))), **facts)
    network = compare(tmp_path, graph, up)
    again = onnx.load(tmp_path / "again.onnx")
    assert [node.op_type for node in again.graph.node].count("ConvTranspose") == 1
    assert read_onnx(tmp_path / "again.onnx").layers == network.layers


def test_what_follows_is_folded_into_the_phases(tmp_path: Path) -> None:
    """Normalisation, a shortcut of the large map and ReLU cost no layer; a small one is added where it is."""
    graph = Graph(shape=(3, 8, 8))
    skip = graph.op("Relu", graph.conv("image", 4, 3, pads=[1, 1, 1, 1]))
    deep = graph.op("Relu", graph.conv(skip, 6, 4, pads=[1, 1, 1, 1], strides=[2, 2]))
    up = graph.batch_norm(graph.op("ConvTranspose", deep, graph.random(6, 4, 2, 2), strides=[2, 2]), 4)
    output = graph.op("Relu", graph.op("Add", up, skip))
    network = compare(tmp_path, graph, output)
    assert [layer.kind for layer in network.layers] == [Kind.GEMM] * 6
    assert [layer.residual_at for layer in network.layers[2:]] == [layer.output_at for layer in network.layers[2:]]
    assert {(layer.residual_step, layer.clip) for layer in network.layers[2:]} == {((2, 2), (0.0, None))}
    assert read_onnx(tmp_path / "again.onnx").layers == network.layers


def test_pixels_of_a_convolution_are_written_where_they_go(tmp_path: Path) -> None:
    graph = Graph()
    up = graph.op("DepthToSpace", graph.conv("image", 8, 3, pads=[1, 1, 1, 1]), blocksize=2, mode="CRD")
    network = compare(tmp_path, graph, graph.op("Relu", up))
    assert len(network.layers) == 4
    assert sum(layer.shape.macs for layer in network.layers) == 8 * 7 * 8 * 27
    assert read_onnx(tmp_path / "again.onnx").layers == network.layers


def test_a_pyramid_joins_and_adds_what_was_resized(tmp_path: Path) -> None:
    graph = Graph(shape=(3, 8, 8))
    fine = graph.op("Relu", graph.conv("image", 4, 3, pads=[1, 1, 1, 1]))
    coarse = graph.conv(fine, 4, 4, pads=[1, 1, 1, 1], strides=[2, 2])
    scales = graph.const([1, 1, 2, 2])
    near = graph.op("Resize", coarse, "", scales, coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    smooth = graph.op("Resize", coarse, "", scales, mode="linear")
    both = graph.op("Concat", graph.op("Add", graph.conv(fine, 4, 4, 1), near), smooth, axis=1)
    network = compare(tmp_path, graph, graph.conv(both, 3, 8, 1))
    assert read_onnx(tmp_path / "again.onnx").layers == network.layers


@pytest.mark.parametrize("size", [(9, 10), (3, 5), (5, 4), (12, 8)])
def test_factors_that_are_not_whole(size: tuple[int, int], tmp_path: Path) -> None:
    graph = Graph(shape=(2, 6, 5))
    sizes = graph.const([2, 2, *size], np.int64)
    up = graph.op("Resize", graph.conv("image", 2, 2, 1), "", "", sizes, coordinate_transformation_mode="asymmetric")
    compare(tmp_path, graph, up)


def test_corners_may_be_aligned_where_that_is_regular(tmp_path: Path) -> None:
    graph = Graph(shape=(2, 5, 4))
    sizes = graph.const([2, 2, 9, 7], np.int64)
    how: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    network = compare(tmp_path, graph, graph.op("Resize", graph.conv("image", 2, 2, 1), "", "", sizes, **how))
    assert len(network.layers) == 5


POOLED = [("linear", "align_corners"), ("linear", "half_pixel"), ("nearest", "asymmetric")]


@pytest.mark.parametrize(("mode", "coordinates"), POOLED)
@pytest.mark.parametrize(("size", "layers"), [((12, 10), 5), ((40, 3), 12)])
def test_one_pixel_is_repeated(mode: str, coordinates: str, size: Any, layers: int, tmp_path: Path) -> None:
    """Image pooling of DeepLab and PSPNet: a map of one pixel becomes one of the size of its neighbours."""
    graph = Graph()
    pooled = graph.conv(graph.op("GlobalAveragePool", graph.conv("image", 4, 3)), 5, 4, 1)
    facts: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    up = graph.op("Resize", pooled, "", "", graph.const([2, 5, *size], np.int64), **facts)
    network = compare(tmp_path, graph, up)
    assert len(network.layers) <= layers  # and not one a pixel
    assert read_onnx(tmp_path / "again.onnx").layers == network.layers


def test_a_large_factor_is_taken_along_rows_and_then_along_columns(tmp_path: Path) -> None:
    graph = Graph(shape=(2, 3, 2))
    up = graph.op("Resize", "image", "", graph.const([1, 1, 8, 8]), mode="linear")
    network = compare(tmp_path, graph, graph.op("Relu", up))
    assert len(network.layers) == 16 + 16  # and not 16 * 16
    assert sum(math.prod(layer.out_hw) for layer in network.layers) == 3 * 16 + 24 * 16  # columns first: fewer pixels


def test_aligned_corners_are_taken_along_each_axis(tmp_path: Path) -> None:
    graph = Graph(shape=(2, 6, 5))
    sizes = graph.const([2, 2, 12, 20], np.int64)
    how: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    network = compare(tmp_path, graph, graph.op("Resize", graph.conv("image", 2, 2, 1), "", "", sizes, **how))
    assert len(network.layers) == 1 + 11 + 19  # first and last pixels share their window


def test_lines_grow_along_their_own_axis(tmp_path: Path) -> None:
    graph = Graph(shape=(3, 9))
    weights = graph.random(3, 4, 4)
    up = graph.op("ConvTranspose", "image", weights, graph.random(4), strides=[2], pads=[1, 1])
    up = graph.op("Resize", up, "", graph.const([1, 1, 2]), mode="linear")
    network = compare(tmp_path, graph, up)
    assert {layer.output_step for layer in network.layers} == {(1, 2)}


@pytest.mark.parametrize("opset", [7, 9, 10])
def test_earlier_opsets_resize_by_scales(opset: int, tmp_path: Path) -> None:
    graph = Graph(shape=(2, 3, 4), opset=opset)
    source = graph.conv("image", 2, 2, 1)
    if opset == 7:
        up = graph.op("Upsample", source, mode="nearest", scales=[1.0, 1.0, 2.0, 3.0])
    else:
        up = graph.op("Upsample" if opset == 9 else "Resize", source, graph.const([1, 1, 2, 3]), mode="linear")
    compare(tmp_path, graph, up)


def test_a_resize_to_the_same_size_is_nothing(tmp_path: Path) -> None:
    graph = Graph()
    up = graph.op("Resize", graph.conv("image", 2, 3), "", graph.const([1, 1, 1, 1]), mode="linear")
    assert len(compare(tmp_path, graph, up).layers) == 1


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "strides": ("ConvTranspose", {"weights": (3, 2, 3, 3), "strides": [9, 9]}, "strides whose product is at most 64"),
    "groups": ("ConvTranspose", {"weights": (3, 2, 3, 3), "group": 2}, "weights for 3 channels in 2 groups"),
    "channels": ("ConvTranspose", {"weights": (4, 2, 3, 3)}, "weights for 3 channels in 1 groups"),
    "rank": ("ConvTranspose", {"weights": (3, 2, 3)}, "the NPU is two-dimensional"),
    "empty": ("ConvTranspose", {"weights": (3, 2, 3, 3), "pads": [9, 9, 9, 9]}, "output of sizes 1..65536"),
    "huge": ("ConvTranspose", {"weights": (3, 2, 3, 3), "output_shape": [1 << 20, 4]}, "2 sizes of 1..65536"),
    "auto": ("ConvTranspose", {"weights": (3, 2, 3, 3), "auto_pad": "SIDEWAYS"}, "not 'SIDEWAYS'"),
    "block": ("DepthToSpace", {"blocksize": 2}, "a blocksize of 1..8 whose square divides 3 channels"),
    "mode": ("DepthToSpace", {"blocksize": 1, "mode": "XYZ"}, "not 1 and 'XYZ'"),
    "pixels": ("SpaceToDepth", {"blocksize": 3}, "divides 8 x 7 pixels"),
    "cubic": ("Resize", {"scales": [1, 1, 2, 2], "mode": "cubic"}, "mode 'cubic'.*use nearest or bilinear"),
    "corners": (
        "Resize",
        {"scales": [1, 1, 25, 25], "mode": "linear", "coordinate_transformation_mode": "align_corners"},
        "more than 128 kinds of windows along an axis; resize by a whole factor of at most 64",
    ),
    "batch": ("Resize", {"scales": [2, 1, 2, 2]}, "resizes the batch or the channels"),
    "axes": ("Resize", {"scales": [2, 2]}, "a number for each of its 4 axes"),
    "nothing": ("Resize", {}, "must have scales or sizes"),
    "negative": ("Resize", {"scales": [1, 1, -2, 2]}, "output of sizes 1..65536"),
    "large": ("Resize", {"scales": [1, 1, 5000, 5000]}, "at most 134217728 values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    operator, facts, words = REFUSED[name]
    graph, facts = Graph(), dict(facts)
    inputs = []
    if "weights" in facts:
        inputs = [graph.random(*facts.pop("weights"))]
    if "scales" in facts:
        inputs = ["", graph.const(facts.pop("scales"))]
    up = graph.op(operator, graph.conv("image", 3, 3, 1), *inputs, **facts)
    if name == "corners":  # a layer behind it, so that the host cannot do it
        up = graph.conv(up, 3, 3)
    with pytest.raises(ModelsError) as told:
        network_of(graph, up, tmp_path)
    assert re.search(words, str(told.value)), told.value
    assert "n1" in str(told.value)
    assert "\n" not in str(told.value)
