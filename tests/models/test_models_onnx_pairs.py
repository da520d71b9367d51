"""Differences, maxima, minima, tiles, pieces of one step: against onnxruntime, golden and a file again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from test_models_onnx_operators import Graph
from test_models_onnx_upsampling import compare

from fluidnpu.models import read_onnx
from fluidnpu.models.numeric.float_reference import run_float_outputs

BUILT: dict[str, tuple[Callable[[Graph], str], int]] = {}  # with the layers that it takes


def case(layers: int) -> Callable[[Callable[[Graph], str]], Callable[[Graph], str]]:
    def keep(build: Callable[[Graph], str]) -> Callable[[Graph], str]:
        BUILT[build.__name__] = build, layers
        return build

    return keep


@case(1)
def residual_of_the_image(g: Graph) -> str:
    """DnCNN: what is subtracted is the noise, and the layer that finds it turns its sign."""
    return g.op("Sub", "image", g.conv("image", 3, 3, pads=[1, 1, 1, 1]))


@case(1)
def difference_of_two_layers(g: Graph) -> str:
    """Of one input: they are one convolution."""
    return g.op("Relu", g.op("Sub", g.conv("image", 4, 3), g.conv("image", 4, 3, (3, 3))))


@case(3)
def difference_of_what_is_clipped(g: Graph) -> str:
    """The sign of what has met a ReLU is turned in a copy, which adds the other."""
    return g.op("Sub", g.op("Relu", g.conv("image", 4, 3)), g.op("Relu", g.conv("image", 4, 3)))


@case(3)
def twice_itself_less_itself(g: Graph) -> str:
    value = g.conv("image", 4, 3)
    return g.op("Sub", value, value)


@case(3)
def what_is_subtracted_is_read_again(g: Graph) -> str:
    value = g.conv("image", 4, 3)
    return g.op("Concat", g.op("Sub", g.conv("image", 4, 3), value), value, axis=1)


@case(1)
def bounds_of_all_channels(g: Graph) -> str:
    return g.op("Min", g.op("Max", g.conv("image", 4, 3), g.const(0.0)), g.const([[[0.6]]]))


@case(3)
def bounds_of_each_channel(g: Graph) -> str:
    value = g.op("Max", g.conv("image", 2, 3), g.const([[[0.1]], [[-0.2]]]))
    return g.conv(g.op("Min", g.const([[[0.4]], [[0.5]]]), value), 3, 2, 1)


@case(4)
def largest_of_two_halves(g: Graph) -> str:
    """Max-feature-map, as of LightCNN."""
    value = g.op("Split", g.conv("image", 6, 3), g.const([3, 3], np.int64), outputs=2, axis=1)
    return g.op("Max", value, f"{value}_1")


@case(2)
def largest_of_itself(g: Graph) -> str:
    value = g.conv("image", 2, 3)
    return g.op("Relu", g.op("Max", value, value))


@case(8)
def least_of_three_and_a_bound(g: Graph) -> str:
    values = [g.conv("image", 2, 3) for _ in range(3)]
    return g.op("Min", values[0], g.const(0.3), *values[1:])


@case(2)
def tiled_channels(g: Graph) -> str:
    return g.conv(g.op("Tile", g.conv("image", 2, 3), g.const([1, 3, 1, 1], np.int64)), 3, 6, 1)


@case(6)
def tiled_maps(g: Graph) -> str:
    return g.op("Tile", g.op("Relu", g.conv("image", 2, 3)), g.const([1, 1, 2, 3], np.int64))


@case(5)
def expanded_pixel(g: Graph) -> str:
    value = g.conv("image", 2, 3)
    pixel = g.op("Expand", g.op("GlobalAveragePool", value), g.const([1, 1, 6, 5], np.int64))
    return g.conv(g.op("Concat", value, pixel, axis=1), 3, 4, 1)


@case(3)
def last_row(g: Graph) -> str:
    row = g.op("Gather", g.op("Relu", g.conv("image", 4, 3)), g.const(-1, np.int64), axis=2)
    return g.op("Conv", row, g.random(3, 4, 2))


@case(2)
def some_columns(g: Graph) -> str:
    return g.conv(g.op("Gather", g.conv("image", 4, 3), g.const([1, 2, 3], np.int64), axis=3), 3, 4, 1)


@case(2)
def a_row_of_what_was_moved(g: Graph) -> str:
    moved = g.op("Transpose", g.conv("image", 4, 3), perm=[0, 2, 3, 1])
    facts = [g.const([number], np.int64) for number in (2, 3, 1)]
    return g.op("Squeeze", g.op("Slice", moved, *facts), g.const([1], np.int64))


@pytest.mark.parametrize("name", BUILT)
def test_it_equals_onnxruntime(name: str, tmp_path: Path) -> None:
    build, layers = BUILT[name]
    graph = Graph()
    assert len(compare(tmp_path, graph, build(graph)).layers) == layers


def test_the_last_step_of_a_sequence_is_a_vector(tmp_path: Path) -> None:
    graph = Graph(shape=(3, 9))
    steps = graph.op("Relu", graph.op("Conv", "image", graph.random(4, 3, 3), pads=[2, 0]))
    last = graph.op("Gather", steps, graph.const(-1, np.int64), axis=2)
    network = compare(tmp_path, graph, graph.op("Gemm", last, graph.random(4, 1)))
    assert len(network.layers) == 3


def test_a_sequence_is_tiled_along_its_length(tmp_path: Path) -> None:
    graph = Graph(shape=(3, 5))
    value = graph.op("Conv", "image", graph.random(4, 3, 3))
    assert len(compare(tmp_path, graph, graph.op("Tile", value, graph.const([1, 1, 2], np.int64))).layers) == 3


def test_the_host_repeats_what_an_activation_ends(tmp_path: Path) -> None:
    graph = Graph()
    gate = graph.op("Sigmoid", graph.op("GlobalAveragePool", graph.conv("image", 4, 3)))
    onnx.save(graph.model(graph.op("Expand", gate, graph.const([1, 4, 3, 2], np.int64))), tmp_path / "gate.onnx")
    assert read_onnx(tmp_path / "gate.onnx").tail is not None


@pytest.mark.parametrize("operator", ["Max", "Min"])
def test_a_square_map_and_its_transpose_are_two_values(operator: str, tmp_path: Path) -> None:
    graph = Graph(shape=(3, 6, 6))
    value = graph.conv("image", 4, 3)
    turned = graph.op("Transpose", value, perm=[0, 1, 3, 2])
    onnx.save(graph.model(graph.op(operator, value, turned)), tmp_path / "pair.onnx")
    network = read_onnx(tmp_path / "pair.onnx")
    assert network.tail is not None
    image = np.random.default_rng(1).integers(0, 256, (1, 6, 6, 3)).astype(np.uint8)
    session = onnxruntime.InferenceSession(str(tmp_path / "pair.onnx"))
    floats = (image / np.float32(255)).transpose(0, 3, 1, 2)
    (given,) = network.tail.each(run_float_outputs(network, image))
    np.testing.assert_allclose(list(given.values()), session.run(None, {"image": floats}), rtol=1e-4, atol=1e-5)
