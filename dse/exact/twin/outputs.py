"""The output stream, packed into port words: twin of `fluidnpu_output_writer`."""

from __future__ import annotations

from dataclasses import dataclass

from .commands import Commands, place_of
from .masters import WriteMaster, step_write_master, write_idle
from .parameters import Layer, Setup
from .queues import Queue
from .records import jit
from .walker import Walker, begin_pass, ends_pass, reset_walker, row_address, walk


@dataclass(slots=True)
class OutputWriter:
    """Registers of `fluidnpu_output_writer`."""

    layer_open: int
    last: int  # the current command is the layer's last
    cols: int
    word: int  # of the row
    taken: int  # words of the beat
    any: int  # the port word is not empty
    full: int
    pack_addr: int
    walker: Walker


@jit
def reset_outputs(outputs: OutputWriter, layer: Layer) -> None:
    """Begin a layer at its first row."""
    outputs.layer_open = 1
    reset_walker(outputs.walker, layer.out_row, layer.out_pixel)


@jit
def layer_done(outputs: OutputWriter) -> bool:
    """Tell if the last row of the layer was handed to the master."""
    return (outputs.layer_open | outputs.any) == 0


@jit
def all_written(outputs: OutputWriter, master: WriteMaster) -> bool:
    """Tell if every output of the layer is in memory."""
    return layer_done(outputs) and write_idle(master)


@jit
def _pack(outputs: OutputWriter, queue: Queue, address: int, setup: Setup) -> bool:
    """Pack words of a beat up to the end of the port word or row. Returns True at the end of the row."""
    space = setup.port_words - (address >> 1 & setup.port_words - 1)
    in_row = outputs.cols - outputs.word
    piece = min(setup.out_words - outputs.taken, in_row, space)
    row_ends = piece == in_row
    beat_ends = row_ends or outputs.taken + piece == setup.out_words
    queue.pop = beat_ends
    outputs.any = 1
    outputs.full = piece == space
    outputs.pack_addr = address & -setup.port_bytes
    outputs.word = 0 if row_ends else outputs.word + piece
    outputs.taken = 0 if beat_ends else outputs.taken + piece
    return row_ends


@jit
def step_outputs(outputs: OutputWriter, master: WriteMaster, queue: Queue, layer: Layer, setup: Setup) -> None:
    """Pack beats of the core's output `queue`, and hand full port words to the master."""
    walker = outputs.walker
    active = walker.active != 0
    address = row_address(walker, layer, setup) + 2 * outputs.word if active else 0
    leaves = outputs.full != 0 or not outputs.layer_open
    leaves = leaves or (active and outputs.pack_addr != address & -setup.port_bytes)
    offers = outputs.any != 0 and leaves
    taken = step_write_master(master, setup, layer_done(outputs), outputs.pack_addr if offers else -1)
    free = taken if offers else not outputs.full
    if taken:
        outputs.any = 0
        outputs.full = 0
    if active and free and queue.level and _pack(outputs, queue, address, setup):
        if outputs.last and ends_pass(walker):
            outputs.layer_open = 0
        walk(walker, layer)


@jit
def next_outputs(outputs: OutputWriter, layer: Layer, commands: Commands) -> None:
    """Begin the rows of the next command once the previous pass has ended."""
    if outputs.walker.active or commands.outputs == commands.issued:
        return
    command = commands.ring[place_of(commands.outputs)]
    outputs.cols = command.cols
    outputs.last = command.layer_last
    begin_pass(outputs.walker, command, command.out_shift + layer.out_offset, command.block_last != 0)
    commands.outputs += 1
