"""The protobuf messages of the protocol's gRPC service, made from the compiled `inference.proto` at import.

They live in a descriptor pool of their own: tritonclient registers the same full names in protobuf's default
pool, and both may be used in one process. Beside this folder only the gRPC edge knows protobuf.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"
pool = descriptor_pool.DescriptorPool()
(_file,) = descriptor_pb2.FileDescriptorSet.FromString(
    resources.files(__package__).joinpath("inference.protoset").read_bytes()
).file
pool.Add(_file)
_classes = message_factory.GetMessageClassesForFiles([_file.name], pool)
service = pool.FindServiceByName(SERVICE)


def message(name: str) -> Any:
    """Return the class of a message.

    >>> message("ServerLiveResponse")(live=True).live
    True
    """
    return _classes[f"{PACKAGE}.{name}"]
