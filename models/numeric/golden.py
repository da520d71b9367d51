"""The golden model: the bit-exact definition of the NPU's arithmetic (ADR 3, and ADR 75 at 8 bits).

HLS C++, RTL, the simulated device and the driver are held to it. Sums run through float64 BLAS, which is
exact here: a QuantisedLayer proves that no partial sum in any order exceeds 47 bits and a sign, a float64
holds 53, and dividing by 2**shift beforehand changes exponents only. At 8 bits sums have 31 bits and a sign,
and 48 once they are multiplied. `np.rint` rounds half to even.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import NetworkError
from ..exits.rule import confidence, decide_exits, early_exit_predictions
from ..graph.network import Layer
from ..graph.shapes import Kind
from .float_reference import Progress
from .integers import Images, QuantisedLayer, QuantisedNetwork
from .words import INT16, Stored

__all__ = [
    "confidence",
    "decide_exits",
    "early_exit",
    "early_exit_counting",
    "run",
    "run_counting",
    "run_layer",
    "run_layer_counting",
    "run_outputs",
    "run_stage",
    "saturations",
    "stored_logits",
]

Floats = npt.NDArray[np.float64]

_CHUNK_WORDS = 1 << 18  # of im2col a batch is cut into: 2 MiB, so that it stays in cache


def _windows(layer: Layer, x: Stored, halo: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return every window of x (B, H, W, C) within its halo: a view of floats (B, h, w, kernel rows, kernel
    columns, C).
    """
    x = layer.cropped(x)
    top, left, bottom, right = (max(0, side) for side in layer.padding)
    batch, height, width, channels = x.shape
    padded = np.full((batch, height + top + bottom, width + left + right, channels), halo, dtype)
    padded[:, top : top + height, left : left + width] = x
    sample, row, column, channel = padded.strides
    strides = (
        sample,
        row * layer.stride[0],
        column * layer.stride[1],
        row * layer.dilation[0],
        column * layer.dilation[1],
        channel,
    )
    return np.lib.stride_tricks.as_strided(
        padded, (batch, *layer.out_hw, *layer.kernel, channels), strides, writeable=False
    )


def _gemm(qlayer: QuantisedLayer, x: Stored) -> Floats:
    """Return bias + sum(x * w), over 2**shift at 16 bits, as float64 (B, h, w, channels), exact."""
    layer = qlayer.layer
    weights = qlayer.float_weights
    if layer.kernel == (1, 1) and layer.stride == (1, 1) and not any(layer.padding) and layer.groups == 1:
        sums: Floats = x.reshape(-1, x.shape[3]).astype(weights.dtype) @ weights[0] + qlayer.float_bias
        return sums.reshape(*x.shape[:3], layer.channels)
    windows = _windows(layer, x, qlayer.halo, weights.dtype)
    batch, height, width, kernel_h, kernel_w, channels = windows.shape
    rows = batch * height * width
    if layer.groups == 1:
        sums = windows.reshape(rows, weights.shape[1]) @ weights[0]
    else:
        split = windows.reshape(rows, kernel_h * kernel_w, layer.groups, channels // layer.groups)
        sums = np.matmul(split.transpose(2, 0, 1, 3).reshape(layer.groups, rows, weights.shape[1]), weights)
        sums = sums.transpose(1, 0, 2).reshape(rows, layer.channels)
    sums = sums + qlayer.float_bias
    return sums.reshape(batch, height, width, layer.channels)


def _pool(layer: Layer, x: Stored, halo: int) -> Floats:
    """Reduce each window tap by tap; NumPy's own reductions over short axes are several times slower."""
    windows = _windows(layer, x, halo, np.float64)
    if windows[0, ..., 0].size == windows.shape[3] * windows.shape[4]:  # global: one window, reduce it at once
        return np.asarray(windows.sum(axis=(3, 4)) if layer.kind is Kind.SUM_POOL else windows.max(axis=(3, 4)))
    combine = np.add if layer.kind is Kind.SUM_POOL else np.maximum
    value = windows[:, :, :, 0, 0].copy()
    for tap in range(1, layer.kernel[0] * layer.kernel[1]):
        combine(value, windows[:, :, :, tap // layer.kernel[1], tap % layer.kernel[1]], out=value)
    return value


def _rounded(qlayer: QuantisedLayer, x: Stored, residual: Stored | None) -> Floats:
    """Return the core's word before the clamp to lo and hi: integers in float64."""
    layer = qlayer.layer
    value = _gemm(qlayer, x) if layer.kind is Kind.GEMM else _pool(layer, x, qlayer.halo)
    if qlayer.word is not INT16:
        if layer.kind is Kind.GEMM:
            np.rint(np.multiply(value, qlayer.factors, out=value), out=value)
        if residual is not None and layer.adds:
            value += residual * float(qlayer.residual_multiplier)
        value *= 2.0**-qlayer.shift
        return np.rint(value, out=value)
    if layer.kind is not Kind.GEMM:
        value *= 2.0**-qlayer.shift
    if residual is not None and layer.adds:
        value += residual * 2.0 ** (qlayer.residual_shift - qlayer.shift)
    return np.rint(value, out=value)


def _check(qlayer: QuantisedLayer, x: Stored, residual: Stored | None) -> None:
    layer, dtype = qlayer.layer, qlayer.word.dtype
    if x.dtype != dtype or x.ndim != 4 or x.shape[1:] != layer.in_shape:
        raise NetworkError(
            f"layer '{layer.name}' takes {dtype} (batch, {', '.join(map(str, layer.in_shape))}), not {x.dtype} {x.shape}"
        )
    if (residual is None) != (layer.residual is None):
        raise NetworkError(f"layer '{layer.name}' {'must' if layer.residual else 'must not'} be given a residual")
    shape = (len(x), *layer.out_hw, layer.channels)
    if residual is not None and (residual.shape != shape or residual.dtype != dtype):
        raise NetworkError(
            f"the residual of layer '{layer.name}' must be {dtype} {shape}, not {residual.dtype} {residual.shape}"
        )


def run_layer_counting(qlayer: QuantisedLayer, x: Stored, residual: Stored | None = None) -> tuple[Stored, int]:
    """Run one layer as `run_layer`, on words (B, H, W, C), and also count its saturations.

    They are the core's and the activation unit's words that no word holds before the clamp to lo and hi.
    """
    layer = qlayer.layer
    _check(qlayer, x, residual)
    height, width = layer.out_hw
    out = np.empty((len(x), height, width, layer.channels), qlayer.word.dtype)
    step = max(1, _CHUNK_WORDS // (height * width * layer.kernel[0] * layer.kernel[1] * layer.in_shape[2]))
    saturated = 0
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        added = None if residual is None else residual[part]
        value = _rounded(qlayer, x[part], added)
        saturated += qlayer.word.beyond(value)
        out[part] = np.clip(value, qlayer.lo, qlayer.hi, out=value)
        if qlayer.unit is not None:
            out[part], more = qlayer.unit.run(out[part], added)
            saturated += more
    return out, saturated


def run_layer(qlayer: QuantisedLayer, x: Stored, residual: Stored | None = None) -> Stored:
    """Run one layer on words (B, H, W, C), and its residual if it has one: words (B, h, w, channels)."""
    return run_layer_counting(qlayer, x, residual)[0]


def run_stage(qnet: QuantisedNetwork, stage: int, tensors: dict[str, Stored]) -> dict[str, int]:
    """Run one stage's layers on `tensors` (name to words (B, H, W, C)) in place; return each layer's
    saturations.

    Stage 0 needs the network's input in `tensors`; stage s the tensors that earlier stages left there,
    possibly for fewer samples.
    """
    counts: dict[str, int] = {}
    for index in qnet.network.stage_layers(stage):
        qlayer = qnet.layers[index]
        layer = qlayer.layer
        residual = None if layer.residual is None else layer.added(tensors[layer.residual])
        out, counts[layer.name] = run_layer_counting(qlayer, layer.read(tensors[layer.input]), residual)
        shape = qnet.network.tensors[layer.output]
        if layer.fills(shape):
            tensors[layer.output] = out
        else:
            if layer.output not in tensors:
                tensors[layer.output] = np.full((len(out), *shape), qnet.zeros[layer.output], qnet.dtype)
            layer.written(tensors[layer.output])[...] = out
    return counts


def stored_logits(qnet: QuantisedNetwork, exit_index: int, tensors: dict[str, Stored]) -> Stored:
    """Return an exit's stored logits (B, classes) from the tensors.

    Maps are (B, height * width * channels), and the end of a network without classes has (B, 0).
    """
    tensor = qnet.network.exits[exit_index].logits
    if tensor is None:
        return np.zeros((len(tensors[qnet.network.input]), 0), qnet.dtype)
    return tensors[tensor].reshape(len(tensors[tensor]), math.prod(qnet.network.tensors[tensor]))


def _run(
    qnet: QuantisedNetwork, images: Images, progress: Progress | None = None
) -> tuple[list[Stored], dict[str, int], dict[str, Stored]]:
    """Return the logits of each exit, the saturations of each layer, and the tensors of the outputs."""
    logits: list[list[Stored]] = [[] for _ in qnet.exits]
    given: dict[str, list[Stored]] = {output.tensor: [] for output in qnet.network.outputs}
    counts = dict.fromkeys((q.layer.name for q in qnet.layers), 0)
    widest = max(int(np.prod(shape)) for shape in qnet.network.tensors.values())
    step = max(1, 8 * _CHUNK_WORDS // widest // len(qnet.network.tensors))
    for start in range(0, max(1, len(images)), step):  # no images: one empty batch, so shapes stay right
        tensors = {qnet.network.input: qnet.quantise_input(images[start : start + step])}
        for stage in range(len(qnet.exits)):
            for name, count in run_stage(qnet, stage, tensors).items():
                counts[name] += count
            logits[stage].append(stored_logits(qnet, stage, tensors))
        for name, batches in given.items():
            batches.append(tensors[name])
        if progress is not None:
            progress(min(start + step, len(images)), len(images))
    outputs = {name: np.concatenate(batches) for name, batches in given.items()}
    return [np.concatenate(part) for part in logits], counts, outputs


def run(qnet: QuantisedNetwork, images: Images, progress: Progress | None = None) -> list[Stored]:
    """Return stored logits (N, classes) of every exit for images that `quantise_input` takes; maps are flat,
    (N, height * width * channels).
    """
    return _run(qnet, images, progress)[0]


def run_counting(
    qnet: QuantisedNetwork, images: Images, progress: Progress | None = None
) -> tuple[list[Stored], dict[str, int]]:
    """Return `run` of images (N, ...), and the saturations of each layer over all of them."""
    return _run(qnet, images, progress)[:2]


def run_outputs(qnet: QuantisedNetwork, images: Images) -> dict[str, Stored]:
    """Return every output that is no exit as stored, (N, *shape), by its name;
    `QuantisedNetwork.output` gives real values.
    """
    stored = _run(qnet, images)[2]
    return {output.name: output.arranged(stored[output.tensor]) for output in qnet.network.outputs}


def saturations(qnet: QuantisedNetwork, images: Images) -> dict[str, int]:
    """Count the saturations of each layer over all images (N, ...)."""
    return _run(qnet, images)[1]


def early_exit(qnet: QuantisedNetwork, images: Images) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
    """Return (exit, class, confidence) of every image under the network's thresholds."""
    return early_exit_counting(qnet, images)[:3]


def early_exit_counting(
    qnet: QuantisedNetwork, images: Images
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats, dict[str, int]]:
    """Return `early_exit` of images (N, ...), and the saturations of each layer over all of them.

    These count images run to the last exit.
    """
    stored, counts, _ = _run(qnet, images)
    logits = [qnet.logits(index, words) for index, words in enumerate(stored)]
    return *early_exit_predictions(logits, qnet.network.thresholds, qnet.network.check), counts
