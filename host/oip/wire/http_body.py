"""Inference requests and answers as HTTP bodies: JSON, and JSON before binary tensors. No I/O.

>>> start = b'{"inputs": [{"name": "x", "datatype": "UINT8", "shape": [2], '
>>> bounds = Bounds(elements=2, json_bytes=200, body_bytes=200)
>>> read_call("m", "", start + b'"data": [1, 2]}]}', None, bounds).inputs["x"].tolist()
[1, 2]
>>> head = start + b'"parameters": {"binary_data_size": 2}}]}'
>>> read_call("m", "", head + bytes([3, 4]), len(head), bounds).inputs["x"].tolist()
[3, 4]
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from ...errors import ProtocolError, TooLargeError
from .calls import Bounds, Call, ModelAnswer, read_id, read_names, read_output
from .parameters import abbreviate
from .places import Fetch, RegionPlace, Store, elsewhere, read_place
from .tensors import Array, check_datatype, datatype_of, from_bytes, from_list, to_bytes

MOST_MEMBERS = 4096  # of the objects in a request's JSON
_LONG = 64 << 10  # bytes of JSON
LENGTH_HEADER = b"inference-header-content-length"


def read_json(body: bytes | memoryview, what: str = "the body") -> dict[str, Any]:
    """Return a JSON object. Raises ProtocolError."""
    if not len(body):
        return {}
    try:
        value = _loads(bytes(body))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{what} must be a JSON object: {str(error)[:120]}") from None
    if not isinstance(value, dict):
        raise ProtocolError(f"{what} must be a JSON object, not {type(value).__name__}")
    return value


def read_call(
    model: str, version: str, body: bytes, head_bytes: int | None, bounds: Bounds, fetch: Fetch = elsewhere
) -> Call:
    """Return the call in a body whose first `head_bytes` are JSON (None: all of it).

    `fetch` gives tensors that lie in shared memory. Raises ProtocolError, and what it raises.
    """
    if head_bytes is not None and not 0 <= head_bytes <= len(body):
        raise ProtocolError(f"the header's length must lie in the body of {len(body)} bytes, not at {head_bytes}")
    view = memoryview(body)
    raw = read_json(body if head_bytes is None else view[:head_bytes], "the request")
    rest = view[len(body) if head_bytes is None else head_bytes :]
    parameters = _object(raw, "parameters")
    call = Call(model, version, read_id(raw.get("id", "")), parameters=parameters)
    tensors = _objects(raw, "inputs")
    if not tensors:
        raise ProtocolError("a request must have inputs, and it has none")
    read_names("input", [tensor.get("name") for tensor in tensors])
    for tensor in tensors:
        name, place = tensor["name"], read_place(tensor["name"], _object(tensor, "parameters"))
        if place is None:
            call.inputs[name], rest = _read_tensor(tensor, rest, bounds)
        else:
            call.inputs[name] = _fetch_tensor(tensor, place, bounds, fetch)
            call.fetched += place.size
    if len(rest):
        raise ProtocolError(f"the binary tensors must fill the body, and {len(rest)} bytes are left over")
    _read_outputs(call, raw)
    return call


def check_json(body: bytes, head_bytes: int | None, bounds: Bounds) -> int:
    """Return the items of a body's JSON: commas and lists, each of which becomes an object.

    Raises TooLargeError for more than a request to the model can have, before any is made; a member of an
    object takes more than a number, so those are fewer.
    """
    size = len(body) if head_bytes is None else head_bytes
    if size > bounds.json_bytes:
        raise TooLargeError(
            f"the JSON of a request must have at most {bounds.json_bytes} bytes, not {size}: tensors may be binary"
        )
    items, members = (sum(body.count(sign, 0, size) for sign in signs) for signs in (b",[", b"{:"))
    for what, most, count in (("items", bounds.json_items, items), ("members", MOST_MEMBERS, members)):
        if count > most:
            raise TooLargeError(f"the JSON of a request must have at most {most} {what}, not {count}")
    return items


def _read_tensor(tensor: dict[str, Any], rest: memoryview, bounds: Bounds) -> tuple[Array, memoryview]:
    """Return an input's array and the bytes behind it."""
    name, size = tensor["name"], _object(tensor, "parameters").get("binary_data_size")
    datatype, most = tensor.get("datatype"), bounds.elements
    check_datatype(name, datatype, bounds.datatypes)
    if size is None:
        return from_list(name, datatype, tensor.get("shape"), tensor.get("data"), most), rest
    if type(size) is not int or not 0 <= size <= len(rest):
        raise ProtocolError(
            f"tensor '{name}' must have a binary_data_size in 0..{len(rest)}, the bytes that came, not {abbreviate(size)}"
        )
    if "data" in tensor:
        raise ProtocolError(f"tensor '{name}' must have either data or a binary_data_size, and it has both")
    return from_bytes(name, datatype, tensor.get("shape"), rest[:size], most), rest[size:]


def _fetch_tensor(tensor: dict[str, Any], place: RegionPlace, bounds: Bounds, fetch: Fetch) -> Array:
    """Return an input's array in shared memory."""
    name, datatype = tensor["name"], tensor.get("datatype")
    check_datatype(name, datatype, bounds.datatypes)
    if "data" in tensor or "binary_data_size" in _object(tensor, "parameters"):
        raise ProtocolError(f"tensor '{name}' must have its data once, and it has them beside shared memory, too")
    return from_bytes(name, datatype, tensor.get("shape"), fetch(place, bounds.body_bytes), bounds.elements)


def _read_outputs(call: Call, raw: dict[str, Any]) -> None:
    """Read the wanted outputs and the form of each."""
    whole = call.parameters.get("binary_data_output", False)
    call.binary[None] = _flag(whole, "binary_data_output")
    outputs = _objects(raw, "outputs")
    names = [output.get("name") for output in outputs]
    call.outputs = read_names("output", list(dict.fromkeys(names)) if all(isinstance(n, str) for n in names) else names)
    for output in outputs:
        parameters = _object(output, "parameters")
        read_output(call, output["name"], parameters)
        if "binary_data" in parameters:
            call.binary[output["name"]] = _flag(parameters["binary_data"], "binary_data")


def write_answer(answer: ModelAnswer, call: Call, store: Store = elsewhere) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the length of its JSON when binary tensors follow it.

    `store` takes what is wanted in shared memory. Raises what it raises.
    """
    outputs, tail = [], []
    for name, array in answer.outputs.items():
        output: dict[str, Any] = {"name": name, "datatype": datatype_of(array), "shape": list(array.shape)}
        if (place := call.places.get(name)) is not None:
            data = to_bytes(array)
            store(name, place, data)
            output["parameters"] = place.to_json(len(data))
        elif call.binary.get(name, call.binary.get(None, False)):
            data = to_bytes(array)
            output["parameters"] = {"binary_data_size": len(data)}
            tail.append(data)
        else:
            output["data"] = _plain(array)
        outputs.append(output)
    body: dict[str, Any] = {"model_name": answer.model, "model_version": answer.version}
    if answer.id:
        body["id"] = answer.id
    body |= {"parameters": answer.parameters, "outputs": outputs}
    head = json.dumps(body).encode()
    return (b"".join((head, *tail)), len(head)) if tail else (head, None)


def _plain(array: Array) -> list[Any]:
    """Return the values of an array as JSON has them; a NaN or an infinity is `null`."""
    values: list[Any] = array.reshape(-1).tolist()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return [value if math.isfinite(value) else None for value in values]
    return values


def _object(raw: dict[str, Any], key: str) -> dict[str, Any]:
    value = raw.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProtocolError(f"'{key}' must be an object, not {type(value).__name__}")
    return value


def _objects(raw: dict[str, Any], key: str) -> list[dict[str, Any]]:
    values = raw.get(key)
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ProtocolError(f"'{key}' must be a list of objects, not {type(values).__name__}")
    return values


def _flag(value: Any, name: str) -> bool:
    if type(value) is not bool:
        raise ProtocolError(f"parameter '{name}' must be true or false, not {abbreviate(value)}")
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _plainly(body: bytes) -> Any:
    """Parse JSON; of a long body each number in Python, where another thread may have its turn."""
    numbers: dict[str, Any] = {"parse_float": _float, "parse_int": _int} if len(body) > _LONG else {}
    return json.loads(body, parse_constant=_no_constant, **numbers)


def _float(text: str) -> float:
    return float(text)


def _int(text: str) -> int:
    return int(text)


_loads: Callable[[bytes], Any] = _plainly
with suppress(ImportError):
    import orjson

    _loads = orjson.loads  # a tenth of the time, where it has a wheel
