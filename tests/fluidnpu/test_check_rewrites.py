"""`fluidnpu check MODEL.onnx` says what a file was before it was read: quantised, or of several inputs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from fluidnpu.cli import main


def save(path: Path, nodes: list[onnx.NodeProto], inputs: dict[str, int], constants: dict[str, Any]) -> None:
    """Write a graph of maps 8 x 8 whose last node gives the output."""
    images = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", channels, 8, 8])
        for name, channels in inputs.items()
    ]
    end = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "small", images, [end], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def check(path: Path) -> tuple[str, dict[str, Any]]:
    """Return what is printed, in one line, and the JSON."""
    done = CliRunner().invoke(main, ["check", str(path)])
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(CliRunner().invoke(main, ["check", str(path), "--json"]).output)
    return " ".join(done.output.split()), told


def test_a_quantised_file_is_called_so(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["image", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["x"]),
        helper.make_node("Conv", ["x", "w"], ["y"]),
    ]
    constants = {"s": np.float32(1 / 255), "z": np.uint8(0), "w": np.ones((2, 3, 3, 3), np.float32)}
    save(tmp_path / "q.onnx", nodes, {"image": 3}, constants)
    text, told = check(tmp_path / "q.onnx")
    assert "answers are within the step of its integers, not bit-exact to onnxruntime" in text
    assert told["quantised"] == "2 nodes on integers, read as float"


def test_joined_inputs_are_named_in_their_order(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Concat", ["right", "left"], ["both"], axis=1),
        helper.make_node("Conv", ["both", "w"], ["y"]),
    ]
    save(tmp_path / "two.onnx", nodes, {"left": 3, "right": 1}, {"w": np.ones((2, 4, 3, 3), np.float32)})
    text, told = check(tmp_path / "two.onnx")
    assert "which are one image: 1 channels of right, 3 channels of left, in this order" in text
    assert told["inputs"] == "1 channels of right, 3 channels of left"
    save(tmp_path / "one.onnx", nodes[1:], {"both": 4}, {"w": np.ones((2, 4, 3, 3), np.float32)})
    text, told = check(tmp_path / "one.onnx")
    assert "inputs" not in told
    assert "quantised" not in text
