"""The state of one pass over an ONNX graph: values and constants by name, open layers, remaining budget.

Operators (layers.py, folding.py, moves.py) read values and constants here and open layers, fold into them or
give a value another view.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ...errors import ModelFileError, UnsupportedOperatorError
from ...graph.activations import Activation, Use
from ...graph.shapes import Kind, Pair, Shape
from ..file import MOST_ELEMENTS, OnnxFile, label, refuse, reject
from .drafts import (
    NO_PADDING,
    Array,
    Clip,
    Doubles,
    Draft,
    Padding,
    Plane,
    apply_clip,
    clip_targets,
    plain,
)
from .patterns import Pattern
from .refusals import HOST_ENDS, misfit
from .view import AxisView, Indices

MOST_WEIGHTS = 1 << 28  # of a model's layers, and of its constants while it is read
_MOST_WORK = 8  # times as many elements may be folded in all, so that reading ends soon


@dataclass(frozen=True, kw_only=True)
class Value:
    """The value of an ONNX name: a view of a plane, and what is still to be done to it.

    `pad`: zeros around it, or rows and columns left out (negative). `factor` and `shift`, (n,) for its
    channels: an affine map that the layers that read it take over. Both are settled by a layer of their own
    where no reader can take them over. `activation` ends the network, along `axis`.
    """

    plane: Plane
    view: AxisView
    exclusive: bool  # nothing else reads it, under any name
    pad: Padding = NO_PADDING
    factor: Doubles | None = None
    shift: Doubles | None = None
    activation: str = ""
    axis: int = 1
    pixels: bool = False  # of a uint8 image: what is stored is divided by 255
    unbatched: bool = False  # one line of values, the batch of one left out: only a Gather or Reshape may follow

    @property
    def shape(self) -> Shape:
        """(height, width, channels) of what the value holds of its plane."""
        return (*self.plane.shape[:2], self.view.channels.size)

    @property
    def pixel(self) -> bool:
        """True if the plane is one pixel, so that map and vector are the same."""
        return self.shape[0] * self.shape[1] == 1

    @property
    def covers(self) -> bool:
        """True if the value holds each channel of its plane once, in any order."""
        index = self.view.index
        return index.size == self.plane.shape[2] and np.array_equal(np.sort(index), np.arange(index.size))

    @property
    def ordered(self) -> bool:
        """True if the value's channels follow one another in its plane."""
        index = self.view.index
        return np.array_equal(index, index[0] + np.arange(index.size))

    @property
    def foldable(self) -> bool:
        """True if what follows may be folded into the layers that write the value."""
        plane = self.plane
        return self.exclusive and self.covers and not plane.sealed and bool(plane.writers) and plane.whole

    @property
    def settled(self) -> bool:
        """True if nothing is still to be done to the value."""
        return not any(self.pad) and self.factor is None

    def equals(self, other: Value) -> bool:
        """True for the same channels of the same plane, to which the same is still to be done."""
        mapped = self.factor is other.factor and self.shift is other.shift
        return self.plane is other.plane and self.view is other.view and mapped and self.pad == other.pad

    @property
    def onnx_shape(self) -> tuple[int, ...]:
        """The sizes of the value's axes after the batch, a pending padding included; none of one number."""
        top, left, bottom, right = self.pad
        if not self.view.axes:
            return ()
        if self.view.is_map:
            channels, height, width = self.view.shape
            return channels, height + top + bottom, width + left + right
        return (*self.view.shape[:-1], self.view.shape[-1] + top + left + bottom + right)

    @property
    def window_axes(self) -> tuple[str, ...]:
        """The axes of a map or of a line, also those of size one."""
        return ("c", "h", "w") if self.view.is_map else ("c", "h" if self.upright else "w")

    @property
    def upright(self) -> bool:
        """True for a line along the height of its plane."""
        return self.shape[0] > 1


class Walk:
    """The state of one pass: values and constants by name, drafts in the order they were opened."""

    def __init__(self, file: OnnxFile, most_weights: int = MOST_WEIGHTS) -> None:
        self.file = file
        self.uses = file.uses()
        self.values: dict[str, Value] = {}
        self.constants: dict[str, npt.NDArray[Any]] = {}
        self.drafts: list[Draft] = []
        self.names: set[str] = set()
        self.most_weights = most_weights
        self.weights = 0  # elements in layers
        self.kept = 0  # elements in constants that are still needed
        self.folded = 0  # elements of all constants so far
        self._left = dict(self.uses)  # readers to come
        self._gathered: dict[tuple[Plane, bytes], Value] = {}
        self.batch = 0
        self.source: Plane
        self.patterns: dict[str, Pattern] = {}  # that become one use of the activation unit, by what they compute
        self.may_end: Callable[[str], bool] = lambda _: False  # if the host may go on from a value to the end

    # -- what nodes read and write ---------------------------------------------------------------------------

    def raw(self, node: onnx.NodeProto, index: int = 0) -> Value:
        """Return the activation at an input of a node, with all that is still to be done to it."""
        name = node.input[index] if index < len(node.input) else ""
        if name not in self.values:
            what = f"'{name}' is a constant" if self.known(name) else f"'{name}' is nowhere in the file"
            raise refuse(node, f"must read an activation at input {index}, and {what}")
        if self.values[name].unbatched and node.op_type not in ("Gather", "Reshape"):
            raise misfit(node, "reads what has lost its batch", "keep the batch as the first dimension")
        return self.values[name]

    def value(self, node: onnx.NodeProto, index: int = 0, *, lazy: bool = False) -> Value:
        """Return the activation at an input of a node.

        `lazy`: the node takes over a pending padding, factor and shift, which are settled otherwise. Raises
        UnsupportedOperatorError for a value that only the host, an exit or an output can read.
        """
        value = self.raw(node, index)
        if value.activation == "sigmoid":
            value = self._table_of_sigmoid(node, index, value)
        if value.pixels:
            raise misfit(node, f"reads the uint8 image '{node.input[index]}'", "cast it to floats first")
        if value.activation:
            raise UnsupportedOperatorError(
                label(node), node.op_type, "follows a Softmax", "a Softmax may only end an exit or an output"
            )
        return value if lazy else self.settle(node, value)

    def _table_of_sigmoid(self, node: onnx.NodeProto, index: int, value: Value) -> Value:
        """Return a Sigmoid that a node of the NPU reads; what ends the network is left to the host."""
        if self.may_end(node.output[0]):
            raise misfit(node, f"reads the Sigmoid '{node.input[index]}' behind the last layer", HOST_ENDS)
        name = node.input[index]
        sigmoid = Activation(use=Use.TABLE, function="sigmoid")
        made = self.activate(self._maker(name, node), replace(value, activation=""), sigmoid, name)
        self.values[name] = made
        return made

    def _maker(self, name: str, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return the node that computes a value, else the one that reads it."""
        return self.file.model.graph.node[self.file.producers[name]] if name in self.file.producers else node

    def may_take(self, pattern: Pattern) -> bool:
        """True if what a pattern reads is a value that the activation unit can take."""
        value = self.values.get(pattern.reads)
        return value is not None and not (value.pixels or value.unbatched or value.activation.endswith("softmax"))

    def taken(self, pattern: Pattern, node: onnx.NodeProto) -> Value:
        """Return what a pattern, which ends in a node, reads."""
        reads = onnx.NodeProto(name=node.name, op_type=node.op_type, input=[pattern.reads], output=[pattern.gives])
        return self.value(reads)

    def map(self, node: onnx.NodeProto, *, lazy: bool = False) -> Value:
        """Return the activation at input 0, which must be (N, C, H, W) or (N, C, L)."""
        value = self.value(node, lazy=lazy)
        if not (value.view.is_map or value.view.is_line):
            raise refuse(
                node,
                f"must read (N, channels, height, width) or (N, channels, length), and '{node.input[0]}' is "
                f"(N, {', '.join(map(str, value.view.shape))})" + (", a vector" if value.view.is_vector else ""),
            )
        return value

    def known(self, name: str) -> bool:
        """True if a name is a constant."""
        return name in self.constants or name in self.file.protos

    def optional(self, node: onnx.NodeProto, index: int) -> npt.NDArray[Any] | None:
        """Return the constant at an input in the file's shape, or None where the input is left out."""
        if index >= len(node.input) or not node.input[index]:
            return None
        name = node.input[index]
        if name not in self.constants:
            if name not in self.file.protos:
                what = "is computed" if name in self.values else "is nowhere in the file"
                raise refuse(node, f"must find a constant at input {index}, and '{name}' {what}")
            size = math.prod(self.file.protos[name].dims)
            if 0 <= size <= MOST_ELEMENTS:  # any other is refused for what it is
                self.afford(size)
            self.keep(name, self.file.constant(name))
        return self.constants[name]

    def constant(self, node: onnx.NodeProto, index: int) -> npt.NDArray[Any]:
        """Return the constant at an input, in the file's shape."""
        value = self.optional(node, index)
        if value is None:
            raise refuse(node, f"must have an input {index}, and it is left out")
        return value

    def keep(self, name: str, array: npt.NDArray[Any]) -> None:
        """Remember a constant of any shape, within the limit; each counts once, as long as a node will read
        it.
        """
        self.afford(array.size)
        self.kept += array.size
        self.folded += array.size
        self.constants[name] = array

    def afford(self, elements: int) -> None:
        """Raise ModelFileError if this number of further elements is beyond the limit."""
        if self.kept + elements > self.most_weights or self.folded + elements > _MOST_WORK * self.most_weights:
            raise self._too_many()

    def visited(self, node: onnx.NodeProto) -> None:
        """Forget the constants that no later node reads."""
        for name in node.input:
            self._left[name] = self._left.get(name, 0) - 1
            if self._left[name] <= 0 and name in self.constants:
                self.kept -= self.constants.pop(name).size

    def _too_many(self) -> ModelFileError:
        return ModelFileError(
            f"{self.file.path} must have at most {self.most_weights} weights and constants, and it has more; a larger "
            "--most-weights (most_weights in Python) reads it"
        )

    def put(self, node: onnx.NodeProto, value: Value) -> None:
        """Give a node's first output its value; further outputs must not be used.

        Raises UnsupportedOperatorError where one of them is in use.
        """
        for extra in node.output[1:]:
            if self.uses.get(extra):
                raise UnsupportedOperatorError(
                    label(node), node.op_type, "has a second output in use", "only the first one exists here"
                )
        self.values[node.output[0]] = value

    def alias(self, node: onnx.NodeProto, source: Value, output: str | None = None, **changes: Any) -> None:
        """Give the same plane a further name, perhaps in another view."""
        name = output or node.output[0]
        made = replace(source, exclusive=source.exclusive and self.uses[name] == 1, **changes)
        if made.settled and not made.activation and made.covers:
            source.plane.aliases.append(name)
        if output is None:
            self.put(node, made)
        else:
            self.values[output] = made

    def moved(
        self,
        node: onnx.NodeProto,
        move: Callable[[AxisView], AxisView | None],
        source: Value | None = None,
        axis: int | None = None,
    ) -> Value | None:
        """Return the value at input 0, or a value, in another view of the same elements or of some of them.

        `axis`: of its Softmax, in the new view, where there is one.
        """
        source = self.raw(node) if source is None else source
        if any(source.pad):
            source = self.settle(node, source)
        view = move(source.view.with_order(np.arange(source.view.channels.size)))
        if view is None:
            return None
        if source.activation.endswith("softmax") and axis is None:
            along, all_there = source.view.axes[source.axis - 1], np.arange(source.view.channels.size)
            whole = np.array_equal(np.sort(view.index), all_there)  # shares of some classes are not some shares
            if not (source.pixel and whole and along and view.axes[0] == along):
                self.value(node)  # refuses
            axis = 1
        taken = view.index
        return replace(
            source,
            view=view.with_order(source.view.index[taken]),
            factor=None if source.factor is None else source.factor[taken],
            shift=None if source.shift is None else source.shift[taken],
            axis=axis or 1,
        )

    def renamed(self, node: onnx.NodeProto, source: Value) -> None:
        """Return the plane after a fold into its writers, which makes its old name meaningless."""
        source.plane.name, source.plane.aliases = node.output[0], []
        self.put(node, replace(source, exclusive=self.uses[node.output[0]] == 1))

    # -- opening layers --------------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """Return a plain layer name that is not taken."""
        name = plain(name)
        candidate, count = name, 1
        while candidate in self.names:
            count += 1
            candidate = f"{name}_{count}"
        self.names.add(candidate)
        return candidate

    def open(
        self,
        node: onnx.NodeProto,
        source: Value,
        output: str,
        *,
        axes: Sequence[str] = ("c", "h", "w"),
        channel_order: Indices | None = None,
        **fields: Any,
    ) -> Value:
        """Open a new layer on the channels [first, first + reads) of a value's plane; check its geometry.

        The output is seen with `axes`; its channel i is channel channel_order[i] of the new plane,
        (channels,).
        """
        draft = self.draft(node, source, Plane(name=output, shape=(1, 1, fields["channels"])), **fields)
        plane = draft.output
        plane.shape = (*draft.layer().out_hw, draft.channels)
        self._check_extent(node, plane.shape)
        plane.gain = draft.layer().pool_gain * (1.0 if draft.kind is Kind.GEMM else source.plane.gain)
        view = AxisView.of(axes, plane.shape, channel_order)
        return Value(plane=plane, view=view, exclusive=self.uses.get(output, 1) == 1)

    def _check_extent(self, node: onnx.NodeProto, shape: Shape) -> None:
        if math.prod(shape) > MOST_ELEMENTS:
            raise refuse(node, f"must have an output of at most {MOST_ELEMENTS} values, not {shape}")

    def check_area(self, node: onnx.NodeProto, source: Value, padding: Padding, channels: int) -> None:
        """Refuse a padded input that is too large."""
        area = [source.shape[axis] + padding[axis] + padding[axis + 2] for axis in (0, 1)]
        if math.prod(area) * channels > MOST_ELEMENTS:
            raise refuse(node, f"must have a padded input of at most {MOST_ELEMENTS} values, not {(*area, channels)}")

    def draft(self, node: onnx.NodeProto, source: Value, plane: Plane, **fields: Any) -> Draft:
        """Open a layer that writes (a part of) a plane; check its window."""
        kernel, dilation = fields.get("kernel", (1, 1)), fields.get("dilation", (1, 1))
        padding = fields.get("padding", NO_PADDING)
        for axis in (0, 1):
            available = source.shape[axis] + padding[axis] + padding[axis + 2]
            if (kernel[axis] - 1) * dilation[axis] + 1 > available:
                raise reject(
                    node,
                    f"must have a window no larger than its padded input, and it needs "
                    f"{(kernel[axis] - 1) * dilation[axis] + 1} of {available}",
                )
        self.check_area(node, source, padding, fields["reads"])
        draft = Draft(
            name=self.unique(label(node)),
            input=source.plane,
            output=plane,
            sole_reader=source.exclusive and source.covers,
            **fields,
        )
        if draft.kind is not Kind.GEMM:
            draft.passes_sign = source.plane.non_negative
        elif draft.weights is not None:
            self.weights += draft.weights.size
            if self.weights > self.most_weights:
                raise self._too_many()
        plane.own.append(draft)
        self.drafts.append(draft)
        return draft

    def aside(self, node: onnx.NodeProto, suffix: str = "copy") -> str:
        """Return a free name for a plane that a node needs beside its output."""
        count = 1
        while (name := f"{node.output[0]}_{suffix}{count}") in self.file.producers or name in self.names:
            count += 1
        self.names.add(name)
        return name

    # -- moving values ---------------------------------------------------------------------------------------

    def per_channel(self, node: onnx.NodeProto, source: Value) -> tuple[Value, int, Indices]:
        """Return a value whose channels fill a range of its plane, for a layer that treats each by itself.

        With it come the first channel of the range, and the value's channel at each place of it, (channels,).
        """
        index = source.view.index
        order = np.argsort(index, kind="stable")
        if not np.array_equal(index[order], index.min() + np.arange(index.size)):
            source = self.gathered(node, source)
            return source, int(source.view.index[0]), np.arange(index.size)
        return source, int(index.min()), order

    def ranged(self, node: onnx.NodeProto, source: Value) -> tuple[Value, int]:
        """Return a value whose channels follow one another in its plane, and the first of them."""
        if not source.ordered:
            source = self.gathered(node, source)
        return source, int(source.view.index[0])

    def gathered(self, node: onnx.NodeProto, source: Value) -> Value:
        """Put a value's channels in order: in the layer that writes them, else with a permuted 1x1
        convolution.
        """
        index, writers = source.view.index, source.plane.own
        if source.foldable and len(writers) == 1 and not source.plane.pieces:
            writer = writers[0]
            if writer.kind is Kind.GEMM and writer.groups == 1 and writer.residual is None:
                writer.permute(index)
                return replace(source, view=source.view.with_order(np.arange(index.size)))
        key = (source.plane, index.tobytes())
        if key not in self._gathered:
            weights = _selection(index)
            made = self.open(
                node,
                source,
                self.aside(node, "order"),
                kind=Kind.GEMM,
                channels=index.size,
                first=int(index.min()),
                reads=weights.shape[1],
                weights=weights,
                bias=np.zeros(index.size, np.float32),
            )
            self._gathered[key] = self.keep_sign(replace(source, factor=None), made)
        made = self._gathered[key]
        return replace(
            made,
            view=source.view.with_order(np.arange(index.size)),
            exclusive=source.exclusive,
            pad=source.pad,
            factor=source.factor,
            shift=source.shift,
            pixels=source.pixels,
        )

    def copy(self, node: onnx.NodeProto, source: Value, output: str | None = None, stride: Pair = (1, 1)) -> Value:
        """Open a layer that gives the same values, for an operation that folds nowhere; it settles the value.

        It is a pass where nothing moves and no gain has to go (ADR 69). Else it is a 1x1 convolution of
        weight one, which is depthwise, but where it gathers channels from here and there.
        """
        index = source.view.index
        spread = np.unique(index).size < index.size or int(np.ptp(index)) + 1 > index.size
        moves = spread or any(source.pad) or stride != (1, 1) or source.plane.root()[0] is self.source
        if not moves and source.plane.gain == 1.0:
            return self._pass(node, source, output or self.aside(node))
        if spread and (source.plane, index.tobytes()) not in self._gathered:
            weights, first, order = _selection(index), int(index.min()), np.arange(index.size)
            reads, groups = weights.shape[1], 1
        else:
            source, first, order = self.per_channel(node, source)
            weights = np.ones((index.size, 1, 1, 1), np.float32)
            reads = groups = index.size
        made = self.open(
            node,
            source,
            output or self.aside(node),
            channel_order=np.argsort(order),
            kind=Kind.GEMM,
            channels=index.size,
            first=first,
            reads=reads,
            groups=groups,
            padding=source.pad,
            stride=stride,
            weights=weights,
            bias=np.zeros(index.size, np.float32),
        )
        if source.factor is not None and source.shift is not None:
            made.plane.own[0].scale(source.factor[order], source.shift[order])
        view = source.view.with_order(made.view.index)
        if any(source.pad) or stride != (1, 1):  # of maps and lines alone
            view = AxisView.of(source.window_axes, made.plane.shape, made.view.index)
        return replace(made, view=view, pixels=source.pixels)

    def _pass(self, node: onnx.NodeProto, source: Value, output: str) -> Value:
        """Open a max pool of one tap, which takes values through the activation unit for a pending map."""
        source, first, order = self.per_channel(node, source)
        made = self.open(
            node,
            source,
            output,
            channel_order=np.argsort(order),
            kind=Kind.MAX_POOL,
            channels=order.size,
            first=first,
            reads=order.size,
        )
        if source.factor is not None and source.shift is not None:
            made.plane.own[0].activate(Activation(use=Use.AFFINE), source.factor[order], source.shift[order])
        return replace(made, view=source.view.with_order(made.view.index))

    def activate(
        self,
        node: onnx.NodeProto,
        source: Value,
        activation: Activation,
        name: str,
        slopes: Doubles | None = None,
        offsets: Doubles | None = None,
    ) -> Value:
        """Let the activation unit make `name` of a value; slopes and offsets are (n,) for its channels.

        It does so in the layers that write the value where nothing else reads it, else in a pass.
        """
        source = self.settle(node, source)
        if not (source.foldable and source.plane.gain == 1.0 and all(map(_ends_in_unit, source.plane.writers))):
            source = self.copy(node, source, name)
        plane = source.plane
        place = np.argsort(source.view.index)  # the value's channel at each place of the plane
        for writer in plane.writers:
            first = plane.channel_of(writer)
            own = place[first : first + writer.channels]
            writer.activate(activation, *(None if line is None else line[own] for line in (slopes, offsets)))
        plane.name, plane.aliases = name, []
        return replace(source, exclusive=self.uses.get(name, 1) == 1)

    def settle(self, node: onnx.NodeProto, source: Value) -> Value:
        """Do what is still to be done to a value: padding with zeros or cropping, and an affine map."""
        if source.settled:
            return source
        if not any(source.pad):
            return self._mapped(node, source)
        if source.factor is not None:  # the zeros come after the affine map
            source = replace(self.copy(node, replace(source, pad=NO_PADDING)), pad=source.pad)
        return self.keep_sign(source, self.copy(node, source))

    def _mapped(self, node: onnx.NodeProto, source: Value) -> Value:
        """Do a pending affine map: in what writes the value where nothing else reads it, else in a copy.

        The result has the name of the value in the graph, for whoever reads it next.
        """
        factor, shift, plain = source.factor, source.shift, replace(source, factor=None, shift=None)
        assert factor is not None
        assert shift is not None
        own = next((name for name in node.input if name in self.values and source.equals(self.values[name])), "")
        name, node = own or self.aside(node, "scaled"), self._maker(own, node)
        alike = not shift.any() and bool((factor == factor[0]).all()) and factor[0] > 0
        if alike and plain.foldable and _scale_clipped(plain, float(factor[0])):
            plain.plane.name, plain.plane.aliases, made = name, [], plain
        elif plain.foldable:
            made = self.activate(node, plain, Activation(use=Use.AFFINE), name, factor, shift)
        else:
            made = self.copy(node, source, name)
        if own:
            self.values[own] = made
        return made

    def keep_sign(self, source: Value, made: Value) -> Value:
        """Bound a copy of values that are not negative by zero, which changes none and lets a padded pool
        know.
        """
        if source.plane.non_negative and source.factor is None:
            apply_clip(made.plane.own, (0.0, None))
        return made

    def affine(self, node: onnx.NodeProto, source: Value, factor: Doubles, shift: Doubles) -> None:
        """Give value * factor + shift, both (n,) for its channels: folded into the writers, or left to the
        readers.
        """
        if any(source.pad):
            source = self.settle(node, source)
        if source.factor is None and source.foldable and all(writer.open for writer in source.plane.writers):
            plane_factor, plane_shift = np.empty_like(factor), np.empty_like(shift)
            plane_factor[source.view.index], plane_shift[source.view.index] = factor, shift
            for writer in source.plane.writers:
                first = source.plane.channel_of(writer)
                part = slice(first, first + writer.channels)
                writer.scale(plane_factor[part], plane_shift[part])
            self.renamed(node, source)
            return
        if source.factor is not None and source.shift is not None:
            with np.errstate(all="ignore"):
                factor, shift = source.factor * factor, source.shift * factor + shift
        self.alias(node, source, factor=factor, shift=shift)

    def clip(self, node: onnx.NodeProto, clip: Clip, source: Value | None = None) -> None:
        """Bound the value at input 0, or a value."""
        source = self.value(node, lazy=True) if source is None else source
        if clip[0] is not None and clip[1] is not None and clip[0] > clip[1]:
            raise refuse(node, f"must clip to a range, not to {clip[0]:g}..{clip[1]:g}")
        if clip == (None, None) or (source.factor is None and source.plane.within_clip(clip)):
            self.alias(node, source)
            return
        if any(source.pad) or (source.factor is not None and source.foldable):
            source = self.settle(node, source)
        if source.settled and source.foldable and (targets := clip_targets(source.plane, clip)) is not None:
            self.renamed(node, source)
        else:
            source = self.copy(node, source, node.output[0])
            targets = source.plane.writers
            self.put(node, source)
        apply_clip(targets, clip)


def _ends_in_unit(draft: Draft) -> bool:
    """True if the activation unit may still end a draft; a max pool may yet be merged (ADR 51)."""
    return draft.activation is None and (draft.kind is Kind.GEMM or draft.is_pass)


def _scale_clipped(source: Value, factor: float) -> bool:
    """Scale what layers write by a number above 0, their clips with it; False, and nothing has changed, where
    one of them adds or ends in the activation unit.
    """
    writers = source.plane.writers
    if not all(
        writer.kind is Kind.GEMM and writer.residual is None and writer.activation is None for writer in writers
    ):
        return False
    for writer in writers:
        writer.scale(np.full(writer.channels, factor), np.zeros(writer.channels))
        low, high = (None if bound is None else float(bound * factor) for bound in writer.clip)
        writer.clip = (low, high)
    return True


def _selection(index: Indices) -> Array:
    """Return the weights (n, range, 1, 1) of a 1x1 convolution that gives n channels out of a range."""
    weights = np.zeros((index.size, int(np.ptp(index)) + 1, 1, 1), np.float32)
    weights[np.arange(index.size), index - index.min()] = 1
    return weights


def absorb(weights: Array, source: Value) -> tuple[Array, Array]:
    """Return weights (out, n, rows, columns) and a bias (out,) that do a value's pending affine map, too."""
    out = weights.shape[0]
    if source.factor is None or source.shift is None:
        return weights, np.zeros(out, np.float32)
    with np.errstate(all="ignore"):  # what is not finite is refused by name when the layer is built
        bias = np.einsum("onhw,n->o", weights.astype(np.float64), source.shift)
        scaled = weights * source.factor[None, :, None, None]
    return scaled.astype(np.float32), bias.astype(np.float32)
