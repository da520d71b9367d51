"""Training at 8 bits: fake quantisation beside golden, fine-tuning with it, the hook for PyTorch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fluidnpu.models import ImageSet, NetworkError, golden, quantise
from fluidnpu.models.numeric import run_float
from fluidnpu.models.numeric.float_reference import tensor_ranges
from fluidnpu.models.training import TrainingSchedule, fake_quantised, fine_tune
from fluidnpu.models.training.fake_quantisation import fake_weights, fake_words
from fluidnpu.models.training.torch_network import forward, input_values, torch_weights
from fluidnpu.models.zoo import Architecture, random_network, skeleton, with_random_weights

torch = pytest.importorskip("torch")

SIZE = 8
TINY = Architecture(name="tiny", blocks=2, widths=(8, 8), heads=((), ()), input_shape=(SIZE, SIZE, 1), classes=3)


def pictures(count: int) -> ImageSet:
    """Three classes: a bright band above, in the middle, below."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, count)
    images = rng.integers(0, 120, (count, SIZE, SIZE, 1))
    for index, label in enumerate(labels):
        images[index, 2 * label : 2 * label + 3] += 100
    return ImageSet(images=images.astype(np.uint8), labels=labels.astype(np.int64))


def test_rounding_is_that_of_int8_and_gradients_pass() -> None:
    weight = torch.tensor([[1.0, -0.5, 0.301], [10.0, 0.02, 3.0]], requires_grad=True)
    rounded = fake_weights(weight)
    steps = rounded.detach().numpy() * 127 / np.array([[1.0], [10.0]])
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-4)
    rounded.sum().backward()
    np.testing.assert_array_equal(weight.grad.numpy(), 1)
    values = torch.tensor([0.3, 2.0, -5.0], requires_grad=True)
    words = fake_words(values, 1.0)
    np.testing.assert_allclose(words.detach().numpy() * 127, [38, 127, -128], atol=1e-4)
    words.sum().backward()
    np.testing.assert_array_equal(values.grad.numpy(), [1, 0, 0])


def test_fake_quantisation_comes_nearer_to_golden_than_floats_do() -> None:
    real_errors, fake_errors = [], []
    for seed in range(8):
        network = random_network(seed, exits=1, steps=3)
        images = network.intake.random(8, seed)
        ranges = tensor_ranges(network, images)
        qnet = quantise(replace(network, calibration=ranges), bits=8)
        stored = qnet.logits(0, golden.run(qnet, images)[0])
        largest = {name: size * network.gains.get(name, 1.0) for name, size in ranges.items()}
        with torch.no_grad():
            fake = forward(network, torch_weights(network), input_values(network, images), (), largest)[0].numpy()
        spread = stored.std()
        real_errors.append(np.sqrt(np.mean((stored - run_float(network, images)[0]) ** 2)) / spread)
        fake_errors.append(np.sqrt(np.mean((stored - fake) ** 2)) / spread)
    assert np.mean(fake_errors) < 0.75 * np.mean(real_errors)


def test_fine_tuning_at_8_bits_is_judged_in_int8() -> None:
    network = with_random_weights(skeleton(TINY), 0, 2)
    schedule = TrainingSchedule(epochs=3, batch_size=16, peak_rate=1e-2, held_out=0.25, bits=8)
    tuned = fine_tune(network, pictures(160), schedule)
    order = np.random.default_rng(schedule.seed).permutation(160)
    held = pictures(160)[np.sort(order[:40])]
    stored = golden.run(quantise(tuned.network, bits=8), held.images)
    assert tuned.accuracies.stored == tuple(float(np.mean(row.argmax(-1) == held.labels)) for row in stored)
    assert tuned.accuracies.stored[-1] > 0.9 > 0.6 > tuned.given.stored[-1]  # a third is chance
    assert "bits=8" in tuned.network.metadata["tuned"]
    with pytest.raises(NetworkError, match="bits must be 16 or 8, not 4"):
        TrainingSchedule(bits=4)


def test_a_module_of_a_user_is_trained_under_rounding_and_is_float_again() -> None:
    torch.manual_seed(0)
    nn = torch.nn
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
    images = torch.rand(32, 1, SIZE, SIZE)
    before = module[0].weight.detach().clone()
    plain = module(images).detach()
    with fake_quantised(module, images) as rounded:
        inside = rounded(images)
        optimiser = torch.optim.SGD(rounded.parameters(), lr=0.1)
        steps = rounded[0].weight.detach() / (before.abs().flatten(1).amax(1) / 127).reshape(-1, 1, 1, 1)
        np.testing.assert_allclose(steps.numpy(), np.rint(steps.numpy()), atol=1e-3)
        inside.square().mean().backward()
        optimiser.step()
    assert not torch.equal(inside, plain)
    assert torch.allclose(inside, plain, atol=0.05)
    assert isinstance(module[0].weight, nn.Parameter)
    assert not torch.equal(module[0].weight, before)
    assert not torch.allclose(module[0].weight, fake_weights(module[0].weight), atol=1e-7)
