"""Exits fine-tuned on images: the torch form of a network, references, freezing, resuming, refusing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluidnpu.models import Exit, ImageSet, Network, NetworkError, golden, quantise
from fluidnpu.models.errors import DataError, ModelFileError, TrainingError
from fluidnpu.models.exits import attach_bridges, attach_exits, candidate_tensors, single_exit
from fluidnpu.models.graph import Activation, Builder, Use
from fluidnpu.models.graph.activations import FUNCTIONS
from fluidnpu.models.graph.network import Parameters
from fluidnpu.models.numeric import run_float
from fluidnpu.models.onnx.from_torch import from_torch
from fluidnpu.models.training import TrainingSchedule, TunedExits, fine_tune, fine_tune_or_freeze, fine_tuning
from fluidnpu.models.training.torch_network import forward, input_values, torch_weights
from fluidnpu.models.zoo import Architecture, random_network, skeleton, with_random_weights
from fluidnpu.models.zoo.patchwork import random_patchwork

torch = pytest.importorskip("torch")

SIZE = 8
TINY = Architecture(name="tiny", blocks=2, widths=(8, 8), heads=((), ()), input_shape=(SIZE, SIZE, 1), classes=3)
QUICK = TrainingSchedule(epochs=5, batch_size=16, peak_rate=1e-2, held_out=0.25)


def pictures(count: int = 160, seed: int = 0) -> ImageSet:
    """Three classes that a small network can learn: a bright band above, in the middle, below."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    images = rng.integers(0, 120, (count, SIZE, SIZE, 1))
    for index, label in enumerate(labels):
        images[index, 2 * label : 2 * label + 3] += 100
    return ImageSet(images=images.astype(np.uint8), labels=labels.astype(np.int64))


@pytest.fixture(scope="module")
def network() -> Network:
    """Three exits with bridges on a small residual network of random weights."""
    plain = with_random_weights(single_exit(skeleton(TINY)), 0, 2)
    return attach_bridges(plain, candidate_tensors(plain, 2))


@pytest.fixture(scope="module")
def tuned(network: Network) -> TunedExits:
    return fine_tune(network, pictures(), QUICK)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["plain", "patchwork", "activations"]))
def test_torch_computes_what_the_float_reference_defines(seed: int, kind: str) -> None:
    network = random_network(seed, exits=2, activations=kind == "activations")
    if kind == "patchwork":
        network = random_patchwork(seed)
    if network.exits[-1].logits is None:
        return
    images = network.intake.random(2, seed)
    # Channels first: with channels last and shapes as odd as these PyTorch 2.13 itself ended in a
    # segmentation fault, in two of some hundred runs of the tests.
    weights = {name: (weight.contiguous(), bias) for name, (weight, bias) in torch_weights(network).items()}
    with torch.no_grad():
        found = forward(network, weights, input_values(network, images).contiguous())
    for mine, theirs in zip(run_float(network, images), found, strict=True):
        np.testing.assert_allclose(theirs.numpy(), mine, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(mine).max())))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_the_same_in_torch(name: str) -> None:
    net = Builder({"image": (1, 64, 1)})
    net.conv("only", "image", 1, 1, clip=(None, None), activation=Activation(use=Use.TABLE, function=name))
    network = net.network("function", [Exit(name="final", logits="only_out")])
    own = Parameters(weights=np.full((1, 1, 1), 12, np.float32), bias=np.full(1, -6, np.float32))
    network = replace(network, parameters={"only": own})
    images = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 64, 1)
    with torch.no_grad():
        found = forward(network, torch_weights(network), input_values(network, images))
    np.testing.assert_allclose(found[0].numpy(), run_float(network, images)[0], rtol=1e-4, atol=1e-5)


def test_training_lowers_the_loss_of_every_exit(network: Network, tuned: TunedExits) -> None:
    assert tuned.epochs == 5
    assert tuned.losses[-1] < tuned.losses[0]
    assert min(tuned.accuracies.stored) > 0.6 > tuned.given.stored[0]  # a third is chance
    assert (tuned.learned, tuned.held_out) == (120, 40)
    assert [exit.name for exit in tuned.network.exits] == [exit.name for exit in network.exits]
    assert [exit.accuracy for exit in tuned.network.exits] == list(tuned.accuracies.floating)
    assert tuned.reference.workload.exits == ("final",)
    assert tuned.network.metadata["tuned_images"] == "120 learned, 40 held out"


def test_int16_accuracies_are_the_golden_models(tuned: TunedExits) -> None:
    order = np.random.default_rng(QUICK.seed).permutation(160)
    held = pictures()[np.sort(order[:40])]
    stored = golden.run(quantise(tuned.network), held.images)
    assert tuned.accuracies.stored == tuple(float(np.mean(one.argmax(-1) == held.labels)) for one in stored)


def test_a_seed_gives_one_result(network: Network, tuned: TunedExits) -> None:
    again = fine_tune(network, pictures(), QUICK)
    for name, own in tuned.network.parameters.items():
        np.testing.assert_array_equal(own.weights, again.network.parameters[name].weights)
    other = fine_tune(network, pictures(), replace(QUICK, seed=1))
    assert other.losses != tuned.losses


def test_a_frozen_backbone_stays_to_the_bit(network: Network) -> None:
    frozen = fine_tune(network, pictures(), replace(QUICK, frozen=True, distil=0.5))
    images = pictures(8, seed=5).images
    np.testing.assert_array_equal(run_float(frozen.network, images)[-1], run_float(single_exit(network), images)[0])
    assert frozen.accuracies.stored[-1] == frozen.given.stored[0]
    moved = [name for name in network.parameters if name.startswith("exit")]
    assert moved
    for name in moved:
        assert not np.array_equal(frozen.network.parameters[name].weights, network.parameters[name].weights)
    np.testing.assert_array_equal(run_float(frozen.reference, images)[0], run_float(single_exit(network), images)[0])
    assert (frozen.reference_accuracies, frozen.cost_points) == (frozen.given, 0)
    assert (frozen.costly, frozen.advice) == (False, None)
    np.testing.assert_array_equal(
        golden.run(quantise(frozen.network), images)[-1], golden.run(quantise(frozen.reference), images)[0]
    )


def test_a_costly_joint_training_is_given_up_for_the_frozen_form(
    tuned: TunedExits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is moved to both sides of what one joint training costs; nothing else is changed."""
    good = single_exit(tuned.network)
    network, schedule = attach_exits(good, candidate_tensors(good, 2)), replace(QUICK, epochs=1)
    cost = fine_tune(network, pictures(), schedule).cost_points
    monkeypatch.setattr(fine_tuning, "COSTLY_POINTS", cost - 1e-6)
    chosen, joint = fine_tune_or_freeze(network, pictures(), schedule)
    assert joint is not None
    assert (joint.costly, joint.cost_points) == (True, cost)
    assert chosen.schedule == replace(schedule, frozen=True)
    assert chosen.cost_points == 0
    assert (chosen.reference_accuracies, chosen.given) == (joint.reference_accuracies, joint.given)
    images, long = pictures(6).images, joint.reference
    np.testing.assert_array_equal(run_float(chosen.network, images)[-1], run_float(long, images)[0])
    assert (run_float(joint.network, images)[-1] != run_float(long, images)[0]).any()
    assert (run_float(good, images)[-1] != run_float(long, images)[0]).any()  # which learned, as the exits do
    np.testing.assert_array_equal(
        golden.run(quantise(chosen.network), images)[-1], golden.run(quantise(long), images)[0]
    )
    monkeypatch.setattr(fine_tuning, "COSTLY_POINTS", cost + 1e-6)
    kept, none = fine_tune_or_freeze(network, pictures(), schedule)
    assert none is None
    assert not kept.schedule.frozen


def test_a_costly_joint_training_is_said(tuned: TunedExits) -> None:
    low = replace(
        tuned.accuracies, stored=(*tuned.accuracies.stored[:-1], tuned.reference_accuracies.stored[-1] - 0.02)
    )
    costly = replace(tuned, accuracies=low)
    assert costly.advice is not None
    assert "2.00 points below" in costly.advice
    assert "--frozen" in costly.advice
    assert replace(costly, accuracies=tuned.reference_accuracies).advice is None


def test_a_stopped_run_continues_to_the_same_bits(network: Network, tuned: TunedExits, tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop(done: int, total: int, loss: float) -> None:
        if done == 10:  # in the second epoch of seven steps
            raise StopError

    with pytest.raises(StopError):
        fine_tune(network, pictures(), QUICK, checkpoint=tmp_path, progress=stop)
    assert (tmp_path / "exits.checkpoint").exists()
    steps: list[int] = []
    again = fine_tune(network, pictures(), QUICK, checkpoint=tmp_path, progress=lambda done, *_: steps.append(done))
    assert steps[0] == 8  # the first epoch is not done twice
    assert again.losses == tuned.losses
    for name, own in tuned.network.parameters.items():
        np.testing.assert_array_equal(own.weights, again.network.parameters[name].weights)
    done: list[int] = []
    fine_tune(network, pictures(), QUICK, checkpoint=tmp_path, progress=lambda *_: done.append(1))
    assert not done  # all of it stands in the checkpoints


def test_checkpoints_of_others_are_refused(network: Network, tmp_path: Path) -> None:
    quick = replace(QUICK, epochs=1)
    fine_tune(network, pictures(), quick, checkpoint=tmp_path)
    for other, schedule in ((network, replace(quick, seed=7)), (single_exit(network), quick)):
        with pytest.raises(NetworkError, match=r"exits\.checkpoint' must be of this network, these images"):
            fine_tune(other, pictures(), schedule, checkpoint=tmp_path)
    for damage in (b"", b"PK\x03\x04 nothing", (tmp_path / "exits.checkpoint").read_bytes()[:3000]):
        (tmp_path / "exits.checkpoint").write_bytes(damage)
        with pytest.raises(DataError, match="must be a checkpoint of training"):
            fine_tune(network, pictures(), quick, checkpoint=tmp_path)


def test_patience_keeps_the_best_epoch(network: Network) -> None:
    wild = TrainingSchedule(epochs=12, batch_size=16, peak_rate=0.5, held_out=0.25, patience=2)
    found = fine_tune(network, pictures(), wild)
    best = int(np.argmin(found.losses))
    assert found.epochs == len(found.losses) == best + 3 < 12


def test_a_loss_that_is_not_finite_names_the_step(network: Network) -> None:
    name = next(iter(network.parameters))
    broken = network.parameters[name].weights.copy()
    broken[0, 0, 0] = np.nan
    bad = Parameters(weights=broken, bias=network.parameters[name].bias)
    with pytest.raises(TrainingError, match=r"that of 'exit1' was nan at step 1 of 35"):
        fine_tune(replace(network, parameters={**network.parameters, name: bad}), pictures(), QUICK)


class Items:
    """A data set as torch has them, from a function of the index."""

    def __init__(self, item: Any, count: int = 64) -> None:
        self.item, self.count = item, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.item(index)


def test_any_torch_dataset_gives_what_an_image_set_gives(network: Network) -> None:
    images = pictures(96)
    tensors = torch.from_numpy(images.images.transpose(0, 3, 1, 2).astype(np.float32) / 255)
    both = torch.utils.data.TensorDataset(tensors, torch.from_numpy(images.labels))
    schedule = replace(QUICK, epochs=1)
    one, two = fine_tune(network, both, schedule), fine_tune(network, images, schedule)
    assert one.losses == pytest.approx(two.losses, rel=1e-4)


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (lambda _: np.zeros((SIZE, SIZE), np.uint8), "must be \\(image, class\\), and item . is a ndarray"),
        (lambda _: (np.zeros((SIZE, SIZE), np.uint8), 0.5), "must be one whole number"),
        (lambda _: (np.zeros((SIZE, SIZE), np.int64), 1), "uint8 or floats of height, width and channels"),
        (lambda _: (np.zeros((SIZE, 9), np.uint8), 1), "shape"),
        (lambda _: (np.zeros((SIZE, SIZE), np.uint8), 3), "labels must be classes 0..2"),
        (lambda i: (np.zeros((SIZE + i % 2, SIZE), np.uint8), 1), "must have one shape"),
        (lambda _: (np.full((SIZE, SIZE), np.nan), 1), "finite floats"),
    ],
)
def test_items_that_do_not_fit_are_refused(network: Network, item: Any, why: str) -> None:
    with pytest.raises(NetworkError, match=why):
        fine_tune(network, Items(item), replace(QUICK, epochs=1))


def test_nonsense_is_refused_in_one_sentence(network: Network) -> None:
    nonsense: tuple[tuple[str, Any], ...] = (
        ("epochs", 0), ("peak_rate", 0.0), ("held_out", 1.0), ("distil", -0.1), ("weights", "falling"),
        ("augment", "rotate"), ("temperature", 0.0), ("patience", -1),
    )  # fmt: skip
    for field, value in nonsense:
        with pytest.raises(NetworkError, match=f"^{field} must"):
            replace(QUICK, **{field: value})
    with pytest.raises(DataError, match="one batch needs 16 images"):
        fine_tune(network, pictures(16), QUICK)
    with pytest.raises(DataError, match="data set is empty"):
        fine_tune(network, pictures()[:0], QUICK)
    with pytest.raises(NetworkError, match="must have weights to be trained"):
        fine_tune(replace(network, parameters={}), pictures(), QUICK)


class Plain(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A single-exit classifier of two pairs of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        layers: list[Any] = []
        for inside, outside, stride in ((1, 8, 1), (8, 8, 1), (8, 16, 2), (16, 16, 1)):
            layers += [nn.Conv2d(inside, outside, 3, stride, 1), nn.BatchNorm2d(outside), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 3))

    def forward(self, x: Any) -> Any:
        return self.body(x)


def test_a_module_becomes_a_network_and_stays_as_it_was() -> None:
    torch.manual_seed(0)
    module = Plain().train()
    network = from_torch(module, torch.zeros(1, 1, SIZE, SIZE))
    assert module.training
    assert (network.name, [exit.name for exit in network.exits]) == ("plain", ["final"])
    images = pictures(5).images
    with torch.no_grad():
        expected = module.eval()(torch.from_numpy(images.transpose(0, 3, 1, 2).astype(np.float32) / 255)).numpy()
    np.testing.assert_allclose(run_float(network, images)[0], expected, rtol=1e-3, atol=1e-4)
    assert len(attach_bridges(network, candidate_tensors(network, 3)).exits) == 4


def test_modules_that_cannot_be_read_are_refused() -> None:
    class Broken(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            raise RuntimeError("no such thing")

    with pytest.raises(ModelFileError, match=r"exporter must be able to write the module.*no such thing"):
        from_torch(Broken(), torch.zeros(1, 1, SIZE, SIZE))
    with pytest.raises(NetworkError, match=r"an example batch.*Plain and Tensor \(1, 8, 8\) came"):
        from_torch(Plain(), torch.zeros(1, SIZE, SIZE))
    with pytest.raises(NetworkError, match="str and Tensor"):
        from_torch("module", torch.zeros(1, 1, SIZE, SIZE))
    with pytest.raises(NetworkError, match="as many outputs as exits are named, and it has 1"):
        from_torch(Plain(), torch.zeros(1, 1, SIZE, SIZE), exits=["a", "b"])
