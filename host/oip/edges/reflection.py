"""gRPC's reflection: which services there are, and the files that describe their messages. No I/O.

Source: gRPC's reflection protocol, github.com/grpc/grpc/blob/master/doc/server-reflection.md.

>>> said = reflect(message("ServerReflectionRequest", REFLECTION)(list_services="*"))
>>> [service.name for service in said.list_services_response.service][:2]
['inference.GRPCInferenceService', 'grpc.health.v1.Health']
"""

from __future__ import annotations

from typing import Any

from ..wire.messages import REFLECTION, describe_file, message, services

SERVICES = (f"{REFLECTION}.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")  # the same messages
_NOT_FOUND = 5  # gRPC's number of the code


def reflect(request: Any) -> Any:
    """Return the response to one request of a stream; what is not there is an error inside it."""
    response = message("ServerReflectionResponse", REFLECTION)(valid_host=request.host, original_request=request)
    kind = request.WhichOneof("message_request")
    if kind == "list_services":
        for name in services():
            response.list_services_response.service.add(name=name)
        return response
    try:
        if kind == "file_by_filename":
            file = describe_file(name=request.file_by_filename)
        elif kind == "file_containing_symbol":
            file = describe_file(symbol=request.file_containing_symbol)
        else:
            raise KeyError(kind)  # proto3 has no extensions
    except KeyError:
        response.error_response.error_code = _NOT_FOUND
        response.error_response.error_message = (
            "a reflection request must name a file or a symbol of a service listed here"
        )
    else:
        response.file_descriptor_response.file_descriptor_proto.append(file)
    return response
