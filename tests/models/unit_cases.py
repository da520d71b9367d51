"""Units of the activation unit drawn at random, and ADR 69 word by word in plain Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fluidnpu.models.graph import Use
from fluidnpu.models.numeric import Unit

Int16s = npt.NDArray[np.int16]


def half_up(value: int, shift: int) -> int:
    return (value + (1 << shift >> 1)) >> shift


def oracle_word(unit: Unit, x: int, residual: int | None, channel: int) -> tuple[int, bool]:
    """What is stored for one word, and whether it saturated."""
    value, pieces = x, unit.pieces
    if unit.use is Use.TABLE:
        p, half = unit.window, 2**unit.window
        if x < -half:
            index, rest = 256, x + half
        elif x >= half:
            index, rest = 257, x - half
        else:
            index, rest = (x + half) >> (p - 7), (x + half) & (2 ** (p - 7) - 1)
        value = int(pieces[index, 0]) + half_up(int(pieces[index, 1]) * rest, unit.shift)
    elif unit.use is Use.PRODUCT:
        assert residual is not None
        value = half_up(x * residual, unit.shift)
    elif unit.use is Use.AFFINE:
        value = int(pieces[channel, 0]) + half_up(int(pieces[channel, 1]) * x, unit.shift)
    elif x < 0:
        value = half_up(int(pieces[channel, 1]) * x, unit.shift)
    return max(unit.lo, min(unit.hi, value)), not -32768 <= value <= 32767


def random_unit(rng: np.random.Generator, use: Use, channels: int, extreme: bool) -> Unit:
    """Any pieces, shift, window and bounds; extreme: pieces of the largest magnitudes alone."""
    count = {Use.TABLE: 258, Use.PRODUCT: 0}.get(use, channels)
    pieces = rng.integers(-32768, 32768, (count, 2)).astype(np.int16)
    if extreme:
        pieces = rng.choice(np.array([-32768, -32767, 32767], np.int16), (count, 2))
    if use is Use.SLOPE:
        pieces[:, 0] = 0
    lo, hi = sorted(int(bound) for bound in rng.choice([-32768, -32768, -100, 0, 6, 32767, 32767], 2, replace=False))
    return Unit(
        use=use,
        window=int(rng.integers(8, 16)) if use is Use.TABLE else 0,
        shift=int(rng.choice([0, 1, 14, 15, 30, 31, int(rng.integers(0, 32))])),
        lo=lo,
        hi=hi,
        pieces=pieces,
    )
