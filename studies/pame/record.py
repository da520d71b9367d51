"""Train the study's networks and record what their exits say of images that they never saw.

Run it as `python -m fluidnpu.studies.pame.record --data FOLDER --work FOLDER OUT`: it writes the two files of
`studies/pame/data` into OUT (minutes of one core). A run that was stopped continues in the work folder.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.models import ImageSet, Network, golden, quantise, read_onnx
from fluidnpu.models.exits import attach_bridges, candidate_tensors
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.training import TrainingSchedule, fine_tune, load_fashion_mnist, train

from .networks import CANDIDATES, DIGITS, FASHION
from .recorded import LEVELS

LEARNED = {"fashion": 40_000, "digits": 900}  # images; all others are unseen
MORE_UNSEEN = 10_000  # of the training files that nothing learned from, beside the 10,000 of the test files

EPOCHS = {"fashion": 5, "digits": 30}
TUNED = {
    "fashion": TrainingSchedule(epochs=2, frozen=True, peak_rate=2e-3, held_out=0.05, augment="shift-mirror", seed=1),
    "digits": TrainingSchedule(epochs=20, frozen=True, peak_rate=2e-3, held_out=0.1, batch_size=64, seed=1),
}
SEED = 1


def record(name: str, learn: ImageSet, unseen: ImageSet, work: Path) -> dict[str, npt.NDArray[Any]]:
    """Train the network of that name on `learn`; return what each exit says of every image of `unseen`.

    Classes and sureness are (images, exits), labels and the reference (images,).
    """
    work.mkdir(parents=True, exist_ok=True)
    single = _single(name, learn, work / "single.onnx")
    network = attach_bridges(single, candidate_tensors(single, CANDIDATES[name]))
    tuned = fine_tune(network, learn, TUNED[name], checkpoint=work)
    long = fine_tune(single, learn, replace(TUNED[name], frozen=False), checkpoint=work / "long")
    print(name, tuned.accuracies, long.accuracies, flush=True)
    probabilities = _probabilities(tuned.network, unseen)
    ordered = np.sort(probabilities, axis=-1)
    entropy = -np.sum(probabilities * np.log(np.maximum(probabilities, 1e-30)), axis=-1)
    return {
        "labels": unseen.labels.astype(np.uint8),
        "classes": probabilities.argmax(-1).astype(np.uint8),
        "confidence": _levels(ordered[..., -1]),
        "margin": _levels(ordered[..., -1] - ordered[..., -2]),
        "certainty": _levels(1 - entropy / np.log(probabilities.shape[-1])),
        "reference": _probabilities(long.network, unseen)[:, 0].argmax(-1).astype(np.uint8),
        "exits": np.array([exit.name for exit in tuned.network.exits]),
        "floating": np.array(tuned.accuracies.floating),
        "learned": np.array([tuned.learned, tuned.held_out]),
    }


def _levels(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    return np.asarray(np.rint(np.clip(shares, 0, 1) * LEVELS), np.uint16)


def _single(name: str, learn: ImageSet, path: Path) -> Network:
    """Return the single-exit network, trained unless its file is there."""
    if not path.exists():
        architecture = {"fashion": FASHION, "digits": DIGITS}[name]
        small = len(learn) < 5000
        trained = train(
            architecture,
            learn,
            epochs=EPOCHS[name],
            seed=SEED,
            held_out=len(learn) // 20,
            batch_size=64 if small else 128,
            augment=not small,
            single=True,
        )
        write_onnx(replace(trained.network, name=architecture.name), path, trained.state)
    return read_onnx(path)


def _probabilities(network: Network, images: ImageSet) -> npt.NDArray[np.float64]:
    """Return softmax probabilities (images, exits, classes) of the int16 network."""
    qnet = quantise(network)
    logits = np.stack([qnet.logits(exit, stored) for exit, stored in enumerate(golden.run(qnet, images.images))], 1)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float64)


def join_sets(first: ImageSet, other: ImageSet) -> ImageSet:
    """Return the images of both sets, the first set's first."""
    images, labels = (np.concatenate(pair) for pair in ((first.images, other.images), (first.labels, other.labels)))
    return ImageSet(images=images, labels=labels, source="unseen images")


def digits() -> ImageSet:
    """Return scikit-learn's 1,797 digits of 8 x 8, in a fixed random order, as uint8."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.target))
    pixels = np.rint(digits.images[order] * 255 / 16).astype(np.uint8)[..., None]
    return ImageSet(images=pixels, labels=digits.target[order].astype(np.int64), source="digits")


def main() -> None:
    """Write `fashion.npz` and `digits.npz`."""
    parser = argparse.ArgumentParser(description="record the networks of the study")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of Fashion-MNIST's four files")
    parser.add_argument("--work", type=Path, required=True, help="checkpoints, so that a stopped run continues")
    given = parser.parse_args()
    every = digits()
    train_files, test_files = load_fashion_mnist("train", given.data), load_fashion_mnist("test", given.data)
    learned = LEARNED["fashion"]
    parts = {
        "digits": (every[: LEARNED["digits"]], every[LEARNED["digits"] :]),
        "fashion": (train_files[:learned], join_sets(test_files, train_files[learned : learned + MORE_UNSEEN])),
    }
    for name, (learn, unseen) in parts.items():
        arrays = record(name, learn, unseen, given.work / name)
        np.savez_compressed(given.out / f"{name}.npz", **arrays)
        right = arrays["classes"] == arrays["labels"][:, None]
        reference = float(np.mean(arrays["reference"] == arrays["labels"]))
        print(name, len(unseen), "unseen:", right.mean(0).round(4), "reference", round(reference, 4), flush=True)


if __name__ == "__main__":
    main()
