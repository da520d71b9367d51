"""Equalise the channels of tensors: each gets a power of two of its own, which weights take up exactly.

A tensor has one int16 scale, so channels much smaller than its largest keep few bits. A layer with weights
may write channel c divided by 2**e[c] and its readers multiply it again: in floating point nothing changes,
since powers of two are exact and a ReLU lets factors above zero through (Nagel et al., "Data-Free
Quantization Through Weight Equalization and Bias Correction", ICCV 2019). Pools and sums hand their channels
on as they are, so what they read and write shares its exponents; the input and what a network returns keep
theirs, zero. So does what a table reads and writes, unless f(a * x) = a * f(x), and what words are multiplied
by; channels' own lines between a word and what is stored take up both sides' exponents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..graph.activations import Use
from ..graph.network import MOST_EXPONENT, Layer, Network, Parameters
from ..graph.shapes import Kind
from .words import HEADROOM

Exponents = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

SPARE_BITS = 1  # above a channel's calibrated range, for images that go beyond it
MOST_WEIGHT_BITS = 4  # that a small channel's weights may rise above those of the layer's middle channel


def settle_exponents(network: Network) -> Mapping[str, Exponents]:
    """Return the exponents (channels,), by tensor, that the network's equalisation comes to.

    Channels that must share one share the largest, so any equalisation is exact, of whatever network. Tensors
    without exponents are left out.
    """
    if not network.equalisation:
        return {}
    classes = _classes(network)
    own = {name: np.zeros(shape[2], np.int64) for name, shape in network.tensors.items()}
    own |= {name: np.array(shifts, np.int64) for name, shifts in network.equalisation.items() if name in own}
    return _spread(classes, own)


def fold_exponents(network: Network, parameters: Mapping[str, Parameters]) -> Mapping[str, Parameters]:
    """Return the parameters of a network with the exponents of what its layers read and write folded in."""
    exponents = settle_exponents(network)
    if not exponents:
        return parameters
    return {
        layer.name: _folded(layer, parameters[layer.name], exponents, written_exponents(layer, exponents))
        for layer in network.layers
        if layer.name in parameters
    }


def written_exponents(layer: Layer, exponents: Mapping[str, Exponents]) -> Exponents:
    """Return the exponents (channels,) of what a layer writes."""
    return _part(exponents, layer.output, layer.output_channel, layer.channels)


def word_exponents(layer: Layer, exponents: Mapping[str, Exponents]) -> Exponents:
    """Return the exponents (channels,) of the word in front of a layer's activation."""
    if layer.kind is Kind.GEMM:
        return written_exponents(layer, exponents)
    return _part(exponents, layer.input, layer.input_channel, layer.channels)


def choose_equalisation(network: Network, sizes: Mapping[str, Doubles]) -> Mapping[str, tuple[int, ...]]:
    """Return exponents that bring the channels of every tensor to one size, as far as their users allow.

    `sizes` are the largest magnitudes of every channel (channels,), by tensor, in real units. No channel is
    brought above the calibrated range of its tensor, nor its weights far above those of its layer.
    """
    classes = _classes(network)
    wanted = {name: _wanted(network, name, sizes[name]) for name in network.tensors}
    exponents = _spread(classes, wanted)
    for layer in network.layers:  # in order: the weights of a layer depend on what was chosen for its input
        if layer.kind is Kind.GEMM or _has_lines_between(layer):
            least = _least_for_weights(network, layer, exponents, sizes[layer.output])
            part = slice(layer.output_channel, layer.output_channel + layer.channels)
            wanted[layer.output][part] = np.maximum(wanted[layer.output][part], least)
            exponents = _spread(classes, wanted)
    return {name: tuple(shifts.tolist()) for name, shifts in exponents.items()}


def _wanted(network: Network, tensor: str, sizes: Doubles) -> Exponents:
    whole = network.calibration[tensor] * network.gains.get(tensor, 1.0)  # a tensor that no layer writes has none
    with np.errstate(divide="ignore"):
        shares = np.log2(sizes / whole) if whole > 0 else np.zeros(len(sizes))
    return np.asarray(np.clip(np.ceil(shares) + SPARE_BITS, -MOST_EXPONENT, 0), np.int64)


def _has_lines_between(layer: Layer) -> bool:
    """True if channels have exponents of their own on either side of their lines."""
    return layer.kind is not Kind.GEMM and layer.activation is not None and layer.activation.use is Use.AFFINE


def _least_for_weights(network: Network, layer: Layer, exponents: Mapping[str, Exponents], sizes: Doubles) -> Exponents:
    """Return the least exponents (channels,) that keep a layer's weights, or slopes, near those of its middle
    channel, and offsets within the range of what is written.

    A channel that is small because it is hardly ever awake has weights as large as the others, which would
    lose bits beside it; one that no image woke may have a middle channel's weights at most.
    """
    read = {layer.input: exponents[layer.input]} if layer.input in exponents else {}
    own = _folded(layer, network.parameters[layer.name], read, np.zeros(layer.channels, np.int64))
    factors = np.abs(own.weights).max(axis=1).reshape(-1) if layer.kind is Kind.GEMM else np.abs(own.slopes)
    largest = factors.astype(np.float64)
    awake = sizes[layer.output_channel : layer.output_channel + layer.channels] > 0
    sizes_of_weights = np.ldexp(largest, -written_exponents(layer, exponents))[awake & (largest > 0)]
    if not len(sizes_of_weights):
        return np.zeros(layer.channels, np.int64)
    most = np.median(sizes_of_weights) * np.where(awake, 2.0**MOST_WEIGHT_BITS, 1.0)
    with np.errstate(divide="ignore"):
        least = np.ceil(np.log2(largest / most))
        whole = HEADROOM * network.calibration[layer.output] * network.gains[layer.output]
        if _has_lines_between(layer) and whole > 0:
            least = np.maximum(least, np.ceil(np.log2(np.abs(own.offsets) / whole)))
    return np.asarray(np.clip(least, -MOST_EXPONENT, MOST_EXPONENT), np.int64)


def _part(exponents: Mapping[str, Exponents], tensor: str, first: int, count: int) -> Exponents:
    whole = exponents.get(tensor)
    return np.zeros(count, np.int64) if whole is None else whole[first : first + count]


def _folded(layer: Layer, own: Parameters, exponents: Mapping[str, Exponents], written: Exponents) -> Parameters:
    slopes = np.ldexp(own.slopes, word_exponents(layer, exponents) - written) if len(own.slopes) else own.slopes
    offsets = np.ldexp(own.offsets, -written) if len(own.offsets) else own.offsets
    lined = replace(own, slopes=slopes, offsets=offsets)
    if layer.kind is not Kind.GEMM:
        return lined
    groups, taps, per_group = own.weights.shape
    read = _part(exponents, layer.input, layer.input_channel, layer.in_shape[2])
    rows = np.tile(read.reshape(groups, 1, -1), (1, layer.kernel[0] * layer.kernel[1], 1)).reshape(groups, taps, 1)
    return replace(
        lined,
        weights=np.ldexp(own.weights, rows - written.reshape(groups, 1, per_group)),
        bias=np.ldexp(own.bias, -written),
    )


def _classes(network: Network) -> Mapping[str, Exponents]:
    """Return the class (C,) of every channel, by tensor: a class has one exponent, and class 0 has 0."""
    starts, total = {}, 1
    for name, shape in network.tensors.items():
        starts[name] = total
        total += shape[2]
    parents = list(range(total))

    def root(channel: int) -> int:
        while parents[channel] != channel:
            parents[channel] = parents[parents[channel]]
            channel = parents[channel]
        return channel

    for first, second in _ties(network, starts):
        low, high = sorted((root(first), root(second)))
        parents[high] = low
    return {
        name: np.array([root(starts[name] + channel) for channel in range(shape[2])], np.int64)
        for name, shape in network.tensors.items()
    }


def _ties(network: Network, starts: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of channels, counted over all tensors from 1, that must share an exponent; 0 has none."""
    for name in (network.input, *network.given_out):
        yield from ((0, starts[name] + channel) for channel in range(network.tensors[name][2]))
    for layer in network.layers:
        activation = layer.activation
        use = None if activation is None else activation.use
        written = starts[layer.output] + layer.output_channel
        gemm = layer.kind is Kind.GEMM
        word = written if gemm else starts[layer.input] + layer.input_channel
        for channel in range(layer.channels):
            if not gemm and use is not Use.AFFINE:
                yield word + channel, written + channel
            if use is Use.TABLE and activation is not None and not activation.of.scales:
                yield 0, written + channel
            if layer.residual is not None:
                residual = starts[layer.residual] + layer.residual_channel
                residual += 0 if layer.residual_spread else channel
                yield residual, 0 if layer.multiplies else word + channel
            if not set(layer.clip) <= {None, 0}:  # one bound for all channels
                yield word, word + channel
            if activation is not None and not set(activation.clip) <= {None, 0}:
                yield written, written + channel


def _spread(classes: Mapping[str, Exponents], own: Mapping[str, Exponents]) -> dict[str, Exponents]:
    """Give every channel the largest exponent of its class; tensors of zeros alone are left out."""
    count = 1 + max(int(class_.max(initial=0)) for class_ in classes.values())
    largest = np.full(count, -MOST_EXPONENT, np.int64)
    for name, members in classes.items():
        np.maximum.at(largest, members, own[name])
    largest[0] = 0
    exponents = {name: largest[members] for name, members in classes.items()}
    return {name: shifts for name, shifts in exponents.items() if shifts.any()}
