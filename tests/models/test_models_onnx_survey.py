"""A survey reads past refusals; a file that leaves its size open is given one; heads are no exits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_models_onnx_patterns import Sketch

from fluidnpu.models import read_onnx
from fluidnpu.models.errors import ModelFileError, NetworkError
from fluidnpu.models.numeric.float_reference import run_float_outputs
from fluidnpu.models.onnx import onnx_bytes, survey, with_metadata


def silu(sketch: Sketch, x: str) -> str:
    return sketch.op("Mul", x, sketch.op("Sigmoid", x))


def wide(sketch: Sketch, x: str, kind: str = "Conv") -> str:
    """A layer that no host takes over."""
    return sketch.op(kind, x, sketch.constant(np.full((4, 4, 3, 3), 0.05)), pads=[1, 1, 1, 1])


def mixed(path: Path) -> Path:
    """Two SiLU and a gate, two layer norms, an operator that nobody knows, and an end on the host."""
    sketch = Sketch()
    x = wide(sketch, silu(sketch, wide(sketch, "image")))
    gate = sketch.op("Sigmoid", sketch.conv(sketch.op("GlobalAveragePool", x), 4, 4))
    x = wide(sketch, silu(sketch, wide(sketch, sketch.op("Mul", x, gate))))
    for _ in range(2):
        x = wide(sketch, sketch.op("LayerNormalization", x, sketch.constant(np.ones(8))))
    x = wide(sketch, wide(sketch, sketch.op("LRN", x, size=3)))
    best = sketch.op("Reshape", x, "shape")
    sketch.constants.append(numpy_helper.from_array(np.array([1, -1], np.int64), "shape"))
    last = sketch.op("ArgMax", sketch.op("Softmax", best, axis=1), axis=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 4, 8, 8))
    end = helper.make_tensor_value_info(last, TensorProto.INT64, None)
    graph = helper.make_graph(sketch.nodes, "mixed", [image], [end], sketch.constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_every_kind_of_obstacle_is_counted_once(tmp_path: Path) -> None:
    found = survey(mixed(tmp_path / "mixed.onnx"))
    counts = {obstacle.kind: obstacle.count for obstacle in found.obstacles}
    assert counts == {"LayerNorm": 2, "LRN": 1}
    assert found.obstacles[0].kind == "LayerNorm"
    assert (found.tail, found.unseen) == (1, 0)
    lrn = next(obstacle for obstacle in found.obstacles if obstacle.kind == "LRN")
    assert "sum of squares" in lrn.remedy
    assert lrn.nodes[0].startswith("LRN")
    with pytest.raises(
        NetworkError, match="LayerNormalization is not supported"
    ):  # the reader itself stops at the first
        read_onnx(found.path)


def test_a_graph_that_is_taken_has_no_obstacle(tmp_path: Path) -> None:
    sketch = Sketch()
    file = sketch.saved(tmp_path / "good.onnx", sketch.op("Relu", wide(sketch, "image")))
    assert survey(file.path).obstacles == ()


def test_an_end_on_the_host_is_not_blamed_for_what_no_node_did(tmp_path: Path) -> None:
    sketch = Sketch()
    early, best = wide(sketch, "image"), sketch.op("ArgMax", wide(sketch, "image"), axis=1)
    vectors = [sketch.op("Flatten", sketch.op("GlobalAveragePool", x)) for x in (early, wide(sketch, early))]
    heads = [
        sketch.op("Gemm", x, sketch.constant(np.full((4, classes), 0.1)))
        for x, classes in zip(vectors, (4, 3), strict=True)
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 4, 8, 8))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in heads]
    ends.append(helper.make_tensor_value_info(best, TensorProto.INT64, None))
    graph = helper.make_graph(sketch.nodes, "classes", [image], ends, sketch.constants)
    path = tmp_path / "classes.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    with pytest.raises(NetworkError, match="tell the same classes apart"):
        read_onnx(path)
    assert read_onnx(path, exits=heads[:1]).tail is not None
    assert (survey(path).obstacles, survey(path).tail) == ((), 1)


def test_behind_an_unknown_shape_patterns_still_count(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.op("MyOwn", wide(sketch, "image"))
    norm = sketch.op("LayerNormalization", silu(sketch, wide(sketch, x)), sketch.constant(np.ones(8)))
    file = sketch.saved(tmp_path / "dark.onnx", wide(sketch, norm))
    found = survey(file.path)
    assert {obstacle.kind: obstacle.count for obstacle in found.obstacles} == {"MyOwn": 1, "LayerNorm": 1}
    assert found.unseen > 0


def open_size(path: Path, dims: tuple[int | str, ...]) -> Path:
    """A convolution, a ReLU and a mean over an image of open size; the last axis holds channels if the first
    does not.
    """
    nodes = [] if dims[1] == 3 else [helper.make_node("Transpose", ["image"], ["turned"], perm=[0, 3, 1, 2])]
    source = nodes[0].output[0] if nodes else "image"
    nodes.append(helper.make_node("Conv", [source, "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]))
    nodes.append(helper.make_node("Relu", ["c"], ["map"]))
    weights = numpy_helper.from_array(np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32), "w")
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, dims)
    end = helper.make_tensor_value_info("map", TensorProto.FLOAT, ("n", 4, "h", "w"))
    graph = helper.make_graph(nodes, "open", [image], [end], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize(
    ("dims", "size"),
    [
        (("n", 3, "h", "w"), (3, 12, 16)),
        (("n", 3, "h", "w"), (12, 16)),
        ((1, 3, 32, 32), (12, 16)),
        (("n", "h", "w", 3), (12, 16, 3)),
        (("n", "h", "w", 3), (12, 16)),
        ((1, 32, 32, 3), (12, 16)),
    ],
)
def test_a_size_is_given_to_what_leaves_it_open(
    dims: tuple[int | str, ...], size: tuple[int, ...], tmp_path: Path
) -> None:
    path = open_size(tmp_path / "open.onnx", dims)
    network = read_onnx(path, size=size)
    assert network.tensors[network.input] == (12, 16, 3)
    (tmp_path / "kept.onnx").write_bytes(with_metadata(path, network, size))
    kept = read_onnx(tmp_path / "kept.onnx")  # a file that `prepare` wrote needs no size any more
    assert kept.tensors == network.tensors
    images = network.intake.random(2)
    np.testing.assert_array_equal(run_float_outputs(kept, images)["map"], run_float_outputs(network, images)["map"])


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((3, 12), "keep the channels"),
        (
            (1, 12, 16),
            "must keep the channels of the input 'image', which the file says as 3x\\?x\\?, and it is 1x12x16",
        ),
        ((3, 0, 16), "must be 3 sizes of 1..65536 for the input 'image', as in 3x320x320, not 3x0x16"),
        ((3, 12, 16, 2), "must be 3 sizes"),
        ((7,), "must be 3 sizes"),
    ],
)
def test_sizes_that_no_input_can_have(size: tuple[int, ...], words: str, tmp_path: Path) -> None:
    path = open_size(tmp_path / "open.onnx", ("n", 3, "h", "w"))
    if words == "keep the channels":
        assert read_onnx(path, size=size).tensors["image"] == (3, 12, 3)  # a small image, height by width
        return
    with pytest.raises(ModelFileError, match=words):
        read_onnx(path, size=size)


def heads(path: Path, second: str) -> Path:
    """A trunk with a head of four classes, and a second head on its vector, a hidden layer or a convolution
    further.
    """
    sketch = Sketch()

    def dense(x: str) -> str:
        return sketch.op("Gemm", x, sketch.constant(np.random.default_rng(1).normal(size=(4, 4))))

    trunk = wide(sketch, "image")
    pooled = sketch.op("Flatten", sketch.op("GlobalAveragePool", trunk))
    outputs = [dense(pooled)]
    if second == "conv":
        more = sketch.op("Relu", wide(sketch, sketch.op("Relu", wide(sketch, trunk))))
        outputs.append(dense(sketch.op("Flatten", sketch.op("GlobalAveragePool", more))))
    elif second == "pool":
        outputs.append(dense(sketch.op("Flatten", sketch.op("GlobalMaxPool", trunk))))
    else:
        outputs.append(dense(pooled if second == "same" else sketch.op("Relu", dense(pooled))))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 4, 8, 8))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4)) for name in outputs]
    graph = helper.make_graph(sketch.nodes, "heads", [image], ends, sketch.constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize("second", ["same", "hidden"])
def test_heads_of_one_trunk_are_outputs_and_no_exits(second: str, tmp_path: Path) -> None:
    path = heads(tmp_path / "heads.onnx", second)
    network = read_onnx(path)
    assert [exit.logits for exit in network.exits] == [None]
    assert len(network.outputs) == 2
    names = [output.name for output in network.outputs]
    chosen = read_onnx(path, exits=names)  # who says so gets exits
    assert [exit.name for exit in chosen.exits] == names
    (tmp_path / "again.onnx").write_bytes(onnx_bytes(network))
    assert len(read_onnx(tmp_path / "again.onnx").outputs) == 2


def test_exits_that_save_nothing_are_asked_about(tmp_path: Path) -> None:
    path = heads(tmp_path / "pool.onnx", "pool")
    with pytest.raises(ModelFileError, match=r"must be named, since '.*' costs 0\.\d+ % of the .* --logits none takes"):
        read_onnx(path)
    assert len(read_onnx(path, exits=()).outputs) == 2


def test_exits_that_save_work_stay_exits(tmp_path: Path) -> None:
    assert len(read_onnx(heads(tmp_path / "conv.onnx", "conv")).exits) == 2
