"""The depthwise filter that outputs pass on their way to memory: twin of `fluidnpu_output_filter`."""

from __future__ import annotations

from dataclasses import dataclass

from .commands import Commands, place_of
from .parameters import LayerConstants, Setup
from .queues import SKID_DEPTH, Queue, step_queue
from .records import jit, jit_apart
from .walker import Walker, begin_pass, in_map, leaves, reset_walker, walk_position

_STEPS = 23  # from the last products of a window to the queue of those that leave
_MOST = 5  # cycles that a window may take behind its first
_DEPTH = 32  # windows from where they are taken to that queue's end


@dataclass(slots=True)
class OutputFilter:
    """Registers of `fluidnpu_output_filter`."""

    cols: int
    rest: int  # columns left of the position
    hold: int  # cycles that the window at hand still takes
    room: int  # for all windows that are under way and one more
    level: int  # windows under way
    leaving: int  # bit _STEPS + _MOST: a window comes to the queue
    walker: Walker
    kept: Queue  # that leave
    shown: Queue  # of them, to the unit behind, the pool or the writer


@jit
def reset_filter(filter_: OutputFilter) -> None:
    """Begin a layer at its first position: the last window of the one before has left."""
    reset_walker(filter_.walker, 0, 0)
    filter_.room = 1
    filter_.hold = 0


@jit
def filter_walked(filter_: OutputFilter, commands: Commands) -> bool:
    """Return whether every position of the commands so far was visited."""
    return filter_.walker.active == 0 and commands.filters == commands.issued


@jit_apart
def step_filter(filter_: OutputFilter, source: Queue, layer: LayerConstants, commands: Commands, setup: Setup) -> None:
    """Take a beat at a pixel of the map, nothing behind it; begin the next command where none is at hand."""
    walker = filter_.walker
    active, room = walker.active != 0, filter_.room != 0
    filter_.leaving = filter_.leaving << 1 & (1 << _STEPS + _MOST + 1) - 1
    filter_.kept.push = filter_.leaving >> _STEPS + _MOST
    filter_.kept.pop = filter_.kept.level != 0 and filter_.shown.level < SKID_DEPTH
    filter_.shown.push = filter_.kept.pop
    filter_.room = filter_.level + 2 <= _DEPTH
    filter_.level -= filter_.kept.pop
    inside = in_map(walker.now, layer)
    if filter_.hold:
        filter_.hold -= 1
    elif active and room and (source.level != 0 or not inside):
        source.pop = inside
        if leaves(walker, layer):
            filter_.hold = layer.filter_steps - 1
            filter_.level += 1
            filter_.leaving |= 1 << _MOST - filter_.hold
        filter_.rest -= setup.out_words
        if filter_.rest <= 0:
            filter_.rest = filter_.cols
            walk_position(walker, layer)
    if not active and commands.filters != commands.issued:
        command = commands.ring[place_of(commands.filters)]
        begin_pass(walker, command, 0, command.block_last != 0)
        filter_.cols = command.cols
        filter_.rest = command.cols
        commands.filters += 1
    step_queue(filter_.kept)
    step_queue(filter_.shown)
