"""Exits with maps fine-tuned on pictures: losses as defined, freezing, missing landmarks, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fluidnpu.models import ImageSet, Network, NetworkError
from fluidnpu.models.errors import DataError
from fluidnpu.models.exits import scores
from fluidnpu.models.graph import MapCheck, MapTask
from fluidnpu.models.numeric import run_float
from fluidnpu.models.training import TrainingSchedule, exit_loss, fine_tune
from fluidnpu.models.training.losses import bumps, distance
from fluidnpu.models.training.torch_network import forward, input_values, torch_weights
from fluidnpu.models.zoo.hourglass import random_hourglass

torch = pytest.importorskip("torch")

QUICK = TrainingSchedule(epochs=3, batch_size=12, peak_rate=1e-2, held_out=0.25)


def network(task: MapTask) -> Network:
    return random_hourglass(3, task, exits=2)


def pictures(task: MapTask, count: int = 48) -> ImageSet:
    """A bright square on noise: its corners are the landmarks, and it has a label by its colour."""
    net = network(task)
    height, width, channels = net.tensors[net.input]
    rng = np.random.default_rng(0)
    images = rng.integers(0, 90, (count, height, width, channels)).astype(np.uint8)
    marks, labels = np.empty((count, 3, 2)), np.zeros((count, height // 2, width // 2), np.int64)
    for index in range(count):
        row, column, label = int(rng.integers(1, 14)), int(rng.integers(1, 8)), int(rng.integers(1, 3))
        images[index, row : row + 8, column : column + 6] = 110 + 70 * label
        marks[index] = [(row, column), (row + 8, column), (row + 8, column + 6)]
        labels[index, row // 2 : row // 2 + 4, column // 2 : column // 2 + 3] = label
    truths = labels if task is MapTask.SEGMENTATION else marks / (height, width)
    return ImageSet(images=images, labels=truths)


@pytest.mark.parametrize("task", list(MapTask))
def test_torch_gives_maps_in_the_order_of_memory(task: MapTask) -> None:
    net = network(task)
    images = net.intake.random(2, 0)
    with torch.no_grad():
        found = forward(net, torch_weights(net), input_values(net, images))
    for mine, theirs in zip(run_float(net, images), found, strict=True):
        np.testing.assert_allclose(theirs.numpy(), mine, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(mine).max())))


@pytest.mark.parametrize("task", list(MapTask))
def test_training_lowers_the_loss_and_a_frozen_last_exit_keeps_every_bit(task: MapTask) -> None:
    net, data = network(task), pictures(task)
    tuned = fine_tune(net, data, QUICK)
    assert tuned.losses[-1] < 0.95 * tuned.losses[0]
    held = data[np.sort(np.random.default_rng(QUICK.seed).permutation(48)[:12])]
    each = [scores(one, held.labels, net.check).mean() for one in run_float(tuned.network, held.images)]
    assert tuned.accuracies.floating == pytest.approx(each, abs=0.05)
    frozen = fine_tune(net, data, TrainingSchedule(**{**vars(QUICK), "frozen": True, "distil": 0.5}))
    images = net.intake.random(2, 1)
    before, after = run_float(net, images), run_float(frozen.network, images)
    np.testing.assert_array_equal(before[-1], after[-1])
    assert all((one != other).any() for one, other in zip(before[:-1], after[:-1], strict=True))


def test_losses_are_those_of_plain_loops() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0, 2, (2, 60)).astype(np.float32)
    check = MapCheck(task=MapTask.SEGMENTATION, shape=(3, 5, 4))
    truths = rng.integers(-1, 4, (2, 3, 5))
    logs = values - 0.0
    logs = logs.reshape(2, 3, 5, 4)
    logs = logs - np.log(np.exp(logs).sum(-1, keepdims=True))
    judged = [-logs[n, y, x, truths[n, y, x]] for n, y, x in np.ndindex(2, 3, 5) if truths[n, y, x] >= 0]
    found = exit_loss(torch.from_numpy(values), torch.from_numpy(truths), check)
    assert float(found) == pytest.approx(np.mean(judged), rel=1e-5)
    heat = MapCheck(task=MapTask.LANDMARKS, shape=(3, 5, 4), top=2)
    places = rng.random((2, 4, 2))
    places[0, 1] = np.nan
    wanted, there = bumps(torch.from_numpy(places), heat)
    row, column = places[1, 2] * (3, 5)
    assert float(wanted[1, 1, 3, 2]) == pytest.approx(np.exp(-((1.5 - row) ** 2 + (3.5 - column) ** 2) / 2), rel=1e-5)
    share = 1 / (1 + np.exp(-values.reshape(2, 3, 5, 4).astype(np.float64)))
    goal = wanted.numpy()
    each = -(goal * np.log(share) + (1 - goal) * np.log(1 - share)).sum(axis=(1, 2))
    assert there.numpy().tolist() == [[1, 0, 1, 1], [1, 1, 1, 1]]
    found = exit_loss(torch.from_numpy(values), torch.from_numpy(places), heat)
    assert float(found) == pytest.approx(each[there.numpy() > 0].mean(), rel=1e-5)


@pytest.mark.parametrize("task", list(MapTask))
def test_distillation_is_least_at_its_goal(task: MapTask) -> None:
    rng = np.random.default_rng(2)
    check = MapCheck(task=task, shape=(3, 5, 4), top=2)
    goal = torch.from_numpy(rng.normal(0, 2, (2, 60)))
    at = torch.clone(goal if task is MapTask.SEGMENTATION else goal / 2).requires_grad_(True)
    distance(at, goal, check, 2.0).backward()
    assert float(at.grad.abs().max()) < 1e-9
    off = distance(at + torch.from_numpy(rng.normal(0, 1, (2, 60))), goal, check, 2.0)
    assert float(off.detach()) > float(distance(at, goal, check, 2.0).detach())


class _Items:
    def __init__(self, images: npt.NDArray[Any], truths: list[object]) -> None:
        self.images, self.truths = images, truths

    def __len__(self) -> int:
        return len(self.truths)

    def __getitem__(self, index: int, /) -> object:
        return self.images[index], self.truths[index]


def test_data_sets_that_do_not_fit_are_refused() -> None:
    net, data = network(MapTask.SEGMENTATION), pictures(MapTask.SEGMENTATION, 24)
    with pytest.raises(DataError, match="shifted images need shifted truths"):
        fine_tune(net, data, TrainingSchedule(augment="shift"))
    with pytest.raises(NetworkError, match=r"needs a label of 0\.\.2 for each pixel, \(N, 12, 8\), .* came"):
        fine_tune(net, ImageSet(images=data.images, labels=np.zeros(24, np.int64)), QUICK)
    with pytest.raises(NetworkError, match="rows and columns of 3 landmarks"):
        fine_tune(network(MapTask.LANDMARKS), data, QUICK)
    odd = [data.labels[0], data.labels[0][:4]] * 12
    with pytest.raises(DataError, match="the truths of a data set must have one shape"):
        fine_tune(net, _Items(data.images, list(odd)), QUICK)
    quick = TrainingSchedule(epochs=1, batch_size=8)
    by_item = fine_tune(net, _Items(data.images, list(data.labels)), quick)
    at_once = fine_tune(net, data, quick)
    assert by_item.losses == at_once.losses
