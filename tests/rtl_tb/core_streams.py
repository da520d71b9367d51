"""Random streams for the core, valid by ADR 4: any mode after any other, tails, lanes, residuals.

Expected outputs come from `hls.core.execute_streams_reference`. `hls.core.core_vectors` draws streams too,
but few and short ones that are the same with every NumPy, since each project carries them; these reach every
depth, shift and extreme word.

>>> from fluidnpu.dse.testing import tiny_design
>>> streams = random_streams(np.random.default_rng(0), tiny_design(), commands=3)
>>> len(streams.commands), streams.commands[-1].last
(3, 1)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode
from fluidnpu.hls.core import LayerStreams, output_beats
from fluidnpu.hls.core.streams import Command
from fluidnpu.hls.core.vectors import core_modes
from fluidnpu.hls.program import pack_weights

Int16 = npt.NDArray[np.int16]


def random_streams(
    rng: np.random.Generator, design: Design, *, commands: int, modes: Sequence[Mode] | None = None, tiles: int = 4
) -> LayerStreams:
    """Streams of that many random commands with up to `tiles` P-tiles and `t_r` rows each; sums fit the
    design's accumulators.
    """
    chosen = [Mode(int(mode)) for mode in rng.choice([int(mode) for mode in modes or core_modes(design)], commands)]
    list_of = [
        random_command(rng, design, mode, tiles=tiles, last=int(at == commands)) for at, mode in enumerate(chosen, 1)
    ]
    return streams_of(rng, design, list_of)


def random_command(rng: np.random.Generator, design: Design, mode: Mode, *, tiles: int = 4, last: int = 0) -> Command:
    """One command; short ones are as likely as long ones."""
    width = design.tile(mode)[1]
    limit = design.t_r // 2 if mode is Mode.SPLIT else design.t_r
    beats = int(rng.integers(1, 1 + rng.choice([1, min(4, limit), limit])))
    cols = int(rng.choice([rng.integers(1, width + 1), width]))
    residual = int(rng.integers(0, 2))
    lo, hi = sorted(int(x) for x in rng.integers(-32768, 32768, 2))
    saturating = (-32768, 32767)
    return Command(
        mode=mode,
        beats=beats,
        lane1_beats=int(rng.choice([beats, rng.integers(0, beats + 1)])) if mode is Mode.LANES else 0,
        p_tiles=int(rng.integers(1, tiles + 1)),
        cols=cols,
        shift=_shift(rng, design, mode),
        residual_shift=int(rng.integers(0, min(31, design.acc_bits - 18) + 1)) if residual else 0,
        has_residual=residual,
        last=last,
        lo=(lo, saturating[0])[int(rng.integers(0, 2))],
        hi=(hi, saturating[1])[int(rng.integers(0, 2))],
    )


def _shift(rng: np.random.Generator, design: Design, mode: Mode) -> int:
    if mode >= Mode.MAX_POOL:
        return int(rng.integers(0, 4))
    around = min(20, design.acc_bits - 14)
    return int(rng.choice([0, 47, around, rng.integers(0, 48), rng.integers(around - 6, around + 3)]))


def streams_of(rng: np.random.Generator, design: Design, commands: Sequence[Command]) -> LayerStreams:
    """Random words for given commands."""
    empty = np.zeros((0, design.weight_slots * design.t_p), np.int16)
    return LayerStreams(
        commands=tuple(commands),
        input=np.concatenate([_input(rng, design, command) for command in commands]),
        weight=np.concatenate([empty, *[_weight(rng, design, c) for c in commands if c.mode < Mode.MAX_POOL]]),
        residual=np.concatenate([_residual(rng, design, command) for command in commands]),
        outputs=sum(output_beats(command, design) for command in commands),
    )


def _words(rng: np.random.Generator, shape: tuple[int, ...], limit: int = 1 << 15) -> Int16:
    """Uniform words with some extremes among them."""
    words = rng.integers(-limit, limit, shape)
    extreme = rng.random(shape)
    words[extreme < 0.05] = limit - 1
    words[extreme > 0.95] = -limit
    return words.astype(np.int16)


def _input(rng: np.random.Generator, design: Design, command: Command) -> Int16:
    width = design.tile(command.mode)[0]
    beats = np.zeros((command.p_tiles, command.beats, design.input_words), np.int16)
    if command.mode >= Mode.MAX_POOL:
        beats[..., : command.cols] = _words(rng, (command.p_tiles, command.beats, command.cols))
    else:
        beats[..., :width] = _words(rng, (command.p_tiles, command.beats, width))
    if command.mode is Mode.LANES:
        beats[:, : command.lane1_beats, design.t_p : 2 * design.t_p] = _words(
            rng, (command.p_tiles, command.lane1_beats, design.t_p)
        )
    return beats.reshape(-1, design.input_words)


def _weight(rng: np.random.Generator, design: Design, command: Command) -> Int16:
    p = command.p_tiles * design.tile(command.mode)[0]
    bits = design.acc_bits - 3  # of all products together: bias and residual may double that twice
    limit = min(1 << 15, max(1, (1 << bits - 15) // p))
    weights = _words(rng, (p, command.cols), limit)
    bias = rng.integers(-(1 << bits - 1), 1 << bits - 1, command.cols)
    return pack_weights(weights, bias, command.mode, design).reshape(-1, design.weight_slots * design.t_p)


def _residual(rng: np.random.Generator, design: Design, command: Command) -> Int16:
    groups = -(-command.cols // design.out_words)
    words = np.zeros((command.rows, groups * design.out_words), np.int16)
    words[:, : command.cols] = _words(rng, (command.rows, command.cols))
    words = words.reshape(-1, design.out_words)
    return words if command.has_residual else words[:0]
