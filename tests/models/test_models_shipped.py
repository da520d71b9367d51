"""The shipped model: what its metadata and README claim, against what it does; and the round trip of any
network through a file.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluidnpu import models
from fluidnpu.models import Network, golden, quantise, read_onnx, shipped_file, shipped_images
from fluidnpu.models.exits import decide_exits
from fluidnpu.models.exits.rule import confidence
from fluidnpu.models.numeric import run_float
from fluidnpu.models.numeric.float_reference import early_exit_float
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo import random_network, skeleton

MODEL = "resnet8_fashion_mnist.onnx"


@pytest.fixture(scope="module")
def shipped() -> Network:
    with shipped_file(MODEL) as path:
        return read_onnx(path)


def test_it_is_small_and_has_the_skeleton_it_was_trained_with(shipped: Network) -> None:
    with shipped_file(MODEL) as path:
        assert path.stat().st_size < 1_000_000
    bare = skeleton("resnet8")
    assert (shipped.name, shipped.layers, shipped.tensors) == (bare.name, bare.layers, bare.tensors)
    assert set(shipped.calibration) == set(shipped.tensors)
    assert shipped.workload.exit_rates == pytest.approx([exit.rate for exit in shipped.exits])
    assert sum(exit.rate or 0 for exit in shipped.exits) == pytest.approx(1)


def test_float_and_int16_agree_with_the_claims(shipped: Network) -> None:
    data = shipped_images()
    qnet = quantise(shipped)
    exits, classes, confidences = golden.early_exit(qnet, data.images)
    float_exits, float_classes, _ = early_exit_float(shipped, data.images)
    claimed = float(shipped.metadata["test_accuracy"])  # on all 10,000
    spread = 3 * np.sqrt(claimed * (1 - claimed) / len(data))
    assert abs(np.mean(float_classes == data.labels) - claimed) < spread
    assert np.mean(classes == float_classes) >= 0.995
    assert np.mean(exits == float_exits) >= 0.995
    assert (confidences > shipped.thresholds[0])[exits < 2].all()
    assert sum(golden.saturations(qnet, data.images[:200]).values()) == 0


def test_the_readme_says_what_the_file_says(shipped: Network) -> None:
    with shipped_file("README.md") as path:
        text = path.read_text()
    assert shipped.metadata["command"] in text
    for exit in shipped.exits:
        assert exit.rate is not None
        assert exit.accuracy is not None
        row = re.search(rf"^\| {exit.name} \|.*$", text, re.MULTILINE)
        assert row is not None
        for share in (exit.rate, exit.accuracy, float(shipped.metadata[f"test_accuracy_{exit.name}"])):
            assert f"{100 * share:.2f} %" in row.group()
    for key in ("held_out_accuracy", "test_accuracy"):
        assert f"{100 * float(shipped.metadata[key]):.2f} %" in text


def test_it_equals_onnxruntime(shipped: Network) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    data = shipped_images(100)
    with shipped_file(MODEL) as path:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    nchw = np.ascontiguousarray(data.images.transpose(0, 3, 1, 2)).astype(np.float32) / np.float32(255)
    for wanted, found in zip(
        session.run([exit.logits for exit in shipped.exits], {"image": nchw}),
        run_float(shipped, data.images),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 5))
def test_any_network_survives_the_round_trip(tmp_path: Path, seed: int, exits: int, steps: int) -> None:
    network = random_network(seed, exits=exits, steps=steps)
    write_onnx(network, tmp_path / "net.onnx")
    again = read_onnx(tmp_path / "net.onnx")
    assert (again.name, again.exits, again.layers) == (network.name, network.exits, network.layers)
    assert dict(again.tensors) == dict(network.tensors)
    assert again.calibration == pytest.approx(network.calibration)
    for name, parameters in network.parameters.items():
        np.testing.assert_array_equal(again.parameters[name].weights, parameters.weights)
        np.testing.assert_array_equal(again.parameters[name].bias, parameters.bias)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000))
def test_random_networks_equal_onnxruntime(tmp_path: Path, seed: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    network = random_network(seed, exits=2, steps=4)
    write_onnx(network, tmp_path / "net.onnx")
    images = np.random.default_rng(seed).random((2, *network.tensors["image"]), np.float32)
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), options, providers=["CPUExecutionProvider"])
    wanted = session.run(
        [exit.logits for exit in network.exits], {"image": np.ascontiguousarray(images.transpose(0, 3, 1, 2))}
    )
    for one, found in zip(wanted, run_float(network, images), strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-3, atol=1e-5 * max(1.0, np.abs(one).max()))


def test_writing_is_deterministic(tmp_path: Path) -> None:
    write_onnx(random_network(5), tmp_path / "a.onnx")
    write_onnx(random_network(5), tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_the_door_is_light() -> None:
    with pytest.raises(AttributeError, match=r"fluidnpu\.models attribute nothing"):
        getattr(models, "nothing")  # noqa: B009
    # A board has NumPy and nothing else: importing the room must load neither onnx nor torch.
    code = "import sys, fluidnpu.models; print([m for m in ('onnx', 'torch', 'google.protobuf') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_one_rule_decides_everywhere(shipped: Network) -> None:
    qnet = quantise(shipped)
    images = shipped_images(50).images
    logits = [qnet.logits(index, one) for index, one in enumerate(golden.run(qnet, images))]
    decided = decide_exits([confidence(one) for one in logits], shipped.thresholds)
    np.testing.assert_array_equal(decided, golden.early_exit(qnet, images)[0])
