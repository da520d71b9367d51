"""States and commands of each layer of a job, and the pieces of the next one.

Twin of `fluidnpu_sequencer`, `fluidnpu_descriptor_fetch` and `fluidnpu_piece_loader`.
`fluidnpu_batching_engine` and `fluidnpu_planner` are states that take a cycle, and
`LayerConstants.plan_cycles`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .bus.masters import ReadMaster, read_quiet, req_ready, request
from .commands import COMMAND_QUEUE, Commands, place_of
from .parameters import MAX_SLOTS, LayerConstants, Setup
from .records import jit, jit_apart
from .weights import WeightStreamer

DESCRIPTOR_BYTES = 128
PIECE_BYTES = 4
BLOCKS_AHEAD = 2
SLOTS, AWAIT, BEGIN, COMMANDS, DRAIN, DONE = range(6)
# Of the layer that begins next; from ASK to LOADED its pieces come, as in `fluidnpu_piece_loader`.
REST, FETCH, LOOKUP, PLAN, ASK, REQUEST, READ, LOADED, PLANNED = range(9)
PIECES, WEIGHTS, LAST = range(1, 4)  # sections of a layer's constants: of the unit, the filter, the unit behind it
TABLE_PIECES = 258


@dataclass(slots=True)
class Sequencer:
    """Registers of `fluidnpu_sequencer`, `fluidnpu_descriptor_fetch` and `fluidnpu_piece_loader`."""

    state: int
    wait: int  # slots that were not looked at
    ahead: int
    planning: int  # cycles left of it
    turn: int  # m0 takes the address of a descriptor
    asked: int  # the descriptor was requested
    got: int  # port words of it
    section: int  # of the constants that come
    left: int  # pieces of it, or port words of filter weights
    slot: int  # of the port word, where the next of them lies
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
    sequencer.ahead = REST


@jit
def _begin_layer(sequencer: Sequencer, layer: LayerConstants) -> None:
    sequencer.left0 = layer.beats0
    sequencer.left1 = layer.beats1
    sequencer.first = 0
    sequencer.group = 0
    sequencer.group_out = 0
    sequencer.block_open = 0


@jit
def may_issue(commands: Commands, weights: WeightStreamer, layer: LayerConstants) -> bool:
    """Return whether each queue of commands has room."""
    return (
        commands.issued - commands.core < COMMAND_QUEUE
        and commands.issued - commands.windows < COMMAND_QUEUE
        and commands.issued - commands.outputs < 2 * COMMAND_QUEUE
        and (not layer.has_residual or commands.issued - commands.residuals < 2 * COMMAND_QUEUE)
        and (not layer.pool_kernel or commands.issued - commands.pools < 2 * COMMAND_QUEUE)
        and (not layer.filter_kernel or commands.issued - commands.filters < 2 * COMMAND_QUEUE)
        and (not layer.activation or commands.issued - commands.units < 2 * COMMAND_QUEUE)
        and weights.blocks < BLOCKS_AHEAD
    )


@jit
def _fetch_descriptor(sequencer: Sequencer, m0: ReadMaster, layer: LayerConstants, setup: Setup) -> None:
    """Request the descriptor and take its words; the plan is looked up once all have come."""
    if not sequencer.asked:
        if req_ready(m0, layer.descriptor):
            request(m0, layer.descriptor, DESCRIPTOR_BYTES >> setup.port_shift)
            sequencer.asked = 1
    elif sequencer.got == DESCRIPTOR_BYTES >> setup.port_shift:
        sequencer.asked = 0
        sequencer.got = 0
        sequencer.ahead = LOOKUP
    elif m0.level:
        m0.data_ready = 1
        sequencer.got += 1


@jit
def _next_section(sequencer: Sequencer, layer: LayerConstants) -> None:
    """Go on to the next section of a layer's constants that has anything, or end."""
    sequencer.left = 0
    while sequencer.left == 0 and sequencer.section != LAST:
        sequencer.section += 1
        if sequencer.section == PIECES:
            sequencer.left = layer.pieces
        elif sequencer.section == WEIGHTS:
            sequencer.left = layer.filter_words
        elif layer.filter_table:
            sequencer.left = TABLE_PIECES


@jit_apart
def load_pieces(sequencer: Sequencer, m2: ReadMaster, layer: LayerConstants, setup: Setup) -> None:
    """Ask for a layer's constants once nothing is under way; take a piece, or a word of weights, a cycle."""
    if sequencer.ahead == ASK:
        if read_quiet(m2):
            sequencer.ahead = REQUEST
            sequencer.section = 0
            sequencer.slot = 0
            _next_section(sequencer, layer)
    elif sequencer.ahead == REQUEST:
        if req_ready(m2, layer.piece_address):
            request(m2, layer.piece_address, layer.constant_words)
            sequencer.ahead = READ
    elif sequencer.ahead == LOADED:
        sequencer.ahead = PLANNED
    elif m2.level:
        sequencer.left -= 1
        sequencer.slot += 1
        ends = sequencer.left == 0
        if ends or sequencer.section == WEIGHTS or PIECE_BYTES * sequencer.slot == setup.port_bytes:
            sequencer.slot = 0
            m2.data_ready = 1
        if ends:
            _next_section(sequencer, layer)
            if sequencer.left == 0:
                sequencer.ahead = LOADED


@jit
def look_ahead(
    sequencer: Sequencer, m0: ReadMaster, m2: ReadMaster, layer: LayerConstants, more: bool, setup: Setup
) -> None:
    """Advance descriptor, plan and pieces of `layer`, which begins next; `more`: there is such a layer."""
    ahead = sequencer.ahead
    asks = ahead == FETCH and not sequencer.asked
    if ahead == REST:
        if (sequencer.state == SLOTS and sequencer.wait == MAX_SLOTS - 1) or (sequencer.state == BEGIN and more):
            sequencer.ahead = FETCH
    elif ahead == FETCH:
        _fetch_descriptor(sequencer, m0, layer, setup)
    elif ahead == LOOKUP:
        sequencer.ahead = PLAN
        sequencer.planning = layer.plan_cycles
    elif ahead == PLAN:
        sequencer.planning -= 1
        if sequencer.planning == 0:
            sequencer.ahead = ASK if layer.constant_words else PLANNED
    elif ahead != PLANNED:
        load_pieces(sequencer, m2, layer, setup)
    elif sequencer.state == AWAIT:
        sequencer.ahead = REST
    sequencer.turn = sequencer.ahead == FETCH and (ahead != FETCH or asks)


@jit
def step_sequencer(sequencer: Sequencer, planned: bool, layer: LayerConstants) -> None:
    """Advance the state of the layer; `planned`: its plan was ready as this cycle began."""
    state = sequencer.state
    if state == SLOTS:
        sequencer.wait -= 1
        if sequencer.wait == 0:
            sequencer.state = AWAIT
    elif state == AWAIT:
        if planned:
            sequencer.state = BEGIN
    elif state == BEGIN:
        sequencer.state = DRAIN if layer.merged else COMMANDS
        _begin_layer(sequencer, layer)
    elif state == DRAIN and sequencer.written:
        sequencer.state = DONE


@jit
def _next_command(sequencer: Sequencer, layer: LayerConstants, last_tile: bool, last_group: bool, setup: Setup) -> None:
    """Advance to the next column tile, group or row block."""
    sequencer.block_open = 1
    sequencer.first += layer.tile_columns
    if not last_tile:
        return
    sequencer.first = 0
    sequencer.group += 1
    sequencer.group_out += layer.columns << setup.word_shift
    if not last_group:
        return
    beats = min(sequencer.left0, layer.block)
    sequencer.group = 0
    sequencer.group_out = 0
    sequencer.block_open = 0
    sequencer.left1 -= min(sequencer.left1, beats)
    sequencer.left0 -= beats


@jit
def issue_command(
    sequencer: Sequencer, commands: Commands, weights: WeightStreamer, layer: LayerConstants, setup: Setup
) -> None:
    """Issue the next command; behind the layer's last the sequencer waits for the outputs."""
    command = commands.ring[place_of(commands.issued)]
    remaining = layer.columns - sequencer.first
    last_tile = remaining <= layer.tile_columns
    last_group = sequencer.group + 1 == layer.groups
    command.beats = min(sequencer.left0, layer.block)
    command.lane1_beats = min(sequencer.left1, command.beats)
    command.cols = min(remaining, layer.tile_columns)
    words = sequencer.first if layer.pool else sequencer.group * layer.group_words
    command.in_shift = words << setup.word_shift
    command.out_shift = sequencer.group_out + (sequencer.first << setup.word_shift)
    command.block_last = last_tile and last_group
    command.layer_last = last_tile and last_group and sequencer.left0 <= layer.block
    if not sequencer.block_open and not layer.pool:
        weights.blocks += 1
    commands.issued += 1
    if not layer.has_residual:
        commands.residuals = commands.issued
    if not layer.pool_kernel:
        commands.pools = commands.issued
    if not layer.filter_kernel:
        commands.filters = commands.issued
    if not layer.activation:
        commands.units = commands.issued
    if command.layer_last:
        sequencer.state = DRAIN
    _next_command(sequencer, layer, last_tile, last_group, setup)
