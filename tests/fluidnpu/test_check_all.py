"""`fluidnpu check --all` and `--input`: what a stranger is told about a file that does not fit as it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

from fluidnpu.cli import main


def between(path: Path, kind: str, dims: tuple[int | str, ...] = (1, 3, "h", "w")) -> str:
    """Two convolutions with a SiLU between, or a node of another kind."""
    nodes = [helper.make_node("Conv", ["image", "w"], ["a"], name="first", pads=[1, 1, 1, 1])]
    if kind == "SiLU":
        nodes += [helper.make_node("Sigmoid", ["a"], ["s"]), helper.make_node("Mul", ["a", "s"], ["b"], name="bend")]
    else:
        nodes.append(helper.make_node(kind, ["a"], ["b"], name="bend"))
    nodes.append(helper.make_node("Conv", ["b", "w"], ["map"], name="last", pads=[1, 1, 1, 1]))
    weights = numpy_helper.from_array(np.full((3, 3, 3, 3), 0.1, np.float32), "w")
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, dims)
    end = helper.make_tensor_value_info("map", TensorProto.FLOAT, (1, 3, "h", "w"))
    graph = helper.make_graph(nodes, "swish", [image], [end], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return str(path)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_all_obstacles_are_listed_and_the_answer_is_no(tmp_path: Path) -> None:
    model = between(tmp_path / "norm.onnx", "LpNormalization")
    told = run("check", model, "--input", "8x8", "--all")
    assert told.exit_code == 1
    assert " ".join(told.stdout.split()).count("1 LpNormalization bend") == 1
    assert "LpNormalization: train with batch normalisation" in " ".join(told.stdout.split())
    report = json.loads(run("check", model, "--input", "8x8", "--all", "--json").stdout)
    assert report["usable"] is False
    assert [(one["kind"], one["count"], one["nodes"]) for one in report["obstacles"]] == [
        ("LpNormalization", 1, ["bend"])
    ]


def test_a_refusal_names_the_way_to_see_all(tmp_path: Path) -> None:
    model = between(tmp_path / "norm.onnx", "LpNormalization")
    told = run("check", model, "--input", "3x8x8")
    assert told.exit_code == 2
    assert f"`fluidnpu check {model} --all` lists all" in told.stderr


def test_an_open_size_asks_for_the_option(tmp_path: Path) -> None:
    told = run("check", between(tmp_path / "relu.onnx", "Relu"))
    assert told.exit_code == 2
    assert "say its size with --input, as in --input 3x320x320" in told.stderr


def test_what_fits_is_checked_as_ever(tmp_path: Path) -> None:
    model = between(tmp_path / "relu.onnx", "Relu")
    plain, read_on = (run("check", model, "--input", "8x8", *more) for more in ((), ("--all",)))
    assert plain.exit_code == read_on.exit_code == 0
    assert plain.stdout == read_on.stdout
    assert "8 x 8 x 3" in plain.stdout


def test_tables_are_told_with_their_largest_error_once_there_are_ranges(tmp_path: Path) -> None:
    model, ready = between(tmp_path / "silu.onnx", "SiLU"), str(tmp_path / "ready.onnx")
    told = run("check", model, "--input", "3x8x8")
    assert "Uses of the activation unit: 1 silu" in told.stdout
    assert "output steps" not in told.stdout
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "images.npz", images=images)
    words = ("--input", "3x8x8", "--scale", "1/255", "--calibrate", str(tmp_path / "images.npz"), "--out", ready)
    assert run("prepare", model, *words).exit_code == 0
    assert "output steps" in run("check", ready).stdout
    (table,) = json.loads(run("check", ready, "--json").stdout)["unit"]["tables"]
    assert (table["layer"], table["function"]) == ("first", "silu")
    assert 0.3 < table["error"] < 2


def test_a_prepared_file_keeps_its_size(tmp_path: Path) -> None:
    model, ready = between(tmp_path / "relu.onnx", "Relu"), str(tmp_path / "ready.onnx")
    assert run("prepare", model, "--input", "3x8x8", "--scale", "1/255", "--out", ready).exit_code == 0
    assert run("check", ready).exit_code == 0


def test_text_that_is_no_size(tmp_path: Path) -> None:
    told = run("check", between(tmp_path / "norm.onnx", "LpNormalization"), "--input", "large")
    assert told.exit_code == 2
    assert "--input must be sizes as in 3x320x320 or 320x320, not 'large'" in told.stderr


def test_the_names_of_full_size_networks_have_nothing_in_the_way() -> None:
    assert run("check", "resnet50", "--all").exit_code == 0


def test_depthwise_layers_that_can_be_merged_are_counted(tmp_path: Path) -> None:
    """A depthwise convolution alone reads what the convolution before it makes."""
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "d"], ["b"], name="filter", group=3, pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "w"], ["map"], name="last", pads=[1, 1, 1, 1]),
    ]
    weights = [
        numpy_helper.from_array(np.full((3, n, 3, 3), 0.1, np.float32), name) for n, name in ((3, "w"), (1, "d"))
    ]
    image, end = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 3, 8, 8)) for name in ("image", "map"))
    graph = helper.make_graph(nodes, "depthwise", [image], [end], weights)
    path = str(tmp_path / "depthwise.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    told = run("check", path)
    assert "Depthwise layers that the layer before can compute on its way out: 1" in told.stdout
    assert json.loads(run("check", path, "--json").stdout)["filters"] == 1
    assert "filters" not in json.loads(
        run("check", between(tmp_path / "r.onnx", "Relu"), "--input", "8x8", "--json").stdout
    )
