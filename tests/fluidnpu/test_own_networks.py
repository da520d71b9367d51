"""A network of one's own goes from PyTorch's export to answered requests, from a folder that has `models/`,
`host.py` and `boards/` of its owner: by commands in a process of their own, and by the Python API alone.

What an installed wheel does beside such files is tested in tests/test_packaging.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from own_networks import COMMANDS, by_api, exported, owners_folder, run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return owners_folder(tmp_path_factory.mktemp("owner"))


def text(values: list[float]) -> str:
    return ",".join(map(str, values))


def by_command(
    folder: Path,
    name: str,
    exporter: str,
    boards: tuple[str, ...],
    exits: int,
    verify: bool,
    cycles: tuple[str, ...] = ("--cycles", "paper"),
) -> str:
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
        words.append(["dse", last, "--board", board, *cycles, *rates, "--out", design])
        words.append(["build", last, "--board", board, "--design", design, "--core", "rtl", "--out", project])
        words.append(["simulate", design, "--rate", "500", "--slo", "20ms", "--requests", "200", "--seeds", "2"])
        words.append(["stream", project, "--rate", "500", "--slo", "20ms", "--requests", "20"])
        words.append(["stream", project, "--rate", "500", "--slo", "20ms", "--data", str(data), "--requests", "20"])
        if verify:
            words.append(["verify", last, "--board", board, "--design", design, "--batches", "1"])
    return run(folder, COMMANDS, words)


def test_a_residual_network_by_command(folder: Path) -> None:
    said = by_command(folder, "resnet", "torchscript", ("zc706",), 2, verify=False)
    assert "resnet_torchscript can be used" in said
    assert "scale and std are folded into the first layer, which pads: the host takes the mean off" in said
    assert "Heads fitted on" in said
    assert "random images have no labels, so accuracy is not measured" in said


@pytest.mark.cpu(10, "a whole road, with PyTorch's newer exporter")
def test_a_perceptron_by_command_with_the_new_exporter(folder: Path) -> None:
    said = by_command(folder, "mlp", "dynamo", ("zcu104",), 1, verify=True)
    assert "mlp_dynamo can be used" in said
    assert "scale, std and mean are folded into the first layer" in said
    assert "no --data: 1 random images with seed 0" in said
    assert ": 0 mismatches in" in said


def test_inverted_residuals_by_the_api(folder: Path) -> None:
    found = by_api(folder, "mobilenet", "torchscript", "zcu104", 2, csim=False, b_max=2)
    assert found["answers"] == 8
    assert found["exits"] == 2


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", ["resnet", "mobilenet", "mlp"])
def test_every_network_on_both_boards(folder: Path, name: str, exporter: str) -> None:
    exits = 1 if name == "mlp" else 2
    said = by_command(folder, name, exporter, ("zc706", "zcu104"), exits, verify=True, cycles=())
    assert said.count(": 0 mismatches in") == 2
    assert " ".join(said.split()).count("arrays counted in simulated cycles of our RTL") == 2
    for board in ("zc706", "zcu104"):
        assert by_api(folder, name, exporter, board, exits, csim=True)["exits"] == exits


@pytest.mark.long
@pytest.mark.parametrize("name", ["resnet", "mobilenet", "mlp"])
def test_every_network_by_the_api_in_a_notebook(folder: Path, name: str) -> None:
    exits = 1 if name == "mlp" else 2
    found = by_api(folder, name, "torchscript", "zcu104", exits, csim=True, notebook=True)
    assert (found["exits"], found["answers"]) == (exits, 8)


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_efficientnet_lite0_with_its_real_weights(folder: Path, exporter: str) -> None:
    """51 layers, 385 MMAC: as it is, HLS core, C simulation; with three exits for the RTL core."""
    name = f"lite0_{exporter}"
    model = exported(folder, "lite0", exporter)[0]
    photos = np.random.default_rng(0).integers(0, 256, (6, 240, 320, 3), np.uint8)
    np.savez(folder / f"{name}.npz", images=photos)
    ready = f"{name}_ready.onnx"
    words = [
        ["check", str(model)],
        ["prepare", str(model), "--mean", "0.498", "--std", "0.502", "--resize", "crop:256", "--interpolation", "bicubic",
         "--calibrate", f"{name}.npz", "--out", ready],
        ["exits", ready, "--exits", "3", "--out", f"{name}_three.onnx"],
    ]  # fmt: skip
    served = ready if exporter == "dynamo" else f"{name}_three.onnx"
    how, core = ([], "hls") if exporter == "dynamo" else (["--cycles", "paper"], "rtl")
    for board in ("zc706", "zcu104"):
        design, project = f"{name}_{board}.json", f"{name}_{board}"
        words.append(["dse", served, "--board", board, *how, "--core", core, "--b-max", "2", "--out", design])
        words.append(["build", served, "--board", board, "--design", design, "--core", core, "--out", project])
        words.append(["stream", project, "--rate", "5", "--slo", "2s", "--data", f"{name}.npz"])
        if exporter == "dynamo":
            words.append(["verify", served, "--board", board, "--design", design, "--batches", "1"])
    said = run(folder, COMMANDS, words)
    assert "51 layers" in said
    assert said.count(": 0 mismatches in") == (2 if exporter == "dynamo" else 0)


@pytest.mark.long
@pytest.mark.parametrize("notebook", [False, True])
def test_efficientnet_lite0_by_the_api(folder: Path, notebook: bool) -> None:
    found = by_api(folder, "lite0", "torchscript", "zcu104", 1, csim=False, notebook=notebook)
    assert (found["exits"], found["answers"]) == (1, 6)
