"""The core without its arithmetic: twin of `fluidnpu_core` and of the modules inside it that take decisions.

These are `core_sequencer`, `core_pool`, `core_loader`, `core_bias` and `core_drain`; of `core_array` and
`core_finish` the delays are left. `step_core` moves them from the output back to the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .commands import COMMAND_QUEUE, Commands, TileCommand, place_of
from .parameters import Counts, LayerConstants, Setup
from .queues import SKID_DEPTH, Queue, step_queue
from .records import jit

GENERATIONS = 4


class Rings(NamedTuple):
    """The queues whose size depends on the design; a record has fixed sizes."""

    written: list[int]  # delay line of core_array: 1 for a beat that finishes a row
    header_cols: list[int]  # columns of the command, for each beat of biases


@dataclass(slots=True)
class BeatSequencer:
    """Registers and ports of `core_sequencer`."""

    inner: int
    outer: int
    age: int  # Turnaround after a beat, then down to zero
    unfetched: int
    split: int
    # ports
    swap: int  # the beat is the first of a P-tile
    final: int  # the beat finishes a row


@dataclass(slots=True)
class CoreLoader:
    """Registers of `core_loader`."""

    in_tile: int
    loaded: int
    tile: int
    done: int  # biases or slots


@dataclass(slots=True)
class Bias:
    """Registers of `core_bias`."""

    pushed: int  # beats of headers
    popped: int
    column: int
    index: int
    held: int


@dataclass(slots=True)
class CoreDrain:
    """Registers and ports of `core_drain`."""

    row: int
    stored: int
    valid: int
    cols: int
    left: int
    has_lane1: int
    lane1: int
    # ports
    fetch: int
    last_row: int  # the row fetched is its command's last


@dataclass(slots=True)
class Core:
    """The skid buffers of the core's streams, and its modules."""

    in_skid: Queue
    weight_skid: Queue
    residual_skid: Queue
    out_skid: Queue
    sequencer: BeatSequencer
    loader: CoreLoader
    bias: Bias
    drain: CoreDrain
    array_slot: int  # where the delay line of core_array begins in this cycle
    pool_valid: int  # valid_q of core_pool
    finish_valid: int  # valid_q of core_finish, a bit a step
    cmd_ready: int


@jit
def reset_core(core: Core, setup: Setup) -> None:
    """Begin a job: the loader waits for the first header."""
    core.loader.done = setup.biases_per_beat


@jit
def _available(core: Core, layer: LayerConstants) -> bool:
    """Return whether the next row to be fetched is finished, with its biases."""
    if layer.pool:
        return core.pool_valid != 0
    return core.drain.stored != 0 and core.bias.held != 0


@jit
def _fetch(drain: CoreDrain, command: TileCommand) -> None:
    drain.fetch = 1
    drain.last_row = drain.row + 1 == command.beats
    drain.valid = 1
    drain.cols = command.cols
    drain.left = command.cols
    drain.has_lane1 = drain.row < command.lane1_beats
    drain.lane1 = 0


@jit
def _step_drain(core: Core, layer: LayerConstants, setup: Setup, commands: Commands) -> None:
    """Issue a beat of the fetched row, and fetch the next row with its last; `_end_drain` counts rows."""
    drain = core.drain
    enable = core.out_skid.level < SKID_DEPTH
    issue = enable and drain.valid != 0 and (not layer.adds or core.residual_skid.level != 0)
    last_beat = drain.left <= setup.out_words
    last_issue = issue and last_beat and (drain.lane1 != 0 or not drain.has_lane1)
    core.residual_skid.pop = issue and layer.adds != 0
    drain.fetch = 0
    drain.last_row = 0
    if commands.drain != commands.core and (not drain.valid or last_issue) and _available(core, layer):
        _fetch(drain, commands.ring[place_of(commands.drain)])
        commands.drain += drain.last_row
    elif issue:
        if last_issue:
            drain.valid = 0
        drain.left = drain.cols if last_beat else drain.left - setup.out_words
        drain.lane1 |= last_beat
    core.out_skid.push = 0
    if enable:  # post-processing moves
        core.out_skid.push = core.finish_valid >> setup.finish_steps - 1 & 1
        core.finish_valid = (core.finish_valid << 1 | issue) & (1 << setup.finish_steps) - 1


@jit
def _end_drain(core: Core, layer: LayerConstants, setup: Setup, rings: Rings) -> None:
    """Count the stored rows: the array finishes one `late` cycles after its beat, a fetch removes one."""
    drain = core.drain
    drain.stored += rings.written[core.array_slot - setup.late & setup.late_mask]
    rings.written[core.array_slot & setup.late_mask] = core.sequencer.final
    core.array_slot += 1
    if drain.fetch:
        drain.row = 0 if drain.last_row else drain.row + 1
        drain.stored -= not layer.pool


@jit
def _order_ok(sequencer: BeatSequencer, drain: CoreDrain, command: TileCommand, layer: LayerConstants) -> bool:
    """Tell if the sums of the previous P-tile can be read, and the row stored at this place was fetched."""
    same = layer.split == sequencer.split
    if sequencer.inner == 0:
        if sequencer.outer and sequencer.age > command.beats:
            return False
        if not sequencer.outer and not same and sequencer.age:
            return False
    if sequencer.outer + 1 != layer.p_tiles or sequencer.unfetched == 0:
        return True
    return sequencer.unfetched == 1 and same and drain.row > sequencer.inner


@jit
def _step_sequencer(core: Core, layer: LayerConstants, setup: Setup, commands: Commands) -> None:
    """Take an input beat once its weights, sums and output rows are ready; of a pool once it has room."""
    sequencer, drain = core.sequencer, core.drain
    pool_ready = core.pool_valid == 0 or drain.fetch != 0
    takes = last_inner = last_outer = False
    if commands.beats != commands.core and core.in_skid.level:
        command = commands.ring[place_of(commands.beats)]
        inner = layer.p_tiles if layer.pool else command.beats
        outer = command.beats if layer.pool else layer.p_tiles
        last_inner, last_outer = sequencer.inner + 1 == inner, sequencer.outer + 1 == outer
        if layer.pool:
            takes = pool_ready
        elif sequencer.inner != 0 or core.loader.loaded:
            takes = _order_ok(sequencer, drain, command, layer)
    issue = takes and not layer.pool
    command_ends = takes and last_inner and last_outer
    sequencer.swap = issue and sequencer.inner == 0
    sequencer.final = issue and last_outer
    core.in_skid.pop = takes
    if takes:
        sequencer.inner = 0 if last_inner else sequencer.inner + 1
        if last_inner:
            sequencer.outer = 0 if last_outer else sequencer.outer + 1
    commands.beats += command_ends
    if issue and command_ends:
        sequencer.split = layer.split
    if pool_ready:
        core.pool_valid = takes and layer.pool != 0 and last_inner
    if issue:
        sequencer.age = setup.turnaround
    elif sequencer.age:
        sequencer.age -= 1
    if not layer.pool:
        sequencer.unfetched += command_ends - drain.last_row


@jit
def _bias_ready(bias: Bias, setup: Setup) -> bool:
    return bias.pushed - bias.popped != setup.bias_depth


@jit
def _step_bias(bias: Bias, setup: Setup, rings: Rings, release: int) -> None:
    """Unpack one bias a cycle; `release` frees those of the oldest command."""
    ends = False
    if bias.pushed != bias.popped and bias.held != GENERATIONS - 1:
        ends = bias.column + 1 == rings.header_cols[bias.popped & setup.bias_mask]
        beat_ends = ends or bias.index == setup.biases_per_beat - 1
        bias.column = 0 if ends else bias.column + 1
        bias.index = 0 if beat_ends else bias.index + 1
        bias.popped += beat_ends
    bias.held += ends - release


@jit
def wide_slots(cols: int, setup: Setup) -> int:
    """Slots of a wide P-tile: two halves of every column, of whole chains."""
    return 2 * ((cols + setup.chain_columns - 1) // setup.chain_columns * setup.chain_columns)


@jit
def _end_header_or_tile(loader: CoreLoader, layer: LayerConstants, setup: Setup, commands: Commands) -> None:
    if not loader.in_tile:
        loader.in_tile = 1
        loader.done = setup.weight_slots
        return
    loader.loaded = 1
    if loader.tile + 1 != layer.p_tiles:
        loader.tile += 1
        loader.done = setup.weight_slots
        return
    loader.tile = 0
    loader.in_tile = 0
    loader.done = setup.biases_per_beat
    commands.loader += 1


@jit
def _loader_takes(core: Core, bias_ready: bool) -> bool:
    """Tell if a weight beat is taken: a header needs room in the bias queue, a tile free waiting weights."""
    loader = core.loader
    if core.weight_skid.level == 0:
        return False
    if loader.in_tile:
        return loader.loaded == 0
    return bias_ready


@jit
def _step_loader(core: Core, layer: LayerConstants, setup: Setup, commands: Commands, rings: Rings) -> None:
    """Take a weight beat: biases of the next command, or weights of the next tile."""
    loader, bias = core.loader, core.bias
    cols = commands.ring[place_of(commands.loader)].cols
    step = setup.weight_slots
    wanted = cols
    if not loader.in_tile:
        step = setup.biases_per_beat
        rings.header_cols[bias.pushed & setup.bias_mask] = cols
        bias.pushed += 1
    elif layer.wide:
        wanted = wide_slots(cols, setup)
    elif layer.split:
        wanted = (cols + 1) >> 1
    core.weight_skid.pop = 1
    if loader.done < wanted:
        loader.done += step
    else:
        _end_header_or_tile(loader, layer, setup, commands)


@jit
def step_core(core: Core, layer: LayerConstants, setup: Setup, commands: Commands, rings: Rings) -> None:
    """Move the core by a cycle, from its output back to its input."""
    _step_drain(core, layer, setup, commands)
    _step_sequencer(core, layer, setup, commands)
    _end_drain(core, layer, setup, rings)
    bias_ready = _bias_ready(core.bias, setup)
    _step_bias(core.bias, setup, rings, 0 if layer.pool else core.drain.last_row)
    if core.sequencer.swap:
        core.loader.loaded = 0
    if commands.loader != commands.core and _loader_takes(core, bias_ready):
        _step_loader(core, layer, setup, commands, rings)


@jit
def cmd_ready(commands: Commands, layer: LayerConstants) -> bool:
    """Return whether the core takes a command: the queues of its walkers have room."""
    return (
        commands.issued != commands.core
        and (layer.pool != 0 or commands.core - commands.loader < COMMAND_QUEUE)
        and commands.core - commands.beats < COMMAND_QUEUE
        and commands.core - commands.drain < COMMAND_QUEUE
    )


@jit
def take_command(commands: Commands, layer: LayerConstants) -> None:
    """Move a command into the core's queues; a pool has nothing to load."""
    commands.core += 1
    if layer.pool:
        commands.loader = commands.core


@jit
def feed_core(core: Core, beats: Queue) -> None:
    """Hand over a beat of the input stream if the core's skid buffer has room."""
    ready = core.in_skid.level < SKID_DEPTH
    core.in_skid.push = beats.pop = ready and beats.level != 0


@jit
def count_streams(core: Core, beats: Queue, counts: Counts) -> None:
    """Count the beats of all streams, and the cycles in which the input stream is blocked or starved."""
    ready, valid = core.in_skid.level < SKID_DEPTH, beats.level != 0
    counts.input_beats += ready and valid
    counts.blocked_cycles += valid and not ready
    counts.starved_cycles += ready and not valid
    counts.weight_beats += core.weight_skid.push
    counts.residual_beats += core.residual_skid.push
    counts.output_beats += core.out_skid.pop


@jit
def end_core(core: Core) -> None:
    """Move the skid buffers of all streams."""
    step_queue(core.in_skid)
    step_queue(core.weight_skid)
    step_queue(core.residual_skid)
    step_queue(core.out_skid)
