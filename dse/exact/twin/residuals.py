"""The residual stream: twin of `fluidnpu_residual_reader`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .addresses import RowAddresses, begin_rows, first_row, reset_addresses, walk_ahead
from .bus.masters import ReadMaster, req_ready, request
from .commands import Commands, place_of
from .parameters import LayerConstants, Setup
from .queues import Queue
from .records import jit
from .sequencer import ASK, READ
from .weights import Unpack, step_unpack

JOB_QUEUE = 32


@dataclass(slots=True)
class ResidualRow:
    """A row that was requested."""

    words: int  # columns of it
    skip: int  # words of its first port word


@dataclass(slots=True)
class ResidualReader:
    """Registers of `fluidnpu_residual_reader`."""

    asks: int  # a row is at hand: its port words are asked for as soon as master and queue have room
    address: int  # of it
    cols: int
    asked: int  # rows
    begun: int
    rest: int  # columns left of a row whose one word is for all
    unpack: Unpack
    rows: RowAddresses
    jobs: Annotated[list[ResidualRow], JOB_QUEUE]


@jit
def reset_residuals(residuals: ResidualReader, layer: LayerConstants) -> None:
    """Begin a layer at its first row."""
    reset_addresses(residuals.rows, layer.residual_row, layer.residual_pixel)


@jit
def residual_there(residuals: ResidualReader, setup: Setup) -> bool:
    """Return whether a beat of residuals is there."""
    unpack = residuals.unpack
    return unpack.left != 0 and (unpack.count >= setup.out_words or unpack.count >= unpack.left)


@jit
def _unpack_rows(
    residuals: ResidualReader,
    m2: ReadMaster,
    queue: Queue,
    ready: bool,
    ahead: int,
    layer: LayerConstants,
    setup: Setup,
) -> None:
    unpack = residuals.unpack
    job = residuals.jobs[residuals.begun & JOB_QUEUE - 1]
    unpack.job_words = job.words if residuals.asked != residuals.begun else 0
    unpack.job_skip = job.skip
    gives, ends = ready and residual_there(residuals, setup), True
    if layer.residual_spread:
        unpack.job_words = min(unpack.job_words, 1)
        ends = residuals.rest <= setup.out_words
        residuals.rest -= gives * setup.out_words
    step_unpack(unpack, setup.port_words, setup.out_words, m2.level != 0 and ahead != READ, ready and ends)
    queue.push = gives
    m2.data_ready = unpack.get
    residuals.begun += unpack.begins
    if unpack.begins:
        residuals.rest = job.words


@jit
def _ask_row(residuals: ResidualReader, m2: ReadMaster, layer: LayerConstants, setup: Setup) -> None:
    address = residuals.address
    skip = address >> setup.word_shift & setup.port_words - 1
    if not req_ready(m2, address - (skip << setup.word_shift)):
        return
    words = 1 if layer.residual_spread else residuals.cols
    port_words = (skip + words + setup.port_words - 1 << setup.word_shift) >> setup.port_shift
    request(m2, address - (skip << setup.word_shift), port_words)
    job = residuals.jobs[residuals.asked & JOB_QUEUE - 1]
    job.words = residuals.cols
    job.skip = skip
    residuals.asked += 1
    residuals.asks = 0


@jit
def step_residuals(
    residuals: ResidualReader,
    m2: ReadMaster,
    queue: Queue,
    ready: bool,
    ahead: int,
    layer: LayerConstants,
    setup: Setup,
) -> None:
    """Request the row at hand, take the next, and convert port words to beats of a `queue`.

    The queue is the core's or the activation unit's, and `ready` if it has room. `ahead`: state of the layer
    that begins next, whose pieces may have the turn to ask m2 and to take its words.
    """
    room = residuals.asked - residuals.begun != JOB_QUEUE
    _unpack_rows(residuals, m2, queue, ready, ahead, layer, setup)
    if room and residuals.asks and not ASK <= ahead <= READ:
        _ask_row(residuals, m2, layer, setup)
    if walk_ahead(residuals.rows, layer, setup) and not residuals.asks:
        row = first_row(residuals.rows)
        residuals.rows.taken += 1
        residuals.asks = 1
        residuals.address = row.address
        residuals.cols = row.cols


@jit
def next_residuals(residuals: ResidualReader, layer: LayerConstants, commands: Commands) -> None:
    """Begin the rows of the next command once the previous pass has been walked."""
    if residuals.rows.walker.active or commands.residuals == commands.issued:
        return
    command = commands.ring[place_of(commands.residuals)]
    shift = command.out_shift if layer.residual_spread else 0  # one word has no place of its own in a tile
    begin_rows(residuals.rows, command, layer.residual_offset - shift)
    commands.residuals += 1
