"""Correct what 8-bit weights do to the mean of a layer's sums, on calibration images, in its biases.

Weights of 8 bits are off by up to half a step each, and what a ReLU leaves has no mean of zero, so the sums
of a channel shift by much the same on every image (Nagel et al., "Data-Free Quantization Through Weight
Equalization and Bias Correction", ICCV 2019). Here the shift is measured instead of computed: layer by layer
in the integers that the NPU has, each behind corrected ones. The mean of sums is that of what each weight
reads, times the weights. A correction is in real units, a number a channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..graph.network import Layer, Network
from ..graph.shapes import Kind
from . import golden
from .float_reference import Floats, Images, run_float_layer
from .integers import QuantisedLayer, QuantisedNetwork
from .words import Stored

MOST_IMAGES = 32
MOST_VALUES = 1 << 27  # of the images' tensors, as far as they are alive at once
DIGITS = 5  # that are kept


def choose_corrections(qnet: QuantisedNetwork, images: Images) -> Mapping[str, tuple[float, ...]]:
    """Return what biases must be corrected by, by layer, of a network at 8 bits that has no corrections.

    `images` (N, ...) are as `Network.intake` takes them. Nothing where what the network returns is then
    further from float: the mean of a map's background may say little of what a detector looks for.
    """
    network = qnet.network
    images = images[np.linspace(0, len(images) - 1, _count(network, len(images))).round().astype(np.int64)]
    stored: dict[str, Stored] = {network.input: qnet.quantise_input(images)}
    plain = dict(stored)
    real: dict[str, Floats] = {network.input: network.intake.values(images).astype(np.float32)}
    last = {name: index for index, layer in enumerate(network.layers) for name in (layer.input, layer.residual)}
    corrections: dict[str, tuple[float, ...]] = {}
    for index, (layer, own) in enumerate(zip(network.layers, qnet.layers, strict=True)):
        qlayer = own
        if layer.kind is Kind.GEMM:
            units = qnet.units(layer)
            lost = _lost(qlayer, network, layer, stored, real, units)
            corrections[layer.name] = tuple(float(f"{value:.{DIGITS}g}") for value in lost)
            added = np.rint(np.array(corrections[layer.name]) / units).astype(np.int64)
            qlayer = replace(qlayer, bias=qlayer.bias + added)
        for tensors, run in ((stored, qlayer), (plain, own), (real, None)):
            _run(network, layer, run, qnet.zeros[layer.output], tensors)
        for name in {layer.input, layer.residual} - {None, *network.given_out}:
            if last[name] == index:
                del stored[str(name)], plain[str(name)], real[str(name)]
    errors = [
        max(_error(qnet, name, variant[name], real[name]) for name in network.given_out) for variant in (plain, stored)
    ]
    return corrections if errors[1] < errors[0] else {}


def _error(qnet: QuantisedNetwork, tensor: str, stored: Stored, real: Floats) -> float:
    """Return the error, root mean square over the spread, of what is returned."""
    apart = np.square(qnet.real(tensor, stored) - real).mean()
    return float(np.sqrt(apart) / max(float(real.std()), 1e-30))


def _count(network: Network, count: int) -> int:
    values = 2 * max(int(np.prod(shape)) for shape in network.tensors.values())
    return max(1, min(count, MOST_IMAGES, MOST_VALUES // values))


def _lost(
    qlayer: QuantisedLayer,
    network: Network,
    layer: Layer,
    stored: Mapping[str, Stored],
    real: Mapping[str, Floats],
    units: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Return the mean that each channel's sums lack."""
    own = network.parameters[layer.name]
    true = _mean_sums(layer, layer.read(real[layer.input]), 0, own.weights) + own.bias
    sums = _mean_sums(layer, layer.read(stored[layer.input]), qlayer.halo, qlayer.weights) + qlayer.bias
    return np.asarray(true - sums * units)


def _mean_sums(
    layer: Layer, x: npt.NDArray[np.generic], halo: int, weights: npt.NDArray[np.generic]
) -> npt.NDArray[np.float64]:
    """Return the mean of sum(x * w) (channels,) over images and pixels of x (B, H, W, C)."""
    top, left, bottom, right = (max(0, side) for side in layer.padding)
    padded = np.pad(layer.cropped(x), ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=halo)
    taps = []
    for row, column in np.ndindex(*layer.kernel):
        spans = [
            slice(tap * apart, tap * apart + (count - 1) * stride + 1, stride)
            for tap, apart, count, stride in zip((row, column), layer.dilation, layer.out_hw, layer.stride, strict=True)
        ]
        taps.append(padded[:, spans[0], spans[1]].mean(axis=(1, 2), dtype=np.float64).mean(axis=0))
    means = np.stack(taps).reshape(len(taps), layer.groups, -1).transpose(1, 0, 2).reshape(layer.groups, 1, -1)
    return np.asarray(np.matmul(means, weights.astype(np.float64)).reshape(-1))


def _run(network: Network, layer: Layer, qlayer: QuantisedLayer | None, zero: int, tensors: dict[str, Any]) -> None:
    """Run one layer in place, in integers or, without these, in floating point."""
    residual = None if layer.residual is None else layer.added(tensors[layer.residual])
    source, shape = layer.read(tensors[layer.input]), network.tensors[layer.output]
    if qlayer is None:
        value, fill = run_float_layer(layer, network.parameters.get(layer.name), source, residual), 0
    else:
        value, fill = golden.run_layer(qlayer, source, residual), zero
    if layer.fills(shape):
        tensors[layer.output] = value
    else:
        whole = tensors.setdefault(layer.output, np.full((len(value), *shape), fill, value.dtype))
        layer.written(whole)[...] = value
