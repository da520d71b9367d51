"""Build layer skeletons: each method appends one layer and returns the name of its output tensor.

>>> net = Builder({"image": (8, 8, 3)})
>>> net.conv("conv1", "image", 16, 3, 2), net.tensors["conv1_out"]
('conv1_out', (4, 4, 16))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .network import Exit, Layer, Network
from .shapes import Kind, Pair, Shape

RELU = (0.0, None)


@dataclass
class Builder:
    """A skeleton in the making: `tensors` begins with the input; new layers belong to `stage`."""

    tensors: dict[str, Shape]
    layers: list[Layer] = field(default_factory=list)
    stage: int = 0

    def add(self, kind: Kind, name: str, source: str, channels: int, kernel: Pair, **fields: Any) -> str:
        """Append a layer of any kind; `fields` are further fields of `Layer`, with `output` name_out by
        default.
        """
        layer = Layer(
            name=name,
            kind=kind,
            input=source,
            channels=channels,
            kernel=kernel,
            stage=self.stage,
            **{"output": f"{name}_out", "in_shape": self.tensors[source], **fields},
        )
        self.layers.append(layer)
        self.tensors.setdefault(layer.output, (*layer.out_hw, channels))
        return layer.output

    def conv(
        self,
        name: str,
        source: str,
        channels: int,
        kernel: int | Pair = 1,
        stride: int = 1,
        *,
        same: bool = True,
        **fields: Any,
    ) -> str:
        """Append a convolution with ReLU; `same` pads so that a stride of 1 keeps the size."""
        rows, columns = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (rows // 2, columns // 2) * 2 if same else (0, 0, 0, 0)
        usual = {"stride": (stride, stride), "padding": padding, "clip": RELU}
        return self.add(Kind.GEMM, name, source, channels, (rows, columns), **usual | fields)

    def enlarge(self, name: str, source: str, channels: int, **fields: Any) -> str:
        """Append a transposed convolution 4x4 of stride 2 with ReLU, as the layers of its four phases (ADR
        41).

        A `residual` has the size of the output, and each phase adds its own pixels.
        """
        height, width, _ = self.tensors[source]
        output = f"{name}_out"
        self.tensors[output] = (2 * height, 2 * width, channels)
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            place: dict[str, Any] = {"output": output, "output_at": (row, column), "output_step": (2, 2)}
            if "residual" in fields:
                place |= {"residual_at": (row, column), "residual_step": (2, 2)}
            padding = (1 - row, 1 - column, row, column)
            usual = {"padding": padding, "clip": RELU, **place}
            self.add(Kind.GEMM, f"{name}_{row}{column}", source, channels, (2, 2), **usual | fields)
        return output

    def pool(self, kind: Kind, name: str, source: str, stride: int, padding: int, **fields: Any) -> str:
        """Append a 3x3 pool."""
        place: dict[str, Any] = {"stride": (stride, stride), "padding": (padding,) * 4}
        return self.add(kind, name, source, self.tensors[source][2], (3, 3), **place | fields)

    def classifier(self, names: tuple[str, str], source: str, classes: int, logits: str) -> str:
        """Append a global average pool and a linear layer, named by `names`, that writes tensor `logits`."""
        height, width, channels = self.tensors[source]
        pooled = self.add(Kind.SUM_POOL, names[0], source, channels, (height, width))
        return self.add(Kind.GEMM, names[1], pooled, classes, (1, 1), output=logits)

    def network(self, name: str, exits: Sequence[Exit]) -> Network:
        """Return the skeleton: a network without parameters."""
        return Network(
            name=name,
            input=next(iter(self.tensors)),
            tensors=self.tensors,
            layers=tuple(self.layers),
            exits=tuple(exits),
            parameters={},
        )
