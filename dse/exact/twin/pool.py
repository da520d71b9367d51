"""The max pool that outputs pass on their way to memory: twin of `fluidnpu_output_pool`."""

from __future__ import annotations

from dataclasses import dataclass

from .commands import Commands, place_of
from .parameters import LayerConstants, Setup
from .queues import SKID_DEPTH, Queue, step_queue
from .records import jit
from .walker import Walker, begin_pass, ends_column, ends_line, reset_walker, walk

_STEPS = 4  # from a beat to the queue of those that leave
_DEPTH = 8  # of that queue


@dataclass(slots=True)
class OutputPool:
    """Registers of `fluidnpu_output_pool`."""

    cols: int
    rest: int  # columns left of the pixel
    leaving: int  # bit n: a beat that leaves was taken n cycles ago
    room: int  # for what is on its way and one more
    walker: Walker
    kept: Queue  # that leave
    shown: Queue  # of them, to the writer


@jit
def reset_pool(pool: OutputPool) -> None:
    """Begin a layer at its first pixel."""
    reset_walker(pool.walker, 0, 0, 1)


@jit
def step_pool(pool: OutputPool, source: Queue, layer: LayerConstants, commands: Commands, setup: Setup) -> None:
    """Take a beat of the core's outputs, and begin the next command where none is at hand."""
    walked = pool.walker.active != 0
    pool.leaving = pool.leaving << 1 & (1 << _STEPS + 1) - 1
    pool.kept.push = pool.leaving >> _STEPS
    if pool.kept.level and pool.shown.level < SKID_DEPTH:
        pool.kept.pop = 1
        pool.shown.push = 1
    room = pool.room
    pool.room = pool.kept.level + _STEPS + 2 <= _DEPTH
    if walked and source.level and room:
        source.pop = 1
        if ends_column(pool.walker, layer) and ends_line(pool.walker, layer):
            pool.leaving |= 1
        pool.rest -= setup.out_words
        if pool.rest <= 0:
            pool.rest = pool.cols
            walk(pool.walker, layer)
    if not walked and commands.pools != commands.issued:
        command = commands.ring[place_of(commands.pools)]
        begin_pass(pool.walker, command, 0, command.block_last != 0)
        pool.cols = command.cols
        pool.rest = command.cols
        commands.pools += 1
    step_queue(pool.kept)
    step_queue(pool.shown)
