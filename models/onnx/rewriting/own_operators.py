"""Operators that packages bring: each call becomes the ONNX function that the package gives for it.

The name of an entry is the node's domain and operator, as `com.microsoft.QuickGelu`. Operators of ONNX itself
cannot be added, since their meaning is fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx

from ...errors import ModelFileError
from ...files import ExtensionGroup
from ..file import OnnxFile, label
from .quantised import HANDLERS

_DOMAIN = "fluidnpu.operators"  # of the functions, one a call


def _fits(name: str, thing: Any) -> bool:
    return callable(thing) and "." in name and not name.startswith((".", "ai.onnx."))


OPERATOR_EXTENSIONS: ExtensionGroup[Callable[[onnx.NodeProto], onnx.FunctionProto]] = ExtensionGroup(
    "fluidnpu.operators",
    "operator",
    "a function that returns an onnx.FunctionProto, under a name DOMAIN.OPERATOR of a domain other than ai.onnx",
    _fits,
    ModelFileError,
    HANDLERS,
)


def with_functions(file: OnnxFile) -> OnnxFile:
    """Return a file whose calls of packages' operators are calls of functions in it.

    The same file where there are none. Raises ModelFileError where a package fails.
    """
    nodes = enumerate(file.model.graph.node)
    foreign = {index: f"{node.domain}.{node.op_type}" for index, node in nodes if node.domain not in ("", "ai.onnx")}
    names = set(OPERATOR_EXTENSIONS.names) if foreign else set()  # packages are asked for these alone
    calls = {index: name for index, name in foreign.items() if name in names}
    if not calls:
        return file
    model = onnx.ModelProto()
    model.CopyFrom(file.model)
    opsets = {opset.domain: opset for opset in file.model.opset_import}
    for index, name in calls.items():
        node = model.graph.node[index]
        function = onnx.FunctionProto()
        function.CopyFrom(_function(name, node))
        function.domain = node.domain = _DOMAIN
        function.name = node.op_type = f"{node.op_type}_{index}"
        others = [opset for opset in function.opset_import if opset.domain not in opsets]
        del function.opset_import[:]
        function.opset_import.extend([*opsets.values(), *others])  # its nodes are read as the file's are
        given = {attribute.name for attribute in node.attribute}
        node.attribute.extend(usual for usual in function.attribute_proto if usual.name not in given)
        model.functions.append(function)
    if _DOMAIN not in opsets:
        model.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))
    return OnnxFile(file.path, model)


def _function(name: str, node: onnx.NodeProto) -> onnx.FunctionProto:
    """Return the function that a package gives for a node, with room for its inputs and outputs."""
    make = OPERATOR_EXTENSIONS.find(name)
    assert make is not None  # it is one of the names
    try:
        function = make(node)
    except Exception as error:  # a package may raise anything
        must = f"must return a function for node '{label(node)}'"
        raise OPERATOR_EXTENSIONS.failure(name, must, error) from error
    title = OPERATOR_EXTENSIONS.title(name)
    if not isinstance(function, onnx.FunctionProto):
        raise ModelFileError(f"{title} must return an onnx.FunctionProto, not {type(function).__name__}")
    given, wanted = (len(node.input), len(node.output)), (len(function.input), len(function.output))
    if given[0] > wanted[0] or given[1] > wanted[1]:
        raise ModelFileError(
            f"{title} must return a function of {given[0]} inputs and {given[1]} outputs for node '{label(node)}', not "
            f"of {wanted[0]} and {wanted[1]}"
        )
    written = {*function.input, *(output for inner in function.node for output in inner.output)}
    if absent := [output for output in function.output if output not in written]:
        raise ModelFileError(f"{title} must return a function that computes its outputs, and '{absent[0]}' is not")
    return function
