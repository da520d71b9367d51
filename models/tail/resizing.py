"""Resize on the host: nearest and linear, along one axis after the other."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from .call import Array, Operator, OperatorCall, axis_of, bounded
from .sampling import COORDINATES, ROUNDINGS, Sampling, exact_scale

MOST_ALONG = 1 << 15  # outputs of an axis, whose reads are exact fractions: 1.4 s


def _resize(call: OperatorCall) -> Array:
    """Resize by scales or to sizes. Raises ValueError for a mode that is not built."""
    x, early = call[0], call.opset < 11
    mode = call.text("mode", "nearest")
    coordinates = "asymmetric" if early else call.text("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if early else call.text("nearest_mode", "round_prefer_floor")
    odd = call.integer("antialias", 0) or call.integer("exclude_outside", 0)
    odd = odd or call.text("keep_aspect_ratio_policy", "stretch") != "stretch"
    if mode not in ("nearest", "linear") or coordinates not in COORDINATES or rounding not in ROUNDINGS or odd:
        raise ValueError(f"mode {mode} with coordinates {coordinates} is not built")
    sampling = Sampling(linear=mode == "linear", coordinates=coordinates, rounding=rounding)
    sizes = None if early else call.optional(3)
    by_size = sizes is not None and sizes.size > 0
    given = sizes if sizes is not None and by_size else call[1 if early else 2]
    axes = call.integers("axes")
    places = range(x.ndim) if axes is None else [axis_of(axis, x.ndim) for axis in axes]
    shape, scales = list(x.shape), [Fraction(1)] * x.ndim
    for place, number in zip(places, given.reshape(-1).tolist(), strict=True):
        shape[place] = int(number) if by_size else math.floor(x.shape[place] * number)
        scales[place] = Fraction(shape[place], max(1, x.shape[place])) if by_size else exact_scale(number)
    if x.ndim > 2 and shape[0] != x.shape[0]:
        raise ValueError("the batch must keep its size")
    bounded(shape)
    if max(shape, default=0) > MOST_ALONG:
        raise ValueError(f"an axis must have at most {MOST_ALONG} outputs")
    made = x
    order = sorted(range(x.ndim), key=lambda axis: shape[axis] / max(1, x.shape[axis]))  # what shrinks comes first
    for axis in order:
        if scales[axis] != 1 or shape[axis] != x.shape[axis]:
            made = _along(made, axis, shape[axis], scales[axis], sampling)
    return made.astype(x.dtype, copy=False)


def _along(x: Array, axis: int, outputs: int, scale: Fraction, sampling: Sampling) -> Array:
    """Resize along one axis."""
    first, shares = _reads(x.shape[axis], outputs, scale, sampling)
    made = np.take(x, first, axis)
    if not sampling.linear:
        return made
    share = shares.reshape([-1 if place == axis else 1 for place in range(x.ndim)])
    after = np.take(x, np.minimum(first + 1, x.shape[axis] - 1), axis)
    return np.asarray(made + (after.astype(np.float64) - made) * share)


@lru_cache(256)
def _reads(size: int, outputs: int, scale: Fraction, sampling: Sampling) -> tuple[Array, Array]:
    """Return the first input that each output reads, and the share of the one behind it."""
    reads = [sampling.weights(output, size, outputs, scale) for output in range(outputs)]
    first = np.array([at for at, _ in reads], np.int64)
    return first, np.array([float(weights[1]) if len(weights) > 1 else 0.0 for _, weights in reads])


RESIZING: dict[str, Operator] = {"Resize": _resize}
