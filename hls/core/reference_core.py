"""A plain NumPy model of the core: it maps the streams of ADR 4 to the output stream. No timing, no memory.

It is the oracle of the stream contract: fed by `core.streams` it equals `models.golden` bit for bit, in every
mode.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode
from fluidnpu.models.numeric import WORDS, Stored

from ..errors import StreamError
from ..program.layout import TileLayout, scales, unpack_weights
from .streams import Command, LayerStreams, output_beats

Int64 = npt.NDArray[np.int64]
_Take = Callable[[str, int], Stored]


def execute_streams_reference(streams: LayerStreams, design: Design) -> tuple[Stored, int]:
    """Compute (output beats (beats, out_words), saturations) of a core of ADR 4, command by command.

    Values are exact: while the 48-bit accumulator does not wrap, sums of products stay below 2**53 and so fit
    float64. Raises StreamError when a stream is shorter or longer than its commands say.
    """
    cursor = {"input": 0, "weight": 0, "residual": 0}

    def take(stream: str, beats: int) -> Stored:
        at = cursor[stream]
        words: Stored = getattr(streams, stream)[at : at + beats]
        if len(words) != beats:
            raise StreamError(f"the {stream} stream ends after {at + len(words)} beats, before its commands do")
        cursor[stream] += beats
        return words

    word = WORDS[design.word_bits]
    parts: list[Stored] = [np.zeros((0, design.out_words), word.dtype)]
    saturations = 0
    for command in streams.commands:
        values = _pool(command, take, design) if command.mode >= Mode.MAX_POOL else _gemm(command, take, design)
        if command.has_residual:
            residual = take("residual", output_beats(command, design)).reshape(command.rows, -1)
            factor = 1 << command.residual_shift if word is WORDS[16] else command.residual_multiplier
            values += residual[:, : command.cols].astype(np.int64) * factor
        rounded = round_half_even(values, command.shift)
        saturations += word.beyond(rounded)
        words = np.zeros((command.rows, -(-command.cols // design.out_words) * design.out_words), word.dtype)
        words[:, : command.cols] = np.clip(rounded, command.lo, command.hi)
        parts.append(words.reshape(-1, design.out_words))
    for stream, at in cursor.items():
        if at != len(getattr(streams, stream)):
            raise StreamError(f"the {stream} stream must have {at} beats, not {len(getattr(streams, stream))}")
    return np.concatenate(parts), saturations


def round_half_even(values: Int64, shift: int | Int64) -> Int64:
    """Divide by 2**shift, one of all values or of each, and round to the nearest integer, halves to even.

    The result has the shape of the values.

    >>> round_half_even(np.array([1, 3, -1, -3, 5]), 1)
    array([ 0,  2,  0, -2,  2])
    """
    floor, whole = values >> shift, np.int64(1) << shift
    rest, half = values & whole - 1, whole >> 1
    up: Int64 = ((rest > half) | (rest == half) & (floor & 1 == 1) & (half > 0)).astype(np.int64)
    return floor + up


def _gemm(command: Command, take: _Take, design: Design) -> Int64:
    """(rows, cols) sums with bias, scaled where columns have a scale, from the streams of one command."""
    width, _ = design.tile(command.mode)
    layout = TileLayout(p=command.p_tiles * width, cols=command.cols, mode=command.mode, design=design)
    words = take("weight", layout.beats).reshape(-1)
    weights, header = unpack_weights(words, p=layout.p, columns=command.cols, mode=command.mode, design=design)
    bias, multipliers, shifts = scales(header, design)
    beats = take("input", command.p_tiles * command.beats).reshape(command.p_tiles, command.beats, -1)

    def lane(first: int, rows: int) -> Int64:
        x = beats[:, :rows, first : first + width].transpose(1, 0, 2).reshape(rows, -1)
        sums = (x.astype(np.float64) @ weights.astype(np.float64)).astype(np.int64) + bias
        return round_half_even(sums * multipliers, shifts) if len(multipliers) else sums

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
