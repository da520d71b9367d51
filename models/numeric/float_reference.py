"""Run a network in floating point with plain NumPy, for calibration and float accuracy without a framework.

Average pools divide by their taps here, so no tensor carries a gain as the NPU's stored tensors do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError
from ..exits.rule import early_exit_predictions
from ..graph.activations import Clip, Use
from ..graph.network import Layer, Network, Parameters
from ..graph.shapes import Kind

Floats = npt.NDArray[np.float32]
Images = npt.NDArray[np.uint8] | npt.NDArray["np.floating[Any]"]

Progress = Callable[[int, int], None]  # (images done, in all)

_CHUNK_WORDS = 1 << 22  # of im2col a batch is cut into


def _windows(layer: Layer, x: Floats, fill: float) -> Floats:
    top, left, bottom, right = (max(0, side) for side in layer.padding)
    padded = np.pad(layer.cropped(x), ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    extent = [(k - 1) * d + 1 for k, d in zip(layer.kernel, layer.dilation, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=(1, 2))  # type: ignore[call-overload]
    views = views[:, :: layer.stride[0], :: layer.stride[1], :, :: layer.dilation[0], :: layer.dilation[1]]
    return np.asarray(views.transpose(0, 1, 2, 4, 5, 3))


def run_float_layer(layer: Layer, parameters: Parameters | None, x: Floats, residual: Floats | None = None) -> Floats:
    """Run one layer on float32 (B, H, W, C); an average pool divides by its taps."""
    return _activated(layer, parameters, _word(layer, parameters, x, residual), residual)


def _word(layer: Layer, parameters: Parameters | None, x: Floats, residual: Floats | None) -> Floats:
    """Return what stands in front of the layer's activation."""
    if layer.kind is Kind.GEMM:
        if parameters is None:
            raise NetworkError(f"layer '{layer.name}' must have weights to run, and the network brings none")
        windows = _windows(layer, x, 0.0)
        split = windows.reshape(*windows.shape[:3], -1, layer.groups, windows.shape[5] // layer.groups)
        rows = split.transpose(4, 0, 1, 2, 3, 5).reshape(layer.groups, -1, parameters.weights.shape[1])
        value = np.matmul(rows, parameters.weights).transpose(1, 0, 2).reshape(*windows.shape[:3], -1) + parameters.bias
    elif layer.kind is Kind.SUM_POOL:
        value = _windows(layer, x, 0.0).mean(axis=(3, 4))
    else:
        value = _windows(layer, x, -np.inf).max(axis=(3, 4))
    if residual is not None and layer.adds:
        value = value + residual
    return _clipped(value, layer.clip)


def _activated(layer: Layer, parameters: Parameters | None, word: Floats, residual: Floats | None) -> Floats:
    activation = layer.activation
    if activation is None:
        return word
    if activation.use is Use.TABLE:
        return _clipped(activation.real(word), activation.clip)
    if activation.use is Use.PRODUCT:
        if residual is None:
            raise NetworkError(f"layer '{layer.name}' must be given what it multiplies by, and nothing came")
        return _clipped(word * residual, activation.clip)
    if parameters is None:
        raise NetworkError(f"layer '{layer.name}' must have slopes to run, and the network brings none")
    if activation.use is Use.SLOPE:
        return _clipped(np.where(word < 0, word * parameters.slopes, word), activation.clip)
    return _clipped(word * parameters.slopes + parameters.offsets, activation.clip)


def _clipped(value: npt.NDArray[Any], clip: Clip) -> Floats:
    low, high = clip
    return np.asarray(value if low is None and high is None else np.clip(value, low, high), np.float32)


def float_batches(
    network: Network, images: Images, inner: dict[str, float] | None = None
) -> Iterator[dict[str, Floats]]:
    """Yield every tensor of the network in real units, float32 (B, height, width, channels), by batches.

    `inner` is given the largest magnitude so far of every word in front of an activation, by `Layer.inner`.
    Raises NetworkError where there are no images.
    """
    if not len(images):
        raise NetworkError(f"'{network.name}' must be given at least one image to run on, and none came")
    words = max(layer.shape.r * layer.kernel[0] * layer.kernel[1] * layer.in_shape[2] for layer in network.layers)
    step = max(1, _CHUNK_WORDS // words)
    for start in range(0, len(images), step):
        tensors = {network.input: network.intake.values(images[start : start + step]).astype(np.float32)}
        for layer in network.layers:
            residual = None if layer.residual is None else layer.added(tensors[layer.residual])
            source = layer.read(tensors[layer.input])
            parameters = network.parameters.get(layer.name)
            value = word = _word(layer, parameters, source, residual)
            if layer.inner is not None:
                value = _activated(layer, parameters, word, residual)
                if inner is not None:
                    inner[layer.inner] = max(inner.get(layer.inner, 0.0), float(np.abs(word).max()))
            shape = network.tensors[layer.output]
            if layer.fills(shape):
                tensors[layer.output] = value
            else:
                whole = tensors.setdefault(layer.output, np.zeros((len(value), *shape), np.float32))
                layer.written(whole)[...] = value
        yield tensors


def channel_sizes(values: Floats) -> Floats:
    """Return the largest magnitude of every channel of tensors (B, height, width, channels)."""
    return np.asarray(np.abs(values).max(axis=0).max(axis=(0, 1)))  # in two steps: twice as fast as at once


@dataclass(frozen=True, kw_only=True)
class Examination:
    """The outcome of a float run over images.

    `ranges` are as `Network.calibration` has them, `sizes` (channels,) the largest magnitudes of every
    tensor's channels in real units. `logits` (N, classes) are those of every exit, (N, 0) where there are no
    classes, `features` the tensors that were asked for, (N, values).
    """

    ranges: Mapping[str, float] = field(repr=False)
    sizes: Mapping[str, npt.NDArray[np.float64]] = field(repr=False)
    logits: tuple[Floats, ...] = field(repr=False)
    features: Mapping[str, Floats] = field(default_factory=dict, repr=False)


def examine(
    network: Network, images: Images, features: tuple[str, ...] = (), progress: Progress | None = None
) -> Examination:
    """Run the network in floating point on images (N, ...) as `Network.intake` takes them.

    Ranges are the largest magnitudes as stored: before the average-pool gain.
    """
    inner: dict[str, float] = {}
    sizes = {name: np.zeros(shape[2]) for name, shape in network.tensors.items()}
    parts: list[list[Floats]] = [[] for _ in network.exits]
    kept: dict[str, list[Floats]] = {name: [] for name in features}
    done = 0
    for tensors in float_batches(network, images, inner):
        for name, value in tensors.items():
            sizes[name] = np.maximum(sizes[name], channel_sizes(value))
        batch = len(tensors[network.input])
        for part, exit in zip(parts, network.exits, strict=True):
            none = np.zeros((batch, 0), np.float32)
            part.append(none if exit.logits is None else tensors[exit.logits].reshape(batch, -1))
        for name, batches in kept.items():
            batches.append(tensors[name].reshape(len(tensors[name]), -1).copy())
        done += len(tensors[network.input])
        if progress is not None:
            progress(done, len(images))
    largest = {name: float(magnitudes.max()) for name, magnitudes in sizes.items()} | inner
    return Examination(
        ranges={name: value / network.gains.get(name, 1.0) for name, value in largest.items()},
        sizes=sizes,
        logits=tuple(np.concatenate(part) for part in parts),
        features={name: np.concatenate(batches) for name, batches in kept.items()},
    )


def run_float(network: Network, images: Images, progress: Progress | None = None) -> list[Floats]:
    """Return float32 logits (N, classes) of every exit for images as `Network.intake` takes them.

    That is uint8 or floats of the declared range, before the network's preprocessing. (N, 0) without classes.
    """
    return list(examine(network, images, progress=progress).logits)


def run_float_outputs(network: Network, images: Images) -> dict[str, Floats]:
    """Return every output that is no exit as the user's model gives it out, float32 (N, *shape), by name."""
    parts: dict[str, list[Floats]] = {output.name: [] for output in network.outputs}
    for tensors in float_batches(network, images):
        for output in network.outputs:
            values = np.asarray(output.arranged(tensors[output.tensor]), np.float64)
            parts[output.name].append(output.activated(values))
    return {name: np.concatenate(part) for name, part in parts.items()}


def tensor_ranges(network: Network, images: Images) -> dict[str, float]:
    """Return the ranges over the images (N, ...) of all that quantisation needs one of (`Network.ranged`)."""
    return dict(examine(network, images).ranges)


def early_exit_float(
    network: Network, images: Images
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return (exit, class, confidence) of every image under the network's own thresholds, in floating
    point.
    """
    return early_exit_predictions(run_float(network, images), network.thresholds, network.check)
