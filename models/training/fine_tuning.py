"""Fine-tune a network with several exits, jointly or with a frozen backbone, beside its single-exit
reference.

Both references are always there: the network as it was given, and its single-exit form trained for as many
steps. Deterministic under its seed on one machine and torch version (one thread).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, NetworkError, TrainingError
from ..exits.heads import single_exit
from ..exits.scores import scores
from ..graph.checks import MapCheck
from ..graph.network import Network
from ..images.image_set import ImageSet
from ..numeric import golden
from ..numeric.float_reference import tensor_ranges
from ..numeric.quantise import quantise
from ..numeric.words import INT16
from . import checkpoints
from .examples import Examples, TorchDataset, shift_and_mirror
from .framework import load_torch
from .losses import distance, exit_loss
from .schedule import TrainingSchedule
from .torch_network import backbone_layers, forward, input_values, snapshot, torch_weights, with_weights

CALIBRATION_IMAGES = 512
RANGED_IMAGES = 64  # whose ranges an epoch of 8 bits begins with
COSTLY_POINTS = 0.5  # that joint training may take from the last exit before the frozen form is advised
EVALUATION_BATCH = 256
WEIGHT_DECAY = 1e-4

Progress = Callable[[int, int, float], None]  # (steps done, steps in all, running loss)


@dataclass(frozen=True, kw_only=True)
class Accuracies:
    """Accuracy of every exit on the held-out images, in floating point and in int16; shares of 1.

    With a schedule of 8 bits it is int8 in place of int16.
    Of maps it is the mean score (`models.exits.scores`).
    """

    floating: tuple[float, ...]
    stored: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TunedExits:
    """A fine-tuned network and its two references, all judged on the same held-out images.

    `reference` is the single-exit network trained as long or, with a frozen backbone, the network as it came;
    `given` is the accuracy of that. Eta of a selection refers to the reference. Both networks carry
    calibration.
    """

    network: Network
    reference: Network
    schedule: TrainingSchedule
    learned: int  # images
    held_out: int
    epochs: int  # that were run
    accuracies: Accuracies
    given: Accuracies
    reference_accuracies: Accuracies
    losses: tuple[float, ...] = field(repr=False)  # on the held-out images, after each epoch

    @property
    def cost_points(self) -> float:
        """Points of int16 accuracy by which the last exit lies below the reference."""
        return 100 * (self.reference_accuracies.stored[-1] - self.accuracies.stored[-1])

    @property
    def costly(self) -> bool:
        """True if joint training took more than half a point from the last exit."""
        return not self.schedule.frozen and self.cost_points > COSTLY_POINTS

    @property
    def advice(self) -> str | None:
        """One sentence where the last exit lies half a point below the reference; None elsewhere."""
        if not self.costly:
            return None
        return (
            f"joint training left the last exit {self.cost_points:.2f} points below the single-exit network trained as "
            "long; train longer, or keep the backbone as it is with `--frozen`, or `--or-frozen` where this happens"
        )


def fine_tune(
    network: Network,
    data: ImageSet | TorchDataset,
    schedule: TrainingSchedule | None = None,
    *,
    checkpoint: Path | str | None = None,
    progress: Progress | None = None,
) -> TunedExits:
    """Train the exits of a network with weights on labelled images, and its single-exit form for as many
    steps.

    With a frozen backbone the last exit stays the given network to the bit, which is the reference then.
    `checkpoint` is a folder: a run that was stopped continues there, with the same result. Raises
    NetworkError, DataError, and TrainingError, which names the step at which a loss was not finite.
    """
    return _fine_tuned(network, data, schedule or TrainingSchedule(), checkpoint, progress)


def _fine_tuned(
    network: Network,
    data: ImageSet | TorchDataset,
    schedule: TrainingSchedule,
    checkpoint: Path | str | None,
    progress: Progress | None,
    earlier: TunedExits | None = None,
) -> TunedExits:
    """Fine-tune; the references of an `earlier` run on the same images are not made again."""
    if not network.classes:
        raise NetworkError(
            f"a network must tell classes apart, or give maps, to be trained here, and '{network.name}' does not"
        )
    single = single_exit(network)
    if isinstance(network.check, MapCheck) and schedule.augment != "none":
        raise DataError(f"shifted images need shifted truths, so '{network.name}' of maps is trained with no augment")
    examples = Examples.of(network, data)
    held_out = max(1, round(schedule.held_out * len(examples)))
    learn, held = examples.split(held_out, schedule.seed)
    if len(learn) < schedule.batch_size:
        raise DataError(f"one batch needs {schedule.batch_size} images to learn from, and {len(learn)} are left")
    alone = len(network.exits) == 1
    both = 1 if alone or earlier is not None or schedule.frozen else 2
    steps = both * schedule.epochs * (len(learn) // schedule.batch_size)

    def told(phase: int) -> Progress | None:
        if progress is None:
            return None
        return lambda done, total, loss: progress(phase * total + done, steps, loss)

    folder = None if checkpoint is None else Path(checkpoint)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    tuned = _Run(network, learn, held, schedule, folder and folder / "exits.checkpoint", told(0)).run()
    reference = tuned
    if both == 2:
        plain = replace(schedule, distil=0.0)
        reference = _Run(single, learn, held, plain, folder and folder / "reference.checkpoint", told(1)).run()
    calibration, bits = _sample(learn), schedule.bits
    finished, accuracies = _judged(tuned.network, calibration, held, bits)
    finished = replace(finished, metadata={**network.metadata, **_provenance(schedule, learn, held, tuned.epochs)})
    if earlier is not None:
        other, judged, given = earlier.reference, earlier.reference_accuracies, earlier.given
    else:
        came, given = _judged(single, calibration, held, bits)
        if schedule.frozen and not alone:
            other, judged = replace(came, metadata=network.metadata), given
        else:
            other, judged = _judged(reference.network, calibration, held, bits) if both == 2 else (finished, accuracies)
            made = _provenance(schedule, learn, held, reference.epochs)
            other = replace(other, metadata={**network.metadata, **made})
    return TunedExits(
        network=finished,
        reference=other,
        schedule=schedule,
        learned=len(learn),
        held_out=len(held),
        epochs=tuned.epochs,
        accuracies=accuracies,
        given=given,
        reference_accuracies=judged,
        losses=tuple(tuned.losses),
    )


def fine_tune_or_freeze(
    network: Network,
    data: ImageSet | TorchDataset,
    schedule: TrainingSchedule | None = None,
    *,
    checkpoint: Path | str | None = None,
    progress: Progress | None = None,
) -> tuple[TunedExits, TunedExits | None]:
    """Fine-tune jointly and, where that costs the last exit more than half a point, once more with a frozen
    backbone.

    That backbone is the one of the single-exit network trained as long: the last exit is that network to the
    bit, so nothing is lost, where the network as given may be worse than what joint training left. Returns
    what is to be used, and the joint training that was given up for it; None where it was not costly. Each
    has a checkpoint of its own. Raises as `fine_tune`.
    """
    joint = fine_tune(network, data, schedule, checkpoint=checkpoint, progress=progress)
    if not joint.costly:
        return joint, None
    folder = None if checkpoint is None else Path(checkpoint) / "frozen"
    start = replace(network, parameters={**network.parameters, **joint.reference.parameters})
    frozen = replace(joint.schedule, frozen=True)
    return _fine_tuned(start, data, frozen, folder, progress, joint), joint


@dataclass
class _Run:
    """One training run: weights, optimiser and held-out losses, epoch by epoch."""

    start: Network
    learn: Examples
    held: Examples
    schedule: TrainingSchedule
    file: Path | None
    progress: Progress | None
    losses: list[float] = field(default_factory=list)
    epochs: int = 0
    largest: Mapping[str, float] | None = None

    def run(self) -> _Run:
        """Train, or continue; `network` is the outcome."""
        torch, schedule = load_torch(), self.schedule
        torch.manual_seed(schedule.seed)
        self.weights = torch_weights(self.start)
        self.frozen = backbone_layers(self.start) if schedule.frozen else frozenset()
        learning = [tensor for name, pair in self.weights.items() if name not in self.frozen for tensor in pair]
        for tensor in learning:
            tensor.requires_grad_(True)
        self.best = snapshot(self.weights)
        if learning:
            self.optimiser = torch.optim.AdamW(learning, lr=schedule.peak_rate, weight_decay=WEIGHT_DECAY)
            self._train()
        self.network = with_weights(self.start, dict(self.best if schedule.patience else self.weights))
        return self

    def _train(self) -> None:
        mark = checkpoints.fingerprint(self.start, self.learn, self.schedule) if self.file else ""
        self._resume(mark)
        per_epoch = len(self.learn) // self.schedule.batch_size
        while self.epochs < self.schedule.epochs and not self._stale():
            self._epoch(per_epoch)
            self.losses.append(self._held_out_loss())
            if min(self.losses) == self.losses[-1]:
                self.best = snapshot(self.weights)
            self.epochs += 1
            if self.file is not None:
                checkpoints.save(self.file, mark, self._state())

    def _stale(self) -> bool:
        patience = self.schedule.patience
        return bool(patience) and len(self.losses) - 1 - int(np.argmin(self.losses or [0.0])) >= patience

    def _epoch(self, per_epoch: int) -> None:
        schedule, steps = self.schedule, self.schedule.epochs * per_epoch
        rng = np.random.default_rng([schedule.seed, self.epochs])  # so that an epoch does not depend on the others
        order, running = rng.permutation(len(self.learn)), 0.0
        self.largest = self._sizes()
        for index in range(per_epoch):
            step = self.epochs * per_epoch + index
            images, labels = self.learn[order[index * schedule.batch_size :][: schedule.batch_size]].images_and_labels()
            for group in self.optimiser.param_groups:
                group["lr"] = schedule.rate(step, steps)
            value = self._step(shift_and_mirror(images, schedule.augment, rng), labels, step, steps)
            running = value if index == 0 else 0.98 * running + 0.02 * value
            if self.progress is not None:
                self.progress(step + 1, steps, running)

    def _sizes(self) -> Mapping[str, float] | None:
        """Return the largest magnitudes of tensors and words with today's weights; None at 16 bits."""
        if self.schedule.bits == INT16.bits:
            return None
        network = with_weights(self.start, self.weights)
        ranges = tensor_ranges(network, _sample(self.learn, RANGED_IMAGES))
        return {name: size * network.gains.get(name, 1.0) for name, size in ranges.items()}

    def _step(self, images: Any, labels: Any, step: int, steps: int) -> float:
        torch = load_torch()
        logits = forward(self.start, self.weights, input_values(self.start, images), self.frozen, self.largest)
        losses = self._losses(logits, torch.from_numpy(labels))
        for exit, loss in zip(self.start.exits, losses, strict=True):
            if not math.isfinite(float(loss.detach())):
                raise TrainingError(
                    f"the loss of every exit must stay finite, and that of '{exit.name}' was {float(loss.detach()):g} at "
                    f"step {step + 1} of {steps}; a lower peak rate than {self.schedule.peak_rate:g} may help"
                )
        total = sum(w * loss for w, loss in zip(self._weights(), losses, strict=True) if loss.requires_grad)
        self.optimiser.zero_grad(set_to_none=True)
        total.backward()
        self.optimiser.step()
        return float(total.detach())

    def _weights(self) -> Sequence[float]:
        return self.schedule.exit_weights(len(self.start.exits))

    def _losses(self, logits: Sequence[Any], labels: Any) -> list[Any]:
        """Return each exit's loss, in part with the last exit's probabilities as the goal."""
        check, share = self.start.check, self.schedule.distil
        losses = [exit_loss(logit, labels, check) for logit in logits]
        if share:
            goal = logits[-1].detach()
            for index, early in enumerate(logits[:-1]):
                losses[index] = (1 - share) * losses[index] + share * distance(
                    early, goal, check, self.schedule.temperature
                )
        return losses

    def _held_out_loss(self) -> float:
        torch, total = load_torch(), 0.0
        with torch.no_grad():
            for start in range(0, len(self.held), EVALUATION_BATCH):
                images, labels = self.held[start : start + EVALUATION_BATCH].images_and_labels()
                values = input_values(self.start, images)
                logits = forward(self.start, self.weights, values, (), self.largest)
                losses = self._losses(logits, torch.from_numpy(labels))
                total += len(labels) * sum(w * float(loss) for w, loss in zip(self._weights(), losses, strict=True))
        return total / len(self.held)

    def _state(self) -> dict[str, Any]:
        return {
            "epochs": self.epochs,
            "losses": list(self.losses),
            "weights": {name: list(pair) for name, pair in snapshot(self.weights).items()},
            "best": {name: list(pair) for name, pair in self.best.items()},
            "optimiser": self.optimiser.state_dict(),
        }

    def _resume(self, mark: str) -> None:
        """Go on where a checkpoint of the same run stands."""
        state = None if self.file is None else checkpoints.load(self.file, mark)
        if state is None:
            return
        self.epochs, self.losses = int(state["epochs"]), [float(loss) for loss in state["losses"]]
        with load_torch().no_grad():
            for name, pair in self.weights.items():
                for tensor, kept in zip(pair, state["weights"][name], strict=True):
                    tensor.copy_(kept)
        self.best = {name: (pair[0], pair[1]) for name, pair in state["best"].items()}
        self.optimiser.load_state_dict(state["optimiser"])


def _sample(learn: Examples, count: int = CALIBRATION_IMAGES) -> Any:
    """Return images to calibrate on, evenly spread over those learned from."""
    which = np.linspace(0, len(learn) - 1, min(count, len(learn))).round().astype(np.int64)
    return learn[which].images_and_labels()[0]


def _judged(network: Network, calibration: Any, held: Examples, bits: int) -> tuple[Network, Accuracies]:
    """Return the network with ranges and accuracies, and its accuracies on the held-out images."""
    network = network.recalibrated(tensor_ranges(network, calibration))
    qnet, weights, torch = quantise(network, bits=bits), torch_weights(network), load_torch()
    right: list[list[np.ndarray[Any, Any]]] = [[] for _ in range(2 * len(network.exits))]
    with torch.no_grad():
        for start in range(0, len(held), EVALUATION_BATCH):
            images, labels = held[start : start + EVALUATION_BATCH].images_and_labels()
            floating = forward(network, weights, input_values(network, images))
            for part, logit in zip(
                right, [*(logit.numpy() for logit in floating), *golden.run(qnet, images)], strict=True
            ):
                part.append(scores(logit, labels, network.check))
    shares = [float(np.concatenate(part).mean()) for part in right]
    accuracies = Accuracies(floating=tuple(shares[: len(network.exits)]), stored=tuple(shares[len(network.exits) :]))
    exits = tuple(replace(exit, accuracy=share) for exit, share in zip(network.exits, accuracies.floating, strict=True))
    return replace(network, exits=exits), accuracies


def _provenance(schedule: TrainingSchedule, learn: Examples, held: Examples, epochs: int) -> dict[str, str]:
    return {
        "tuned": " ".join(
            f"{key}={value}" for key, value in asdict(schedule).items() if (key, value) != ("bits", INT16.bits)
        ),
        "tuned_epochs": str(epochs),
        "tuned_images": f"{len(learn)} learned, {len(held)} held out",
        "torch": str(load_torch().__version__),
    }
