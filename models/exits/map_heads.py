"""Give a classifier a new head of maps in place of its own: heat maps of landmarks, or scores of labels.

The head is that of "simple baselines" for poses (Xiao et al. 2018, section 2), which PAME's image tasks have:
transposed convolutions 4x4 of stride 2 with ReLU, then a 1x1 convolution. Weights are random; training comes
next.

>>> from fluidnpu.models.zoo import full_size
>>> net = with_map_head(full_size("resnet50"), MapTask.LANDMARKS, 16)
>>> net.check.shape, [layer.channels for layer in net.layers if layer.name.startswith("maps")][::4]
((56, 56, 16), [256, 256, 256, 16])
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import NetworkError
from ..graph.builder import Builder
from ..graph.checks import MapCheck, MapTask
from ..graph.network import Exit, Layer, Network, Parameters
from ..graph.shapes import Kind
from .regions import backbone_of

WIDTH = 256  # of the transposed convolutions, at most: that of the maps they enlarge where it is less
QUARTER = 4  # the side of a map in that of the image, unless it is told
MOST_ENLARGEMENTS = 6


def with_map_head(
    network: Network,
    task: MapTask,
    maps: int,
    *,
    enlarge: int | None = None,
    count: float = 0.5,
    top: int = 5,
    every: int = 1,
    seed: int = 0,
) -> Network:
    """Return the backbone of a classifier with one exit under a new head of `maps` landmarks or labels.

    `enlarge`: so many transposed convolutions, each doubling the sides; None: up to a quarter of the image's.
    `count`, `top` and `every` are those of `MapCheck`. Calibration is forgotten, since the new tensors have
    none. Raises NetworkError for a network of several exits or without classes, and for maps that cannot be.
    """
    last = network.exits[-1]
    if len(network.exits) > 1 or last.logits is None or isinstance(network.check, MapCheck) or network.outputs:
        raise NetworkError(f"a new head takes the place of a classifier's only exit, and '{network.name}' has others")
    if maps < 1:
        raise NetworkError(f"a head must give at least one map, not {maps}")
    backbone = backbone_of(network)
    end = backbone.blocks[-1].tensor
    times = _doublings(network, end) if enlarge is None else enlarge
    if not 0 <= times <= MOST_ENLARGEMENTS:
        raise NetworkError(f"maps must be enlarged 0..{MOST_ENLARGEMENTS} times, not {times}")
    dropped = set(backbone.head)
    layers = [layer for index, layer in enumerate(network.layers) if index not in dropped]
    reached = {network.input, *(layer.output for layer in layers)}
    net = Builder({name: shape for name, shape in network.tensors.items() if name in reached})
    taken = {layer.name for layer in layers} | reached
    name = next(
        prefix for prefix in ("maps", *(f"maps{number}" for number in range(2, 99))) if not _begins(taken, prefix)
    )
    value, width = end, min(WIDTH, network.tensors[end][2])
    for step in range(1, times + 1):
        value = net.enlarge(f"{name}_up{step}", value, width)
    logits = net.conv(f"{name}_out", value, maps, clip=(None, None), output=name)
    check = MapCheck(task=task, shape=net.tensors[logits], count=count, top=top, every=every)
    parameters = {layer.name: network.parameters[layer.name] for layer in layers if layer.name in network.parameters}
    if parameters:
        rng = np.random.default_rng(seed)
        parameters |= {layer.name: _drawn(layer, rng) for layer in net.layers}
    return replace(
        network.recalibrated({}),
        tensors=net.tensors,
        layers=(*layers, *net.layers),
        exits=(Exit(name=last.name, logits=logits),),
        check=check,
        parameters=parameters,
        class_names=(),
    )


def _doublings(network: Network, end: str) -> int:
    """Return the times that a map is doubled until its sides are at least a quarter of the image's."""
    (height, width, _), (rows, columns, _) = network.tensors[end], network.tensors[network.input]
    times = 0
    while times < MOST_ENLARGEMENTS and QUARTER * min(height << times, width << times) < min(rows, columns):
        times += 1
    return times


def _begins(taken: set[str], name: str) -> bool:
    return any(tensor.startswith(name) for tensor in taken)


def _drawn(layer: Layer, rng: np.random.Generator) -> Parameters:
    """Return random weights that keep the size of a signal (He et al. 2015), and no bias."""
    assert layer.kind is Kind.GEMM
    inputs = layer.kernel[0] * layer.kernel[1] * layer.in_shape[2]
    weights = rng.normal(0, (2 / inputs) ** 0.5, (1, inputs, layer.channels)).astype(np.float32)
    return Parameters(weights=weights, bias=np.zeros(layer.channels, np.float32))
