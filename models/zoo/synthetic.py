"""Small networks with random weights, for tests and benchmarks: no training, no files, the same for the
same seed.

>>> net = random_network(7)
>>> len(net.exits), net.layers == random_network(7).layers
(2, True)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..graph.activations import FUNCTIONS, Activation, Use
from ..graph.builder import Builder
from ..graph.network import Exit, Network, Parameters
from ..graph.shapes import Kind, Pair, Shape
from ..numeric.float_reference import tensor_ranges


def with_random_weights(network: Network, seed: int, calibration_images: int = 8) -> Network:
    """Give the network He-scaled random weights, random biases and lines of channels, and ranges of uniform
    random images.
    """
    rng = np.random.default_rng(seed)
    parameters = {}
    for layer in network.layers:
        if layer.kind is Kind.GEMM:
            shape = layer.shape
            weights = rng.normal(0, np.sqrt(2 / shape.p), (shape.groups, shape.p, shape.c)).astype(np.float32)
            parameters[layer.name] = Parameters(
                weights=weights, bias=rng.normal(0, 0.1, layer.channels).astype(np.float32)
            )
        use = None if layer.activation is None else layer.activation.use
        if use in (Use.SLOPE, Use.AFFINE):
            own = replace(
                parameters.get(layer.name, Parameters()),
                slopes=rng.uniform(-0.5, 1.5, layer.channels).astype(np.float32),
            )
            if use is Use.AFFINE:
                own = replace(own, offsets=rng.normal(0, 0.5, layer.channels).astype(np.float32))
            parameters[layer.name] = own
    filled = replace(network.recalibrated({}), parameters=parameters)
    images = rng.random((calibration_images, *network.tensors[network.input]), np.float32)
    return replace(filled, calibration=tensor_ranges(filled, images))


@dataclass
class _Sketch:
    """A random network being drawn; layers are named by their number."""

    rng: np.random.Generator
    net: Builder

    @property
    def tensors(self) -> dict[str, Shape]:
        return self.net.tensors

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def add(self, kind: Kind, source: str, channels: int, kernel: Pair, **fields: Any) -> str:
        return self.net.add(kind, f"layer{len(self.net.layers)}", source, channels, kernel, **fields)

    def conv(self, source: str) -> str:
        """Append any kernel, stride, dilation, padding and grouping that leaves at least one output pixel."""
        height, width, channels = self.tensors[source]
        groups = self.pick(*(g for g in (1, 1, 2, channels) if channels % g == 0))
        kernel = (self.pick(1, 2, 3), self.pick(1, 3))
        padding = tuple(int(p) for p in self.rng.integers(0, 2, 4))
        dilation = (self.pick(1, 1, 2), self.pick(1, 1, 2))
        extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        if extents[0] > height + padding[0] + padding[2] or extents[1] > width + padding[1] + padding[3]:
            kernel, dilation = (1, 1), (1, 1)
        clip = ((None, None), (0.0, None), (0.0, None), (0.0, 6.0))[self.pick(0, 1, 2, 3)]
        return self.add(
            Kind.GEMM, source, groups * self.pick(1, 2, 3), kernel,
            stride=(self.pick(1, 1, 2), self.pick(1, 1, 2)), dilation=dilation, padding=padding, groups=groups, clip=clip,
        )  # fmt: skip

    def residual(self, source: str) -> str:
        """Append a 3x3 convolution added to a ReLU'd 1x1, so that the summed tensors carry no average-pool
        gain.
        """
        channels = self.pick(2, 4, 5)
        trunk = self.add(Kind.GEMM, source, channels, (1, 1), clip=(0.0, None))
        return self.add(Kind.GEMM, trunk, channels, (3, 3), padding=(1, 1, 1, 1), residual=trunk, clip=(0.0, None))

    def concat(self, source: str) -> str:
        """Append two branches side by side in the channels of one tensor."""
        widths = (self.pick(1, 2, 3), self.pick(1, 4))
        output = f"concat{len(self.net.layers)}"
        height, width, _ = self.tensors[source]
        self.tensors[output] = (height, width, sum(widths))
        self.add(Kind.GEMM, source, widths[0], (1, 1), output=output, clip=(0.0, None))
        return self.add(
            Kind.GEMM,
            source,
            widths[1],
            (3, 3),
            output=output,
            padding=(1, 1, 1, 1),
            output_channel=widths[0],
            clip=(0.0, None),
        )

    def pool(self, source: str) -> str:
        """Append a maximum or average pool; a padded maximum only over tensors that cannot be negative."""
        height, width, channels = self.tensors[source]
        kernel = (min(height, self.pick(1, 2, 3)), min(width, self.pick(2, 3)))
        stride = (self.pick(1, 2), self.pick(1, 2))
        if self.pick(0, 1):
            return self.add(Kind.SUM_POOL, source, channels, kernel, stride=stride)
        positive = self.add(Kind.GEMM, source, channels, (1, 1), clip=(0.0, None))
        padding = (1, 0, 0, 1) if min(kernel) > 1 else (0, 0, 0, 0)
        return self.add(Kind.MAX_POOL, positive, channels, kernel, stride=stride, padding=padding)

    def activated(self, source: str) -> str:
        """Append a convolution that ends in a function or in lines of its channels."""
        name = str(self.rng.choice(sorted({*FUNCTIONS} - {"reciprocal_root"})))
        table = Activation(use=Use.TABLE, function=name)
        return self.add(
            Kind.GEMM,
            source,
            self.pick(2, 5, 8),
            (1, 1),
            activation=(table, table, Activation(use=Use.AFFINE), Activation(use=Use.SLOPE))[self.pick(0, 1, 2, 3)],
        )

    def on_its_own(self, source: str) -> str:
        """Append a pass of the activation unit alone: a line for each channel, a function, or a square."""
        channels = self.tensors[source][2]
        clip = ((None, None), (0.0, None), (0.0, 6.0))[self.pick(0, 1, 2)]
        use = (Use.AFFINE, Use.SLOPE, Use.TABLE, Use.PRODUCT)[self.pick(0, 1, 2, 3)]
        activation = Activation(use=use, function="tanh" if use is Use.TABLE else "", clip=clip)
        residual = source if use is Use.PRODUCT else None
        return self.add(Kind.MAX_POOL, source, channels, (1, 1), activation=activation, residual=residual)

    def gate(self, source: str) -> str:
        """Append a gate on all channels or on all pixels of a convolution, in one or as a pass behind it."""
        height, width, _ = self.tensors[source]
        channels = self.pick(2, 5, 9)
        function = Activation(use=Use.TABLE, function=("sigmoid", "hard_sigmoid")[self.pick(0, 1)])
        product: dict[str, Any] = {"activation": Activation(use=Use.PRODUCT)}
        if self.pick(0, 1):
            pooled = self.add(Kind.SUM_POOL, source, self.tensors[source][2], (height, width))
            gate = self.add(Kind.GEMM, pooled, channels, (1, 1), activation=function)
            product |= {"residual": gate, "residual_step": (0, 0)}
        else:
            gate = self.add(Kind.GEMM, source, 1, (1, 1), activation=function)
            product |= {"residual": gate, "residual_spread": True}
        if self.pick(0, 1):
            return self.add(Kind.GEMM, source, channels, (1, 1), **product)
        trunk = self.add(Kind.GEMM, source, channels, (3, 3), padding=(1, 1, 1, 1))
        return self.add(Kind.MAX_POOL, trunk, channels, (1, 1), **product)

    def sum(self, source: str) -> str:
        """Append a pass that sums a convolution and another, as large, of one pixel or of one channel."""
        height, width, channels = (*self.tensors[source][:2], self.pick(2, 6))
        first = self.add(Kind.GEMM, source, channels, (1, 1), clip=(0.0, None))
        added: dict[str, Any] = ({}, {"residual_step": (0, 0)}, {"residual_spread": True})[self.pick(0, 1, 2)]
        if "residual_step" in added:
            source = self.add(Kind.SUM_POOL, source, self.tensors[source][2], (height, width))
        added["residual"] = self.add(Kind.GEMM, source, 1 if "residual_spread" in added else channels, (1, 1))
        added["activation"] = (None, Activation(use=Use.TABLE, function="silu"))[self.pick(0, 1)]
        return self.add(Kind.MAX_POOL, first, channels, (1, 1), **added)

    def head(self, source: str, classes: int) -> str:
        """Append a classifier over the whole tensor or over its global average."""
        height, width, channels = self.tensors[source]
        if self.pick(0, 1):
            source = self.add(Kind.SUM_POOL, source, channels, (height, width))
        return self.add(Kind.GEMM, source, classes, self.tensors[source][:2], output=f"logits{self.net.stage}")


def random_network(
    seed: int, *, exits: int = 2, steps: int = 3, classes: int = 5, least: int = 5, activations: bool = False
) -> Network:
    """Return a small random network: convolutions of every kind, residuals, concatenations, pools and
    heads.

    It has `exits` heads of `classes` logits each. `least`: rows and columns of an image, at least; there are
    up to five more. With `activations` it also uses the activation unit in every way.
    """
    rng = np.random.default_rng(seed)
    size = [int(n) for n in rng.integers(least, least + 6, 2)]
    sketch = _Sketch(rng, Builder({"image": (size[0], size[1], int(rng.integers(1, 5)))}))
    tensor = "image"
    drawn = []
    for stage in range(exits):
        sketch.net.stage = stage
        for _ in range(steps):
            step = (sketch.conv, sketch.residual, sketch.concat, sketch.pool)[sketch.pick(0, 0, 1, 2, 3)]
            if activations and sketch.pick(0, 1, 1):
                step = (sketch.activated, sketch.on_its_own, sketch.gate, sketch.sum)[sketch.pick(0, 0, 1, 2, 3)]
            tensor = step(tensor)
        drawn.append(Exit(name=f"exit{stage}", logits=sketch.head(tensor, classes), threshold=0.5))
    return with_random_weights(sketch.net.network(f"random{seed}", drawn), seed)
