"""The study's dense networks: residual blocks in three regions, and a head that enlarges their last map.

The head is that of "simple baselines" (transposed convolutions 4x4 of stride 2, then 1x1), as Table 1 has it
for pose; here with a shortcut from the second region, as the paper's segmentation head reads two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fluidnpu.models import Exit, Network
from fluidnpu.models.graph import Builder, MapCheck, MapTask
from fluidnpu.models.training import load_torch

from .composites import CORNERS, LABELS, MAP, SIDE

CANDIDATES = 4
COUNTS = (0.25, 0.5, 0.75)  # shares of principal values, of which the study compares the checks
WIDTHS = (12, 20, 32)
BLOCKS = 3  # a region
TOP = 5  # of each heat map, as in section 5.3


def dense_skeleton(task: str) -> Network:
    """Return the layers of `dense_module` without weights or torch, for times."""
    net = Builder({"image": (SIDE, SIDE, 1)})
    value, ends = net.conv("stem", "image", WIDTHS[0], 3, 2), []
    for region, width in enumerate(WIDTHS, start=1):
        for block in range(1, BLOCKS + 1):
            name, stride, short = f"region{region}_block{block}", 2 if region > 1 and block == 1 else 1, value
            if stride > 1:
                short = net.conv(f"{name}_short", value, width, 1, stride, clip=(None, None))
            value = net.conv(f"{name}_b", net.conv(f"{name}_a", value, width, 3, stride), width, 3, residual=short)
        ends.append(value)
    wide = net.enlarge("up", value, WIDTHS[1], residual=ends[1])
    maps = net.conv("maps", net.enlarge("up_again", wide, WIDTHS[0]), channels_of(task), clip=(None, None))
    made = net.network(f"resnet_{task}", [Exit(name="final", logits=maps)])
    return replace(made, check=check_of(task))


def channels_of(task: str) -> int:
    """Return the number of maps of a task."""
    return LABELS if task == "segmentation" else CORNERS


def check_of(task: str) -> MapCheck:
    """Return the check of a task's exits."""
    return MapCheck(task=MapTask(task), shape=(MAP, MAP, channels_of(task)), top=TOP)


def dense_module(task: str) -> tuple[Any, MapCheck]:
    """Return the untrained torch module of a task, for images (N, 1, 40, 40), and the check of its maps."""
    nn = load_torch().nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inside: int, outside: int, stride: int = 1) -> None:
            super().__init__()
            self.one = nn.Sequential(
                nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()
            )
            self.two = nn.Sequential(nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside))
            same = stride == 1 and inside == outside
            self.short = nn.Identity() if same else nn.Conv2d(inside, outside, 1, stride)

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.two(self.one(x)) + self.short(x))

    class Dense(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            first, second, third = WIDTHS
            self.stem = nn.Sequential(nn.Conv2d(1, first, 3, 2, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU())
            self.fine = nn.Sequential(*(Block(first, first) for _ in range(BLOCKS)))
            self.middle = nn.Sequential(Block(first, second, 2), *(Block(second, second) for _ in range(BLOCKS - 1)))
            self.coarse = nn.Sequential(Block(second, third, 2), *(Block(third, third) for _ in range(BLOCKS - 1)))
            self.up = nn.Sequential(nn.ConvTranspose2d(third, second, 4, 2, 1, bias=False), nn.BatchNorm2d(second))
            self.up_again = nn.Sequential(
                nn.ConvTranspose2d(second, first, 4, 2, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU()
            )
            self.maps = nn.Conv2d(first, channels_of(task), 1)
            if task == "landmarks" and self.maps.bias is not None:
                nn.init.constant_(self.maps.bias, -4.0)  # nearly all pixels of a heat map are near 0

        def forward(self, image: Any) -> Any:
            middle = self.middle(self.fine(self.stem(image)))
            wide = nn.functional.relu(self.up(self.coarse(middle)) + middle)
            return self.maps(self.up_again(wide))

    return Dense(), check_of(task)
