"""Operators that move values and compute nothing: other views of a plane, pieces of it, borders around it.

Reshape, Transpose, Split, Slice of channels and a channel shuffle cost nothing here: the layers that read the
view permute their weights (view.py). Where no reader can, a permuted 1x1 convolution gathers the channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from ...errors import UnsupportedOperatorError
from ...graph.shapes import Kind, Shape
from ...tail.sampling import Sampling
from ..file import MOST_ELEMENTS, MOST_EXTENT, Attributes, label, refuse
from .drafts import Padding, Plane
from .refusals import misfit
from .resizing import resize
from .view import AxisView, Indices
from .walk import Value, Walk

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_DEEPEST = 100  # planes inside planes
_BORDERS = {"h": (0, 2), "w": (1, 3)}


def _told(sizes: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, ("N", *sizes))) + ")"


def _flatten(walk: Walk, node: onnx.NodeProto) -> None:
    rank = len(walk.raw(node).view.axes)
    if Attributes(node).integer("axis", 1) not in (1, -rank):
        raise UnsupportedOperatorError(
            label(node), node.op_type, "does not keep the batch apart", "flatten from axis 1"
        )
    _put_moved(walk, node, lambda view: view.reshape((math.prod(view.shape),)), "cannot be flattened")


def _put_moved(walk: Walk, node: onnx.NodeProto, move: Any, why: str, axis: int | None = None) -> None:
    moved = walk.moved(node, move, axis=axis)
    if moved is None:
        raise misfit(
            node,
            why,
            "only channels can be split, joined and moved freely, and whole heights and widths with them",
        )
    walk.alias(node, replace(moved, unbatched=False))


def _unbatch(walk: Walk, node: onnx.NodeProto) -> None:
    """Join the batch of one with the values, as PyTorch's `as_strided` of a pooled map begins."""
    line = walk.moved(node, lambda view: view.reshape((math.prod(view.shape),)))
    assert line is not None
    walk.alias(node, replace(line, unbatched=True))


def _reshape(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.raw(node)
    given = walk.constant(node, 1).reshape(-1)
    target = [int(v) for v in given[:9]]
    shape = source.onnx_shape
    if not Attributes(node).integer("allowzero", 0):  # 0 copies a dimension
        target = [shape[i - 1] if v == 0 and 0 < i <= len(shape) else v for i, v in enumerate(target)]
    if walk.batch == 1 and source.pixel and given.size == 1 and given[0] in (-1, math.prod(shape)):
        _unbatch(walk, node)
        return
    batch_kept = bool(target) and given.size < 9 and target[0] in (0, -1, 1, walk.batch) and target.count(-1) <= 1
    why = f"turns {_told(shape)} into {tuple(target)}"
    if not batch_kept:
        raise misfit(node, why, "keep the batch as the first dimension and give the others as fixed sizes")
    sizes = target[1:]
    if -1 in sizes:
        rest = math.prod(v for v in sizes if v != -1)
        sizes = [math.prod(shape) // rest if v == -1 and rest else v for v in sizes]
    _put_moved(walk, node, lambda view: view.reshape(sizes), why)


def _transpose(walk: Walk, node: onnx.NodeProto) -> None:
    rank = len(walk.raw(node).view.axes)
    order = Attributes(node).ints("perm") or tuple(range(rank, -1, -1))
    if sorted(order) != list(range(rank + 1)) or order[0] != 0:
        raise misfit(node, f"permutes {order}", "keep the batch as the first dimension")
    axis = walk.raw(node).axis  # of a Softmax
    followed = order.index(axis) if axis in order else None
    _put_moved(
        walk, node, lambda view: view.transpose([axis_ - 1 for axis_ in order[1:]]), "cannot be transposed", followed
    )


def _squeeze(walk: Walk, node: onnx.NodeProto) -> None:
    shape = walk.raw(node).onnx_shape
    given = walk.optional(node, 1)
    axes = Attributes(node).ints("axes") if given is None else tuple(int(a) for a in given.reshape(-1))
    inserts = node.op_type == "Unsqueeze"
    if axes is None and not inserts:
        axes = tuple(i + 1 for i, size in enumerate(shape) if size == 1)
    rank = len(shape) + 1 + (len(axes or ()) if inserts else 0)
    places = sorted({a + rank if a < 0 else a for a in axes or ()})
    fits = axes is not None and len(places) == len(axes) and all(1 <= a < rank for a in places) and rank < 9
    if not fits or not (inserts or all(shape[a - 1] == 1 for a in places)):
        raise UnsupportedOperatorError(
            label(node),
            node.op_type,
            f"changes axes {axes} of {_told(shape)}",
            "only axes of size one after the batch can",
        )

    def move(view: AxisView) -> AxisView:
        for place in places if inserts else reversed(places):
            view = view.insert(place - 1) if inserts else view.remove(place - 1)
        return view

    _put_moved(walk, node, move, "cannot be applied")


def _identity(walk: Walk, node: onnx.NodeProto) -> None:
    """Pass Identity and Dropout through, also behind an activation or a Pad."""
    training = walk.optional(node, 2)
    if training is not None and training.any():
        raise UnsupportedOperatorError(
            label(node), node.op_type, "is in training mode", "export the model in evaluation mode"
        )
    walk.alias(node, walk.raw(node))


def _cast(walk: Walk, node: onnx.NodeProto) -> None:
    """Pass casts between floats; the cast of a uint8 image multiplies what is stored by 255."""
    source = walk.raw(node)
    if Attributes(node).integer("to", TensorProto.FLOAT) not in _FLOATS:
        raise misfit(node, "casts activations to integers", "keep activations as floats")
    if source.pixels:
        ones = np.ones(source.shape[2])
        walk.affine(node, replace(source, pixels=False), 255 * ones, 0 * ones)
    else:
        walk.alias(node, source)


# -- pieces ------------------------------------------------------------------------------------------


def _piece(walk: Walk, node: onnx.NodeProto, source: Value, axis: int, positions: range) -> Value:
    """Return a range of a value's positions along an axis (from 0, the batch left out)."""
    if not positions:
        raise refuse(node, "must take at least one of the positions along an axis")
    if len(positions) == source.onnx_shape[axis] and positions.step == 1:
        return source
    if source.view.holds(axis, "") and _pure(source.view):
        index = np.array(positions, np.int64)
        taken = walk.moved(node, lambda view: view.take(axis, index), source)
        assert taken is not None
        return taken
    if not source.activation and source.view.axes[axis] in ("h", "w") and not source.view.is_map | source.view.is_line:
        return _cut(walk, node, source, axis, positions)
    if not (source.view.is_map or source.view.is_line) or source.activation:
        raise misfit(node, f"cuts axis {axis + 1} of {_told(source.onnx_shape)}", "cut before axes are moved")
    begin, end = _BORDERS[source.window_axes[axis]]
    more = [0, 0, 0, 0]
    more[begin], more[end] = -positions.start, positions[-1] + 1 - source.onnx_shape[axis]
    pad = _added(source, more)
    if not _keeps(source, pad):  # a part of the zeros alone
        source = walk.settle(node, source)
        pad = _added(source, more)
    return replace(source, pad=pad)


def _added(source: Value, more: Sequence[int]) -> Padding:
    top, left, bottom, right = (before + added for before, added in zip(source.pad, more, strict=True))
    return top, left, bottom, right


def _keeps(source: Value, pad: Padding) -> bool:
    """True if a padding leaves a pixel of a value's plane."""
    return all(source.shape[axis] + min(0, pad[axis]) + min(0, pad[axis + 2]) > 0 for axis in (0, 1))


def _cut(walk: Walk, node: onnx.NodeProto, source: Value, axis: int, positions: range) -> Value:
    """Copy a range of rows or columns of a value whose axes were moved."""
    source = walk.settle(node, source)
    view, pad = source.view, [0, 0, 0, 0]
    begin, end = _BORDERS[view.axes[axis]]
    pad[begin], pad[end] = -positions.start, positions[-1] + 1 - view.shape[axis]
    plain = replace(source, view=AxisView.of(("c", "h", "w"), source.plane.shape, view.index))
    made = walk.keep_sign(source, walk.copy(node, replace(plain, pad=(pad[0], pad[1], pad[2], pad[3]))))
    kept = tuple("" if at == axis and len(positions) == 1 else text for at, text in enumerate(view.axes))
    channels = made.view.index.reshape(view.channels.shape)
    return replace(made, view=replace(view, axes=kept, channels=channels, size=made.plane.shape[:2]))


def _pure(view: AxisView) -> bool:
    return all(view.holds(axis, "") or "c" not in text for axis, text in enumerate(view.axes))


def _axis(node: onnx.NodeProto, axis: int, sizes: Sequence[int]) -> int:
    """Return an axis of a node counted without the batch."""
    place = axis + len(sizes) + 1 if axis < 0 else axis
    if not 1 <= place <= len(sizes):
        raise misfit(node, f"works along axis {axis} of {_told(sizes)}", "leave the batch whole")
    return place - 1


def _slice(walk: Walk, node: onnx.NodeProto) -> None:
    source, attributes = walk.raw(node), Attributes(node)
    facts: list[tuple[int, ...] | None] = []
    for index, name in ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps")):
        given = walk.optional(node, index)
        facts.append(attributes.ints(name) if given is None else tuple(int(v) for v in given.reshape(-1)))
    starts, ends, axes, steps = facts
    if starts is None or ends is None or len(starts) != len(ends):
        raise refuse(node, "must have starts and as many ends")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(axes) == len(steps) == len(starts):
        raise refuse(node, "must have an axis and a step for each start")
    made, stride = source, [1, 1]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        sizes = made.onnx_shape
        if axis in (0, -len(sizes) - 1) and start <= 0 and end >= max(1, walk.batch) and step == 1:
            continue
        place = _axis(node, axis, sizes)
        if step == 0:
            raise refuse(node, "must have steps other than zero")
        positions = range(*slice(start, end, step).indices(sizes[place]))
        if step != 1 and positions and not made.view.holds(place, ""):  # all steps at once, behind the crops
            if step < 0:
                raise misfit(node, "reverses height or width", "train with images that way round")
            if made.activation or not (made.view.is_map or made.view.is_line):
                raise misfit(
                    node,
                    f"cuts axis {axis} of {_told(sizes)}",
                    "cut before axes are moved, and before a Sigmoid or Softmax",
                )
            stride[_BORDERS[made.window_axes[place]][0]] *= step
            positions = range(positions[0], positions[-1] + 1)
        made = _piece(walk, node, made, place, positions)
    if stride != [1, 1]:
        made = walk.settle(node, made) if made.factor is not None and any(made.pad) else made
        made = walk.copy(node, made, stride=(stride[0], stride[1]))
    walk.alias(node, made)


def _split(walk: Walk, node: onnx.NodeProto) -> None:
    source, attributes = walk.raw(node), Attributes(node)
    sizes = source.onnx_shape
    axis = _axis(node, attributes.integer("axis", 0), sizes)
    given = walk.optional(node, 1)
    parts = attributes.ints("split") if given is None else tuple(int(v) for v in given.reshape(-1))
    if parts is None:
        share = -(-sizes[axis] // len(node.output))
        parts = tuple(min(share, sizes[axis] - i * share) for i in range(len(node.output)))
    if len(parts) != len(node.output) or sum(parts) != sizes[axis] or min(parts) < 1:
        raise refuse(node, f"must split {sizes[axis]} positions into {len(node.output)} parts, not {parts[:16]}")
    first = 0
    for output, part in zip(node.output, parts, strict=True):
        if output:
            walk.alias(node, _piece(walk, node, source, axis, range(first, first + part)), output)
        first += part


def _gather(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.raw(node)
    indices = walk.constant(node, 1)
    if source.unbatched:
        _gather_unbatched(walk, node, source, indices)
        return
    axis = _axis(node, Attributes(node).integer("axis", 0), source.onnx_shape)
    size = source.onnx_shape[axis]
    picked: Indices = np.where(indices < 0, indices + size, indices).astype(np.int64).reshape(-1)
    if not picked.size or picked.min() < 0 or picked.max() >= size or picked.size > MOST_ELEMENTS:
        raise refuse(node, f"must pick positions of 0..{size - 1}")
    if indices.ndim > 1:
        raise misfit(node, f"picks {indices.ndim} dimensions along axis {axis + 1}", "pick a row of positions")
    if source.view.holds(axis, "") and _pure(source.view):
        taken = walk.moved(node, lambda view: view.take(axis, picked))
    elif np.array_equal(picked, picked[0] + np.arange(picked.size)):  # also one position, as of the last step
        taken = _piece(walk, node, source, axis, range(int(picked[0]), int(picked[-1]) + 1))
        taken = taken if indices.ndim else walk.settle(node, taken)
    else:
        raise misfit(
            node,
            f"picks along axis {axis + 1} of {_told(source.onnx_shape)}",
            "pick channels, or rows and columns that follow one another",
        )
    assert taken is not None
    walk.alias(node, taken if indices.ndim else replace(taken, view=taken.view.remove(axis)))


def _tile(walk: Walk, node: onnx.NodeProto) -> None:
    """Repeat a value along its axes by constants, as Tile does, or up to a shape, as Expand does."""
    source = walk.raw(node)
    sizes = (1, *source.onnx_shape)
    given = [int(size) for size in walk.constant(node, 1).reshape(-1)]
    whole = given
    if node.op_type == "Expand" and len(given) <= len(sizes):
        whole = [1] * (len(sizes) - len(given)) + given
        fits = all(want in (1, have) or have == 1 for have, want in zip(sizes[1:], whole[1:], strict=True))
        whole = [1 if want in (1, have) else want for have, want in zip(sizes, whole, strict=True)] if fits else []
        whole[:1] = [1 if given[0] in (0, 1, walk.batch) or len(given) < len(sizes) else 0]
    if len(whole) != len(sizes) or min(whole) < 1 or whole[0] != 1:
        raise misfit(
            node, f"repeats {_told(sizes[1:])} by {tuple(given)[:8]}", "leave the batch whole and the axes as many"
        )
    if math.prod(sizes) * math.prod(whole) > MOST_ELEMENTS:
        raise refuse(node, f"must have an output of at most {MOST_ELEMENTS} values")
    walk.alias(node, source)
    for axis, times in enumerate(whole[1:]):
        if times > 1:
            _repeat(walk, node, walk.values[node.output[0]], axis, times)


def _repeat(walk: Walk, node: onnx.NodeProto, source: Value, axis: int, times: int) -> None:
    """Give the value of a node's output: another, repeated along an axis."""
    view, count = source.view, source.onnx_shape[axis]
    across = axis > 0 and (view.is_map or view.is_line)
    if not across and view.holds(axis, "") and _pure(view):
        taken = walk.moved(node, lambda view: view.take(axis, np.tile(np.arange(count), times)), source)
        assert taken is not None
        walk.alias(node, taken)
        return
    if not across:
        raise misfit(node, f"repeats axis {axis + 1} of {_told(source.onnx_shape)}", "repeat before axes are moved")
    walk.value(node, lazy=True)  # refuses what an activation ends
    value = walk.settle(node, source)
    token = value.window_axes[axis]
    if count == 1:
        targets = [(value.shape[0], Fraction(1)), (value.shape[1], Fraction(1))]
        targets["hw".index(token)] = (times, Fraction(times))
        resize(walk, node, value, Sampling(linear=False, coordinates="asymmetric"), (targets[0], targets[1]))
    else:
        _join_maps(walk, node, [replace(value, exclusive=False)] * times, 1 + "hw".index(token), value.window_axes)


def _gather_unbatched(walk: Walk, node: onnx.NodeProto, source: Value, indices: npt.NDArray[Any]) -> None:
    """Pick values of one line, and give them the batch of one again."""
    size = source.view.index.size
    fits = indices.ndim > 1 and indices.shape[0] == 1 and Attributes(node).integer("axis", 0) == 0
    if not fits or not 0 < indices.size <= MOST_ELEMENTS or indices.min() < -size or indices.max() >= size:
        raise misfit(node, "picks along the batch", "keep the batch as the first dimension")
    picked = np.where(indices < 0, indices + size, indices).astype(np.int64).reshape(-1)
    taken = walk.moved(node, lambda view: view.take(0, picked).reshape(indices.shape[1:]))
    assert taken is not None
    walk.alias(node, replace(taken, unbatched=False))


# -- joining -----------------------------------------------------------------------------------------


def _concat(walk: Walk, node: onnx.NodeProto) -> None:
    pieces = [walk.value(node, index) for index in range(len(node.input))]
    first = pieces[0].view
    axis = _axis(node, Attributes(node).integer("axis", 1), pieces[0].onnx_shape)
    shapes = [piece.onnx_shape for piece in pieces]
    if any(s[:axis] + s[axis + 1 :] != shapes[0][:axis] + shapes[0][axis + 1 :] for s in shapes):
        raise UnsupportedOperatorError(
            label(node), node.op_type, f"joins {shapes[:8]} along axis {axis + 1}", "all other sizes must be equal"
        )
    alike = all(piece.view.size == first.size and _pure(piece.view) for piece in pieces)
    places = {tuple(text.strip("c") for text in piece.view.axes) for piece in pieces}
    if all(piece.view.is_map for piece in pieces) and axis > 0:
        _join_maps(walk, node, pieces, axis)
    elif alike and len(places) == 1 and first.holds(axis, ""):
        _join_channels(walk, node, pieces, axis)
    else:
        raise misfit(
            node,
            f"joins {shapes[:8]} along axis {axis + 1}",
            "channels of maps of one size can be joined, and maps by height or width; give other parts out one by one",
        )


def _join_channels(walk: Walk, node: onnx.NodeProto, pieces: Sequence[Value], axis: int) -> None:
    pieces = _joined_before(pieces, axis)
    if len(pieces) == 1:
        walk.alias(node, pieces[0])
        return
    sizes = [piece.plane.shape[2] if _movable(piece) else piece.shape[2] for piece in pieces]
    plane = _new_plane(node, (*pieces[0].plane.shape[:2], sum(sizes)))
    offsets = np.cumsum([0, *sizes])
    channels = []
    for piece, offset in zip(_joined(walk, node, plane, pieces), offsets, strict=False):
        plane.put(piece.plane, (0, 0, int(offset)))
        plane.sealed |= not piece.exclusive
        channels.append(offset + piece.view.by_axis())
    view = pieces[0].view.with_channels(np.concatenate(channels, axis=axis))
    walk.put(node, Value(plane=plane, view=view, exclusive=walk.uses[node.output[0]] == 1))


def _joined_before(pieces: Sequence[Value], axis: int) -> list[Value]:
    """Return the pieces with those that an earlier join laid side by side as one, as each layer of a DenseNet
    joins all that the layer before it did.
    """
    made: list[Value] = []
    for piece in pieces:
        made.append(piece)
        while (whole := made[-1].plane.inside) is not None:
            last = made[-len(whole.pieces) :]
            filled = [part.plane for part in last] == whole.pieces and all(part.covers for part in last)
            if not filled or whole.own or sum(piece.shape[2] for piece in whole.pieces) != whole.shape[2]:
                break
            channels = np.concatenate([part.plane.at[2] + part.view.by_axis() for part in last], axis=axis)
            view = last[0].view.with_channels(channels)
            made[-len(last) :] = [Value(plane=whole, view=view, exclusive=False)]
    return made


def _join_maps(
    walk: Walk, node: onnx.NodeProto, pieces: Sequence[Value], axis: int, axes: Sequence[str] = ("c", "h", "w")
) -> None:
    """Join maps by height (axis 1) or width (axis 2): each is written into its part of the whole."""
    pieces = [piece if piece.ordered and piece.covers else walk.gathered(node, piece) for piece in pieces]
    pieces = [piece if piece.exclusive else walk.copy(node, piece) for piece in pieces]
    sizes = [piece.plane.shape[axis - 1] for piece in pieces]
    shape = list(pieces[0].plane.shape)
    shape[axis - 1], shape[2] = sum(sizes), pieces[0].shape[2]
    plane = _new_plane(node, (shape[0], shape[1], shape[2]))
    for piece, offset in zip(_joined(walk, node, plane, pieces), np.cumsum([0, *sizes]), strict=False):
        plane.put(piece.plane, (int(offset), 0, 0) if axis == 1 else (0, int(offset), 0))
    view = AxisView.of(axes, plane.shape)
    walk.put(node, Value(plane=plane, view=view, exclusive=walk.uses[node.output[0]] == 1))


def _new_plane(node: onnx.NodeProto, shape: Shape) -> Plane:
    if math.prod(shape) > MOST_ELEMENTS:
        raise refuse(node, f"must have an output of at most {MOST_ELEMENTS} values, not {shape}")
    return Plane(name=node.output[0], shape=shape)


def _movable(piece: Value) -> bool:
    """True if a value fills a plane that can lie inside another."""
    plane = piece.plane
    return piece.covers and plane.inside is None and bool(plane.writers) and plane.depth < _DEEPEST


def _joined(walk: Walk, node: onnx.NodeProto, plane: Plane, pieces: Sequence[Value]) -> list[Value]:
    """Return the pieces as values that fill planes of one gain, each once, copied where they do not."""
    _share_gain(pieces)
    mixed = any(piece.plane.gain != pieces[0].plane.gain or not _movable(piece) for piece in pieces)
    mixed |= len({id(piece.plane) for piece in pieces}) < len(pieces)
    made: list[Value] = []
    for piece in pieces:
        twice = any(piece.plane is other.plane for other in made)
        moves = _movable(piece) and not twice and (piece.plane.gain == 1.0 or not mixed)
        made.append(piece if moves else walk.keep_sign(piece, walk.copy(node, piece)))
    plane.gain = made[0].plane.gain
    plane.depth = 1 + max(value.plane.depth for value in made)
    return made


def _share_gain(pieces: Sequence[Value]) -> None:
    """Let convolutions that nothing else reads take the one average-pool gain of the others into their
    weights.
    """
    free = [
        piece.exclusive
        and not piece.plane.sealed
        and all(writer.kind is Kind.GEMM and writer.residual is None for writer in piece.plane.writers)
        for piece in pieces
    ]
    fixed = {piece.plane.gain for piece, is_free in zip(pieces, free, strict=True) if not is_free}
    if len(fixed) == 1:
        for piece, is_free in zip(pieces, free, strict=True):
            if is_free and _movable(piece):
                piece.plane.gain = next(iter(fixed))


def _pad(walk: Walk, node: onnx.NodeProto) -> None:
    source, attributes = walk.map(node, lazy=True), Attributes(node)
    rank = len(source.view.axes) + 1
    given = walk.optional(node, 1)
    pads = attributes.ints("pads") if given is None else tuple(int(p) for p in given.reshape(-1))
    fill = walk.optional(node, 2)
    value = attributes.number("value", 0.0) if fill is None else float(fill.reshape(-1)[0]) if fill.size else 0.0
    axes = walk.optional(node, 3)
    if axes is not None and pads is not None and len(pads) == 2 * axes.size:
        full = [0] * (2 * rank)
        for index, axis in enumerate(axes.reshape(-1)):
            full[int(axis) % rank], full[int(axis) % rank + rank] = pads[index], pads[index + axes.size]
        pads = tuple(full)
    fair = pads is not None and len(pads) == 2 * rank and all(abs(p) <= MOST_EXTENT for p in pads)
    if not fair or pads is None or pads[0] or pads[rank] or attributes.text("mode", "constant") != "constant" or value:
        raise UnsupportedOperatorError(
            label(node), node.op_type, "is not a border of zeros around channels, height or width", "pad with zeros"
        )
    channels = (pads[1], pads[rank + 1])
    if min(channels) < 0:
        raise UnsupportedOperatorError(label(node), node.op_type, "cuts channels off", "use a Slice")
    if any(channels):
        alone = not any(pads[axis] for axis in range(2, 2 * rank) if axis % rank > 1)
        source = _zero_channels(walk, node, source, channels, node.output[0] if alone else walk.aside(node, "wide"))
    more = [0, 0, 0, 0]
    for axis in range(2, rank):
        for side, count in zip(_BORDERS[source.window_axes[axis - 1]], (pads[axis], pads[axis + rank]), strict=True):
            more[side] = count
    crossed = any(before < 0 < added for before, added in zip(source.pad, more, strict=True))
    if crossed or not _keeps(source, _added(source, more)):
        source = walk.settle(node, source)
    pad = _added(source, more)
    if not _keeps(source, pad):
        raise refuse(node, "must leave something of its input")
    walk.alias(node, source, pad=pad)


def _zero_channels(walk: Walk, node: onnx.NodeProto, source: Value, channels: tuple[int, int], name: str) -> Value:
    """Put channels of zeros around a map: part of a wider plane that no layer writes, and memory is zero."""
    source = walk.settle(node, source)
    if not _movable(source):
        source = walk.copy(node, source)
    inner = source.plane.shape
    plane = _new_plane(node, (*inner[:2], channels[0] + inner[2] + channels[1]))
    plane.gain, plane.depth, plane.name = source.plane.gain, source.plane.depth + 1, name
    plane.put(source.plane, (0, 0, channels[0]))
    index = [*range(channels[0]), *(channels[0] + source.view.index), *range(channels[0] + inner[2], plane.shape[2])]
    view = AxisView.of(source.window_axes, plane.shape, np.array(index, np.int64))
    return Value(plane=plane, view=view, exclusive=source.exclusive)


MOVING_OPERATORS = {
    "Cast": _cast,
    "Concat": _concat,
    "Dropout": _identity,
    "Expand": _tile,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": _identity,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _squeeze,
}
