"""Sums of convolutions of one input, against onnxruntime, and the layers that they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_models_onnx_operators import Graph
from test_models_onnx_parts import read

from fluidnpu.models import Kind


class Branches:
    """A sum of drawn convolutions of one map, each behind a batch normalisation or none."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.g = Graph((3, 7, 6))
        self.g.rng = self.rng
        self.channels = self.pick(4, 6)
        self.stride = (self.pick(1, 1, 2), self.pick(1, 1, 2))
        self.out = tuple((size - 1) // step + 1 for size, step in zip((7, 6), self.stride, strict=True))
        self.source = self.g.op("Relu", self.g.conv("image", self.channels, 3, 1))
        total = self.branch()
        for _ in range(self.pick(1, 2, 3)):
            more = self.branch()
            total = self.g.op("Add", *((total, more) if self.pick(0, 1) else (more, total)))
        if self.pick(0, 1):
            total = self.g.op("Relu", total)
        self.output = self.g.head(total, self.channels)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def branch(self) -> str:
        if self.stride == (1, 1) and self.pick(0, 0, 1):
            return self.g.batch_norm(self.source, self.channels) if self.pick(0, 1, 1) else self.source
        axes = [self.window(size, step, out) for size, step, out in zip((7, 6), self.stride, self.out, strict=True)]
        kernel, dilation, begin, end = zip(*axes, strict=True)
        made = self.g.conv(
            self.source,
            self.channels,
            self.channels,
            (kernel[0], kernel[1]),
            self.pick(1, 1, 2, self.channels),
            dilations=dilation,
            strides=self.stride,
            pads=[*begin, *end],
        )
        return self.g.batch_norm(made, self.channels) if self.pick(0, 1) else made

    def window(self, size: int, stride: int, out: int) -> tuple[int, int, int, int]:
        """Kernel, dilation and padding that give `out` outputs, centred or not."""
        while True:
            kernel, dilation = self.pick(1, 2, 3, 3, 5), self.pick(1, 1, 2)
            extent = (kernel - 1) * dilation + 1
            begin = self.pick((extent - 1) // 2, (extent - 1) // 2, int(self.rng.integers(extent)))
            end = (out - 1) * stride + self.pick(*range(stride)) + extent - size - begin
            if end >= 0:
                return kernel, dilation, begin, end


def test_sums_of_drawn_convolutions_equal_onnxruntime(tmp_path: Path) -> None:
    fewer = 0
    for seed in range(80):
        drawn = Branches(seed)
        network = read(tmp_path, drawn.g, drawn.output)
        fewer += len(network.layers) < sum(
            one.op_type in ("Conv", "GlobalAveragePool", "Gemm") for one in drawn.g.nodes
        )
    assert fewer >= 15


@pytest.mark.long
def test_more_sums_of_drawn_convolutions_equal_onnxruntime(tmp_path: Path) -> None:
    for seed in range(1000, 3000):
        drawn = Branches(seed)
        read(tmp_path, drawn.g, drawn.output)


@pytest.mark.parametrize("groups", [1, 4], ids=["repvgg", "mobileone"])
def test_a_trained_block_is_one_convolution(groups: int, tmp_path: Path) -> None:
    """3x3, 1x1 and the batch normalisation of the input, each normalised, then a ReLU."""
    g = Graph()
    value = g.op("Relu", g.conv("image", 4, 3, pads=[1, 1, 1, 1]))
    for _ in range(2):
        large = g.batch_norm(g.conv(value, 4, 4, 3, groups, pads=[1, 1, 1, 1]), 4)
        small = g.batch_norm(g.conv(value, 4, 4, 1, groups), 4)
        value = g.op("Relu", g.op("Add", g.op("Add", g.batch_norm(value, 4), small), large))
    network = read(tmp_path, g, g.head(value, 4))
    kernels = [(layer.kernel, layer.groups) for layer in network.layers if layer.kind is Kind.GEMM][:-1]
    assert kernels == [((3, 3), 1), ((3, 3), groups), ((3, 3), groups)]
    assert not any(layer.residual or layer.activation for layer in network.layers)


def test_a_branch_that_is_read_elsewhere_or_costs_more_stays(tmp_path: Path) -> None:
    g = Graph()
    value = g.op("Relu", g.conv("image", 4, 3, pads=[1, 1, 1, 1]))
    small = g.conv(value, 4, 4, 1)
    total = g.op("Add", g.conv(value, 4, 4, 3, pads=[1, 1, 1, 1]), small)
    network = read(tmp_path, g, g.head(g.op("Concat", total, small, axis=1), 8))
    assert sum(layer.residual is not None for layer in network.layers) == 1
    g = Graph()  # a row and a column have 9 taps in common, and 6 of their own
    value = g.op("Relu", g.conv("image", 4, 3, pads=[1, 1, 1, 1]))
    row = g.conv(value, 4, 4, (1, 3), pads=[0, 1, 0, 1])
    network = read(tmp_path, g, g.head(g.op("Add", row, g.conv(value, 4, 4, (3, 1), pads=[1, 0, 1, 0])), 4))
    assert sum(layer.residual is not None for layer in network.layers) == 1
