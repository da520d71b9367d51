"""Small random networks whose layers read and write parts of tensors, and return more than logits.

For tests of what carries a network to the hardware: channels that are sliced, rows and columns that are
left out, tensors that several layers write in tiles or between one another, channels that no layer writes,
outputs in any arrangement.

>>> net = random_patchwork(3)
>>> [exit.name for exit in net.exits], len(net.outputs) > 0, net.layers == random_patchwork(3).layers
(['exit0', 'exit1'], True, True)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..graph.builder import Builder
from ..graph.network import Exit, Network
from ..graph.outputs import ACTIVATIONS, Output
from ..graph.shapes import Kind, Pair, Shape
from .synthetic import with_random_weights


@dataclass
class _Patchwork:
    """A network being drawn; each step appends layers and returns the tensor they write."""

    rng: np.random.Generator
    net: Builder

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def add(self, kind: Kind, source: str, channels: int, kernel: Pair, **fields: Any) -> str:
        return self.net.add(kind, f"layer{len(self.net.layers)}", source, channels, kernel, **fields)

    def part(self, source: str) -> dict[str, Any]:
        """Return the fields of a layer that reads some of a tensor's channels."""
        height, width, channels = self.net.tensors[source]
        first = self.pick(*range(channels))
        reads = self.pick(*range(1, channels - first + 1))
        pixel = None if reads == channels else channels
        return {"in_shape": (height, width, reads), "input_channel": first, "input_pixel": pixel}

    def sliced(self, source: str) -> str:
        """Append a convolution or a pool over some channels."""
        fields = self.part(source)
        reads = fields["in_shape"][2]
        kind = self.pick(0, 1, 2)
        if kind == 0:
            return self.add(Kind.SUM_POOL, source, reads, (2, 2), **fields)
        groups = self.pick(1, reads)
        channels = groups * self.pick(1, 2)
        return self.add(Kind.GEMM, source, channels, (1, 2), groups=groups, clip=(0.0, None), **fields)

    def cropped(self, source: str) -> str:
        """Append a layer that leaves out rows and columns on some sides and pads others."""
        padding = tuple(self.pick(-1, 0, 1) for _ in range(4))
        relu = self.add(Kind.GEMM, source, self.pick(2, 3), (1, 1), clip=(0.0, None))
        channels = self.net.tensors[relu][2]
        kind = (Kind.GEMM, Kind.MAX_POOL, Kind.SUM_POOL)[self.pick(0, 1, 2)]
        return self.add(kind, relu, channels, (2, 2), padding=padding)

    def tiled(self, source: str) -> str:
        """Append a sum pool for the upper rows of a tensor and a depthwise convolution for the lower ones."""
        height, width, channels = self.net.tensors[source]
        output = f"tiles{len(self.net.layers)}"
        rows = self.pick(*range(1, height - 2))
        self.net.tensors[output] = (height - 2, width - 2, channels)
        upper, lower = (0, 0, rows + 2 - height, 0), (-rows, 0, 0, 0)
        self.add(Kind.SUM_POOL, source, channels, (3, 3), output=output, padding=upper)
        place: dict[str, Any] = {"output": output, "padding": lower, "output_at": (rows, 0)}
        return self.add(Kind.GEMM, source, channels, (3, 3), groups=channels, **place)

    def widened(self, source: str) -> str:
        """Append a convolution into the middle channels of a tensor whose others stay zero."""
        height, width, _ = self.net.tensors[source]
        output, channels = f"wide{len(self.net.layers)}", self.pick(2, 3)
        self.net.tensors[output] = (height, width, channels + 3)
        self.add(Kind.GEMM, source, channels, (1, 1), output=output, output_channel=self.pick(0, 1, 3))
        return self.add(Kind.GEMM, output, self.pick(2, 4), (1, 1))

    def added(self, source: str) -> str:
        """Append a convolution that adds some channels of a tensor."""
        trunk = self.add(Kind.GEMM, source, self.pick(3, 5), (1, 1))
        channels = self.pick(1, 2, 3)
        first = self.pick(*range(self.net.tensors[trunk][2] - channels + 1))
        place: dict[str, Any] = {"residual": trunk, "residual_channel": first, "padding": (1, 1, 1, 1)}
        return self.add(Kind.GEMM, trunk, channels, (3, 3), clip=(-0.5, 2.0), **place)

    def upsampled(self, source: str) -> str:
        """Append the phases of a map that is larger, each a convolution; they add a small or a large map, or
        none.
        """
        height, width, _ = self.net.tensors[source]
        step, channels = (2, 2), self.pick(2, 3)
        trunk = self.add(Kind.GEMM, source, channels, (1, 1), clip=(0.0, None))
        large = self._phases(trunk, step, (height, width, channels), {"residual": trunk} if self.pick(0, 1) else {})
        return self._phases(trunk, step, (height, width, channels), {"residual": large}) if self.pick(0, 1) else large

    def _phases(self, source: str, step: Pair, size: Shape, added: dict[str, Any]) -> str:
        output = f"large{len(self.net.layers)}"
        height, width, channels = size
        self.net.tensors[output] = (height * step[0], width * step[1], channels)
        groups, large = self.pick(1, channels), added.get("residual", source) != source
        for row in range(step[0]):
            for column in range(step[1]):
                place: dict[str, Any] = {"output": output, "output_at": (row, column), "output_step": step, **added}
                if large:
                    place |= {"residual_at": (row, column), "residual_step": step}
                padding = (1 - row, 1 - column, row, column)
                self.add(Kind.GEMM, source, channels, (2, 2), groups=groups, padding=padding, **place)
        return output

    def output(self, tensor: str, name: str) -> Output:
        """Return an output of some channels of a tensor, in any order of axes."""
        height, width, channels = self.net.tensors[tensor]
        picked = self.rng.permutation(channels)[: self.pick(*range(1, channels + 1))]
        sizes = {"h": height, "w": width, "c": len(picked)}
        axes = "".join(self.rng.permutation([axis for axis in "hwc" if sizes[axis] > 1]))
        shape = tuple(sizes[axis] for axis in axes) or (1,)
        split = (len(picked),) if len(picked) > 1 else ()
        activation = str(self.rng.choice(ACTIVATIONS))
        axis = self.pick(*range(1, len(shape) + 1)) if activation.endswith("softmax") else 1
        named = () if np.array_equal(picked, np.arange(channels)) else tuple(int(channel) for channel in picked)
        return Output(
            name=name, tensor=tensor, shape=shape, axes=axes, split=split, channels=named,
            activation=activation, axis=axis, stage=self.net.stage,
        )  # fmt: skip


def random_patchwork(seed: int, *, exits: int = 2, steps: int = 3, classes: int = 5) -> Network:
    """Return a small random network of parts of tensors, with an output that is no exit in each stage.

    Without exits it has one stage and an end without classes.
    """
    rng = np.random.default_rng(seed)
    size: Shape = (int(rng.integers(9, 13)), int(rng.integers(9, 13)), int(rng.integers(2, 5)))
    drawn = _Patchwork(rng, Builder({"image": size}))
    tensor, ends, outputs = "image", [], []
    for stage in range(max(1, exits)):
        drawn.net.stage = stage
        for _ in range(steps):
            choices = [drawn.sliced, drawn.cropped, drawn.widened, drawn.added, drawn.tiled]
            if min(drawn.net.tensors[tensor][:2]) < 4:
                choices = [drawn.widened, drawn.added]
            if max(drawn.net.tensors[tensor][:2]) < 11:
                choices.append(drawn.upsampled)
            tensor = choices[drawn.pick(*range(len(choices)))](tensor)
        kept = drawn.add(Kind.GEMM, tensor, drawn.pick(3, 4), (1, 1))
        outputs.append(drawn.output(kept, f"map{stage}"))
        if exits:
            height, width, _ = drawn.net.tensors[kept]
            logits = drawn.add(Kind.GEMM, kept, classes, (height, width), output=f"logits{stage}")
            ends.append(Exit(name=f"exit{stage}", logits=logits, threshold=0.5))
    network = drawn.net.network(f"patchwork{seed}", ends or [Exit(name="final", logits=None)])
    return with_random_weights(replace(network, outputs=tuple(outputs)), seed)
