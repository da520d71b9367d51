"""`fluidnpu measure`: stages that compute what the whole does, and a profile that `place` takes."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from fluidnpu.cli import main
from fluidnpu.dse.testing import design_for, tiny_design
from fluidnpu.hls import compile_program
from fluidnpu.host import Bundle
from fluidnpu.models import quantise, read_onnx, shipped_file
from fluidnpu.models.onnx.timing import measure_stages, peak_bytes, stage_models
from fluidnpu.models.onnx.writing.export import build_onnx
from fluidnpu.models.zoo import random_network
from fluidnpu.scheduler.placement import Profile

onnxruntime = pytest.importorskip("onnxruntime")


def ran(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


@pytest.mark.parametrize("seed", [3, 5, 8])
def test_stages_one_after_another_are_the_whole_network(seed: int) -> None:
    """Every stage is fed with what the whole computes at its cut, and gives the whole's logits."""
    network = random_network(seed, exits=3)
    height, width, channels = network.tensors[network.input]
    image = np.random.default_rng(seed).random((2, channels, height, width), np.float32)
    whole, stages = build_onnx(network), stage_models(network)
    known = {one.name for model in stages for one in model.graph.input} - {network.input}
    for name in known:
        whole.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    values = {network.input: image, **ran(whole, {network.input: image})}
    for model, exit in zip(stages, network.exits, strict=True):
        given = {one.name: values[one.name] for one in model.graph.input}
        assert exit.logits is not None
        assert np.allclose(ran(model, given)[exit.logits], values[exit.logits], atol=1e-4)
    weights = [sum(math.prod(one.dims) for one in model.graph.initializer) for model in stages]
    alone = sum(math.prod(one.dims) for one in whole.graph.initializer if one.data_type == onnx.TensorProto.FLOAT)
    assert abs(sum(weights) - alone) <= 0.02 * alone + 64, "no weight is in two stages"


def test_times_are_a_row_a_stage_and_grow_with_work() -> None:
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        network = read_onnx(path)
    found = measure_stages(network, 4, seconds=0.01)
    assert [one.exit for one in found] == [exit.name for exit in network.exits]
    assert all(len(one.ns) == 4 and min(one.ns) > 0 for one in found)
    assert sum(one.ns[3] for one in found) > sum(one.ns[0] for one in found), "four images take longer than one"
    assert peak_bytes(network) > 4 * math.prod(network.tensors[network.input])


def test_the_command_writes_a_profile(tmp_path: Path) -> None:
    out = tmp_path / "host.json"
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        words = ["measure", str(path), "--batch", "2", "--seconds", "0.01", "--out", str(out), "--json"]
        done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    profile = Profile.loads(out.read_text())
    assert json.loads(done.output)["digest"] == profile.digest
    assert profile.b_max == 2
    assert len(profile.exits) == 3
    assert profile.source.startswith("measured with onnxruntime ")
    assert profile.blocks[0].cut_bytes > 0
    assert profile.blocks[-1].cut_bytes == 0


def test_a_bundle_is_measured_as_it_is_served(tmp_path: Path) -> None:
    bundle, to, profile = demo_like(tmp_path / "b"), tmp_path / "worker", tmp_path / "host.json"
    words = ["measure", str(tmp_path / "b"), "--seconds", "0.001", "--worker", str(to), "--out", str(profile)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    made = Bundle.read(to)
    assert made.program.image() == bundle.program.image()
    assert Profile.loads(profile.read_text()) == made.profile
    for shown in (made.design.exits[0], f"{made.design.latency.ns[0][0] / 1e6:.3f}", "one thread of", str(to)[-20:]):
        assert shown in done.output.replace("\n", ""), "what is on the screen is what was written"
    done = CliRunner().invoke(main, ["measure", str(tmp_path / "b"), "--seconds", "0.001", "--json"])
    assert json.loads(done.output)["source"].startswith("measured on one thread of ")


def demo_like(folder: Path) -> Bundle:
    """Write the bundle of a tiny network for a tiny design."""
    qnet = quantise(random_network(3, exits=2))
    design = design_for(qnet.network.workload)
    bundle = Bundle(design=design, program=compile_program(qnet, design))
    bundle.write(folder)
    return bundle


def test_what_cannot_be_measured(tmp_path: Path) -> None:
    demo_like(tmp_path / "b")
    (tmp_path / "empty").mkdir()
    table = tmp_path / "design.json"
    table.write_text(tiny_design().dumps())
    for words, said in (
        (["resnet50"], "must have weights to be timed"),
        ([str(table)], "design.json"),
        (["resnet50", "--seconds", "0"], "must be above 0"),
        ([str(tmp_path / "b"), "--batch", "4"], "--batch is for a MODEL"),
        ([str(tmp_path / "b"), "--worker", str(tmp_path / "b")], "--worker must be another folder"),
        (["resnet50", "--worker", str(tmp_path / "w")], "--worker is for a BUNDLE"),
        ([str(tmp_path / "empty")], "must be a bundle with a readable design.json"),
    ):
        done = CliRunner().invoke(main, ["measure", *words])
        assert done.exit_code == 2, done.output
        assert said in done.output.replace("\n", " ")
