"""CIFAR-style residual networks with three exits, as layer skeletons without weights or framework.

Training and export both walk the skeleton's layers, so the trained network is the written one.

>>> net = skeleton("resnet8")
>>> [exit.name for exit in net.exits], len(net.layers), net.workload.macs
(['exit1', 'exit2', 'final'], 18, 12056704)
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import NetworkError
from ..graph.builder import Builder
from ..graph.network import Exit, Network
from ..graph.shapes import Shape


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Residual stages (He et al. 2016, section 4.2) with an exit after each.

    `heads` lists the widths of each exit's own convolutions, `stem_stride` is that of the first one.
    """

    name: str
    blocks: int
    widths: tuple[int, ...] = (16, 32, 64)
    heads: tuple[tuple[int, ...], ...] = ((32, 64), (64,), ())
    input_shape: Shape = (28, 28, 1)
    stem_stride: int = 1
    classes: int = 10


ARCHITECTURES = {
    "resnet8": Architecture(name="resnet8", blocks=1),
    "resnet20": Architecture(name="resnet20", blocks=3),
    "resnet26_small": Architecture(name="resnet26_small", blocks=4, stem_stride=2),
}


def _block(net: Builder, name: str, source: str, channels: int, stride: int) -> str:
    """Append two convolutions and the shortcut, a strided 1x1 convolution where the shape changes."""
    shortcut = source
    if stride != 1 or net.tensors[source][2] != channels:
        shortcut = net.conv(f"{name}_down", source, channels, 1, stride, clip=(None, None))
    inner = net.conv(f"{name}_a", source, channels, 3, stride)
    return net.conv(f"{name}_b", inner, channels, 3, residual=shortcut)


def _head(net: Builder, exit_name: str, source: str, widths: tuple[int, ...], classes: int) -> str:
    """Append an exit: strided convolutions, global average pool, classifier."""
    for index, width in enumerate(widths, start=1):
        source = net.conv(f"{exit_name}_conv{index}", source, width, 3, 2)
    return net.classifier((f"{exit_name}_pool", f"{exit_name}_fc"), source, classes, exit_name)


def skeleton(architecture: str | Architecture) -> Network:
    """Return the layers of an architecture, given by value or by name (`ARCHITECTURES`).

    Raises NetworkError for a name that is none of them.
    """
    if isinstance(architecture, str):
        if architecture not in ARCHITECTURES:
            raise NetworkError(f"the architecture must be one of {', '.join(ARCHITECTURES)}, not {architecture!r}")
        architecture = ARCHITECTURES[architecture]
    net = Builder({"image": architecture.input_shape})
    tensor = net.conv("stem", "image", architecture.widths[0], 3, architecture.stem_stride)
    exits = []
    for stage, width in enumerate(architecture.widths):
        net.stage = stage
        for index in range(architecture.blocks):
            stride = 2 if stage > 0 and index == 0 else 1
            tensor = _block(net, f"stage{stage + 1}_block{index + 1}", tensor, width, stride)
        name = f"exit{stage + 1}" if stage + 1 < len(architecture.widths) else "final"
        logits = _head(net, name, tensor, architecture.heads[stage], architecture.classes)
        exits.append(Exit(name=name, logits=logits))
    return net.network(f"{architecture.name}_fashion_mnist", exits)
