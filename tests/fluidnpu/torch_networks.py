"""Networks of one's own as PyTorch users write them, small, and both of PyTorch's exporters."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
EXPORTERS = ("torchscript", "dynamo")


class Block(nn.Module):  # type: ignore[misc, name-defined]
    """ResNet-18's basic block."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        same = inside == outside and stride == 1
        short = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.short = nn.Identity() if same else short

    def forward(self, x: Any) -> Any:
        return torch.relu(self.main(x) + self.short(x))


class Inverted(nn.Module):  # type: ignore[misc, name-defined]
    """MobileNet-V2's block: expand, depthwise, project, and a shortcut where the shape stays."""

    def __init__(self, inside: int, outside: int, stride: int, expand: int = 2) -> None:
        super().__init__()
        wide = expand * inside
        self.same = inside == outside and stride == 1
        self.main = nn.Sequential(
            nn.Conv2d(inside, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, outside, 1, bias=False),
            nn.BatchNorm2d(outside),
        )

    def forward(self, x: Any) -> Any:
        return x + self.main(x) if self.same else self.main(x)


def head(channels: int, classes: int) -> list[Any]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def resnet(classes: int = 10, size: int = 16) -> tuple[Any, tuple[int, int, int]]:
    """A ResNet-18 in small: a padded stem, basic blocks, one of them strided."""
    stem = [nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*stem, Block(8, 8, 1), Block(8, 16, 2), *head(16, classes)), (3, size, size)


def mobilenet(classes: int = 10, size: int = 16) -> tuple[Any, tuple[int, int, int]]:
    """A MobileNet-V2 in small."""
    stem = [nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6()]
    return nn.Sequential(*stem, Inverted(8, 8, 1), Inverted(8, 12, 2), *head(12, classes)), (3, size, size)


def mlp(classes: int = 10, size: int = 12) -> tuple[Any, tuple[int, int, int]]:
    """A perceptron over flattened grey images: its first layer pads nothing."""
    layers = [nn.Flatten(), nn.Linear(size * size, 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, classes)]
    return nn.Sequential(*layers), (1, size, size)


NETWORKS = {"resnet": resnet, "mobilenet": mobilenet, "mlp": mlp}


def made(name: str, seed: int = 0) -> tuple[Any, tuple[int, int, int]]:
    """One of the networks with seeded weights, in evaluation mode, and its input (C, H, W)."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    net, shape = NETWORKS[name]()
    return net.eval(), shape


def export(net: Any, shape: tuple[int, int, int], path: Path, exporter: str) -> Path:
    """Export as a user would: TorchScript with names and a free batch, or dynamo as it stands."""
    image = torch.rand(2, *shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            torch.onnx.export(net, (image[:1],), str(path), dynamo=True, verbose=False)
        else:
            names: dict[str, Any] = {"input_names": ["image"], "output_names": ["logits"]}
            torch.onnx.export(net, (image,), str(path), dynamo=False, dynamic_axes={"image": {0: "N"}}, **names)
    return path
