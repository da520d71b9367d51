"""Test vectors of the core: random streams in all modes with the answers of the reference core.

They are deterministic and independent of a network. The generated test bench runs them in Vivado's C
simulation; every other form of the core is checked against the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fluidnpu.dse import Design, Mode

from ..program.fbcb import deepest_block
from ..program.layout import GEMM_MODES, Int16, pack_weights
from .csim import expectation, job
from .reference_core import execute_streams_reference
from .streams import Command, LayerStreams, output_beats

ROWS = 7  # most beats of a command: small, since every project carries these files
SEED = 2019
BOUNDS = ((-32768, 32767), (0, 32767), (-20000, 20000), (0, 20000))  # none, ReLU, and two that cut


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


def core_vectors(design: Design, seed: int = SEED) -> Iterator[tuple[LayerStreams, Int16, int]]:
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
                _words(rng, beats * command.has_residual, design.out_words)
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
    return Command(
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


def _input(rng: _Random, command: Command, design: Design) -> Int16:
    """Random beats, with the zeros that ADR 4 requires where the mode uses no words."""
    beats = _words(rng, command.beats * command.p_tiles, design.input_words)
    if command.mode not in GEMM_MODES:
        beats[:, command.cols :] = 0
        return beats
    if command.mode is Mode.LANES:
        beats[:, 2 * design.t_p :] = 0
        beats.reshape(command.p_tiles, command.beats, -1)[:, command.lane1_beats :, design.t_p :] = 0
    else:
        beats[:, design.tile(command.mode)[0] :] = 0
    return beats


def _weights(rng: _Random, command: Command, design: Design) -> Int16:
    """Random weights and biases, small enough for partial sums of the design's `acc_bits`."""
    beat_words = design.weight_slots * design.t_p
    if command.mode not in GEMM_MODES:
        return np.zeros((0, beat_words), np.int16)
    p = command.p_tiles * design.tile(command.mode)[0]
    most = min(32767, (1 << (design.acc_bits - 18)) // p)
    weights = rng.integers(-most, most + 1, (p, command.cols)).astype(np.int16)
    bias = rng.integers(-(1 << (design.acc_bits - 6)), 1 << (design.acc_bits - 6), (command.cols,)) >> 8
    return pack_weights(weights, bias, command.mode, design).reshape(-1, beat_words)


def _words(rng: _Random, beats: int, words: int) -> Int16:
    return rng.integers(-32768, 32768, (beats, words)).astype(np.int16)
