"""Training on a few images: it runs, it is deterministic, it keeps its hands off the held-out part, and the
file is what was trained.
"""

from __future__ import annotations

import gzip
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fluidnpu.models import ImageSet, NetworkError, quantise, read_onnx
from fluidnpu.models.errors import DataError, TrainingError
from fluidnpu.models.numeric import run_float
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.training.framework import convolve
from fluidnpu.models.training.loop import TrainedModel, _augment, split_held_out, train, train_model
from fluidnpu.models.training.schedule import learning_rate
from fluidnpu.models.zoo import Architecture

torch = pytest.importorskip("torch")

TINY = Architecture(name="tiny", blocks=1, widths=(4, 6), heads=((5,), ()), input_shape=(12, 12, 1), classes=2)


def stripes(count: int, seed: int = 0) -> ImageSet:
    """Horizontal against vertical stripes, noisy: two classes a tiny network learns in seconds."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    bars = (np.arange(12) // 2 % 2 * 160)[None, :] + np.zeros((12, 1))
    images = np.where(labels[:, None, None] == 1, bars, bars.T) + rng.integers(0, 90, (count, 12, 12))
    return ImageSet(images=images.astype(np.uint8)[..., None], labels=labels)


def run(**more: object) -> TrainedModel:
    options = {"epochs": 3, "seed": 7, "held_out": 100, "batch_size": 32} | more
    return train(TINY, stripes(500), **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return run(test=stripes(200, seed=1))


def test_it_learns_and_measures(trained: TrainedModel) -> None:
    exits = trained.network.exits
    assert exits[-1].accuracy is not None
    assert exits[-1].accuracy > 0.9
    assert sum(exit.rate or 0 for exit in exits) == pytest.approx(1)
    assert {exit.threshold for exit in exits[:-1]} == {trained.choice.threshold}
    assert trained.choice.accuracy >= exits[-1].accuracy - 0.005
    assert float(trained.network.metadata["test_accuracy"]) > 0.9
    assert set(trained.network.calibration) == set(trained.network.tensors)


def test_it_is_deterministic_and_the_seed_matters(trained: TrainedModel) -> None:
    again, other = run(), run(seed=8)
    for name, value in trained.state.items():
        np.testing.assert_array_equal(again.state[name], value)
    assert any((other.state[name] != value).any() for name, value in trained.state.items())


def test_the_test_split_influences_nothing(trained: TrainedModel) -> None:
    without = run()
    assert (without.choice, without.network.exits) == (trained.choice, trained.network.exits)


def test_the_file_computes_what_was_trained(trained: TrainedModel, tmp_path: Path) -> None:
    write_onnx(trained.network, tmp_path / "tiny.onnx", trained.state)
    network = read_onnx(tmp_path / "tiny.onnx")
    assert network.layers == trained.network.layers
    assert network.exits == trained.network.exits
    assert network.calibration == pytest.approx(trained.network.calibration)
    assert network.metadata == trained.network.metadata
    data = stripes(500)
    _, held = split_held_out(data, 7, 100)
    for exit, logits in zip(network.exits, run_float(network, held.images), strict=True):
        assert np.mean(logits.argmax(-1) == held.labels) == pytest.approx(exit.accuracy, abs=0.011)
    quantise(network)


def test_held_out_images_are_never_trained_on() -> None:
    data = stripes(500)
    marked = data.images.copy()
    marked[:, 0, 0, 0] = np.arange(500) % 251
    marked[:, 0, 1, 0] = np.arange(500) // 251
    fit, held = split_held_out(ImageSet(images=marked, labels=data.labels), 7, 100)
    keys = [{(int(i[0, 0, 0]), int(i[0, 1, 0])) for i in part.images} for part in (fit, held)]
    assert (len(keys[0]), len(keys[1]), len(keys[0] & keys[1])) == (400, 100, 0)


def test_progress_is_reported_and_the_rate_makes_one_cycle() -> None:
    seen: list[tuple[int, int]] = []
    run(epochs=1, progress=lambda done, total, loss: seen.append((done, total)))
    assert seen == [(step + 1, 12) for step in range(12)]
    rates = [learning_rate(step, 100, 0.1) for step in range(100)]
    assert max(rates) == pytest.approx(0.1)
    assert rates[0] < 0.01
    assert rates[-1] < 0.001


def test_augmentation_shifts_by_two_and_mirrors() -> None:
    image = np.zeros((1, 9, 9), np.uint8)
    image[0, 4, 3] = 200
    rng = np.random.default_rng(0)
    places = {tuple(np.argwhere(_augment(image, rng)[0])[0].tolist()) for _ in range(400)}
    assert places == {(y, x) for y in range(2, 7) for x in (*range(1, 6), *range(3, 8))}


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="at least one epoch, not 0"):
        run(epochs=0)
    with pytest.raises(NetworkError, match=r"0\.\.100 percentage points, not nan"):
        run(tolerance_points=float("nan"))
    with pytest.raises(DataError, match="holding out 500 images"):
        run(held_out=500)
    with pytest.raises(DataError, match="one batch needs 32 training images"):
        run(held_out=480)
    with pytest.raises(TrainingError, match="the loss must stay finite"):
        run(peak_rate=1e30)
    with pytest.raises(NetworkError, match="not 'vgg'"):
        train_model("vgg", tmp_path / "x.onnx")
    (tmp_path / "no").write_text("a file")
    with pytest.raises(NetworkError, match=r"x\.onnx' must lie in a folder|x\.onnx' must be a place"):
        train_model("resnet8", tmp_path / "no" / "x.onnx")
    with pytest.raises(DataError, match="install Debian's package"):
        train_model("resnet8", tmp_path / "x.onnx", folder=tmp_path)


def test_without_torch_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(TrainingError, match=r"needs PyTorch.*fluidnpu\[train\]"):
        run()


def test_an_exit_without_state_is_refused(trained: TrainedModel, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="must have weights to be exported"):
        write_onnx(replace(trained.network, parameters={}), tmp_path / "x.onnx")


@pytest.mark.long
def test_the_command_function_writes_one_file_with_its_provenance(tmp_path: Path) -> None:
    """`train_model` on made-up files in Fashion-MNIST's format: two batches to train on, the full held-out
    split to measure.
    """
    rng = np.random.default_rng(0)
    for stem, count in (("train", 5256), ("t10k", 50)):
        for kind, shape in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            body = rng.integers(0, 10, shape, np.uint8).tobytes()
            header = b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
            (tmp_path / f"{stem}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + body))
    steps: list[int] = []
    trained = train_model(
        "resnet8",
        tmp_path / "net.onnx",
        epochs=1,
        seed=3,
        folder=tmp_path,
        progress=lambda done, total, loss: steps.append(total),
    )
    assert steps == [2, 2]
    network = read_onnx(tmp_path / "net.onnx")
    assert network.metadata == trained.network.metadata
    assert network.metadata["command"] == "fluidnpu train --architecture resnet8 --epochs 1 --seed 3"
    assert network.exits == trained.network.exits


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [((1, 1), (2, 2), (0, 0)), ((1, 1), (1, 3), (0, 0)), ((3, 3), (2, 2), (1, 1))]
)
def test_a_convolution_is_torchs(kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> None:
    """Values and gradients, for few channels that lie last; torch's own gradient of the first may abort."""

    def results(convolution: Any, memory_format: Any) -> list[Any]:
        generator = torch.Generator().manual_seed(2)
        x, weight, bias = (
            torch.randn(shape, generator=generator) for shape in ((20, 4, 16, 15), (6, 4, *kernel), (6,))
        )
        leaves = [tensor.requires_grad_() for tensor in (x.contiguous(memory_format=memory_format), weight, bias)]
        value = convolution(*leaves, stride, padding)
        (value * value).sum().backward()
        return [value.detach(), *(tensor.grad for tensor in leaves)]

    found = results(convolve, torch.channels_last)
    wanted = results(torch.nn.functional.conv2d, torch.contiguous_format)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)
