"""The input stream's Toeplitz rows, cut out of the row buffer: twin of `fluidnpu_window_segments`."""

from __future__ import annotations

from dataclasses import dataclass

from .commands import Commands, place_of
from .parameters import LayerConstants, Setup
from .records import jit
from .segments import SegmentQueue, add_addresses, has_room, next_pair
from .walker import Walker, begin_pass, ends_beat, reset_walker, walk


@dataclass(slots=True)
class WindowWord:
    """The next word of a window."""

    tap_row: int
    tap_column: int
    word: int


@dataclass(slots=True)
class Segment:
    """A run of words from the row buffer to a beat."""

    words: int
    fills: int  # the beat, or ends a tap of a pool
    row_ends: int


@dataclass(slots=True)
class Windows:
    """Registers of `fluidnpu_window_segments`."""

    busy: int
    pass_open: int
    tile: int
    command: int  # number of the current one
    position: int
    half: int  # the beat of a max pool has one of its two taps
    ends: int  # the segments of this cycle end their beat
    run_words: int  # contiguous words of a window
    window: WindowWord
    tile_window: WindowWord  # where the current P-tile begins
    first: Segment
    behind: Segment
    walker: Walker


@jit
def reset_windows(windows: Windows, layer: LayerConstants) -> None:
    """Begin a layer at its first row."""
    windows.run_words = layer.run_words
    reset_walker(windows.walker, layer.step_h, layer.step_w)


@jit
def _reset_window(window: WindowWord) -> None:
    window.tap_row = 0
    window.tap_column = 0
    window.word = 0


@jit
def _copy_window(to: WindowWord, window: WindowWord) -> None:
    to.tap_row = window.tap_row
    to.tap_column = window.tap_column
    to.word = window.word


@jit
def _cut(windows: Windows, layer: LayerConstants, segment: Segment, position: int) -> None:
    """Cut the segment for `position` in the beat, and advance the window behind it."""
    window = windows.window
    segment.words = min(windows.run_words - window.word, layer.tile_words - position)
    window.word += segment.words
    run_ends = window.word == windows.run_words
    if run_ends:
        window.word = 0
        if not layer.contiguous and window.tap_column + 1 != layer.kernel_w:
            window.tap_column += 1
        else:
            window.tap_column = 0
            window.tap_row += 1
    segment.fills = run_ends if layer.pool else position + segment.words == layer.tile_words
    segment.row_ends = (run_ends and window.tap_row == layer.kernel_h) or (segment.fills != 0 and not layer.pool)


@jit
def _lane(windows: Windows, layer: LayerConstants, other: bool) -> int:
    """Lane of the row buffer that holds the current window, or the `other` one in its beat."""
    return 1 if layer.sample_lanes and (other or windows.walker.lane) else 0


@jit
def _rows_needed(windows: Windows, layer: LayerConstants, other: bool) -> int:
    """Count the input rows of the lane that must be loaded for the current window, or the `other` one."""
    walker = windows.walker
    sample, row = walker.now.sample, walker.now.row
    if other and layer.row_lanes and walker.now.column + 1 == layer.out_w:
        row += 1
        if row == layer.out_h:
            sample, row = sample + 1, 0
    return sample * layer.sample_rows + row * layer.rise + layer.span


@jit
def _place(windows: Windows, layer: LayerConstants, other: bool, setup: Setup) -> int:
    """Place in the buffer of the window's next word, of the current row or the `other` one in its beat."""
    walker, window = windows.walker, windows.window
    sample, offset = walker.now.sample, walker.now.offset
    if other and layer.row_lanes:
        if walker.now.column + 1 != layer.out_w:
            offset += layer.step_w
        elif walker.now.row + 1 != layer.out_h:
            offset = walker.now.row_offset + layer.step_h
        else:
            sample, offset = sample + 1, 0
    reach = window.tap_row * layer.tap_h + window.tap_column * layer.tap_w + (window.word << setup.word_shift)
    return sample * layer.sample_pitch + offset + walker.shift + reach


@jit
def _cut_rows(windows: Windows, queue: SegmentQueue, layer: LayerConstants, setup: Setup) -> int:
    """Cut one segment, or two of a beat. Returns the number of rows that end."""
    first, behind, walker = windows.first, windows.behind, windows.walker
    max_pool = layer.max_pool != 0
    beat_start = windows.position == 0
    lane_ends = ends_beat(walker)
    other_row = _place(windows, layer, True, setup)
    _cut(windows, layer, first, windows.position)
    same_row = _place(windows, layer, False, setup)
    position = windows.position + first.words
    beat_ends = first.row_ends != 0 and lane_ends
    if layer.pool:
        beat_ends = first.fills != 0 and (not max_pool or windows.half != 0 or first.row_ends != 0)
    row_ends, walks, two, words = first.row_ends, 1, False, first.words
    if first.row_ends:
        if not lane_ends and beat_start:
            two, beat_ends, walks = True, True, 2
    elif not layer.pool:
        _cut(windows, layer, behind, position)
        two, row_ends, words, position = True, behind.row_ends, behind.words, position + behind.words
        beat_ends = behind.row_ends != 0 and lane_ends
    elif max_pool and not windows.half and beat_start and first.fills:
        _cut(windows, layer, behind, 0)
        two, row_ends, words, beat_ends = True, behind.row_ends, behind.words, True
    windows.half = max_pool and not two and not beat_ends and (windows.half != 0 or first.fills != 0)
    windows.position = 0 if row_ends or (layer.pool and first.fills) else position
    windows.ends = beat_ends
    pair, start = next_pair(queue), walker.start
    pair.rows = _rows_needed(windows, layer, False)
    pair.lane = _lane(windows, layer, False)
    pair.two = two
    pair.second_rows = _rows_needed(windows, layer, True) if walks == 2 else pair.rows
    pair.second_lane = _lane(windows, layer, walks == 2)
    pair.second_place = other_row if walks == 2 else same_row
    pair.second_words = words
    pair.ends = beat_ends
    pair.oldest = start.sample * layer.sample_pitch + start.row_offset
    return walks if row_ends else 0


@jit
def _end_rows(windows: Windows, layer: LayerConstants, walks: int, pass_ends: bool) -> None:
    """Advance to the next row: a pool begins at its window's start, a GEMM at the start of the P-tile."""
    if layer.pool:
        _reset_window(windows.window)
    elif pass_ends:
        _copy_window(windows.tile_window, windows.window)
    else:
        _copy_window(windows.window, windows.tile_window)
    for _ in range(walks):
        walk(windows.walker, layer)


@jit
def _begin_command(windows: Windows, number: int) -> None:
    windows.busy = 1
    windows.tile = 0
    windows.command = number
    windows.position = 0
    windows.half = 0
    _reset_window(windows.window)
    _reset_window(windows.tile_window)


@jit
def step_windows(
    windows: Windows, queue: SegmentQueue, layer: LayerConstants, setup: Setup, commands: Commands
) -> None:
    """Cut the segments of a cycle, and begin the next pass and command."""
    walker = windows.walker
    add_addresses(queue)
    busy, pass_open = windows.busy, windows.pass_open
    last_tile = layer.pool != 0 or windows.tile + 1 == layer.p_tiles
    last_pass = layer.pool != 0 or windows.tile + pass_open + 1 == layer.p_tiles
    tile_ends = False
    if walker.active and has_room(queue):
        walks = _cut_rows(windows, queue, layer, setup)
        if walks:
            tile_ends = windows.ends != 0 and walker.beat + 1 == walker.beats
            _end_rows(windows, layer, walks, tile_ends)
    if tile_ends:
        windows.pass_open = 0
        windows.tile += 1
        windows.busy = not last_tile
    if busy and not walker.active and (not pass_open or (tile_ends and not last_tile)):
        command = commands.ring[place_of(windows.command)]
        windows.pass_open = 1
        shift = command.in_shift + (layer.in_offset & setup.port_bytes - 1)
        begin_pass(walker, command, shift, command.block_last != 0 and last_pass)
    if not busy and commands.windows != commands.issued:
        _begin_command(windows, commands.windows)
        if layer.pool:
            windows.run_words = commands.ring[place_of(commands.windows)].cols
        commands.windows += 1
