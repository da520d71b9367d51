"""Open an ONNX file without trusting it: size, wire format, initialisers, attributes, order of nodes.

Knows nothing of layers. Everything is bounded before it is allocated; every refusal is one sentence.
External data may only lie beside the file.
"""

from __future__ import annotations

import copy
import heapq
import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, TensorProto, numpy_helper

from ..errors import ModelFileError
from ..files import regular_file
from .wire import WireError, count_fields

MOST_FILE_BYTES = 1 << 30
MOST_ELEMENTS = 1 << 27  # of one tensor: an activation of one image, or the weights of one layer
MOST_EXTENT = 1 << 16  # of one dimension, kernel, stride or padding
MOST_NODES = 20_000
OLDEST_OPSET = 7
CHECKPOINTS = (b"PK\x03\x04", b"\x80\x02")  # how the files of PyTorch begin: a zip archive, or a pickle

_WEIGHT_TYPES = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}
_INDEX_TYPES = {TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL}
FOUR_BITS = {TensorProto.INT4: (-8, 7), TensorProto.UINT4: (0, 15)}  # the least and the largest of each type
_QUANTISED_TYPES = {TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, *FOUR_BITS}


def label(node: onnx.NodeProto) -> str:
    """Return the name of a node in messages: its own, or else its first output's."""
    return str(node.name or next(iter(node.output), "") or "?")


def refuse(node: onnx.NodeProto, why: str) -> ModelFileError:
    """Return the error for a node of a known operator in an unsupported form."""
    return ModelFileError(f"node '{label(node)}' ({node.op_type}) {why}", label(node), node.op_type)


def reject(node: onnx.NodeProto, why: str) -> ModelFileError:
    """Return the error for a node that means nothing certain, so that the host may not run it either."""
    return ModelFileError(f"node '{label(node)}' ({node.op_type}) {why}")


class OnnxFile:
    """The parsed file: nodes in a valid order, constants by name, opset, metadata."""

    def __init__(self, path: Path, model: onnx.ModelProto | None = None) -> None:
        self.path = path
        self.model = _parse(path) if model is None else model
        graph = self.model.graph
        if len(graph.node) > MOST_NODES:
            raise ModelFileError(f"{path} must have at most {MOST_NODES} nodes, and it has {len(graph.node)}")
        self.opset = max(
            (opset.version for opset in self.model.opset_import if opset.domain in ("", "ai.onnx")),
            default=OLDEST_OPSET,
        )
        if self.opset < OLDEST_OPSET:
            raise ModelFileError(f"{path} must be of ONNX opset {OLDEST_OPSET} or later, and it is of {self.opset}")
        self.declared = {value.name: value for value in graph.output}
        self.outputs = tuple(value.name for value in graph.output)
        self.protos = {tensor.name: tensor for tensor in graph.initializer}
        self.producers: dict[str, int] = {}
        for index, node in enumerate(graph.node):
            for output in filter(None, node.output):
                if output in self.producers or output in self.protos:
                    raise refuse(node, f"must be the only one to write '{output}', and it is written twice")
                self.producers[output] = index
        self.order = self._sorted_needed()
        self.metadata = {metadata_prop.key: metadata_prop.value for metadata_prop in self.model.metadata_props}

    def _sorted_needed(self) -> list[onnx.NodeProto]:
        """Return the nodes that outputs depend on, inputs first, otherwise in file order."""
        nodes = self.model.graph.node
        needed: set[int] = set()
        stack = [self.producers[name] for name in self.outputs if name in self.producers]
        while stack:
            index = stack.pop()
            if index not in needed:
                needed.add(index)
                stack += [self.producers[name] for name in nodes[index].input if name in self.producers]
        waits = {
            index: {self.producers[name] for name in nodes[index].input if name in self.producers} for index in needed
        }
        feeds: dict[int, list[int]] = defaultdict(list)
        for index, sources in waits.items():
            for source in sources:
                feeds[source].append(index)
        missing = {index: len(sources) for index, sources in waits.items()}
        ready = sorted(index for index, count in missing.items() if count == 0)
        order = []
        while ready:
            index = heapq.heappop(ready)
            order.append(nodes[index])
            for follower in feeds[index]:
                missing[follower] -= 1
                if missing[follower] == 0:
                    heapq.heappush(ready, follower)
        if len(order) < len(needed):
            stuck = nodes[min(index for index, count in missing.items() if count > 0)]
            raise refuse(stuck, "must not depend on its own output, and the graph runs in a circle there")
        return order

    def uses(self) -> dict[str, int]:
        """Count the readers of each value, among the needed nodes and graph outputs."""
        count: dict[str, int] = defaultdict(int)
        for node in self.order:
            for name in node.input:
                count[name] += 1
        for name in self.outputs:
            count[name] += 1
        return count

    def ending(self, outputs: Iterable[str]) -> OnnxFile:
        """Return the same file with other outputs, and the nodes that they depend on."""
        made = copy.copy(self)
        made.outputs = tuple(outputs)
        made.order = made._sorted_needed()
        return made

    @property
    def batch(self) -> str:
        """The name of the first size of the input, empty where it has none."""
        inputs = [value for value in self.model.graph.input if value.name not in self.protos]
        dims = inputs[0].type.tensor_type.shape.dim if inputs else []
        return dims[0].dim_param if dims else ""

    def constant(self, name: str) -> npt.NDArray[Any]:
        """Return an initialiser as an array, checked: shape, type, bytes, finite."""
        return array_of(self.protos[name], f"initialiser '{name}'", self.path.parent)


def _parse(path: Path) -> onnx.ModelProto:
    try:
        raw = regular_file(path, MOST_FILE_BYTES).read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"the model file {path} does not exist") from None
    except OSError as error:
        raise ModelFileError(f"the model file {path} cannot be read: {error.strerror or error}") from None
    if raw.startswith(CHECKPOINTS):
        raise ModelFileError(f"{path} must be an ONNX file, and it is a checkpoint: export it with torch.onnx.export")
    model = onnx.ModelProto()
    try:
        count_fields(raw)
        model.ParseFromString(raw)
    except WireError as error:
        raise ModelFileError(f"{path} must be a whole ONNX file, and it is not: {error}") from None
    except (DecodeError, ValueError, RecursionError, MemoryError):
        raise ModelFileError(f"{path} must be a whole ONNX file, and it is truncated or something else") from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ModelFileError(f"{path} must be an ONNX file with a graph, and it holds none")
    return model


def array_of(tensor: TensorProto, what: str, folder: Path | None = None) -> npt.NDArray[Any]:
    """Return a TensorProto as an array of its shape.

    Raises ModelFileError for hostile shapes, foreign types, too few bytes, NaN and infinity.
    """
    dims = [int(d) for d in tensor.dims]
    if any(d < 0 for d in dims):
        raise ModelFileError(f"{what} must have sizes of at least 0, and its shape is {tuple(dims)}")
    if math.prod(dims) > MOST_ELEMENTS:
        raise ModelFileError(f"{what} must have at most {MOST_ELEMENTS} elements, and its shape is {tuple(dims)}")
    if tensor.data_type not in _WEIGHT_TYPES | _INDEX_TYPES | _QUANTISED_TYPES:
        kind = (
            TensorProto.DataType.Name(tensor.data_type)
            if tensor.data_type in TensorProto.DataType.values()
            else tensor.data_type
        )
        raise ModelFileError(f"{what} must hold floats or indices, and its type is {kind}")
    if tensor.data_location == TensorProto.EXTERNAL:
        tensor = with_external_data(tensor, what, folder)
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, OverflowError, RuntimeError) as error:
        raise ModelFileError(
            f"{what} must hold as many values as its shape {tuple(dims)} says, and it does not ({_first(error)})"
        ) from None
    if tensor.data_type in FOUR_BITS:
        array = array.astype(np.int8 if tensor.data_type == TensorProto.INT4 else np.uint8)
    if tensor.data_type in _WEIGHT_TYPES:
        array = array.astype(np.float32)
        if not np.isfinite(array).all():
            raise ModelFileError(
                f"{what} must hold finite numbers, and {int((~np.isfinite(array)).sum())} of its {array.size} are NaN or infinite"
            )
    return np.asarray(array)


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def with_external_data(tensor: TensorProto, what: str, folder: Path | None) -> TensorProto:
    """Return the tensor with its bytes read from a file in the model's own folder.

    Raises ModelFileError where the file is elsewhere, or cannot be read.
    """
    facts = {entry.key: entry.value for entry in tensor.external_data}
    location = facts.get("location", "")
    inside = folder is not None and location and (folder / location).resolve().is_relative_to(folder.resolve())
    if not inside or folder is None or Path(location).is_absolute():
        raise ModelFileError(
            f"{what} must keep its external data in the model's own folder, and it points to '{location[:120]}'"
        )
    try:
        offset = int(facts.get("offset", "0"))
        size = int(facts.get("length", "-1"))
        if offset < 0 or size < -1 or size > 8 * MOST_ELEMENTS:
            raise ValueError(f"offset {offset}, length {size}")
        if not (folder / location).is_file():  # a pipe would wait for ever
            raise ValueError("there is no such file")
        with (folder / location).open("rb") as stream:
            stream.seek(offset)
            raw = stream.read(8 * MOST_ELEMENTS if size < 0 else size)
    except (OSError, ValueError) as error:
        raise ModelFileError(
            f"{what} must find its external data in '{location[:120]}', and reading failed: {_first(error)}"
        ) from None
    whole = TensorProto()
    whole.CopyFrom(tensor)
    whole.data_location = TensorProto.DEFAULT
    del whole.external_data[:]
    whole.raw_data = raw
    return whole


class Attributes:
    """A node's attributes by name, with types and bounds checked on the way out."""

    def __init__(self, node: onnx.NodeProto) -> None:
        self.node = node
        self._by_name: dict[str, AttributeProto] = {attribute.name: attribute for attribute in node.attribute}

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def _get(self, name: str, default: Any, field: str, kind: int) -> Any:
        if name not in self._by_name:
            return default
        attribute = self._by_name[name]
        if attribute.type != kind:
            raise refuse(self.node, f"must give its attribute {name} as {AttributeProto.AttributeType.Name(kind)}")
        return getattr(attribute, field)

    def integer(self, name: str, default: int) -> int:
        """Return an integer."""
        return int(self._get(name, default, "i", AttributeProto.INT))

    def number(self, name: str, default: float) -> float:
        """Return a finite float."""
        value = float(self._get(name, default, "f", AttributeProto.FLOAT))
        if not math.isfinite(value):
            raise refuse(self.node, f"must have a finite {name}, not {value}")
        return value

    def text(self, name: str, default: str) -> str:
        """Return a string."""
        value = self._get(name, default, "s", AttributeProto.STRING)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def extents(self, name: str, default: Iterable[int], least: int) -> tuple[int, ...]:
        """Return kernel, stride, dilation or padding: integers from `least` to MOST_EXTENT, as many as the
        default has.
        """
        wanted = tuple(default)
        values = tuple(int(v) for v in self._get(name, wanted, "ints", AttributeProto.INTS))
        if len(values) != len(wanted) or any(not least <= v <= MOST_EXTENT for v in values):
            raise refuse(
                self.node,
                f"must have {len(wanted)} {name} of {least}..{MOST_EXTENT} (the NPU is two-dimensional), not {values}",
            )
        return values

    def ints(self, name: str) -> tuple[int, ...] | None:
        """Return integers, or None when absent."""
        values = self._get(name, None, "ints", AttributeProto.INTS)
        return None if values is None else tuple(int(v) for v in values)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Return floats, or None when absent."""
        values = self._get(name, None, "floats", AttributeProto.FLOATS)
        return None if values is None else tuple(float(v) for v in values)

    def tensor(self, name: str) -> TensorProto | None:
        """Return a tensor, or None when absent."""
        tensor: TensorProto | None = self._get(name, None, "t", AttributeProto.TENSOR)
        return tensor
