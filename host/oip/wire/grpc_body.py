"""Inference requests and answers as gRPC messages, for the server and for a client. No I/O.

>>> import numpy as np
>>> request = write_request("m", "", {"x": np.zeros((1, 2), np.uint8)}, ("label",), {"slo_ms": 20})
>>> read_call(request, Bounds(elements=2, json_bytes=0, body_bytes=200)).inputs["x"].tolist()
[[0, 0]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ProtocolError
from .calls import Bounds, Call, ModelAnswer, Parameter, read_id, read_names, read_output
from .messages import message
from .places import Fetch, Store, elsewhere, read_place
from .tensors import Array, check_datatype, datatype_of, from_bytes, from_contents, to_bytes


def read_call(request: Any, bounds: Bounds, fetch: Fetch = elsewhere) -> Call:
    """Return the call in a ModelInferRequest. `fetch` gives tensors that lie in shared memory.

    Raises ProtocolError, TooLargeError, and what it raises.
    """
    raw = list(request.raw_input_contents)
    if not request.inputs:
        raise ProtocolError("a request must have inputs, and it has none")
    places = [read_place(input_.name, read_parameters(input_.parameters)) for input_ in request.inputs]
    if raw and len(raw) != places.count(None):
        raise ProtocolError(
            f"raw_input_contents must be empty or one an input, {places.count(None)} in all, not {len(raw)}"
        )
    read_names("input", [input_.name for input_ in request.inputs])
    call = Call(
        request.model_name,
        request.model_version,
        read_id(request.id),
        outputs=read_names("output", [output.name for output in request.outputs]),
        parameters=read_parameters(request.parameters) if request.parameters else {},
    )
    for tensor, place in zip(request.inputs, places, strict=True):
        if place is None:
            call.inputs[tensor.name] = _input(tensor, raw.pop(0) if raw else None, bounds)
        else:
            check_datatype(tensor.name, tensor.datatype, bounds.datatypes)
            data = fetch(place, bounds.body_bytes)
            call.inputs[tensor.name] = _input(tensor, data, bounds)
            call.fetched += len(data)
    for wanted in request.outputs:
        read_output(call, wanted.name, read_parameters(wanted.parameters))
    return call


def _input(tensor: Any, raw: bytes | None, bounds: Bounds) -> Array:
    check_datatype(tensor.name, tensor.datatype, bounds.datatypes)
    shape, most = tuple(tensor.shape), bounds.elements
    if raw is None:
        return from_contents(tensor.name, tensor.datatype, shape, tensor.contents, most)
    if tensor.HasField("contents"):
        raise ProtocolError(f"tensor '{tensor.name:.60}' must have either contents or raw bytes, and it has both")
    return from_bytes(tensor.name, tensor.datatype, shape, raw, most)


def read_parameters(parameters: Any) -> dict[str, Any]:
    """Return the values of a message's parameters; None where a parameter has none."""
    return {
        name: getattr(value, kind) if (kind := value.WhichOneof("parameter_choice")) else None
        for name, value in parameters.items()
    }


def write_answer(answer: ModelAnswer, call: Call, store: Store = elsewhere) -> Any:
    """Return the ModelInferResponse of an answer, its tensors as raw bytes.

    `store` takes what is wanted in shared memory, whose raw bytes are empty. Raises what it raises.
    """
    made = message("ModelInferResponse")(model_name=answer.model, model_version=answer.version, id=answer.id)
    _write_parameters(made.parameters, answer.parameters)
    for name, array in answer.outputs.items():
        output = made.outputs.add(name=name, datatype=datatype_of(array), shape=array.shape)
        data = to_bytes(array)
        if (place := call.places.get(name)) is not None:
            store(name, place, data)
            _write_parameters(output.parameters, place.to_json(len(data)))
            data = b""
        made.raw_output_contents.append(data)
    return made


def _write_parameters(parameters: Any, values: Mapping[str, Parameter]) -> None:
    for name, value in values.items():
        if isinstance(value, bool):  # which is an int, too
            parameters[name].bool_param = value
        elif isinstance(value, int):
            parameters[name].int64_param = value
        elif isinstance(value, float):
            parameters[name].double_param = value
        else:
            parameters[name].string_param = value


def write_request(
    model: str, id: str, inputs: Mapping[str, Array], outputs: tuple[str, ...], parameters: Mapping[str, Parameter]
) -> Any:
    """Return a ModelInferRequest with its tensors (samples, ...) as raw bytes."""
    made = message("ModelInferRequest")(model_name=model, id=id)
    for name, array in inputs.items():
        made.inputs.add(name=name, datatype=datatype_of(array), shape=array.shape)
        made.raw_input_contents.append(to_bytes(array))
    for name in outputs:
        made.outputs.add(name=name)
    _write_parameters(made.parameters, parameters)
    return made


def read_answer(answer: Any) -> ModelAnswer:
    """Return the answer in a ModelInferResponse whose tensors are raw bytes. Raises ProtocolError."""
    outputs = {
        output.name: from_bytes(output.name, output.datatype, tuple(output.shape), raw)
        for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
    }
    return ModelAnswer(answer.model_name, answer.model_version, answer.id, outputs, read_parameters(answer.parameters))
