"""The queues of commands, from which each module takes the same commands at its own pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .records import jit

RING = 64  # commands kept: more than all queues hold
COMMAND_QUEUE = 4


@dataclass(slots=True)
class TileCommand:
    """One row block, group and column tile of a layer."""

    beats: int
    lane1_beats: int
    cols: int
    in_shift: int
    out_shift: int
    block_last: int
    layer_last: int


@dataclass(slots=True)
class Commands:
    """The last commands, and the number taken by each module; a queue's level is a difference of two."""

    issued: int
    core: int
    loader: int
    beats: int
    drain: int
    windows: int
    outputs: int
    residuals: int
    pools: int
    filters: int
    units: int
    ring: Annotated[list[TileCommand], RING]


@jit
def place_of(number: int) -> int:
    """Compute the index of a command in the ring."""
    return number & RING - 1
