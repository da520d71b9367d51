"""Open the layers of an upsampling operator: each computes the pixels of one phase of a larger map.

Between the pixels of a map that is s times as large, each phase (row and column modulo s) is a convolution of
the small map. So s * s layers write one tensor, each its pixels s apart (ADR 41): no zero is multiplied, no
value is moved, and the hardware knows nothing of it but the distance of output pixels.

>>> phases(size=4, outputs=8, kernel=4, stride=2, dilation=1, begin=1)
[Phase(first=0, outputs=4, taps=(3, 1), at=-1, apart=1), \
Phase(first=1, outputs=4, taps=(2, 0), at=0, apart=1)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import onnx

from ...graph.shapes import Kind, Pair, Shape
from ..file import MOST_ELEMENTS, MOST_EXTENT, Attributes, refuse
from .drafts import NO_PADDING, Draft, Plane
from .layers import bias_of, convolution, pair_of
from .refusals import misfit
from .view import AxisView, Indices
from .walk import Value, Walk

MOST_LAYERS = 64  # of one operator

# -- transposed convolutions -------------------------------------------------------------------------


class Phase(NamedTuple):
    """The outputs first, first + stride, ... along an axis: a convolution of `taps` of the kernel, in the
    order of the inputs that they meet, which are `apart`; the first output's first tap meets input `at`.
    """

    first: int
    outputs: int
    taps: tuple[int, ...]
    at: int
    apart: int


def phases(*, size: int, outputs: int, kernel: int, stride: int, dilation: int, begin: int) -> list[Phase]:
    """Part the outputs of a transposed convolution along an axis.

    Input i meets output i * stride + k * dilation - begin through tap k. A phase without taps has none, at
    input 0.
    """
    opened = []
    for first in range(min(stride, outputs)):
        taps = [k for k in range(kernel) if (first + begin - k * dilation) % stride == 0][::-1]
        places = [(first + begin - k * dilation) // stride for k in taps] or [0]
        apart = places[1] - places[0] if len(places) > 1 else 1
        count = -(-(outputs - first) // stride)
        opened.append(Phase(first, count, tuple(taps), places[0], apart))
    return opened


def _padding(size: int, phase: Phase) -> Pair:
    """Return the zeros before and behind an input, negative where it is not read to its end."""
    reach = phase.at + (phase.outputs - 1) + (max(1, len(phase.taps)) - 1) * phase.apart + 1
    return -phase.at, reach - size


def _conv_transpose(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node)
    weights = walk.constant(node, 1)
    rank, channels = len(source.view.axes) + 1, source.shape[2]
    if weights.ndim != rank or 0 in weights.shape:
        raise misfit(
            node, f"has weights {weights.shape} for an input of {rank} dimensions", "the NPU is two-dimensional"
        )
    groups = Attributes(node).integer("group", 1)
    if groups < 1 or weights.shape[0] != channels or channels % groups:
        raise refuse(
            node, f"must have weights for {channels} channels in {groups} groups, and their shape is {weights.shape}"
        )
    kernel = tuple(int(n) for n in weights.shape[2:])
    if Attributes(node).extents("kernel_shape", kernel, 1) != kernel:
        raise refuse(node, f"must have the kernel_shape of its weights, {kernel}")
    geometry = _geometry(node, source, kernel)
    out = int(weights.shape[1]) * groups
    split = weights.astype(np.float32).reshape(groups, channels // groups, out // groups, *geometry.kernel)
    oihw = np.ascontiguousarray(split.swapaxes(1, 2)).reshape(out, channels // groups, *geometry.kernel)
    bias = bias_of(node, walk.optional(node, 2), out)
    source = source if source.ordered else walk.gathered(node, source)
    if math.prod(geometry.outputs) * out > MOST_ELEMENTS:
        raise refuse(node, f"must have an output of at most {MOST_ELEMENTS} values, not {(*geometry.outputs, out)}")
    if math.prod(map(min, geometry.stride, geometry.outputs)) > MOST_LAYERS:
        raise misfit(node, f"has strides of {geometry.stride}", f"use strides whose product is at most {MOST_LAYERS}")
    rows, columns = (geometry.phases(axis, source.shape[axis]) for axis in (0, 1))
    made = []
    for row in rows:
        for column in columns:
            top, bottom = _padding(source.shape[0], row)
            left, right = _padding(source.shape[1], column)
            window = {
                "kernel": (max(1, len(row.taps)), max(1, len(column.taps))),
                "stride": (1, 1),
                "dilation": (row.apart, column.apart),
                "padding": (top, left, bottom, right),
            }
            taken = oihw[:, :, row.taps][:, :, :, column.taps]
            if not taken.size:
                taken = np.zeros((*oihw.shape[:2], *window["kernel"]), np.float32)
            opened = convolution(walk, node, source, np.ascontiguousarray(taken), bias, groups, window)
            made.append((opened.plane, (row.first, column.first)))
    _put(walk, node, source, weave(node.output[0], made, (*geometry.outputs, out), (len(rows), len(columns))))


@dataclass(frozen=True, kw_only=True)
class _Geometry:
    """A transposed convolution's window and the size of its output; pairs are (height, width)."""

    kernel: Pair
    stride: Pair
    dilation: Pair
    begin: Pair
    outputs: Pair

    def phases(self, axis: int, size: int) -> list[Phase]:
        return phases(
            size=size,
            outputs=self.outputs[axis],
            kernel=self.kernel[axis],
            stride=self.stride[axis],
            dilation=self.dilation[axis],
            begin=self.begin[axis],
        )


def _geometry(node: onnx.NodeProto, source: Value, kernel: tuple[int, ...]) -> _Geometry:
    """Return the geometry of a ConvTranspose, with auto_pad, output_padding and output_shape."""
    attributes, count = Attributes(node), len(kernel)
    ones, zeros = (1,) * count, (0,) * count
    stride = attributes.extents("strides", ones, 1)
    dilation = attributes.extents("dilations", ones, 1)
    more = attributes.extents("output_padding", zeros, 0)
    pads = attributes.extents("pads", zeros * 2, 0)
    auto = attributes.text("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise refuse(node, f"must have an auto_pad of NOTSET, VALID, SAME_UPPER or SAME_LOWER, not '{auto[:40]}'")
    sizes = source.onnx_shape[1:]
    full = [
        s * (size - 1) + o + (k - 1) * d + 1
        for s, size, o, k, d in zip(stride, sizes, more, kernel, dilation, strict=True)
    ]
    asked = attributes.ints("output_shape")
    if asked is not None and len(asked) == count + 2:
        asked = asked[2:]
    if asked is None and auto.startswith("SAME"):
        asked = tuple(s * size for s, size in zip(stride, sizes, strict=True))
        if any(whole < least for whole, least in zip(full, asked, strict=True)):
            raise misfit(
                node,
                "has strides larger than its kernel and an auto_pad of SAME, for which ONNX's text and onnxruntime give "
                "different sizes",
                "give it pads and an output_padding",
            )
    begin = list(pads[:count]) if auto == "NOTSET" else [0] * count
    end = list(pads[count:]) if auto == "NOTSET" else [0] * count
    if asked is not None:
        if len(asked) != count or not all(1 <= extent <= MOST_EXTENT for extent in asked):
            raise refuse(node, f"must have {count} sizes of 1..{MOST_EXTENT} as its output_shape, not {asked}")
        for axis in range(count):
            total = full[axis] - asked[axis]
            first = total // 2 if auto == "SAME_UPPER" else total - total // 2
            begin[axis], end[axis] = first, total - first
    outputs = [whole - first - last for whole, first, last in zip(full, begin, end, strict=True)]
    if min(outputs) < 1 or max(outputs) > MOST_EXTENT:
        raise refuse(node, f"must have an output of sizes 1..{MOST_EXTENT}, not {tuple(outputs)}")
    return _Geometry(
        kernel=pair_of(source, kernel, 1),
        stride=pair_of(source, stride, 1),
        dilation=pair_of(source, dilation, 1),
        begin=pair_of(source, tuple(begin), 0),
        outputs=pair_of(source, tuple(outputs), 1),
    )


def weave(name: str, made: Sequence[tuple[Plane, Pair]], shape: Shape, step: Pair) -> Plane:
    """Return the map that planes fill between them, each from a row and column on."""
    if step == (1, 1):
        return made[0][0]
    plane = Plane(name=name, shape=shape, gain=made[0][0].gain)
    plane.depth = 1 + max(piece.depth for piece, _ in made)
    for piece, at in made:
        plane.put(piece, (*at, 0), step)
    return plane


def _put(walk: Walk, node: onnx.NodeProto, source: Value, plane: Plane) -> None:
    view = AxisView.of(source.window_axes, plane.shape)
    walk.put(node, Value(plane=plane, view=view, exclusive=walk.uses.get(node.output[0], 1) == 1))


# -- depth to space ----------------------------------------------------------------------------------


def _depth_to_space(walk: Walk, node: onnx.NodeProto) -> None:
    """Give every block of channels its pixels: the layers that write it write there."""
    source, attributes = walk.map(node), Attributes(node)
    block, mode = attributes.integer("blocksize", 0), attributes.text("mode", "DCR")
    height, width, channels = source.shape
    if not source.view.is_map or not 1 <= block <= 8 or channels % block**2 or mode not in ("DCR", "CRD"):
        raise refuse(
            node,
            f"must have a blocksize of 1..8 whose square divides {channels} channels, and the mode DCR or CRD, not "
            f"{block} and '{mode[:40]}'",
        )
    kept = channels // block**2
    parts = np.arange(channels).reshape((block**2, kept) if mode == "DCR" else (kept, block**2))
    parts = parts if mode == "DCR" else parts.T
    shape = (height * block, width * block, kept)
    if math.prod(shape) > MOST_ELEMENTS:
        raise refuse(node, f"must have an output of at most {MOST_ELEMENTS} values, not {shape}")
    planes = _planes_of(walk, node, source, parts)
    made = [(plane, divmod(index, block)) for index, plane in enumerate(planes)]
    _put(walk, node, source, weave(node.output[0], made, shape, (block, block)))


def _planes_of(walk: Walk, node: onnx.NodeProto, source: Value, parts: Indices) -> list[Plane]:
    """Return a plane of its own for each row of `parts`, channels of a value."""
    own = source.plane.own
    if source.foldable and own and _splits(own[0]) and len(own) == 1 and not source.plane.pieces:
        return _split(walk, own[0], source, parts)
    if source.foldable and not own and (pieces := _pieces(source, parts)) is not None:
        for piece in pieces:
            piece.inside, piece.at = None, (0, 0, 0)
        return pieces
    return [_picked(walk, node, source, part) for part in parts]


def _splits(writer: Draft) -> bool:
    return writer.kind is Kind.GEMM and writer.groups == 1 and writer.residual is None


def _split(walk: Walk, writer: Draft, source: Value, parts: Indices) -> list[Plane]:
    """Part a convolution into one for each part of its output channels."""
    walk.drafts.remove(writer)
    planes = []
    for part in parts:
        rows = source.view.index[part]
        plane = Plane(name=source.plane.name, shape=(*source.plane.shape[:2], len(part)), gain=source.plane.gain)
        draft = replace(writer, name=walk.unique(writer.name), output=plane, channels=len(part))
        draft.permute(rows)
        plane.own.append(draft)
        walk.drafts.append(draft)
        planes.append(plane)
    return planes


def _pieces(source: Value, parts: Indices) -> list[Plane] | None:
    """Return the planes that a value is joined of, where each is one of the parts; else None."""
    by_channel = {piece.at[2]: piece for piece in source.plane.pieces}
    opened = []
    for part in parts:
        index = source.view.index[part]
        piece = by_channel.get(int(index[0]))
        fits = piece is not None and piece.shape == (*source.plane.shape[:2], len(part)) and piece.at[:2] == (0, 0)
        if piece is None or not fits or not np.array_equal(index, index[0] + np.arange(len(part))):
            return None
        opened.append(piece)
    return opened


def _picked(walk: Walk, node: onnx.NodeProto, source: Value, part: Indices) -> Plane:
    """Copy some channels of a value into a plane."""
    index = source.view.index[part]
    first, reach = int(index.min()), int(index.max() - index.min()) + 1
    ordered = reach == len(part) and np.array_equal(index, first + np.arange(reach))
    groups = reach if ordered else 1
    weights = np.ones((reach, 1, 1, 1), np.float32)
    if not ordered:
        weights = np.zeros((len(part), reach, 1, 1), np.float32)
        weights[np.arange(len(part)), index - first] = 1
    made = walk.open(
        node,
        source,
        node.output[0],
        kind=Kind.GEMM,
        channels=len(part),
        first=first,
        reads=reach,
        groups=groups,
        weights=weights,
        bias=np.zeros(len(part), np.float32),
    )
    return walk.keep_sign(source, made).plane


def _space_to_depth(walk: Walk, node: onnx.NodeProto) -> None:
    """Gather blocks of pixels as channels: a convolution of ones, one for each channel."""
    source, block = walk.map(node), Attributes(node).integer("blocksize", 0)
    height, width, channels = source.shape
    if not source.view.is_map or not 1 <= block <= 8 or height % block or width % block:
        raise refuse(node, f"must have a blocksize of 1..8 that divides {height} x {width} pixels, not {block}")
    weights = np.zeros((block, block, channels, channels, block, block), np.float32)
    for row in range(block):
        for column in range(block):
            weights[row, column, np.arange(channels), np.arange(channels), row, column] = 1
    window = {"kernel": (block, block), "stride": (block, block), "dilation": (1, 1), "padding": NO_PADDING}
    weights = weights.reshape(-1, channels, block, block)
    made = convolution(walk, node, source, weights, np.zeros(len(weights), np.float32), 1, window)
    walk.put(node, walk.keep_sign(source, made))


UPSAMPLING_OPERATORS: dict[str, Callable[[Walk, onnx.NodeProto], Any]] = {
    "ConvTranspose": _conv_transpose,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
