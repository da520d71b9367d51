"""Rewrite an ONNX file into one that the walk can read: step 1 of ADR 60. The user's file is not changed.

Functions of the model's own are inlined. Inputs that no output needs are left out, inputs that are only
joined are one, and a quantised graph becomes the float one that it approximates (quantised.py). Each name of
the user's that is still there is kept.
"""

from __future__ import annotations

from collections import defaultdict

import onnx
from onnx import inliner

from ...errors import ModelFileError
from ..file import MOST_NODES, Attributes, OnnxFile
from ..metadata import record
from .quantised import dequantise, is_quantised

MOST_DEEP = 100  # functions that call one another


def rewrite(file: OnnxFile) -> OnnxFile:
    """Return a file as the walk reads it; the same one where nothing is to be done. Raises ModelFileError."""
    if file.model.functions:
        file = _inlined(file)
    images = [value for value in file.model.graph.input if value.name not in file.protos]
    if len(images) > 1:
        file = _joined(_needed(file))
    return dequantise(file) if is_quantised(file) else file


# -- functions -------------------------------------------------------------------------------------------


def _inlined(file: OnnxFile) -> OnnxFile:
    """Replace calls of the model's functions by their nodes."""
    _check_calls(file)
    try:
        model = inliner.inline_local_functions(file.model, convert_version=True)
    except (RuntimeError, ValueError, LookupError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise ModelFileError(
            f"the functions of {file.path} must be well formed, and inlining them failed: {why}"
        ) from None
    return OnnxFile(file.path, model)


def _check_calls(file: OnnxFile) -> None:
    """Refuse functions that call themselves or grow beyond what a file may have."""
    bodies = {(function.domain, function.name): function.node for function in file.model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(key: tuple[str, str], above: tuple[tuple[str, str], ...]) -> int:
        if key in above:
            raise ModelFileError(f"the functions of {file.path} must not call themselves, and '{key[1]}' does")
        if len(above) >= MOST_DEEP:
            raise ModelFileError(f"the functions of {file.path} must call each other at most {MOST_DEEP} deep")
        if key not in sizes:
            inner = ((node.domain, node.op_type) for node in bodies[key])
            sizes[key] = sum(size(call, (*above, key)) if call in bodies else 1 for call in inner)
        return sizes[key]

    calls = [(node.domain, node.op_type) for node in file.model.graph.node]
    total = sum(size(call, ()) if call in bodies else 1 for call in calls)
    if total > MOST_NODES:
        raise ModelFileError(
            f"{file.path} must have at most {MOST_NODES} nodes with its functions inlined, not {total}"
        )


# -- inputs ----------------------------------------------------------------------------------------------


def _needed(file: OnnxFile) -> OnnxFile:
    """Leave out inputs that no output needs, where there is one that some output does."""
    read = {name for node in file.order for name in node.input} | {value.name for value in file.model.graph.output}
    spare = [value.name for value in file.model.graph.input if value.name not in file.protos and value.name not in read]
    if not spare or len(spare) == len([value for value in file.model.graph.input if value.name not in file.protos]):
        return file
    return OnnxFile(
        file.path, _with_inputs(file, [value for value in file.model.graph.input if value.name not in spare])
    )


def _joined(file: OnnxFile) -> OnnxFile:
    """Let inputs of one height and width that a Concat of channels reads, and nothing else, be one input."""
    images = {value.name: value for value in file.model.graph.input if value.name not in file.protos}
    readers = defaultdict(list)
    for node in file.order:
        for name in node.input:
            readers[name].append(node)
    for value in file.model.graph.output:
        readers[value.name].append(None)
    first = readers[next(iter(images))] if images else []
    join = first[0] if len(first) == 1 else None
    if len(images) < 2 or join is None or join.op_type != "Concat" or sorted(join.input) != sorted(images):
        return file
    images = {name: images[name] for name in join.input}  # in the order of the channels
    sizes = [[dim.dim_value for dim in image.type.tensor_type.shape.dim] for image in images.values()]
    axis = Attributes(join).integer("axis", 1) % max(1, len(sizes[0]))
    alike = len({(*size[1:axis], *size[axis + 1 :]) for size in sizes}) == 1 and axis > 0
    if not alike or len({image.type.tensor_type.elem_type for image in images.values()}) != 1:
        return file
    whole = onnx.ValueInfoProto()
    whole.CopyFrom(next(iter(images.values())))
    whole.name = join.output[0]
    whole.type.tensor_type.shape.dim[axis].dim_value = sum(size[axis] for size in sizes)
    model = _with_inputs(file, [whole])
    sizes_text = (f"{size[axis]} channels of {name}" for name, size in zip(images, sizes, strict=True))
    record(model, "inputs", ", ".join(sizes_text))
    kept = [node for node in model.graph.node if node.output[:1] != join.output[:1]]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return OnnxFile(file.path, model)


def _with_inputs(file: OnnxFile, inputs: list[onnx.ValueInfoProto]) -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.CopyFrom(file.model)
    kept = [onnx.ValueInfoProto.FromString(input_.SerializeToString()) for input_ in inputs]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model
