"""ResNet-18, 34, 50 and 101 (v1.5), Inception-v3, MobileNet-v2 and EfficientNet-lite0 at full size, as layer
skeletons or with random weights.

No framework. Layers have torchvision's names where it has the network. Batch normalisations are folded, as in
every network this package runs; Inception's training-only classifier is left out. He et al. 2016, table 1,
with the stride in the 3x3 convolution (v1.5); Szegedy et al. 2016, table 1; Sandler et al. 2018, table 2;
EfficientNet-lite0 as Tan and Le 2019, table 1, without squeeze and excitation and with ReLU6
(github.com/tensorflow/tpu, models/official/efficientnet/lite), padded at the far side of even sizes.

>>> [(len(net.layers), net.workload.macs) for net in map(full_size, FULL_SIZE)]
[(23, 1814073344), (39, 3663761408), (56, 4089184256), (107, 7801405440), (109, 5713216096), \
(54, 300774272), (51, 385187552)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..errors import NetworkError
from ..exits.heads import attach_exits, equidistant_tensors
from ..graph.builder import Builder
from ..graph.network import Exit, Network
from ..graph.shapes import Kind, Pair
from .synthetic import with_random_weights

CLASSES = 1000


def _one_exit(net: Builder, name: str, source: str) -> Network:
    """Append the classifier and return the skeleton."""
    net.classifier(("avgpool", "fc"), source, CLASSES, "final")
    return net.network(name, [Exit(name="final", logits="final")])


# Blocks by stage, and True where they are bottlenecks (He et al., table 1).
_RESNETS = {
    "resnet18": ((2, 2, 2, 2), False),
    "resnet34": ((3, 4, 6, 3), False),
    "resnet50": ((3, 4, 6, 3), True),
    "resnet101": ((3, 4, 23, 3), True),
}


def _resnet(name: str) -> Network:
    stages, bottleneck = _RESNETS[name]
    net = Builder({"image": (224, 224, 3)})
    value = net.pool(Kind.MAX_POOL, "maxpool", net.conv("conv1", "image", 64, 7, 2), 2, 1)
    for stage, blocks in enumerate(stages, start=1):
        for block in range(blocks):
            stride = 2 if stage > 1 and block == 0 else 1
            value = _residual_block(net, f"layer{stage}.{block}", value, 32 << stage, stride, bottleneck)
    return _one_exit(net, name, value)


def _residual_block(net: Builder, name: str, source: str, width: int, stride: int, bottleneck: bool) -> str:
    """Append a block; its shortcut is a 1x1 convolution where the shape changes."""
    channels = 4 * width if bottleneck else width
    if bottleneck:
        inner = net.conv(f"{name}.conv2", net.conv(f"{name}.conv1", source, width), width, 3, stride)
    else:
        inner = net.conv(f"{name}.conv1", source, width, 3, stride)
    short = source
    if stride > 1 or net.tensors[source][2] != channels:
        short = net.conv(f"{name}.downsample", source, channels, 1, stride, clip=(None, None))
    last, kernel = (f"{name}.conv3", 1) if bottleneck else (f"{name}.conv2", 3)
    return net.conv(last, inner, channels, kernel, residual=short)


_Step = tuple[str, int, int | Pair]  # suffix, channels, kernel


@dataclass
class _Mixed:
    """One Inception block: branches side by side in the channels of one tensor."""

    net: Builder
    name: str
    source: str
    widths: Sequence[int]
    done: int = 0

    def __post_init__(self) -> None:
        self.output = f"{self.name}_out"

    def _place(self, size: Pair) -> dict[str, Any]:
        self.net.tensors.setdefault(self.output, (*size, sum(self.widths)))
        offset = sum(self.widths[: self.done])
        self.done += 1
        return {"output": self.output, "output_channel": offset}

    def branch(self, steps: Sequence[_Step], *, ends: Sequence[_Step] = (), stride: int = 1) -> None:
        """Append convolutions one after another; the last, or each of `ends`, writes its share of the
        output.
        """
        value, (inner, last) = self.source, (steps, ends) if ends else (steps[:-1], steps[-1:])
        for suffix, channels, kernel in inner:
            value = self.net.conv(f"{self.name}.{suffix}", value, channels, kernel)
        height, width, _ = self.net.tensors[value]
        size = (height, width) if stride == 1 else ((height - 3) // stride + 1, (width - 3) // stride + 1)
        for suffix, channels, kernel in last:
            self.net.conv(
                f"{self.name}.{suffix}", value, channels, kernel, stride, same=stride == 1, **self._place(size)
            )

    def pooled(self, channels: int) -> None:
        """Append an average pool and a 1x1 convolution."""
        value = self.net.pool(Kind.SUM_POOL, f"{self.name}.avg_pool", self.source, 1, 1)
        height, width, _ = self.net.tensors[value]
        self.net.conv(f"{self.name}.branch_pool", value, channels, **self._place((height, width)))

    def reduced(self) -> None:
        """Append a max pool of stride 2 that writes straight into the output."""
        height, width, _ = self.net.tensors[self.source]
        place = self._place(((height - 3) // 2 + 1, (width - 3) // 2 + 1))
        self.net.pool(Kind.MAX_POOL, f"{self.name}.max_pool", self.source, 2, 0, **place)


def _mixed_5(net: Builder, name: str, source: str, pool: int) -> str:
    mixed = _Mixed(net, name, source, (64, 64, 96, pool))
    mixed.branch((("branch1x1", 64, 1),))
    mixed.branch((("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5)))
    mixed.branch((("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)))
    mixed.pooled(pool)
    return mixed.output


def _mixed_6(net: Builder, name: str, source: str, width: int) -> str:
    mixed = _Mixed(net, name, source, (192, 192, 192, 192))
    row, column = (1, 7), (7, 1)
    mixed.branch((("branch1x1", 192, 1),))
    mixed.branch((("branch7x7_1", width, 1), ("branch7x7_2", width, row), ("branch7x7_3", 192, column)))
    kernels: tuple[int | Pair, ...] = (1, column, row, column, row)
    mixed.branch([(f"branch7x7dbl_{i}", 192 if i == 5 else width, kernel) for i, kernel in enumerate(kernels, start=1)])
    mixed.pooled(192)
    return mixed.output


def _mixed_7(net: Builder, name: str, source: str) -> str:
    mixed = _Mixed(net, name, source, (320, 384, 384, 384, 384, 192))
    mixed.branch((("branch1x1", 320, 1),))
    for start, suffix in (
        ((("branch3x3_1", 384, 1),), "branch3x3_2"),
        ((("branch3x3dbl_1", 448, 1), ("branch3x3dbl_2", 384, 3)), "branch3x3dbl_3"),
    ):
        mixed.branch(start, ends=((suffix + "a", 384, (1, 3)), (suffix + "b", 384, (3, 1))))
    mixed.pooled(192)
    return mixed.output


def _inception_v3() -> Network:
    net = Builder({"image": (299, 299, 3)})
    value = net.conv("Conv2d_1a_3x3", "image", 32, 3, 2, same=False)
    value = net.conv("Conv2d_2b_3x3", net.conv("Conv2d_2a_3x3", value, 32, 3, same=False), 64, 3)
    value = net.conv("Conv2d_3b_1x1", net.pool(Kind.MAX_POOL, "maxpool1", value, 2, 0), 80)
    value = net.pool(Kind.MAX_POOL, "maxpool2", net.conv("Conv2d_4a_3x3", value, 192, 3, same=False), 2, 0)
    for letter, pool in (("b", 32), ("c", 64), ("d", 64)):
        value = _mixed_5(net, f"Mixed_5{letter}", value, pool)
    mixed = _Mixed(net, "Mixed_6a", value, (384, 96, 288))
    mixed.branch((("branch3x3", 384, 3),), stride=2)
    mixed.branch((("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)), stride=2)
    mixed.reduced()
    value = mixed.output
    for letter, width in (("b", 128), ("c", 160), ("d", 160), ("e", 192)):
        value = _mixed_6(net, f"Mixed_6{letter}", value, width)
    mixed = _Mixed(net, "Mixed_7a", value, (320, 192, 768))
    mixed.branch((("branch3x3_1", 192, 1), ("branch3x3_2", 320, 3)), stride=2)
    seven = (("branch7x7x3_1", 192, 1), ("branch7x7x3_2", 192, (1, 7)), ("branch7x7x3_3", 192, (7, 1)))
    mixed.branch((*seven, ("branch7x7x3_4", 192, 3)), stride=2)
    mixed.reduced()
    value = mixed.output
    for letter in "bc":
        value = _mixed_7(net, f"Mixed_7{letter}", value)
    return _one_exit(net, "inception_v3", value)


_RELU6 = (0.0, 6.0)


def _same(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return zeros before and behind, so that outputs are size / stride rounded up: the odd one behind."""
    whole = max(0, (-(-size // stride) - 1) * stride + kernel - size)
    return whole // 2, whole - whole // 2


@dataclass
class _Inverted:
    """Inverted residual blocks: widened by `expand`, filtered channel by channel, and projected."""

    net: Builder
    near: bool  # paddings as frameworks with symmetric ones have them; else all of the odd one behind

    def padding(self, source: str, kernel: int, stride: int) -> tuple[int, int, int, int]:
        """Return zeros (top, left, bottom, right)."""
        if self.near:
            return (kernel // 2,) * 4
        (top, bottom), (left, right) = (_same(size, kernel, stride) for size in self.net.tensors[source][:2])
        return top, left, bottom, right

    def stem(self, name: str, channels: int) -> str:
        """Append the first convolution, 3x3 with stride 2."""
        return self.net.conv(name, "image", channels, 3, 2, padding=self.padding("image", 3, 2), clip=_RELU6)

    def block(self, name: str, source: str, expand: int, channels: int, kernel: int, stride: int) -> str:
        """Append one block; its input is added where the shape stays."""
        before = self.net.tensors[source][2]
        value, wide = source, expand * before
        if expand > 1:
            value = self.net.conv(f"{name}.expand", source, wide, clip=_RELU6)
        value = self.net.conv(
            f"{name}.depthwise",
            value,
            wide,
            kernel,
            stride,
            padding=self.padding(value, kernel, stride),
            groups=wide,
            clip=_RELU6,
        )
        residual = source if stride == 1 and before == channels else None
        return self.net.conv(f"{name}.project", value, channels, clip=(None, None), residual=residual)


def _stages(net: Builder, inverted: _Inverted, value: str, rows: Sequence[tuple[int, int, int, int, int]]) -> str:
    """Append stages of blocks: (expansion, channels, blocks, kernel, stride of the first)."""
    number = 0
    for expand, channels, count, kernel, stride in rows:
        for index in range(count):
            number += 1
            value = inverted.block(f"features.{number}", value, expand, channels, kernel, 1 if index else stride)
    return net.conv("head", value, 1280, clip=_RELU6)


def _mobilenet_v2() -> Network:
    net = Builder({"image": (224, 224, 3)})
    inverted = _Inverted(net, near=True)
    rows = (
        (1, 16, 1, 3, 1),
        (6, 24, 2, 3, 2),
        (6, 32, 3, 3, 2),
        (6, 64, 4, 3, 2),
        (6, 96, 3, 3, 1),
        (6, 160, 3, 3, 2),
        (6, 320, 1, 3, 1),
    )
    return _one_exit(net, "mobilenet_v2", _stages(net, inverted, inverted.stem("features.0", 32), rows))


def _efficientnet_lite0() -> Network:
    net = Builder({"image": (224, 224, 3)})
    inverted = _Inverted(net, near=False)
    rows = (
        (1, 16, 1, 3, 1),
        (6, 24, 2, 3, 2),
        (6, 40, 2, 5, 2),
        (6, 80, 3, 3, 2),
        (6, 112, 3, 5, 1),
        (6, 192, 4, 5, 2),
        (6, 320, 1, 3, 1),
    )
    return _one_exit(net, "efficientnet_lite0", _stages(net, inverted, inverted.stem("stem", 32), rows))


_MAKERS: dict[str, Callable[[], Network]] = {
    **{name: partial(_resnet, name) for name in _RESNETS},
    "inception_v3": _inception_v3,
    "mobilenet_v2": _mobilenet_v2,
    "efficientnet_lite0": _efficientnet_lite0,
}
FULL_SIZE = tuple(_MAKERS)


def full_size(name: str) -> Network:
    """Return the skeleton of one of FULL_SIZE, with one exit of 1000 classes.

    Images are 224x224, those of "inception_v3" 299x299. Raises NetworkError for another name.
    """
    if name not in _MAKERS:
        raise NetworkError(f"the network must be one of {', '.join(FULL_SIZE)}, not {name!r}")
    return _MAKERS[name]()


def random_full_size(name: str, exits: int | Sequence[str] = 1, *, threshold: float = 1.0, seed: int = 0) -> Network:
    """Return a full-size network with random weights and exits at equal shares of its MACs or at named
    tensors.

    The same seed gives the same network. Its calibration comes from two images of uniform noise, so
    `quantise` needs nothing else and keeps a signal in every layer.
    """
    network = full_size(name)
    tensors = equidistant_tensors(network, exits) if isinstance(exits, int) else exits
    return with_random_weights(attach_exits(network, tensors, threshold=threshold), seed, calibration_images=2)
