"""The input of an ONNX graph: one image, NCHW or NHWC, of floats or of uint8 pixels; or a vector or a
signal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx
from onnx import TensorProto

from ...errors import ModelFileError
from ..file import MOST_ELEMENTS, MOST_EXTENT, Attributes
from .drafts import Plane
from .refusals import NO_SEQUENCES, no_image
from .view import AxisView
from .walk import Value, Walk

FEW_CHANNELS = 4  # of an image: grey to RGBA
_FLOATS = (TensorProto.UNDEFINED, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_PASSES = {"Cast", "Identity", "Add", "Sub", "Mul", "Div", "Dropout", "BatchNormalization"}
_TO_NCHW = (0, 3, 1, 2)


def with_input_size(model: onnx.ModelProto, size: Sequence[int] | None) -> None:
    """Give the image of a model a size, without the batch and in the order of the file.

    (C, H, W), (H, W, C), or (H, W) alone, which keeps the channels that the file says. What the file says of
    other values is forgotten, since it was said of another size. None changes nothing. Raises ModelFileError
    for a size that the input cannot have.
    """
    if size is None:
        return
    inner = {tensor.name for tensor in model.graph.initializer}
    images = [value for value in model.graph.input if value.name not in inner]
    for image in images:
        dims = image.type.tensor_type.shape.dim
        extents = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in dims][1:]
        text = "x".join(map(str, size))
        if len(size) == len(extents) - 1:
            few = range(1, FEW_CHANNELS + 1)  # an image's channels stand last only where the last size is one of these
            size = (*size, extents[-1]) if extents[-1] in few and extents[0] not in few else (extents[0], *size)
        if len(size) != len(extents) or not all(1 <= extent <= MOST_EXTENT for extent in size):
            raise ModelFileError(
                f"the input size must be {len(extents)} sizes of 1..{MOST_EXTENT} for the input '{image.name}', as in "
                f"{'x'.join(['3', '320', '320', '320'][: len(extents)])}, not {text}"
            )
        ends = [axis for axis in (0, -1) if extents[axis] >= 1]
        if len(extents) > 1 and ends and all(size[axis] != extents[axis] for axis in ends):
            shape_text = "x".join(str(extent) if extent >= 1 else "?" for extent in extents)
            raise ModelFileError(
                f"the input size must keep the channels of the input '{image.name}', which the file says as {shape_text}, and it "
                f"is {text}"
            )
        for dim, extent in zip(list(dims)[1:], size, strict=True):
            dim.Clear()
            dim.dim_value = extent
    del model.graph.value_info[:]
    for image in model.graph.output:
        image.type.tensor_type.ClearField("shape")


def open_input(walk: Walk) -> None:
    """Give the walk its input plane. Raises ModelFileError for an input that is no image."""
    graph = walk.file.model.graph
    images = [value for value in graph.input if value.name not in walk.file.protos]
    if len(images) != 1:
        raise no_image(
            f"{walk.file.path} must have one input image, and it has {len(images)} inputs"
            + (f" ({', '.join(value.name for value in images[:8])})" if images else ""),
            "export the model with the image as its only argument, or join images of one size along the channels before "
            "anything else",
        )
    name, kind = images[0].name, images[0].type.tensor_type
    if kind.elem_type not in (*_FLOATS, TensorProto.UINT8):
        name_of = TensorProto.DataType.values()
        called = TensorProto.DataType.Name(kind.elem_type) if kind.elem_type in name_of else kind.elem_type
        raise no_image(f"input '{name}' of {walk.file.path} holds {called}, as tokens do", NO_SEQUENCES)
    dims = [d.dim_value if d.HasField("dim_value") else 0 for d in kind.shape.dim]
    extents = tuple(d.dim_value if d.HasField("dim_value") else (d.dim_param or "?") for d in kind.shape.dim)
    if len(dims) not in (2, 3, 4) or not all(d >= 1 for d in dims[1:]):
        raise no_image(
            f"input '{name}' must have the shape (N, channels, height, width) with fixed positive sizes, not {extents}",
            "say its size with --input, as in --input 3x320x320 or 320x320 (size= in Python)",
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
    walk.values[name] = Value(plane=plane, view=AxisView.of(axes, plane.shape), exclusive=False, pixels=pixels)


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
