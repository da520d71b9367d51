"""Networks of quantised files at 8 bits: with the scales and zero points that their files give (ADR 75).

A layer with weights takes any scale of what it reads, writes and adds into its multipliers, and zero points
into its bias. A pool or a pass has powers of two alone, so an average becomes a depthwise layer of equal
weights, and a pass one of a single tap. Tensors that are multiplied, or that slopes and lines of channels
read or write, have no zero point on the NPU: their scales are chosen as for other networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..graph.activations import Use
from ..graph.network import Layer, Network, Parameters
from ..graph.shapes import Kind
from .words import INT8, Doubles

LARGEST_WEIGHT = INT8.highest
OFF_GRID = 1e-3  # of a step, that float32 weights of integers may be off by


def with_given_scales(network: Network) -> Network:
    """Return a network as an NPU of 8 bits computes it with the file's scales; itself where it gives none.

    Its `grids` are those that hold, and its average pools and passes are layers with weights. Where what
    stands around a map is not 0, its pool or depthwise layer is not merged with the layer in front.
    """
    if not network.grids:
        return network
    gains = network.gains
    calibration = {name: size * gains.get(name, 1.0) for name, size in network.calibration.items()}
    rewritten = [_as_gemm(layer) for layer in network.layers]
    parameters = dict(network.parameters)
    for layer, old in zip(rewritten, network.layers, strict=True):
        if layer is not old:
            parameters[layer.name] = _equal_weights(layer, old)
    grids = dict(network.grids)
    count = -1
    while count != len(grids):
        count = len(grids)
        for layer in rewritten:
            for name in _without(layer, grids):
                grids.pop(name, None)
    return replace(
        network,
        layers=tuple(rewritten),
        parameters=parameters,
        calibration=calibration,
        grids=grids,
        halos={name: zero for name, (_, zero) in grids.items()},
        equalisation={},
    )


def _as_gemm(layer: Layer) -> Layer:
    average = layer.kind is Kind.SUM_POOL
    if not average and (layer.kind is Kind.GEMM or layer.kernel != (1, 1)):
        return layer
    return replace(layer, kind=Kind.GEMM, groups=layer.channels)


def _equal_weights(layer: Layer, pool: Layer) -> Parameters:
    taps = layer.kernel[0] * layer.kernel[1]
    weight = 1 / taps if pool.kind is Kind.SUM_POOL else 1.0
    return Parameters(
        weights=np.full((layer.channels, taps, 1), weight, np.float32), bias=np.zeros(layer.channels, np.float32)
    )


def _without(layer: Layer, grids: Mapping[str, tuple[float, int]]) -> set[str]:
    """Return the tensors whose file's scale a layer cannot take."""
    use = None if layer.activation is None else layer.activation.use
    if use is Use.PRODUCT:
        return {layer.input, str(layer.residual), layer.output}
    if use in (Use.SLOPE, Use.AFFINE):
        return {layer.output}
    unequal = layer.kind is not Kind.GEMM and grids.get(layer.input) != grids.get(layer.output)
    return {layer.input, layer.output} if unequal else set()


def grid_scales(weights: Doubles) -> Doubles:
    """Return the scale of each channel (C,) on whose multiples all weights (groups, P, C / groups) lie.

    It is the largest weight over the most steps, of 127, that put every weight of the channel on a whole
    number; where none does, over 127, as for weights that were never integers.

    >>> grid_scales(np.array([[[0.5, 0.3], [-0.2, 0.1]]])).round(6).tolist()
    [0.004, 0.002381]
    """
    largest = np.abs(weights).max(axis=1, keepdims=True)
    best = np.zeros(largest.shape)
    for steps in range(1, LARGEST_WEIGHT + 1):
        units = weights * (steps / np.where(largest > 0, largest, 1.0))
        whole = np.abs(units - np.rint(units)).max(axis=1, keepdims=True) <= OFF_GRID
        best = np.where(whole, steps, best)
    return np.asarray((largest / np.where(best > 0, best, LARGEST_WEIGHT)).reshape(-1))
