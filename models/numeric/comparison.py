"""Compare int16 or int8 with the float reference on images, labels or not: every exit, output and layer.

An error is stated over the spread of what it is an error of: the standard deviation of the float values over
images and elements. So it has no unit, and 0.01 is a hundredth of what tells one answer from another.

>>> from fluidnpu.models import quantise
>>> from fluidnpu.models.zoo import random_network
>>> network = random_network(1)
>>> result = compare(network, quantise(network), network.intake.random(4, 0))
>>> [answer.name for answer in result.answers], result.error < 0.01
(['exit0', 'exit1'], True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError
from ..exits.rule import named_class
from ..exits.scores import label_overlap
from ..graph.checks import MOST_LABELS, Check, MapCheck, MapTask
from ..graph.maps import keypoints, label_map
from ..graph.network import Network
from ..graph.outputs import Output
from . import golden
from .float_reference import Images, Progress, channel_sizes, float_batches
from .integers import QuantisedNetwork
from .words import Doubles, Stored, Word

MOST_IMAGES, LEAST_IMAGES = 64, 4  # that are compared
MOST_MACS = 20_000_000_000  # of all of them together: more images than the least are taken only up to here
FAR_APART = 256  # channels of sizes so far apart: the smaller have at most eight of int16's bits


@dataclass(frozen=True, kw_only=True)
class OutputComparison:
    """The quantised values of an exit or an output beside float's.

    `rms` and `largest` are errors over the spread. Figures are None where they make no sense. `same_class`
    and `overlap` are shares of 1: of images, of a map's pixels or landmarks with one class or place in both;
    the mean intersection over union of int16's label maps with float's. `largest_score` is the largest
    difference of what an output's sigmoid or softmax returns. Classes that the host's tail names have
    neither errors nor scores.
    """

    name: str
    rms: float | None = None
    largest: float | None = None
    same_class: float | None = None
    overlap: float | None = None
    largest_score: float | None = None


@dataclass(frozen=True, kw_only=True)
class LayerDeviation:
    """The error, rms over spread, in what a layer reads and in what it writes.

    `tensor` is the one, of those that it reads and writes, whose channels are furthest apart in size, each in
    its own unit where they were equalised; `low` and `high` are the largest magnitudes of its smallest and
    its largest channel.
    """

    layer: str
    before: float
    after: float
    tensor: str
    low: float
    high: float

    @property
    def text(self) -> str:
        """Say where the error is made, and whether channels of very different size may be why."""
        made = f"layer '{self.layer}' makes most of it, {self.before:.2g} before and {self.after:.2g} behind it"
        if self.high <= FAR_APART * self.low:
            return made
        return f"{made}, where channels of tensor '{self.tensor}' reach from {self.low:.2g} to {self.high:.2g}"


@dataclass(frozen=True, kw_only=True)
class NumericComparison:
    """Integers beside float on some images: exits with values and outputs in order, and every layer.

    `saturations` counts stored values at either end of their words.
    """

    images: int
    answers: tuple[OutputComparison, ...]
    layers: tuple[LayerDeviation, ...] = field(repr=False)
    saturations: int

    @property
    def worst(self) -> OutputComparison:
        """The exit or output with the largest error, rms over spread."""
        return max(self.answers, key=lambda answer: answer.rms or 0.0)

    @property
    def error(self) -> float:
        """The error of the worst exit or output, rms over spread."""
        return self.worst.rms or 0.0

    @property
    def same_class(self) -> float:
        """The least share of images that keep float's class, of what names one; 1 where nothing does."""
        return min((answer.same_class for answer in self.answers if answer.same_class is not None), default=1.0)

    @property
    def worst_layer(self) -> LayerDeviation:
        """The layer that makes most error of what it reads."""
        return max(self.layers, key=lambda layer: layer.after - layer.before)

    @property
    def text(self) -> str:
        """Say in a few words how near int16 comes: of each figure that of the worst exit or output."""
        words = [f"off by {self.error:.2g} of the spread at '{self.worst.name}'"]
        words.append(f"{max(answer.largest or 0.0 for answer in self.answers):.2g} at most")
        same = [answer.same_class for answer in self.answers if answer.same_class is not None]
        overlaps = [answer.overlap for answer in self.answers if answer.overlap is not None]
        scores = [answer.largest_score for answer in self.answers if answer.largest_score is not None]
        words += [f"same class on {100 * min(same):.4g} %"] if same and not overlaps else []
        words += [f"mean IoU {100 * min(overlaps):.4g} %"] if overlaps else []
        words += [f"scores within {max(scores):.2g}"] if scores else []
        return ", ".join(words)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures in plain JSON types."""
        return {
            "images": self.images,
            "answers": [asdict(answer) for answer in self.answers],
            "worst_layer": asdict(self.worst_layer),
            "saturations": self.saturations,
        }


def sample(network: Network, images: Images) -> Images:
    """Return the images that `compare` should see: evenly spread, and fewer of a large network.

    Images are (N, ...), as `Network.intake` takes them.
    """
    count = min(len(images), MOST_IMAGES, max(LEAST_IMAGES, MOST_MACS // max(1, network.workload.macs)))
    return images[np.linspace(0, len(images) - 1, count).round().astype(np.int64)]


def compare(
    network: Network, qnet: QuantisedNetwork, images: Images, progress: Progress | None = None
) -> NumericComparison:
    """Run float and golden side by side on all of these images, a batch at a time.

    Images are (N, ...), as `Network.intake` takes them. Raises NetworkError where there are no images, or
    nothing is returned.
    """
    exits = [(index, exit) for index, exit in enumerate(network.exits) if exit.logits is not None]
    if not exits and not network.outputs:
        raise NetworkError(f"'{network.name}' must give something out to be compared, and it has no exit and no output")
    of_exits = [_Answers(exit.name, network.check, None) for _, exit in exits]
    of_outputs = [_Answers(output.name, None, output) for output in network.outputs]
    of_tail = _TailAnswers(network)
    layers: dict[str | None, _Errors] = {layer.name: _Errors() for layer in network.layers} | {None: _Errors()}
    sizes = {name: np.zeros(shape[2]) for name, shape in network.tensors.items()}
    done = saturated = 0
    for real in float_batches(network, images):
        part = images[done : done + len(real[network.input])]
        stored: dict[str, Stored] = {network.input: qnet.quantise_input(part)}
        for stage in range(len(network.exits)):
            golden.run_stage(qnet, stage, stored)
        saturated += sum(_at_the_ends(value, qnet.word) for value in stored.values())
        got = {name: qnet.real(name, value) for name, value in stored.items()}
        for name, value in real.items():
            sizes[name] = np.maximum(sizes[name], channel_sizes(value))
        layers[None].add(got[network.input], real[network.input])
        for layer in network.layers:
            layers[layer.name].add(layer.written(got[layer.output]), layer.written(real[layer.output]))
        for answers, (_, exit) in zip(of_exits, exits, strict=True):
            answers.add(got[exit.classes], real[exit.classes])
        for answers, output in zip(of_outputs, network.outputs, strict=True):
            answers.add(output.arranged(got[output.tensor]), output.arranged(real[output.tensor]))
        of_tail.add(
            *(
                {output.name: output.activated(output.arranged(of[output.tensor])) for output in network.outputs}
                for of in (got, real)
            )
        )
        done += len(part)
        if progress is not None:
            progress(done, len(images))
    return NumericComparison(
        images=done,
        answers=(*(answers.answer() for answers in (*of_exits, *of_outputs)), *of_tail.answers()),
        layers=tuple(
            _layer_errors(network, layers, {name: qnet.in_units(name, values) for name, values in sizes.items()})
        ),
        saturations=saturated,
    )


def _layer_errors(
    network: Network, errors: Mapping[str | None, _Errors], sizes: Mapping[str, Doubles]
) -> list[LayerDeviation]:
    """Put the error of what a layer reads, the worst of its writers', beside that of what it writes."""
    rows = []
    for layer, sources in zip(network.layers, network.sources, strict=True):
        read: list[str | None] = [network.layers[index].name for index in sources]
        read += [None] if network.input in (layer.input, layer.residual) else []
        near = {name: _apart(sizes[name]) for name in (layer.input, layer.output, layer.residual) if name is not None}
        tensor = max(near, key=lambda name: near[name][1] / near[name][0])
        low, high = near[tensor]
        before = max((errors[name].rms for name in read), default=0.0)
        after = errors[layer.name].rms
        rows.append(LayerDeviation(layer=layer.name, before=before, after=after, tensor=tensor, low=low, high=high))
    return rows


def _at_the_ends(stored: Stored, word: Word) -> int:
    """Count the values at either end of the words; clips that are meant, such as ReLU's, end elsewhere."""
    return int(np.count_nonzero(stored == word.highest) + np.count_nonzero(stored == word.lowest))


def _apart(sizes: Doubles) -> tuple[float, float]:
    """Return the magnitude of the smallest channel that is not zero throughout, and of the largest."""
    used = sizes[sizes > 0]
    return (float(used.min()), float(used.max())) if len(used) else (1.0, 1.0)


def named(values: npt.NDArray[Any], check: Check) -> npt.NDArray[Any]:
    """Return what exits with these values (N, n) name, (N, parts): a class, a map's labels, or landmarks."""
    if not isinstance(check, MapCheck):
        return named_class(values, check)[:, None]
    if check.task is MapTask.LANDMARKS:
        return keypoints(values, check)[..., :2].reshape(len(values), -1)
    return label_map(values, check).reshape(len(values), -1)


class _Errors:
    """The error of values that come batch by batch, over the spread of those that they should be."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = self._squares = self._errors = self._largest = self._magnitude = 0.0

    def add(self, got: npt.NDArray[Any], real: npt.NDArray[Any]) -> None:
        true = np.asarray(real, np.float64)
        error = got - true
        self.count += true.size
        self._sum += float(true.sum())
        self._squares += float(np.vdot(true, true))
        self._errors += float(np.vdot(error, error))
        self._largest = max(self._largest, float(np.abs(error).max(initial=0.0)))
        self._magnitude = max(self._magnitude, float(np.abs(true).max(initial=0.0)))

    @property
    def spread(self) -> float:
        """The standard deviation; of values that are all alike their magnitude, and 1 of zeros alone."""
        mean = self._sum / max(1, self.count)
        deviation = max(0.0, self._squares / max(1, self.count) - mean * mean) ** 0.5
        return float(deviation if deviation > 1e-6 * self._magnitude else self._magnitude or 1.0)

    @property
    def rms(self) -> float:
        error = (self._errors / max(1, self.count)) ** 0.5 / self.spread
        return float(error) if np.isfinite(error) else float("inf")

    @property
    def largest(self) -> float:
        return self._largest / self.spread


class _Answers:
    """What is told of an exit (with a check) or of an output, batch by batch."""

    def __init__(self, name: str, check: Check | None, output: Output | None) -> None:
        self.name, self.check, self.output = name, check, output
        self.errors = _Errors()
        self.same: list[float] = []  # a share an image
        self.overlaps: list[float] = []
        self.score: float | None = None

    def add(self, got: npt.NDArray[Any], real: npt.NDArray[Any]) -> None:
        self.errors.add(got, real)
        if self.output is not None:
            self._add_output(self.output, got, real)
        elif self.check is not None:
            flat, true = got.reshape(len(got), -1), np.asarray(real, np.float64).reshape(len(real), -1)
            self._add_names(named(flat, self.check), named(true, self.check))
            if isinstance(self.check, MapCheck) and self.check.task is MapTask.SEGMENTATION:
                maps = label_map(flat, self.check), label_map(true, self.check)
                self.overlaps += label_overlap(maps[0], maps[1].astype(np.int64), self.check.shape[2]).tolist()

    def _add_output(self, output: Output, got: npt.NDArray[Any], real: npt.NDArray[Any]) -> None:
        if not output.activation:
            return
        pair = [output.activated(np.asarray(values, np.float64)) for values in (got, real)]
        if output.activation != "log_softmax":
            self.score = max(self.score or 0.0, float(np.abs(pair[0] - pair[1]).max(initial=0.0)))
        labels = pair[0].shape[output.axis] if output.shape else 1
        if output.activation == "sigmoid" or not 2 <= labels <= MOST_LABELS:
            return
        self.add_labels(*(np.argmax(values, axis=output.axis) for values in pair))

    def add_labels(self, ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> None:
        """Add classes (N,) or label maps (N, height, width); others are compared one by one alone."""
        self._add_names(ours.reshape(len(ours), -1), theirs.reshape(len(theirs), -1))
        labels = 1 + max(int(classes.max(initial=0)) for classes in (ours, theirs))
        if ours.ndim == 3 and labels <= MOST_LABELS and min(ours.min(initial=0), theirs.min(initial=0)) >= 0:
            self.overlaps += label_overlap(ours, theirs, labels).tolist()

    def _add_names(self, ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> None:
        self.same += np.mean(ours == theirs, axis=1).tolist()

    def answer(self) -> OutputComparison:
        return OutputComparison(
            name=self.name,
            rms=self.errors.rms if self.errors.count else None,
            largest=self.errors.largest if self.errors.count else None,
            same_class=_mean(self.same),
            overlap=_mean(self.overlaps),
            largest_score=self.score,
        )


class _TailAnswers:
    """The classes and label maps that a network's tail makes of its outputs, batch by batch."""

    def __init__(self, network: Network) -> None:
        self._tail = network.tail
        ends = () if self._tail is None else self._tail.outputs
        whole = (end.name for end in ends if np.issubdtype(np.dtype(end.dtype), np.integer) and -1 not in end.shape)
        self._kept = {name: _Answers(name, None, None) for name in whole}

    def add(self, got: Mapping[str, npt.NDArray[Any]], real: Mapping[str, npt.NDArray[Any]]) -> None:
        if self._tail is None or not self._kept:
            return
        for at in range(len(next(iter(real.values())))):
            ours, theirs = (
                self._tail.run({name: of[name][at : at + 1] for name in self._tail.inputs}, self._kept)
                for of in (got, real)
            )
            for name, answers in self._kept.items():
                answers.add_labels(np.atleast_1d(ours[name]), np.atleast_1d(theirs[name]))

    def answers(self) -> list[OutputComparison]:
        return [answers.answer() for answers in self._kept.values()]


def _mean(shares: Sequence[float]) -> float | None:
    return float(np.mean(shares)) if shares else None
