"""The protobuf messages of our gRPC services, made from the compiled `.proto` files at import.

They live in a descriptor pool of their own: tritonclient registers the same full names in protobuf's default
pool, and both may be used in one process. Beside this folder only the gRPC edge knows protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"
HEALTH = "grpc.health.v1"
REFLECTION = "grpc.reflection.v1"
_FILES = ("inference", "health", "reflection")


def _descriptors() -> Iterator[descriptor_pb2.FileDescriptorProto]:
    for name in _FILES:
        compiled = resources.files(__package__).joinpath(f"{name}.protoset").read_bytes()
        yield from descriptor_pb2.FileDescriptorSet.FromString(compiled).file


def _load() -> tuple[descriptor_pool.DescriptorPool, dict[str, Any]]:
    pool, names = descriptor_pool.DescriptorPool(), []
    for file in _descriptors():
        pool.Add(file)
        names.append(file.name)
    return pool, message_factory.GetMessageClassesForFiles(names, pool)


_pool, _classes = _load()
service = _pool.FindServiceByName(SERVICE)


def message(name: str, package: str = PACKAGE) -> Any:
    """Return the class of a message of a package.

    >>> message("ServerLiveResponse")(live=True).live
    True
    """
    return _classes[f"{package}.{name}"]


def services() -> list[str]:
    """Return the full names of all services that have a description."""
    return [f"{file.package}.{service.name}" for file in _descriptors() for service in file.service]


def describe_file(*, name: str = "", symbol: str = "") -> bytes:
    """Return the compiled file of a name, or of a symbol in it. Raises KeyError."""
    data: bytes = (_pool.FindFileByName(name) if name else _file_of(symbol)).serialized_pb
    return data


def _file_of(symbol: str) -> Any:
    try:
        return _pool.FindFileContainingSymbol(symbol)
    except KeyError:  # it knows no calls
        owner, _, call = symbol.rpartition(".")
        return _pool.FindServiceByName(owner).methods_by_name[call].containing_service.file
