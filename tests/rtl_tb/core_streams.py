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
from fluidnpu.hls.program import headers, pack_weights
from fluidnpu.models.numeric import WORDS, Stored

Int64 = npt.NDArray[np.int64]


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
    word = WORDS[design.word_bits]
    saturating = word.lowest, word.highest
    lo, hi = sorted(int(x) for x in rng.integers(word.lowest, word.highest + 1, 2))
    if word is WORDS[8]:
        shifts = {"shift": int(rng.integers(0, 32)) if rng.integers(0, 2) else int(rng.integers(0, 9))}
        shifts |= {"residual_multiplier": int(rng.choice([rng.integers(0, 1 << 16), 65535, 1])) if residual else 0}
    else:
        most = min(31, design.acc_bits - 18)
        shifts = {"shift": _shift(rng, design, mode)}
        shifts |= {"residual_shift": int(rng.integers(0, most + 1)) if residual else 0}
    return Command(
        mode=mode,
        beats=beats,
        lane1_beats=int(rng.choice([beats, rng.integers(0, beats + 1)])) if mode is Mode.LANES else 0,
        p_tiles=int(rng.integers(1, tiles + 1)),
        cols=cols,
        **shifts,
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
    empty = np.zeros((0, design.weight_slots * design.t_p), WORDS[design.word_bits].dtype)
    return LayerStreams(
        commands=tuple(commands),
        input=np.concatenate([_input(rng, design, command) for command in commands]),
        weight=np.concatenate([empty, *[_weight(rng, design, c) for c in commands if c.mode < Mode.MAX_POOL]]),
        residual=np.concatenate([_residual(rng, design, command) for command in commands]),
        outputs=sum(output_beats(command, design) for command in commands),
    )


def _words(rng: np.random.Generator, design: Design, shape: tuple[int, ...]) -> Stored:
    """Uniform words with some extremes among them."""
    word = WORDS[design.word_bits]
    return _drawn(rng, shape, word.lowest, word.highest).astype(word.dtype)


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], lowest: int, highest: int) -> Int64:
    words = rng.integers(lowest, highest + 1, shape)
    extreme = rng.random(shape)
    words[extreme < 0.05] = highest
    words[extreme > 0.95] = lowest
    words[rng.random(shape[:-1]) < 0.05] = lowest
    return words


def _input(rng: np.random.Generator, design: Design, command: Command) -> Stored:
    width = design.tile(command.mode)[0]
    shape = (command.p_tiles, command.beats)
    beats = np.zeros((*shape, design.input_words), WORDS[design.word_bits].dtype)
    if command.mode >= Mode.MAX_POOL:
        beats[..., : command.cols] = _words(rng, design, (*shape, command.cols))
    else:
        beats[..., :width] = _words(rng, design, (*shape, width))
    if command.mode is Mode.LANES:
        beats[:, : command.lane1_beats, design.t_p : 2 * design.t_p] = _words(
            rng, design, (command.p_tiles, command.lane1_beats, design.t_p)
        )
    return beats.reshape(-1, design.input_words)


def _weight(rng: np.random.Generator, design: Design, command: Command) -> Stored:
    p = command.p_tiles * design.tile(command.mode)[0]
    bits = design.acc_bits - 3  # of all products together: bias and residual may double that twice
    word = WORDS[design.word_bits]
    limit = min(word.highest + 1, max(1, (1 << bits - word.bits + 1) // p))
    # Words of 8 bits are packed: no weight is -128 (ADR 75).
    weights = _drawn(rng, (p, command.cols), -limit if word is WORDS[16] else 1 - limit, limit - 1)
    weights[:, rng.random(command.cols) < 0.2] = int(rng.choice([limit - 1, 1 - limit]))
    bias = rng.integers(-(1 << bits - 1), 1 << bits - 1, command.cols)
    header = headers(bias >> int(rng.integers(0, 12)), *_scales(rng, command, p)) if word is WORDS[8] else bias
    packed = pack_weights(weights.astype(word.dtype), header, command.mode, design)
    return packed.reshape(-1, design.weight_slots * design.t_p)


def _scales(rng: np.random.Generator, command: Command, p: int) -> tuple[Int64, Int64]:
    """A multiplier and a shift for each column, with which many results are words and q fits its 32 bits."""
    multipliers = rng.integers(0, 1 << 17, command.cols)
    multipliers[rng.random(command.cols) < 0.2] = rng.choice([1, (1 << 17) - 1, 1 << 16])
    around = max(17, 22 + p.bit_length() // 2 - command.shift)
    shifts = np.where(rng.random(command.cols) < 0.7, around + rng.integers(-2, 3, command.cols), rng.integers(17, 48))
    return multipliers, np.clip(shifts, 17, 47)


def _residual(rng: np.random.Generator, design: Design, command: Command) -> Stored:
    groups = -(-command.cols // design.out_words)
    words = np.zeros((command.rows, groups * design.out_words), WORDS[design.word_bits].dtype)
    words[:, : command.cols] = _words(rng, design, (command.rows, command.cols))
    words = words.reshape(-1, design.out_words)
    return words if command.has_residual else words[:0]
