"""The bounds that keep one client, or many, from taking the server down. Plain data.

>>> from fluidnpu.host.oip.wire.tensors import TensorInfo
>>> bounds_of(Limits(batch=2), TensorInfo("x", "UINT8", (-1, 4, 4, 1)))
Bounds(elements=32, json_bytes=66368, body_bytes=66368, datatypes=('UINT8', 'FP16', 'BF16', 'FP32', 'FP64'))
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..wire.calls import HEAD_BYTES, Bounds
from ..wire.tensors import OF_PIXELS, TensorInfo

NUMBER_BYTES = 26  # of the longest float in JSON, with its separator
WIDEST_BYTES = 8  # of a number in a binary tensor
JSON_BYTES = 8 << 20  # of JSON, which is read at a thousandth of a binary tensor's speed
PHOTO = 8 << 20  # pixels of the largest image that a model which resizes takes
PARSED_BYTES = 64  # of memory that a number or a list of JSON takes while it is read
OTHER_BYTES = 256 << 10  # of a body that is no inference
LEAST_HELD_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one server; sizes in bytes, times in seconds.

    `body_bytes` of one request, where its model's largest is not smaller; `batch` samples in one request;
    `queue` samples of one model without an answer; `connections` of one surface; `streamed` requests of one
    gRPC stream without an answer; `reading` gRPC messages that arrive at the same time; `head_s`, `body_s`
    and `write_s` for a slow client to send the head and the body of a request and to take the answer;
    `idle_s` of a connection without a request; `drain_s` to answer what was taken when the server stops;
    `shared_bytes` of shared memory that clients of this machine may register, 0 for none.
    """

    body_bytes: int = 64 << 20
    batch: int = 64
    queue: int = 1024
    connections: int = 512
    streamed: int = 256
    reading: int = 64
    head_s: float = 10.0
    body_s: float = 30.0
    write_s: float = 30.0
    idle_s: float = 60.0
    drain_s: float = 30.0
    shared_bytes: int = 0


def bounds_of(limits: Limits, *inputs: TensorInfo) -> Bounds:
    """Return the bounds of a request to a model with one of these inputs; -1 is a size that is resized."""
    elements, datatypes = 0, dict[str, None]()
    for info in inputs:
        datatypes.update(dict.fromkeys(OF_PIXELS if info.datatype == OF_PIXELS[0] else (info.datatype,)))
        sizes = info.shape[1:]
        fixed = math.prod(size for size in sizes if size > 0)
        elements = max(elements, limits.batch * fixed if min(sizes) > 0 else PHOTO * fixed)
    text = min(NUMBER_BYTES * elements, JSON_BYTES) + HEAD_BYTES
    whole = min(max(text, WIDEST_BYTES * elements + HEAD_BYTES), limits.body_bytes)
    return Bounds(elements, min(text, whole), whole, tuple(datatypes))


def held_bytes(largest: Bounds) -> int:
    """Return the bytes of requests that a server may hold at once, whose largest request is that."""
    return max(LEAST_HELD_BYTES, 4 * largest.body_bytes)
