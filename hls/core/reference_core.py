"""A plain NumPy model of the core: it maps the streams of ADR 4 to the output stream. No timing, no memory.

It is the oracle of the stream contract: fed by `core.streams` it equals `models.golden` bit for bit, in every
mode.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode

from ..errors import StreamError
from ..program.layout import TileLayout, unpack_weights
from .streams import Command, LayerStreams, output_beats

Int16 = npt.NDArray[np.int16]
Int64 = npt.NDArray[np.int64]
_Take = Callable[[str, int], Int16]


def execute_streams_reference(streams: LayerStreams, design: Design) -> tuple[Int16, int]:
    """Compute (output beats (beats, out_words), saturations) of a core of ADR 4, command by command.

    Values are exact: while the 48-bit accumulator does not wrap, sums of int16 products stay below 2**53 and
    so fit float64. StreamError when a stream is shorter or longer than its commands say.
    """
    cursor = {"input": 0, "weight": 0, "residual": 0}

    def take(stream: str, beats: int) -> Int16:
        at = cursor[stream]
        words: Int16 = getattr(streams, stream)[at : at + beats]
        if len(words) != beats:
            raise StreamError(f"the {stream} stream ends after {at + len(words)} beats, before its commands do")
        cursor[stream] += beats
        return words

    parts: list[Int16] = [np.zeros((0, design.out_words), np.int16)]
    saturations = 0
    for command in streams.commands:
        values = _pool(command, take, design) if command.mode >= Mode.MAX_POOL else _gemm(command, take, design)
        if command.has_residual:
            residual = take("residual", output_beats(command, design)).reshape(command.rows, -1)
            values += residual[:, : command.cols].astype(np.int64) << command.residual_shift
        rounded = round_half_even(values, command.shift)
        saturations += int(np.count_nonzero((rounded < -32768) | (rounded > 32767)))
        words = np.zeros((command.rows, -(-command.cols // design.out_words) * design.out_words), np.int16)
        words[:, : command.cols] = np.clip(rounded, command.lo, command.hi)
        parts.append(words.reshape(-1, design.out_words))
    for stream, at in cursor.items():
        if at != len(getattr(streams, stream)):
            raise StreamError(f"the {stream} stream must have {at} beats, not {len(getattr(streams, stream))}")
    return np.concatenate(parts), saturations


def round_half_even(values: Int64, shift: int) -> Int64:
    """Divide by 2**shift and round to the nearest integer, halves to even.

    >>> round_half_even(np.array([1, 3, -1, -3, 5]), 1)
    array([ 0,  2,  0, -2,  2])
    """
    if shift == 0:
        return values
    floor = values >> shift
    rest, half = values & (1 << shift) - 1, 1 << (shift - 1)
    up: Int64 = ((rest > half) | (rest == half) & (floor & 1 == 1)).astype(np.int64)
    return floor + up


def _gemm(command: Command, take: _Take, design: Design) -> Int64:
    """(rows, cols) sums with bias, from the input and weight streams of one command."""
    width, _ = design.tile(command.mode)
    layout = TileLayout(p=command.p_tiles * width, cols=command.cols, mode=command.mode, design=design)
    words = take("weight", layout.beats).reshape(-1)
    weights, bias = unpack_weights(words, p=layout.p, columns=command.cols, mode=command.mode, design=design)
    beats = take("input", command.p_tiles * command.beats).reshape(command.p_tiles, command.beats, -1)

    def lane(first: int, rows: int) -> Int64:
        x = beats[:, :rows, first : first + width].transpose(1, 0, 2).reshape(rows, -1)
        return (x.astype(np.float64) @ weights.astype(np.float64)).astype(np.int64) + bias

    first = lane(0, command.beats)
    if not command.lane1_beats:
        return first
    second = lane(design.t_p, command.lane1_beats)
    together = np.stack([first[: len(second)], second], axis=1).reshape(-1, command.cols)
    return np.concatenate([together, first[len(second) :]])


def _pool(command: Command, take: _Take, design: Design) -> Int64:
    """(rows, cols) maxima or sums over taps."""
    taps = take("input", command.beats * command.p_tiles).reshape(command.beats, command.p_tiles, -1)
    taps = taps[:, :, : command.cols].astype(np.int64)
    return np.asarray(taps.max(axis=1) if command.mode is Mode.MAX_POOL else taps.sum(axis=1))
