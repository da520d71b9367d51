"""Networks at full size: shapes against the tables and against others' implementations, and a run of every
bit through the golden model.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from fluidnpu.models import Kind, NetworkError, golden, quantise, read_onnx, shipped_file
from fluidnpu.models.numeric import run_float
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import FULL_SIZE, full_size, random_full_size

TABLES = ("resnet50", "inception_v3", "mobilenet_v2", "efficientnet_lite0")
# torchvision's counts, with two numbers a channel of each batch normalisation, which are folded here
PARAMETERS = {"resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032, "resnet101": 44_549_160}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_resnet_has_as_many_parameters_as_torchvisions(name: str) -> None:
    *convolutions, last = (layer for layer in full_size(name).layers if layer.kind is Kind.GEMM)
    inside = sum(layer.shape.p * layer.shape.c + 2 * layer.channels for layer in convolutions)
    assert inside + (last.in_shape[2] + 1) * last.channels == PARAMETERS[name]


@pytest.mark.parametrize("name", TABLES)
def test_every_layer_has_the_shape_of_the_table(name: str) -> None:
    with shipped_file(f"layers_{name}.json") as path:
        table = json.loads(path.read_text(encoding="utf-8"))["layers"]
    workload = full_size(name).workload
    gemms = {layer.name: (layer.r, layer.p, layer.c, layer.groups) for layer in workload.layers if layer.macs}
    assert gemms == {one["name"]: (one["R"], one["P"], one["C"], one.get("groups", 1)) for one in table}
    assert len(gemms) == len(table)


def test_mobilenet_v2_has_the_published_size() -> None:
    """Sandler et al. 2018, table 4: 300 M multiply-accumulates, 3.4 M parameters."""
    layers = [layer for layer in full_size("mobilenet_v2").workload.layers if layer.macs]
    weights = sum(layer.groups * layer.p * layer.c for layer in layers)
    assert 300e6 <= sum(layer.macs for layer in layers) < 301e6
    assert 3.4e6 < weights < 3.5e6
    assert sum(layer.groups > 1 for layer in layers) == 17
    assert sum(layer.residual for layer in layers) == 10


def test_efficientnet_lite0_is_that_of_the_package() -> None:
    """Every convolution of an independent implementation, in its order: kernel, stride, channels, groups."""
    pytest.importorskip("torch")
    package = pytest.importorskip("efficientnet_lite_pytorch")
    conv = importlib.import_module("torch.nn").Conv2d
    model = package.EfficientNet.from_name("efficientnet-lite0")
    found = [
        (tuple(one.kernel_size), tuple(one.stride), one.in_channels, one.out_channels, one.groups)
        for one in model.modules()
        if isinstance(one, conv)
    ]
    layers = [layer for layer in full_size("efficientnet_lite0").layers if layer.kind is Kind.GEMM]
    ours = [(one.kernel, one.stride, one.in_shape[2], one.channels, one.groups) for one in layers[:-1]]
    assert ours == found
    assert model._fc.in_features == layers[-1].in_shape[2]


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(NetworkError, match=r"resnet18, .*, efficientnet_lite0, not 'vgg'"):
        full_size("vgg")


@pytest.mark.long
@pytest.mark.parametrize("name", FULL_SIZE)
def test_full_size_from_file_to_int16_logits(name: str, tmp_path: Path) -> None:
    """Depthwise networks round more often, and clips keep their words small: their error is larger."""
    error = 0.01 if name in ("mobilenet_v2", "efficientnet_lite0") else 0.002
    network = random_full_size(name, 4)
    path = tmp_path / "model.onnx"
    write_onnx(network, path)
    read = read_onnx(path)
    assert read.workload == network.workload
    assert len(read.exits) == 4
    qnet = quantise(read)
    images = np.random.default_rng(5).random((2, *network.tensors["image"]), np.float32)
    stored = golden.run(qnet, images)
    for index, (mine, wanted) in enumerate(zip(stored, run_float(read, images), strict=True)):
        assert np.abs(qnet.logits(index, mine) - wanted).max() < error * wanted.std()
        assert (mine[0] != mine[1]).mean() > 0.95  # the image still matters at the end
    unclipped = {layer.layer.name for layer in qnet.layers if layer.layer.clip[1] is None}
    counts = golden.saturations(qnet, images)
    assert not any(counts[name] for name in unclipped)  # elsewhere a word that saturates lies beyond the clip's 6


@pytest.mark.long
def test_onnxruntime_gives_the_same_logits(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    network = random_full_size("resnet50", ["layer2.1.conv3_out"])
    write_onnx(network, tmp_path / "model.onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    images = np.random.default_rng(6).random((1, *network.tensors["image"]), np.float32)
    found = session.run(None, {"image": images.transpose(0, 3, 1, 2)})
    for mine, theirs in zip(run_float(network, images), found, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-3 * float(theirs.std()))


@pytest.mark.long
def test_the_same_seed_gives_the_same_network() -> None:
    one, other = (random_full_size("resnet50", 2).parameters["exit1_fc"] for _ in range(2))
    np.testing.assert_array_equal(one.weights, other.weights)
