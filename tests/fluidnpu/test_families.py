"""Families of PyTorch networks in the wild, from both exporters through every room to the simulated device.

Shuffles, an encoder with a segmentation head, two-scale detection, keypoints beside classes, signals, images
of bytes with channels last; and squeeze-and-excitation, which is refused as the gate that it is.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fluidnpu.boards import load_board
from fluidnpu.cli import main
from fluidnpu.dse import explore
from fluidnpu.hls import compile_program
from fluidnpu.host import Driver, SimulatedNpu
from fluidnpu.models import Network, golden, quantise, read_onnx
from fluidnpu.models.numeric import run_float
from fluidnpu.models.numeric.float_reference import run_float_outputs

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
nn = torch.nn
Module: Any = nn.Module


def block(inside: int, out: int, kernel: int = 3, stride: int = 1, groups: int = 1, relu: bool = True) -> Any:
    parts = [nn.Conv2d(inside, out, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(out)]
    return nn.Sequential(*parts, *([nn.ReLU()] if relu else []))


def shuffle(x: Any, groups: int) -> Any:
    batch, channels, height, width = x.shape
    split = x.view(batch, groups, channels // groups, height, width)
    return split.transpose(1, 2).contiguous().view(batch, channels, height, width)


class ShuffleNet(Module):  # type: ignore[misc]
    """Grouped 1x1 convolutions with a shuffle between them, and shortcuts."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = block(3, 12, 3, 2)
        self.first = nn.ModuleList(block(12, 12, 1, 1, 3) for _ in range(2))
        self.depthwise = nn.ModuleList(block(12, 12, 3, 1, 12, False) for _ in range(2))
        self.last = nn.ModuleList(block(12, 12, 1, 1, 3, False) for _ in range(2))
        self.fc = nn.Linear(12, 10)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        for first, depthwise, last in zip(self.first, self.depthwise, self.last, strict=True):
            x = torch.relu(x + last(depthwise(shuffle(first(x), 3))))
        return self.fc(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class ShuffleNetV2(Module):  # type: ignore[misc]
    """Channels split, one half passed by, both joined and shuffled."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = block(3, 16, 3, 2)
        self.left = nn.Sequential(block(16, 16, 3, 2, 16, False), block(16, 16, 1))
        self.right = nn.Sequential(block(16, 16, 1), block(16, 16, 3, 2, 16, False), block(16, 16, 1))
        self.units = nn.ModuleList(
            nn.Sequential(block(16, 16, 1), block(16, 16, 3, 1, 16, False), block(16, 16, 1)) for _ in range(2)
        )
        self.fc = nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = shuffle(torch.cat([self.left(x), self.right(x)], 1), 2)
        for unit in self.units:
            passed, worked = x.chunk(2, 1)
            x = shuffle(torch.cat([passed, unit(worked)], 1), 2)
        return self.fc(x.mean([2, 3]))


class Encoder(Module):  # type: ignore[misc]
    """The encoder of a U-Net with a coarse segmentation head."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((3, 8), (8, 16), (16, 24))
        self.blocks = nn.ModuleList(nn.Sequential(block(i, o), block(o, o)) for i, o in sizes)
        self.head = nn.Conv2d(24, 5, 1)

    def forward(self, x: Any) -> Any:
        for index, each in enumerate(self.blocks):
            x = each(nn.functional.max_pool2d(x, 2) if index else x)
        return torch.softmax(self.head(x), 1)


class Detector(Module):  # type: ignore[misc]
    """Heads of three anchors at two scales, arranged as YOLO's."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(block(3, 8, 3, 2), block(8, 16, 3, 2))
        self.down = block(16, 24, 3, 2)
        self.heads = nn.ModuleList((nn.Conv2d(16, 24, 1), nn.Conv2d(24, 24, 1)))

    def forward(self, x: Any) -> Any:
        fine = self.stem(x)
        found = []
        for head, features in zip(self.heads, (fine, self.down(fine)), strict=True):
            y = head(features)
            split = y.view(y.shape[0], 3, 8, y.shape[2], y.shape[3])
            found.append(torch.sigmoid(split.permute(0, 1, 3, 4, 2)))
        return tuple(found)


class Keypoints(Module):  # type: ignore[misc]
    """Classes and a heat map of each joint: one exit, one map."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(block(3, 8, 3, 2), nn.LeakyReLU(0.1), block(8, 16), nn.PReLU(16))
        self.heat = nn.Conv2d(16, 4, 1)
        self.fc = nn.Linear(16, 6)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        return self.fc(x.mean((2, 3))), torch.sigmoid(self.heat(x))


class Signal(Module):  # type: ignore[misc]
    """One-dimensional convolutions and pools."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(2, 8, 7, 2, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(8, 12, 3, padding=1, groups=2), nn.ReLU(), nn.AvgPool1d(3, 2, 1, count_include_pad=False),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(12, 5),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.net(x)


class ChannelsLast(Module):  # type: ignore[misc]
    """Images of bytes as a camera gives them, normalised in the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(block(3, 8, 3, 2), block(8, 8))
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = (x.permute(0, 3, 1, 2).float() / 255 - 0.45) / 0.22
        return self.fc(self.conv(x).mean((2, 3)))


class Gated(Module):  # type: ignore[misc]
    """A squeeze-and-excitation block between convolutions that end in SiLU and hard swish."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = block(3, 8)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 2, 1), nn.ReLU(), nn.Conv2d(2, 8, 1), nn.Sigmoid()
        )
        self.last = nn.Conv2d(8, 8, 3)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = nn.functional.silu(self.conv(x))
        return self.fc(nn.functional.hardswish(self.last(x * self.gate(x))).mean((2, 3)))


FAMILIES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "shufflenet": (ShuffleNet, (3, 32, 32)),
    "shufflenet_v2": (ShuffleNetV2, (3, 32, 32)),
    "encoder": (Encoder, (3, 32, 32)),
    "detector": (Detector, (3, 32, 32)),
    "keypoints": (Keypoints, (3, 32, 32)),
    "signal": (Signal, (2, 64)),
    "channels_last": (ChannelsLast, (32, 32, 3)),
    "gated": (Gated, (3, 16, 16)),
}
EXPORTERS = ["torchscript_11", "torchscript_17", pytest.param("dynamo_18", marks=pytest.mark.long)]


def exported(net: Any, x: Any, exporter: str, path: Path) -> None:
    """Export with a free batch."""
    kind, opset = exporter.split("_")
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "dynamo":
                free = ({0: torch.export.Dim("N")},)
                torch.onnx.export(
                    net, (x,), str(path), dynamo=True, opset_version=int(opset), verbose=False, dynamic_shapes=free,
                    input_names=["image"],
                )  # fmt: skip
            else:
                torch.onnx.export(
                    net, (x,), str(path), dynamo=False, opset_version=int(opset), input_names=["image"],
                    dynamic_axes={"image": {0: "N"}},
                )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)


def made(name: str, exporter: str, path: Path) -> tuple[Any, Any]:
    """Export a family with statistics of its own; return two inputs, and NHWC images of them."""
    make, shape = FAMILIES[name]
    torch.manual_seed(0)
    net = make().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    x = torch.rand(2, *shape)
    if name == "channels_last":
        x = (x * 255).to(torch.uint8)
    exported(net, x, exporter, path)
    values = x.numpy()
    if name == "signal":
        return values, np.ascontiguousarray(values.transpose(0, 2, 1)[:, None])
    return values, values if name == "channels_last" else np.ascontiguousarray(values.transpose(0, 2, 3, 1))


def on_the_simulated_device(network: Network, images: Any) -> tuple[list[Any], dict[str, Any]]:
    """Search a design with the paper's model, compile, and run; hold every bit to the golden model."""
    qnet = quantise(network, images)
    design = explore(network.workload, load_board("zc706"), b_max=2, model="paper", core="rtl").design
    driver = Driver(SimulatedNpu(design), compile_program(qnet, design), design)
    driver.load()
    for slot, image in enumerate(images):
        driver.write_sample(slot, image)
    driver.activate(range(len(images)))
    for stage in range(len(network.exits)):
        driver.run_stage(stage)
    slots, last = range(len(images)), len(network.exits) - 1
    logits, outputs = golden.run(qnet, images), golden.run_outputs(qnet, images)
    for stage, stored in enumerate(logits):
        np.testing.assert_array_equal(driver.stored_logits(slots, stage), stored)
    for name, stored in driver.stored_outputs(slots, last).items():
        np.testing.assert_array_equal(stored, outputs[name])
    assert set(driver.outputs(slots, last)) == {one.name for one in network.outputs}
    return [driver.logits(slots, stage) for stage in range(last + 1)], driver.outputs(slots, last)


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_runs_as_onnxruntime_runs_it(name: str, exporter: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    values, images = made(name, exporter, path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    wanted = dict(zip(names, session.run(names, {"image": values}), strict=True))
    network = read_onnx(path)
    for exit, real in zip(network.exits, run_float(network, images), strict=True):
        if exit.logits is not None:
            np.testing.assert_allclose(real, wanted[exit.name], rtol=1e-4, atol=1e-5)
    for name_out, real in run_float_outputs(network, images).items():
        np.testing.assert_allclose(real, wanted[name_out], rtol=1e-4, atol=1e-5)
    logits, outputs = on_the_simulated_device(network, images)
    for exit, found in zip(network.exits, logits, strict=True):
        if exit.logits is not None:
            np.testing.assert_allclose(found, wanted[exit.name], atol=2e-3)
    for name_out, found in outputs.items():
        np.testing.assert_allclose(found, wanted[name_out], atol=2e-3)
    assert set(names) == set(outputs) | {exit.name for exit in network.exits if exit.logits is not None}


def test_options_say_how_a_model_is_read(tmp_path: Path) -> None:
    made("keypoints", "torchscript_17", tmp_path / "keypoints.onnx")
    network = read_onnx(tmp_path / "keypoints.onnx")
    words = ["check", str(tmp_path / "keypoints.onnx"), "--json"]
    known = CliRunner().invoke(main, words)
    assert [one["name"] for one in json.loads(known.output)["outputs"]] == [network.outputs[0].name]
    few = CliRunner().invoke(main, [*words, "--most-weights", "100"])
    assert few.exit_code == 2
    assert "must have at most 100 weights and constants" in json.loads(few.stdout)["error"]
    wrong = CliRunner().invoke(main, [*words, "--logits", network.outputs[0].name])
    assert wrong.exit_code == 2
    assert "must be one vector of at least two logits" in json.loads(wrong.stdout)["error"]
    named = CliRunner().invoke(main, [*words, "--logits", network.exits[0].name])
    assert named.output == known.output


def test_the_commands_take_a_detector_to_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """check, prepare, dse, verify, build and serve, for a network without classes."""
    _, images = made("detector", "torchscript_17", tmp_path / "detector.onnx")
    np.savez(tmp_path / "images.npz", images=(images * 255).astype(np.uint8))
    ready, data = str(tmp_path / "ready.onnx"), str(tmp_path / "images.npz")

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*words])
        told = capsys.readouterr()
        assert ended.value.code == 0, told.err
        return told.out

    assert "3 x 8 x 8 x 8" in run("check", str(tmp_path / "detector.onnx"))
    run("prepare", str(tmp_path / "detector.onnx"), "--calibrate", data, "--out", ready)
    run("dse", ready, "--board", "zc706", "--cycles", "paper", "--out", str(tmp_path / "d.json"))
    told = run("verify", ready, "--board", "zc706", "--design", str(tmp_path / "d.json"), "--batches", "1")
    assert ": 0 mismatches in" in told
    project = str(tmp_path / "project")
    run("build", ready, "--board", "zc706", "--design", str(tmp_path / "d.json"), "--out", project)
    assert "fluid" in run("stream", project, "--data", data, "--rate", "200", "--slo", "5ms", "--requests", "2")
