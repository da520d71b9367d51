"""Networks of today as ONNX files, for `benchmarks/coverage.py`; runs in an environment of its own.

    ZOO/bin/python benchmarks/coverage_zoo.py FOLDER [--network NAME]...

Each is written to FOLDER/NAME.onnx by PyTorch's TorchScript exporter at opset 13, with random weights of a
fixed seed: whether a network is taken is a matter of its graph. Statistics of batch norms are measured on
noise. A file that is there already is left. Imports nothing of ours; needs torch,
timm, ultralytics, segmentation-models-pytorch and the Python files of torchvision.
"""

# mypy: ignore-errors
# Its libraries stand in an environment of their own, and mypy of ours sees none of them.

from __future__ import annotations

import argparse
import sys
import types
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

# Of torchvision timm needs Python alone; its compiled part wants the CUDA build of torch.
sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from torch import Tensor, nn  # noqa: E402

OPSET = 13


class Entry(NamedTuple):
    """A network of the zoo: its family, how it is made, the shape of its input after the batch."""

    family: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...] = (3, 224, 224)


def of_timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    """Return a maker of a network of timm."""

    def make() -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False, exportable=True, **options)

    return make


def of_torchvision(name: str) -> Callable[[], nn.Module]:
    """Return a maker of a classifier of torchvision."""

    def make() -> nn.Module:
        import torchvision

        return getattr(torchvision.models, name)(weights=None)

    return make


def of_ultralytics(name: str) -> Callable[[], nn.Module]:
    """Return a maker of a detector of ultralytics as its own exporter gives it: boxes and scores, no NMS."""

    def make() -> nn.Module:
        from ultralytics import YOLO
        from ultralytics.nn.modules import C2f, Detect

        model = YOLO(f"{name}.yaml").model
        for module in model.modules():
            if isinstance(module, Detect):
                module.export, module.format, module.dynamic = True, "onnx", False
            if isinstance(module, C2f):
                module.forward = module.forward_split
        return model

    return make


def of_smp(name: str, encoder: str, **options: Any) -> Callable[[], nn.Module]:
    """Return a maker of a segmenter of segmentation-models-pytorch with 19 classes."""

    def make() -> nn.Module:
        import segmentation_models_pytorch as smp

        return getattr(smp, name)(encoder, encoder_weights=None, classes=19, **options)

    return make


def conv(i: int, o: int, k: int = 3, s: int = 1, g: int = 1, d: int = 1, act: nn.Module | None = None) -> nn.Sequential:
    """A convolution with batch norm and ReLU, or another activation."""
    layers = [nn.Conv2d(i, o, k, s, d * (k - 1) // 2, d, g, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, nn.ReLU() if act is None else act)


def separable(i: int, o: int, s: int = 1, act: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """A depthwise and a pointwise convolution."""
    return nn.Sequential(conv(i, i, 3, s, i, act=act()), conv(i, o, 1, act=act()))


class Features(nn.Module):
    """The feature maps of a network of timm at some strides."""

    def __init__(self, name: str, levels: tuple[int, ...]) -> None:
        super().__init__()
        import timm

        self.net = timm.create_model(name, pretrained=False, features_only=True, out_indices=levels)
        self.channels = self.net.feature_info.channels()

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return one map a level."""
        return list(self.net(x))


class CenterNet(nn.Module):
    """Objects as points (Zhou et al. 2019): heat map, sizes and offsets, on ResNet-18 with deconvolutions."""

    def __init__(self, peaks: bool) -> None:
        super().__init__()
        self.peaks = peaks
        self.body = Features("resnet18", (4,))
        widths = [self.body.channels[0], 256, 128, 64]
        self.up = nn.Sequential(
            *(
                nn.Sequential(nn.ConvTranspose2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
                for i, o in pairwise(widths)
            )
        )
        self.heads = nn.ModuleList(nn.Sequential(conv(64, 64), nn.Conv2d(64, o, 1)) for o in (80, 2, 2))

    def forward(self, x: Tensor) -> Any:
        """Return heat, sizes, offsets; with `peaks` the best hundred as boxes, scores and classes."""
        heat, size, offset = (head(self.up(self.body(x)[0])) for head in self.heads)
        heat = heat.sigmoid()
        if not self.peaks:
            return heat, size, offset
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat).float()
        width = heat.shape[-1]
        scores, places = heat.flatten(1).topk(100)
        pixel = places % (heat.shape[-2] * width)
        picked = [m.flatten(2).transpose(1, 2).gather(1, pixel[..., None].expand(-1, -1, 2)) for m in (size, offset)]
        at = torch.stack((pixel % width, pixel // width), 2).float() + picked[1]
        return torch.cat((at - picked[0] / 2, at + picked[0] / 2), 2), scores, places // (heat.shape[-2] * width)


def levels_joined(heads: list[Tensor], values: int) -> Tensor:
    """Return maps (N, anchors * values, h, w) as one (N, boxes, values)."""
    return torch.cat([h.permute(0, 2, 3, 1).reshape(h.shape[0], -1, values) for h in heads], 1)


class SSD(nn.Module):
    """SSD on MobileNetV1 or V2 features: six maps, boxes and softmax scores over all anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Features("mobilenetv2_100", (3, 4))
        a, b = self.body.channels
        more = (b, 512, 256, 256, 128)
        self.extra = nn.ModuleList(nn.Sequential(conv(i, o // 2, 1), conv(o // 2, o, 3, 2)) for i, o in pairwise(more))
        widths = (a, *more)
        self.boxes = nn.ModuleList(nn.Conv2d(c, 6 * 4, 3, 1, 1) for c in widths)
        self.classes = nn.ModuleList(nn.Conv2d(c, 6 * 21, 3, 1, 1) for c in widths)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return decoded boxes (N, anchors, 4) and scores (N, anchors, 21)."""
        maps = self.body(x)
        for extra in self.extra:
            maps.append(extra(maps[-1]))
        boxes = levels_joined([h(m) for h, m in zip(self.boxes, maps, strict=True)], 4)
        scores = levels_joined([h(m) for h, m in zip(self.classes, maps, strict=True)], 21)
        centre, size = boxes[..., :2] * 0.1, (boxes[..., 2:] * 0.2).exp()
        return torch.cat((centre - size / 2, centre + size / 2), 2), scores.softmax(2)


class Pyramid(nn.Module):
    """A feature pyramid: lateral 1x1, nearest upsampling, 3x3 outputs."""

    def __init__(self, widths: list[int], out: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(c, out, 1) for c in widths)
        self.smooth = nn.ModuleList(nn.Conv2d(out, out, 3, 1, 1) for _ in widths)

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """Return one map a level, from the largest on."""
        out = [lateral(m) for lateral, m in zip(self.lateral, maps, strict=True)]
        for level in range(len(out) - 2, -1, -1):
            out[level] = out[level] + F.interpolate(out[level + 1], scale_factor=2.0)
        return [smooth(m) for smooth, m in zip(self.smooth, out, strict=True)]


class RetinaNet(nn.Module):
    """RetinaNet on ResNet-18 with shared heads of four convolutions, perhaps with group norm."""

    def __init__(self, groups: int = 0) -> None:
        super().__init__()
        self.body = Features("resnet18", (2, 3, 4))
        self.fpn = Pyramid(self.body.channels, 128)
        self.p6 = nn.Conv2d(128, 128, 3, 2, 1)

        def head(out: int) -> nn.Sequential:
            layers: list[nn.Module] = []
            for _ in range(4):
                layers += [nn.Conv2d(128, 128, 3, 1, 1), *([nn.GroupNorm(groups, 128)] if groups else []), nn.ReLU()]
            return nn.Sequential(*layers, nn.Conv2d(128, out, 3, 1, 1))

        self.classes, self.boxes = head(9 * 20), head(9 * 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores (N, anchors, 20) and boxes (N, anchors, 4)."""
        maps = self.fpn(self.body(x))
        maps.append(self.p6(maps[-1]))
        return levels_joined([self.classes(m) for m in maps], 20).sigmoid(), levels_joined(
            [self.boxes(m) for m in maps], 4
        )


class BlazeBlock(nn.Module):
    """A block of BlazeFace: 5x5 depthwise, pointwise, a shortcut padded with channels of zero."""

    def __init__(self, i: int, o: int, s: int = 1) -> None:
        super().__init__()
        self.more, self.stride = o - i, s
        self.body = nn.Sequential(nn.Conv2d(i, i, 5, s, 2, groups=i), nn.Conv2d(i, o, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the next map."""
        short = F.max_pool2d(x, 2, 2) if self.stride == 2 else x
        if self.more:
            short = F.pad(short, (0, 0, 0, 0, 0, self.more))
        return F.relu(self.body(x) + short)


class BlazeFace(nn.Module):
    """BlazeFace (Bazarevsky et al. 2019), front camera: 896 anchors of 17 values."""

    def __init__(self) -> None:
        super().__init__()
        plan = ((24, 24, 1), (24, 28, 1), (28, 32, 2), (32, 36, 1), (36, 42, 1), (42, 48, 2))
        plan += ((48, 56, 1), (56, 64, 1), (64, 72, 1), (72, 80, 1), (80, 88, 1))
        self.first = nn.Sequential(nn.Conv2d(3, 24, 5, 2, 2), nn.ReLU(), *(BlazeBlock(*p) for p in plan))
        self.second = nn.Sequential(BlazeBlock(88, 96, 2), *(BlazeBlock(96, 96) for _ in range(4)))
        self.scores = nn.ModuleList((nn.Conv2d(88, 2, 1), nn.Conv2d(96, 6, 1)))
        self.places = nn.ModuleList((nn.Conv2d(88, 2 * 16, 1), nn.Conv2d(96, 6 * 16, 1)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores (N, 896, 1) and boxes with key points (N, 896, 16)."""
        maps = [self.first(x)]
        maps.append(self.second(maps[0]))
        scores = levels_joined([h(m) for h, m in zip(self.scores, maps, strict=True)], 1)
        return scores.sigmoid(), levels_joined([h(m) for h, m in zip(self.places, maps, strict=True)], 16)


class NanoDet(nn.Module):
    """A NanoDet-like detector: ShuffleNetV2, a pyramid, depthwise heads with LeakyReLU, DFL in the graph."""

    def __init__(self) -> None:
        super().__init__()
        import torchvision

        net = torchvision.models.shufflenet_v2_x1_0(weights=None)
        self.stem = nn.Sequential(net.conv1, net.maxpool)
        self.stages = nn.ModuleList((net.stage2, net.stage3, net.stage4))
        leaky = lambda: nn.LeakyReLU(0.1)  # noqa: E731
        self.lateral = nn.ModuleList(conv(c, 96, 1, act=leaky()) for c in (116, 232, 464))
        self.head = nn.ModuleList(
            nn.Sequential(separable(96, 96, act=leaky), separable(96, 96, act=leaky), nn.Conv2d(96, 20 + 32, 1))
            for _ in range(3)
        )
        self.register_buffer("project", torch.arange(8.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores (N, points, 20) and distances (N, points, 4)."""
        x, maps = self.stem(x), []
        for stage, lateral in zip(self.stages, self.lateral, strict=True):
            x = stage(x)
            maps.append(lateral(x))
        for level in (1, 0):
            maps[level] = maps[level] + F.interpolate(maps[level + 1], scale_factor=2.0, mode="bilinear")
        joined = levels_joined([h(m) for h, m in zip(self.head, maps, strict=True)], 52)
        shares = joined[..., 20:].reshape(joined.shape[0], -1, 4, 8).softmax(3)
        return joined[..., :20].sigmoid(), shares @ self.project


class YoloX(nn.Module):
    """YOLOX-nano (Ge et al. 2021): depthwise CSP blocks, Focus, decoupled heads, decoding in the graph."""

    def __init__(self) -> None:
        super().__init__()
        silu = nn.SiLU

        def block(i: int, o: int, s: int = 1) -> nn.Sequential:
            return separable(i, o, s, silu)

        class Csp(nn.Module):
            def __init__(self, i: int, o: int, n: int, shortcut: bool) -> None:
                super().__init__()
                h = o // 2
                self.a, self.b = conv(i, h, 1, act=silu()), conv(i, h, 1, act=silu())
                self.steps = nn.ModuleList(nn.Sequential(conv(h, h, 1, act=silu()), block(h, h)) for _ in range(n))
                self.out, self.shortcut = conv(2 * h, o, 1, act=silu()), shortcut

            def forward(self, x: Tensor) -> Tensor:
                y = self.a(x)
                for step in self.steps:
                    y = y + step(y) if self.shortcut else step(y)
                return self.out(torch.cat((y, self.b(x)), 1))

        class Spp(nn.Module):
            def __init__(self, i: int, o: int) -> None:
                super().__init__()
                self.a, self.b = conv(i, i // 2, 1, act=silu()), conv(i * 2, o, 1, act=silu())

            def forward(self, x: Tensor) -> Tensor:
                x = self.a(x)
                return self.b(torch.cat([x, *(F.max_pool2d(x, k, 1, k // 2) for k in (5, 9, 13))], 1))

        w = (16, 32, 64, 128, 256)
        self.stem = conv(12, w[0], 3, act=silu())
        self.dark = nn.ModuleList(
            (
                nn.Sequential(block(w[0], w[1], 2), Csp(w[1], w[1], 1, True)),
                nn.Sequential(block(w[1], w[2], 2), Csp(w[2], w[2], 3, True)),
                nn.Sequential(block(w[2], w[3], 2), Csp(w[3], w[3], 3, True)),
                nn.Sequential(block(w[3], w[4], 2), Spp(w[4], w[4]), Csp(w[4], w[4], 1, False)),
            )
        )
        self.l0, self.c0 = conv(w[4], w[3], 1, act=silu()), Csp(2 * w[3], w[3], 1, False)
        self.l1, self.c1 = conv(w[3], w[2], 1, act=silu()), Csp(2 * w[2], w[2], 1, False)
        self.d1, self.c2 = block(w[2], w[2], 2), Csp(2 * w[2], w[3], 1, False)
        self.d0, self.c3 = block(w[3], w[3], 2), Csp(2 * w[3], w[4], 1, False)
        self.heads = nn.ModuleList()
        for c in w[2:]:
            stem = conv(c, 64, 1, act=silu())
            two = [nn.Sequential(block(64, 64), block(64, 64)) for _ in range(2)]
            self.heads.append(
                nn.ModuleList((stem, *two, nn.Conv2d(64, 80, 1), nn.Conv2d(64, 4, 1), nn.Conv2d(64, 1, 1)))
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, points, 85): boxes, objectness, classes."""
        x = torch.cat((x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]), 1)
        x, maps = self.stem(x), []
        for dark in self.dark:
            x = dark(x)
            maps.append(x)
        _, c3, c4, c5 = maps
        p5 = self.l0(c5)
        p4 = self.c0(torch.cat((F.interpolate(p5, scale_factor=2.0), c4), 1))
        p4 = self.l1(p4)
        out3 = self.c1(torch.cat((F.interpolate(p4, scale_factor=2.0), c3), 1))
        out4 = self.c2(torch.cat((self.d1(out3), p4), 1))
        out5 = self.c3(torch.cat((self.d0(out4), p5), 1))
        rows, grids, steps = [], [], []
        for (stem, cls, reg, c, b, o), m, step in zip(self.heads, (out3, out4, out5), (8, 16, 32), strict=True):
            m = stem(m)
            kinds, places = cls(m), reg(m)
            rows.append(torch.cat((b(places), o(places).sigmoid(), c(kinds).sigmoid()), 1).flatten(2))
            ys, xs = torch.meshgrid(torch.arange(m.shape[2]), torch.arange(m.shape[3]), indexing="ij")
            grids.append(torch.stack((xs, ys), 2).reshape(1, -1, 2).float())
            steps.append(torch.full((1, m.shape[2] * m.shape[3], 1), float(step)))
        joined, grid, scale = torch.cat(rows, 2).transpose(1, 2), torch.cat(grids, 1), torch.cat(steps, 1)
        return torch.cat(((joined[..., :2] + grid) * scale, joined[..., 2:4].exp() * scale, joined[..., 4:]), 2)


class SimpleBaseline(nn.Module):
    """Simple baselines for pose (Xiao et al. 2018): ResNet-18 and three deconvolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Features("resnet18", (4,))
        ups = [
            nn.Sequential(nn.ConvTranspose2d(i, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU())
            for i in (512, 256, 256)
        ]
        self.up = nn.Sequential(*ups, nn.Conv2d(256, 17, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return 17 heat maps."""
        return self.up(self.body(x)[0])


class FastScnn(nn.Module):
    """Fast-SCNN (Poudel et al. 2019) with pyramid pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(conv(3, 32, 3, 2), separable(32, 48, 2), separable(48, 64, 2))

        def bottleneck(i: int, o: int, s: int) -> nn.Sequential:
            return nn.Sequential(
                conv(i, 6 * i, 1), conv(6 * i, 6 * i, 3, s, 6 * i), conv(6 * i, o, 1, act=nn.Identity())
            )

        self.deep = nn.Sequential(
            *(bottleneck(*p) for p in ((64, 64, 2), (64, 64, 1), (64, 96, 2), (96, 96, 1), (96, 128, 1)))
        )
        self.pools = nn.ModuleList(conv(128, 32, 1) for _ in range(4))
        self.joined = conv(256, 128, 1)
        self.high, self.low = conv(64, 128, 1, act=nn.Identity()), conv(128, 128, 1, act=nn.Identity())
        self.wide = conv(128, 128, 3, 1, 128, 4)
        self.head = nn.Sequential(separable(128, 128), separable(128, 128), nn.Conv2d(128, 19, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return a map of logits at the size of the input."""
        high = self.down(x)
        low = self.deep(high)
        size = low.shape[2:]
        parts = [
            F.interpolate(p(F.adaptive_avg_pool2d(low, n)), size=size, mode="bilinear", align_corners=True)
            for p, n in zip(self.pools, (1, 2, 4, 8), strict=True)
        ]
        low = self.joined(torch.cat((low, *parts), 1))
        low = F.interpolate(low, size=high.shape[2:], mode="bilinear", align_corners=True)
        out = self.head(F.relu(self.high(high) + self.low(self.wide(low))))
        return F.interpolate(out, size=x.shape[2:], mode="bilinear", align_corners=True)


class BiSeNet(nn.Module):
    """BiSeNet (Yu et al. 2018) on ResNet-18: attention refinement and feature fusion."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Features("resnet18", (3, 4))
        self.spatial = nn.Sequential(conv(3, 64, 7, 2), conv(64, 64, 3, 2), conv(64, 64, 3, 2), conv(64, 128, 1))
        self.refine = nn.ModuleList(conv(c, 128) for c in (256, 512))
        self.gates = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(128, 128, 1), nn.Sigmoid()) for _ in range(2)
        )
        self.tail = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(512, 128, 1))
        self.fuse = conv(256, 256, 1)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(256, 64, 1), nn.ReLU(), nn.Conv2d(64, 256, 1), nn.Sigmoid()
        )
        self.head = nn.Sequential(conv(256, 64), nn.Conv2d(64, 19, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return a map of logits at the size of the input."""
        c4, c5 = self.body(x)
        a4, a5 = (gate(m) * m for gate, m in ((self.gates[0], self.refine[0](c4)), (self.gates[1], self.refine[1](c5))))
        a5 = F.interpolate(a5 + self.tail(c5), scale_factor=2.0)
        context = F.interpolate(a4 + a5, scale_factor=2.0)
        fused = self.fuse(torch.cat((self.spatial(x), context), 1))
        fused = fused + fused * self.gate(fused)
        return F.interpolate(self.head(fused), scale_factor=8.0, mode="bilinear", align_corners=False)


class LiteSeg(nn.Module):
    """PP-LiteSeg (Peng et al. 2022): pyramid pooling and spatial attention fusion on a small backbone."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Features("resnet18", (2, 3, 4))
        self.pools = nn.ModuleList(conv(512, 128, 1) for _ in range(3))
        self.context = conv(128, 128)
        self.low = nn.ModuleList(conv(c, 128) for c in (256, 128))
        self.gates = nn.ModuleList(nn.Sequential(conv(4, 2), nn.Conv2d(2, 1, 3, 1, 1)) for _ in range(2))
        self.head = nn.Sequential(conv(128, 64), nn.Conv2d(64, 19, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return a map of logits at the size of the input."""
        c3, c4, c5 = self.body(x)
        size, up = c5.shape[2:], {"mode": "bilinear", "align_corners": False}
        y = sum(
            F.interpolate(p(F.adaptive_avg_pool2d(c5, n)), size=size, **up)
            for p, n in zip(self.pools, (1, 2, 4), strict=True)
        )
        y = self.context(y)
        for low, gate, m in zip(self.low, self.gates, (c4, c3), strict=True):
            y, m = F.interpolate(y, size=m.shape[2:], **up), low(m)
            both = [t for v in (y, m) for t in (v.mean(1, keepdim=True), v.amax(1, keepdim=True))]
            share = gate(torch.cat(both, 1)).sigmoid()
            y = y * share + m * (1 - share)
        return F.interpolate(self.head(y), size=x.shape[2:], **up)


class Espcn(nn.Module):
    """ESPCN (Shi et al. 2016): three convolutions and a pixel shuffle."""

    def __init__(self, act: type[nn.Module]) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 64, 5, 1, 2),
            act(),
            nn.Conv2d(64, 32, 3, 1, 1),
            act(),
            nn.Conv2d(32, 9, 3, 1, 1),
            nn.PixelShuffle(3),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the image three times as large."""
        return self.net(x)


class Fsrcnn(nn.Module):
    """FSRCNN (Dong et al. 2016): shrink, map, expand, deconvolution, with PReLU."""

    def __init__(self) -> None:
        super().__init__()
        steps: list[nn.Module] = [nn.Conv2d(1, 56, 5, 1, 2), nn.PReLU(56), nn.Conv2d(56, 12, 1), nn.PReLU(12)]
        for _ in range(4):
            steps += [nn.Conv2d(12, 12, 3, 1, 1), nn.PReLU(12)]
        steps += [nn.Conv2d(12, 56, 1), nn.PReLU(56), nn.ConvTranspose2d(56, 1, 9, 2, 4, output_padding=1)]
        self.net = nn.Sequential(*steps)

    def forward(self, x: Tensor) -> Tensor:
        """Return the image twice as large."""
        return self.net(x)


class Edsr(nn.Module):
    """EDSR-baseline (Lim et al. 2017), eight blocks of 32 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 32, 3, 1, 1)
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1)) for _ in range(8)
        )
        self.tail = nn.Sequential(nn.Conv2d(32, 128, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(32, 3, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the image twice as large."""
        y = x = self.head(x)
        for block in self.body:
            y = y + block(y) * 0.1
        return self.tail(x + y)


class DnCnn(nn.Module):
    """DnCNN (Zhang et al. 2017): the noise is estimated and taken away."""

    def __init__(self) -> None:
        super().__init__()
        middle = [conv(32, 32) for _ in range(8)]
        self.net = nn.Sequential(nn.Conv2d(1, 32, 3, 1, 1), nn.ReLU(), *middle, nn.Conv2d(32, 1, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the image without noise."""
        return x - self.net(x)


class Abpn(nn.Module):
    """ABPN (Du et al. 2021): the image repeated nine times as anchor, a clip, a pixel shuffle."""

    def __init__(self) -> None:
        super().__init__()
        steps: list[nn.Module] = [nn.Conv2d(3, 28, 3, 1, 1), nn.ReLU()]
        for _ in range(4):
            steps += [nn.Conv2d(28, 28, 3, 1, 1), nn.ReLU()]
        self.net = nn.Sequential(*steps, nn.Conv2d(28, 27, 3, 1, 1), nn.ReLU(), nn.Conv2d(27, 27, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the image three times as large."""
        return F.pixel_shuffle((self.net(x) + x.repeat(1, 9, 1, 1)).clamp(0, 255), 3)


class DsCnn(nn.Module):
    """DS-CNN-S (Zhang et al. 2017) for keywords: 49 x 10 features of speech."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 64, (10, 4), (2, 2), (5, 1)),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            *(separable(64, 64) for _ in range(4)),
        )
        self.out = nn.Linear(64, 12)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of 12 words."""
        return self.out(self.net(x).mean((2, 3)))


class Signal(nn.Module):
    """A one-dimensional network over a signal of one channel (ECG beats)."""

    def __init__(self) -> None:
        super().__init__()

        def step(i: int, o: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv1d(i, o, 7, 1, 3), nn.BatchNorm1d(o), nn.ReLU(), nn.MaxPool1d(2))

        self.net = nn.Sequential(step(1, 16), step(16, 32), step(32, 64), nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.out = nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of five kinds of beats."""
        return self.out(self.net(x))


class Ocr(nn.Module):
    """A convolutional reader of text lines for CTC, or a CRNN (Shi et al. 2015) with an LSTM behind it."""

    def __init__(self, recurrent: bool) -> None:
        super().__init__()
        self.net = nn.Sequential(
            conv(1, 32), nn.MaxPool2d(2), conv(32, 64), nn.MaxPool2d(2), conv(64, 128), nn.MaxPool2d((2, 1)),
            conv(128, 128), nn.MaxPool2d((2, 1)), nn.Conv2d(128, 128, (2, 1)), nn.ReLU(),
        )  # fmt: skip
        self.lstm = nn.LSTM(128, 64, bidirectional=True) if recurrent else None
        self.out = nn.Linear(128, 37)

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities of characters, (columns, N, 37) or (N, columns, 37)."""
        y = self.net(x).squeeze(2)
        if self.lstm is None:
            return self.out(y.transpose(1, 2)).log_softmax(2)
        return self.out(self.lstm(y.permute(2, 0, 1))[0]).log_softmax(2)


class Tcn(nn.Module):
    """A temporal convolutional network (Bai et al. 2018): dilated causal convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 25, 1)
        self.steps = nn.ModuleList(
            nn.ModuleList(nn.Conv1d(25, 25, 5, dilation=2**n) for _ in range(2)) for n in range(4)
        )
        self.out = nn.Linear(25, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of ten classes."""
        x = self.first(x)
        for n, pair in enumerate(self.steps):
            y = x
            for layer in pair:
                y = F.relu(layer(F.pad(y, (4 * 2**n, 0))))
            x = F.relu(x + y)
        return self.out(x[:, :, -1])


CLASSIFIERS = "plain classifiers"
GATED = "gates and smooth activations"
ATTENTION = "attention"
YOLO_NETS = "YOLO"
DETECTORS = "other detectors and pose"
SEGMENTERS = "segmentation"
RESTORERS = "super-resolution and denoising"
SIGNALS = "signals and text"

ZOO: dict[str, Entry] = {
    **{
        name: Entry(CLASSIFIERS, of_timm(name))
        for name in (
            "mobilenetv1_100", "mobilenetv2_100", "mobilenetv4_conv_small", "efficientnet_lite0", "mnasnet_100", "fbnetc_100",
            "regnetx_004", "resnet18", "resnet50", "resnext50_32x4d", "repvgg_a0", "mobileone_s0", "densenet121",
            "inception_v3", "dla34", "hrnet_w18_small", "res2net50_26w_4s", "xception41", "cspdarknet53", "hgnetv2_b0",
        )
    },
    **{name: Entry(CLASSIFIERS, of_torchvision(name)) for name in ("shufflenet_v2_x1_0", "squeezenet1_1")},
    **{
        name: Entry(GATED, of_timm(name))
        for name in (
            "ghostnet_100", "repghostnet_100", "ese_vovnet19b_dw", "mnasnet_small", "semnasnet_100", "regnety_004", "seresnet50",
            "mobilenetv3_small_100", "mobilenetv3_large_100", "efficientnet_b0", "tf_efficientnetv2_s", "lcnet_100", "mixnet_s",
            "repvit_m0_9", "fastvit_t8", "starnet_s1", "convnext_tiny",
        )
        if name != "mnasnet_small"
    },
    "deit_tiny": Entry(ATTENTION, of_timm("deit_tiny_patch16_224")),
    "swin_tiny": Entry(ATTENTION, of_timm("swin_tiny_patch4_window7_224")),
    "mobilevit_s": Entry(ATTENTION, of_timm("mobilevit_s"), (3, 256, 256)),
    "mobilevitv2_100": Entry(ATTENTION, of_timm("mobilevitv2_100"), (3, 256, 256)),
    "edgenext_small": Entry(ATTENTION, of_timm("edgenext_small"), (3, 256, 256)),
    "efficientformerv2_s0": Entry(ATTENTION, of_timm("efficientformerv2_s0")),
    "efficientvit_b0": Entry(ATTENTION, of_timm("efficientvit_b0")),
    **{
        name: Entry(YOLO_NETS, of_ultralytics(name), (3, 320, 320))
        for name in (
            "yolov3-tiny", "yolov5n", "yolov6n", "yolov8n", "yolov8n-pose", "yolov8n-seg", "yolov10n", "yolo11n", "yolo26n",
        )
    },
    "yolov8n-cls": Entry(YOLO_NETS, of_ultralytics("yolov8n-cls")),
    "yolox-nano": Entry(YOLO_NETS, YoloX, (3, 320, 320)),
    "centernet_r18": Entry(DETECTORS, lambda: CenterNet(peaks=False), (3, 256, 256)),
    "centernet_r18_peaks": Entry(DETECTORS, lambda: CenterNet(peaks=True), (3, 256, 256)),
    "ssd_mobilenet": Entry(DETECTORS, SSD, (3, 300, 300)),
    "retinanet_r18": Entry(DETECTORS, RetinaNet, (3, 320, 320)),
    "retinanet_r18_gn": Entry(DETECTORS, lambda: RetinaNet(32), (3, 320, 320)),
    "blazeface": Entry(DETECTORS, BlazeFace, (3, 128, 128)),
    "nanodet": Entry(DETECTORS, NanoDet, (3, 320, 320)),
    "simple_baseline": Entry(DETECTORS, SimpleBaseline, (3, 256, 192)),
    "unet_r18": Entry(SEGMENTERS, of_smp("Unet", "resnet18"), (3, 256, 256)),
    "unet_mobilenetv2": Entry(SEGMENTERS, of_smp("Unet", "mobilenet_v2"), (3, 256, 256)),
    "deeplabv3plus": Entry(SEGMENTERS, of_smp("DeepLabV3Plus", "mobilenet_v2"), (3, 256, 256)),
    "pspnet": Entry(SEGMENTERS, of_smp("PSPNet", "resnet18"), (3, 288, 288)),
    "fpn_gn": Entry(SEGMENTERS, of_smp("FPN", "resnet18"), (3, 256, 256)),
    "segformer_b0": Entry(SEGMENTERS, of_smp("Segformer", "mit_b0"), (3, 256, 256)),
    "fast_scnn": Entry(SEGMENTERS, FastScnn, (3, 256, 512)),
    "bisenet": Entry(SEGMENTERS, BiSeNet, (3, 256, 256)),
    "pp_liteseg": Entry(SEGMENTERS, LiteSeg, (3, 256, 256)),
    "espcn": Entry(RESTORERS, lambda: Espcn(nn.ReLU), (1, 64, 64)),
    "espcn_tanh": Entry(RESTORERS, lambda: Espcn(nn.Tanh), (1, 64, 64)),
    "fsrcnn": Entry(RESTORERS, Fsrcnn, (1, 64, 64)),
    "edsr": Entry(RESTORERS, Edsr, (3, 64, 64)),
    "dncnn": Entry(RESTORERS, DnCnn, (1, 64, 64)),
    "abpn": Entry(RESTORERS, Abpn, (3, 64, 64)),
    "ds_cnn": Entry(SIGNALS, DsCnn, (1, 49, 10)),
    "ecg": Entry(SIGNALS, Signal, (1, 256)),
    "ctc_ocr": Entry(SIGNALS, lambda: Ocr(recurrent=False), (1, 32, 128)),
    "crnn": Entry(SIGNALS, lambda: Ocr(recurrent=True), (1, 32, 128)),
    "tcn": Entry(SIGNALS, Tcn, (1, 128)),
}  # fmt: skip


def settle(model: nn.Module, images: Tensor) -> None:
    """Measure the statistics of batch norms on images, as training does: else a signal dies out."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    model(images)
    model.eval()


def export(name: str, folder: Path) -> None:
    """Write one network's file; a broken export leaves none."""
    entry = ZOO[name]
    torch.manual_seed(0)
    model = entry.make().eval()
    draft = folder / f"{name}.part"
    image = torch.rand(1, *entry.shape)
    with torch.no_grad():
        settle(model, torch.rand(4, *entry.shape))
        model = model.fuse(verbose=False) if entry.family == YOLO_NETS and hasattr(model, "fuse") else model
        torch.onnx.export(model, (image,), str(draft), opset_version=OPSET, dynamo=False)
    draft.rename(folder / f"{name}.onnx")


def main() -> int:
    """Write the files that are missing; return 1 where one could not be made."""
    parser = argparse.ArgumentParser(description="Write the networks of the scoreboard as ONNX files.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--network", action="append", choices=sorted(ZOO), help="only these")
    parser.add_argument("--list", action="store_true", help="print name and family of each, and write nothing")
    given = parser.parse_args()
    names = given.network or list(ZOO)
    if given.list:
        print("\n".join(f"{name}\t{ZOO[name].family}" for name in names))
        return 0
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    given.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in names:
        if (given.folder / f"{name}.onnx").exists():
            continue
        try:
            export(name, given.folder)
            print(f"{name}: written", file=sys.stderr, flush=True)
        except Exception as error:  # one network that its library cannot export must not hide the others
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
