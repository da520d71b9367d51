"""CIFAR-style residual networks with three exits, as layer skeletons. No weights, no framework.

A skeleton is a `Network` without parameters: training and export both walk its layers, so what is trained is what is written.

>>> net = skeleton("resnet8")
>>> [exit.name for exit in net.exits], len(net.layers), net.workload.macs
(['exit1', 'exit2', 'final'], 18, 12056704)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..graph.network import Exit, Kind, Layer, Network, NetworkError, Shape


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Residual stages (He et al. 2016, section 4.2) with an exit after each; `heads` lists the widths of each exit's own convolutions."""

    name: str
    blocks: int
    widths: tuple[int, ...] = (16, 32, 64)
    heads: tuple[tuple[int, ...], ...] = ((32, 64), (64,), ())
    input_shape: Shape = (28, 28, 1)
    classes: int = 10


ARCHITECTURES = {
    "resnet8": Architecture(name="resnet8", blocks=1),
    "resnet20": Architecture(name="resnet20", blocks=3),
}


@dataclass
class _Builder:
    """Collects layers; each method appends one and returns the name of its output tensor."""

    tensors: dict[str, Shape]
    layers: list[Layer] = field(default_factory=list)
    stage: int = 0

    def add(self, layer: Layer) -> str:
        self.layers.append(layer)
        self.tensors[layer.output] = (*layer.out_hw, layer.channels)
        return layer.output

    def conv(
        self,
        name: str,
        source: str,
        channels: int,
        *,
        size: int = 3,
        stride: int = 1,
        relu: bool = True,
        residual: str | None = None,
    ) -> str:
        return self.add(
            Layer(
                name=name,
                kind=Kind.GEMM,
                input=source,
                output=name + "_out",
                channels=channels,
                residual=residual,
                in_shape=self.tensors[source],
                kernel=(size, size),
                stride=(stride, stride),
                padding=(size // 2,) * 4,
                clip=(0.0 if relu else None, None),
                stage=self.stage,
            )
        )

    def block(self, name: str, source: str, channels: int, stride: int) -> str:
        """conv-conv plus shortcut, the shortcut a strided 1x1 convolution where the shape changes."""
        shortcut = source
        if stride != 1 or self.tensors[source][2] != channels:
            shortcut = self.conv(f"{name}_down", source, channels, size=1, stride=stride, relu=False)
        inner = self.conv(f"{name}_a", source, channels, stride=stride)
        return self.conv(f"{name}_b", inner, channels, residual=shortcut)

    def head(self, exit_name: str, source: str, widths: tuple[int, ...], classes: int) -> str:
        """Strided convolutions, global average pool, classifier."""
        for index, width in enumerate(widths, start=1):
            source = self.conv(f"{exit_name}_conv{index}", source, width, stride=2)
        shape = self.tensors[source]
        pool = f"{exit_name}_pool"
        pooled = self.add(
            Layer(name=pool, kind=Kind.SUM_POOL, input=source, output=pool + "_out", channels=shape[2], in_shape=shape,
                  kernel=shape[:2], stage=self.stage)
        )  # fmt: skip
        return self.add(
            Layer(name=f"{exit_name}_fc", kind=Kind.GEMM, input=pooled, output=exit_name, channels=classes,
                  in_shape=self.tensors[pooled], stage=self.stage)
        )  # fmt: skip


def skeleton(architecture: str | Architecture) -> Network:
    """The layers of an architecture, given by value or by name ("resnet8", "resnet20")."""
    if isinstance(architecture, str):
        if architecture not in ARCHITECTURES:
            raise NetworkError(f"the architecture must be one of {', '.join(ARCHITECTURES)}, not {architecture!r}")
        architecture = ARCHITECTURES[architecture]
    builder = _Builder({"image": architecture.input_shape})
    tensor = builder.conv("stem", "image", architecture.widths[0])
    exits = []
    for stage, width in enumerate(architecture.widths):
        builder.stage = stage
        for index in range(architecture.blocks):
            stride = 2 if stage > 0 and index == 0 else 1
            tensor = builder.block(f"stage{stage + 1}_block{index + 1}", tensor, width, stride)
        name = f"exit{stage + 1}" if stage + 1 < len(architecture.widths) else "final"
        logits = builder.head(name, tensor, architecture.heads[stage], architecture.classes)
        exits.append(Exit(name=name, logits=logits))
    return Network(
        name=f"{architecture.name}_fashion_mnist",
        input="image",
        tensors=builder.tensors,
        layers=tuple(builder.layers),
        exits=tuple(exits),
        parameters={},
    )
