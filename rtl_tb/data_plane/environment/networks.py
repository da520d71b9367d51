"""The distinct layer shapes of networks, smaller in height and width: ResNet-50, Inception-v3,
EfficientNet-lite0. Pure.

Channels, kernels and strides are the networks' own; a test holds those of the first two to the layer tables
that models/ ships, which know P and C only. EfficientNet-lite0's depthwise layers are those of
EfficientNet-B0 (Tan and Le 2019, table 1, expansion times input channels), which lite0 keeps.

>>> sum(1 for name, _ in shapes() if name.startswith("resnet50"))
26
"""

from __future__ import annotations

from collections.abc import Iterator

from .jobs import Shape

# (kernel_h, kernel_w, stride, input channels, output channels)
_RESNET50 = (
    (7, 7, 2, 3, 64), (1, 1, 1, 64, 64), (3, 3, 1, 64, 64), (1, 1, 1, 64, 256), (1, 1, 1, 256, 64), (1, 1, 1, 256, 128),
    (3, 3, 2, 128, 128), (1, 1, 1, 128, 512), (1, 1, 2, 256, 512), (1, 1, 1, 512, 128), (3, 3, 1, 128, 128),
    (1, 1, 1, 512, 256), (3, 3, 2, 256, 256), (1, 1, 1, 256, 1024), (1, 1, 2, 512, 1024), (1, 1, 1, 1024, 256),
    (3, 3, 1, 256, 256), (1, 1, 1, 1024, 512), (3, 3, 2, 512, 512), (1, 1, 1, 512, 2048), (1, 1, 2, 1024, 2048),
    (1, 1, 1, 2048, 512), (3, 3, 1, 512, 512), (1, 1, 1, 2048, 1000),
)  # fmt: skip
_INCEPTION_V3 = (
    (3, 3, 2, 3, 32), (3, 3, 1, 32, 32), (3, 3, 1, 32, 64), (1, 1, 1, 64, 80), (3, 3, 1, 80, 192), (1, 1, 1, 192, 64),
    (1, 1, 1, 192, 48), (5, 5, 1, 48, 64), (3, 3, 1, 64, 96), (3, 3, 1, 96, 96), (1, 1, 1, 192, 32), (1, 1, 1, 256, 64),
    (1, 1, 1, 256, 48), (1, 1, 1, 288, 64), (1, 1, 1, 288, 48), (3, 3, 2, 288, 384), (3, 3, 2, 96, 96), (1, 1, 1, 768, 192),
    (1, 1, 1, 768, 128), (1, 7, 1, 128, 128), (7, 1, 1, 128, 192), (7, 1, 1, 128, 128), (1, 7, 1, 128, 192),
    (1, 1, 1, 768, 160), (1, 7, 1, 160, 160), (7, 1, 1, 160, 192), (7, 1, 1, 160, 160), (1, 7, 1, 160, 192),
    (1, 7, 1, 192, 192), (7, 1, 1, 192, 192), (3, 3, 2, 192, 320), (3, 3, 2, 192, 192), (1, 1, 1, 1280, 320),
    (1, 1, 1, 1280, 384), (1, 3, 1, 384, 384), (3, 1, 1, 384, 384), (1, 1, 1, 1280, 448), (3, 3, 1, 448, 384),
    (1, 1, 1, 1280, 192), (1, 1, 1, 2048, 320), (1, 1, 1, 2048, 384), (1, 1, 1, 2048, 448), (1, 1, 1, 2048, 192),
    (1, 1, 1, 2048, 1000),
)  # fmt: skip
# (name, kind of the pool, kernel, stride, channels)
_POOLS = (
    ("resnet50 maxpool", 1, 3, 2, 64), ("resnet50 average", 2, 7, 1, 2048),
    ("inception_v3 maxpool1", 1, 3, 2, 64), ("inception_v3 maxpool2", 1, 3, 2, 192), ("inception_v3 Mixed_5b pool", 2, 3, 1, 192),
    ("inception_v3 Mixed_6a pool", 1, 3, 2, 288), ("inception_v3 Mixed_6b pool", 2, 3, 1, 768),
    ("inception_v3 Mixed_7a pool", 1, 3, 2, 768), ("inception_v3 average", 2, 8, 1, 2048),
)  # fmt: skip
# (kernel, stride, channels), distinct
_DEPTHWISE = (
    (3, 1, 32), (3, 2, 96), (3, 1, 144), (5, 2, 144), (5, 1, 240), (3, 2, 240), (3, 1, 480), (5, 1, 480), (5, 1, 672), (5, 2, 672),
    (5, 1, 1152), (3, 1, 1152),
)  # fmt: skip
_OUT = ((1, 2), (2, 2), (1, 3), (2, 3))  # of the outputs, cut


def convolutions(network: str) -> tuple[tuple[int, int, int, int, int], ...]:
    """Distinct (kernel_h, kernel_w, stride, input channels, output channels) of resnet50 or inception_v3."""
    return {"resnet50": _RESNET50, "inception_v3": _INCEPTION_V3}[network]


def shapes() -> Iterator[tuple[str, Shape]]:
    """Yield (name, shape) of every distinct layer; ResNet-50's expansions, which add a residual, have one."""
    for network in ("resnet50", "inception_v3"):
        for number, (kh, kw, stride, inputs, outputs) in enumerate(convolutions(network)):
            yield (
                f"{network} {kh}x{kw} s{stride} {inputs} -> {outputs}",
                Shape(
                    kernel=(kh, kw),
                    stride=(stride, stride),
                    out=_OUT[number % 4],
                    group_words=inputs,
                    columns=outputs,
                    residual=network == "resnet50" and kh == 1 and outputs == 4 * inputs,
                ),
            )
    for number, (name, kind, kernel, stride, channels) in enumerate(_POOLS):
        square = (kernel, kernel), (stride, stride)
        yield name, Shape(kind=kind, kernel=square[0], stride=square[1], out=_OUT[number % 4], group_words=channels)
    for number, (kernel, stride, channels) in enumerate(_DEPTHWISE):
        square = (kernel, kernel), (stride, stride)
        shape = Shape(
            kernel=square[0], stride=square[1], out=_OUT[number % 4], group_words=1, groups=channels, columns=1
        )
        yield f"efficientnet_lite0 depthwise {kernel}x{kernel} s{stride} {channels}", shape
