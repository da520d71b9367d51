"""The output stream, packed into port words: twin of `fluidnpu_output_writer`."""

from __future__ import annotations

from dataclasses import dataclass

from .addresses import RowAddresses, begin_rows, first_row, reset_addresses, walk_ahead, walk_positions
from .bus.masters import WriteMaster, step_write_master, write_idle
from .commands import Commands, place_of
from .parameters import LayerConstants, Setup
from .queues import Queue
from .records import jit


@dataclass(slots=True)
class OutputWriter:
    """Registers of `fluidnpu_output_writer`."""

    layer_open: int
    have: int  # a row is at hand,
    last: int  # the layer's last
    address: int  # where it continues
    rest: int  # words left of it
    taken: int  # words of the beat
    any: int  # the port word is not empty
    full: int
    pack_addr: int
    rows: RowAddresses


@jit
def reset_outputs(outputs: OutputWriter, layer: LayerConstants) -> None:
    """Begin a layer at its first row."""
    outputs.layer_open = 1
    reset_addresses(outputs.rows, layer.out_row, layer.out_pixel, layer.pool_kernel)


@jit
def layer_done(outputs: OutputWriter, commands: Commands) -> bool:
    """Return whether the master has the last row of the layer, and no position behind it is to be visited."""
    if outputs.layer_open | outputs.any:
        return False
    return (outputs.rows.walker.active | (commands.outputs != commands.issued)) == 0


@jit
def all_written(outputs: OutputWriter, master: WriteMaster, commands: Commands) -> bool:
    """Return whether every output of the layer is in memory."""
    return layer_done(outputs, commands) and write_idle(master)


@jit
def _pack(outputs: OutputWriter, queue: Queue, setup: Setup) -> None:
    """Pack words of a beat up to the end of the port word or row."""
    address = outputs.address
    space = setup.port_words - (address >> setup.word_shift & setup.port_words - 1)
    piece = min(setup.out_words - outputs.taken, outputs.rest, space)
    outputs.rest -= piece
    outputs.taken += piece
    queue.pop = outputs.rest == 0 or outputs.taken == setup.out_words
    if queue.pop:
        outputs.taken = 0
    if outputs.rest == 0:
        outputs.have = 0
        if outputs.last:
            outputs.layer_open = 0
    outputs.any = 1
    outputs.full = piece == space
    outputs.pack_addr = address & -setup.port_bytes
    outputs.address = address + (piece << setup.word_shift)


@jit
def _take_row(outputs: OutputWriter) -> None:
    row = first_row(outputs.rows)
    outputs.rows.taken += 1
    outputs.have = 1
    outputs.last = row.last
    outputs.address = row.address
    outputs.rest = row.cols


@jit
def step_outputs(
    outputs: OutputWriter, master: WriteMaster, queue: Queue, layer: LayerConstants, commands: Commands, setup: Setup
) -> None:
    """Pack beats of the core's output `queue`, and hand full port words to the master."""
    leaves = outputs.full != 0 or not outputs.layer_open
    leaves = leaves or (outputs.have != 0 and outputs.pack_addr != outputs.address & -setup.port_bytes)
    offers = outputs.any != 0 and leaves
    taken = step_write_master(master, setup, layer_done(outputs, commands), outputs.pack_addr if offers else -1)
    free = taken if offers else not outputs.full
    if taken:
        outputs.any = 0
        outputs.full = 0
    if outputs.have and free and queue.level:
        _pack(outputs, queue, setup)
    rows = outputs.rows
    there = walk_positions(rows, layer, setup) if layer.filter_kernel else walk_ahead(rows, layer, setup)
    if there and not outputs.have:
        _take_row(outputs)


@jit
def next_outputs(outputs: OutputWriter, layer: LayerConstants, commands: Commands) -> None:
    """Begin the rows of the next command once the previous pass has been walked."""
    if outputs.rows.walker.active or commands.outputs == commands.issued:
        return
    begin_rows(outputs.rows, commands.ring[place_of(commands.outputs)], layer.out_offset)
    commands.outputs += 1
