"""Small networks of inverted residual blocks with random weights, for filters on the way out (ADR 70).

>>> network = random_blocks(3)
>>> len(network.exits), [(pair.producer, pair.depthwise) for pair in network.filters]
(2, [(0, 1), (3, 4), (8, 9), (13, 14)])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph.activations import Activation, Use
from ..graph.builder import Builder
from ..graph.network import FILTER_KERNELS, Exit, Network
from ..graph.shapes import Kind, Pair
from .synthetic import with_random_weights


@dataclass
class _Blocks:
    """A network being drawn; layers are named by their number."""

    rng: np.random.Generator
    net: Builder
    activations: bool

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def add(self, kind: Kind, source: str, channels: int, kernel: Pair, **fields: Any) -> str:
        return self.net.add(kind, f"layer{len(self.net.layers)}", source, channels, kernel, **fields)

    def ending(self, uses: bool = True) -> dict[str, Any]:
        """Draw a clip, or an activation where there may be one."""
        if uses and self.activations and self.pick(0, 1):
            function = ("hard_swish", "silu")[self.pick(0, 1)]
            return {"activation": Activation(use=Use.TABLE, function=function)}
        return {"clip": ((None, None), (0.0, None), (0.0, 6.0))[self.pick(0, 1, 2)]}

    def expand(self, source: str) -> str:
        """Append the layer in front of a depthwise one: with a gate, a residual, or neither."""
        height, width, before = self.net.tensors[source]
        channels = self.pick(2, 3, 5, 8, 11)
        form = self.pick(0, 0, 1, 2) if self.activations else self.pick(0, 0, 1)
        if form == 2:
            pooled = self.add(Kind.SUM_POOL, source, before, (height, width))
            sigmoid = Activation(use=Use.TABLE, function="sigmoid")
            gate = self.add(Kind.GEMM, pooled, channels, (1, 1), activation=sigmoid)
            product = {"activation": Activation(use=Use.PRODUCT), "residual_step": (0, 0)}
            return self.add(Kind.GEMM, source, channels, (1, 1), residual=gate, **product)
        if form == 1:
            added = self.add(Kind.GEMM, source, channels, (1, 1), clip=(0.0, None))
            return self.add(Kind.GEMM, source, channels, (1, 1), residual=added, **self.ending())
        side = self.pick(0, 1)
        return self.add(Kind.GEMM, source, channels, (1 + 2 * side,) * 2, padding=(side,) * 4, **self.ending())

    def depthwise(self, source: str, beside: int = 0) -> str:
        """Append any depthwise layer; it may fill a part of a tensor with `beside` more channels."""
        height, width, channels = self.net.tensors[source]
        kernel = int(self.rng.choice(FILTER_KERNELS))
        (top, bottom), (left, right) = (self._sides(size, kernel) for size in (height, width))
        stride = self.pick(1, 1, 2) if min(height, width) > 5 else 1
        size = [
            (have + before + behind - kernel) // stride + 1
            for have, before, behind in ((height, top, bottom), (width, left, right))
        ]
        place: dict[str, Any] = {}
        if beside:
            output = f"concat{len(self.net.layers)}"
            self.net.tensors[output] = (size[0], size[1], channels + beside)
            place = {"output": output, "output_channel": beside}
        shape = {"stride": (stride,) * 2, "padding": (top, left, bottom, right), "groups": channels}
        return self.add(Kind.GEMM, source, channels, (kernel,) * 2, **shape, **place, **self.ending())

    def _sides(self, size: int, kernel: int) -> Pair:
        """Draw zeros before and behind, so that at least four pixels are left where there can be so many."""
        most = size + kernel - 1
        before = int(self.rng.integers(max(0, min(4, most) - size), kernel))
        least = min(4, most) + kernel - 1 - size - before
        return before, int(self.rng.integers(min(kernel - 1, max(0, least)), kernel))

    def block(self, source: str) -> str:
        """Append a block; a concatenation fills its other part by a layer of its own."""
        wide = self.expand(source)
        if self.pick(0, 0, 1):
            beside = self.pick(1, 3)
            filtered = self.depthwise(wide, beside)
            other = self.net.tensors[filtered]
            place = {"output": filtered, "output_channel": 0}
            height, width, _ = self.net.tensors[source]
            kernel = (1, 1) if (height, width) == other[:2] else None
            if kernel is None:  # the same kernel and stride make a map of the same size
                like = self.net.layers[-1]
                place |= {"stride": like.stride, "padding": like.padding}
                kernel = like.kernel
            self.add(Kind.GEMM, source, beside, kernel, **place, **self.ending(uses=False))
        else:
            filtered = self.depthwise(wide)
        return self.add(Kind.GEMM, filtered, self.pick(3, 6), (1, 1), **self.ending(uses=False))

    def head(self, source: str, classes: int) -> str:
        """Append a classifier over a whole tensor."""
        return self.add(Kind.GEMM, source, classes, self.net.tensors[source][:2], output=f"logits{self.net.stage}")


def random_blocks(
    seed: int, *, exits: int = 2, blocks: int = 2, classes: int = 5, least: int = 4, activations: bool = True
) -> Network:
    """Return a small random network of blocks: a convolution, a depthwise one of any kernel, padding and
    stride, and a projection.

    An exit may stand on the map in front of a depthwise layer, which is then not merged, or on the one behind
    it. `least`: rows and columns of an image, at least; there are up to six more. Without `activations` it
    needs no activation unit.
    """
    rng = np.random.default_rng(seed)
    size = [int(n) for n in rng.integers(least, least + 7, 2)]
    draw = _Blocks(rng, Builder({"image": (size[0], size[1], int(rng.integers(1, 5)))}), activations)
    tensor, drawn = "image", []
    for stage in range(exits):
        draw.net.stage = stage
        for _ in range(blocks):
            tensor = draw.block(tensor)
        place = draw.pick(0, 1, 2)
        source = tensor
        if place and stage < exits - 1:  # on the wide map, or on the filtered one
            wide = draw.expand(tensor)
            filtered = draw.depthwise(wide)
            source = wide if place == 1 else filtered
            tensor = draw.add(Kind.GEMM, filtered, draw.pick(3, 6), (1, 1))
        drawn.append(Exit(name=f"exit{stage}", logits=draw.head(source, classes), threshold=0.5))
    return with_random_weights(draw.net.network(f"blocks{seed}", drawn), seed)
