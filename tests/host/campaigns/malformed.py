"""Malformed requests in bulk: a served bundle must survive them, answer good ones, and keep no connection.

    PYTHONPATH=tests/host python -m campaigns.malformed out/demo/zc706/bundle --requests 100000

Good HTTP requests and gRPC messages are broken at random (bytes flipped, cut out, doubled, inserted) and
sent; whatever comes back is counted. After every hundred a good request must be answered.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import resource
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from fluidnpu.host.errors import HostError
from fluidnpu.host.oip.admission.limits import Limits
from fluidnpu.host.oip.client import connect
from fluidnpu.host.oip.running import NetworkServer, ServeOptions, in_background
from fluidnpu.host.oip.wire.messages import SERVICE, message
from fluidnpu.host.oip.wire.tensors import TensorInfo
from fluidnpu.host.serving.models import Models
from fluidnpu.host.serving.options import ModelOptions

from .clients import LONGEST_S

NAME = "malformed"
EVERY = 100  # after so many a good request is sent


@dataclass(kw_only=True)
class StatusCounts:
    """The answers that came back, by status.

    `crashes`: answers that say that the server failed, and good requests without an answer. `stuck`:
    connections that did not end in time.
    """

    http: Counter[str] = field(default_factory=Counter)
    grpc: Counter[str] = field(default_factory=Counter)
    good: int = 0
    crashes: int = 0
    stuck: int = 0


def broken(rng: random.Random, good: bytes) -> bytes:
    """Return good bytes with a few of them flipped, cut out, doubled or new."""
    data = bytearray(good)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(4)
        if kind == 0 and data:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randint(1, 40)]
        elif kind == 2:
            data[at:at] = data[at : at + rng.randint(1, 40)]
        else:
            data[at:at] = rng.randbytes(rng.randint(1, 12))
    return bytes(data)


def talk(port: int, data: bytes, timeout_s: float = LONGEST_S) -> bytes:
    """Send bytes on a connection of their own, half-close it, and read to its end. Raises TimeoutError."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        answer = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65_536):
                answer += part
        except (ConnectionError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
        return answer


def send_malformed(server: NetworkServer, model: str, info: TensorInfo, requests: int, seed: int = 0) -> StatusCounts:
    """Send malformed requests, two of three over HTTP, and return what came back."""
    rng, counts = random.Random(seed), StatusCounts()
    shape = (1, *info.shape[1:])
    image = np.zeros(shape, np.uint8)
    body, head = _good_http(model, info.name, image)
    good = _good_grpc(model, info.name, image)
    with (
        grpc.insecure_channel(server.url("grpc")) as channel,
        connect(server.url(), model, timeout_s=LONGEST_S) as npu,
    ):
        call = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        for number in range(requests):
            if number % 3 == 2:
                _over_grpc(call, broken(rng, good), counts)
            else:
                _over_http(server.ports["http"], broken(rng, head) + broken(rng, body), counts)
            if number % EVERY == EVERY - 1:
                try:
                    npu.infer(image)
                    counts.good += 1
                except HostError:
                    counts.crashes += 1
    return counts


def _over_http(port: int, data: bytes, counts: StatusCounts) -> None:
    try:
        answer = talk(port, data)
    except TimeoutError:
        counts.stuck += 1
        return
    status = answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.") else "closed"
    counts.http[status] += 1
    counts.crashes += status in ("500", "501") and b'"type": "Unsupported' not in answer


def _over_grpc(call: Any, data: bytes, counts: StatusCounts) -> None:
    try:
        call(data, timeout=LONGEST_S)
        counts.grpc["OK"] += 1
    except grpc.RpcError as error:
        code = error.code()
        counts.grpc[code.name] += 1
        counts.stuck += code is grpc.StatusCode.DEADLINE_EXCEEDED
        counts.crashes += code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)


def _good_http(model: str, name: str, image: np.ndarray[Any, Any]) -> tuple[bytes, bytes]:
    tensor = {"name": name, "datatype": "UINT8", "shape": list(image.shape), "data": image.ravel().tolist()}
    body = json.dumps({"id": "f", "parameters": {"slo_ms": 50}, "inputs": [tensor]}).encode()
    head = (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return body, head.encode()


def _good_grpc(model: str, name: str, image: np.ndarray[Any, Any]) -> bytes:
    asked = message("ModelInferRequest")(model_name=model, id="f")
    asked.inputs.add(name=name, datatype="UINT8", shape=image.shape)
    asked.raw_input_contents.append(image.tobytes())
    return bytes(asked.SerializeToString())


def main(words: Sequence[str] | None = None) -> int:
    """Send malformed requests to a bundle from the command line; 1 after a crash or a stuck connection."""
    from fluidnpu.host.oip.interface import input_of

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    for name in ("fluidnpu", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # thousands of refusals are meant
    models, began = Models({NAME: given.bundle}, ModelOptions()), time.monotonic()
    limits = Limits(head_s=2.0, body_s=2.0)
    with in_background(models, ServeOptions(http=0, grpc=0, limits=limits)) as server:
        counts = send_malformed(server, NAME, input_of(models.find(NAME).bundle.program), given.requests, given.seed)
        left = models.find(NAME).server.waiting
    print(
        json.dumps(
            {
                "requests": given.requests,
                "http": dict(counts.http.most_common()),
                "grpc": dict(counts.grpc.most_common()),
                "good_answered": counts.good,
                "crashes": counts.crashes,
                "stuck": counts.stuck,
                "without_an_answer_at_the_end": left,
                "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "seconds": round(time.monotonic() - began, 1),
            },
            indent=1,
        )
    )
    return int(bool(counts.crashes or counts.stuck or left))


if __name__ == "__main__":
    raise SystemExit(main())
