"""Test vectors of the core: random streams in all modes with the answers of the reference core.

They are deterministic and independent of a network. The generated test bench runs them in Vivado's C
simulation; every other form of the core is checked against the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode
from fluidnpu.models.numeric import WORDS, Stored, Word

from ..program.fbcb import deepest_block
from ..program.layout import GEMM_MODES, headers, pack_weights
from .csim import expectation, job
from .reference_core import execute_streams_reference
from .streams import Command, LayerStreams, output_beats

ROWS = 7  # most beats of a command: small, since every project carries these files
SEED = 2019
BOUNDS = ((-32768, 32767), (0, 32767), (-20000, 20000), (0, 20000))  # none, ReLU, and two that cut; of int16


class _Random:
    """Random integers from raw bits, since NumPy promises stability of its bit generators only."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def integer(self, low: int, high: int) -> int:
        """Draw one number from low..high - 1."""
        return low + int(self._bits.random_raw()) % (high - low)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Draw an array from low..high - 1."""
        raw = self._bits.random_raw(int(np.prod(shape)))
        return (raw % np.uint64(high - low)).astype(np.int64).reshape(shape) + low


def core_modes(design: Design) -> tuple[Mode, ...]:
    """The modes of a design's core, in the order of their codes."""
    modes = [Mode.NORMAL, Mode.MAX_POOL, Mode.SUM_POOL]
    if design.stackable:
        modes += [Mode.WIDE, Mode.LANES]
    if design.split:
        modes.append(Mode.SPLIT)
    return tuple(sorted(modes))


def core_vectors(design: Design, seed: int = SEED) -> Iterator[tuple[LayerStreams, Stored, int]]:
    """Draw (streams, output beats, saturations): a job of three commands a mode, then one of all."""
    rng = _Random(seed)
    modes = core_modes(design)
    for mode in modes:
        streams = _job(rng, [mode] * 3, design)
        yield streams, *execute_streams_reference(streams, design)
    streams = _job(rng, [*modes, *reversed(modes)], design)
    yield streams, *execute_streams_reference(streams, design)


def vector_files(design: Design) -> dict[str, bytes]:
    """Encode the vectors as the files `jobs.bin` and `expected.bin` of the generated test bench."""
    vectors = list(core_vectors(design))
    return {
        "jobs.bin": b"".join(job(streams) for streams, _, _ in vectors),
        "expected.bin": b"".join(expectation(output, saturations) for _, output, saturations in vectors),
    }


def _job(rng: _Random, modes: list[Mode], design: Design) -> LayerStreams:
    commands = [_command(rng, mode, design, last=at == len(modes) - 1) for at, mode in enumerate(modes)]
    outputs = [output_beats(command, design) for command in commands]
    return LayerStreams(
        commands=tuple(commands),
        input=np.concatenate([_input(rng, command, design) for command in commands]),
        weight=np.concatenate([_weights(rng, command, design) for command in commands]),
        residual=np.concatenate(
            [
                _words(rng, beats * command.has_residual, design.out_words, WORDS[design.word_bits])
                for command, beats in zip(commands, outputs, strict=True)
            ]
        ),
        outputs=sum(outputs),
    )


def _command(rng: _Random, mode: Mode, design: Design, last: bool) -> Command:
    gemm = mode in GEMM_MODES
    beats = rng.integer(1, min(ROWS, deepest_block(mode, design.t_r)) + 1)
    width = design.tile(mode)[1]
    has_residual = rng.integer(0, 2)
    p_tiles = rng.integer(1, 4)
    words = p_tiles * design.tile(mode)[0]
    lo, hi = BOUNDS[rng.integer(0, len(BOUNDS))]
    command = Command(
        mode=mode,
        beats=beats,
        lane1_beats=rng.integer(0, beats + 1) if mode is Mode.LANES else 0,
        p_tiles=p_tiles,
        # Mostly full tiles, and any width: fewer columns take fewer beats of weights.
        cols=width - rng.integer(0, min(width, 3)) if rng.integer(0, 4) else rng.integer(1, width + 1),
        shift=13 + words.bit_length() // 2 if gemm else rng.integer(0, 3) * (mode is Mode.SUM_POOL),
        residual_shift=13 * has_residual * gemm,
        has_residual=has_residual,
        last=int(last),
        lo=lo,
        hi=hi,
    )
    return command if design.word_bits == 16 else _of_bytes(rng, command, gemm)


def _of_bytes(rng: _Random, command: Command, gemm: bool) -> Command:
    """The same command for words of 8 bits: columns have scales, and a residual has guard bits."""
    guard = rng.integer(0, 8) * command.has_residual if gemm else command.shift
    return replace(
        command,
        shift=guard,
        residual_shift=0,
        residual_multiplier=rng.integer(1, 1 << 8 + guard) * command.has_residual,
        lo=command.lo >> 8,
        hi=command.hi >> 8,
    )


def _input(rng: _Random, command: Command, design: Design) -> Stored:
    """Random beats, with the zeros that ADR 4 requires where the mode uses no words."""
    beats = _words(rng, command.beats * command.p_tiles, design.input_words, WORDS[design.word_bits])
    if command.mode not in GEMM_MODES:
        beats[:, command.cols :] = 0
        return beats
    if command.mode is Mode.LANES:
        beats[:, 2 * design.t_p :] = 0
        beats.reshape(command.p_tiles, command.beats, -1)[:, command.lane1_beats :, design.t_p :] = 0
    else:
        beats[:, design.tile(command.mode)[0] :] = 0
    return beats


def _weights(rng: _Random, command: Command, design: Design) -> Stored:
    """Random weights and headers, small enough for partial sums of the design's `acc_bits`."""
    beat_words = design.weight_slots * design.t_p
    word = WORDS[design.word_bits]
    if command.mode not in GEMM_MODES:
        return np.zeros((0, beat_words), word.dtype)
    p = command.p_tiles * design.tile(command.mode)[0]
    most = min(word.highest, (1 << (design.acc_bits - word.bits - 2)) // p)
    weights = rng.integers(-most, most + 1, (p, command.cols)).astype(word.dtype)
    bias = rng.integers(-(1 << (design.acc_bits - 6)), 1 << (design.acc_bits - 6), (command.cols,)) >> 8
    header = headers(bias, *_scales(rng, command, p)) if word is WORDS[8] else bias
    return pack_weights(weights, header, command.mode, design).reshape(-1, beat_words)


def _scales(rng: _Random, command: Command, p: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Multipliers and shifts of columns of `p` words, with which most results are words and some are not."""
    at = 22 + p.bit_length() // 2 - command.shift
    shifts = rng.integers(at - 1, at + 2, (command.cols,))
    return rng.integers(1 << 15, 1 << 17, (command.cols,)), shifts


def _words(rng: _Random, beats: int, words: int, word: Word) -> Stored:
    return rng.integers(word.lowest, word.highest + 1, (beats, words)).astype(word.dtype)
