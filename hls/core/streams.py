"""The address model of the data plane: the core's five streams for one layer at one batch size (ADR 4). No
timing.

All beats follow from the data that the hardware sees: a descriptor, an FBCB word, the slots and the weight
image. RTL benches take their expectation from here, C simulation its input; `core.reference_core` computes
the answers. Commands are ordered by row block, then group, then column tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.hardware import pool_beats
from fluidnpu.models import golden
from fluidnpu.models.numeric import WORDS, Stored

from ..errors import FormatError, StreamError
from ..formats.table import CORE_COMMAND, NO_WEIGHTS, KindCode
from ..program.descriptor import Descriptor
from ..program.fbcb import FbcbEntry, decode_layer
from ..program.filtering import layer_filter
from ..program.layout import column_tiles, part_words, unpack_weights
from ..program.pieces import layer_unit
from ..program.pooling import pool_map

Int64 = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class Command:
    """One beat of the `cmd` stream: one row block and one column tile.

    >>> Command.unpack(Command(mode=Mode.WIDE, beats=3, p_tiles=2, cols=4, lo=-5).pack()).lo
    -5
    """

    mode: Mode
    beats: int
    lane1_beats: int = 0
    p_tiles: int
    cols: int
    shift: int = 0
    residual_shift: int = 0
    has_residual: int = 0
    last: int = 0
    lo: int = -32768
    hi: int = 32767
    residual_multiplier: int = 0

    @property
    def rows(self) -> int:
        """Output rows."""
        return self.beats + self.lane1_beats

    def pack(self) -> int:
        """The 128-bit beat. Raises StreamError when a field does not fit."""
        try:
            return CORE_COMMAND.pack(vars(self))
        except FormatError as error:
            raise StreamError(f"command {error}") from None

    @classmethod
    def unpack(cls, word: int) -> Command:
        """Inverse of `pack`."""
        values = CORE_COMMAND.unpack(word)
        return cls(**values | {"mode": Mode(CORE_COMMAND.number("mode", word))})  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One command with its rows and columns.

    `lanes`: flattened (sample, row) numbers of lane 0 and lane 1, beat by beat; lane 1 may be shorter.
    `first_column` within `group`.
    """

    command: Command
    group: int
    first_column: int
    lanes: tuple[Rows, Rows]

    @property
    def output_rows(self) -> Rows:
        """Row numbers (rows,) in the order of the output stream: beat by beat, lane 0 then lane 1."""
        first, second = self.lanes
        together = np.stack([first[: len(second)], second], axis=1).reshape(-1)
        return np.concatenate([together, first[len(second) :]])


@dataclass(frozen=True, kw_only=True)
class LayerStreams:
    """The streams of one layer.

    Beats are rows of words, word 0 first; `outputs` is the number of output beats to expect. `factor`
    are the residual beats of a product, which go to the activation unit: one for each output beat.
    """

    commands: tuple[Command, ...]
    input: Stored  # (beats, input_words)
    weight: Stored  # (beats, weight_slots * t_p)
    residual: Stored  # (beats, out_words)
    outputs: int
    factor: Stored = field(default_factory=lambda: np.zeros((0, 0), np.int16))  # (beats, out_words)

    def command_words(self) -> npt.NDArray[np.int16]:
        """The `cmd` stream as int16 (commands, 8)."""
        size = CORE_COMMAND.wire_bits // 8
        packed = b"".join(command.pack().to_bytes(size, "little") for command in self.commands)
        return np.frombuffer(packed, "<i2").reshape(-1, size // 2)


def row_lanes(run: FbcbEntry, rows: int) -> tuple[Rows, Rows]:
    """Flattened (sample, row) numbers that pass through lane 0 and lane 1, for `rows` output rows a sample.

    >>> row_lanes(FbcbEntry(Mode.LANES, batch=3, b_r=2, block=64), 2)
    (array([0, 1, 2, 3]), array([4, 5]))
    """
    every = np.arange(run.batch * rows)
    if run.row_lanes:
        return every[0::2], every[1::2]
    if run.mode is Mode.LANES:
        return every[: run.b_r * rows], every[run.b_r * rows :]
    return every, every[:0]


def tiles(descriptor: Descriptor, run: FbcbEntry, design: Design) -> Iterator[Tile]:
    """Every command of a layer, in order; a pool that is merged has none."""
    if descriptor.merged:
        return
    lanes = row_lanes(run, descriptor.out_h * descriptor.out_w)
    columns = list(column_tiles(descriptor.columns, run.mode, design))
    places = [
        (start, group, first, cols)
        for start in range(0, len(lanes[0]), run.block)
        for group in range(descriptor.groups)
        for first, cols in columns
    ]
    p_tiles = _p_tiles(descriptor, run.mode, design)
    for place, (start, group, first, cols) in enumerate(places, 1):
        block = lanes[0][start : start + run.block], lanes[1][start : start + run.block]
        command = Command(
            mode=run.mode,
            beats=len(block[0]),
            lane1_beats=len(block[1]),
            p_tiles=p_tiles,
            cols=cols,
            shift=descriptor.shift,
            residual_shift=descriptor.residual_shift,
            residual_multiplier=descriptor.residual_multiplier,
            has_residual=int(descriptor.adds),
            last=int(place == len(places)),
            lo=descriptor.lo,
            hi=descriptor.hi,
        )
        yield Tile(command=command, group=group, first_column=first, lanes=block)


def gemm_words(descriptor: Descriptor) -> int:
    """P of one group: the words of one window."""
    return descriptor.kernel_h * descriptor.kernel_w * descriptor.group_words


def _p_tiles(descriptor: Descriptor, mode: Mode, design: Design) -> int:
    """P-tiles of a GEMM; of a pool its beats for a row: one a tap, or of a max pool one for two taps."""
    if descriptor.kind != KindCode.GEMM:
        return pool_beats(descriptor.kernel_h * descriptor.kernel_w, maximum=mode is Mode.MAX_POOL)
    return -(-gemm_words(descriptor) // design.tile(mode)[0])


def layer_streams(
    descriptor: Descriptor, fbcb_word: int, design: Design, slots: Stored, weights: bytes = b""
) -> LayerStreams:
    """Compute every beat that the data plane sends for one layer.

    `slots` (batch, slot words): the active samples in ascending slot number. `weights`: the weight
    image. FbcbError for a bad FBCB word, StreamError when the image lacks the layer's weights.
    """
    run = decode_layer(design, fbcb_word, descriptor, len(slots))
    plan = list(tiles(descriptor, run, design))
    inputs: list[Stored] = [np.zeros((0, design.input_words), slots.dtype)]
    block: tuple[int, int] | None = None  # (first row, group) of the beats at hand: column tiles of a group share them
    beats = inputs[0]
    for tile in plan:
        if descriptor.kind != KindCode.GEMM:
            inputs.append(_pool_beats(descriptor, tile, design, slots))
        else:
            if block != (int(tile.lanes[0][0]), tile.group):
                block, beats = (int(tile.lanes[0][0]), tile.group), _gemm_beats(descriptor, tile, design, slots)
            inputs.append(beats)
    residual, none = _residual_beats(descriptor, plan, design, slots), np.zeros((0, design.out_words), slots.dtype)
    return LayerStreams(
        commands=tuple(tile.command for tile in plan),
        input=np.concatenate(inputs),
        weight=_weight_beats(descriptor, run.mode, design, weights, plan),
        residual=none if descriptor.multiplies else residual,
        outputs=sum(output_beats(tile.command, design) for tile in plan),
        factor=residual if descriptor.multiplies else none,
    )


def output_beats(command: Command, design: Design) -> int:
    """Beats of the output stream of one command, and of its residual stream if it has one."""
    return command.rows * -(-command.cols // design.out_words)


def scatter_output(
    descriptor: Descriptor, fbcb_word: int, design: Design, output: Stored, slots: Stored, weights: bytes = b""
) -> int:
    """Write the core's output stream (beats, out_words) to slot memory in place, as the data plane does.

    It passes the layer's activation unit, then its filter or pool. Returns the words that unit and filter
    saturated. `weights` is the weight image, in which their constants lie.
    """
    saturated = 0
    if descriptor.activation:
        output, saturated = activate_output(descriptor, fbcb_word, design, output, slots, weights)
    return saturated + store_output(descriptor, fbcb_word, design, output, slots, weights)


def activate_output(
    descriptor: Descriptor, fbcb_word: int, design: Design, output: Stored, slots: Stored, weights: bytes
) -> tuple[Stored, int]:
    """The beats (beats, out_words) of the core's output stream behind the activation unit, and the words that
    it saturated.

    Lanes without a column are zero. StreamError when the image lacks the layer's pieces.
    """
    run = decode_layer(design, fbcb_word, descriptor, len(slots))
    plan = list(tiles(descriptor, run, design))
    factor = None
    if descriptor.multiplies:
        beats = _residual_beats(descriptor, plan, design, slots)
        factor = output_maps(descriptor, fbcb_word, design, beats, len(slots))
    maps = output_maps(descriptor, fbcb_word, design, output, len(slots))
    values, saturated = layer_unit(descriptor, run.mode, design, weights).run(maps, factor)
    pixels = values.reshape(-1, values.shape[3])
    parts = [_in_beats(pixels[tile.output_rows[:, None], _channels(descriptor, tile)], design) for tile in plan]
    return np.concatenate([np.zeros((0, design.out_words), values.dtype), *parts]), saturated


def store_output(
    descriptor: Descriptor, fbcb_word: int, design: Design, output: Stored, slots: Stored, weights: bytes = b""
) -> int:
    """Write the stream behind the unit to slot memory in place; return the words that a filter saturated.

    `output` is (beats, out_words), `slots` (batch, words of a slot). Raises StreamError for a stream of
    another length.
    """
    run = decode_layer(design, fbcb_word, descriptor, len(slots))
    if descriptor.ordered:
        maps, saturated = _left_maps(descriptor, fbcb_word, design, output, len(slots), weights)
        _store_map(descriptor, maps, slots)
        return saturated
    at = 0
    for tile in tiles(descriptor, run, design):
        size = output_beats(tile.command, design)
        words = output[at : at + size].reshape(tile.command.rows, -1)
        if words.shape[0] * words.shape[1] != size * design.out_words:
            raise StreamError(f"the output stream ends after {len(output)} beats, before the layer does")
        samples, address = _output_address(descriptor, tile, descriptor.out_offset, _out_strides(descriptor))
        slots[samples, address] = words[:, : tile.command.cols]
        at += size
    if at != len(output):
        raise StreamError(f"the output stream of this layer must have {at} beats, not {len(output)}")
    return 0


def left_output(
    descriptor: Descriptor, fbcb_word: int, design: Design, output: Stored, batch: int, weights: bytes = b""
) -> Stored:
    """The beats (beats, out_words) of a stream behind the unit that are left behind its pool or filter, in
    order.

    They are those of the positions that end a window along both axes. A filter also visits positions beside
    the map, which follow the last pixel of a row or of the sample.
    """
    run = decode_layer(design, fbcb_word, descriptor, batch)
    maps, _ = _left_maps(descriptor, fbcb_word, design, output, batch, weights)
    size = descriptor.out_h, descriptor.out_w
    rows, columns = ({last: at for at, last in enumerate(_window_ends(descriptor, axis))} for axis in range(2))
    left = [np.zeros((0, design.out_words), maps.dtype)]
    for tile in tiles(descriptor, run, design):
        samples, place = np.divmod(tile.output_rows, descriptor.out_h * descriptor.out_w)
        for sample, y, x in zip(samples, *np.divmod(place, descriptor.out_w), strict=True):
            below = [row for row in rows if row >= size[0]] if (y, x) == (size[0] - 1, size[1] - 1) else []
            beside = [column for column in columns if column >= size[1]] if x == size[1] - 1 else []
            ends = [(y, column) for column in (x, *beside)] + [(row, column) for row in below for column in columns]
            pixels = [
                maps[sample, rows[row], columns[column]] for row, column in ends if row in rows and column in columns
            ]
            if pixels:
                left.append(_in_beats(np.stack(pixels)[:, _channels(descriptor, tile)], design))
    return np.concatenate(left)


def _left_maps(
    descriptor: Descriptor, fbcb_word: int, design: Design, output: Stored, batch: int, weights: bytes
) -> tuple[Stored, int]:
    """The maps (batch, rows, columns, channels) behind a pool or a filter, and the words that the latter
    saturated.
    """
    maps = output_maps(descriptor, fbcb_word, design, output, batch)
    if descriptor.pool_kernel:
        return pool_map(maps, descriptor), 0
    mode = decode_layer(design, fbcb_word, descriptor, batch).mode
    return golden.run_layer_counting(layer_filter(descriptor, mode, design, weights), maps)


def _window_ends(descriptor: Descriptor, axis: int) -> list[int]:
    """The position along an axis at which each window ends; a pool's end with the map at the latest."""
    size, count = (descriptor.out_h, descriptor.out_w)[axis], descriptor.pooled_hw[axis]
    if descriptor.filter_kernel:
        before = (descriptor.filter_top, descriptor.filter_left)[axis]
        return [descriptor.filter_stride * window - before + descriptor.filter_kernel - 1 for window in range(count)]
    before = (descriptor.pool_top, descriptor.pool_left)[axis]
    return [min(size - 1, 2 * window - before + descriptor.pool_kernel - 1) for window in range(count)]


def output_maps(descriptor: Descriptor, word: int, design: Design, output: Stored, batch: int) -> Stored:
    """The maps (batch, out_h, out_w, channels) of a stream of output beats, before a pool or a filter."""
    whole = _whole_map(descriptor)
    slots = np.zeros((batch, descriptor.out_h * whole.out_row_bytes // descriptor.word_bytes), output.dtype)
    store_output(whole, word, design, output, slots)
    return slots.reshape(batch, descriptor.out_h, descriptor.out_w, -1)


def _whole_map(descriptor: Descriptor) -> Descriptor:
    """The layer without a pool or a filter behind it, its outputs alone from the first word on."""
    pixel = descriptor.word_bytes * descriptor.groups * descriptor.columns
    return replace(
        descriptor,
        pool_kernel=0,
        filter_kernel=0,
        filter_rows=0,
        filter_table=0,
        filter_window=0,
        out_offset=0,
        out_row_bytes=pixel * descriptor.out_w,
        out_pixel_bytes=pixel,
    )


def _store_map(descriptor: Descriptor, maps: Stored, slots: Stored) -> None:
    """Write maps (batch, rows, columns, channels) where a layer stores its outputs."""
    rows, columns, channels = (np.arange(size) for size in maps.shape[1:])
    first = rows[:, None] * descriptor.out_row_bytes + columns * descriptor.out_pixel_bytes + descriptor.out_offset
    slots[:, first[:, :, None] // descriptor.word_bytes + channels] = maps


# -- addresses, in words -------------------------------------------------------------------------------------


def window_addresses(descriptor: Descriptor, rows: Rows, group: int) -> tuple[Rows, Int64]:
    """Each row's sample, and the word address (rows, taps) of the first word of each tap of its window."""
    samples, place = np.divmod(rows, descriptor.out_h * descriptor.out_w)
    out_row, out_column = np.divmod(place, descriptor.out_w)
    word_bytes = descriptor.word_bytes
    row_words, pixel_words = descriptor.in_row_bytes // word_bytes, descriptor.in_pixel_bytes // word_bytes
    start = descriptor.in_offset // word_bytes + group * descriptor.group_words
    first = start + out_row * descriptor.stride_h * row_words + out_column * descriptor.stride_w * pixel_words
    kernel_row = np.arange(descriptor.kernel_h) * descriptor.dilation_h * row_words
    kernel_column = np.arange(descriptor.kernel_w) * descriptor.dilation_w * pixel_words
    taps = (kernel_row[:, None] + kernel_column[None, :]).reshape(-1)
    return samples, first[:, None] + taps[None, :]


def toeplitz_rows(descriptor: Descriptor, rows: Rows, group: int, slots: Stored) -> Stored:
    """The windows (rows, P) of flattened (sample, row) numbers: the left operand of the layer's GEMM."""
    samples, taps = window_addresses(descriptor, rows, group)
    address = taps[:, :, None] + np.arange(descriptor.group_words)
    gathered: Stored = slots[samples[:, None, None], address]
    return gathered.reshape(len(rows), -1)


def _out_strides(descriptor: Descriptor) -> tuple[int, int]:
    return descriptor.out_row_bytes, descriptor.out_pixel_bytes


def _output_address(
    descriptor: Descriptor, tile: Tile, offset: int, strides: tuple[int, int], spread: bool = False
) -> tuple[npt.NDArray[np.intp], Int64]:
    """Indices (rows, 1) and (rows, cols) into slots, of outputs or of the residual in the same order.

    `spread`: one word is for all channels of a pixel.
    """
    samples, place = np.divmod(tile.output_rows, descriptor.out_h * descriptor.out_w)
    row, column = np.divmod(place, descriptor.out_w)
    first = (offset + row * strides[0] + column * strides[1]) // descriptor.word_bytes
    channels = np.zeros(tile.command.cols, np.int64) if spread else _channels(descriptor, tile)
    return samples[:, None], first[:, None] + channels


def _channels(descriptor: Descriptor, tile: Tile) -> Int64:
    """The output channels of a tile's columns."""
    return tile.group * descriptor.columns + tile.first_column + np.arange(tile.command.cols)


# -- beats ---------------------------------------------------------------------------------------------------


def _gemm_beats(descriptor: Descriptor, tile: Tile, design: Design, slots: Stored) -> Stored:
    """Input beats of one GEMM command: P-tile by P-tile, one beat a row, lane 1 in the upper half."""
    command = tile.command
    width = design.tile(command.mode)[0]
    beats = np.zeros((command.p_tiles, command.beats, design.input_words), slots.dtype)
    for lane, rows in enumerate(tile.lanes):
        if len(rows):
            padded = np.zeros((len(rows), command.p_tiles * width), slots.dtype)
            padded[:, : gemm_words(descriptor)] = toeplitz_rows(descriptor, rows, tile.group, slots)
            words = padded.reshape(len(rows), command.p_tiles, width).transpose(1, 0, 2)
            beats[:, : len(rows), lane * design.t_p : lane * design.t_p + width] = words
    return beats.reshape(-1, design.input_words)


def _pool_beats(descriptor: Descriptor, tile: Tile, design: Design, slots: Stored) -> Stored:
    """Input beats of one pool command: rows in order, a channel a word, one beat a tap.

    A beat of a max pool is the larger of two taps.
    """
    command = tile.command
    samples, taps = window_addresses(descriptor, tile.lanes[0], 0)
    address = taps[:, :, None] + tile.first_column + np.arange(command.cols)
    beats = np.zeros((command.beats, command.p_tiles, design.input_words), slots.dtype)
    words = slots[samples[:, None, None], address]
    if command.mode is Mode.MAX_POOL:
        words = np.maximum(words[:, ::2], words[:, np.minimum(np.arange(1, words.shape[1] + 1, 2), words.shape[1] - 1)])
    beats[:, :, : command.cols] = words
    return beats.reshape(-1, design.input_words)


def _residual_beats(descriptor: Descriptor, plan: Sequence[Tile], design: Design, slots: Stored) -> Stored:
    """Residual beats of a layer, for the core or for the activation unit."""
    parts = [np.zeros((0, design.out_words), slots.dtype)]
    strides = descriptor.residual_row_bytes, descriptor.residual_pixel_bytes
    for tile in plan if descriptor.has_residual else ():
        spread = bool(descriptor.residual_spread)
        samples, address = _output_address(descriptor, tile, descriptor.residual_offset, strides, spread)
        parts.append(_in_beats(slots[samples, address], design))
    return np.concatenate(parts)


def _in_beats(words: Stored, design: Design) -> Stored:
    """Words (rows, cols) of a tile as beats (beats, out_words), zero where a lane has no column."""
    rows, cols = words.shape
    beats = np.zeros((rows, -(-cols // design.out_words) * design.out_words), words.dtype)
    beats[:, :cols] = words
    return beats.reshape(-1, design.out_words)


def _weight_beats(descriptor: Descriptor, mode: Mode, design: Design, weights: bytes, plan: Sequence[Tile]) -> Stored:
    """The layer's part of the image, repeated for each row block."""
    beat_words = design.weight_slots * design.t_p
    if descriptor.kind != KindCode.GEMM or descriptor.merged:
        return np.zeros((0, beat_words), WORDS[design.word_bits].dtype)
    words = layer_part(descriptor, mode, design, weights)
    blocks = len({int(tile.lanes[0][0]) for tile in plan})
    return np.tile(words.reshape(-1, beat_words), (blocks, 1))


def layer_part(descriptor: Descriptor, mode: Mode, design: Design, weights: bytes) -> Stored:
    """Read a GEMM layer's weights (words,) for one mode from the weight image.

    Raises StreamError when they are not there.
    """
    start = descriptor.weights[mode]
    if start == NO_WEIGHTS:
        raise StreamError(f"the program stores no weights for mode {mode.name} in this layer")
    size = part_words(
        p=gemm_words(descriptor), columns=descriptor.columns, groups=descriptor.groups, mode=mode, design=design
    )
    if start + design.word_bytes * size > len(weights):
        raise StreamError(f"the weights of this layer must end within the image of {len(weights)} bytes")
    return np.frombuffer(weights, WORDS[design.word_bits].dtype, count=size, offset=start)


def unpack_layer(descriptor: Descriptor, mode: Mode, design: Design, weights: bytes) -> tuple[Stored, Int64]:
    """Read a layer's weights (groups, P, columns) and `headers` (groups * columns,) from the image."""
    words = layer_part(descriptor, mode, design, weights).reshape(descriptor.groups, -1)
    shape = {"p": gemm_words(descriptor), "columns": descriptor.columns}
    groups = [unpack_weights(group, **shape, mode=mode, design=design) for group in words]
    return np.stack([group[0] for group in groups]), np.concatenate([group[1] for group in groups])
