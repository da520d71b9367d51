"""Networks of parts of tensors: written and read back as they were, and equal to onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluidnpu.models import golden, quantise, read_onnx
from fluidnpu.models.errors import NetworkError, QuantisationError
from fluidnpu.models.exits import attach_exits, exit_places
from fluidnpu.models.numeric import run_float
from fluidnpu.models.numeric.float_reference import run_float_outputs
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.zoo.patchwork import random_patchwork

Floats = npt.NDArray[Any]


def close(got: Floats, want: Floats, largest: float) -> None:
    """Check int16 against floats: on average, and in the worst place.

    Of 500 seeds the worst average is 0.075 % of the largest. The worst place is at 0.9 %, at the edge of a
    map behind blocks of layers that each double what came before (seed 68), and at 0.3 % in all others.
    """
    wrong = np.abs(np.asarray(got, np.float64) - want) / largest
    assert np.sqrt((wrong**2).mean()) < 2e-3
    assert wrong.max() < 2e-2


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000))
def test_any_patchwork_survives_the_round_trip(tmp_path: Path, seed: int) -> None:
    network = random_patchwork(seed, exits=seed % 3)
    write_onnx(network, tmp_path / "net.onnx")
    again = read_onnx(tmp_path / "net.onnx")
    assert (again.exits, again.outputs) == (network.exits, network.outputs)
    assert again.layers == network.layers
    assert dict(again.tensors) == dict(network.tensors)
    assert again.calibration == pytest.approx(network.calibration)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000))
def test_any_patchwork_equals_onnxruntime(tmp_path: Path, seed: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    network = random_patchwork(seed, exits=seed % 3)
    write_onnx(network, tmp_path / "net.onnx")
    options: Any = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), options, providers=["CPUExecutionProvider"])
    images = np.random.default_rng(seed).random((2, *network.tensors["image"]), np.float32)
    names = [one.name for one in session.get_outputs()]
    found = session.run(names, {"image": np.ascontiguousarray(images.transpose(0, 3, 1, 2))})
    wanted = dict(zip(names, found, strict=True))
    qnet = quantise(network, images)
    stored = golden.run_outputs(qnet, images)
    for name, real in run_float_outputs(network, images).items():
        largest = max(1.0, float(np.abs(real).max()))
        np.testing.assert_allclose(real, wanted[name], rtol=1e-3, atol=1e-4 * largest)
        close(qnet.output(name, stored[name]), wanted[name], largest)
    for index, (exit, real) in enumerate(zip(network.exits, run_float(network, images), strict=True)):
        if exit.logits is not None:
            largest = max(1.0, float(np.abs(real).max()))
            np.testing.assert_allclose(real, wanted[exit.logits], rtol=1e-3, atol=1e-4 * largest)
            logits = qnet.logits(index, golden.run(qnet, images)[index])
            close(logits, wanted[exit.logits], largest)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_exits_attach_between_parts_and_keep_the_outputs(seed: int) -> None:
    network = random_patchwork(seed, exits=1)
    places = exit_places(network)
    if not places:
        return
    more = attach_exits(network, [places[len(places) // 2].tensor])
    assert [exit.name for exit in more.exits] == ["exit1", "exit0"]
    assert [one.name for one in more.outputs] == [one.name for one in network.outputs]
    images = np.random.default_rng(seed).random((2, *network.tensors["image"]), np.float32)
    for name, real in run_float_outputs(network, images).items():
        np.testing.assert_array_equal(run_float_outputs(more, images)[name], real)
    np.testing.assert_array_equal(run_float(more, images)[1], run_float(network, images)[0])
    for one in more.outputs:
        assert one.stage == max(more.layers[index].stage for index in more.writers(one.tensor))


def test_a_network_without_classes_takes_no_exits_and_names_its_outputs() -> None:
    network = random_patchwork(3, exits=0)
    with pytest.raises(
        NetworkError, match="an exit must give logits to decide between classes, and 'final' gives none"
    ):
        exit_places(network)
    images = np.zeros((1, *network.tensors["image"]), np.float32)
    assert golden.run(quantise(network), images)[0].shape == (1, 0)
    assert [array.tolist() for array in golden.early_exit(quantise(network), images)] == [[0], [-1], [1.0]]
    with pytest.raises(QuantisationError, match=r"must have an output 'nose', and it has \['map0'\]"):
        quantise(network).output("nose", np.zeros((1, 2), np.int16))
