"""Operators that move values: reshapes, slices, gathers, joins, and arrays made of their shapes."""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np

from .call import Array, Operator, OperatorCall, axis_of, bounded


def _reshape(call: OperatorCall) -> Array:
    """Reshape; 0 copies a size unless `allowzero`, -1 is what is left."""
    x, sizes = call[0], [int(size) for size in call[1].reshape(-1)]
    if not call.integer("allowzero", 0):
        sizes = [x.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    return x.reshape(sizes)


def _flatten(call: OperatorCall) -> Array:
    x, axis = call[0], call.integer("axis", 1)
    axis = axis + call[0].ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _squeeze(call: OperatorCall) -> Array:
    axes = call.integers("axes", 1)
    return np.squeeze(call[0], None if axes is None else tuple(axes))


def _unsqueeze(call: OperatorCall) -> Array:
    return np.expand_dims(call[0], tuple(call.integers("axes", 1) or ()))


def _transpose(call: OperatorCall) -> Array:
    return np.transpose(call[0], call.integers("perm"))


def _concat(call: OperatorCall) -> Array:
    arrays = [call[index] for index in range(len(call.inputs))]
    bounded([sum(array.size for array in arrays)])
    return np.concatenate(arrays, axis_of(call.integer("axis", 0), arrays[0].ndim))


def _split(call: OperatorCall) -> tuple[Array, ...]:
    """Split into parts of given sizes, else of one size, the last of which may be smaller."""
    x, sizes = call[0], call.integers("split", 1)
    axis = axis_of(call.integer("axis", 0), x.ndim)
    count = call.outputs
    if sizes is None:
        part = -(-x.shape[axis] // count)
        sizes = [max(0, min(part, x.shape[axis] - part * index)) for index in range(count)]
    if sum(sizes) != x.shape[axis] or len(sizes) != count or min(sizes) < 0:
        raise ValueError(f"{count} parts {sizes} must add up to {x.shape[axis]}")
    return tuple(np.split(x, list(accumulate(sizes))[:-1], axis))


def _slice(call: OperatorCall) -> Array:
    x = call[0]
    starts, ends = call.integers("starts", 1), call.integers("ends", 2)
    if starts is None or ends is None:
        raise ValueError("starts and ends must be given")
    axes, steps = call.integers("axes", 3), call.integers("steps", 4)
    picked = [slice(None)] * x.ndim
    for rank, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = axis_of(rank if axes is None else axes[rank], x.ndim)
        picked[axis] = _span(start, end, 1 if steps is None else steps[rank], x.shape[axis])
    return x[tuple(picked)]


def _span(start: int, end: int, step: int, size: int) -> slice:
    """Return a slice of ONNX's bounds, which are cut to the axis."""
    if step == 0:
        raise ValueError("a step must not be 0")
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    if step > 0:
        return slice(min(max(start, 0), size), min(max(end, 0), size), step)
    last = min(max(end, -1), size - 1)
    return slice(min(max(start, 0), size - 1), None if last < 0 else last, step)


def _indices(indices: Array, size: int) -> Array:
    """Return positions from 0; those below count from the end. Raises ValueError for others."""
    positions = np.where(indices < 0, indices + size, indices)
    if positions.size and (positions.min() < 0 or positions.max() >= size):
        raise ValueError(f"positions must be in {-size}..{size - 1}")
    return positions.astype(np.int64)


def _gather(call: OperatorCall) -> Array:
    x, indices = call[0], call[1]
    axis = axis_of(call.integer("axis", 0), x.ndim)
    bounded([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])
    return np.take(x, _indices(indices, x.shape[axis]), axis)


def _gather_elements(call: OperatorCall) -> Array:
    x = call[0]
    axis = axis_of(call.integer("axis", 0), x.ndim)
    if call[1].ndim != x.ndim:
        raise ValueError(f"positions must have {x.ndim} axes, not {call[1].ndim}")
    index = list(np.indices(call[1].shape, sparse=True))
    index[axis] = _indices(call[1], x.shape[axis])
    return x[tuple(index)]


def _gather_nd(call: OperatorCall) -> Array:
    x, indices, batches = call[0], call[1], call.integer("batch_dims", 0)
    depth = indices.shape[-1]
    lead = x.shape[:batches]
    if lead != indices.shape[:batches] or batches < 0:
        raise ValueError(f"the first {batches} sizes must be the same")
    bounded([*indices.shape[:-1], *x.shape[batches + depth :]])
    index = [grid.reshape(*grid.shape, *(1,) * (indices.ndim - 1 - batches)) for grid in np.indices(lead)]
    places = [_indices(indices[..., level], x.shape[batches + level]) for level in range(depth)]
    whole = (*index, *places)
    return np.asarray(x[whole])


def _scatter_nd(call: OperatorCall) -> Array:
    made, indices, updates = call[0].copy(), call[1], call[2]
    if call.text("reduction", "none") not in ("none", "add"):
        raise ValueError("a reduction must be none or add")
    if updates.shape != (*indices.shape[:-1], *made.shape[indices.shape[-1] :]):
        raise ValueError(f"updates must have the shape that positions {indices.shape} pick, not {updates.shape}")
    places = tuple(_indices(indices[..., level], made.shape[level]) for level in range(indices.shape[-1]))
    if call.text("reduction", "none") == "add":
        np.add.at(made, places, updates)
    else:
        made[places] = updates
    return made


def _scatter_elements(call: OperatorCall) -> Array:
    made, indices, updates = call[0].copy(), call[1], call[2]
    if call.text("reduction", "none") != "none":
        raise ValueError("a reduction must be none")
    if indices.ndim != made.ndim or updates.shape != indices.shape:
        raise ValueError(f"positions and updates must have {made.ndim} axes and one shape, not {updates.shape}")
    axis = axis_of(call.integer("axis", 0), made.ndim)
    index = list(np.indices(indices.shape, sparse=True))
    index[axis] = _indices(indices, made.shape[axis])
    made[tuple(index)] = updates
    return made


def _expand(call: OperatorCall) -> Array:
    sizes = tuple(int(size) for size in call[1].reshape(-1))
    return np.broadcast_to(call[0], bounded(np.broadcast_shapes(call[0].shape, bounded(sizes)))).copy()


def _tile(call: OperatorCall) -> Array:
    counts = [int(count) for count in call[1].reshape(-1)]
    bounded(counts)
    bounded([size * count for size, count in zip(call[0].shape, counts, strict=True)])
    return np.tile(call[0], counts)


def _pad(call: OperatorCall) -> Array:
    """Pad or crop; before opset 11 sizes and value are attributes."""
    x, mode = call[0], call.text("mode", "constant")
    pads, axes = call.integers("pads", 1), call.integers("axes", 3)
    if pads is None or mode not in ("constant", "reflect", "edge"):
        raise ValueError("pads must be given, and the mode be constant, reflect or edge")
    around = [(0, 0)] * x.ndim
    for rank, axis in enumerate(range(x.ndim) if axes is None else axes):
        around[axis_of(axis, x.ndim)] = (pads[rank], pads[rank + len(pads) // 2])
    bounded([max(0, size + before + after) for size, (before, after) in zip(x.shape, around, strict=True)])
    kept = tuple(
        slice(max(0, -before), size - max(0, -after)) for size, (before, after) in zip(x.shape, around, strict=True)
    )
    grown = [(max(0, before), max(0, after)) for before, after in around]
    if mode != "constant":
        return np.pad(x[kept], grown, mode=mode)  # type: ignore[call-overload, no-any-return]
    value = call.optional(2)
    fill = call.number("value", 0.0) if value is None else value.reshape(())
    return np.pad(x[kept], grown, constant_values=np.asarray(fill, x.dtype))


def _shape(call: OperatorCall) -> Array:
    return np.array(call[0].shape[call.integer("start", 0) : call.attributes.get("end", call[0].ndim)], np.int64)


def _size(call: OperatorCall) -> Array:
    return np.array(call[0].size, np.int64)


def _filled(call: OperatorCall) -> Array:
    value = np.asarray(call.attributes.get("value", np.zeros(1, np.float32)))
    return np.full(bounded([int(size) for size in call[0].reshape(-1)]), value.reshape(-1)[0], value.dtype)


def _range(call: OperatorCall) -> Array:
    start, limit, delta = (call[index].reshape(-1)[0] for index in range(3))
    if not delta or not np.isfinite([start, limit, delta]).all():
        raise ValueError("a range must be of finite numbers and have a step other than 0")
    (count,) = bounded([max(0, math.ceil((float(limit) - float(start)) / float(delta)))])
    return np.asarray(start + np.arange(count).astype(call[0].dtype) * delta, call[0].dtype)


def _one_hot(call: OperatorCall) -> Array:
    indices, values = call[0], call[2]
    depth = int(call[1].reshape(-1)[0])
    axis = axis_of(call.integer("axis", -1), indices.ndim + 1)
    bounded([*indices.shape, depth])
    hot = np.where(indices < 0, indices + depth, indices)[..., None] == np.arange(depth)
    return np.moveaxis(np.where(hot, values[1], values[0]), -1, axis)


def _non_zero(call: OperatorCall) -> Array:
    return np.array(np.nonzero(np.atleast_1d(call[0])), np.int64)


def _triangle(call: OperatorCall) -> Array:
    offset = call.optional(1)
    k = 0 if offset is None else int(offset.reshape(-1)[0])
    return np.asarray(np.triu(call[0], k) if call.integer("upper", 1) else np.tril(call[0], k))


def _depth_to_space(call: OperatorCall) -> Array:
    x, block = call[0], call.integer("blocksize", 1)
    batch, channels, height, width = x.shape
    if call.text("mode", "DCR") not in ("DCR", "CRD"):
        raise ValueError("a mode must be DCR or CRD")
    if call.text("mode", "DCR") == "DCR":
        split = x.reshape(batch, block, block, -1, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        split = x.reshape(batch, -1, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
    return split.reshape(batch, channels // (block * block), height * block, width * block)


def _space_to_depth(call: OperatorCall) -> Array:
    x, block = call[0], call.integer("blocksize", 1)
    batch, channels, height, width = x.shape
    split = x.reshape(batch, channels, height // block, block, width // block, block).transpose(0, 3, 5, 1, 2, 4)
    return split.reshape(batch, channels * block * block, height // block, width // block)


LAYOUT: dict[str, Operator] = {
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _triangle,
    "Unsqueeze": _unsqueeze,
}
