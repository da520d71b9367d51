"""States and commands of each layer of a job: twin of `fluidnpu_sequencer` and `fluidnpu_descriptor_fetch`.

`fluidnpu_batching_engine` and `fluidnpu_planner` are states that take a cycle and `Layer.plan_cycles`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .commands import COMMAND_QUEUE, Commands, place_of
from .masters import ReadMaster, req_ready, request
from .parameters import MAX_SLOTS, Layer, Setup
from .records import jit
from .weights import WeightStreamer

DESCRIPTOR_BYTES = 128
BLOCKS_AHEAD = 2
SLOTS, FETCH, LOOKUP, PLAN, BEGIN, COMMANDS, DRAIN, DONE = range(8)


@dataclass(slots=True)
class Sequencer:
    """Registers of `fluidnpu_sequencer` and `fluidnpu_descriptor_fetch`."""

    state: int
    wait: int  # cycles left in this state
    asked: int  # the descriptor was requested
    got: int  # port words of it
    left0: int
    left1: int
    first: int  # column
    group: int
    group_out: int
    block_open: int
    # ports
    may_issue: int
    written: int  # all outputs are in memory, and all weights were given to the core


@jit
def reset_sequencer(sequencer: Sequencer) -> None:
    """Begin a job with a look at all slots, one a cycle."""
    sequencer.state = SLOTS
    sequencer.wait = MAX_SLOTS


@jit
def _begin_layer(sequencer: Sequencer, layer: Layer) -> None:
    sequencer.left0 = layer.beats0
    sequencer.left1 = layer.beats1
    sequencer.first = 0
    sequencer.group = 0
    sequencer.group_out = 0
    sequencer.block_open = 0


@jit
def may_issue(commands: Commands, weights: WeightStreamer, layer: Layer) -> bool:
    """Tell if each queue of commands has room."""
    return (
        commands.issued - commands.core < COMMAND_QUEUE
        and commands.issued - commands.windows < COMMAND_QUEUE
        and commands.issued - commands.outputs < 2 * COMMAND_QUEUE
        and (not layer.has_residual or commands.issued - commands.residuals < 2 * COMMAND_QUEUE)
        and weights.blocks < BLOCKS_AHEAD
    )


@jit
def _fetch_descriptor(sequencer: Sequencer, m0: ReadMaster, layer: Layer, setup: Setup) -> bool:
    """Request the descriptor and take its words. Returns True once all have come."""
    if not sequencer.asked:
        if req_ready(m0, layer.descriptor):
            request(m0, layer.descriptor, DESCRIPTOR_BYTES >> setup.port_shift)
            sequencer.asked = 1
        return False
    if sequencer.got == DESCRIPTOR_BYTES >> setup.port_shift:
        sequencer.asked = 0
        sequencer.got = 0
        return True
    if m0.level:
        m0.data_ready = 1
        sequencer.got += 1
    return False


@jit
def step_sequencer(sequencer: Sequencer, m0: ReadMaster, layer: Layer, setup: Setup) -> None:
    """Advance the state of the layer."""
    state = sequencer.state
    if state == COMMANDS:
        return
    if state == DRAIN:
        if sequencer.written:
            sequencer.state = DONE
    elif state == FETCH:
        if _fetch_descriptor(sequencer, m0, layer, setup):
            sequencer.state = LOOKUP
    elif state == LOOKUP:
        sequencer.state = PLAN
        sequencer.wait = layer.plan_cycles
    elif state == BEGIN:
        sequencer.state = COMMANDS
        _begin_layer(sequencer, layer)
    else:
        sequencer.wait -= 1
        if sequencer.wait == 0:
            sequencer.state = FETCH if state == SLOTS else BEGIN


@jit
def _next_command(sequencer: Sequencer, layer: Layer, last_tile: bool, last_group: bool) -> None:
    """Advance to the next column tile, group or row block."""
    sequencer.block_open = 1
    sequencer.first += layer.tile_columns
    if not last_tile:
        return
    sequencer.first = 0
    sequencer.group += 1
    sequencer.group_out += 2 * layer.columns
    if not last_group:
        return
    beats = min(sequencer.left0, layer.block)
    sequencer.group = 0
    sequencer.group_out = 0
    sequencer.block_open = 0
    sequencer.left1 -= min(sequencer.left1, beats)
    sequencer.left0 -= beats


@jit
def issue_command(sequencer: Sequencer, commands: Commands, weights: WeightStreamer, layer: Layer) -> None:
    """Issue the next command; behind the layer's last the sequencer waits for the outputs."""
    command = commands.ring[place_of(commands.issued)]
    remaining = layer.columns - sequencer.first
    last_tile = remaining <= layer.tile_columns
    last_group = sequencer.group + 1 == layer.groups
    command.beats = min(sequencer.left0, layer.block)
    command.lane1_beats = min(sequencer.left1, command.beats)
    command.cols = min(remaining, layer.tile_columns)
    command.in_shift = 2 * (sequencer.first if layer.pool else sequencer.group * layer.group_words)
    command.out_shift = sequencer.group_out + 2 * sequencer.first
    command.block_last = last_tile and last_group
    command.layer_last = last_tile and last_group and sequencer.left0 <= layer.block
    if not sequencer.block_open and not layer.pool:
        weights.blocks += 1
    commands.issued += 1
    if not layer.has_residual:
        commands.residuals = commands.issued
    if command.layer_last:
        sequencer.state = DRAIN
    _next_command(sequencer, layer, last_tile, last_group)
