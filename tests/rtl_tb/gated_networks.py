"""MobileNetV3-Large, EfficientNet-B0 and YOLOv8n as PyTorch modules with seeded weights, read as networks.

They have what follows a sum in today's edge networks: hard swish, SiLU and sigmoid by table, gates that
multiply a map, halves of a map that are joined again. Howard et al. 2019, table 1; Tan and Le 2019, table 1,
with squeeze and excitation to a quarter of a block's input; YOLOv8 as Ultralytics 8.0 has it, of width 1/4
and depth 1/3, with its two branches for each of three scales. Batch normalisations are folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fluidnpu.models import Network, from_torch
from fluidnpu.models.numeric.float_reference import tensor_ranges

torch = pytest.importorskip("torch")
nn = torch.nn
Module: Any = nn.Module


def conv(inside: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: Any = nn.SiLU) -> Any:
    """A convolution that keeps the size at stride 1, and its activation."""
    return nn.Sequential(nn.Conv2d(inside, out, kernel, stride, kernel // 2, groups=groups), act())


class Gate(Module):  # type: ignore[misc]
    """Squeeze and excitation: each channel times a number that the mean of all channels decides."""

    def __init__(self, channels: int, squeezed: int, act: Any, gate: Any) -> None:
        super().__init__()
        layers = (nn.Conv2d(channels, squeezed, 1), act(), nn.Conv2d(squeezed, channels, 1), gate())
        self.main = nn.Sequential(nn.AdaptiveAvgPool2d(1), *layers)

    def forward(self, x: Any) -> Any:
        return x * self.main(x)


class Inverted(Module):  # type: ignore[misc]
    """Widened, filtered channel by channel, gated and projected; its input is added where the shape stays."""

    def __init__(
        self, inside: int, wide: int, out: int, kernel: int, stride: int, act: Any, gate: Sequence[Any]
    ) -> None:
        super().__init__()
        parts = [conv(inside, wide, act=act)] if wide != inside else []
        parts += [conv(wide, wide, kernel, stride, wide, act), *gate, nn.Conv2d(wide, out, 1)]
        self.main, self.same = nn.Sequential(*parts), inside == out and stride == 1

    def forward(self, x: Any) -> Any:
        return x + self.main(x) if self.same else self.main(x)


def mobilenet_v3_large() -> Any:
    """217 MMACs at 224 x 224."""
    relu, swish = nn.ReLU, nn.Hardswish
    rows = (
        (3, 16, 16, 0, relu, 1), (3, 64, 24, 0, relu, 2), (3, 72, 24, 0, relu, 1), (5, 72, 40, 24, relu, 2),
        (5, 120, 40, 32, relu, 1), (5, 120, 40, 32, relu, 1), (3, 240, 80, 0, swish, 2), (3, 200, 80, 0, swish, 1),
        (3, 184, 80, 0, swish, 1), (3, 184, 80, 0, swish, 1), (3, 480, 112, 120, swish, 1), (3, 672, 112, 168, swish, 1),
        (5, 672, 160, 168, swish, 2), (5, 960, 160, 240, swish, 1), (5, 960, 160, 240, swish, 1),
    )  # fmt: skip
    blocks, inside = [conv(3, 16, 3, 2, act=swish)], 16
    for kernel, wide, out, squeezed, act, stride in rows:
        gate = [Gate(wide, squeezed, relu, nn.Hardsigmoid)] if squeezed else []
        blocks.append(Inverted(inside, wide, out, kernel, stride, act, gate))
        inside = out
    head = (nn.AdaptiveAvgPool2d(1), conv(960, 1280, act=swish), nn.Flatten(), nn.Linear(1280, 1000))
    return nn.Sequential(*blocks, conv(160, 960, act=swish), *head)


def efficientnet_b0() -> Any:
    """386 MMACs at 224 x 224."""
    rows = (
        (1, 16, 1, 3, 1), (6, 24, 2, 3, 2), (6, 40, 2, 5, 2), (6, 80, 3, 3, 2), (6, 112, 3, 5, 1), (6, 192, 4, 5, 2), (6, 320, 1, 3, 1)
    )  # fmt: skip
    blocks, inside = [conv(3, 32, 3, 2)], 32
    for expand, out, count, kernel, stride in rows:
        for index in range(count):
            wide = expand * inside
            gate = Gate(wide, inside // 4, nn.SiLU, nn.Sigmoid)
            blocks.append(Inverted(inside, wide, out, kernel, 1 if index else stride, nn.SiLU, [gate]))
            inside = out
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))
    return nn.Sequential(*blocks, conv(320, 1280), *head)


class Halves(Module):  # type: ignore[misc]
    """YOLOv8's C2f: half of a map goes through bottlenecks, and all that was on the way is joined."""

    def __init__(self, inside: int, out: int, count: int, shortcut: bool) -> None:
        super().__init__()
        half = out // 2
        self.first, self.last = conv(inside, out), conv((2 + count) * half, out)
        self.steps = nn.ModuleList(nn.Sequential(conv(half, half, 3), conv(half, half, 3)) for _ in range(count))
        self.half, self.shortcut = half, shortcut

    def forward(self, x: Any) -> Any:
        parts = list(self.first(x).split((self.half, self.half), 1))
        for step in self.steps:
            parts.append(parts[-1] + step(parts[-1]) if self.shortcut else step(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Pyramid(Module):  # type: ignore[misc]
    """YOLOv8's SPPF: maxima of growing windows, joined."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.last = conv(channels, channels // 2), conv(2 * channels, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Any) -> Any:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class YoloV8n(Module):  # type: ignore[misc]
    """1093 MMACs at 320 x 320: maps of 64 distances and 80 classes of each scale."""

    def __init__(self) -> None:
        super().__init__()
        self.to_8 = nn.Sequential(
            conv(3, 16, 3, 2), conv(16, 32, 3, 2), Halves(32, 32, 1, True), conv(32, 64, 3, 2), Halves(64, 64, 2, True)
        )
        self.to_16 = nn.Sequential(conv(64, 128, 3, 2), Halves(128, 128, 2, True))
        self.to_32 = nn.Sequential(conv(128, 256, 3, 2), Halves(256, 256, 1, True), Pyramid(256))
        self.up = nn.Upsample(scale_factor=2)
        self.up_16, self.up_8 = Halves(384, 128, 1, False), Halves(192, 64, 1, False)
        self.down_16, self.down_32 = conv(64, 64, 3, 2), conv(128, 128, 3, 2)
        self.out_16, self.out_32 = Halves(192, 128, 1, False), Halves(384, 256, 1, False)
        self.heads = nn.ModuleList(
            nn.Sequential(conv(inside, wide, 3), conv(wide, wide, 3), nn.Conv2d(wide, out, 1))
            for inside in (64, 128, 256)
            for wide, out in ((64, 64), (80, 80))
        )

    def forward(self, x: Any) -> Any:
        p8 = self.to_8(x)
        p16 = self.to_16(p8)
        p32 = self.to_32(p16)
        n16 = self.up_16(torch.cat((self.up(p32), p16), 1))
        n8 = self.up_8(torch.cat((self.up(n16), p8), 1))
        n16 = self.out_16(torch.cat((self.down_16(n8), n16), 1))
        n32 = self.out_32(torch.cat((self.down_32(n16), p32), 1))
        maps = (n8, n8, n16, n16, n32, n32)
        return tuple(head(one) for head, one in zip(self.heads, maps, strict=True))


GATED = {
    "mobilenet_v3_large": (mobilenet_v3_large, 224),
    "efficientnet_b0": (efficientnet_b0, 224),
    "yolov8n": (YoloV8n, 320),
}


def gated(name: str, seed: int = 0) -> Network:
    """One of GATED with weights that keep a signal (He et al. 2015), its ranges from two images of noise."""
    maker, size = GATED[name]
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    net = maker()
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.normal_(module.bias, 0, 0.1)
    network = from_torch(net, torch.zeros(1, 3, size, size), name=name)
    images = np.random.default_rng(seed).random((2, size, size, 3), np.float32)
    return replace(network, calibration=tensor_ranges(network, images))
