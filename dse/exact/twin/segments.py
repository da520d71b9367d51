"""Segments on their way from windows to row buffer, in pairs: twin of `fluidnpu_segment_queue`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .records import jit

DEPTH = 16  # pairs
_ON_THE_WAY = 2  # pairs whose addresses are being added
_RING = 32  # all of them and the one that is shown


@dataclass(slots=True)
class Pair:
    """One segment or two of the same beat."""

    rows: int  # of the lane that must be loaded
    lane: int
    two: int
    second_rows: int
    second_lane: int
    second_place: int  # its first byte, in the buffer
    second_words: int
    ends: int  # the beat
    oldest: int  # place before which this pair and all later ones need nothing


@dataclass(slots=True)
class SegmentQueue:
    """Registers of `fluidnpu_segment_queue`."""

    made: int  # pairs so far
    stored: int  # of them
    adding: int  # bit n: a pair was made n cycles ago
    shown: int  # of those that were stored
    valid: int  # one is shown,
    first_gone: int  # of which the first was taken
    ring: Annotated[list[Pair], _RING]


@jit
def reset_segments(queue: SegmentQueue) -> None:
    """Begin a layer without segments."""
    queue.made = 0
    queue.stored = 0
    queue.adding = 0
    queue.shown = 0
    queue.valid = 0
    queue.first_gone = 0


@jit
def add_addresses(queue: SegmentQueue) -> None:
    """Store the pair whose addresses are complete."""
    queue.adding <<= 1
    if queue.adding >> _ON_THE_WAY + 1:
        queue.stored += 1
        queue.adding &= (1 << _ON_THE_WAY + 1) - 1


@jit
def has_room(queue: SegmentQueue) -> bool:
    """Return whether one more pair fits behind those on their way."""
    return queue.stored - queue.shown + _ON_THE_WAY + 1 <= DEPTH


@jit
def next_pair(queue: SegmentQueue) -> Pair:
    """Begin a pair at the end of the queue; the caller fills it."""
    pair = queue.ring[queue.made & _RING - 1]
    queue.made += 1
    queue.adding |= 1
    return pair


@jit
def shown_pair(queue: SegmentQueue) -> Pair:
    """The pair that is shown."""
    return queue.ring[queue.shown - 1 & _RING - 1]


@jit
def show_next(queue: SegmentQueue) -> bool:
    """Show the next pair. Returns False if there is none."""
    queue.first_gone = 0
    queue.valid = queue.stored != queue.shown
    queue.shown += queue.valid
    return queue.valid != 0
