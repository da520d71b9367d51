"""Average pools whose windows leave out padding: border windows of their own, written into one tensor.

A window at the border averages fewer taps. So the output is cut into rectangles whose windows keep the same
taps: the one of whole windows is a sum pool, each other one a depthwise convolution of weight N / (taps *
2**shift), which is exact where N / taps is a whole number of binary fractions, as for all windows of 2 and 3
(ADR 19).

>>> borders(size=5, kernel=3, stride=1, dilation=1, begin=1, end=1, counted=False, outputs=5)
[Border(first=0, outputs=1, tap=1, taps=2, divisor=2), Border(first=1, outputs=3, tap=0, taps=3, divisor=3), \
Border(first=4, outputs=1, tap=0, taps=2, divisor=2)]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx

from ..graph.shapes import Kind, Pair
from .drafts import Plane
from .file import Attributes, refuse
from .refusals import misfit
from .walk import Value, Walk

MOST_RECTANGLES = 64


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
    """Group the outputs along an axis of `size` with `begin` and `end` zeros around it.

    `counted`: the zeros are among the taps that are divided by; what a last window has beyond them never is.
    """
    found: list[Border] = []
    for output in range(outputs):
        start = output * stride - begin
        tap = max(0, -(start // dilation))
        taps = min(kernel, (size - 1 - start) // dilation + 1) - tap
        divisor = min(kernel, (size + end - 1 - start) // dilation + 1) if counted else taps
        if counted and divisor == kernel:  # the zeros are read: one rectangle with the inner windows
            tap, taps = 0, kernel
        if taps < 1:
            return []
        last = found[-1] if found else None
        if last is not None and last[2:] == (tap, taps, divisor):
            found[-1] = last._replace(outputs=last.outputs + 1)
        else:
            found.append(Border(output, 1, tap, taps, divisor))
    return found


def average(
    walk: Walk, node: onnx.NodeProto, source: Value, window: dict[str, Any], ceiled: Sequence[int], first: int
) -> Plane:
    """Open the layers of an average pool of the channels from `first` on; return the plane that they write.

    `window` has kernel, stride, dilation and the padding of the node itself, `ceiled` the padding with which
    rounding down equals its rounding.
    """
    counted = bool(Attributes(node).integer("count_include_pad", 0))
    kernel, stride, dilation = window["kernel"], window["stride"], window["dilation"]
    channels = source.shape[2]
    walk.check_area(node, source, (ceiled[0], ceiled[1], ceiled[2], ceiled[3]), channels)
    groups = []
    for axis in (0, 1):
        extent = (kernel[axis] - 1) * dilation[axis] + 1
        outputs = (source.shape[axis] + ceiled[axis] + ceiled[axis + 2] - extent) // stride[axis] + 1
        if outputs < 1:
            raise refuse(node, f"must have a window no larger than its padded input, and it needs {extent}")
        groups.append(
            borders(
                size=source.shape[axis],
                kernel=kernel[axis],
                stride=stride[axis],
                dilation=dilation[axis],
                begin=window["padding"][axis],
                end=window["padding"][axis + 2],
                counted=counted,
                outputs=outputs,
            )
        )
    if not all(groups) or len(groups[0]) * len(groups[1]) > MOST_RECTANGLES:
        raise misfit(
            node,
            f"has more than {MOST_RECTANGLES} kinds of windows at its border, or one without a tap",
            "pad less, or set count_include_pad",
        )
    sizes = (sum(one.outputs for one in groups[0]), sum(one.outputs for one in groups[1]))
    plane = Plane(name=node.output[0], shape=(*sizes, channels))
    taps = math.prod(kernel)
    plane.gain = source.plane.gain * 2 ** (taps - 1).bit_length() / taps
    for rows in groups[0]:
        for columns in groups[1]:
            alone = (len(groups[0]) == 1, len(groups[1]) == 1)
            _rectangle(walk, node, source, plane, {**window, "ceiled": ceiled, "alone": alone}, (rows, columns), first)
    if all(draft.kind is Kind.GEMM for draft in plane.own):
        plane.gain = 1.0
    return plane


def _rectangle(
    walk: Walk,
    node: onnx.NodeProto,
    source: Value,
    plane: Plane,
    window: dict[str, Any],
    parts: tuple[Border, Border],
    first: int,
) -> None:
    kernel: Pair = (parts[0].taps, parts[1].taps)
    begin, end = [0, 0], [0, 0]
    for axis, part in enumerate(parts):
        begin[axis] = (
            window["padding"][axis] - part.first * window["stride"][axis] - part.tap * window["dilation"][axis]
        )
        reach = (part.outputs - 1) * window["stride"][axis] + (part.taps - 1) * window["dilation"][axis] + 1
        end[axis] = reach - begin[axis] - source.shape[axis]
        if window["alone"][axis] and part.taps == window["kernel"][axis]:  # rows that no window reaches may stay
            end[axis] = window["ceiled"][axis + 2]
    channels, divisor = source.shape[2], parts[0].divisor * parts[1].divisor
    fields: dict[str, Any] = {
        "channels": channels,
        "first": first,
        "reads": channels,
        "kernel": kernel,
        "stride": window["stride"],
        "dilation": window["dilation"],
        "padding": (begin[0], begin[1], end[0], end[1]),
        "at": (parts[0].first, parts[1].first),
    }
    if divisor == math.prod(kernel) == math.prod(window["kernel"]):
        walk.draft(node, source, plane, kind=Kind.SUM_POOL, **fields)
        return
    draft = walk.draft(
        node,
        source,
        plane,
        kind=Kind.GEMM,
        groups=channels,
        weights=np.full((channels, 1, *kernel), 1 / divisor, np.float32),
        bias=np.zeros(channels, np.float32),
        **fields,
    )
    if source.plane.non_negative:  # changes no value, and tells a padded pool behind it
        draft.clip = (0.0, None)
