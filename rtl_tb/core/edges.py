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

from fluidnpu.dse import Design, Mode
from fluidnpu.dse.testing import tiny_design
from fluidnpu.hls.core import Command, LayerStreams, core_vectors, execute_streams_reference, output_beats
from fluidnpu.hls.program import pack_weights

from .cells import SLICES, slice_model
from .model import CoreModel

TAPS = (255, 257, 483, 4097, 65535)
_TIMED = 20  # drawn vectors whose cycles are compared with those of the core without bugs
SPLIT: dict[str, Any] = {"t_r": 13, "t_p": 4, "t_c": 5, "split": True, "weight_slots": 3, "out_words": 4}
# Every group of output words begins at a bank, and vectors reach rows of the upper half banks.
ALIGNED: dict[str, Any] = {"t_r": 9, "t_p": 4, "t_c": 8, "split": True, "weight_slots": 2, "out_words": 4}
PIECES: dict[str, Any] = {"t_r": 13, "t_p": 5, "t_c": 6, "weight_slots": 2, "out_words": 4, "piece": 2, "broken": 2}


def edge_streams(design: Design, shift: int, residual_shift: int | None = None) -> LayerStreams:
    """Sums on both sides of each limit of int16, and on it: columns of one row, as many as there are.

    With a shift they are half a step apart. With `residual_shift` a residual of -1 brings them there.
    """
    half = 1 << shift >> 1
    sums = [side * (32768 << shift) + step * max(half, 1) for side in (1, -1) for step in range(-3, 4)]
    limit = 1 << design.acc_bits - 1
    sums = [value for value in sums if abs(value) + (1 << (residual_shift or 0)) < limit]
    width = design.tile(Mode.NORMAL)[1]
    commands, weights, residuals = [], [], []
    for at in range(0, len(sums), width):
        columns = np.array(sums[at : at + width], np.int64)
        commands.append(
            Command(
                mode=Mode.NORMAL,
                beats=1,
                p_tiles=1,
                cols=len(columns),
                shift=shift,
                has_residual=int(residual_shift is not None),
                residual_shift=residual_shift or 0,
                last=int(at + width >= len(sums)),
            )
        )
        bias = columns + (1 << residual_shift if residual_shift is not None else 0)
        nothing = np.zeros((design.tile(Mode.NORMAL)[0], len(columns)), np.int16)
        weights.append(pack_weights(nothing, bias, Mode.NORMAL, design).reshape(-1, design.weight_slots * design.t_p))
        groups = -(-len(columns) // design.out_words)
        row = np.zeros(groups * design.out_words, np.int16)
        row[: len(columns)] = -1
        residuals.append(row.reshape(-1, design.out_words))
    return LayerStreams(
        commands=tuple(commands),
        input=np.zeros((len(commands), design.input_words), np.int16),
        weight=np.concatenate(weights),
        residual=np.concatenate(residuals) if residual_shift is not None else residuals[0][:0],
        outputs=sum(output_beats(command, design) for command in commands),
    )


def long_pool(design: Design, taps: int, word: int) -> LayerStreams:
    """A sum pool of that many taps, each of which is `word` in every channel; its mean is the answer."""
    width = design.tile(Mode.SUM_POOL)[1]
    command = Command(mode=Mode.SUM_POOL, beats=2, p_tiles=taps, cols=width, shift=(taps - 1).bit_length(), last=1)
    beats = np.zeros((2 * taps, design.input_words), np.int16)
    beats[:, :width] = word
    return LayerStreams(
        commands=(command,),
        input=beats,
        weight=np.zeros((0, design.weight_slots * design.t_p), np.int16),
        residual=np.zeros((0, design.out_words), np.int16),
        outputs=output_beats(command, design),
    )


def edges(design: Design) -> Iterator[LayerStreams]:
    """Yield all for a design: every shift, with and without a residual, and every length of a pool."""
    for shift in range(design.acc_bits - 17):
        yield edge_streams(design, shift)
        yield edge_streams(design, shift, residual_shift=min(31, shift))
    for taps in TAPS:
        for word in (32767, -32768):
            yield long_pool(design, taps, word)


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
        if found := differs(model, streams, design):
            return found
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
