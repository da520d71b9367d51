"""The arrangement of an ONNX value's elements in a stored tensor. Pure; moving axes here moves no data.

A stored tensor is (height, width, channels). An axis of the value is a text of tokens: "h", "w" and a "c" for
each factor of the channels, the first varying slowest; an axis of size one is empty. So Transpose, Reshape,
Squeeze, Split and Slice of channels are other views of the same tensor, and a layer that reads one permutes
its weights.

>>> split = AxisView.of(("c", "h", "w"), (4, 5, 6)).reshape((2, 3, 4, 5))
>>> shuffled = split.transpose((1, 0, 2, 3)).reshape((6, 4, 5))
>>> shuffled.axes, shuffled.index.tolist(), shuffled.is_map
(('c', 'h', 'w'), [0, 3, 1, 4, 2, 5], True)
>>> AxisView.of(("h", "w", "c"), (4, 5, 6)).transpose((2, 0, 1)).is_map
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...graph.shapes import Pair, Shape

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class AxisView:
    """The axes of a value after the batch, and the plane's channel for each index of its channel factors.

    `channels` has one axis for each "c" of `axes`, in their order.
    """

    axes: tuple[str, ...]
    channels: Indices
    size: Pair  # height and width of the plane

    @classmethod
    def of(cls, axes: Sequence[str], plane: Shape, channels: Indices | None = None) -> AxisView:
        """View a plane (height, width, channels) whole; a letter of `axes` whose size is one is left out."""
        sizes = {"h": plane[0], "w": plane[1], "c": plane[2]}
        index = np.arange(plane[2]) if channels is None else channels.reshape(-1)
        kept = tuple("".join(token for token in axis if sizes[token] > 1) for axis in axes)
        return cls(axes=kept, channels=index if plane[2] > 1 else index.reshape(()), size=plane[:2])

    @property
    def index(self) -> Indices:
        """The plane's channel of each of the value's channels, (n,)."""
        return self.channels.reshape(-1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(math.prod(size for _, size in axis) for axis in self._sized())

    def _sized(self) -> list[list[tuple[str, int]]]:
        factors = iter(self.channels.shape)
        sizes = {"h": self.size[0], "w": self.size[1]}
        return [[(token, next(factors) if token == "c" else sizes[token]) for token in axis] for axis in self.axes]

    @property
    def is_vector(self) -> bool:
        """True for one axis, (N, features)."""
        return len(self.axes) == 1

    @property
    def is_map(self) -> bool:
        """True for (N, channels, height, width)."""
        return len(self.axes) == 3 and self.holds(0, "") and self.axes[1:] == (self._h, self._w)

    @property
    def is_line(self) -> bool:
        """True for (N, channels, length) over a plane of one row or one column."""
        return len(self.axes) == 2 and self.holds(0, "") and self.axes[1] == self._h + self._w in ("", "h", "w")

    @property
    def _h(self) -> str:
        return "h" if self.size[0] > 1 else ""

    @property
    def _w(self) -> str:
        return "w" if self.size[1] > 1 else ""

    def holds(self, axis: int, more: str) -> bool:
        """True if an axis is of channels, and of tokens in `more`, alone."""
        return set(self.axes[axis]) <= {"c", *more}

    def transpose(self, order: Sequence[int]) -> AxisView:
        """Reorder the axes."""
        starts = np.cumsum([0, *(axis.count("c") for axis in self.axes)])
        factors = [f for axis in order for f in range(starts[axis], starts[axis + 1])]
        return replace(self, axes=tuple(self.axes[axis] for axis in order), channels=self.channels.transpose(factors))

    def reshape(self, shape: Sequence[int]) -> AxisView | None:
        """Join and split axes in order; None where an axis of height or width would have to be split."""
        if math.prod(shape) != math.prod(self.shape) or min(shape, default=1) < 1:
            return None
        left = [pair for axis in self._sized() for pair in axis][::-1]
        axes, factors = [], []
        for size in shape:
            axis, have = "", 1
            while have < size:
                token, extent = left.pop()
                if size % (have * extent):
                    part = size // have
                    if token != "c" or size % have or extent % part:
                        return None
                    left.append((token, extent // part))
                    extent = part
                axis += token
                have *= extent
                factors += [extent] if token == "c" else []
            axes.append(axis)
        return replace(self, axes=tuple(axes), channels=self.channels.reshape(factors)).joined()

    def joined(self) -> AxisView:
        """Join factors of channels that follow one another in an axis."""
        sizes: list[int] = []
        axes = []
        for axis in self._sized():
            text = ""
            for token, size in axis:
                if token == "c" == text[-1:]:
                    sizes[-1] *= size
                    continue
                text += token
                sizes += [size] if token == "c" else []
            axes.append(text)
        return replace(self, axes=tuple(axes), channels=self.channels.reshape(sizes))

    def insert(self, axis: int) -> AxisView:
        """Insert an axis of size one."""
        return replace(self, axes=(*self.axes[:axis], "", *self.axes[axis:]))

    def remove(self, axis: int) -> AxisView:
        """Remove an axis of size one."""
        return replace(self, axes=(*self.axes[:axis], *self.axes[axis + 1 :]))

    def by_axis(self) -> Indices:
        """Return the plane's channels in a shape of one axis for each axis of the value.

        The axes of height or width have size one.
        """
        return self.channels.reshape([math.prod(s for t, s in axis if t == "c") for axis in self._sized()])

    def with_channels(self, channels: Indices) -> AxisView:
        """Return the view with other channels, in the shape that `by_axis` gives them.

        Its axes are either of channels or of height and width.
        """
        axes = tuple(
            axis if set(axis) & {"h", "w"} else ("c" if count > 1 else "")
            for axis, count in zip(self.axes, channels.shape, strict=True)
        )
        return replace(self, axes=axes, channels=channels.reshape([n for n in channels.shape if n > 1]))

    def with_order(self, index: Indices) -> AxisView:
        """Return the same axes over other channels of a plane, (n,)."""
        return replace(self, channels=index.reshape(self.channels.shape))

    def without(self, tokens: str) -> AxisView:
        """Return the view of a plane that a pool reduced to one row, one column or both."""
        size = (1 if "h" in tokens else self.size[0], 1 if "w" in tokens else self.size[1])
        axes = tuple("".join(token for token in axis if token not in tokens) for axis in self.axes)
        return replace(self, axes=axes, size=size)

    def take(self, axis: int, positions: Any) -> AxisView:
        """Take some positions (indices or a slice) of an axis of channels."""
        return self.with_channels(self.by_axis()[(slice(None),) * axis + (positions,)])

    def spread(self, constant: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Return a constant operand as one number for each channel, (n,); None where it changes along
        height, width or the batch, or does not fit.
        """
        if constant.ndim > len(self.axes) + 1:
            return None
        aligned = constant.reshape((1,) * (len(self.axes) + 1 - constant.ndim) + constant.shape)
        if aligned.shape[0] != 1:
            return None
        sizes: list[int] = []
        for axis, (have, want) in enumerate(zip(aligned.shape[1:], self.shape, strict=True)):
            if have not in (1, want) or (have > 1 and not self.holds(axis, "")):
                return None
            factors = [size for token, size in self._sized()[axis] if token == "c"]
            sizes += [1] * len(factors) if have == 1 else factors
        return np.broadcast_to(aligned.reshape(sizes), self.channels.shape).reshape(-1)
