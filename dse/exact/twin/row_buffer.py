"""The buffer of input rows that windows share: twin of `fluidnpu_row_buffer` and `fluidnpu_beat_builder`.

Rows are loaded ahead of the windows as far as the buffer has room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .bus.masters import ReadMaster, req_ready, request
from .parameters import LayerConstants, Setup
from .queues import Queue
from .records import jit
from .segments import Pair, SegmentQueue, show_next, shown_pair

ROW_QUEUE = 8
BEAT_QUEUE = 16
BUILD_STEPS = 5  # cycles from taking a beat's last segment to the push of the beat


@dataclass(slots=True)
class Lane:
    """The next row to load of one lane, and the number of those in the buffer."""

    sample: int
    end: int  # first sample that is not of this lane
    row: int
    offset: int
    start: int  # place of the sample in the buffer
    place: int  # of the row
    loaded: int


@dataclass(slots=True)
class BufferRow:
    """A row that was requested."""

    lane: int
    beats: int
    place: int  # its first byte, in the buffer


@dataclass(slots=True)
class RowBuffer:
    """Registers of `fluidnpu_row_buffer`."""

    turn: int
    asks: int  # a row was chosen, and the master did not take it yet
    address: int  # of it
    port_words: int
    asked: int  # rows
    arrived: int
    beat: int  # port words of the oldest requested row that were written
    building: int  # bit n: segments taken n + 1 cycles ago ended a beat (`fluidnpu_beat_builder`)
    beats: Queue  # of the core's input
    # ports
    arrives: int  # a port word is written in this cycle
    oldest: int  # place before which windows need nothing any more
    lanes: Annotated[list[Lane], 2]
    queue: Annotated[list[BufferRow], ROW_QUEUE]


@jit
def reset_row_buffer(rows: RowBuffer, layer: LayerConstants) -> None:
    """Begin a layer: lane 0 loads all samples, or the first b_r where samples share beats."""
    first = layer.b_r if layer.sample_lanes else layer.batch
    rows.turn = 0
    rows.oldest = 0
    for index in range(2):
        lane = rows.lanes[index]
        lane.sample = first if index else 0
        lane.end = layer.batch if index else first
        lane.row = 0
        lane.offset = layer.in_offset
        lane.start = 0
        lane.place = 0
        lane.loaded = 0


@jit
def _able(lane: Lane, most: int) -> bool:
    return lane.sample != lane.end and lane.place <= most


@jit
def _next_row(lane: Lane, layer: LayerConstants) -> None:
    lane.row += 1
    lane.offset += layer.row_step
    lane.place += layer.pitch
    if lane.row == layer.sample_rows:
        lane.sample += 1
        lane.row = 0
        lane.offset = layer.in_offset
        lane.start += layer.sample_pitch
        lane.place = lane.start


@jit
def load_row(rows: RowBuffer, m1: ReadMaster, layer: LayerConstants, setup: Setup) -> None:
    """Request the row that was chosen, and choose the next of a lane with room for it; lanes alternate."""
    if rows.asks:
        if not req_ready(m1, rows.address):
            return
        request(m1, rows.address, rows.port_words)
        rows.asks = 0
    if rows.asked - rows.arrived == ROW_QUEUE:
        return
    capacity = setup.buffer_bytes >> 1 if layer.sample_lanes else setup.buffer_bytes
    most = rows.oldest + capacity - layer.pitch - setup.port_bytes
    index = rows.turn
    if not _able(rows.lanes[index], most):
        index = 1 - index
        if not _able(rows.lanes[index], most):
            return
    lane = rows.lanes[index]
    address = setup.slots[lane.sample] + lane.offset
    low = address & setup.port_bytes - 1
    beats = low + layer.row_bytes + setup.port_bytes - 1 >> setup.port_shift
    rows.asks = 1
    rows.address = address - low
    rows.port_words = beats
    row = rows.queue[rows.asked & ROW_QUEUE - 1]
    row.lane = index
    row.beats = beats
    row.place = lane.place + (layer.in_offset & setup.port_bytes - 1)
    rows.asked += 1
    rows.turn = 1 - index
    _next_row(lane, layer)


@jit
def write_word(rows: RowBuffer) -> None:
    """Write a port word of the oldest requested row."""
    row = rows.queue[rows.arrived & ROW_QUEUE - 1]
    rows.beat += 1
    if rows.beat == row.beats:
        rows.beat = 0
        rows.arrived += 1
        rows.lanes[row.lane].loaded += 1


@jit
def _meets_fill(rows: RowBuffer, pair: Pair, setup: Setup) -> bool:
    """Return whether a port word is written into a bank that the second segment reads."""
    if not rows.arrives:
        return False
    end = (pair.second_place >> setup.word_shift & setup.line_words - 1) + pair.second_words
    if end > setup.line_words:
        return True
    row = rows.queue[rows.arrived & ROW_QUEUE - 1]
    to = row.place + rows.beat * setup.port_bytes
    return (to ^ pair.second_place) >> setup.line_shift & 1 == 0


@jit
def serve_segments(rows: RowBuffer, queue: SegmentQueue, setup: Setup) -> None:
    """Take the segment that is shown, or both of a pair if the second meets no fill, and show the next."""
    rows.beats.push = rows.building >> BUILD_STEPS - 1 & 1
    rows.building = rows.building << 1 & (1 << BUILD_STEPS) - 1
    if queue.valid:
        if rows.beats.level + BUILD_STEPS + 1 > BEAT_QUEUE:
            return
        pair = shown_pair(queue)
        second_there = rows.lanes[pair.second_lane].loaded >= pair.second_rows
        if not queue.first_gone:
            if rows.lanes[pair.lane].loaded < pair.rows:
                return
            if pair.two and (not second_there or _meets_fill(rows, pair, setup)):
                queue.first_gone = 1
                return
        elif not second_there:
            return
        rows.building |= pair.ends
    if show_next(queue):
        rows.oldest = shown_pair(queue).oldest
