"""Trains the study's networks and records their confidences, once.

    python -m fluidnpu.studies.delen.recording

Three networks of four exits: two on Fashion-MNIST (Debian's package dataset-fashion-mnist), from different
seeds, and one on scikit-learn's digits. Of each, samples that were not trained on are recorded in int16
arithmetic, as the NPU computes: one part to select with, another to judge with. Needs PyTorch, scikit-learn
and some four minutes of one core.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluidnpu.models import ImageSet, Network, numeric, read_onnx
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.training import load_fashion_mnist, train

from .heads import architecture

DATA = Path(__file__).parent / "data" / "recorded.npz"
SELECT = 5000  # Fashion-MNIST images to select with; the 10,000 of the test split judge
THRESHOLD = 200  # images that `train` holds out for its own threshold, which the study does not use
TRAIN, EPOCHS, SEEDS = 32_000, 2, (1, 2)  # short on purpose: the study needs exits that differ, not the best network
DIGIT_EPOCHS, DIGIT_TRAIN, DIGIT_SELECT = 60, 600, 297  # of 1,797 digits; the other 900 judge


def split(data: ImageSet, *counts: int) -> list[ImageSet]:
    """Split into parts of these sizes and the rest, in an order drawn with a fixed seed."""
    order, parts, at = np.random.default_rng(82).permutation(len(data)), [], 0
    for count in (*counts, len(data) - sum(counts)):
        parts.append(data[order[at : at + count]])
        at += count
    return parts


def digits() -> ImageSet:
    """Load scikit-learn's 1,797 digits of 8 x 8 as uint8 images; they lie inside its wheel."""
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    pixels = (digits.images * (255 / 16)).round().astype(np.uint8)[..., None]
    return ImageSet(images=pixels, labels=digits.target.astype(np.int64), source="scikit-learn's digits")


def train_network(
    name: str, data: ImageSet, *, epochs: int, seed: int, upright: bool, say: Callable[[str], None]
) -> Network:
    """Train a network of four exits, and read it back from its file."""
    height, width, channels = data.images.shape[1:]
    shape = (height, width, channels)
    made = architecture(name, shape)
    shift, batch = (1, 64) if upright else (2, 128)
    trained = train(
        made, data, epochs=epochs, seed=seed, held_out=min(THRESHOLD, len(data) // 6), batch_size=batch,
        shift=shift, mirror=not upright,
    )  # fmt: skip
    say(f"{name}: held out {[round(exit.accuracy or 0, 4) for exit in trained.network.exits]}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        write_onnx(trained.network, path, trained.state)
        return read_onnx(path)


def record_network(name: str, network: Network, parts: dict[str, ImageSet]) -> dict[str, NDArray[Any]]:
    """Record parts of the data in int16 arithmetic, as arrays (samples, exits) by name."""
    quantised = numeric.quantise(network)
    arrays: dict[str, NDArray[Any]] = {}
    for part, images in parts.items():
        sure, right = numeric.record_exits(quantised, images)
        arrays[f"{name}_{part}_confidences"] = sure.astype(np.float16)
        arrays[f"{name}_{part}_correct"] = right
    return arrays


def main() -> None:
    """Train, record and write the file beside this one, or at the path given."""
    arrays: dict[str, NDArray[Any]] = {}
    say = partial(print, flush=True)
    select, rest, _ = split(load_fashion_mnist("train"), SELECT, TRAIN)
    test = load_fashion_mnist("test")
    for index, seed in enumerate(SEEDS, 1):
        network = train_network(f"img{index}", rest, epochs=EPOCHS, seed=seed, upright=False, say=say)
        arrays |= record_network(f"img{index}", network, {"select": select, "test": test})
    train_part, select, test = split(digits(), DIGIT_TRAIN, DIGIT_SELECT)
    network = train_network("digits", train_part, epochs=DIGIT_EPOCHS, seed=1, upright=True, say=say)
    arrays |= record_network("digits", network, {"select": select, "test": test})
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    np.savez_compressed(out, **arrays)
    for name, array in arrays.items():
        if name.endswith("correct"):
            print(name, array.mean(axis=0).round(4).tolist())


if __name__ == "__main__":
    main()
