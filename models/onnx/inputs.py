"""The input of an ONNX graph: one image, NCHW or NHWC, of floats or of uint8 pixels; or a vector or a
signal.
"""

from __future__ import annotations

import math

import onnx
from onnx import TensorProto

from ..errors import ModelFileError
from .drafts import Plane
from .file import MOST_ELEMENTS, MOST_EXTENT, Attributes
from .refusals import NO_SEQUENCES, no_image
from .view import View
from .walk import Value, Walk

_FLOATS = (TensorProto.UNDEFINED, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_PASSES = {"Cast", "Identity", "Add", "Sub", "Mul", "Div", "Dropout", "BatchNormalization"}
_TO_NCHW = (0, 3, 1, 2)


def open_input(walk: Walk) -> None:
    """Give the walk its input plane. Raises ModelFileError for an input that is no image."""
    graph = walk.file.model.graph
    found = [one for one in graph.input if one.name not in walk.file.protos]
    if len(found) != 1:
        raise no_image(
            f"{walk.file.path} must have one input image, and it has {len(found)} inputs"
            + (f" ({', '.join(one.name for one in found[:8])})" if found else ""),
            "export the model with the image as its only argument",
        )
    name, kind = found[0].name, found[0].type.tensor_type
    if kind.elem_type not in (*_FLOATS, TensorProto.UINT8):
        known = TensorProto.DataType.values()
        called = TensorProto.DataType.Name(kind.elem_type) if kind.elem_type in known else kind.elem_type
        raise no_image(f"input '{name}' of {walk.file.path} holds {called}, as tokens do", NO_SEQUENCES)
    dims = [d.dim_value if d.HasField("dim_value") else 0 for d in kind.shape.dim]
    told = tuple(d.dim_value if d.HasField("dim_value") else (d.dim_param or "?") for d in kind.shape.dim)
    if len(dims) not in (2, 3, 4) or not all(d >= 1 for d in dims[1:]):
        raise no_image(
            f"input '{name}' must have the shape (N, channels, height, width) with fixed positive sizes, not {told}",
            "export it with an example image and only the batch left dynamic",
        )
    if max(dims[1:]) > MOST_EXTENT or math.prod(dims[1:]) > MOST_ELEMENTS:
        raise ModelFileError(
            f"input '{name}' must have sizes of at most {MOST_EXTENT} and an image of at most {MOST_ELEMENTS} elements, "
            f"and its shape is {tuple(dims)}"
        )
    axes = {2: ("c",), 3: ("c", "w"), 4: ("c", "h", "w")}[len(dims)]
    if len(dims) == 4 and _reads_nhwc(walk, name):
        axes = ("h", "w", "c")
    sizes = dict(zip(axes, dims[1:], strict=True))
    plane = Plane(name=name, shape=(sizes.get("h", 1), sizes.get("w", 1), sizes["c"]))
    walk.batch, walk.source = dims[0], plane
    pixels = kind.elem_type == TensorProto.UINT8
    walk.values[name] = Value(plane=plane, view=View.of(axes, plane.shape), exclusive=False, pixels=pixels)


def _reads_nhwc(walk: Walk, name: str) -> bool:
    """True if the input, or what is left of it after a cast or a normalisation, is transposed to NCHW."""
    names = {name}
    for node in walk.file.order:  # inputs first
        if names.isdisjoint(node.input):
            continue
        if node.op_type == "Transpose" and _permutation(node) == _TO_NCHW:
            return True
        if node.op_type in _PASSES:
            names.update(node.output[:1])
    return False


def _permutation(node: onnx.NodeProto) -> tuple[int, ...] | None:
    return Attributes(node).ints("perm")
