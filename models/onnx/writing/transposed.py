"""Write the phases of a transposed convolution as the one ConvTranspose that they are (ADR 41). Pure.

A layer that writes every s-th pixel from pixel r on, and reads input q + e for its q-th output through one of
its taps, is a part of a transposed convolution of stride s, where that tap is number r + begin - s * e.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...graph.network import Layer
from ...graph.shapes import Kind, Pair

_MOST_TAPS = 64  # along an axis


@dataclass(frozen=True, kw_only=True)
class Transposed:
    """Weights (C in, C / groups, rows, columns) and attributes of a ConvTranspose."""

    weights: npt.NDArray[np.float32]
    attributes: Mapping[str, Any]


def find_transposed(
    layers: Sequence[Layer], weights: Sequence[npt.NDArray[np.float32]], size: Pair
) -> Transposed | None:
    """Return the ConvTranspose that layers with these weights are between them, of output `size`; None where
    they are none.

    Weights are (O, I / groups, kernel height, kernel width).
    """
    first = layers[0]
    step = first.output_step
    wanted = {(row, column) for row in range(min(step[0], size[0])) for column in range(min(step[1], size[1]))}
    alike = all(
        (
            layer.kind,
            layer.input,
            layer.input_channel,
            layer.in_shape,
            layer.groups,
            layer.channels,
            layer.stride,
            layer.output_step,
        )
        == (Kind.GEMM, first.input, first.input_channel, first.in_shape, first.groups, first.channels, (1, 1), step)
        for layer in layers
    )
    if not alike or len(layers) != len(wanted) or {layer.output_at for layer in layers} != wanted:
        return None
    axes = [_axis(layers, axis, size[axis]) for axis in (0, 1)]
    if axes[0] is None or axes[1] is None:
        return None
    rows, columns = axes[0], axes[1]
    out, per = weights[0].shape[:2]
    whole = np.zeros((out, per, rows.taps, columns.taps), np.float32)
    for layer, own in zip(layers, weights, strict=True):
        at = np.ix_(range(out), range(per), rows.places(layer, 0), columns.places(layer, 1))
        whole[at] = own
    groups = first.groups
    split = whole.reshape(groups, out // groups, per, rows.taps, columns.taps).swapaxes(1, 2)
    attributes = {
        "strides": step,
        "dilations": (rows.apart, columns.apart),
        "pads": (rows.begin, columns.begin, rows.end, columns.end),
        "kernel_shape": (rows.taps, columns.taps),
        "group": groups,
    }
    return Transposed(
        weights=np.ascontiguousarray(split).reshape(groups * per, -1, rows.taps, columns.taps), attributes=attributes
    )


@dataclass(frozen=True, kw_only=True)
class _Axis:
    """The taps of a transposed convolution along an axis, `apart`, and the outputs that are cut off."""

    taps: int
    apart: int
    begin: int
    end: int

    def places(self, layer: Layer, axis: int) -> list[int]:
        return [(at + self.begin) // self.apart for at in _reaches(layer, axis)]


def _reaches(layer: Layer, axis: int) -> list[int]:
    """Return output less stride * input for each of a layer's taps, which is the same for all its outputs."""
    step, at = layer.output_step[axis], layer.output_at[axis]
    inputs = [tap * layer.dilation[axis] - layer.padding[axis] for tap in range(layer.kernel[axis])]
    return [at - step * input_ for input_ in inputs]


def _axis(layers: Sequence[Layer], axis: int, size: int) -> _Axis | None:
    step = layers[0].output_step[axis]
    reaches = sorted({reach for layer in layers for reach in _reaches(layer, axis)})
    if any(layer.out_hw[axis] != -(-(size - layer.output_at[axis]) // step) for layer in layers) or reaches[0] > 0:
        return None
    begin = -reaches[0]
    apart = math.gcd(*(reach + begin for reach in reaches)) or 1
    last = reaches[-1] + begin
    end = step * (layers[0].in_shape[axis] - 1) + last + 1 - begin - size
    if end < 0:
        last, end = last - end + (end % apart), end % apart
    taps = last // apart + 1
    return _Axis(taps=taps, apart=apart, begin=begin, end=end) if taps <= _MOST_TAPS else None
