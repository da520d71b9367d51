"""Open the layers of a pool: windows over height and width, and what they leave out at a border.

A window at the border of an average pool, or of a max pool of values that may be negative, has fewer taps. So
the output is cut into rectangles whose windows keep the same taps. Of an average pool the one of whole
windows is a sum pool, each other one a depthwise convolution of weight N / (taps * 2**shift), which is exact
where N / taps is a whole number of binary fractions, as for all windows of 2 and 3 (ADR 19). Of a max pool
each is a max pool; a large one runs along columns and then along rows (ADR 67).

>>> borders(size=5, kernel=3, stride=1, dilation=1, begin=1, end=1, counted=False, outputs=5)
[Border(first=0, outputs=1, tap=1, taps=2, divisor=2), Border(first=1, outputs=3, tap=0, taps=3, divisor=3), \
Border(first=4, outputs=1, tap=0, taps=2, divisor=2)]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import onnx

from ...graph.shapes import Kind, Pair
from ..file import Attributes, reject
from .drafts import NO_PADDING, Padding, Plane
from .layers import dense, taking_over, window_of
from .refusals import misfit
from .view import AxisView
from .walk import Value, Walk

MOST_RECTANGLES = 64
_LAYER = 6000  # words that a pool writes in the time that one more layer takes (measured, ADR 67)
_TAPS = 9  # of a pool that cost nothing beside its writes


class Border(NamedTuple):
    """`outputs` along an axis, from the first on, whose windows keep `taps` taps from `tap` on, and are
    divided by `divisor`.
    """

    first: int
    outputs: int
    tap: int
    taps: int
    divisor: int


def borders(
    *, size: int, kernel: int, stride: int, dilation: int, begin: int, end: int, counted: bool, outputs: int
) -> list[Border]:
    """Group the outputs along an axis of `size` with `begin` and `end` zeros around it; none if a window has
    no tap.

    `counted`: the zeros are among the taps that are divided by; what a last window has beyond them never is.
    """
    groups: list[Border] = []
    for output in range(outputs):
        start = output * stride - begin
        tap = max(0, -(start // dilation))
        taps = min(kernel, (size - 1 - start) // dilation + 1) - tap
        divisor = min(kernel, (size + end - 1 - start) // dilation + 1) if counted else taps
        if counted and divisor == kernel:  # the zeros are read: one rectangle with the inner windows
            tap, taps = 0, kernel
        if taps < 1:
            return []
        last = groups[-1] if groups else None
        if last is not None and last[2:] == (tap, taps, divisor):
            groups[-1] = last._replace(outputs=last.outputs + 1)
        else:
            groups.append(Border(output, 1, tap, taps, divisor))
    return groups


@dataclass(frozen=True, kw_only=True)
class _Window:
    """A pool's window; pairs are (height, width).

    `padding` around what the pool reads: zeros of a Pad before it, and its own, as far as windows reach.
    `outputs` rows and columns.
    """

    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: Padding
    outputs: Pair

    @classmethod
    def of(cls, node: onnx.NodeProto, source: Value, fields: Mapping[str, Any]) -> _Window:
        """Return the window of `fields` on a value whose Pad is among the padding. Raises ModelFileError."""
        outputs = []
        for axis in (0, 1):
            extent = (fields["kernel"][axis] - 1) * fields["dilation"][axis] + 1
            available = source.shape[axis] + fields["padding"][axis] + fields["padding"][axis + 2]
            if extent > available:
                raise reject(
                    node, f"must have a window no larger than its padded input, and it needs {extent} of {available}"
                )
            outputs.append((available - extent) // fields["stride"][axis] + 1)
        return cls(**fields, outputs=(outputs[0], outputs[1]))

    def along(self, axis: int, size: Pair) -> _Window:
        """Return the window along one axis alone, over a map of `size`, one wide along the other."""

        def pair(own: Pair, other: Pair) -> Pair:
            return (own[0], other[1]) if axis == 0 else (other[0], own[1])

        begin, end = pair(self.padding[:2], (0, 0)), pair(self.padding[2:], (0, 0))
        return _Window(
            kernel=pair(self.kernel, (1, 1)),
            stride=pair(self.stride, (1, 1)),
            dilation=pair(self.dilation, (1, 1)),
            padding=(*begin, *end),
            outputs=pair(self.outputs, size),
        )

    def groups(self, size: Pair, end: Pair, counted: bool = False) -> tuple[list[Border], list[Border]]:
        """Return the borders of rows and of columns over a map of `size`, with `end` zeros behind it."""
        rows, columns = (
            borders(
                size=size[axis],
                kernel=self.kernel[axis],
                stride=self.stride[axis],
                dilation=self.dilation[axis],
                begin=self.padding[axis],
                end=end[axis],
                counted=counted,
                outputs=self.outputs[axis],
            )
            for axis in (0, 1)
        )
        return rows, columns

    def part(self, size: Pair, rows: Border, columns: Border, whole: tuple[bool, bool]) -> dict[str, Any]:
        """Return the fields of the layer of a rectangle. Rows and columns that no window reaches stay where
        the rectangle is `whole`, all that there is along an axis.
        """
        begin, end = [0, 0], [0, 0]
        for axis, border in enumerate((rows, columns)):
            stride, dilation = self.stride[axis], self.dilation[axis]
            begin[axis] = self.padding[axis] - border.first * stride - border.tap * dilation
            reach = (border.outputs - 1) * stride + (border.taps - 1) * dilation + 1
            end[axis] = reach - begin[axis] - size[axis]
            if whole[axis] and border.taps == self.kernel[axis]:
                end[axis] = self.padding[axis + 2]
        return {
            "kernel": (rows.taps, columns.taps),
            "stride": self.stride,
            "dilation": self.dilation,
            "padding": (begin[0], begin[1], end[0], end[1]),
            "at": (rows.first, columns.first),
        }


def _kernel(node: onnx.NodeProto, source: Value) -> tuple[int, ...]:
    return Attributes(node).extents("kernel_shape", (0,) * (len(source.view.axes) - 1), 1)


def _fields(node: onnx.NodeProto, source: Value) -> dict[str, Any]:
    """Return a pool's kernel, stride, dilation and own padding. Raises UnsupportedOperatorError."""
    fields = window_of(node, source, _kernel(node, source))
    same = Attributes(node).text("auto_pad", "NOTSET").startswith("SAME")
    windows = zip(fields["kernel"], fields["dilation"], fields["stride"], strict=True)
    if same and any(kernel > 1 < dilation or kernel + 1 < stride for kernel, dilation, stride in windows):
        raise reject(
            node,
            "has dilations or gaps and an auto_pad of SAME, for which ONNX's text and onnxruntime pad differently; give "
            "it pads",
        )
    return fields


def _ceiled(source: Value, fields: Mapping[str, Any]) -> Padding:
    """Return a pool's own padding with which rounding down equals rounding up: a last, partial window at the
    far edges, which must begin inside the input. Zeros of a Pad before it are input.
    """
    padding = list(fields["padding"])
    for axis in (0, 1):
        given = source.shape[axis] + source.pad[axis] + source.pad[axis + 2]
        size, stride = given + padding[axis] + padding[axis + 2], fields["stride"][axis]
        extent = (fields["kernel"][axis] - 1) * fields["dilation"][axis] + 1
        count = -(-(size - extent) // stride) + 1
        if (count - 1) * stride >= given + padding[axis]:
            count -= 1
        padding[axis + 2] += max(0, (count - 1) * stride + extent - size)
    return padding[0], padding[1], padding[2], padding[3]


# -- max pools ---------------------------------------------------------------------------------------


def _max_pool(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node, lazy=True)
    fields = _fields(node, source)
    if Attributes(node).integer("ceil_mode", 0):
        fields["padding"] = _ceiled(source, fields)
    signed_border = max(source.pad) > 0 and not source.plane.non_negative  # zeros that may win: a layer of their own
    if source.factor is not None or signed_border:
        source = walk.settle(node, source)
    window, taken = _taken(walk, node, source, fields)
    if not all(groups := window.groups(taken.shape[:2], (0, 0))) and any(source.pad):
        window, taken = _taken(walk, node, walk.settle(node, source), fields)  # a window of a Pad's zeros alone
        groups = window.groups(taken.shape[:2], (0, 0))
    if not all(groups):
        raise reject(node, "has a window in its padding alone, which has no maximum; pad less, or with zeros before it")
    axes = taken.window_axes
    made, first, order = walk.per_channel(node, taken)
    for index, step in enumerate(steps := _max_steps(made, window)):
        last = index == len(steps) - 1
        made = _maximum(walk, node, made, step, first, node.output[0] if last else walk.aside(node, "rows"))
        first = 0
    view = AxisView.of(axes, made.plane.shape, np.argsort(order))
    walk.put(node, replace(made, view=view, exclusive=walk.uses.get(node.output[0], 1) == 1))


def _taken(walk: Walk, node: onnx.NodeProto, source: Value, fields: Mapping[str, Any]) -> tuple[_Window, Value]:
    """Return a pool's window with the Pad before it, and the value without."""
    both = dict(fields)
    source = taking_over(walk, node, source, both)
    walk.check_area(node, source, both["padding"], source.shape[2])
    return _Window.of(node, source, both), source


def _max_steps(source: Value, window: _Window) -> list[_Window]:
    """Return a pool as one, or with borders as one along each axis where that takes fewer cycles."""

    def cost(step: _Window, size: Pair) -> float:
        rows, columns = _parts(source, step, size)
        words = math.prod(step.outputs) * source.shape[2]
        return words * max(1, math.prod(step.kernel) / _TAPS) + len(rows) * len(columns) * _LAYER

    size = source.shape[:2]
    bordered = max(map(len, _parts(source, window, size))) > 1
    rows = window.along(0, size)
    apart = [rows, window.along(1, rows.outputs)]
    cheaper = cost(apart[0], size) + cost(apart[1], rows.outputs) < cost(window, size)
    return apart if bordered and min(window.kernel) > 1 and cheaper else [window]


def _parts(source: Value, window: _Window, size: Pair) -> tuple[list[Border], list[Border]]:
    """Return the borders of a max pool; values that are not negative have none: no zero wins."""
    if source.plane.non_negative or max(window.padding) <= 0:
        whole = (Border(0, count, 0, taps, taps) for count, taps in zip(window.outputs, window.kernel, strict=True))
        rows, columns = ([part] for part in whole)
        return rows, columns
    return window.groups(size, (0, 0))


def _maximum(walk: Walk, node: onnx.NodeProto, source: Value, window: _Window, first: int, name: str) -> Value:
    """Open the max pools of a window over the channels from `first` on."""
    channels, size = source.shape[2], source.shape[:2]
    parts = _parts(source, window, size)
    if len(parts[0]) * len(parts[1]) > MOST_RECTANGLES:
        raise _too_many(node)
    plane = Plane(name=name, shape=(*window.outputs, channels), gain=source.plane.gain)
    whole = (len(parts[0]) == 1, len(parts[1]) == 1)
    for rows in parts[0]:
        for columns in parts[1]:
            fields = window.part(size, rows, columns, whole)
            if not source.plane.non_negative:  # no window reads what is left of the padding
                fields["padding"] = tuple(min(0, side) for side in fields["padding"])
            walk.draft(
                node, source, plane, kind=Kind.MAX_POOL, channels=channels, first=first, reads=channels, **fields
            )
    return Value(plane=plane, view=AxisView.of(("c", "h", "w"), plane.shape), exclusive=True)


def _too_many(node: onnx.NodeProto) -> Exception:
    return misfit(node, f"has more than {MOST_RECTANGLES} kinds of windows at its border", "pad less")


# -- average pools -----------------------------------------------------------------------------------


def _average_pool(walk: Walk, node: onnx.NodeProto) -> None:
    source = walk.map(node, lazy=True)
    fields = _fields(node, source)
    ceil, counted = (bool(Attributes(node).integer(name, 0)) for name in ("ceil_mode", "count_include_pad"))
    own = fields["padding"]
    ceiled = _ceiled(source, fields) if ceil else own
    adds_up = not any(before < 0 < more for before, more in zip(source.pad, own, strict=True))
    if any(source.pad) and source.factor is None and adds_up and (counted or not any(own)) and ceiled == own:
        both = {**fields, "padding": tuple(before + more for before, more in zip(source.pad, own, strict=True))}
        walk.put(node, _sums(walk, node, source, both))  # zeros of a Pad node count as values do
        return
    source, first, order = walk.per_channel(node, walk.settle(node, source))
    walk.check_area(node, source, ceiled, source.shape[2])
    window = _Window.of(node, source, {**fields, "padding": ceiled})
    plane = _average(walk, node, source, window, own, counted, first)
    view = AxisView.of(source.window_axes, plane.shape, np.argsort(order))
    walk.put(node, Value(plane=plane, view=view, exclusive=walk.uses[node.output[0]] == 1))


def _sums(walk: Walk, node: onnx.NodeProto, source: Value, fields: Mapping[str, Any]) -> Value:
    axes = source.window_axes
    source, first, order = walk.per_channel(node, replace(source, pad=NO_PADDING))
    return walk.open(
        node,
        source,
        node.output[0],
        axes=axes,
        channel_order=np.argsort(order),
        kind=Kind.SUM_POOL,
        channels=source.shape[2],
        first=first,
        reads=source.shape[2],
        **fields,
    )


def _average(
    walk: Walk, node: onnx.NodeProto, source: Value, window: _Window, own: Padding, counted: bool, first: int
) -> Plane:
    """Open the layers of an average pool of the channels from `first` on; return the plane that they write.

    `own`: the padding of the node itself, without what a last window has beyond it.
    """
    channels, size = source.shape[2], source.shape[:2]
    parts = window.groups(size, own[2:], counted)
    if not all(parts):
        raise misfit(node, "has a window without a tap", "pad less, or set count_include_pad")
    if len(parts[0]) * len(parts[1]) > MOST_RECTANGLES:
        raise _too_many(node)
    plane = Plane(name=node.output[0], shape=(*window.outputs, channels))
    taps = math.prod(window.kernel)
    plane.gain = source.plane.gain * 2 ** (taps - 1).bit_length() / taps
    whole = (len(parts[0]) == 1, len(parts[1]) == 1)
    for rows in parts[0]:
        for columns in parts[1]:
            fields = {"channels": channels, "first": first, "reads": channels}
            fields |= window.part(size, rows, columns, whole)
            divisor = rows.divisor * columns.divisor
            if divisor == rows.taps * columns.taps == taps:
                walk.draft(node, source, plane, kind=Kind.SUM_POOL, **fields)
                continue
            weights = np.full((channels, 1, rows.taps, columns.taps), 1 / divisor, np.float32)
            bias = np.zeros(channels, np.float32)
            draft = walk.draft(
                node, source, plane, kind=Kind.GEMM, groups=channels, weights=weights, bias=bias, **fields
            )
            if source.plane.non_negative:  # changes no value, and tells a padded pool behind it
                draft.clip = (0.0, None)
    if all(draft.kind is Kind.GEMM for draft in plane.own):
        plane.gain = 1.0
    return plane


# -- reductions --------------------------------------------------------------------------------------


def _global_pool(walk: Walk, node: onnx.NodeProto) -> None:
    """Open a pool over height and width, as GlobalAveragePool or as a reduction along axes."""
    source = walk.value(node)
    rank = len(source.view.axes)
    attributes = Attributes(node)
    reduces = node.op_type.startswith("Reduce")
    given = walk.optional(node, 1) if reduces else None
    axes = attributes.ints("axes") if given is None else tuple(int(a) for a in given.reshape(-1))
    if not reduces:
        axes = tuple(range(2, rank + 1))
    named = sorted({a % (rank + 1) for a in axes}) if axes else []
    tokens = "".join(source.view.axes[a - 1] for a in named if a)
    keep = not reduces or bool(attributes.integer("keepdims", 1))
    if tokens and not tokens.strip("c") and 0 not in named and node.op_type in ("ReduceMean", "ReduceSum"):
        walk.put(node, _over_channels(walk, node, source, [a - 1 for a in named], keep))
        return
    if not named or 0 in named or "c" in tokens or (not reduces and not source.view.holds(0, "")):
        raise misfit(
            node,
            f"reduces axes {axes} of (N, {', '.join(map(str, source.view.shape))})",
            "reduce height and width alone",
        )
    kernel = (source.shape[0] if "h" in tokens else 1, source.shape[1] if "w" in tokens else 1)
    top = node.op_type in ("GlobalMaxPool", "ReduceMax")
    source, first, order = walk.per_channel(node, source)
    made = walk.open(
        node, source, node.output[0], channel_order=np.argsort(order), kind=Kind.MAX_POOL if top else Kind.SUM_POOL,
        channels=source.shape[2], first=first, reads=source.shape[2], kernel=kernel,
    )  # fmt: skip
    view = replace(source.view.without(tokens), channels=np.argsort(order).reshape(source.view.channels.shape))
    if not keep:
        for axis in reversed(named):
            view = view.remove(axis - 1)
    made = replace(made, view=view)
    if node.op_type == "ReduceSum":
        count = float(math.prod(kernel))
        ones = np.ones(made.shape[2])
        made = replace(made, factor=count * ones, shift=0 * ones)
    walk.put(node, made)


def _over_channels(walk: Walk, node: onnx.NodeProto, source: Value, axes: Sequence[int], keep: bool) -> Value:
    """Open a 1x1 convolution of equal weights that takes the mean or the sum of a value's channels."""
    if sum(axis.count("c") for axis in source.view.axes) != sum(source.view.axes[at].count("c") for at in axes):
        raise misfit(node, "reduces some of the channels alone", "reduce all channels, or height and width")
    count = source.shape[2]
    weight = 1 / count if node.op_type == "ReduceMean" else 1.0
    weights, bias = np.full((1, count, 1, 1), weight, np.float32), np.zeros(1, np.float32)
    made = dense(walk, node, source, weights, bias, {"padding": NO_PADDING})
    view = AxisView.of([axis.replace("c", "") for axis in source.view.axes], made.plane.shape)
    if not keep:
        for axis in reversed(axes):
            view = view.remove(axis)
    return replace(made, view=view)


POOL_OPERATORS = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "MaxPool": _max_pool,
    "ReduceMax": _global_pool,
    "ReduceMean": _global_pool,
    "ReduceSum": _global_pool,
}
