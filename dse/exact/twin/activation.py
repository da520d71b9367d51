"""The activation unit behind the core, and that behind the filter: twin of `fluidnpu_activation`."""

from __future__ import annotations

from dataclasses import dataclass

from .commands import Commands, place_of
from .parameters import LayerConstants, Setup
from .queues import SKID_DEPTH, Queue, step_queue
from .records import jit, jit_apart

_STEPS = 12  # of the lanes
_DEPTH = 32  # beats from where they are taken to the queue's end


@dataclass(slots=True)
class ActivationUnit:
    """Registers and ports of `fluidnpu_activation`."""

    active: int  # a command is at hand; none comes to a unit behind the filter
    cols: int
    rest: int  # columns left of the row
    rows: int  # left of the command
    room: int  # for all that are under way and one more
    level: int  # beats under way
    leaving: int  # bit n: a beat was taken n cycles ago
    factors: Queue  # residuals that beats are multiplied by
    kept: Queue  # that leave
    shown: Queue  # of them, to pool or writer


@jit
def reset_activation(unit: ActivationUnit) -> None:
    """Begin a layer: the last beat of the one before has left."""
    unit.room = 1


@jit
def _begin_command(unit: ActivationUnit, commands: Commands) -> None:
    command = commands.ring[place_of(commands.units)]
    unit.active = 1
    unit.cols = command.cols
    unit.rest = command.cols
    unit.rows = command.beats + command.lane1_beats
    commands.units += 1


@jit
def _lanes_give(unit: ActivationUnit, source: Queue, may: bool) -> bool:
    """Move the lanes, which take a beat of the source where they `may`. Returns True if they do."""
    room = unit.room != 0
    unit.leaving = unit.leaving << 1 & (1 << _STEPS + 1) - 1
    unit.kept.push = unit.leaving >> _STEPS
    unit.kept.pop = unit.kept.level != 0 and unit.shown.level < SKID_DEPTH
    unit.shown.push = unit.kept.pop
    unit.room = unit.level + 2 <= _DEPTH
    gives = may and room and source.level != 0
    unit.level += gives - unit.kept.pop
    if gives:
        source.pop = 1
        unit.leaving |= 1
    return gives


@jit_apart
def step_activation(
    unit: ActivationUnit, source: Queue, layer: LayerConstants, commands: Commands, setup: Setup
) -> None:
    """Take a beat of the core's outputs, and begin the next command where none is at hand."""
    active = unit.active != 0
    if _lanes_give(unit, source, active and (unit.factors.level != 0 or not layer.multiplies)):
        unit.factors.pop = layer.multiplies
        unit.rest -= setup.out_words
        if unit.rest <= 0:
            unit.rest = unit.cols
            unit.rows -= 1
            unit.active = unit.rows != 0
    if not active and commands.units != commands.issued:
        _begin_command(unit, commands)
    step_queue(unit.kept)
    step_queue(unit.shown)


@jit_apart
def step_table(unit: ActivationUnit, source: Queue) -> None:
    """Take a beat of the filter's."""
    _lanes_give(unit, source, True)
    step_queue(unit.kept)
    step_queue(unit.shown)
