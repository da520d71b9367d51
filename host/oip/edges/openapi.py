"""The OpenAPI document of the REST surface, published at `/openapi.json`. Plain data.

>>> sorted(_answers("Ready", 404))
['200', '401', '404', '500']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fluidnpu.hls import Program

from ...serving.models import VERSION
from ..front import BoardAdmin
from ..interface import input_of, outputs_of
from ..operations import ACTS, Operation
from ..wire.bodies import (
    FLEET,
    SERVER,
    ExitsChange,
    Feedback,
    IndexQuery,
    LoadOrder,
    SharesChange,
    TenantsChange,
    is_needed,
    schema_of,
)
from ..wire.parameters import LONGEST_ID, OTHERS, PARAMETERS
from ..wire.tensors import KNOWN, TensorInfo

Schema = dict[str, Any]
Programs = Mapping[str, Program | None]  # by model name; None where a model is not loaded
_STRING: Schema = {"type": "string"}
_ITEM: Schema = {"type": ["number", "boolean", "string"]}  # of a tensor
_COUNT: Schema = {"type": "integer", "minimum": 0}
_FLAG: Schema = {"type": "boolean"}
_REFUSALS = {
    400: "the request breaks the protocol, or does not fit the model",
    401: "the token is missing or wrong",
    403: "the admin surface is elsewhere",
    404: "there is no such model, version or region",
    405: "the method is not for this path",
    408: "the body took too long",
    409: "the idempotency key came before with another content, nothing adapts, or the state forbids it",
    413: "the body, the batch or a tensor is too large",
    429: "the queue is full, or the server holds as many bytes as it may",
    500: "the server failed",
    501: "a part of the protocol that this server does not have",
    503: "not ready, or shed by the policy",
    504: "the request's own timeout passed in the queue",
}


def document(
    version: str,
    programs: Programs,
    operations: Sequence[Operation],
    *,
    tenants: Sequence[str] = ("",),
    boards: Sequence[str] = (),
    versions: Sequence[str] = (VERSION,),
    shared_bytes: int = 0,
) -> Schema:
    """Return the document of a server with these models, and the tenants that a request may name.

    `operations`: those that the surface has; `boards`: those of a fleet, whose front it is.
    """
    names = list(programs)
    name: Schema = {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "enum": names, "minLength": 1},
    }
    numbered = {"name": "version", "in": "path", "required": True, "schema": {"type": "string", "enum": list(versions)}}
    paths: Schema = {
        "/v2": {"get": _operation("server metadata", "ServerMetadata")},
        "/v2/health/live": {"get": _operation("liveness", "Live", 503)},
        "/v2/health/ready": {"get": _operation("readiness", "Ready", 503)},
        "/v2/models/stats": {"get": _operation("statistics of all models", "Statistics")},
        "/v2/repository/index": {
            "post": _operation("models and their states", "Index", 400, 408, 413, asks="IndexQuery")
        },
        "/metrics": {"get": _text("Prometheus metrics", "text/plain")},
        "/live.json": {"get": _operation("numbers of the live page", "Any")},
        "/": {"get": _text("live page", "text/html")},
    }
    for prefix, parameters in (("", [name]), ("/versions/{version}", [name, numbered])):
        top = f"/v2/models/{{name}}{prefix}"
        items: Schema = {
            top: {"get": _operation("model metadata", "ModelMetadata", 404, 503)},
            f"{top}/config": {"get": _operation("model configuration", "ModelConfiguration", 404, 503)},
            f"{top}/ready": {"get": _operation("model readiness", "ModelReady", 404, 503)},
            f"{top}/stats": {"get": _operation("model statistics", "Statistics", 404)},
            f"{top}/infer": {"post": _infer()},
        }
        for item in items.values():
            item["parameters"] = parameters
        paths |= items
    if shared_bytes:
        paths |= _shared_memory()
    act = {"name": "act", "in": "path", "required": True, "schema": {"enum": list(ACTS)}}
    for operation in operations:
        parameters = [name]
        if operation.needs is BoardAdmin:
            parameters = [{**name, "schema": {"enum": list(boards)}}, act]
        if boards or operation.needs is not BoardAdmin:
            item = paths.setdefault(operation.path, {"parameters": parameters})
            item[operation.verb.lower()] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "fluidnpu, Open Inference Protocol v2", "version": version},
        "paths": paths,
        "components": {"schemas": _schemas(programs, tenants, boards, versions, shared_bytes)},
    }


def _operation(summary: str, answer: str, *refusals: int, asks: str | None = None) -> Schema:
    refusals = refusals if asks is None else (*refusals, 429)
    made: Schema = {"summary": summary, "responses": _answers(answer, *refusals)}
    if asks is not None:
        made["requestBody"] = {"content": {"application/json": {"schema": _ref(asks)}}}
    return made


def _describe(operation: Operation) -> Schema:
    """Describe a call of the table."""
    body = operation.body
    asks = body.__name__ if body else "Any" if operation.verb == "POST" else None
    made = _operation(operation.summary, operation.answer, *operation.refusals, asks=asks)
    if body and is_needed(body):
        made["requestBody"]["required"] = True
    return made


def _answers(answer: str, *refusals: int) -> Schema:
    answers: Schema = {"200": {"description": "done", "content": {"application/json": {"schema": _ref(answer)}}}}
    for status in (401, *refusals, 500):
        schema = {"anyOf": [_ref("Error"), _ref(answer)]} if status == 503 else _ref("Error")
        content = {"application/json": {"schema": schema}}
        answers[str(status)] = {"description": _REFUSALS[status], "content": content}
    return answers


def _infer() -> Schema:
    made = _operation("inference", "InferResponse", 400, 404, 408, 409, 413, 429, 501, 503, 504)
    content = made["responses"]["200"]["content"]
    content["application/octet-stream"] = {"schema": {}}  # JSON, then binary tensors
    made["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref("InferRequest")}}}
    return made


def _shared_memory() -> Schema:
    """Describe the calls about regions of shared memory, which clients of this machine may make."""
    region: Schema = {
        "name": "region",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    }
    top, calls = "/v2/systemsharedmemory", dict[str, Any]()
    for at, parameters in ((top, []), (f"{top}/region/{{region}}", [region])):
        status = _operation("registered regions", "Regions", 403, 404)
        calls[f"{at}/status"] = {"get": status, "parameters": parameters}
        calls[f"{at}/unregister"] = {"post": _operation("forget regions", "Any", 400, 403, 404, 408, 413, asks="Any")}
        calls[f"{at}/unregister"]["parameters"] = parameters
    registered = _operation("register a region", "Any", 400, 403, 404, 408, 409, 413, asks="Region")
    registered["requestBody"]["required"] = True
    return calls | {f"{top}/region/{{region}}/register": {"post": registered, "parameters": [region]}}


def _text(summary: str, kind: str) -> Schema:
    made = _operation(summary, "Any")
    made["responses"]["200"]["content"] = {kind: {"schema": _STRING}}
    return made


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(needed: Schema, **optional: Any) -> Schema:
    return {"type": "object", "properties": {**needed, **optional}, "required": list(needed)}


def _size(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": max(least, most)}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _schemas(
    programs: Programs, tenants: Sequence[str], boards: Sequence[str], versions: Sequence[str], shared_bytes: int
) -> Schema:
    place = FLEET if boards else SERVER
    share: Schema = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}}
    tensor = _object({"name": _STRING, "datatype": {"enum": list(KNOWN)}, "shape": _list(_COUNT)})
    sized = _object({"name": _STRING, "data_type": _STRING, "dims": _list({"type": "integer"})})
    duration = _object({"count": _COUNT, "ns": _COUNT})
    computed = {"compute_input": duration, "compute_infer": duration, "compute_output": duration}
    counted = dict.fromkeys(("success", "fail", "queue", *computed, "cache_hit", "cache_miss"), duration)
    statistics = _object(
        {
            "name": _STRING,
            "version": _STRING,
            "last_inference": _COUNT,
            "inference_count": _COUNT,
            "execution_count": _COUNT,
            "inference_stats": _object(counted),
            "batch_stats": _list(_object({"batch_size": _COUNT, **computed})),
        }
    )
    index = _object({"name": _STRING, "version": _STRING, "state": _STRING, "reason": _STRING})
    parameters = {"type": "object", "additionalProperties": {"type": ["boolean", "number", "string"]}}
    output = _object(
        {"name": _STRING, "datatype": {"enum": list(KNOWN)}, "shape": _list(_COUNT)},
        data=_list(_ITEM),
        parameters=parameters,
    )
    return {
        "Any": {"type": "object"},
        "Error": _object({"error": _STRING, "type": _STRING}, retry_after_ms=_COUNT),
        "ServerMetadata": _object({"name": _STRING, "version": _STRING, "extensions": _list(_STRING)}),
        "Live": _object({"live": _FLAG}),
        "Ready": _object({"ready": _FLAG}),
        "ModelReady": _object({"name": _STRING, "ready": _FLAG}),
        "ModelMetadata": _object(
            {
                "name": _STRING,
                "versions": _list(_STRING),
                "platform": _STRING,
                "inputs": _list(
                    {**tensor, "properties": {**tensor["properties"], "shape": _list({"type": "integer"})}}
                ),
                "outputs": _list(
                    {**tensor, "properties": {**tensor["properties"], "shape": _list({"type": "integer"})}}
                ),
            },
            class_names=_list(_STRING),
        ),
        "ModelConfiguration": _object(
            {
                "name": _STRING,
                "platform": _STRING,
                "backend": _STRING,
                "max_batch_size": _COUNT,
                "input": _list(sized),
                "output": _list(sized),
                "parameters": {"type": "object", "additionalProperties": _object({"string_value": _STRING})},
            }
        ),
        "Statistics": _object({"model_stats": _list(statistics)}),
        "Index": _list(index),
        "Tenants": _object({"criteria": _STRING, "tenants": {"type": "object"}}),
        "Shares": _object({"shares": share, "versions": {"type": "object"}}, before=share),
        "Regions": _list(_object({"name": _STRING, "key": _STRING, "offset": _COUNT, "byte_size": _COUNT})),
        "Region": _object(
            {"key": {"type": "string", "pattern": "^/?[A-Za-z0-9_.-]{1,200}$"}, "byte_size": _size(1, shared_bytes)},
            offset=_size(0, 1 << 40),
        ),
        "Fed": _object({"taken": _COUNT}),
        "Exits": _object({"exits": _list({"type": "object"}), "changes": _COUNT, "why": _STRING}),
        "Acted": _object({"board": _STRING, "state": _STRING, "reason": _STRING}),
        "IndexQuery": schema_of(IndexQuery),
        "LoadOrder": {"type": "object", "properties": {"parameters": schema_of(LoadOrder, place)}},
        "ExitsChange": schema_of(ExitsChange, place, thresholds=_thresholds(programs), board={"enum": list(boards)}),
        "TenantsChange": schema_of(TenantsChange, criteria=_criteria(), tenants=_tenant_keys(tenants)),
        "SharesChange": schema_of(SharesChange, shares=_shares(versions)),
        "Feedback": schema_of(Feedback),
        "InferRequest": _infer_request(programs, tenants),
        "InferResponse": _object(
            {"model_name": _STRING, "model_version": _STRING, "parameters": parameters, "outputs": _list(output)},
            id=_STRING,
        ),
    }


def _infer_request(programs: Programs, tenants: Sequence[str]) -> Schema:
    """Describe a request of one image as JSON.

    More images, other datatypes and binary tensors are allowed too; JSON Schema cannot say how shape and data
    hang together.
    """
    properties: Schema = {name: row.schema for name, row in PARAMETERS.items()}
    parameters = {
        "type": "object",
        "properties": {**properties, "criteria": _criteria(), "tenant": {"enum": list(tenants)}},
        **OTHERS,
    }
    output = {
        "type": "object",
        "properties": {
            "name": {"enum": [output.name for output in _outputs(programs)]},
            "parameters": {"type": "object", "properties": {"binary_data": _FLAG}},
        },
        "required": ["name"],
    }
    return _object(
        {"inputs": {"type": "array", "items": _image(programs), "minItems": 1, "maxItems": 1}},
        id={"type": "string", "maxLength": LONGEST_ID, "pattern": "^[ -~]*$"},
        parameters=parameters,
        outputs=_list(output),
    ) | _example(programs)


def _shares(versions: Sequence[str]) -> Schema:
    """Describe shares by version; one that is left out has none, as one of 0 has."""
    value = {"type": "number", "exclusiveMinimum": 0, "maximum": 1e9}
    return {"properties": dict.fromkeys(versions, value), "additionalProperties": False, "minProperties": 1}


def _thresholds(programs: Programs) -> Schema:
    """Describe thresholds by the early exits of the first model that is loaded."""
    program = _first_loaded(programs)
    names = [] if program is None else [exit.name for exit in program.exits[:-1]]
    value = schema_of(ExitsChange)["properties"]["thresholds"]["additionalProperties"]
    return {"properties": dict.fromkeys(names, value), "additionalProperties": False}


def _tenant_keys(tenants: Sequence[str]) -> Schema:
    """Describe keys of the tenants that there are."""
    return {"properties": {name: {"type": "object"} for name in tenants if name}, "additionalProperties": False}


def _criteria() -> Schema:
    """Describe criteria without brackets, lists and `not`, which a pattern cannot say."""
    ordered = "(<|<=|>=|>)"
    comparison = (
        f"(confidence {ordered} (0[.][0-9]{{1,6}}|[0-9]{{1,2}}%)"
        f"|(response_time|service_time|next_response_time|slack) {ordered} [0-9]{{1,6}}([.][0-9]{{1,3}})?(us|ms|s)"
        "|exit_number (<|<=|==|!=|>=|>) [0-9]{1,3})"
    )
    return {
        "type": "string",
        "pattern": f"^(false|{comparison}( (and|or) {comparison}){{0,3}})$",
        "examples": ["confidence > 0.9 or slack < 2ms"],
    }


def _first_loaded(programs: Programs) -> Program | None:
    return next((program for program in programs.values() if program is not None), None)


def _outputs(programs: Programs) -> tuple[TensorInfo, ...]:
    program = _first_loaded(programs)
    return () if program is None else outputs_of(program)


def _image(programs: Programs) -> Schema:
    """Describe one image of the first model that is loaded, as JSON numbers."""
    program = _first_loaded(programs)
    if program is None:
        return _object({"name": _STRING, "datatype": {"enum": list(KNOWN)}, "shape": _list(_COUNT), "data": {}})
    info = input_of(program)
    size = info.shape[1] * info.shape[2] * info.shape[3]
    pixel = {"type": "integer", "minimum": 0, "maximum": 255}
    return _object(
        {
            "name": {"const": info.name},
            "datatype": {"const": info.datatype},
            "shape": {"const": [1, *info.shape[1:]]},
            "data": {"type": "array", "items": pixel, "minItems": size, "maxItems": size},
        }
    )


def _example(programs: Programs) -> Schema:
    program = _first_loaded(programs)
    if program is None:
        return {}
    info = input_of(program)
    pixels = [0] * (info.shape[1] * info.shape[2] * info.shape[3])
    sample = {"name": info.name, "datatype": info.datatype, "shape": [1, *info.shape[1:]], "data": pixels}
    return {"examples": [{"inputs": [sample], "outputs": [{"name": outputs_of(program)[0].name}]}]}
