"""Operators that look at several values: reductions, the largest, products of matrices, max pools."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from .call import Array, Operator, OperatorCall, axis_of, bounded, together


def _reduced(function: Callable[..., Any]) -> Operator:
    def run(call: OperatorCall) -> Array:
        x, axes = call[0], call.integers("axes", 1)
        along: tuple[int, ...] | None = tuple(axis_of(axis, x.ndim) for axis in axes or ())
        if not axes and not call.integer("noop_with_empty_axes", 0):
            along = None
        made = function(x, axis=along, keepdims=bool(call.integer("keepdims", 1)))
        return np.asarray(made, x.dtype)

    return run


def _log_sum_exp(x: Array, axis: Any, keepdims: bool) -> Array:
    top = x.max(axis=axis, keepdims=True)
    total = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return np.asarray(total if keepdims else np.squeeze(total, axis))


def _place(function: Callable[..., Any]) -> Operator:
    """Return the place of the largest or the smallest value: the first, or the last where that is asked."""

    def run(call: OperatorCall) -> Array:
        x = call[0]
        axis = axis_of(call.integer("axis", 0), x.ndim)
        last = bool(call.integer("select_last_index", 0))
        picks = function(np.flip(x, axis) if last else x, axis=axis)
        picks = x.shape[axis] - 1 - picks if last else picks
        return np.asarray(np.expand_dims(picks, axis) if call.integer("keepdims", 1) else picks, np.int64)

    return run


def _top(call: OperatorCall) -> tuple[Array, Array]:
    """Return the k largest values or the smallest, and their places; of equal ones the first comes first."""
    x = call[0]
    axis = axis_of(call.integer("axis", -1), x.ndim)
    wanted = call.integers("k", 1) if "k" not in call.attributes else [call.integer("k", 1)]
    k = wanted[0] if wanted else 1
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"k must be in 0..{x.shape[axis]}, not {k}")
    if call.integer("largest", 1):
        backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(backwards, axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    places = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int64)


def _running_sum(call: OperatorCall) -> Array:
    x = call[0]
    axis = axis_of(int(call[1].reshape(-1)[0]), x.ndim)
    backwards, exclusive = call.integer("reverse", 0), call.integer("exclusive", 0)
    work = np.flip(x, axis) if backwards else x
    total = np.cumsum(work, axis, dtype=x.dtype)
    total = total - work if exclusive else total
    return np.asarray(np.flip(total, axis) if backwards else total)


def _product(call: OperatorCall) -> Array:
    a, b = call[0], call[1]
    if a.ndim > 1 and b.ndim > 1:
        bounded([*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]])
    return np.asarray(np.matmul(a, b))


def _gemm(call: OperatorCall) -> Array:
    a = call[0].T if call.integer("transA", 0) else call[0]
    b = call[1].T if call.integer("transB", 0) else call[1]
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError("two matrices must be given")
    bounded([a.shape[0], b.shape[1]])
    made = np.asarray(call.number("alpha", 1.0), a.dtype) * (a @ b)
    bias = call.optional(2)
    if bias is not None and together(made, bias) != made.shape:
        raise ValueError(f"a bias {bias.shape} must fit the product {made.shape}")
    return np.asarray(made if bias is None else made + np.asarray(call.number("beta", 1.0), a.dtype) * bias)


def is_weighted_sum(attributes: Any, kernel: tuple[int, ...]) -> bool:
    """True for a convolution of one window of size one, which is a weighted sum of channels."""
    usual = {"strides": 1, "dilations": 1, "pads": 0}
    plain = all(set(np.atleast_1d(attributes[key])) <= {value} for key, value in usual.items() if key in attributes)
    return plain and set(kernel) <= {1} and attributes.get("group", 1) == 1


def _weighted(call: OperatorCall) -> Array:
    """Weigh channels (N, C, ...) by a kernel of size one, as decoders of box distributions do."""
    x, weights, bias = call[0], call[1], call.optional(2)
    if not is_weighted_sum(call.attributes, weights.shape[2:]):
        raise ValueError("a convolution must have a window of size one, a stride of one and no padding or groups")
    bounded([x.shape[0], weights.shape[0], *x.shape[2:]])
    flat = x.reshape(x.shape[0], x.shape[1], -1)
    made = np.matmul(weights.reshape(weights.shape[0], -1), flat)
    made = made if bias is None else made + bias[:, None]
    return np.asarray(made, x.dtype).reshape(x.shape[0], weights.shape[0], *x.shape[2:])


def _max_pool(call: OperatorCall) -> Array:
    """Return the largest of each window of maps (N, C, spatial...), padding apart."""
    x, kernel = call[0], call.integers("kernel_shape") or []
    rank = len(kernel)
    if rank != x.ndim - 2 or call.integer("storage_order", 0):
        raise ValueError(f"a window {kernel} must have the axes of {x.shape} behind its channels")
    steps = call.integers("strides") or [1] * rank
    spread = call.integers("dilations") or [1] * rank
    pads = call.integers("pads") or [0] * 2 * rank
    extent = [(size - 1) * apart + 1 for size, apart in zip(kernel, spread, strict=True)]
    automatic = call.text("auto_pad", "NOTSET")
    if min([*steps, *spread, *kernel]) < 1 or min(pads) < 0 or len({len(steps), len(spread), rank}) > 1:
        raise ValueError("kernel, strides and dilations must be at least 1, and pads at least 0")
    if automatic.startswith("SAME"):
        pads = _same(list(x.shape[2:]), extent, steps, lower=automatic == "SAME_LOWER")
    sizes = []
    for axis in range(rank):
        room = x.shape[2 + axis] + pads[axis] + pads[rank + axis] - extent[axis]
        count = (-(-room // steps[axis]) if call.integer("ceil_mode", 0) else room // steps[axis]) + 1
        if call.integer("ceil_mode", 0) and (count - 1) * steps[axis] >= x.shape[2 + axis] + pads[axis]:
            count -= 1  # a window that lies in the padding alone is none
        sizes.append(count)
    behind = [
        max(0, (sizes[axis] - 1) * steps[axis] + extent[axis] - x.shape[2 + axis] - pads[axis]) for axis in range(rank)
    ]
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    around = [(0, 0), (0, 0), *((pads[axis], behind[axis]) for axis in range(rank))]
    bounded([size + sum(side) for size, side in zip(x.shape, around, strict=True)])
    made = np.pad(x, around, constant_values=least)
    for axis in range(rank):  # a window's maximum is that of its columns' maxima
        parts = (
            np.take(made, np.arange(sizes[axis]) * steps[axis] + at * spread[axis], axis=2 + axis)
            for at in range(kernel[axis])
        )  # one at a time, since a window may be as large as its map
        made = reduce(np.maximum, parts)
    return np.asarray(made)


def _same(sizes: list[int], extent: list[int], steps: list[int], *, lower: bool) -> list[int]:
    """Return the padding with which a map of n becomes one of ceil(n / stride)."""
    total = [
        max(0, (-(-size // step) - 1) * step + window - size)
        for size, step, window in zip(sizes, steps, extent, strict=True)
    ]
    before = [-(-pad // 2) if lower else pad // 2 for pad in total]
    return [*before, *(pad - first for pad, first in zip(total, before, strict=True))]


REDUCTIONS: dict[str, Operator] = {
    "ArgMax": _place(np.argmax),
    "ArgMin": _place(np.argmin),
    "Conv": _weighted,
    "CumSum": _running_sum,
    "Gemm": _gemm,
    "MatMul": _product,
    "MaxPool": _max_pool,
    "ReduceL1": _reduced(lambda x, **along: np.abs(x).sum(**along)),
    "ReduceL2": _reduced(lambda x, **along: np.sqrt(np.square(x).sum(**along))),
    "ReduceLogSumExp": _reduced(_log_sum_exp),
    "ReduceMax": _reduced(np.max),
    "ReduceMean": _reduced(np.mean),
    "ReduceMin": _reduced(np.min),
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "ReduceSumSquare": _reduced(lambda x, **along: np.square(x).sum(**along)),
    "TopK": _top,
}


def macs_of(operator: str, call: OperatorCall) -> int:
    """Return the multiply-accumulates of a call: of matrices, sums over channels and recurrent cells."""
    if operator == "MatMul":
        a, b = call[0].shape, call[1].shape
        batch = np.broadcast_shapes(a[:-2], b[:-2])
        return math.prod((*batch, *a[-2:], *(b[-1:] if len(b) > 1 else ())))
    if operator == "Gemm":
        depth = call[0].shape[0 if call.integer("transA", 0) else 1]
        return call[0].size * call[1].size // max(1, depth)
    if operator == "Conv":
        return call[0].size * call[1].shape[0]
    if operator in ("LSTM", "GRU", "RNN"):
        return call[0].shape[0] * call[0].shape[1] * (call[1].size + call[2].size)
    return 0
