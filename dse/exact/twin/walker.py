"""The walk over the rows of a row block, in the order of the core's beats: twin of `fluidnpu_row_walker`.

With a depthwise filter outputs and filter walk over its positions, which also lie behind the map (ADR 70).
"""

from __future__ import annotations

from dataclasses import dataclass

from .commands import TileCommand
from .parameters import LayerConstants, Setup
from .records import jit, jit_apart


@dataclass(slots=True)
class WalkPlace:
    """An output pixel, and the offset of its words in the sample."""

    sample: int
    row: int
    column: int
    row_offset: int
    offset: int


@dataclass(slots=True)
class Walker:
    """Registers of `fluidnpu_row_walker`."""

    active: int
    lane: int
    commit: int
    beat: int
    beats: int
    lane1_beats: int
    shift: int
    step_h: int
    step_w: int
    pools: int  # steps are those of the pooled map, and are taken where a window ends
    now: WalkPlace
    start: WalkPlace  # where the last committed pass ended


@jit
def ends_beat(walker: Walker) -> bool:
    """Return whether the current row ends its beat: it is in lane 1, or lane 1 has no row in this beat."""
    return walker.lane != 0 or walker.beat >= walker.lane1_beats


@jit
def ends_pass(walker: Walker) -> bool:
    """Return whether the current row is the last of the pass."""
    return ends_beat(walker) and walker.beat + 1 == walker.beats


@jit
def row_address(walker: Walker, layer: LayerConstants, setup: Setup) -> int:
    """Compute the address of the current row."""
    sample = walker.now.sample
    if layer.sample_lanes and walker.lane:
        sample += layer.b_r
    return setup.slots[sample] + walker.now.offset + walker.shift


@jit
def copy_place(to: WalkPlace, place: WalkPlace) -> None:
    """Copy all fields of a place."""
    to.sample = place.sample
    to.row = place.row
    to.column = place.column
    to.row_offset = place.row_offset
    to.offset = place.offset


@jit
def _ends(kernel: int, padded: int, at: int, size: int) -> bool:
    """Return whether a row or column is the last of a window of the pool."""
    odd = (at ^ padded) & 1
    return at + 1 == size or (odd != 0 if kernel == 2 else odd == 0 and at != 0)


@jit
def ends_column(walker: Walker, layer: LayerConstants) -> bool:
    """Return whether the current row ends a window along the image's row; without a pool each does."""
    return walker.pools == 0 or _ends(layer.pool_kernel, layer.pool_left, walker.now.column, layer.out_w)


@jit
def ends_line(walker: Walker, layer: LayerConstants) -> bool:
    """Return whether the current row ends a window along the image's column; without a pool each does."""
    return walker.pools == 0 or _ends(layer.pool_kernel, layer.pool_top, walker.now.row, layer.out_h)


@jit
def _next_place(walker: Walker, layer: LayerConstants) -> None:
    place = walker.now
    if place.column + 1 != layer.out_w:
        if ends_column(walker, layer):
            place.offset += walker.step_w
        place.column += 1
        return
    place.column = 0
    if place.row + 1 != layer.out_h:
        if ends_line(walker, layer):
            place.row_offset += walker.step_h
        place.row += 1
    else:
        place.row = 0
        place.row_offset = 0
        place.sample += 1
    place.offset = place.row_offset


@jit
def walk(walker: Walker, layer: LayerConstants) -> None:
    """Advance to the next row; the pass ends behind its last row."""
    beat_ends, pass_ends = ends_beat(walker), ends_pass(walker)
    if beat_ends or layer.row_lanes:
        _next_place(walker, layer)
    if beat_ends:
        walker.lane = 0
        walker.beat += 1
    else:
        walker.lane = 1
    if pass_ends:
        walker.active = 0
        if walker.commit:
            copy_place(walker.start, walker.now)


@jit
def leaves(walker: Walker, layer: LayerConstants) -> bool:
    """Return whether a word of the filter leaves at the current position."""
    return _leaves_row(walker.now, layer) and _leaves_column(walker.now, layer)


@jit
def _leaves_row(place: WalkPlace, layer: LayerConstants) -> bool:
    row = place.row - layer.filter_first_h
    return row >= 0 and row & layer.filter_stride - 1 == 0


@jit
def _leaves_column(place: WalkPlace, layer: LayerConstants) -> bool:
    column = place.column - layer.filter_first_w
    return column >= 0 and column & layer.filter_stride - 1 == 0


@jit
def leaves_last(walker: Walker, layer: LayerConstants) -> bool:
    """Return whether no position of the layer behind the current one, at which a word leaves, has another."""
    place, stride = walker.now, layer.filter_stride
    ends = place.column + stride >= layer.walk_w and place.row + stride >= layer.walk_h
    return ends and walker.commit != 0 and place.sample + 1 == layer.batch


@jit
def in_map(place: WalkPlace, layer: LayerConstants) -> bool:
    """Return whether a position of the filter's walk is a pixel of the map in front of it."""
    return place.column < layer.out_w and place.row < layer.out_h


@jit
def _next_position(walker: Walker, layer: LayerConstants) -> None:
    place = walker.now
    if place.column + 1 != layer.walk_w:
        if _leaves_column(place, layer):
            place.offset += walker.step_w
        place.column += 1
        return
    place.column = 0
    if place.row + 1 != layer.walk_h:
        if _leaves_row(place, layer):
            place.row_offset += walker.step_h
        place.row += 1
    else:
        place.row = 0
        place.row_offset = 0
        place.sample += 1
    place.offset = place.row_offset


@jit_apart
def walk_position(walker: Walker, layer: LayerConstants) -> None:
    """Advance to the next position of the walk; a pass ends behind those that follow its last row."""
    beat_ends, pass_ends = ends_beat(walker), ends_pass(walker)
    _next_position(walker, layer)
    if not in_map(walker.now, layer):
        return
    if beat_ends:
        walker.lane = 0
        walker.beat += 1
    else:
        walker.lane = 1
    if pass_ends:
        walker.active = 0
        if walker.commit:
            copy_place(walker.start, walker.now)


@jit
def begin_pass(walker: Walker, command: TileCommand, shift: int, commit: bool) -> None:
    """Begin a pass over the rows of a command, where the last committed pass ended."""
    walker.active = 1
    walker.lane = 0
    walker.beat = 0
    walker.beats = command.beats
    walker.lane1_beats = command.lane1_beats
    walker.shift = shift
    walker.commit = commit
    copy_place(walker.now, walker.start)


@jit
def reset_walker(walker: Walker, step_h: int, step_w: int, pools: int = 0) -> None:
    """Begin a layer at its first row, with the byte distances between rows and between columns.

    `pools`: those of the pooled map.
    """
    walker.pools = pools
    walker.start.sample = 0
    walker.start.row = 0
    walker.start.column = 0
    walker.start.row_offset = 0
    walker.start.offset = 0
    walker.step_h = step_h
    walker.step_w = step_w
