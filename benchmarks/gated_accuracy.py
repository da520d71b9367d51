"""Accuracy in int16 of a MobileNetV3 and an EfficientNet trained here, beside float, on unseen images.

    python benchmarks/gated_accuracy.py [--data digits] [--fashion-mnist FOLDER] [--network NAME]...

`--data digits` takes scikit-learn's digits, which need no file; `fashion-mnist` takes all 60,000 and 10,000
images, of Debian's package or of FOLDER. Images get 32 x 32 pixels. Both networks are small ones with the
parts of their papers (arXiv 1905.02244 and 1905.11946): depthwise layers, hard swish or SiLU, gates of hard
sigmoid or sigmoid. Float is the PyTorch module. Ranges come of training images alone. The first 100 images
of the test also run on the simulated device, which must answer as golden does.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn.datasets
import torch
from torch import nn

from fluidnpu.boards import load_board
from fluidnpu.dse import explore
from fluidnpu.hls import compile_program
from fluidnpu.host import Bundle, Driver, open_device
from fluidnpu.models import ModelsError, QuantisedNetwork, from_torch, golden, quantise
from fluidnpu.models.graph import Use
from fluidnpu.models.training import FASHION_MNIST_FOLDER, load_fashion_mnist

SIDE, CLASSES = 32, 10
TEST_DIGITS = 597  # of 1,797; the others train
CALIBRATION, ON_DEVICE, WORST = 256, 100, 3
BATCH, RATE = 128, 1e-2
EPOCHS = {"digits": 30, "fashion-mnist": 3}
BOUND = 0.5  # points of accuracy that int16 may lose
Floats = npt.NDArray[np.float32]
Logits = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Data:
    """Images (N, 32, 32, 1) in 0..1 and labels, to train on and to test on."""

    images: Floats
    labels: Labels
    test_images: Floats
    test_labels: Labels


def digits() -> Data:
    """Return scikit-learn's digits, each pixel as 4 x 4."""
    loaded = sklearn.datasets.load_digits()
    images = np.kron(loaded.images, np.ones((4, 4)))[..., None].astype(np.float32) / 16
    order = np.random.default_rng(0).permutation(len(images))
    test, train = order[:TEST_DIGITS], order[TEST_DIGITS:]
    return Data(images[train], loaded.target[train], images[test], loaded.target[test])


def fashion_mnist(folder: Path) -> Data:
    """Return Fashion-MNIST's own split, with a margin of two black pixels."""
    train, test = load_fashion_mnist("train", folder), load_fashion_mnist("test", folder)
    images, test_images = (
        np.pad(some.images, ((0, 0), (2, 2), (2, 2), (0, 0))).astype(np.float32) / 255 for some in (train, test)
    )
    return Data(images, np.asarray(train.labels, np.int64), test_images, np.asarray(test.labels, np.int64))


class Gate(nn.Module):
    """Squeeze and excitation: channels times a function of their means."""

    def __init__(self, channels: int, inner: int, middle: nn.Module, last: nn.Module) -> None:
        super().__init__()
        self.factors = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1), middle, nn.Conv2d(inner, channels, 1), last
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factors: torch.Tensor = self.factors(x)
        return x * factors


class Block(nn.Module):
    """An inverted residual block: pointwise to `wide` channels, depthwise, gate, pointwise."""

    def __init__(
        self, before: int, wide: int, after: int, side: int, stride: int, activation: type[nn.Module], gate: nn.Module
    ) -> None:
        super().__init__()
        self.adds = before == after and stride == 1
        self.body = nn.Sequential(
            *normed(before, wide, 1, activation=activation),
            *normed(wide, wide, side, stride, groups=wide, activation=activation),
            gate,
            *normed(wide, after, 1, activation=nn.Identity),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.body(x)
        return x + made if self.adds else made


def normed(
    before: int, after: int, side: int, stride: int = 1, *, groups: int = 1, activation: type[nn.Module]
) -> tuple[nn.Module, ...]:
    """Return a convolution, its batch normalisation and an activation."""
    conv = nn.Conv2d(before, after, side, stride, side // 2, groups=groups, bias=False)
    return conv, nn.BatchNorm2d(after), activation()


def mobilenet_v3() -> nn.Module:
    """Return a small MobileNetV3: ReLU in front, hard swish behind, gates of hard sigmoid."""

    def block(before: int, wide: int, after: int, side: int, stride: int, activation: type[nn.Module]) -> Block:
        gate = Gate(wide, wide // 4, nn.ReLU(), nn.Hardsigmoid())
        return Block(before, wide, after, side, stride, activation, gate)

    return nn.Sequential(
        *normed(1, 16, 3, 2, activation=nn.Hardswish),
        block(16, 16, 16, 3, 1, nn.ReLU),
        block(16, 64, 24, 3, 2, nn.ReLU),
        block(24, 72, 24, 3, 1, nn.ReLU),
        block(24, 96, 40, 5, 2, nn.Hardswish),
        block(40, 160, 40, 5, 1, nn.Hardswish),
        *normed(40, 160, 1, activation=nn.Hardswish),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        *(nn.Linear(160, 128), nn.Hardswish(), nn.Linear(128, CLASSES)),
    )


def efficientnet() -> nn.Module:
    """Return a small EfficientNet: SiLU everywhere, gates of sigmoid."""

    def block(before: int, wide: int, after: int, side: int, stride: int) -> Block:
        gate = Gate(wide, max(8, before // 4), nn.SiLU(), nn.Sigmoid())
        return Block(before, wide, after, side, stride, nn.SiLU, gate)

    return nn.Sequential(
        *normed(1, 16, 3, 2, activation=nn.SiLU),
        block(16, 16, 16, 3, 1),
        block(16, 64, 24, 3, 2),
        block(24, 96, 24, 3, 1),
        block(24, 96, 40, 5, 2),
        block(40, 160, 40, 5, 1),
        *normed(40, 160, 1, activation=nn.SiLU),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, CLASSES)),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {"mobilenet_v3": mobilenet_v3, "efficientnet": efficientnet}


def trained(make: Callable[[], nn.Module], data: Data, epochs: int) -> nn.Module:
    """Train a new module, and return it in evaluation mode."""
    torch.manual_seed(0)
    model = make()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # which torch's own stub lacks
    images = torch.from_numpy(data.images.transpose(0, 3, 1, 2))
    labels = torch.from_numpy(data.labels)
    steps = len(images) // BATCH
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=1e-2)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=epochs * steps)
    for _ in range(epochs):
        order = torch.randperm(len(images))
        for at in range(steps):
            some = order[at * BATCH : (at + 1) * BATCH]
            optimiser.zero_grad()
            loss: Any = nn.functional.cross_entropy(model(images[some]), labels[some])
            loss.backward()
            optimiser.step()
            rates.step()
    return model.eval()


def float_logits(model: nn.Module, images: Floats) -> Logits:
    """Return the module's logits of images (N, H, W, C)."""
    with torch.no_grad():
        parts = torch.split(torch.from_numpy(images.transpose(0, 3, 1, 2)), 500)
        return torch.cat([model(part) for part in parts]).double().numpy()


def shares(logits: Logits) -> Logits:
    """Return the softmax of logits (N, classes)."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def device_logits(qnet: QuantisedNetwork, images: Floats) -> npt.NDArray[np.int16]:
    """Return the stored logits of the simulated device on a ZC706, one image after another."""
    design = explore(qnet.network.workload, load_board("zc706"), b_max=1).design
    program = compile_program(qnet, design)
    rows = []
    with open_device("simulated", Bundle(design=design, program=program)) as device:
        driver = Driver(device, program, design)
        driver.load()
        for image in images:
            driver.write_sample(0, image)
            driver.activate([0])
            driver.run_to_exit(0)
            rows.append(driver.stored_logits([0], 0))
    return np.concatenate(rows)


def measured(name: str, model: nn.Module, data: Data) -> str:
    """Return float and int16 accuracy side by side, and how far apart the answers are."""
    network = from_torch(model, torch.zeros(1, 1, SIDE, SIDE), name=name)
    qnet = quantise(network, data.images[:CALIBRATION])
    (stored,) = golden.run(qnet, data.test_images)
    theirs, mine = float_logits(model, data.test_images), qnet.logits(0, stored)
    answers, others = mine.argmax(axis=1), theirs.argmax(axis=1)
    exact, real = (100 * float(np.mean(some == data.test_labels)) for some in (answers, others))
    few = min(ON_DEVICE, len(stored))
    same = np.count_nonzero((device_logits(qnet, data.test_images[:few]) == stored[:few]).all(axis=1))
    units = [(layer.unit, layer.layer) for layer in qnet.layers if layer.unit is not None]
    kinds = [(unit, layer, layer.activation.function or str(unit.use)) for unit, layer in units if layer.activation]
    uses = ", ".join(f"{count} {kind}" for kind, count in Counter(kind for _, _, kind in kinds).most_common())
    tables = sorted(((u.error, layer.name, kind) for u, layer, kind in kinds if u.use is Use.TABLE), reverse=True)
    worst = ", ".join(f"{error:.2f} ({layer}, {kind})" for error, layer, kind in tables[:WORST])
    return "\n".join(
        (
            f"  accuracy: float {real:.2f} %, int16 {exact:.2f} % of {len(stored)} images; {exact - real:+.2f} points, "
            f"{'within' if abs(exact - real) <= BOUND else 'NOT within'} {BOUND}",
            f"  {np.count_nonzero(answers == others)} answers equal; largest error of a probability "
            f"{np.abs(shares(mine) - shares(theirs)).max():.1e}",
            f"  activation unit: {uses}; tables farthest from their functions, in output steps: {worst}",
            f"  simulated device: {same} of {few} images with the stored logits of golden",
        )
    )


def main() -> None:
    """Train and measure the networks, and print some lines for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", choices=list(EPOCHS), default="digits")
    parser.add_argument("--fashion-mnist", type=Path, default=FASHION_MNIST_FOLDER, metavar="FOLDER")
    parser.add_argument("--network", action="append", choices=list(NETWORKS), help="of these alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        data = digits() if options.data == "digits" else fashion_mnist(options.fashion_mnist)
    except ModelsError as error:
        parser.error(str(error))
    for name in options.network or NETWORKS:
        began = time.process_time()
        model = trained(NETWORKS[name], data, EPOCHS[options.data])
        took = time.process_time() - began
        print(f"{name}, {options.data}, trained on {len(data.images)} images for {took:.0f} s CPU", flush=True)
        print(measured(name, model, data), flush=True)


if __name__ == "__main__":
    main()
