"""Train the study's dense networks on composited pictures and record their exits on pictures never seen.

Run it as `python -m fluidnpu.studies.pame.record_maps --data FOLDER --work FOLDER OUT`: it writes
`landmarks.npz` and `segmentation.npz` into OUT (minutes of one core). It needs torch and scikit-image.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.models import ImageSet, Network, from_torch, golden, quantise, read_onnx
from fluidnpu.models.exits import attach_bridges, candidate_tensors, scores, with_maps
from fluidnpu.models.graph import MapCheck, MapTask, map_sureness, principal_values
from fluidnpu.models.onnx import write_onnx
from fluidnpu.models.training import TrainingSchedule, exit_loss, fine_tune, load_fashion_mnist, load_torch

from .composites import MAKERS
from .dense import CANDIDATES, COUNTS, dense_module
from .recorded import LEVELS

LEARNED, UNSEEN = 3000, 2000  # pictures
EPOCHS = {"landmarks": 10, "segmentation": 8}
BATCH = 50
RATE = 4e-3
TUNED = TrainingSchedule(epochs=2, frozen=True, peak_rate=3e-3, held_out=0.05, batch_size=BATCH, seed=1)
SEED = 1


def record(name: str, learn: ImageSet, unseen: ImageSet, work: Path) -> dict[str, npt.NDArray[Any]]:
    """Train the network of that task on `learn`; return what each exit says of every picture of `unseen`.

    Scores and sureness are (pictures, exits), the reference (pictures,).
    """
    work.mkdir(parents=True, exist_ok=True)
    single = _single(name, learn, work / "single.onnx")
    network = attach_bridges(single, candidate_tensors(single, CANDIDATES))
    tuned = fine_tune(network, learn, TUNED, checkpoint=work)
    long = fine_tune(single, learn, replace(TUNED, frozen=False), checkpoint=work / "long")
    print(name, tuned.accuracies, long.accuracies, flush=True)
    write_onnx(tuned.network, work / f"{name}.onnx")
    write_onnx(long.network, work / f"{name}.reference.onnx")
    values, check = _values(tuned.network, unseen)
    reference, _ = _values(long.network, unseen)
    recorded = {
        "score": np.stack([scores(value, unseen.labels, check) for value in values], 1),
        "reference": scores(reference[-1], unseen.labels, check),
        "mean": np.stack([principal_values(value, check).mean(axis=1) for value in values], 1),
    }
    for count in COUNTS:
        counted = replace(check, count=count)
        recorded[f"count {count:g}"] = np.stack([map_sureness(value, counted) for value in values], 1)
    return {key: np.rint(shares * LEVELS).astype(np.uint16) for key, shares in recorded.items()} | {
        "exits": np.array([exit.name for exit in tuned.network.exits]),
        "learned": np.array([tuned.learned, tuned.held_out]),
    }


def _values(network: Network, pictures: ImageSet) -> tuple[list[npt.NDArray[np.float64]], MapCheck]:
    """Return the values of every exit of the int16 network, (pictures, n) each, and its check."""
    assert isinstance(network.check, MapCheck)
    qnet = quantise(network)
    return [qnet.logits(exit, words) for exit, words in enumerate(golden.run(qnet, pictures.images))], network.check


def _single(name: str, learn: ImageSet, path: Path) -> Network:
    """Return the single-exit network, trained unless its file is there."""
    if not path.exists():
        torch = load_torch()
        torch.manual_seed(SEED)
        module, check = dense_module(name)
        images = torch.tensor(learn.images).permute(0, 3, 1, 2).float() / 255
        truths = torch.tensor(learn.labels)
        optimiser = torch.optim.AdamW(module.parameters(), RATE, weight_decay=1e-4)
        steps = EPOCHS[name] * (len(learn) // BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
        for epoch in range(EPOCHS[name]):
            order, total = torch.randperm(len(learn)), 0.0
            for part in order[: len(learn) // BATCH * BATCH].split(BATCH):
                maps = module(images[part])
                loss = exit_loss(maps.permute(0, 2, 3, 1).flatten(1), truths[part], check)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                total += float(loss.detach())
            print(name, "epoch", epoch + 1, "loss", round(total * BATCH / len(learn), 4), flush=True)
        network = with_maps(from_torch(module.eval(), images[:1], name=f"resnet_{name}"), MapTask(name), top=check.top)
        write_onnx(network, path)
    return read_onnx(path)


def main() -> None:
    """Write `landmarks.npz` and `segmentation.npz`."""
    parser = argparse.ArgumentParser(description="record the dense networks of the study")
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of Fashion-MNIST's four files")
    parser.add_argument("--work", type=Path, required=True, help="checkpoints, so that a stopped run continues")
    parser.add_argument("--only", choices=list(MAKERS), help="one of the two tasks")
    given = parser.parse_args()
    garments = load_fashion_mnist("train", given.data), load_fashion_mnist("test", given.data)
    for name in [given.only] if given.only else list(MAKERS):
        learn = MAKERS[name](garments[0], LEARNED, SEED, seen=True)
        unseen = MAKERS[name](garments[1], UNSEEN, SEED + 1, seen=False)
        arrays = record(name, learn, unseen, given.work / name)
        np.savez_compressed(given.out / f"{name}.npz", **arrays)
        shares = arrays["score"].mean(0) / LEVELS
        print(
            name, len(unseen), "unseen:", shares.round(4), "reference", arrays["reference"].mean() / LEVELS, flush=True
        )


if __name__ == "__main__":
    main()
