"""Fold a network's preprocessing into the weights of its first layers, as far as that is exact.

Scale and std are factors of an input channel, which a layer's weights take over; the padding stays zero.
The mean is an offset: a bias takes it over only where no first layer pads, since padding is zero after the
mean is taken off. A pool or a sum that reads the input takes nothing over: then the host does everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..graph.network import Layer, Network, Parameters
from ..graph.shapes import Kind
from ..images.intake import Intake

FOLDED = (
    "scale, std and mean are folded into the first layer",
    "scale and std are folded into the first layer, which pads: the host takes the mean off",
    "the host does it: the input is read by other than layers with weights",
)


def folded_steps(network: Network) -> str:
    """Say in one sentence which steps of the preprocessing are folded into the first layers."""
    if network.preprocessing is None:
        return ""
    return FOLDED[2] if not _foldable(network) else FOLDED[1 if _padded(network) else 0]


def _readers(network: Network) -> list[Layer]:
    return [layer for layer in network.layers if network.input in (layer.input, layer.residual)]


def _foldable(network: Network) -> bool:
    return all(
        layer.kind is Kind.GEMM and layer.residual != network.input and layer.name in network.parameters
        for layer in _readers(network)
    )


def _padded(network: Network) -> bool:
    return any(max(layer.padding) > 0 for layer in _readers(network))


def fold_input(network: Network, centred: bool = False) -> tuple[Intake, Mapping[str, Parameters]]:
    """Return the intake that is left to the host, and the parameters with the rest of it folded in.

    `centred`: the host takes the mean off in any case, so that pixels take up both signs of few bits. A
    network without a record of its preprocessing is left as it is, and so are its integers.
    """
    record = network.preprocessing
    if record is None or not _foldable(network):
        return network.intake, network.parameters
    channels = network.tensors[network.input][2]
    factor = np.broadcast_to(record.scale / np.array(record.std), channels)
    centred = centred or _padded(network)
    offset = np.broadcast_to(0.0 if centred else np.array(record.mean) / np.array(record.std), channels)
    changed = {
        layer.name: _folded(layer, network.parameters[layer.name], layer.read(factor), layer.read(offset))
        for layer in _readers(network)
    }
    return network.intake.in_pixels(centred=centred), {**network.parameters, **changed}


def _folded(
    layer: Layer, parameters: Parameters, factor: npt.NDArray[np.float64], offset: npt.NDArray[np.float64]
) -> Parameters:
    """Return weights times the factor of their channel, and the bias less what the offsets add up to."""
    groups, _, per_group = parameters.weights.shape
    taps = layer.kernel[0] * layer.kernel[1]
    weights = parameters.weights.astype(np.float64).reshape(groups, taps, -1, per_group)
    lost = np.einsum("gtcn,gc->gn", weights, offset.reshape(groups, -1)).reshape(-1)
    scaled = weights * factor.reshape(groups, 1, -1, 1)
    return replace(
        parameters,
        weights=scaled.reshape(parameters.weights.shape).astype(np.float32),
        bias=(parameters.bias.astype(np.float64) - lost).astype(np.float32),
    )
