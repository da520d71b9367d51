"""Cycles of ResNet-50 on the boards: the one table that the studies of placement read.

`benchmarks/network_cycles.py` counts it by the exact model. Simulated, as all cycles are.

>>> board = resnet50_on("zcu104")
>>> board.clock_hz, board.batches, board.milliseconds(8) > board.milliseconds(1)
(200000000, (1, 2, 4, 8), True)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources


@dataclass(frozen=True, kw_only=True)
class CountedNetwork:
    """Cycles of each layer on one board, by batch size and name."""

    clock_hz: int
    cycles: Mapping[int, Mapping[str, int]]

    @property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes that were counted, in ascending order."""
        return tuple(sorted(self.cycles))

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers, from first to last."""
        return tuple(self.cycles[self.batches[0]])

    def milliseconds(self, batch: int) -> float:
        """Time of the whole network for a batch of a size that was counted, in ms."""
        return sum(self.cycles[batch].values()) * 1e3 / self.clock_hz


@lru_cache
def resnet50_on(board: str) -> CountedNetwork:
    """Read the table of a board: `zc706` or `zcu104`."""
    text = resources.files(__package__).joinpath("data").joinpath("resnet50_cycles.json").read_text(encoding="utf-8")
    facts = json.loads(text)["boards"][board]
    cycles = {int(batch): layers for batch, layers in facts["cycles"].items()}
    return CountedNetwork(clock_hz=facts["clock_hz"], cycles=cycles)
