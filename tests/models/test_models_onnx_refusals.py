"""Bad model files: each one sentence, the right type, bounded time. Nothing but NetworkError ever comes
out.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from waiting import ends

from fluidnpu.models import FileError, Network, NetworkError, read_model, read_onnx
from fluidnpu.models.errors import ModelFileError, UnsupportedOperatorError
from fluidnpu.models.onnx.writing.export import build_onnx
from fluidnpu.models.zoo import random_network

WEIGHTS = np.full((4, 3, 3, 3), 0.1, np.float32)


def model(
    nodes: list[onnx.NodeProto],
    constants: dict[str, Any] | None = None,
    outputs: tuple[str, ...] = ("y",),
    shape: tuple[Any, ...] = ("N", 3, 8, 8),
    **options: Any,
) -> onnx.ModelProto:
    tensors = [
        value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value), name)
        for name, value in (constants or {}).items()
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)
    ends = [helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in outputs]
    graph = helper.make_graph(nodes, "bad", [image], ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", options.pop("opset", 17))], **options)


def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, [output], name=f"the_{operator}", **attributes)


def good_nodes(weights: str = "w") -> list[onnx.NodeProto]:
    return [
        node("Conv", ["image", weights], "a"),
        node("GlobalAveragePool", ["a"], "b"),
        node("Flatten", ["b"], "y"),
    ]


def read(tmp_path: Path, proto: onnx.ModelProto, **options: Any) -> Network:
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return read_onnx(path, **options)


def refusal(tmp_path: Path, proto: onnx.ModelProto, **options: Any) -> str:
    with pytest.raises(NetworkError) as caught:
        read(tmp_path, proto, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 900
    return message


def test_the_good_one_is_good(tmp_path: Path) -> None:
    assert len(read(tmp_path, model(good_nodes(), {"w": WEIGHTS})).layers) == 2


def test_missing_empty_truncated_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"the model file .*nowhere.onnx does not exist"):
        read_onnx(tmp_path / "nowhere.onnx")
    with pytest.raises(FileError, match="must be a regular file, and it is a folder"):
        read_onnx(tmp_path)
    whole = model(good_nodes(), {"w": WEIGHTS}).SerializeToString()
    for name, content in {"empty": b"", "text": b"hello, world" * 50, "half": whole[: len(whole) // 2]}.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"must be (a whole ONNX file|an ONNX file with a graph)") as caught:
            read_onnx(path)
        assert "field" not in str(caught.value), "a user knows no wire format"


def test_unsupported_operator_names_node_and_operator(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["image", "w"], "a"),
        node("LRN", ["a"], "s", size=3),
        node("Conv", ["s", "v"], "b"),
        node("Flatten", ["b"], "y"),
    ]
    with pytest.raises(UnsupportedOperatorError, match=r"^fluidnpu takes image CNNs .*LRN is not supported") as caught:
        read(tmp_path, model(nodes, {"w": WEIGHTS, "v": np.ones((4, 4, 3, 3), np.float32)}))
    assert (caught.value.node, caught.value.operator) == ("the_LRN", "LRN")
    assert "batch normalisation" in caught.value.suggestion
    nodes[1] = node("Erf", ["a"], "s")
    with pytest.raises(UnsupportedOperatorError, match=r"^fluidnpu takes image CNNs .*the_Erf.*Erf.*ReLU") as caught:
        read(tmp_path, model(nodes, {"w": WEIGHTS, "v": np.ones((4, 4, 3, 3), np.float32)}))
    assert (caught.value.node, caught.value.operator) == ("the_Erf", "Erf")


def test_foreign_domain_is_named(tmp_path: Path) -> None:
    nodes = [node("Relu", ["image"], "y", domain="com.example")]
    assert "com.example.Relu" in refusal(tmp_path, model(nodes))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_weights_name_the_initialiser(tmp_path: Path, value: float) -> None:
    weights = WEIGHTS.copy()
    weights[1, 2, 0, 0] = value
    assert "initialiser 'w' must hold finite numbers, and 1 of its 108" in refusal(
        tmp_path, model(good_nodes(), {"w": weights})
    )


def test_weights_that_become_infinite_when_folded_are_refused(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["image", "w"], "a"),
        node("BatchNormalization", ["a", "s", "o", "o", "v"], "n", epsilon=0.0),
        node("GlobalAveragePool", ["n"], "b"),
        node("Flatten", ["b"], "y"),
    ]
    one, zero = np.ones(4, np.float32), np.zeros(4, np.float32)
    assert "must be finite once folded" in refusal(
        tmp_path, model(nodes, {"w": WEIGHTS, "s": one, "o": zero, "v": zero})
    )
    assert "must be finite once folded" in refusal(
        tmp_path, model(nodes, {"w": WEIGHTS, "s": one, "o": zero, "v": -one})
    )


def test_no_exits(tmp_path: Path) -> None:
    assert "1 to 64 outputs, and it has 0" in refusal(tmp_path, model(good_nodes(), {"w": WEIGHTS}, outputs=()))
    assert "nothing ends there" in refusal(tmp_path, model(good_nodes(), {"w": WEIGHTS}, outputs=("z",)))
    assert "nothing ends there" in refusal(tmp_path, model(good_nodes(), {"w": WEIGHTS}, outputs=("y", "image")))
    refusal_of_a_map = refusal(tmp_path, model(good_nodes(), {"w": WEIGHTS}, outputs=("a",)), exits=("a",))
    assert "one vector of at least two logits per image to be an exit, and it is (N, 4, 6, 6)" in refusal_of_a_map
    assert "must be outputs of" in refusal(tmp_path, model(good_nodes(), {"w": WEIGHTS}), exits=("b",))


def test_exits_must_agree_on_the_classes(tmp_path: Path) -> None:
    nodes = [*good_nodes(), node("Gemm", ["y", "m"], "z")]
    assert "same classes" in refusal(
        tmp_path, model(nodes, {"w": WEIGHTS, "m": np.ones((4, 7), np.float32)}, outputs=("y", "z"))
    )


@pytest.mark.parametrize("shape", [("N", 3, "H", "W"), ("N", 3, 0, 8), ("N", 3, "L"), ("N", 3, -1, 8), None])
def test_input_shapes(tmp_path: Path, shape: Any) -> None:
    assert "fixed positive sizes" in refusal(tmp_path, model(good_nodes(), {"w": WEIGHTS}, shape=shape))


@pytest.mark.parametrize("shape", [("N", 65536, 65536, 4), (1, 3, 100_000, 1), (1, 3, 100_000, 100_000)])
def test_large_inputs_are_told_the_limit(tmp_path: Path, shape: Any) -> None:
    why = refusal(tmp_path, model(good_nodes(), {"w": WEIGHTS}, shape=shape))
    assert "must have sizes of at most 65536 and an image of at most 134217728 elements" in why
    assert "positive" not in why


def test_two_inputs(tmp_path: Path) -> None:
    proto = model(good_nodes(), {"w": WEIGHTS}, outputs=("y", "s"))
    proto.graph.node.append(node("Relu", ["other"], "s"))
    proto.graph.input.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, ("N", 3)))
    assert "one input image, and it has 2" in refusal(tmp_path, proto)


def test_missing_initialiser_and_missing_activation(tmp_path: Path) -> None:
    assert "'w' is nowhere in the file" in refusal(tmp_path, model(good_nodes()))
    assert "'ghost' is nowhere in the file" in refusal(tmp_path, model([node("Relu", ["ghost"], "y")]))
    assert "'ghost', which is nowhere" in refusal(tmp_path, model([node("ArgMax", ["ghost"], "y")]))
    assert "is computed" in refusal(tmp_path, model([node("Relu", ["image"], "r"), node("Conv", ["image", "r"], "y")]))


def test_cycle_and_double_definition(tmp_path: Path) -> None:
    circle = [node("Add", ["image", "q"], "p"), node("Relu", ["p"], "q"), node("Flatten", ["q"], "y")]
    assert "in a circle" in refusal(tmp_path, model(circle))
    twice = [*good_nodes(), node("Relu", ["image"], "a")]
    assert "written twice" in refusal(tmp_path, model(twice, {"w": WEIGHTS}))


def hostile(**fields: Any) -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT)
    for key, value in fields.items():
        if isinstance(value, list):
            getattr(tensor, key).extend(value)
        else:
            setattr(tensor, key, value)
    return tensor


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (hostile(dims=[1 << 40, 1 << 40]), "elements, and its shape"),
        (hostile(dims=[-4, 3]), "sizes of at least 0, and its shape is (-4, 3)"),
        (hostile(dims=[4, 3, 3, 3], raw_data=b"1234"), "as many values as its shape"),
        (hostile(dims=[4, 3, 3, 3]), "as many values as its shape"),
        (hostile(dims=[4, 3, 3, 3], float_data=[1.0, 2.0]), "as many values as its shape"),
        (hostile(dims=[4, 3, 3, 3], data_type=TensorProto.STRING), "its type is STRING"),
        (hostile(dims=[4, 3, 3, 3], data_type=77), "its type is 77"),
        (hostile(dims=[4, 0, 3, 3]), "must have weights, not an empty array"),
    ],
)
def test_hostile_initialisers(tmp_path: Path, tensor: TensorProto, words: str) -> None:
    assert words in refusal(tmp_path, model(good_nodes(), {"w": tensor}))


def external(location: str, **facts: str) -> TensorProto:
    tensor = hostile(dims=[4, 3, 3, 3], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **facts}.items():
        tensor.external_data.append(onnx.StringStringEntryProto(key=key, value=value))
    return tensor


def test_external_data_stays_in_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "w.bin").write_bytes(b"12345678" + WEIGHTS.tobytes())
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    (inside / "link.bin").symlink_to(tmp_path / "w.bin")
    good = read(inside, model(good_nodes(), {"w": external("w.bin", offset="8", length=str(WEIGHTS.nbytes))}))
    assert good.parameters["the_Conv"].weights.max() == np.float32(0.1)
    for bad in (external("../w.bin"), external("/etc/passwd"), external("link.bin"), external("")):
        assert "in the model's own folder" in refusal(inside, model(good_nodes(), {"w": bad}))
    os.mkfifo(inside / "pipe.bin")
    for bad in (
        external("gone.bin"),
        external("pipe.bin"),
        external("."),
        external("w.bin", offset="-1"),
        external("w.bin", length="x"),
        external("w.bin", length=str(1 << 50)),
    ):
        assert "reading failed" in refusal(inside, model(good_nodes(), {"w": bad}))
    assert "as many values" in refusal(inside, model(good_nodes(), {"w": external("w.bin", offset="100")}))


def pool(operator: str, **attributes: Any) -> list[onnx.NodeProto]:
    return [
        node("Conv", ["image", "w"], "a"),
        node(operator, ["a"], "p", **attributes),
        node("GlobalAveragePool", ["p"], "b"),
        node("Flatten", ["b"], "y"),
    ]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (pool("MaxPool", kernel_shape=[2, 2], pads=[2, 2, 2, 2]), "which has no maximum"),
        (pool("MaxPool", kernel_shape=[9, 9]), "no larger than its padded input"),
        (pool("MaxPool", kernel_shape=[1 << 40, 1]), "must have 2 kernel_shape"),
        (pool("MaxPool", kernel_shape=[2]), "must have 2 kernel_shape"),
        (pool("MaxPool", kernel_shape=[2, 2], strides=[0, 1]), "must have 2 strides"),
        (pool("MaxPool", kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, -1, 0]), "must have 4 pads"),
        (pool("MaxPool"), "must have 2 kernel_shape"),
        (pool("AveragePool", kernel_shape=[3, 3], pads=[3, 0, 0, 0]), "without a tap"),
        (pool("AveragePool", kernel_shape=[6, 6], pads=[5, 5, 5, 5]), "more than 64 kinds of windows at its border"),
        (pool("AveragePool", kernel_shape=[9, 9], count_include_pad=1), "no larger than its padded input"),
        (pool("MaxPool", kernel_shape=[2, 2], auto_pad="SIDEWAYS"), "not 'SIDEWAYS'"),
        (pool("Conv", group=2), "must find a constant at input 1|must have an input 1"),
        (pool("ReduceMax", axes=[1]), "reduce height and width alone"),
        (pool("Softmax", axis=2), "a Softmax may only end an exit or an output"),
        (pool("Flatten", axis=2), "keep the batch apart"),
        (pool("Resize"), "must have scales or sizes"),
        (pool("MaxUnpool"), "the places of maxima are not kept"),
        (pool("Clip", min=2.0, max=-1.0), "must clip to a range"),
        (pool("Transpose", perm=[1, 0, 2, 3]), "keep the batch as the first dimension"),
        (pool("LRN", size=3), "divides by a sum of squares"),
        (pool("Pad", mode="reflect", pads=[0, 0, 1, 1, 0, 0, 1, 1]), "not a border of zeros"),
        (pool("Pad", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=1.0), "not a border of zeros"),
        (pool("Pad", pads=[1, 0, 1, 1, 0, 0, 1, 1]), "not a border of zeros"),
        (pool("Pad", pads=[0, 0, -3, 0, 0, 0, -3, 1]), "must leave something"),
        (pool("Pad", pads=[0, -1, 0, 0, 0, 0, 0, 1]), "cuts channels off"),
    ],
)
def test_what_cannot_be_exact_is_refused(tmp_path: Path, nodes: list[onnx.NodeProto], words: str) -> None:
    last = nodes[-1].output[0]
    opset = 9 if nodes[1].op_type in ("Clip", "Pad") else 17
    assert re.search(words, refusal(tmp_path, model(nodes, {"w": WEIGHTS}, outputs=(last,), opset=opset)))


@pytest.mark.parametrize(
    ("nodes", "constants", "words"),
    [
        (good_nodes(), {"w": np.ones((4, 5, 3, 3), np.float32)}, "weights for 3 channels in 1 groups"),
        (
            good_nodes(),
            {"w": np.ones((4, 3, 3), np.float32)},
            "has weights of 3 dimensions for an input of 4; the NPU is two-dimensional",
        ),
        (good_nodes(), {"w": np.ones((4, 3, 9, 9), np.float32)}, "no larger than its padded input"),
        ([node("Gemm", ["image", "w"], "y")], {"w": np.ones((4, 4), np.float32)}, "must read a flattened input"),
        (
            [node("Flatten", ["image"], "f"), node("Gemm", ["f", "w"], "y")],
            {"w": np.ones((4, 4), np.float32)},
            "weights for 192 features",
        ),
        ([node("Div", ["image", "image"], "y")], {}, "divides one activation by another"),
        ([node("Conv", ["image", "w"], "a"), node("Mul", ["a", "image"], "y")], {"w": WEIGHTS}, "a map and one pixel"),
        ([node("Pow", ["image", "w"], "y")], {"w": np.full(1, 3, np.float32)}, "another power than a square"),
        ([node("Mul", ["image", "w"], "y")], {"w": np.ones(8, np.float32)}, "one for each of 3 channels"),
        ([node("Div", ["image", "w"], "y")], {"w": np.zeros(1, np.float32)}, "by zero"),
        ([node("Reshape", ["image", "w"], "y")], {"w": np.array([0, 8, 24])}, "turns (N, 3, 8, 8) into (0, 8, 24)"),
        ([node("Concat", ["image", "image"], "y", axis=0)], {}, "leave the batch whole"),
        ([node("Conv", ["image", "w"], "a"), node("Add", ["a", "image"], "y")], {"w": WEIGHTS}, "one shape"),
        ([node("Conv", ["image", "w", "b"], "y")], {"w": WEIGHTS, "b": np.ones(3, np.float32)}, "4 biases"),
        ([node("Constant", [], "k", value_string=b"1"), node("Conv", ["image", "k"], "y")], {}, "must hold a tensor"),
        (
            [node("Reciprocal", ["w"], "k"), node("Conv", ["image", "k"], "y")],
            {"w": np.zeros((4, 3, 3, 3), np.float32)},
            "must fold to finite numbers",
        ),
        (
            [node("Dropout", ["image", "r", "t"], "d"), node("Conv", ["d", "w"], "y")],
            {"w": WEIGHTS, "r": np.float32(0.5), "t": np.array(True)},
            "in training mode",
        ),
        (
            [node("Expand", ["w", "s"], "k"), node("Conv", ["image", "k"], "y")],
            {"w": np.ones(1, np.float32), "s": np.array([1 << 30, 1 << 30])},
            "268435456 weights and constants",
        ),
        (
            [node("ConstantOfShape", ["s"], "k"), node("Conv", ["image", "k"], "y")],
            {"s": np.array([1 << 40, 1 << 40])},
            "268435456 weights and constants",
        ),
        ([node("Slice", ["w"], "k"), node("Conv", ["image", "k"], "y")], {"w": WEIGHTS}, "starts and ends"),
        ([node("Add", ["image", "w"], "y")], {"w": np.ones((1,) * 5, np.float32)}, "constant of shape"),
        (
            [node("Gather", ["w", "i"], "k"), node("Conv", ["image", "k"], "y")],
            {"w": WEIGHTS, "i": np.array(9)},
            "folding it failed",
        ),
    ],
)
def test_shapes_that_do_not_fit(
    tmp_path: Path, nodes: list[onnx.NodeProto], constants: dict[str, Any], words: str
) -> None:
    assert words in refusal(tmp_path, model(nodes, constants))


def test_constants_cannot_be_multiplied_without_bound(tmp_path: Path) -> None:
    nodes = [node("Mul", ["column", "row"], "k0")]
    nodes += [node("Concat", [f"k{i}", f"k{i}"], f"k{i + 1}", axis=0) for i in range(40)]
    nodes += [node("Conv", ["image", "k40"], "y")]
    constants = {"column": np.ones((1 << 10, 1), np.float32), "row": np.ones((1, 1 << 10), np.float32)}
    tracemalloc.start()
    message = refusal(tmp_path, model(nodes, constants))
    assert tracemalloc.get_traced_memory()[1] < 1 << 30
    tracemalloc.stop()
    assert "weights and constants" in message


def test_metadata_is_checked(tmp_path: Path) -> None:
    for key, text, words in [
        ("exits", "{", "must be JSON"),
        ("exits", "3", "list of objects"),
        ("exits", json.dumps([{"output": "y", "threshold": 7}]), "shares of 0..1"),
        ("exits", json.dumps([{"output": "y", "threshold": 0.5, "rate": "most"}]), "shares of 0..1"),
        ("calibration", "[]", "must be an object"),
        ("calibration", json.dumps({"y": float("nan")}), "must be a number of at least 0"),
        ("provenance", "no", "must be JSON"),
    ]:
        proto = model(good_nodes(), {"w": WEIGHTS})
        helper.set_model_props(proto, {f"fluidnpu.{key}": text})
        assert words in refusal(tmp_path, proto)


def test_names_from_files_are_made_harmless(tmp_path: Path) -> None:
    nodes = good_nodes()
    nodes[0].name = "*/ system(1); /*\n"
    nodes[0].output[0] = nodes[1].input[0] = "a\n`b`"
    nodes[1].output[0] = nodes[2].input[0] = "a b"  # becomes the same plain name as the one before
    proto = model(nodes, {"w": WEIGHTS})
    proto.graph.name = "../../etc\n"
    helper.set_model_props(
        proto, {"fluidnpu.calibration": json.dumps({"a\n`b`": 2.0, "image": 1.0, "a b": 3.0, "y": 4.0})}
    )
    network = read(tmp_path, proto)
    names = [network.name, *network.tensors, *(layer.name for layer in network.layers)]
    assert all(re.fullmatch(r"[A-Za-z0-9._/:-]+", name) for name in names)
    assert len(set(network.tensors)) == 3
    assert network.calibration[network.layers[0].output] == 2.0
    assert set(network.calibration) == set(network.tensors)


def test_padding_is_bounded(tmp_path: Path) -> None:
    nodes = pool("AveragePool", kernel_shape=[2, 2], pads=[60000] * 4, count_include_pad=1)
    assert "padded input of at most" in refusal(tmp_path, model(nodes, {"w": WEIGHTS}))


def test_a_fixed_batch_may_stand_in_a_reshape(tmp_path: Path) -> None:
    nodes = [*good_nodes()[:2], node("Reshape", ["b", "shape"], "y")]
    fixed = {"w": WEIGHTS, "shape": np.array([16, 4])}
    assert len(read(tmp_path, model(nodes, fixed, shape=(16, 3, 8, 8))).layers) == 2
    assert "keep the batch as the first dimension" in refusal(tmp_path, model(nodes, fixed))


def test_too_old_an_opset_and_a_bad_threshold(tmp_path: Path) -> None:
    assert "opset 7 or later" in refusal(tmp_path, model(good_nodes(), {"w": WEIGHTS}, opset=5))
    with pytest.raises(ModelFileError, match=r"confidence of 0\.\.1"):
        read_onnx(tmp_path / "any.onnx", threshold=1.5)


SMALL = build_onnx(random_network(3)).SerializeToString()


def _survives(tmp: Path, raw: bytes) -> None:
    path = tmp / "fuzzed.onnx"
    path.write_bytes(raw)
    said = "a network"
    try:
        with ends():
            read_model(path)
    except NetworkError as error:
        said = str(error)
    assert said.isprintable()


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), max_size=4), st.integers(1, len(SMALL)))
@example([], len(SMALL))
def test_flipped_and_cut_bytes_give_a_network_or_one_sentence(
    tmp_path: Path, flips: list[tuple[int, int]], end: int
) -> None:
    raw = bytearray(SMALL)
    for position, byte in flips:
        raw[position] = byte
    _survives(tmp_path, bytes(raw[:end]) if len(flips) % 2 else bytes(raw))


def test_every_truncation_of_a_small_file(tmp_path: Path) -> None:
    for end in range(0, len(SMALL), 97):
        _survives(tmp_path, SMALL[:end])


def _calls_to_read_a_chain(tmp_path: Path, length: int) -> int:
    """Count the calls that reading a chain of pools and clips takes: a measure that no machine disturbs."""
    nodes = [node("Conv", ["image", "w"], "r0")]
    for index in range(length):
        nodes.append(helper.make_node("MaxPool", [f"r{index}"], [f"p{index}"], kernel_shape=[1, 1]))
        nodes.append(helper.make_node("Clip", [f"p{index}", "", "six"], [f"r{index + 1}"]))
    nodes += [node("GlobalAveragePool", [f"r{length}"], "b"), node("Flatten", ["b"], "y")]
    proto = model(nodes, {"w": WEIGHTS, "six": np.float32(6)})
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        network = read(tmp_path, proto)
    finally:
        sys.setprofile(before)
    assert len(network.layers) == length + 2
    return calls


def test_a_deep_chain_is_read_in_linear_work(tmp_path: Path) -> None:
    short, deep = (_calls_to_read_a_chain(tmp_path, length) for length in (100, 400))
    assert deep < 5 * short
