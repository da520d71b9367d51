"""The state of one pass over an ONNX graph: values and constants by name, open layers, remaining budget.

Operators (layers.py, folding.py) read values and constants here and open layers, fold into them or rename
them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ..errors import ModelFileError, UnsupportedOperatorError
from ..graph.shapes import Kind, Shape
from .drafts import NO_PADDING, Clip, Doubles, Draft, Padding, Plane, apply_clip, clip_targets, plain
from .file import MOST_ELEMENTS, MOST_EXTENT, OnnxFile, label, refuse


@dataclass(frozen=True, kw_only=True)
class Value:
    """The value of an ONNX name: a plane, seen as a map (N, C, H, W) or as a vector (N, C*H*W)."""

    plane: Plane
    vector: bool
    exclusive: bool  # nothing else reads it, under any name
    pad: Padding = NO_PADDING  # zeros a Pad node put around it, still to be folded
    softmaxed: bool = False
    joined: bool = False  # one line of values, the batch of one among them: only a Gather may follow

    @property
    def shape(self) -> Shape:
        """(height, width, channels) of the plane."""
        return self.plane.shape

    @property
    def pixel(self) -> bool:
        """True if the plane is one pixel, so that map and vector are the same."""
        return self.shape[0] * self.shape[1] == 1


class Walk:
    """The state of one pass: values and constants by name, drafts in the order they were opened."""

    def __init__(self, file: OnnxFile) -> None:
        self.file = file
        self.uses = file.uses()
        self.values: dict[str, Value] = {}
        self.constants: dict[str, npt.NDArray[Any]] = {}
        self.drafts: list[Draft] = []
        self.names: set[str] = set()
        self.budget = 2 * MOST_ELEMENTS  # of weights and folded constants together
        self.source = self._input()

    # -- what nodes read and write ---------------------------------------------------------------------------

    def _input(self) -> Plane:
        graph = self.file.model.graph
        found = [one for one in graph.input if one.name not in self.file.protos]
        if len(found) != 1:
            raise ModelFileError(f"{self.file.path} must have one input image, and it has {len(found)} inputs")
        dims = [d.dim_value if d.HasField("dim_value") else 0 for d in found[0].type.tensor_type.shape.dim]
        if len(dims) not in (2, 4) or not all(d >= 1 for d in dims[1:]):
            raise ModelFileError(
                f"input '{found[0].name}' must have the shape (N, channels, height, width) with fixed positive sizes, not "
                f"{tuple(_dim(d) for d in found[0].type.tensor_type.shape.dim)}"
            )
        if max(dims[1:]) > MOST_EXTENT or math.prod(dims[1:]) > MOST_ELEMENTS:
            raise ModelFileError(
                f"input '{found[0].name}' must have sizes of at most {MOST_EXTENT} and an image of at most {MOST_ELEMENTS} elements, and its "
                f"shape is {tuple(dims)}"
            )
        shape = (dims[2], dims[3], dims[1]) if len(dims) == 4 else (1, 1, dims[1])
        plane = Plane(name=found[0].name, shape=shape)
        self.batch = dims[0]
        self.values[plane.name] = Value(plane=plane, vector=len(dims) == 2, exclusive=False)
        return plane

    def value(self, node: onnx.NodeProto, index: int = 0, *, padded: bool = False) -> Value:
        """Return the activation at an input of a node."""
        name = node.input[index] if index < len(node.input) else ""
        if name not in self.values:
            what = f"'{name}' is a constant" if self.known(name) else f"'{name}' is nowhere in the file"
            raise refuse(node, f"must read an activation at input {index}, and {what}")
        found = self.values[name]
        if found.softmaxed:
            raise UnsupportedOperatorError(
                label(node), node.op_type, "follows a Softmax", "a Softmax may only end an exit"
            )
        if found.joined and node.op_type not in ("Gather", "Reshape"):
            raise UnsupportedOperatorError(
                label(node), node.op_type, "follows a Reshape to one line", "only a Gather in order may follow it"
            )
        if any(found.pad) and not padded:
            raise UnsupportedOperatorError(
                label(node), node.op_type, "follows a Pad", "only a convolution or a pool can take over the padding"
            )
        return found

    def map(self, node: onnx.NodeProto, *, padded: bool = False) -> Value:
        """Return the activation at input 0, which must be (N, C, H, W)."""
        found = self.value(node, padded=padded)
        if found.vector:
            raise refuse(node, f"must read (N, C, H, W), and '{node.input[0]}' is a vector")
        return found

    def known(self, name: str) -> bool:
        """True if a name is a constant."""
        return name in self.constants or name in self.file.protos

    def optional(self, node: onnx.NodeProto, index: int) -> npt.NDArray[Any] | None:
        """Return the constant at an input, or None where the input is left out."""
        if index >= len(node.input) or not node.input[index]:
            return None
        name = node.input[index]
        if name not in self.constants:
            if name not in self.file.protos:
                what = "is computed" if name in self.values else "is nowhere in the file"
                raise refuse(node, f"must find a constant at input {index}, and '{name}' {what}")
            self.keep(name, self.file.constant(name))
        return self.constants[name]

    def constant(self, node: onnx.NodeProto, index: int) -> npt.NDArray[Any]:
        """Return the constant at an input."""
        found = self.optional(node, index)
        if found is None:
            raise refuse(node, f"must have an input {index}, and it is left out")
        return found

    def keep(self, name: str, array: npt.NDArray[Any]) -> None:
        """Remember a constant, within the budget."""
        self.spend(array.size)
        self.constants[name] = array

    def spend(self, elements: int) -> None:
        """Count elements of weights against what one model may hold."""
        self.budget -= elements
        if self.budget < 0:
            raise ModelFileError(
                f"{self.file.path} must have at most {2 * MOST_ELEMENTS} weights and constants, and it has more"
            )

    def put(self, node: onnx.NodeProto, value: Value) -> None:
        """Give a node's first output its value; further outputs must not be used."""
        for extra in node.output[1:]:
            if self.uses.get(extra):
                raise UnsupportedOperatorError(
                    label(node), node.op_type, "has a second output in use", "only the first one exists here"
                )
        self.values[node.output[0]] = value

    def alias(self, node: onnx.NodeProto, source: Value, **changes: Any) -> None:
        """Give the same plane a further name."""
        name = node.output[0]
        if not changes.get("softmaxed") and not any(changes.get("pad", ())):
            source.plane.aliases.append(name)
        self.put(node, replace(source, exclusive=source.exclusive and self.uses[name] == 1, **changes))

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

    def open(self, node: onnx.NodeProto, source: Value, output: str, *, vector: bool = False, **fields: Any) -> Value:
        """Open a new layer on a value; check its geometry."""
        kind, channels = fields["kind"], fields["channels"]
        kernel, dilation = fields.get("kernel", (1, 1)), fields.get("dilation", (1, 1))
        padding = fields.get("padding", NO_PADDING)
        areas = []
        for axis in (0, 1):
            available = source.shape[axis] + padding[axis] + padding[axis + 2]
            if (kernel[axis] - 1) * dilation[axis] + 1 > available:
                raise refuse(
                    node,
                    f"must have a window no larger than its padded input, and it needs {(kernel[axis] - 1) * dilation[axis] + 1} of {available}",
                )
            areas.append(available)
        if math.prod(areas) * source.shape[2] > MOST_ELEMENTS:
            raise refuse(
                node, f"must have a padded input of at most {MOST_ELEMENTS} values, not {(*areas, source.shape[2])}"
            )
        plane = Plane(name=output, shape=(1, 1, channels))
        draft = Draft(
            name=self.unique(label(node)), input=source.plane, output=plane, sole_reader=source.exclusive, **fields
        )
        plane.shape = (*draft.layer().out_hw, channels)
        if math.prod(plane.shape) > MOST_ELEMENTS or math.prod(kernel) > MOST_ELEMENTS:
            raise refuse(node, f"must have an output of at most {MOST_ELEMENTS} values, not {plane.shape}")
        plane.gain = 1.0 if kind is Kind.GEMM else source.plane.gain
        if kind is Kind.SUM_POOL:
            taps = math.prod(kernel)
            plane.gain *= 2 ** (taps - 1).bit_length() / taps
        if kind is not Kind.GEMM:
            draft.passes_sign = source.plane.non_negative
        else:
            self.spend(draft.weights.size if draft.weights is not None else 0)
        plane.writers.append(draft)
        self.drafts.append(draft)
        return Value(plane=plane, vector=vector, exclusive=self.uses.get(output, 1) == 1)

    def copy(self, node: onnx.NodeProto, source: Value, output: str | None = None) -> Value:
        """Open a 1x1 depthwise layer of weight one, for an operation that folds nowhere."""
        channels = source.shape[2]
        return self.open(
            node,
            source,
            output or self._copy_name(node),
            vector=source.vector,
            kind=Kind.GEMM,
            channels=channels,
            groups=channels,
            weights=np.ones((channels, 1, 1, 1), np.float32),
            bias=np.zeros(channels, np.float32),
        )

    def _copy_name(self, node: onnx.NodeProto) -> str:
        count = 1
        while (name := f"{node.output[0]}_copy{count}") in self.file.producers or name in self.names:
            count += 1
        self.names.add(name)
        return name

    def affine(self, node: onnx.NodeProto, source: Value, factor: Doubles, shift: Doubles) -> None:
        """Return value * factor + shift, both (C,), folded into the writers or as a layer of its own."""
        if source.exclusive and source.plane.writers and all(writer.open for writer in source.plane.writers):
            self.renamed(node, source)
        else:
            source = self.copy(node, source, node.output[0])
            self.put(node, source)
        for writer in source.plane.writers:
            part = slice(writer.offset, writer.offset + writer.channels)
            writer.scale(factor[part], shift[part])

    def clip(self, node: onnx.NodeProto, clip: Clip) -> None:
        """Bound the value at input 0."""
        source = self.value(node)
        if clip[0] is not None and clip[1] is not None and clip[0] > clip[1]:
            raise refuse(node, f"must clip to a range, not to {clip[0]:g}..{clip[1]:g}")
        if clip == (None, None) or (
            clip[0] is not None and clip[0] <= 0 and clip[1] is None and source.plane.non_negative
        ):
            self.alias(node, source)
            return
        targets = clip_targets(source.plane) if source.exclusive else None
        if targets is None:
            source = self.copy(node, source, node.output[0])
            self.put(node, source)
            targets = source.plane.writers
        else:
            self.renamed(node, source)
        apply_clip(targets, clip)


def _dim(dim: Any) -> object:
    return dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or "?")
