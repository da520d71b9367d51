"""A client of a served network in three lines, on the standard library and NumPy alone.

    with fluidnpu.connect("http://127.0.0.1:8000") as npu:
        answer = npu.infer(image, slo_ms=20)
        print(answer.prediction, answer.exit, answer.latency_ms)

Errors of the server come back as the classes of `host.errors` that it raised.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import numpy.typing as npt

from ..errors import DriverUsageError, ProtocolError, RemoteError
from .wire.statuses import error_named
from .wire.tensors import DTYPES, Array, datatype_of, from_bytes, to_bytes

_BROKEN = (http.client.HTTPException, ConnectionError)
_UNIX = "unix:"  # before the path of a socket of this machine


@dataclass(frozen=True, kw_only=True)
class Inference:
    """One answer. Of several images the properties are those of the first; `outputs` has a row an image.

    `version`: of the model, which answered.
    """

    outputs: Mapping[str, Array]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    latency_ms: float = 0.0
    id: str = ""
    version: str = ""

    @property
    def prediction(self) -> int:
        """The class."""
        return int(self.outputs["label"][0])

    @property
    def class_name(self) -> str:
        """The name of the class; "" of a model whose classes have none."""
        names = self.outputs.get("class_name")
        return "" if names is None else str(names[0])

    @property
    def exit(self) -> int:
        """The exit that the image left at."""
        return int(self.outputs["exit"][0])

    @property
    def confidence(self) -> float:
        """The softmax top-1 at that exit."""
        return float(self.outputs["confidence"][0])

    @property
    def left_because(self) -> str:
        """The clause of the criterion, or the reason of the policy, for which it left there."""
        return str(self.parameters.get("left_because", ""))

    @property
    def requests(self) -> tuple[int, ...]:
        """The numbers of the images, which `Client.feedback` names; empty where the model does not adapt."""
        return tuple(map(int, str(self.parameters.get("requests", "")).split()))

    @property
    def logits(self) -> Array:
        """Float32 (classes,)."""
        return np.asarray(self.outputs["logits"][0])


class Client:
    """A connection to one server, and to one of its models. Threads may share it; each has its own socket."""

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        token: str | None = None,
        timeout_s: float = 60.0,
        ca_file: Path | str | None = None,
        version: str = "",
    ) -> None:
        self._path = url[len(_UNIX) :] if url.startswith(_UNIX) else ""  # of a UNIX socket
        parts = urlsplit("http://localhost" if self._path else url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise DriverUsageError(f"a server must be named as http://HOST:PORT or unix:PATH, not '{url}'")
        self._host, self._port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self._place = self._path or f"{self._host}:{self._port}"
        self._timeout_s = timeout_s
        self._tls = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._local = threading.local()
        self._open: set[http.client.HTTPConnection] = set()
        self._input: dict[str, Any] | None = None
        try:
            self.model = self._only_model() if model is None else model
            self._at = f"/v2/models/{quote(self.model)}" + (f"/versions/{quote(version)}" if version else "")
        except BaseException:
            self.close()
            raise

    # -- calls -----------------------------------------------------------------------------------------------

    def infer(
        self,
        image: npt.ArrayLike,
        *,
        slo_ms: float | None = None,
        timeout_ms: float | None = None,
        anytime: bool = False,
        priority: int = 0,
        criteria: str = "",
        tenant: str = "",
        id: str = "",
    ) -> Inference:
        """Classify one image (H, W, C) or several (N, H, W, C) with a latency objective in milliseconds.

        `anytime`: at the deadline the answer of the last exit passed will do. `timeout_ms`: an image that
        still waits by then ends with ExpiredError. `priority`: 1 goes first, 8 last, 0 means the middle.
        `criteria`: when it may leave at an exit, such as "confidence > 0.9 or slack < 2ms". Raises
        ProtocolError, UnknownModelError, QueueFullError, ShedError, ExpiredError, ModelUnavailableError,
        DeviceError, AccessError and RemoteError.
        """
        array, info = self._batch_of(np.asarray(image)), self._metadata()
        parameters: dict[str, Any] = {"binary_data_output": True}
        if slo_ms is not None:
            parameters["slo_ms"] = slo_ms
        if timeout_ms is not None:
            parameters["timeout"] = round(1e3 * timeout_ms)
        if anytime:
            parameters["anytime"] = True
        if priority:
            parameters["priority"] = priority
        if criteria:
            parameters["criteria"] = criteria
        if tenant:
            parameters["tenant"] = tenant
        data = to_bytes(array)
        tensor = {
            "name": info["name"],
            "datatype": datatype_of(array),
            "shape": list(array.shape),
            "parameters": {"binary_data_size": len(data)},
        }
        head = json.dumps({"id": id, "parameters": parameters, "inputs": [tensor]}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
        began = time.perf_counter()
        answer, body = self._call("POST", f"{self._at}/infer", head + data, headers)
        return _read_answer(answer, body, 1e3 * (time.perf_counter() - began))

    def metadata(self) -> dict[str, Any]:
        """Return the model's metadata: names, datatypes and shapes of its input and outputs."""
        metadata: dict[str, Any] = self._json("GET", self._at)
        return metadata

    def ready(self) -> bool:
        """Tell if the model takes requests."""
        try:
            return bool(self._json("GET", f"{self._at}/ready")["ready"])
        except RemoteError:
            return False

    def statistics(self) -> dict[str, Any]:
        """Return the model's counts, as the statistics extension names them."""
        statistics: dict[str, Any] = self._json("GET", f"{self._at}/stats")["model_stats"][0]
        return statistics

    def feedback(self, truths: Mapping[int, int]) -> int:
        """Tell the true classes of answered images by `Inference.requests`; return how many were of use.

        Raises ProtocolError where the model does not adapt.
        """
        rows = [{"request": int(request), "label": int(truth)} for request, truth in truths.items()]
        body = json.dumps({"truths": rows}).encode()
        return int(self._json("POST", f"/v2/models/{quote(self.model)}/feedback", body)["taken"])

    def exits(self) -> dict[str, Any]:
        """Return the active exits; the URL must be that of the admin surface."""
        exits: dict[str, Any] = self._json("GET", f"/v2/models/{quote(self.model)}/exits")
        return exits

    def change_exits(self, thresholds: Mapping[str, float | None], why: str = "by hand") -> dict[str, Any]:
        """Set thresholds of early exits by name, None for an inactive one, from the next batch on.

        The URL must be that of the admin surface. Raises ProtocolError.
        """
        body = json.dumps({"thresholds": dict(thresholds), "why": why}).encode()
        exits: dict[str, Any] = self._json("POST", f"/v2/models/{quote(self.model)}/exits", body)
        return exits

    def shares(self) -> dict[str, Any]:
        """Return the shares of the model's versions; the URL must be that of the admin surface."""
        answer: dict[str, Any] = self._json("GET", f"/v2/models/{quote(self.model)}/shares")
        return answer

    def change_shares(self, shares: Mapping[str, float] | None) -> dict[str, Any]:
        """Give the model's versions other shares of the requests from now on; None: those of before.

        The URL must be that of the admin surface. Returns what `shares` does. Raises ProtocolError and
        ConflictError.
        """
        body = json.dumps({"back": True} if shares is None else {"shares": dict(shares)}).encode()
        answer: dict[str, Any] = self._json("POST", f"/v2/models/{quote(self.model)}/shares", body)
        return answer

    def tenants(self) -> dict[str, Any]:
        """Return the usual criterion and the tenants by name; the URL must be that of the admin surface."""
        answer: dict[str, Any] = self._json("GET", f"/v2/models/{quote(self.model)}/tenants")
        return answer

    def change_tenants(
        self, tenants: Mapping[str, Mapping[str, Any]] | None = None, *, criteria: str | None = None
    ) -> dict[str, Any]:
        """Change keys of tenants, and the criterion of requests that have none, from the next exit on.

        Either all of it holds or nothing. The keys are those of the tenants' file. The URL must be that of
        the admin surface. Returns what `tenants` does. Raises ProtocolError.
        """
        asked: dict[str, Any] = {"tenants": {name: dict(row) for name, row in (tenants or {}).items()}}
        if criteria is not None:
            asked["criteria"] = criteria
        body = json.dumps(asked).encode()
        answer: dict[str, Any] = self._json("POST", f"/v2/models/{quote(self.model)}/tenants", body)
        return answer

    def load(self) -> None:
        """Have the model's bundle read again; the URL must be that of the admin surface."""
        self._json("POST", f"/v2/repository/models/{quote(self.model)}/load", b"{}")

    def unload(self) -> None:
        """Have the model stopped; the URL must be that of the admin surface."""
        self._json("POST", f"/v2/repository/models/{quote(self.model)}/unload", b"{}")

    def close(self) -> None:
        """Close every socket."""
        while self._open:
            self._open.pop().close()

    def __enter__(self) -> Client:
        """Nothing is done here."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    # -- transport -------------------------------------------------------------------------------------------

    def _batch_of(self, array: Array) -> Array:
        if array.ndim == 3:
            array = array[None]
        if array.ndim != 4 or array.dtype not in DTYPES.values():
            raise DriverUsageError(
                f"images must be (H, W, C) or (N, H, W, C) of numbers, not {array.dtype.name} {array.shape}"
            )
        return array

    def _metadata(self) -> dict[str, Any]:
        if self._input is None:
            self._input = self.metadata()["inputs"][0]
        return self._input

    def _only_model(self) -> str:
        names = list(dict.fromkeys(model["name"] for model in self._json("POST", "/v2/repository/index", b"{}")))
        if len(names) != 1:
            raise DriverUsageError(f"the server has several models, so one of {', '.join(names)} must be named")
        return str(names[0])

    def _json(self, verb: str, path: str, body: bytes | None = None) -> Any:
        return json.loads(self._call(verb, path, body, {"Content-Type": "application/json"})[1] or b"{}")

    def _call(
        self, verb: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Exchange one request; a connection that was closed while idle is opened again once."""
        used = getattr(self._local, "connection", None) is not None
        try:
            return self._exchange(verb, path, body, headers)
        except TimeoutError:
            self._drop()
            raise RemoteError(f"{self._place} must answer within {self._timeout_s:g} s") from None
        except (*_BROKEN, OSError) as error:
            self._drop()
            if used and isinstance(error, http.client.RemoteDisconnected | BrokenPipeError | ConnectionResetError):
                return self._call(verb, path, body, headers)
            raise RemoteError(f"no answer came from {self._place}: {error or type(error).__name__}") from None

    def _exchange(
        self, verb: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._connection()
        connection.request(verb, path, body, {**self._headers, **headers})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise _refusal(answer.status, content)
        return answer, content

    def _connection(self) -> http.client.HTTPConnection:
        made: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if made is None:
            if self._path:
                made = _UnixConnection(self._path, self._timeout_s)
            elif self._tls is None:
                made = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
            else:
                made = http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=self._tls)
            self._local.connection = made
            self._open.add(made)
        return made

    def _drop(self) -> None:
        made = getattr(self._local, "connection", None)
        if made is not None:
            made.close()
            self._open.discard(made)
            self._local.connection = None


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the path."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def connect(
    url: str,
    model: str | None = None,
    *,
    token: str | None = None,
    timeout_s: float = 60.0,
    ca_file: Path | str | None = None,
    version: str = "",
) -> Client:
    """Connect to a server and to its model, which may be left out if it is the only one.

    `url`: `http://HOST:PORT`, `https://HOST:PORT`, or `unix:PATH` of a socket of this machine. `token` is the
    server's bearer token, `ca_file` a PEM file to check its certificate with. `version`: of a model that has
    several; without it their shares decide. Raises RemoteError when nothing answers.
    """
    return Client(url, model, token=token, timeout_s=timeout_s, ca_file=ca_file, version=version)


def _refusal(status: int, content: bytes) -> Exception:
    try:
        refusal = json.loads(content)
        return error_named(str(refusal.get("type")), str(refusal["error"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return RemoteError(f"the server answered with HTTP status {status}")


def _read_answer(answer: http.client.HTTPResponse, body: bytes, latency_ms: float) -> Inference:
    try:
        size = int(answer.headers["Inference-Header-Content-Length"])
        head, rest = json.loads(body[:size]), memoryview(body)[size:]
        outputs = {}
        for output in head["outputs"]:
            length = output["parameters"]["binary_data_size"]
            outputs[output["name"]] = from_bytes(output["name"], output["datatype"], output["shape"], rest[:length])
            rest = rest[length:]
    except (ValueError, KeyError, TypeError, ProtocolError):
        raise RemoteError("the server must answer with binary tensors, and its answer cannot be read") from None
    return Inference(
        outputs=outputs,
        parameters=head.get("parameters", {}),
        latency_ms=latency_ms,
        id=head.get("id", ""),
        version=head.get("model_version", ""),
    )
