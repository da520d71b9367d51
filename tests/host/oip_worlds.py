"""Served worlds for tests of the protocol: a small network behind a server on free ports of the loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from host_worlds import HOUR_NS, PATIENCE_S, HostWorld, world

from fluidnpu.host import Bundle
from fluidnpu.host.oip import Limits, NetworkServer, ServeOptions, in_background
from fluidnpu.host.oip.client import connect
from fluidnpu.host.serving import ModelOptions, Models
from fluidnpu.host.serving.model import Model
from fluidnpu.models import golden

NAME = "small"
# No test is about a client that gives up by itself, or about the time after which a job counts as hung.
(connect.__kwdefaults__ or {})["timeout_s"] = PATIENCE_S
Model._longest_s = lambda self: PATIENCE_S  # type: ignore[method-assign]


def bundle_of(w: HostWorld, folder: Path) -> Path:
    """Write the world's bundle, whose thresholds let about half of random images leave early."""
    Bundle(design=w.design, program=w.program).write(folder)
    return folder


def patient(**bounds: Any) -> Limits:
    """Return limits of a server that no busy machine reaches, but for these."""
    seconds = dict.fromkeys(("head_s", "body_s", "write_s", "idle_s", "drain_s"), PATIENCE_S)
    return Limits(**{**seconds, **bounds})


class Served:
    """A server, its world and what its clients need."""

    def __init__(self, w: HostWorld, server: NetworkServer) -> None:
        self.w, self.server = w, server
        self.url = server.url() if "http" in server.ports else ""
        self.place = self.url.removeprefix("http://")
        self.grpc_place = server.url("grpc") if "grpc" in server.ports else ""

    @property
    def model(self) -> Model:
        return self.server.models.find(NAME).npu

    @property
    def input(self) -> str:
        return self.w.program.input

    def golden(self, images: Any) -> tuple[list[int], list[int]]:
        """Exits and classes of the offline model."""
        exits, classes, _ = golden.early_exit(self.w.qnet, images)
        return exits.tolist(), classes.tolist()

    def call(self, verb: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        """One HTTP exchange: status, and the body as JSON if it is."""
        status, content, _ = self.exchange(verb, path, body, **headers)
        try:
            return status, json.loads(content)
        except ValueError:
            return status, content

    def exchange(
        self, verb: str, path: str, body: bytes | None = None, surface: str = "http", **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        connection = HTTPConnection("127.0.0.1", self.server.ports[surface], timeout=PATIENCE_S)
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        try:
            connection.request(verb, path, body, named)
            answer = connection.getresponse()
            return answer.status, answer.read(), {key.lower(): value for key, value in answer.getheaders()}
        finally:
            connection.close()

    def request(self, image: Any, **more: Any) -> bytes:
        """The JSON body of one image."""
        tensor = {"name": self.input, "datatype": "UINT8", "shape": [1, *image.shape], "data": image.ravel().tolist()}
        return json.dumps({"inputs": [tensor], **more}).encode()


@contextmanager
def served(
    folder: Path,
    w: HostWorld | None = None,
    *,
    limits: Limits | None = None,
    surfaces: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[Served]:
    """Serve a world's bundle from a folder."""
    w = world(3, loaded=False) if w is None else w
    models = Models({NAME: bundle_of(w, folder / NAME)}, ModelOptions(**{"slo_ns": HOUR_NS, **options}))
    listening = replace(ServeOptions(http=0, grpc=0, limits=limits or patient()), **(surfaces or {}))
    with in_background(models, listening) as server:
        yield Served(w, server)
