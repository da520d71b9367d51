"""The commands of a layer on their way to the modules that obey them, each at its own pace: the queues of
commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .records import jit

RING = 64  # commands remembered: more than all queues hold
COMMAND_QUEUE = 4


@dataclass(slots=True)
class Command:
    """One row block, group and column tile (command_t of `fluidnpu_pkg`)."""

    beats: int
    lane1_beats: int
    cols: int
    out_shift: int
    block_last: int
    layer_last: int


@dataclass(slots=True)
class Commands:
    """The last commands, and how many of them each module has taken; every queue is a difference of two
    numbers.
    """

    issued: int
    core: int
    loader: int
    beats: int
    drain: int
    windows: int
    outputs: int
    residuals: int
    ring: Annotated[list[Command], RING]


@jit
def place_of(number: int) -> int:
    """Where a command lies in the ring."""
    return number & RING - 1
