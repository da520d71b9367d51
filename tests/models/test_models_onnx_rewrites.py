"""Functions, spare inputs and joined inputs are written away before a file is read; what is given out of the
image itself takes a layer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from test_models_onnx_operators import Graph
from test_models_onnx_parts import read

from fluidnpu.models import ModelsError, Network, read_onnx
from fluidnpu.models.numeric import run_float
from fluidnpu.models.onnx import with_metadata

onnxruntime = pytest.importorskip("onnxruntime")
DOMAIN = "my.blocks"


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_function(DOMAIN, name, ["x", "w"], ["y"], list(nodes), opsets)


def call(name: str, source: str, weights: str, output: str) -> onnx.NodeProto:
    return helper.make_node(name, [source, weights], [output], domain=DOMAIN)


def with_functions(g: Graph, output: str, *functions: onnx.FunctionProto) -> onnx.ModelProto:
    model = g.model(output)
    model.functions.extend(functions)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model


def test_functions_of_the_models_own_are_inlined(tmp_path: Path) -> None:
    conv, relu = helper.make_node("Conv", ["x", "w"], ["s"]), helper.make_node("Relu", ["s"], ["y"])
    block = function("Block", conv, relu)
    outer = function("Outer", call("Block", "x", "w", "y"))
    g = Graph()
    g.nodes.append(call("Outer", "image", g.random(4, 3, 3, 3), "one"))
    g.nodes.append(call("Block", "one", g.random(4, 4, 3, 3), "two"))
    model = with_functions(g, g.head("two", 4), block, outer)
    path = tmp_path / "f.onnx"
    onnx.save(model, path)
    network = read_onnx(path)
    assert [layer.clip for layer in network.layers[:2]] == [(0.0, None)] * 2
    images = np.random.default_rng(1).random((3, *g.shape), np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = run_float(network, np.ascontiguousarray(np.moveaxis(images, 1, -1)))
    np.testing.assert_allclose(found, session.run(None, {"image": images})[0], rtol=1e-4, atol=1e-4)
    path.write_bytes(with_metadata(path, network))
    assert len(onnx.load(path).functions) == 2  # the user's file keeps its functions


def test_functions_that_never_end_or_grow_without_bound_are_refused(tmp_path: Path) -> None:
    def refused(*functions: onnx.FunctionProto) -> str:
        g = Graph()
        g.nodes.append(call(functions[0].name, "image", g.random(4, 3, 3, 3), "y"))
        onnx.save(with_functions(g, "y", *functions), tmp_path / "f.onnx")
        with pytest.raises(ModelsError) as caught:
            read_onnx(tmp_path / "f.onnx")
        return str(caught.value)

    assert "must not call themselves, and 'A' does" in refused(
        function("A", call("B", "x", "w", "y")), function("B", call("A", "x", "w", "y"))
    )
    levels = [function(f"L{i}", call(f"L{i + 1}", "x", "w", "a"), call(f"L{i + 1}", "a", "w", "y")) for i in range(40)]
    told = refused(*levels, function("L40", helper.make_node("Relu", ["x"], ["y"])))
    assert "nodes with its functions inlined" in told
    deep = [function(f"D{i}", call(f"D{i + 1}", "x", "w", "y")) for i in range(2000)]
    assert "must call each other at most 100 deep" in refused(*deep, function("D2000"))
    few = helper.make_function(DOMAIN, "A", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], [])
    assert "must be well formed, and inlining them failed" in refused(few)
    assert "nothing ends there" in refused(function("A", helper.make_node("Relu", ["x"], [])))


def several(g: Graph, output: str, *inputs: tuple[str, Any], kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    model = g.model(output)
    del model.graph.input[:]
    model.graph.input.extend(helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs)
    return model


def test_an_input_that_no_output_needs_is_left_out(tmp_path: Path) -> None:
    g = Graph()
    output = g.head(g.conv("image", 4, 3), 4)
    onnx.save(several(g, output, ("mask", ["N", 1, 9]), ("image", ["N", 3, 8, 7])), tmp_path / "m.onnx")
    assert read_onnx(tmp_path / "m.onnx").input == "image"
    onnx.save(several(g, output, ("mask", ["N", 1, 9]), ("other", ["N", 3, 8, 7])), tmp_path / "m.onnx")
    with pytest.raises(ModelsError, match=r"must have one input image, and it has 2 inputs \(mask, other\)"):
        read_onnx(tmp_path / "m.onnx")


def stereo(tmp_path: Path, *joined: str, shapes: tuple[Any, ...] = (("N", 3, 8, 7), ("N", 2, 8, 7))) -> Network:
    g = Graph()
    whole = g.op("Concat", *joined, axis=1)
    output = g.head(g.conv(whole, 4, sum(3 if one == "left" else 2 for one in joined)), 4)
    ends = [(name, list(shape)) for name, shape in zip(("left", "right"), shapes, strict=True)]
    onnx.save(several(g, output, *ends), tmp_path / "m.onnx")
    return read_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize("joined", [("left", "right"), ("right", "left")])
def test_images_that_are_only_joined_are_one_image_of_all_channels(joined: tuple[str, str], tmp_path: Path) -> None:
    network = stereo(tmp_path, *joined)
    assert network.tensors[network.input] == (8, 7, 5)
    assert network.metadata["inputs"] == ", ".join(f"{3 if one == 'left' else 2} channels of {one}" for one in joined)
    draw = np.random.default_rng(1)
    images = {"left": draw.random((2, 3, 8, 7), np.float32), "right": draw.random((2, 2, 8, 7), np.float32)}
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    whole = np.concatenate([images[name] for name in joined], axis=1)
    (found,) = run_float(network, np.ascontiguousarray(np.moveaxis(whole, 1, -1)))
    np.testing.assert_allclose(found, session.run(None, images)[0], rtol=1e-4, atol=1e-4)
    (tmp_path / "m.onnx").write_bytes(with_metadata(tmp_path / "m.onnx", network))
    assert read_onnx(tmp_path / "m.onnx").metadata == network.metadata


def test_several_images_are_refused_with_how_to_join_them(tmp_path: Path) -> None:
    with pytest.raises(ModelsError, match="join images of one size along the channels before anything else"):
        stereo(tmp_path, "left", "right", "left")


@pytest.mark.parametrize("case", ["normalised", "scaled", "padded", "split", "moved", "plain"])
def test_what_is_given_out_of_the_image_itself_takes_a_layer(case: str, tmp_path: Path) -> None:
    g = Graph()
    if case == "normalised":
        given = g.batch_norm("image", 3)
    elif case == "scaled":
        given = g.op("Mul", "image", g.random(1, 3, 1, 1))
    elif case == "padded":
        given = g.op("Pad", "image", g.const([0, 1, 2, 0, 0, 0, 1, 3], np.int64))
    elif case == "split":
        given = g.op("Split", "image", g.const([1, 2], np.int64), outputs=2, axis=1) + "_1"
    elif case == "moved":
        given = g.op("Transpose", g.op("Sub", "image", g.const(0.5)), perm=[0, 3, 2, 1])
    else:
        given = g.op("Identity", "image")
    network = read(tmp_path, g, g.head(g.conv("image", 4, 3), 4), given)
    assert [one.name for one in network.outputs] == [given]
