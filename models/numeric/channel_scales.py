"""A GEMM at 8 bits: a real scale for every channel's weights, as a multiplier and a shift (ADR 75).

Weights are in steps of what is written for a step of what is read. A channel's scale is first rounded up to
`multiplier / 2**shift`, which the core multiplies by, and weights are then rounded in it: the scale itself is
exact. Scales are no finer than sums of 32 bits ask for.

>>> scale, multiplier, shift = scales(np.array([0.01, 1.0]))
>>> multiplier.tolist(), shift.tolist(), bool(np.all(scale == multiplier / 2.0**shift))
([83887, 65536], [23, 16], True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import QuantisationError
from .integers import LARGEST_CHANNEL_SHIFT, MULTIPLIER_BITS, RESIDUAL_BITS, Int64s
from .words import INT8, Doubles, Stored

LARGEST_WEIGHT = INT8.highest
MOST_SUM = (1 << 31) - (1 << 20)  # of |bias| and what weights can add, with room for their rounding
GIVEN = 1e-6  # of a scale, that float32 may take off one that a file gives
LEAST_SCALE = 2.0**-30  # steps written for a step of weight and input: of channels whose weights are zero


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledWeights:
    """The integers of a GEMM: weights (groups, P, C / groups), of each channel (C,), and of the layer."""

    weights: Stored
    bias: Int64s
    multipliers: Int64s
    shifts: Int64s
    shift: int
    residual_multiplier: int


def scales(wanted: Doubles, nearest: bool = False) -> tuple[Doubles, Int64s, Int64s]:
    """Return the least scales from those wanted on that the core can multiply by, multipliers and shifts.

    `nearest`: the nearest instead. All three have the shape of `wanted`.
    """
    _, exponents = np.frexp(wanted)
    shifts = np.clip(MULTIPLIER_BITS - exponents.astype(np.int64), 0, LARGEST_CHANNEL_SHIFT)
    exact = np.ldexp(wanted, shifts)
    multipliers: Doubles = np.rint(exact) if nearest else np.ceil(exact)
    carried = (multipliers == 1 << MULTIPLIER_BITS) & (shifts > 0)
    shifts = np.where(carried, shifts - 1, shifts)
    multipliers = np.where(carried, 1 << (MULTIPLIER_BITS - 1), multipliers)
    return np.asarray(np.ldexp(multipliers, -shifts)), multipliers.astype(np.int64), shifts


def least_scales(weights: Doubles, bias: Doubles) -> Doubles:
    """Return the finest scales (C,) with which weights (groups, P, C / groups) and bias (C,) fit."""
    largest = np.abs(weights).max(axis=1).reshape(-1)
    sums = np.abs(weights).sum(axis=1).reshape(-1) * -INT8.lowest + np.abs(bias)
    return np.asarray(np.maximum(np.maximum(largest / LARGEST_WEIGHT, sums / MOST_SUM), LEAST_SCALE))


@dataclass(frozen=True, kw_only=True)
class Zeros:
    """The words that stand for zero in what a layer reads, writes and adds."""

    read: int = 0
    written: int = 0
    added: int = 0


def scale_weights(
    name: str,
    weights: Doubles,
    bias: Doubles,
    residual: float | None,
    zeros: Zeros = Zeros(),
    grid: Doubles | None = None,
) -> ScaledWeights:
    """Return the integers for weights, bias and a residual's factor in steps of what is written.

    `residual` is None where none is added. `grid` (C,) is the scale of the channels' weights where a file
    gives it. Raises QuantisationError where sums leave 32 bits however they are scaled.
    """
    bias = bias + zeros.written
    least = least_scales(weights, np.abs(bias) + -INT8.lowest * (residual or 0.0))
    least = least if grid is None else np.maximum(grid, least * (1 - GIVEN))
    worst = float((np.abs(weights).sum(axis=1).reshape(-1) * -INT8.lowest + np.abs(bias)).max())
    guard, multiplier = _guard(name, worst, residual)
    scale, multipliers, shifts = scales(np.ldexp(least, guard), grid is not None)
    if residual is not None:
        bias = bias - math.ldexp(zeros.added * multiplier, -guard)
    scale = np.ldexp(scale, -guard)
    groups, _, per_group = weights.shape
    stored = np.clip(np.rint(weights / scale.reshape(groups, 1, per_group)), -LARGEST_WEIGHT, LARGEST_WEIGHT)
    read = zeros.read * stored.sum(axis=1).reshape(-1)
    return ScaledWeights(
        weights=stored.astype(np.int8),
        bias=(np.rint(bias / scale) - read).astype(np.int64),
        multipliers=multipliers,
        shifts=shifts,
        shift=guard,
        residual_multiplier=multiplier,
    )


def _guard(name: str, worst: float, residual: float | None) -> tuple[int, int]:
    """Return the guard bits of a sum with a residual, and its multiplier; `worst` is the largest sum."""
    if residual is None:
        return 0, 0
    most = (1 << RESIDUAL_BITS) - 1
    whole = worst + -INT8.lowest * residual
    guard = min(math.floor(math.log2(most / residual)), math.floor(math.log2(MOST_SUM / max(1.0, whole))))
    if guard < 0:
        raise QuantisationError(
            f"what layer '{name}' adds must be within {most} steps of its sum for each of its own, and 32 bits for every "
            f"input, and a step of its residual is {residual:.3g}, its largest sum {worst:.3g}"
        )
    guard = min(guard, INT8.largest_shift)
    return guard, round(math.ldexp(residual, guard))
