"""Networks that the host ends give what onnxruntime gives of the whole file, in float and in int16."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from tail_graphs import GRAPHS, TailGraph

from fluidnpu.models import Network, NetworkError, golden, quantise, read_onnx
from fluidnpu.models.errors import ModelFileError, TailError, UnsupportedOperatorError
from fluidnpu.models.exits import with_maps
from fluidnpu.models.graph import MapTask
from fluidnpu.models.numeric.float_reference import run_float_outputs
from fluidnpu.models.onnx import onnx_bytes
from fluidnpu.models.onnx.reading.tails import Behind
from fluidnpu.models.onnx.reading.walk import Walk
from fluidnpu.models.tail import facts_of, tail_of

Array = npt.NDArray[Any]


def saved(tmp_path: Path, model: onnx.ModelProto) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def images_of(network: Network, count: int = 3) -> npt.NDArray[np.uint8]:
    shape = network.tensors[network.input]
    return np.random.default_rng(5).integers(0, 256, (count, *shape)).astype(np.uint8)


def whole(path: Path, images: npt.NDArray[np.uint8]) -> list[dict[str, Array]]:
    """What onnxruntime gives of each image by itself."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(str(path), options)
    names = [one.name for one in session.get_outputs()]
    floats = (images / np.float32(255)).transpose(0, 3, 1, 2).astype(np.float32)
    return [dict(zip(names, session.run(names, {"image": one[None]}), strict=True)) for one in floats]


def agree(network: Network, path: Path, images: npt.NDArray[np.uint8]) -> None:
    assert network.tail is not None
    answers = network.tail.each(run_float_outputs(network, images))
    for mine, theirs in zip(answers, whole(path, images), strict=True):
        for name, values in mine.items():
            assert (values.shape, values.dtype) == (theirs[name].shape, theirs[name].dtype), name
            np.testing.assert_allclose(values, theirs[name], rtol=1e-3, atol=1e-4, err_msg=name)
    for one in network.tail.outputs:
        shape = answers[0][one.name].shape
        assert len(shape) == len(one.shape)
        assert all(want in (-1, size) for want, size in zip(one.shape, shape, strict=True)), one


@pytest.mark.parametrize("name", GRAPHS)
def test_a_network_with_a_tail_is_the_whole_file(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path, GRAPHS[name]())
    network = read_onnx(path)
    images = images_of(network)
    agree(network, path, images)
    qnet = quantise(network, images)
    stored = golden.run_outputs(qnet, images)
    assert network.tail is not None
    for mine, theirs in zip(
        network.tail.each({key: qnet.output(key, some) for key, some in stored.items()}),
        whole(path, images),
        strict=True,
    ):
        for key, values in mine.items():
            if values.dtype.kind == "f" and values.shape == theirs[key].shape:
                np.testing.assert_allclose(values, theirs[key], atol=0.02 * max(1.0, np.abs(theirs[key]).max()))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_written_network_is_the_whole_file_again(name: str, tmp_path: Path) -> None:
    network = read_onnx(saved(tmp_path, GRAPHS[name]()))
    again = tmp_path / "again.onnx"
    again.write_bytes(onnx_bytes(network))
    images = images_of(network)
    read = read_onnx(again)
    assert network.tail is not None
    assert read.tail is not None
    assert [one.name for one in read.tail.outputs] == [one.name for one in network.tail.outputs]
    agree(read, again, images)
    before, after = (one.tail.each(run_float_outputs(one, images)) for one in (network, read) if one.tail)
    for mine, theirs in zip(before, after, strict=True):
        for key in mine:
            np.testing.assert_allclose(mine[key], theirs[key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_tail_is_stored_as_plain_json(name: str, tmp_path: Path) -> None:
    tail = read_onnx(saved(tmp_path, GRAPHS[name]())).tail
    assert tail is not None
    again = tail_of(json.loads(json.dumps(facts_of(tail))))
    assert again == tail
    for key, array in tail.constants.items():
        assert array.dtype == again.constants[key].dtype
        np.testing.assert_array_equal(array, again.constants[key])


def test_exits_work_before_the_tail(tmp_path: Path) -> None:
    network = read_onnx(saved(tmp_path, GRAPHS["best"]()))
    assert [exit.name for exit in network.exits] == ["n4", "n11"]
    assert network.tail is not None
    assert [one.operator for one in network.tail.nodes] == ["Softmax", "TopK"]
    stages = {one.name: one.stage for one in network.outputs}
    assert {stages[name] for name in network.tail.inputs} == {1}


def test_a_segmenter_may_answer_with_its_map_and_keep_its_tail(tmp_path: Path) -> None:
    network = with_maps(read_onnx(saved(tmp_path, GRAPHS["segmented"]())), MapTask.SEGMENTATION)
    again = tmp_path / "again.onnx"
    again.write_bytes(onnx_bytes(network))
    read = read_onnx(again)
    assert (read.check, read.exits[-1].logits) == (network.check, network.exits[-1].logits)
    agree(read, again, images_of(read))
    with pytest.raises(NetworkError, match="the tail of 'tailed' must read outputs of the network"):
        replace(network, outputs=())


def test_a_size_that_nobody_states_is_not_that_of_an_empty_draft(tmp_path: Path) -> None:
    g = TailGraph()
    heat = g.op("Flatten", g.conv("image", 1, 3, relu=False))
    places = g.op("NonZero", g.op("Greater", heat, g.const(0.3, np.float32)))  # drawn values are below zero
    rows, columns = g.op("Transpose", places, perm=[1, 0]), g.op("Unsqueeze", places, g.const([0]))
    network = read_onnx(
        saved(tmp_path, g.model((rows, 7, ["n", "two"]), (columns, 7, ["one", "two", "found"]), opset=13))
    )
    assert network.tail is not None
    assert [one.shape for one in network.tail.outputs] == [(-1, -1), (-1, -1, -1)]
    named = saved(tmp_path, g.model((rows, 7, ["batch", 2]), opset=13))  # rows under the name of the batch
    assert (ended := read_onnx(named).tail) is not None
    assert ended.outputs[0].shape == (-1, 2)


def test_rows_that_the_data_decide_follow_one_another(tmp_path: Path) -> None:
    path = saved(tmp_path, GRAPHS["suppressed"]())
    network = read_onnx(path)
    images = images_of(network, 4)
    assert network.tail is not None
    boxes, label = network.tail.outputs
    assert (boxes.shape, label.shape, boxes.batched, boxes.joinable) == ((-1, 4), (-1,), False, True)
    samples = network.tail.each(run_float_outputs(network, images))
    assert len({len(one[label.name]) for one in samples}) > 1, "else the test is of no use"
    found = network.tail.joined([*samples, {}])
    np.testing.assert_array_equal(found[boxes.name], np.concatenate([one[boxes.name] for one in samples]))
    assert found[f"{boxes.name}.rows"].tolist() == [*(len(one[boxes.name]) for one in samples), 0]


def test_what_a_sample_lacks_is_no_value_of_its_type(tmp_path: Path) -> None:
    g = TailGraph()
    best = g.op("ArgMax", g.conv("image", 4, 3, relu=False), axis=1, keepdims=0)
    small = g.op("Cast", best, to=int(onnx.TensorProto.UINT8))
    tail = read_onnx(saved(tmp_path, g.model((best, 7, ["batch", 32, 32]), (small, 2, ["batch", 32, 32])))).tail
    assert tail is not None
    found = tail.joined([{}])
    assert (set(found[best].flat), set(found[small].flat)) == ({-1}, {255})  # 0 would be a label


def test_a_tail_that_fails_on_drawn_values_is_refused_with_what_failed(tmp_path: Path) -> None:
    g = TailGraph((1, 8, 8))
    line = g.reshape(g.conv("image", 1, 1, relu=False), -1)
    places = g.op("Squeeze", g.op("NonZero", g.op("Greater", line, g.const(0.9, np.float32))), g.const([0]))
    best = g.op("ArgMax", g.op("Gather", line, places), axis=0)  # of nothing, since drawn values are below zero
    with pytest.raises(ModelFileError, match=r"Reshape.*the host could go on there, but fails on drawn.*ArgMax"):
        read_onnx(saved(tmp_path, g.model((best, 7, [1]))))


def test_a_network_that_the_walk_takes_has_no_tail(tmp_path: Path) -> None:
    g = TailGraph()
    heat = g.op("Sigmoid", g.conv(g.conv("image", 8, 3), 4, 8, 1, relu=False))
    network = read_onnx(saved(tmp_path, g.model((heat, 1, ["batch", 4, 32, 32]))))
    assert network.tail is None
    assert [one.activation for one in network.outputs] == ["sigmoid"]


def test_what_the_host_should_not_do_is_refused_as_before(tmp_path: Path) -> None:
    g = TailGraph()
    gate = g.op("Sin", g.conv("image", 8, 3))
    with pytest.raises(UnsupportedOperatorError, match="Sin"):  # a convolution follows
        read_onnx(saved(tmp_path, g.model((g.conv(gate, 4, 8), 1, ["batch", 4, 32, 32]))))
    g = TailGraph((1, 4, 4))
    line = g.reshape(g.op("Sin", g.conv("image", 1, 1, 1)), 1, 16)
    for _ in range(2):  # most of the work
        line = g.op("MatMul", line, g.random(16, 16))
    with pytest.raises(
        UnsupportedOperatorError, match=r"Sin.*the host could go on there, but would do most of the mul"
    ):
        read_onnx(saved(tmp_path, g.model((g.op("Sin", line), 1, ["batch", 16]))))


def test_a_second_output_that_nobody_makes_is_refused(tmp_path: Path) -> None:
    g = TailGraph()
    value, places = g.op("MaxPool", g.op("Sin", g.conv("image", 4, 3)), kernel_shape=[2, 2], outputs=2)
    with pytest.raises(UnsupportedOperatorError, match="Sin"):
        read_onnx(saved(tmp_path, g.model((value, 1, ["batch", 4, 31, 31]), (places, 7, ["batch", 4, 31, 31]))))


def test_reading_a_tail_ends_soon(tmp_path: Path) -> None:
    """Constants of a few bytes, which would make products of 8192 by 8192 by 8192."""
    g = TailGraph()
    wide = g.op("Expand", g.const([[1.0]], np.float32), g.const([8192, 8192]))
    for _ in range(3):
        wide = g.op("MatMul", wide, wide)
    heat = g.op("Add", g.op("Sin", g.conv("image", 1, 3)), g.op("ReduceMax", wide))
    with pytest.raises(ModelFileError, match=r"'n1' \(MatMul\).*but would do most of the multiplications"):
        read_onnx(saved(tmp_path, g.model((heat, 1, ["batch", 1, 32, 32]))))


def test_ends_that_only_the_host_can_give_are_found_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g = TailGraph()
    heat = g.conv("image", 4, 3)
    waves = [g.op("Sin", g.op("Sigmoid", heat)) for _ in range(6)]
    rounds, look = list[list[str]](), Behind._too_late

    def watched(self: Behind, walk: Walk) -> list[str]:
        rounds.append(look(self, walk))
        return rounds[-1]

    monkeypatch.setattr(Behind, "_too_late", watched)
    network = read_onnx(saved(tmp_path, g.model(*((wave, 1, ["batch", 4, 32, 32]) for wave in waves))))
    assert network.tail is not None
    assert [node.operator for node in network.tail.nodes] == ["Sigmoid", "Sin"] * 6
    assert [len(late) for late in rounds] == [6, 0], "each round looks at all nodes"


def damaged() -> list[tuple[str, Any, str]]:
    """Where facts are changed, to what, and what is said."""
    return [
        ("opset", 3, "the opset of a tail must be a whole number in 7..64, not 3"),
        ("opset", True, "whole number"),
        ("nodes", {}, "the nodes of a tail must be a list of at most 20000"),
        ("nodes", [["Relu", ["x"]]], "operator, inputs, outputs and attributes"),
        ("nodes", [["Exec", ["x"], ["y"], {}]], "one of its 97 operators, not 'Exec'"),
        ("nodes", [["Relu", ["z"], ["y"], {}]], "read what is there before it, not 'z'"),
        ("nodes", [["Relu", ["x"], ["x"], {}]], "'x' is written twice"),
        ("nodes", [["Relu", ["x"], ["y"], {"a": {"data": 1}}]], "must have a dtype, a shape and data"),
        ("nodes", [["Relu", ["x"], ["y"], {"a": 1e400}]], "must be finite numbers or texts"),
        ("nodes", [["Relu", ["x"], ["y"], {"a": [None]}]], "must be finite numbers or texts"),
        ("nodes", [["Relu", "x", ["y"], {}]], "must be a list of at most 65536 names"),
        ("inputs", [1], "names"),
        ("outputs", [["y", "object", [1]]], "must be one of bool, float16"),
        ("outputs", [["y", "float32", [1, -2]]], "16 whole numbers from -1"),
        ("outputs", [["q", "float32", [1]]], "must be computed in it, and 'q' is not"),
        ("outputs", ["y"], "name, type and shape"),
        ("outputs", [["", "float32", [1]]], "a name of its own"),
        ("outputs", [["y", "float32", [1]], ["y", "float32", [1]]], "a name of its own"),
        ("outputs", [["y", "float32", [1, 1 << 26, 2]]], "at most 67108864 values"),
        ("constants", [], "the constants of a tail must be an object"),
        ("constants", {"c": {"dtype": "float32", "shape": [1 << 40], "data": ""}}, "whole numbers from 0"),
        ("constants", {"c": {"dtype": "float32", "shape": [1 << 13, 1 << 13, 2], "data": ""}}, "bytes of its shape"),
        ("constants", {"c": {"dtype": "float32", "shape": [3], "data": "AAAA"}}, "bytes of its shape"),
        ("constants", {"c": {"dtype": "uint8", "shape": [3], "data": "!!!!"}}, "must be base64"),
    ]


@pytest.mark.parametrize(("key", "value", "said"), damaged())
def test_damaged_tails_end_in_one_sentence(key: str, value: Any, said: str) -> None:
    good = {
        "opset": 17,
        "inputs": ["x"],
        "nodes": [["Relu", ["x"], ["y"], {}]],
        "outputs": [["y", "float32", [1, 2]]],
        "constants": {},
    }
    assert tail_of(copy.deepcopy(good)).outputs[0].name == "y"
    with pytest.raises(TailError) as told:
        tail_of({**good, key: value})
    assert said in str(told.value)
    with pytest.raises(TailError, match="must be an object, not list"):
        tail_of([])


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([["Expand", ["x", "big"], ["y"], {}]], "at most 67108864 values"),
        ([["Tile", ["x", "big"], ["y"], {}]], "at most 67108864 values"),
        ([["ConstantOfShape", ["big"], ["y"], {}]], "at most 67108864 values"),
        ([["Reshape", ["x", "big"], ["y"], {}]], "cannot reshape"),
        ([["Concat", ["x", "x"], ["y"], {"axis": 7}]], "axis 7 must be one of 2"),
        ([["Split", ["x"], ["y", "z", "w"], {"split": [1, 1, 9]}]], "must add up"),
        ([["Gather", ["x", "big"], ["y"], {}]], "positions must be in -1..0"),
        ([["Softmax", ["x"], ["y"], {"axis": "wide"}]], "it fails"),
        ([["LSTM", ["x", "x", "x"], ["y"], {}]], "it fails"),
        ([["Div", ["big", "zero"], ["y"], {}]], "must not be divided by zero"),
        ([["GatherElements", ["x", "zero"], ["y"], {}]], "positions must have 2 axes, not 1"),
        ([["GatherND", ["x", "two"], ["y"], {"batch_dims": 1}]], "the first 1 sizes must be the same"),
        ([["ScatterElements", ["x", "zero", "x"], ["y"], {}]], "must have 2 axes and one shape"),
        ([["ScatterND", ["x", "zero", "x"], ["y"], {}]], "updates must have the shape"),
        ([["Resize", ["x", "", "", "wide"], ["y"], {}]], "at most 32768 outputs"),
        (
            [["Expand", ["one", "tall"], ["t"], {}], ["Gemm", ["t", "t"], ["y"], {"transB": 1}]],
            "at most 67108864 values",
        ),
        ([["Gemm", ["x", "two", "two"], ["y"], {}]], "must fit the product"),
    ],
)
def test_a_tail_that_fails_says_where(nodes: list[Any], said: str) -> None:
    shape = {"dtype": "int64", "shape": [2], "data": np.array([1 << 20, 1 << 20], "<i8").tobytes()}
    facts: dict[str, Any] = {"opset": 17, "inputs": ["x"], "nodes": nodes, "outputs": [["y", "float32", [1, 2]]]}
    import base64

    constants = {
        "big": {**shape, "data": base64.b64encode(shape["data"]).decode()},  # type: ignore[arg-type]
        "zero": {"dtype": "int64", "shape": [1], "data": base64.b64encode(bytes(8)).decode()},
        "two": {"dtype": "int64", "shape": [2, 1], "data": base64.b64encode(bytes(16)).decode()},
        "one": {"dtype": "int64", "shape": [1, 1], "data": base64.b64encode(bytes(8)).decode()},
        "wide": {**shape, "data": base64.b64encode(np.array([1, 1 << 16], "<i8").tobytes()).decode()},
        "tall": {**shape, "data": base64.b64encode(np.array([1 << 14, 2], "<i8").tobytes()).decode()},
    }
    tail = tail_of({**facts, "constants": constants})
    with pytest.raises(TailError) as told:
        tail.run({"x": np.ones((1, 2), np.float32)})
    assert said in str(told.value)
    assert nodes[-1][0] in str(told.value)
