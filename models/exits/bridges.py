"""Attach exits whose bridge and head are copies of the network's own blocks, with their weights.

The bridge of an exit is the first block of every later region; the network's own head follows it (PAME,
section 5.1). So an exit begins as a shorter network of trained parts, and training starts close to the goal.

>>> from fluidnpu.models.zoo import full_size
>>> net = attach_bridges(full_size("resnet50"), ["layer2.3.conv3_out"])
>>> [layer.name for layer in net.layers if layer.name.startswith("exit1.")][:5]
['exit1.layer3.0.conv1', 'exit1.layer3.0.conv2', 'exit1.layer3.0.downsample', 'exit1.layer3.0.conv3', \
'exit1.layer4.0.conv1']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import NetworkError
from ..graph.network import Exit, Layer, Network
from .heads import staged, unknown_name
from .regions import Backbone, backbone_of


def attach_bridges(network: Network, tensors: Sequence[str], *, threshold: float = 1.0) -> Network:
    """Attach an exit with bridge and head at each tensor, which must end a block; copies have the weights of
    their originals.

    With a threshold of 1 no sample leaves there. Exit rates are forgotten. Ranges of copied tensors are those
    of the originals until they are calibrated. Raises NetworkError for a tensor that ends no block, and for
    one that is named twice.
    """
    backbone = backbone_of(network)
    order = {block.tensor: number for number, block in enumerate(backbone.blocks[:-1])}
    for index, tensor in enumerate(tensors):
        if tensor not in order:
            raise NetworkError(
                unknown_name("end of a block with a block behind it", tensor, order, f"'{network.name}'")
            )
        if tensor in tensors[:index]:
            raise NetworkError(f"the tensors of exits must differ, and '{tensor}' comes twice")
    logits, exits, extended = network.exits[-1].classes, [], network
    for tensor in sorted(tensors, key=order.__getitem__):
        name = _free_name(extended)
        extended = _with_copies(extended, _path(backbone, tensor), tensor, logits, name)
        exits.append(Exit(name=name, logits=name, threshold=threshold))
    return staged(extended, [*(replace(exit, rate=None) for exit in network.exits), *exits])


def _path(backbone: Backbone, tensor: str) -> list[tuple[str, str | None, tuple[int, ...]]]:
    """Return what follows an exit point: (tensor read, tensor given, layers) of each bridge block; None
    stands for the logits.
    """
    later = backbone.regions[backbone.region_of(tensor) + 1 :]
    steps: list[tuple[str, str | None, tuple[int, ...]]] = [
        (region.blocks[0].source, region.blocks[0].tensor, region.blocks[0].layers) for region in later
    ]
    return [*steps, (backbone.blocks[-1].tensor, None, backbone.head)]


def _with_copies(
    network: Network, path: Sequence[tuple[str, str | None, tuple[int, ...]]], tensor: str, logits: str, name: str
) -> Network:
    """Append copies of the path's layers, the first reading `tensor` and the last writing tensor `name`."""
    tensors, layers = dict(network.tensors), list(network.layers)
    parameters, calibration = dict(network.parameters), dict(network.calibration)
    value = tensor
    for source, given, indices in path:
        originals = [network.layers[index] for index in indices]
        renamed = {layer.output: f"{name}.{layer.output}" for layer in originals}
        renamed[source] = value
        if given is None:
            renamed[logits] = name
        for layer in originals:
            copy = _copied(layer, f"{name}.{layer.name}", renamed)
            layers.append(copy)
            tensors[copy.output] = network.tensors[layer.output]
            if layer.name in network.parameters:
                parameters[copy.name] = network.parameters[layer.name]
            if layer.output in network.calibration:
                calibration[copy.output] = network.calibration[layer.output]
        value = name if given is None else renamed[given]
    return replace(network, tensors=tensors, layers=tuple(layers), parameters=parameters, calibration=calibration)


def _copied(layer: Layer, name: str, renamed: dict[str, str]) -> Layer:
    residual = None if layer.residual is None else renamed[layer.residual]
    return replace(layer, name=name, input=renamed[layer.input], output=renamed[layer.output], residual=residual)


def _free_name(network: Network) -> str:
    """Return the first exitN that is no name of the network, and no beginning of one with a dot."""
    taken = {exit.name for exit in network.exits} | set(network.tensors) | {layer.name for layer in network.layers}
    heads = {name.partition(".")[0].partition("_")[0] for name in taken}
    count = 1
    while f"exit{count}" in taken | heads:
        count += 1
    return f"exit{count}"
