"""Attach exits whose bridge and head are copies of the network's own blocks, with their weights.

The bridge of an exit is the first block of every later region; the network's own head follows it (PAME,
section 5.1). So an exit begins as a shorter network of trained parts, and training starts close to the
goal. A head of maps may read tensors of several regions: it then reads the bridge's block of a later
region, and the exit's own tensor in place of a later one of the same region.

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
from .heads import layers_needed, staged, unknown_name
from .regions import Backbone, backbone_of


def attach_bridges(network: Network, tensors: Sequence[str], *, threshold: float = 1.0) -> Network:
    """Attach an exit with bridge and head at each tensor, which must end a block; copies have the weights of
    their originals.

    With a threshold of 1 no sample leaves there. Exit rates are forgotten. Ranges of copied tensors are those
    of the originals until they are calibrated. Raises NetworkError for a tensor that ends no block, for one
    that is named twice, and for a head that reads inside a block that the bridge leaves out.
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
        extended = _with_copies(extended, backbone, tensor, logits, name)
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


def _shortcuts(
    network: Network, backbone: Backbone, tensor: str, bridge: dict[int, str], originals: Sequence[Layer]
) -> dict[str, str]:
    """Return what a head at `tensor` reads in place of each tensor of the backbone that the network's own
    reads, where that is another; `bridge` has the tensors of the bridge's blocks by region.
    """
    there = {network.layers[index].output for index in layers_needed(network, tensor)} | {network.input}
    made = {layer.output for layer in originals}
    read = {tensor_ for layer in originals for tensor_ in (layer.input, layer.residual) if tensor_ is not None} - made
    shapes = {}
    for source in sorted(read - there):
        try:
            region = backbone.region_of(source)
        except KeyError:
            raise NetworkError(
                f"the head of '{network.name}' reads '{source}', which ends no block, so no exit at '{tensor}' before it can "
                "give it"
            ) from None
        shapes[source] = bridge.get(region, tensor)
    return shapes


def _with_copies(network: Network, backbone: Backbone, tensor: str, logits: str, name: str) -> Network:
    """Append copies of the layers that follow an exit, the first reading `tensor` and the last writing tensor
    `name`.
    """
    tensors, layers = dict(network.tensors), list(network.layers)
    parameters, calibration = dict(network.parameters), dict(network.calibration)
    value, bridge = tensor, dict[int, str]()
    for source, given, indices in _path(backbone, tensor):
        originals = [network.layers[index] for index in indices]
        renamed = {layer.output: f"{name}.{layer.output}" for layer in originals}
        if given is None:
            renamed |= _shortcuts(network, backbone, tensor, bridge, originals)
            renamed[logits] = name
        renamed[source] = value
        for layer in originals:
            copy = _copied(layer, f"{name}.{layer.name}", renamed)
            layers.append(copy)
            tensors[copy.output] = network.tensors[layer.output]
            if layer.name in network.parameters:
                parameters[copy.name] = network.parameters[layer.name]
            for old, new in ((layer.output, copy.output), (layer.inner, copy.inner)):
                if old in network.calibration:
                    calibration[str(new)] = network.calibration[str(old)]
        value = name if given is None else renamed[given]
        if given is not None:
            bridge[backbone.region_of(given)] = value
    return replace(network, tensors=tensors, layers=tuple(layers), parameters=parameters, calibration=calibration)


def _copied(layer: Layer, name: str, renamed: dict[str, str]) -> Layer:
    """Return a layer under another name between other tensors; what is not renamed is shared."""
    residual = None if layer.residual is None else renamed.get(layer.residual, layer.residual)
    source = renamed.get(layer.input, layer.input)
    return replace(layer, name=name, input=source, output=renamed[layer.output], residual=residual)


def _free_name(network: Network) -> str:
    """Return the first exitN that is no name of the network, and no beginning of one with a dot."""
    taken = {exit.name for exit in network.exits} | set(network.tensors) | {layer.name for layer in network.layers}
    heads = {name.partition(".")[0].partition("_")[0] for name in taken}
    count = 1
    while f"exit{count}" in taken | heads:
        count += 1
    return f"exit{count}"
