"""The HLS core without its arithmetic: twin of the three processes of `hls/templates/core`, a call a cycle.

These are distribute, run_array and post_process. Names are those of the C++. In simulation the core stands
behind registers of two beats (`rtl_tb/npu/hls_core.sv`), and is called at a cycle's end: it sees the beats
that came in this cycle, and its own show in the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from .commands import COMMAND_QUEUE, Commands, TileCommand, place_of
from .core import Core, wide_slots
from .parameters import LayerConstants, Setup
from .queues import SKID_DEPTH, Queue
from .records import jit, jit_apart

ARRAY_QUEUE = 2  # commands of to_array; to_loader and to_post have COMMAND_QUEUE
LINES_AHEAD = 32  # beats on their way to post-processing


@dataclass(slots=True)
class HlsLoader:
    """State of load_weights."""

    taken: int  # commands
    loading: int
    loaded: int  # a whole tile waits to be taken
    in_header: int
    beat: int
    tile: int


@dataclass(slots=True)
class HlsFill:
    """State of the command at work: which P-tile and row, or tap of a pool, comes next."""

    taken: int  # commands, with the upcoming one
    command: int
    coming: int
    busy: int
    running: int  # and a P-tile of weights is there
    announced: int  # its rows have their place behind those that drain
    room: int
    tile: int
    row: int


@dataclass(slots=True)
class HlsDrain:
    """State of the rows that leave."""

    command: int
    following: int
    waiting: int
    draining: int
    row: int
    beat: int
    lane: int
    rows: int  # that can be read and have not left
    in_flight: int
    written_rows: int  # a bit a call
    # post-processing
    taken: int  # commands
    left: int  # beats of its command
    lines: int
    credit: int


@dataclass(slots=True)
class HlsCore:
    """The processes, and the commands that were handed to them."""

    distributed: int
    loader: HlsLoader
    fill: HlsFill
    drain: HlsDrain


@jit
def hls_cmd_ready(hls: HlsCore, commands: Commands) -> bool:
    """Return whether the core takes a command: its register has room."""
    return commands.issued != commands.core and commands.core - hls.distributed < SKID_DEPTH


@jit
def _there(queue: Queue) -> bool:
    return queue.level + queue.push != 0


@jit
def _distribute(hls: HlsCore, layer: LayerConstants, commands: Commands) -> None:
    """Hand a command to all processes whose queues have room; a pool has nothing to load."""
    number = hls.distributed
    if (
        number != commands.core
        and number - hls.loader.taken < COMMAND_QUEUE
        and number - hls.fill.taken < ARRAY_QUEUE
        and number - hls.drain.taken < COMMAND_QUEUE
    ):
        hls.distributed += 1
        hls.loader.taken += layer.pool


@jit
def _load_weights(hls: HlsCore, weights: Queue, layer: LayerConstants, setup: Setup, commands: Commands) -> None:
    """Take a command, or a beat of biases or weights while no whole tile waits."""
    loader = hls.loader
    if not loader.loading:
        if loader.taken != hls.distributed:
            loader.taken += 1
            loader.loading = loader.in_header = 1
            loader.beat = loader.tile = 0
        return
    if loader.loaded or not _there(weights):
        return
    weights.pop = 1
    wanted = commands.ring[place_of(loader.taken - 1)].cols
    step = setup.biases_per_beat
    if not loader.in_header:
        step = setup.weight_slots
        if layer.wide:
            wanted = wide_slots(wanted, setup)
        elif layer.split:
            wanted = (wanted + 1) >> 1
    loader.beat += 1
    if loader.beat * step < wanted:
        return
    if not loader.in_header:
        loader.loaded = 1
        loader.tile += 1
        loader.loading = loader.tile != layer.p_tiles
    loader.in_header = 0
    loader.beat = 0


@jit
def _row_beats(command: TileCommand, setup: Setup) -> int:
    return (command.cols + setup.out_words - 1) // setup.out_words


@jit
def _drain_row(drain: HlsDrain, gives: bool, setup: Setup, commands: Commands) -> bool:
    """Go on by a beat if one is given; tell if a row leaves with it, and end the command with its last."""
    if not gives:
        return False
    command = commands.ring[place_of(drain.command)]
    drain.lines += 1
    drain.beat += 1
    if drain.beat != _row_beats(command, setup):
        return False
    drain.beat = 0
    if drain.lane == 0 and drain.row < command.lane1_beats:
        drain.lane = 1
        return False
    drain.lane = 0
    drain.row += 1
    drain.draining = drain.row != command.beats
    return True


@jit
def _address(row: int, layer: LayerConstants, setup: Setup) -> int:
    """Place a row in its bank, between whose halves rows alternate where a tree is not split."""
    return row if layer.split else row >> setup.half_shift


@jit
def _run_array(hls: HlsCore, core: Core, layer: LayerConstants, setup: Setup, commands: Commands) -> None:
    fill, drain = hls.fill, hls.drain
    beats = commands.ring[place_of(fill.command)].beats
    gemm = not layer.pool
    last_tile = fill.tile + 1 == layer.p_tiles
    in_rows = fill.row < beats
    rows = beats if layer.pool or last_tile else max(beats, setup.row_distance)
    works = fill.running != 0 if gemm else fill.busy != 0
    takes = works and in_rows and (not last_tile or fill.room != 0) and _there(core.in_skid)
    counts = (takes or (works and not in_rows)) if gemm else (takes and last_tile)
    ends_tile = counts and fill.row + 1 == rows
    ends_command = ends_tile and last_tile
    loaded = hls.loader.loaded != 0
    starts_command = (not fill.busy or ends_command) and fill.coming != 0 and (not gemm or loaded)
    starts_tile = gemm and loaded and fill.busy != 0 and (not fill.running or ends_tile) and not ends_command
    gives = drain.draining != 0 and drain.rows != 0 and drain.in_flight != LINES_AHEAD
    core.in_skid.pop = takes
    _load_weights(hls, core.weight_skid, layer, setup, commands)
    if starts_tile or (starts_command and gemm):
        hls.loader.loaded = 0

    announces = not drain.waiting and (starts_command or (fill.busy != 0 and not fill.announced))
    room = fill.announced != 0 and (
        not drain.waiting
        or not drain.draining
        or _address(fill.row + 1, layer, setup) < _address(drain.row, layer, setup)
    )
    settles = drain.written_rows >> setup.row_distance - 2 & 1
    drain.written_rows = (drain.written_rows << 1 | (takes and last_tile)) & (1 << setup.row_distance - 1) - 1
    drain.in_flight += gives - drain.credit
    drain.credit = 0
    follows = drain.waiting != 0 and not drain.draining
    drain.rows += settles - _drain_row(drain, gives, setup, commands)
    if follows:
        drain.command = drain.following
        drain.row = drain.beat = drain.lane = 0
        drain.draining = 1
        drain.waiting = 0
    if announces:
        drain.following = fill.taken - 1 if starts_command else fill.command
        drain.waiting = 1

    if starts_command:
        fill.command = fill.taken - 1
        fill.tile = fill.row = 0
        fill.busy = 1
        fill.running = gemm
        fill.room = fill.coming = 0
        fill.announced = announces
        return
    if ends_command:
        fill.busy = fill.running = 0
    elif gemm:
        fill.running = starts_tile or (fill.running != 0 and not ends_tile)
    fill.room = room
    fill.announced |= announces
    if gemm:
        if counts:
            fill.row = 0 if ends_tile else fill.row + 1
            fill.tile += ends_tile
    elif takes:
        fill.row += last_tile
        fill.tile = 0 if last_tile else fill.tile + 1
    if not fill.coming and fill.taken != hls.distributed:
        fill.taken += 1
        fill.coming = 1


@jit
def _post_process(hls: HlsCore, core: Core, layer: LayerConstants, setup: Setup, commands: Commands) -> None:
    """Take a command, or give a beat of outputs once its sums and its residual are there."""
    drain = hls.drain
    if core.out_skid.level == SKID_DEPTH:
        return
    if drain.left == 0:
        if drain.taken != hls.distributed:
            command = commands.ring[place_of(drain.taken)]
            drain.left = (command.beats + command.lane1_beats) * _row_beats(command, setup)
            drain.taken += 1
    elif drain.lines and (not layer.adds or _there(core.residual_skid)):
        core.residual_skid.pop = layer.adds
        core.out_skid.push = 1
        drain.lines -= 1
        drain.credit = 1
        drain.left -= 1


@jit_apart
def step_hls_core(hls: HlsCore, core: Core, layer: LayerConstants, setup: Setup, commands: Commands) -> None:
    """Call the core at the end of a cycle."""
    _distribute(hls, layer, commands)
    _run_array(hls, core, layer, setup, commands)
    _post_process(hls, core, layer, setup, commands)
