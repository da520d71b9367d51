"""Streams at the edges of the core's arithmetic: sums at the limits of a word, pools of very many taps.

>>> from fluidnpu.dse.testing import tiny_design
>>> len(edge_streams(tiny_design(), shift=3).commands), long_pool(tiny_design(), 300, -1).commands[0].shift
(2, 9)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.testing import tiny_design
from fluidnpu.hls.core import Command, LayerStreams, core_vectors, execute_streams_reference, output_beats
from fluidnpu.hls.program import headers, pack_weights
from fluidnpu.models.numeric import WORDS

from .cells import SLICES, slice_model
from .model import CoreModel

TAPS = (255, 257, 483, 4097, 65535)
_TIMED = 20  # drawn vectors whose cycles are compared with those of the core without bugs
SPLIT: dict[str, Any] = {"t_r": 13, "t_p": 4, "t_c": 5, "split": True, "weight_slots": 3, "out_words": 4}
# Every group of output words begins at a bank, and vectors reach rows of the upper half banks.
ALIGNED: dict[str, Any] = {"t_r": 9, "t_p": 4, "t_c": 8, "split": True, "weight_slots": 2, "out_words": 4}
# Chains of words of 8 bits in two segments, of which the first is shorter.
BYTES: dict[str, Any] = {
    "t_r": 13, "t_p": 19, "t_c": 8, "weight_slots": 2, "out_words": 4, "word_bits": 8, "field_bits": 17, "model": "exact"
}  # fmt: skip
PIECES: dict[str, Any] = {"t_r": 13, "t_p": 5, "t_c": 6, "weight_slots": 2, "out_words": 4, "piece": 2, "broken": 2}


def edge_streams(design: Design, shift: int, residual_shift: int | None = None) -> LayerStreams:
    """Sums on both sides of each limit of a word, and on it: columns of one row, as many as there are.

    With a shift they are half a step apart. With `residual_shift` a residual of -1 brings them there.
    """
    lift = 1 << residual_shift if residual_shift is not None else 0
    sums = np.array([value + lift for value in _beside(design, shift, lift)], np.int64)
    fields = {"shift": shift, "residual_shift": residual_shift or 0, "has_residual": int(residual_shift is not None)}
    return _biases(design, sums, fields)


def scaled_edge_streams(design: Design, scale: int, guard: int, residual_multiplier: int | None = None) -> LayerStreams:
    """The same for words of 8 bits: sums are multiplied and shifted by `scale`, then shifted by `guard`.

    The multiplier is a power of two, so that sums lie half a step apart; it is larger where they would not
    fit otherwise.
    """
    power = min(16, max(0, scale + guard - 20))
    lift = residual_multiplier or 0
    shift = scale + guard - power
    within = 1 << min(31, 31 + scale - power)
    sums = [value + (lift << scale >> power) for value in _beside(design, shift, lift << scale >> power)]
    bias = np.array([value for value in sums if abs(value) < within], np.int64)
    scales = np.full(len(bias), 1 << power), np.full(len(bias), scale)
    fields = {
        "shift": guard,
        "residual_multiplier": lift,
        "has_residual": int(residual_multiplier is not None),
    }
    return _biases(design, headers(bias, *scales), fields)


def sticky_streams(design: Design, scale: int) -> LayerStreams:
    """Sums of words of 8 bits that, scaled, lie a very little above a tie whose even neighbour is below."""
    half = 1 << scale - 1
    sums = {factor: pow(factor, -1, half) * 3 % half if half > 1 else 0 for factor in range(3, 250, 2)}
    chosen = {factor: value for factor, value in sums.items() if value and (value * factor >> scale - 1) % 4 == 1}
    factors = np.array(list(chosen)[:8], np.int64)
    header = headers(np.array([chosen[int(at)] for at in factors], np.int64), factors, np.full(len(factors), scale))
    return _biases(design, header, {"shift": 0, "residual_multiplier": 0, "has_residual": 0})


def _beside(design: Design, shift: int, lift: int) -> list[int]:
    """Sums within an accumulator around each limit of a word, and around nothing, half a step apart."""
    word = WORDS[design.word_bits]
    half = max(1 << shift >> 1, 1)
    near = [side * (word.highest + 1 << shift) + step * half for side in (1, -1) for step in range(-3, 4)]
    near += [step * half for step in range(-5, 6)] if word is WORDS[8] else []
    return [value for value in near if abs(value) + max(1, lift) < 1 << design.acc_bits - 1]


def _biases(design: Design, header: npt.NDArray[np.int64], fields: dict[str, int]) -> LayerStreams:
    """Commands of one row each with these headers and no products; residuals, if any, are -1."""
    width, columns = design.tile(Mode.NORMAL)
    word = WORDS[design.word_bits]
    dtype = word.dtype
    commands, weights, residuals = [], [], [np.zeros((0, design.out_words), dtype)]
    for at in range(0, len(header), columns):
        part = header[at : at + columns]
        last = int(at + columns >= len(header))
        bounds = {"lo": word.lowest, "hi": word.highest}
        commands.append(Command(mode=Mode.NORMAL, beats=1, p_tiles=1, cols=len(part), last=last, **bounds, **fields))
        nothing = np.zeros((width, len(part)), dtype)
        weights.append(pack_weights(nothing, part, Mode.NORMAL, design).reshape(-1, design.weight_slots * design.t_p))
        row = np.zeros(-(-len(part) // design.out_words) * design.out_words, dtype)
        row[: len(part)] = -1
        residuals.append(row.reshape(-1, design.out_words))
    return LayerStreams(
        commands=tuple(commands),
        input=np.zeros((len(commands), design.input_words), dtype),
        weight=np.concatenate(weights),
        residual=np.concatenate(residuals if fields["has_residual"] else residuals[:1]),
        outputs=sum(output_beats(command, design) for command in commands),
    )


def extreme_streams(design: Design, mode: Mode) -> LayerStreams:
    """One P-tile of words of 8 bits whose products all are as large as can be: lower sums leave their fields.

    Columns have every pair of signs, rows all words at either end and half of them at each.
    """
    width, columns = design.tile(mode)
    word = WORDS[design.word_bits]
    rows = np.full((4, width), word.lowest, word.dtype)
    rows[1], rows[2, ::2], rows[3, : width // 2] = word.highest, word.highest, word.highest
    signs = np.array([1, 1, -1, -1, 1, -1, -1, 1])[np.arange(columns) % 8]
    weights = np.tile(word.highest * signs, (width, 1)).astype(word.dtype)
    scale = (width << word.bits).bit_length() - word.bits + 1
    header = headers(np.zeros(columns, np.int64), np.ones(columns, np.int64), np.full(columns, scale + 6))
    lanes = 2 if mode is Mode.LANES else 1
    command = Command(
        mode=mode, beats=len(rows), lane1_beats=len(rows) * (lanes - 1), p_tiles=1, cols=columns, last=1,
        lo=word.lowest, hi=word.highest,
    )  # fmt: skip
    beats = np.zeros((len(rows), design.input_words), word.dtype)
    beats[:, : lanes * width] = np.concatenate([rows, rows[::-1]][:lanes], axis=1)
    return LayerStreams(
        commands=(command,),
        input=beats,
        weight=pack_weights(weights, header, mode, design).reshape(-1, design.weight_slots * design.t_p),
        residual=np.zeros((0, design.out_words), word.dtype),
        outputs=output_beats(command, design),
    )


def long_pool(design: Design, taps: int, word: int) -> LayerStreams:
    """A sum pool of that many taps, each of which is `word` in every channel; its mean is the answer."""
    width = design.tile(Mode.SUM_POOL)[1]
    stored = WORDS[design.word_bits]
    bounds = {"shift": (taps - 1).bit_length(), "lo": stored.lowest, "hi": stored.highest}
    command = Command(mode=Mode.SUM_POOL, beats=2, p_tiles=taps, cols=width, last=1, **bounds)
    beats = np.zeros((2 * taps, design.input_words), stored.dtype)
    beats[:, :width] = word
    return LayerStreams(
        commands=(command,),
        input=beats,
        weight=np.zeros((0, design.weight_slots * design.t_p), stored.dtype),
        residual=np.zeros((0, design.out_words), stored.dtype),
        outputs=output_beats(command, design),
    )


def edges(design: Design) -> Iterator[LayerStreams]:
    """Yield all for a design: every shift, with and without a residual, and every length of a pool."""
    word = WORDS[design.word_bits]
    if word is WORDS[16]:
        for shift in range(design.acc_bits - 17):
            yield edge_streams(design, shift)
            yield edge_streams(design, shift, residual_shift=min(31, shift))
    else:
        for scale in range(48):
            yield scaled_edge_streams(design, scale, 0)
        for scale in range(5, 33):
            yield sticky_streams(design, scale)
        for guard in range(32):
            yield scaled_edge_streams(design, 0, guard)
            yield scaled_edge_streams(design, 17, guard, min((1 << 16) - 1, 1 << guard))
        for mode in (Mode.NORMAL, *((Mode.WIDE, Mode.LANES) if design.stackable else ())):
            yield extreme_streams(design, mode)
    for taps in TAPS:
        for tap in (word.highest, word.lowest):
            yield long_pool(design, taps, tap)


def differs(model: CoreModel, streams: LayerStreams, design: Design) -> str:
    """Return what differs between the core and the stream model, or ""."""
    expected, saturations = execute_streams_reference(streams, design)
    run = model.run(streams)
    wrong = np.argwhere(run.output != expected)
    if len(wrong):
        beat, word = (int(at) for at in wrong[0])
        return f"word {word} of beat {beat} is {run.output[beat, word]} and must be {expected[beat, word]}"
    if run.saturations != saturations:
        return f"{run.saturations} words saturate and {saturations} must"
    return ""


def first_difference(
    edits: tuple[tuple[str, str, str], ...] = (), drawn: int = 0, *, numbers: Mapping[str, Any] = SPLIT, cells: str = ""
) -> str:
    """Return the first difference on an array, with bugs put in by `edits`, or "".

    After the edges come `drawn` times the vectors of a project, with other numbers and with pauses. A core
    with bugs must also take as many cycles as one without, which the tests hold to the formulas. `numbers`:
    of the array, as SPLIT, ALIGNED and PIECES. `cells`: one of SLICES, or "" for inferred arithmetic.
    """
    design = tiny_design().changed(**numbers)
    model = replace(CoreModel.of(design), edits=edits)
    if cells:
        inside = {**model.parameters, "Cells": SLICES[cells]}
        model = replace(model, parameters=inside, cells=(("cells.v", slice_model(cells)),))
    unchanged = replace(model, edits=())
    for streams in edges(design):
        if difference := differs(model, streams, design):
            return difference
    for seed in range(drawn):
        pause = {"output": 0.5, "input": 0.2, "weight": 0.3} if seed % 2 else {}
        for streams, expected, saturations in core_vectors(design, seed=seed):
            run = model.run(streams, stalls=pause, seed=seed + 1)
            if not np.array_equal(run.output, expected) or run.saturations != saturations:
                return f"vectors of seed {seed} differ"
            if edits and seed < _TIMED:
                cycles = unchanged.run(streams, stalls=pause, seed=seed + 1).total_cycles
                if run.total_cycles != cycles:
                    return f"vectors of seed {seed} take {run.total_cycles} cycles and must take {cycles}"
    return ""
