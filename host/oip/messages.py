"""The protocol's protobuf messages, made from the compiled `inference.proto` at import.

They live in a descriptor pool of their own: tritonclient registers the same full names in protobuf's default
pool, and both may be used in one process. Only this file and the gRPC edge know protobuf.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"


def _loaded() -> tuple[descriptor_pool.DescriptorPool, dict[str, Any]]:
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(resources.files(__package__).joinpath("inference.protoset").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    classes = message_factory.GetMessageClassesForFiles([file.name for file in files.file], pool)
    return pool, classes


_pool, _classes = _loaded()
service = _pool.FindServiceByName(SERVICE)


def message(name: str) -> Any:
    """Return the class of a message of the package.

    >>> message("ServerLiveResponse")(live=True).live
    True
    """
    return _classes[f"{PACKAGE}.{name}"]
