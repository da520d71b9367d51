"""Train every exit jointly on Fashion-MNIST and choose the exit threshold on held-out images.

Training walks a skeleton's layers: convolution, batch normalisation,
residual, ReLU. Deterministic under its seed on one machine and torch version (one thread).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError, NetworkError, TrainingError
from ..exits.heads import single_exit
from ..exits.rule import early_exit_predictions
from ..exits.selection import ExitChoice, choose_threshold
from ..files import check_place
from ..graph.network import Layer, Network
from ..graph.shapes import Kind
from ..images.image_set import ImageSet
from ..onnx.writing.export import BATCH_NORM_EPSILON, write_onnx
from ..zoo.residual import Architecture, skeleton
from .fashion_mnist import FASHION_MNIST_FOLDER, load_fashion_mnist
from .framework import convolve, load_torch
from .schedule import learning_rate, rising_weights

HELD_OUT = 5000  # of the 60,000 training images: for the threshold, never trained on
CALIBRATION_IMAGES = 2048

Progress = Callable[[int, int, float], None]  # (steps done, steps in all, running loss)


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A trained skeleton: `network` has measured exits and calibration, `state` each layer's arrays by
    "layer.array".

    A convolution has "weight" (OIHW) and batch normalisation's "gamma", "beta", "mean", "variance"; a
    classifier "weight" and "bias".
    """

    network: Network
    state: Mapping[str, npt.NDArray[np.float32]] = field(repr=False)
    choice: ExitChoice


def _is_classifier(layer: Layer, network: Network) -> bool:
    return layer.output in {exit.logits for exit in network.exits}


def build_modules(network: Network) -> Any:
    """Return a torch ModuleDict: a convolution per GEMM layer and, unless it is a classifier, a batch
    normalisation.
    """
    nn = load_torch().nn
    modules = nn.ModuleDict()
    for layer in network.layers:
        if layer.kind is not Kind.GEMM:
            continue
        classifier = _is_classifier(layer, network)
        modules[layer.name] = nn.Conv2d(
            layer.in_shape[2], layer.channels, layer.kernel, layer.stride, padding=layer.padding[:2], bias=classifier
        )
        if not classifier:
            nn.init.kaiming_normal_(modules[layer.name].weight, mode="fan_out", nonlinearity="relu")
            modules[layer.name + "_bn"] = nn.BatchNorm2d(layer.channels, eps=BATCH_NORM_EPSILON)
    return modules.to(memory_format=load_torch().channels_last)  # faster on one core than channels first


def forward(network: Network, modules: Any, images: Any) -> dict[str, Any]:
    """Return every tensor of the network by name, for images (N, C, H, W) in [0, 1]; logits are (N,
    classes).
    """
    tensors = {network.input: images}
    for layer in network.layers:
        value = tensors[layer.input]
        if layer.kind is Kind.SUM_POOL:
            tensors[layer.output] = value.mean((2, 3), keepdim=True)
            continue
        own = modules[layer.name]
        value = convolve(value, own.weight, own.bias, layer.stride, layer.padding[:2])
        if layer.name + "_bn" in modules:
            value = modules[layer.name + "_bn"](value)
        if layer.residual is not None:
            value = value + tensors[layer.residual]
        if layer.clip[0] is not None:
            value = value.relu()
        tensors[layer.output] = value.flatten(1) if _is_classifier(layer, network) else value
    return tensors


def _augment(
    images: npt.NDArray[np.uint8], rng: np.random.Generator, shift: int = 2, mirror: bool = True
) -> npt.NDArray[np.uint8]:
    """Shift each image (H, W) of a batch (N, H, W) by up to `shift` pixels, and mirror every second one."""
    count, height, width = images.shape
    padded = np.pad(images, ((0, 0), (shift, shift), (shift, shift)))
    dy, dx = rng.integers(0, 2 * shift + 1, (2, count))
    flip = (rng.random(count) < 0.5) & mirror
    columns = np.where(flip[:, None], np.arange(width)[::-1], np.arange(width)) + dx[:, None]
    rows = np.arange(height) + dy[:, None]
    shifted: npt.NDArray[np.uint8] = padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return shifted


def predict_logits(network: Network, modules: Any, images: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.float64]]:
    """Return logits (N, classes) of every exit for uint8 NHWC images, in evaluation mode."""
    torch = load_torch()
    modules.eval()
    parts: list[list[npt.NDArray[np.float64]]] = [[] for _ in network.exits]
    with torch.no_grad():
        for start in range(0, len(images), 500):
            tensors = forward(network, modules, _tensor(images[start : start + 500]))
            for part, exit in zip(parts, network.exits, strict=True):
                part.append(tensors[exit.classes].double().numpy())
    return [np.concatenate(part) for part in parts]


def _tensor(images: npt.NDArray[np.uint8]) -> Any:
    """Return uint8 NHWC images as float NCHW in [0, 1], channels last in memory."""
    torch = load_torch()
    floats = torch.from_numpy(np.array(images)).permute(0, 3, 1, 2).float() / 255
    return floats.contiguous(memory_format=torch.channels_last)


def _calibrate(network: Network, modules: Any, images: npt.NDArray[np.uint8]) -> dict[str, float]:
    """Return the largest magnitude of every tensor over the images."""
    ranges: dict[str, float] = {}
    modules.eval()
    with load_torch().no_grad():
        for start in range(0, len(images), 256):
            for name, value in forward(network, modules, _tensor(images[start : start + 256])).items():
                ranges[name] = max(ranges.get(name, 0.0), float(value.abs().max()))
    return ranges


def _fit(
    network: Network,
    modules: Any,
    data: ImageSet,
    epochs: int,
    batch_size: int,
    peak_rate: float,
    rng: np.random.Generator,
    progress: Progress | None,
    augment: bool,
    shift: int,
    mirror: bool,
) -> None:
    """Minimise the weighted sum of all exits' cross entropies by stochastic gradient descent."""
    torch = load_torch()
    optimiser = torch.optim.SGD(modules.parameters(), lr=peak_rate, momentum=0.9, weight_decay=5e-4, nesterov=True)
    per_epoch = len(data) // batch_size
    steps = epochs * per_epoch
    weights = rising_weights(len(network.exits))
    modules.train()
    running = 0.0
    for step in range(steps):
        if step % per_epoch == 0:
            order = rng.permutation(len(data))
        which = order[step % per_epoch * batch_size :][:batch_size]
        images = _augment(data.images[which, :, :, 0], rng, shift, mirror)[..., None] if augment else data.images[which]
        labels = torch.from_numpy(data.labels[which])
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, steps, peak_rate)
        tensors = forward(network, modules, _tensor(images))
        losses = [torch.nn.functional.cross_entropy(tensors[exit.classes], labels) for exit in network.exits]
        loss = sum(weight * loss for weight, loss in zip(weights, losses, strict=True))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        running = float(loss.detach()) if step == 0 else 0.98 * running + 0.02 * float(loss.detach())
        if not math.isfinite(running):
            raise TrainingError(f"the loss must stay finite, and at step {step} of {steps} it was {running}")
        if progress is not None:
            progress(step + 1, steps, running)


def _state(network: Network, modules: Any) -> dict[str, npt.NDArray[np.float32]]:
    state: dict[str, npt.NDArray[np.float32]] = {}
    for name, module in modules.items():
        if name.endswith("_bn"):
            arrays = {
                "gamma": module.weight,
                "beta": module.bias,
                "mean": module.running_mean,
                "variance": module.running_var,
            }
        elif module.bias is not None:
            arrays = {"weight": module.weight, "bias": module.bias}
        else:
            arrays = {"weight": module.weight}
        layer = name.removesuffix("_bn")
        state |= {f"{layer}.{key}": value.detach().numpy().copy() for key, value in arrays.items()}
    return state


def split_held_out(data: ImageSet, seed: int, held_out: int = HELD_OUT) -> tuple[ImageSet, ImageSet]:
    """Split into (training part, held-out part) by a seeded shuffle.

    Raises DataError unless both parts hold images.
    """
    if not 0 < held_out < len(data):
        raise DataError(f"holding out {held_out} images needs more than that, and {len(data)} came")
    order = np.random.default_rng(seed).permutation(len(data))
    return data[order[held_out:]], data[order[:held_out]]


def train(
    architecture: str | Architecture,
    data: ImageSet,
    *,
    epochs: int,
    seed: int,
    held_out: int = HELD_OUT,
    batch_size: int = 128,
    peak_rate: float = 0.1,
    tolerance_points: float = 0.5,
    single: bool = False,
    augment: bool = True,
    shift: int = 2,
    mirror: bool = True,
    test: ImageSet | None = None,
    progress: Progress | None = None,
) -> TrainedModel:
    """Train every exit jointly on `data` less a held-out part, then choose the threshold on that part alone.

    `single`: without the early exits and their heads. `augment`: shift the images learned from, by up to
    `shift` pixels, and with `mirror` mirror every second one. `test`, when given, is only measured: its
    accuracies go into the metadata and influence nothing. Raises NetworkError for epochs or a tolerance out
    of range, and DataError for less than one batch.
    """
    torch = load_torch()
    if epochs < 1:
        raise NetworkError(f"training needs at least one epoch, not {epochs}")
    if not 0 <= tolerance_points <= 100:
        raise NetworkError(f"the tolerance must be 0..100 percentage points, not {tolerance_points}")
    torch.manual_seed(seed)
    network = single_exit(skeleton(architecture)) if single else skeleton(architecture)
    modules = build_modules(network)
    fit_part, held_part = split_held_out(data, seed, held_out)
    if len(fit_part) < batch_size:
        raise DataError(f"one batch needs {batch_size} training images, and {len(fit_part)} are left")
    rng = np.random.default_rng(seed)
    _fit(network, modules, fit_part, epochs, batch_size, peak_rate, rng, progress, augment, shift, mirror)
    logits = predict_logits(network, modules, held_part.images)
    stage_macs = [sum(network.layers[i].shape.macs for i in network.stage_layers(s)) for s in range(len(network.exits))]
    choice = choose_threshold(logits, held_part.labels, stage_macs, tolerance_points)
    exits = tuple(
        replace(exit, threshold=choice.threshold, rate=rate, accuracy=accuracy)
        for exit, rate, accuracy in zip(network.exits, choice.rates, choice.accuracies, strict=True)
    )
    metadata = {
        "seed": str(seed),
        "epochs": str(epochs),
        "batch_size": str(batch_size),
        "peak_rate": str(peak_rate),
        "tolerance_points": str(tolerance_points),
        "torch": str(torch.__version__),
        "training_images": str(len(fit_part)),
        "held_out_images": str(len(held_part)),
        "held_out_accuracy": f"{choice.accuracy:.4f}",
        "held_out_expected_macs": f"{choice.expected_macs:.0f}",
    }
    if test is not None:
        metadata |= _measure_test(network, predict_logits(network, modules, test.images), test, choice.threshold)
    seen = _calibrate(network, modules, fit_part.images[:CALIBRATION_IMAGES])
    calibration = {name: value / network.gains[name] for name, value in seen.items()}
    trained = replace(network, exits=exits, calibration=calibration, metadata=metadata)
    return TrainedModel(network=trained, state=_state(network, modules), choice=choice)


def _measure_test(
    network: Network, logits: list[npt.NDArray[np.float64]], test: ImageSet, threshold: float
) -> dict[str, str]:
    exits, classes, _ = early_exit_predictions(logits, [threshold] * len(logits))
    shares = {
        f"test_accuracy_{exit.name}": f"{np.mean(np.argmax(logit, -1) == test.labels):.4f}"
        for exit, logit in zip(network.exits, logits, strict=True)
    }
    shares["test_accuracy"] = f"{np.mean(classes == test.labels):.4f}"
    shares["test_rates"] = " ".join(f"{np.mean(exits == index):.4f}" for index in range(len(logits)))
    return shares


def train_model(
    architecture: str,
    output: Path | str,
    *,
    epochs: int = 12,
    seed: int = 1,
    tolerance_points: float = 0.5,
    single: bool = False,
    folder: Path | str = FASHION_MNIST_FOLDER,
    progress: Progress | None = None,
) -> TrainedModel:
    """Train on Fashion-MNIST and write one ONNX file, as `fluidnpu train` does.

    The shipped model was made by this function, see models/data/README.md.
    """
    skeleton(architecture)  # an unknown name should not wait for the data
    check_place(output)  # neither should a file that cannot be written
    data, test = load_fashion_mnist("train", folder), load_fashion_mnist("test", folder)
    trained = train(
        architecture,
        data,
        epochs=epochs,
        seed=seed,
        tolerance_points=tolerance_points,
        single=single,
        test=test,
        progress=progress,
    )
    command = f"fluidnpu train --architecture {architecture} --epochs {epochs} --seed {seed}"
    if single:
        command += " --single"
    if tolerance_points != 0.5:
        command += f" --tolerance {tolerance_points:g}"
    network = replace(
        trained.network, metadata={**trained.network.metadata, "command": command, "data": "Fashion-MNIST"}
    )
    write_onnx(network, output, trained.state)
    return replace(trained, network=network)
