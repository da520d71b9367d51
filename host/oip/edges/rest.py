"""The REST edge of the protocol: an ASGI application of Starlette routes around `Inference`.

The inference route is plain ASGI, since it is the one that must be quick. Bodies are read against a bound and
a clock; every error is one JSON object with one sentence.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NoReturn

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import AccessError, HostError, ProtocolError, QueueFullError, TooLargeError
from ..admission.access import LOGIN, PAGE, AccessControl
from ..admission.budget import Budget, Holder
from ..admission.limits import OTHER_BYTES, PARSED_BYTES
from ..configuration import configuration
from ..front import Front
from ..local import ADDRESS
from ..observing.journal import Journal
from ..observing.metrics import CONTENT_TYPE, render, server_rows
from ..observing.page import login_page
from ..operations import OPERATIONS, Operation
from ..regions import Regions
from ..wire.bodies import IndexQuery, parse_body
from ..wire.calls import TRACEPARENT, Bounds, Call, ModelAnswer
from ..wire.http_body import LENGTH_HEADER, check_json, read_call, read_json, write_answer
from ..wire.statuses import RETRY_MS, body_of, status_of
from .inflating import Inflating
from .timeouts import InTime, unless_gone

_log = logging.getLogger(__name__)
INFER = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?/infer")
_HELD = "fluidnpu.held"  # the key of a scope's `_Body`
THROWN_BYTES = 32 << 20  # of a body that is too large
APART_ITEMS = 4096  # of JSON, from which on a body is read in a thread
_JSON = [(b"content-type", b"application/json")]
Endpoint = Callable[[Request], Awaitable[Response]]


class SlowClientError(ProtocolError):
    """The client took too long to send its request."""


def application(
    inference: Front, access: AccessControl, held: Budget, regions: Regions, journal: Journal, *, admin: bool = False
) -> ASGIApp:
    """Return the application; with `admin` it also loads and unloads models.

    `held`: the bytes of requests of the whole server; `regions`: of shared memory; `journal`: of requests.
    """
    edge = _Edge(inference, access, held, regions, journal, admin)
    routes: list[BaseRoute] = [
        Route("/v2", edge.metadata),
        Route("/v2/health/live", edge.live),
        Route("/v2/health/ready", edge.ready),
        Route("/v2/models/stats", edge.all_statistics),
        Route("/v2/repository/index", edge.index, methods=["POST"]),
        Route("/metrics", edge.metrics),
        Route("/openapi.json", edge.openapi),
        Route("/live.json", edge.snapshot),
        Route(PAGE, edge.page),
        Route(LOGIN, edge.login, methods=["GET", "POST"]),
        Route("/v2/cudasharedmemory/status", edge.no_regions),  # which load generators ask, and have forgotten
        Route("/v2/cudasharedmemory/unregister", edge.no_regions, methods=["POST"]),
    ]
    for prefix in ("/v2/systemsharedmemory", "/v2/systemsharedmemory/region/{region}"):
        routes += [
            Route(f"{prefix}/status", edge.regions_status),
            Route(f"{prefix}/unregister", edge.regions_change, methods=["POST"]),
        ]
    routes.append(Route(f"{prefix}/register", edge.regions_change, methods=["POST"]))
    for prefix in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        routes += [
            Route(prefix, edge.model_metadata),
            Route(f"{prefix}/config", edge.model_configuration),
            Route(f"{prefix}/ready", edge.model_ready),
            Route(f"{prefix}/stats", edge.statistics),
            Route(f"{prefix}/infer", _Infer(edge), methods=["POST"]),
        ]
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.verb] = operation
    routes += [Route(path, partial(edge.operate, verbs), methods=list(verbs)) for path, verbs in by_path.items()]
    handlers = {Exception: edge.answer_error, HostError: edge.answer_error, HTTPException: _http_failed}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return _Guarded(app, edge)


class _Edge:
    """The endpoints, one method a route."""

    def __init__(
        self, inference: Front, access: AccessControl, held: Budget, regions: Regions, journal: Journal, admin: bool
    ) -> None:
        self.inference, self.access, self.held, self.admin = inference, access, held, admin
        self.regions, self.journal = regions, journal

    async def metadata(self, request: Request) -> Response:
        return JSONResponse(self.inference.server_metadata())

    async def live(self, request: Request) -> Response:
        live = self.inference.live
        return JSONResponse({"live": live}, 200 if live else 503)

    async def ready(self, request: Request) -> Response:
        ready = self.inference.ready
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def model_metadata(self, request: Request) -> Response:
        return JSONResponse(self.inference.model_metadata(*_model(request)))

    async def model_configuration(self, request: Request) -> Response:
        metadata = self.inference.model_metadata(*_model(request))
        return JSONResponse(configuration(metadata, self.inference.limits.batch))

    async def model_ready(self, request: Request) -> Response:
        name, version = _model(request)
        ready = self.inference.is_ready(name, version)
        return JSONResponse({"name": name, "ready": ready}, 200 if ready else 503)

    async def statistics(self, request: Request) -> Response:
        return JSONResponse(self.inference.statistics(*_model(request)))

    async def all_statistics(self, request: Request) -> Response:
        return JSONResponse(self.inference.statistics())

    async def regions_status(self, request: Request) -> Response:
        return JSONResponse(self.regions.status(_who(request.scope), request.path_params.get("region", "")))

    async def regions_change(self, request: Request) -> Response:
        """Register or unregister a region, or unregister all."""
        who, region = _who(request.scope), request.path_params.get("region", "")
        headers = dict(request.scope["headers"])
        if b"origin" in headers:  # a page asks, which has no business with this machine's memory
            self.access.check_origin(headers)
        asked = read_json(await self.body(request))
        if request.url.path.endswith("/unregister"):
            self.regions.unregister(who, region)
        else:
            self.regions.register(who, region, asked.get("key"), asked.get("offset", 0), asked.get("byte_size"))
        return JSONResponse({})

    async def no_regions(self, request: Request) -> Response:
        return JSONResponse([] if request.method == "GET" else {})

    async def index(self, request: Request) -> Response:
        query = parse_body(IndexQuery, read_json(await self.body(request)))
        return JSONResponse(self.inference.index(query.ready))

    async def operate(self, verbs: Mapping[str, Operation], request: Request) -> Response:
        """Perform a call beside inference; parts of its path count as fields of its body.

        Raises AccessError off the admin surface, and as `Operation.perform`.
        """
        operation = verbs["GET" if request.method == "HEAD" else request.method]
        if operation.admin:
            if not self.admin:
                raise AccessError(f"{operation.admin} on the admin surface (--admin), not here", known=True)
            self.access.check_origin(dict(request.scope["headers"]))
        more = dict(request.path_params)
        name, asked = more.pop("name"), read_json(await self.body(request)) | more
        return JSONResponse(await operation.perform(self.inference, name, asked, _who(request.scope)) or {})

    async def answer_error(self, request: Request, error: Exception) -> Response:
        if not isinstance(error, HostError):
            _log.exception("a request failed in a way that nobody foresaw", exc_info=error)
        if isinstance(error, AccessError):
            self.access.note(_who(request.scope), f"{request.method:.10} {request.url.path:.100}", error)
        return _error_response(error)

    async def metrics(self, request: Request) -> Response:
        rows = [*self.inference.metrics(), *server_rows(self.access)]
        return Response(render(rows), media_type=CONTENT_TYPE)

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(self.inference.openapi(admin=self.admin))

    async def snapshot(self, request: Request) -> Response:
        return JSONResponse(self.inference.snapshot())

    async def page(self, request: Request) -> Response:
        return _page(self.inference.page())

    async def login(self, request: Request) -> Response:
        """Take the token from the field of the login page, and go on to the live page, where it stands."""
        if request.method != "POST":
            return RedirectResponse("./", 303)
        given = urllib.parse.parse_qs((await self.body(request)).decode("latin-1")).get("token", [""])[0]
        try:
            cookie = self.access.log_in(given.strip().encode(), secure=request.url.scheme == "https")
        except AccessError as error:
            self.access.note(_who(request.scope), f"POST {LOGIN}", error)
            return _page(login_page(str(error)), 401)
        headers = {"set-cookie": cookie} if cookie else None
        return RedirectResponse("./", 303, headers)  # also where a proxy serves it under a path of its own

    async def body(self, request: Request) -> bytes:
        return await read_body(request.scope, request.receive, OTHER_BYTES)


class _Infer:
    """The inference route, as plain ASGI."""

    def __init__(self, edge: _Edge) -> None:
        self._edge = edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, parameters = dict(scope["headers"]), scope["path_params"]
        await self.answer(parameters["name"], parameters.get("version", ""), scope, headers, receive, send)

    async def answer(
        self, name: str, version: str, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        """Answer an inference request, errors included."""
        inference, began = self._edge.inference, time.perf_counter()
        trace, call = headers.get(b"traceparent", b"").decode("latin-1"), None
        ended: ModelAnswer | Exception | None = None
        reply = list(_JSON)
        if TRACEPARENT.fullmatch(trace):
            reply.append((b"traceparent", trace.encode()))
        else:
            trace = ""
        try:
            inference.check(name, version)
            bounds = inference.bounds(name)
            body = await read_body(scope, receive, bounds.body_bytes, headers)
            call = await self._read(name, version, body, _head_bytes(headers), bounds, scope)
            call.trace = trace
            ended = answer = await unless_gone(inference.infer(call), receive)
            if answer is None:
                return
            status, (content, head) = 200, write_answer(answer, call, self._edge.regions.store(_who(scope)))
            if head is not None:
                reply[0] = (b"content-type", b"application/octet-stream")
                reply.append((b"inference-header-content-length", b"%d" % head))
        except Exception as error:
            if not isinstance(error, HostError):
                _log.exception("an inference request failed in a way that nobody foresaw")
            if call is None:
                inference.count_refusal(name, error)
            status, content, ended = _status(error), body_of(error), error
            reply += _hints(error)
        reply.append((b"content-length", b"%d" % len(content)))
        await send({"type": "http.response.start", "status": status, "headers": reply})
        await send({"type": "http.response.body", "body": content})
        if self._edge.journal.on:
            self._edge.journal.note(call, status, began, trace, ended)

    async def _read(
        self, name: str, version: str, body: bytes, head_bytes: int | None, bounds: Bounds, scope: Scope
    ) -> Call:
        """Read a call: here, or where its JSON is long in a thread, so that the others need not wait."""
        items, who, regions = check_json(body, head_bytes, bounds), _who(scope), self._edge.regions
        words = name, version, body, head_bytes, bounds, regions.fetch(who)
        if items < APART_ITEMS:
            call = read_call(*words)
        else:
            scope[_HELD].take(PARSED_BYTES * items)
            call = await asyncio.to_thread(read_call, *words)
        for place in call.places.values():
            regions.check(who, place)
        scope[_HELD].take(call.fetched)
        return call


async def read_body(scope: Scope, receive: Receive, most: int, headers: dict[bytes, bytes] | None = None) -> bytes:
    """Read a body of at most `most` bytes, as it came and opened. Raises TooLargeError, ProtocolError.

    What is too large is thrown away up to `THROWN_BYTES`: a client that still sends sees no answer.
    """
    last = max(most, THROWN_BYTES)
    headers = dict(scope["headers"]) if headers is None else headers
    declared = headers.get(b"content-length", b"0")
    length = int(declared) if declared.isdigit() and len(declared) < 16 else last + 1
    if length > most and b"expect" in headers:  # it waits for a sign to send
        length = last + 1
    coding = headers.get(b"content-encoding", b"").strip().lower()
    packed = None if coding in (b"identity", b"") else Inflating(coding)
    parts: list[bytes] = []
    size, opened, more = 0, 0, True
    while more and max(size, length) <= last:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise SlowClientError("the whole body must come, and the client went before")
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if max(size, length, opened) <= most:
            for piece in (part,) if packed is None else packed.feed(part):
                opened += len(piece)
                if opened > most:
                    break  # and throw the rest away
                scope[_HELD].take(len(piece))
                parts.append(piece)
                if packed is not None:
                    await asyncio.sleep(0)  # a small part may open to much: the others have their turn
    if max(size, length) > most:
        came = declared.decode("latin-1")[:20] if b"content-length" in headers else "more"
        raise TooLargeError(f"a body must have at most {most} bytes, not {came}")
    if opened > most:
        raise TooLargeError(f"a body must have at most {most} bytes, and this one opens to more")
    if packed is not None:
        packed.end()
    return parts[0] if len(parts) == 1 else b"".join(parts)


class _Body(Holder):
    """The bytes that a request holds of the server's, from its first part to its answer."""

    def __init__(self, held: Budget, address: str) -> None:
        super().__init__(address)
        self._held, self._work = held, asyncio.current_task()
        self.waits = self.evicted = False

    @property
    def idle(self) -> bool:
        """True while the rest of the body is awaited."""
        return self.waits

    def evict(self) -> None:
        """End the wait with QueueFullError."""
        assert self._work is not None
        self.evicted = True
        self._work.cancel()

    def take(self, size: int) -> None:
        """Hold more. Raises QueueFullError."""
        if not self._held.take(self, size):
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raise QueueFullError."""
        if self.evicted and self._work is not None and hasattr(self._work, "uncancel"):
            self._work.uncancel()
        raise QueueFullError("the server holds as many bytes of requests as it may, and this address has most of them")


class _Guarded:
    """Asks for the token, bounds the times of slow clients, and turns room errors of any route into JSON."""

    def __init__(self, app: ASGIApp, edge: _Edge) -> None:
        self._app, self._edge, self._infer = app, edge, _Infer(edge)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no websockets, no lifespan
        limits, now = self._edge.inference.limits, asyncio.get_running_loop().time
        deadline = now() + limits.body_s
        whole = False
        body = scope[_HELD] = _Body(self._edge.held, _who(scope))

        async def receive_in_time() -> Message:
            nonlocal whole
            if whole:
                return await receive()
            body.waits = True
            try:
                message: Message = await InTime(receive(), deadline)
            except asyncio.TimeoutError:
                raise SlowClientError(f"the whole body must come within {limits.body_s:g} s, and it did not") from None
            except asyncio.CancelledError:
                if not body.evicted:
                    raise
                body.refuse()
            finally:
                body.waits = False
            whole = not message.get("more_body", False)
            return message

        async def send_in_time(message: Message) -> None:
            await InTime(send(message), now() + limits.write_s)

        try:
            headers, path = dict(scope["headers"]), scope["path"]
            if not self._may(path, headers):
                await _page(login_page(), 401)(scope, receive, send)
                return
            match = INFER.fullmatch(path) if scope["method"] == "POST" else None
            if match is None:
                await self._app(scope, receive_in_time, send_in_time)
            else:  # at once: the routes and their layers cost as much as the rest of a request
                name, version = match[1], match[2] or ""
                await self._infer.answer(name, version, scope, headers, receive_in_time, send_in_time)
        except HostError as error:
            if isinstance(error, AccessError):
                self._edge.access.note(_who(scope), f"{scope['method']:.10} {scope['path']:.100}", error)
            await _error_response(error)(scope, receive, send)
        except asyncio.TimeoutError:  # uvicorn closes the connection
            _log.warning("a client did not take its answer within %g s", limits.write_s)
        except Exception:  # `_failed` has logged and answered it
            pass
        finally:
            self._edge.held.drop(body)

    def _may(self, path: str, headers: Mapping[bytes, bytes]) -> bool:
        """Tell if a request is allowed; whoever may not see the live page may log in. Raises AccessError."""
        try:
            self._edge.access.check(path, headers.get(b"authorization", b""), headers.get(b"cookie", b""))
        except AccessError:
            if path != PAGE or b"authorization" in headers:
                raise
            return False
        return True


def _model(request: Request) -> tuple[str, str]:
    return request.path_params["name"], request.path_params.get("version", "")


def _head_bytes(headers: dict[bytes, bytes]) -> int | None:
    text = headers.get(LENGTH_HEADER)
    if text is None:
        return None
    if not text.isdigit() or len(text) > 15:
        raise ProtocolError("Inference-Header-Content-Length must be a whole number of bytes")
    return int(text)


def _status(error: BaseException) -> int:
    return 408 if isinstance(error, SlowClientError) else status_of(error).http


def _hints(error: BaseException) -> list[tuple[bytes, bytes]]:
    if isinstance(error, AccessError) and not error.known:
        return [(b"www-authenticate", b"Bearer")]
    return [(b"retry-after", b"%d" % max(1, RETRY_MS // 1000))] if status_of(error).retry else []


def _who(scope: Scope) -> str:
    """Return the client's address."""
    return str((scope.get("client") or (ADDRESS,))[0])


def _error_response(error: BaseException) -> Response:
    headers = {name.decode(): value.decode() for name, value in _hints(error)}
    return Response(body_of(error), _status(error), headers, "application/json")


def _page(text: str, status: int = 200) -> Response:
    """Return a page that no other may frame, whose form goes nowhere else, and which nobody keeps."""
    policy = "default-src 'self' 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    headers = {"content-security-policy": policy, "cache-control": "no-cache"}
    if status == 401:
        headers["www-authenticate"] = "Bearer"  # for which no browser asks with a window of its own
    return HTMLResponse(text, status, headers)


async def _http_failed(request: Request, error: Exception) -> Response:
    """Answer a wrong path or method, in the form of the protocol's errors."""
    assert isinstance(error, HTTPException)
    sentence = "the path must be one of the Open Inference Protocol v2"
    if error.status_code == 405:
        sentence = f"the method must be one that this path has, not {request.method:.20}"
    body = {"error": sentence, "type": "ProtocolError"}
    return Response(json.dumps(body), error.status_code, dict(error.headers or {}), "application/json")
