"""The gRPC edge of the protocol: GRPCInferenceService, health and reflection around a `Front`.

Handlers are registered by name, from the descriptors in `messages`, so no generated code is needed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message as ProtoMessage
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from ...errors import AccessError, DriverUsageError, HostError, ProtocolError, QueueFullError
from ..admission.access import AccessControl
from ..admission.budget import Budget, Holder
from ..admission.limits import OTHER_BYTES
from ..configuration import configuration
from ..front import Front
from ..observing.journal import Journal
from ..operations import LOAD, OPERATIONS, UNLOAD, Operation
from ..regions import Regions
from ..wire.calls import TRACEPARENT, Call, ModelAnswer
from ..wire.grpc_body import read_call, read_parameters, write_answer
from ..wire.http_body import read_json
from ..wire.messages import SERVICE, message, pool, service
from ..wire.parameters import abbreviate
from ..wire.statuses import RETRY_MS, sentence_of, status_of
from .health import WATCHERS, status_of_service, watch_service
from .timeouts import InTime

_log = logging.getLogger(__name__)
STALLED_S = 1.0  # after which a message that has not come may lose its place to another
_ATTEMPTS = 20  # to get a place
_OPEN = ("ServerLive", "ServerReady", "Check", "Watch")  # probes carry no token
HEALTH = "grpc.health.v1.Health"
REFLECTING = (reflection.SERVICE_NAME, "grpc.reflection.v1.ServerReflection")  # v1alpha's messages serve v1, too
DESCRIBED = (SERVICE, HEALTH, REFLECTING[0])
_StreamResponse = message("ModelStreamInferResponse")
for _file in (health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR):
    pool.AddSerializedFile(_file.serialized_pb)  # where reflection looks
Handler = Callable[[Any, Any], Awaitable[Any]]


def grpc_server(
    inference: Front,
    access: AccessControl,
    held: Budget,
    reading: Budget,
    regions: Regions,
    journal: Journal,
    *,
    admin: bool = False,
) -> Any:
    """Return a server without a port; with `admin` it also loads and unloads models.

    `held`: the bytes of requests of the whole server; `reading`: messages that arrive at the same time;
    `regions`: of shared memory; `journal`: of requests. The longest message is that of the models that are
    loaded now.
    """
    limits = inference.limits
    options = [
        ("grpc.max_receive_message_length", max(inference.bounds().body_bytes, OTHER_BYTES)),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", max(limits.streamed, 100)),
        ("grpc.max_metadata_size", 16 << 10),
        ("grpc.keepalive_time_ms", round(1e3 * limits.idle_s)),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),  # a front looks after its boards' links
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.so_reuseport", 0),  # a port in use is an error, not a second server
    ]
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=4 * limits.queue)
    edge = _Edge(inference, access, held, reading, regions, journal, admin)
    server.add_generic_rpc_handlers((_handlers(edge), *_own_handlers(edge), *_standard_handlers(edge)))
    return server


def bind(server: Any, address: str, credentials: Any = None) -> int:
    """Bind a server's port and return its number. Raises DriverUsageError for a port in use."""
    try:
        port = (
            server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        )
    except RuntimeError:
        port = 0
    if not port:
        raise DriverUsageError(f"the gRPC port must be free, and {address} is in use or not of this machine")
    return int(port)


def _handlers(edge: _Edge) -> Any:
    handlers = {}
    for method in service.methods:
        if (function := getattr(edge, method.name, None)) is None:
            continue  # CudaSharedMemoryRegister: gRPC answers that it is not implemented
        asked, response = message(method.input_type.name), message(method.output_type.name)
        codec = {"request_deserializer": _reader(asked), "response_serializer": response.SerializeToString}
        if method.name == "ModelStreamInfer":
            handlers[method.name] = grpc.stream_stream_rpc_method_handler(
                edge.end_errors(method.name, function), **codec
            )
        else:
            handlers[method.name] = grpc.stream_unary_rpc_method_handler(edge.guard(method.name, function), **codec)
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _own_handlers(edge: _Edge) -> Iterator[Any]:
    """Yield the handlers of services of our own; without a serializer gRPC passes bytes through."""
    for operation in OPERATIONS:
        service_name, _, name = operation.rpc.partition("/")
        if name:
            method = edge.guard(name, partial(edge.operate, operation))
            handler = grpc.stream_unary_rpc_method_handler(method, _raw)
            yield grpc.method_handlers_generic_handler(service_name, {name: handler})


def _standard_handlers(edge: _Edge) -> Iterator[Any]:
    """Yield the handlers of gRPC's own services: health, and reflection under both of its names."""
    answer = health_pb2.HealthCheckResponse.SerializeToString
    codec = {"request_deserializer": _reader(health_pb2.HealthCheckRequest), "response_serializer": answer}
    health = {
        "Check": grpc.stream_unary_rpc_method_handler(edge.guard("Check", edge.Check), **codec),
        "Watch": grpc.stream_stream_rpc_method_handler(edge.end_errors("Watch", edge.Watch), **codec),
    }
    yield grpc.method_handlers_generic_handler(HEALTH, health)
    name, answer = "ServerReflectionInfo", reflection_pb2.ServerReflectionResponse.SerializeToString
    codec = {"request_deserializer": _reader(reflection_pb2.ServerReflectionRequest), "response_serializer": answer}
    handler = grpc.stream_stream_rpc_method_handler(edge.end_errors(name, edge.ServerReflectionInfo), **codec)
    for service_name in REFLECTING:
        yield grpc.method_handlers_generic_handler(service_name, {name: handler})


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message as it came; None for one that cannot be parsed."""

    message: Any
    size: int

    def parsed(self) -> Any:
        """Return the message. Raises ProtocolError."""
        if self.message is None:
            raise ProtocolError("the message must be one of the protocol, and it cannot be read")
        return self.message


_END = _Sent(None, 0)  # in place of a message: the client sends no more


def _raw(data: bytes) -> _Sent:
    return _Sent(data, len(data))


def _reader(kind: Any) -> Callable[[bytes], _Sent]:
    """Return the parser of a message; what cannot be parsed becomes a refusal, not a failure."""

    def read(data: bytes) -> _Sent:
        try:
            return _Sent(kind.FromString(data), len(data))
        except Exception:
            return _Sent(None, len(data))

    return read


class _Arriving(Holder):
    """A message on its way: the call that waits for it. A client that stalls may lose its place."""

    def __init__(self, context: Any) -> None:
        super().__init__(_address(context))
        self._work, self._began = asyncio.current_task(), time.monotonic()
        self.evicted = False

    @property
    def idle(self) -> bool:
        """True when the message takes longer than any network does."""
        return time.monotonic() - self._began > STALLED_S

    @property
    def half_sent(self) -> bool:
        """True: what has come whole is here no more."""
        return True

    def evict(self) -> None:
        """End the wait with QueueFullError."""
        assert self._work is not None
        self.evicted = True
        self._work.cancel()


class _Watching(_Arriving):
    """A call that watches; the idlest loses its place to another."""

    half_sent = False  # a stop tells it


class _Message(Holder):
    """The bytes of a message, from its arrival to its answer."""

    idle = False

    def evict(self) -> None:
        """Nothing: it is at work."""


class _Edge:
    """One method a call of the service, under its name."""

    def __init__(
        self,
        inference: Front,
        access: AccessControl,
        held: Budget,
        reading: Budget,
        regions: Regions,
        journal: Journal,
        admin: bool,
    ) -> None:
        self.inference, self.access, self.held, self.reading, self.admin = inference, access, held, reading, admin
        self.regions, self.journal = regions, journal
        self.reflection = reflection.aio.ReflectionServicer(DESCRIBED, pool)
        self.watching = Budget("places to watch health", lambda: WATCHERS)

    def guard(self, name: str, function: Handler) -> Handler:
        """Wrap a unary method: it asks for the token, and errors leave with their codes."""

        async def asked(requests: Any, context: Any) -> Any:
            holder = _Message(_address(context))
            try:
                request = await self._receive(context)
                self._hold(holder, request)
                return await function(request.message, context)
            finally:
                self.held.drop(holder)

        return self.end_errors(name, asked)

    def end_errors(self, name: str, function: Handler) -> Handler:
        """Wrap a method that reads for itself: it asks for the token, and errors leave with their codes."""

        async def wrapped(requests: Any, context: Any) -> Any:
            try:
                self._check(name, context)
                return await function(requests, context)
            except Exception as error:
                if isinstance(error, AccessError):
                    self.access.note(_address(context), name, error)
                await _abort(error, context)

        return wrapped

    async def _receive(self, context: Any) -> _Sent:
        """Return the only message of a call. Raises ProtocolError, QueueFullError.

        Every call is a stream to gRPC, which would otherwise take in all messages of all clients at once.
        """
        place = _Arriving(context)
        for _ in range(_ATTEMPTS):
            if self.reading.take(place, 1):
                break
            await asyncio.sleep(STALLED_S / _ATTEMPTS)
        else:
            raise QueueFullError("too many messages arrive at the same time, and most of them from this address")
        try:
            request = await InTime(context.read(), asyncio.get_running_loop().time() + self.inference.limits.body_s)
        except asyncio.TimeoutError:
            raise ProtocolError(f"the whole message must come within {self.inference.limits.body_s:g} s") from None
        except asyncio.CancelledError:
            if not place.evicted:
                raise
            raise QueueFullError("the message must come at once when many others arrive, and it did not") from None
        finally:
            self.reading.drop(place)
        return _END if request is grpc.aio.EOF else request

    def _hold(self, holder: _Message, request: _Sent) -> None:
        """Check that a message can be read, and hold its bytes. Raises ProtocolError, QueueFullError."""
        request.parsed()
        if not self.held.take(holder, request.size):
            raise QueueFullError("the server holds as many bytes of requests as it may, and this address has most")

    def _check(self, name: str, context: Any) -> None:
        if name not in _OPEN:
            token = next((value for key, value in context.invocation_metadata() or () if key == "authorization"), "")
            self.access.check(name, token.encode() if isinstance(token, str) else token)

    async def ServerLive(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802  -- as the protocol has it
        return _message_of("ServerLiveResponse", live=self.inference.live)

    async def ServerReady(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        return _message_of("ServerReadyResponse", ready=self.inference.ready)

    async def ModelReady(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        """Say it, and in the trailing metadata who says it: a fleet compares that with its bundles."""
        self.inference.check(request.name, request.version)
        facts = self.inference.identity(request.name)
        context.set_trailing_metadata(tuple((f"fluidnpu-{key}", value) for key, value in facts.items()))
        return _message_of("ModelReadyResponse", ready=self.inference.is_ready(request.name, request.version))

    async def Check(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        return health_pb2.HealthCheckResponse(status=status_of_service(self.inference, request.service))

    async def Watch(self, requests: Any, context: Any) -> None:  # noqa: N802
        """Say the status now and whenever it changes, until the client goes or the server drains."""
        request, place = (await self._receive(context)).parsed(), _Watching(context)
        if not self.watching.take(place, 1):
            raise QueueFullError(f"at most {WATCHERS} calls may watch health, and most of them are from this address")
        try:
            async for status in watch_service(self.inference, request.service):
                await context.write(health_pb2.HealthCheckResponse(status=status))
        except asyncio.CancelledError:
            if not place.evicted:
                raise
            raise QueueFullError(f"at most {WATCHERS} calls may watch health, and a newer one has this place") from None
        finally:
            self.watching.drop(place)

    async def ServerReflectionInfo(self, requests: Any, context: Any) -> None:  # noqa: N802
        """Answer each message of a reflection stream with files of our descriptions."""

        async def asked() -> AsyncIterator[Any]:
            while (sent := await self._receive(context)) is not _END:
                request = sent.parsed()
                service_name = request.file_containing_symbol.rpartition(".")[0]
                if service_name in DESCRIBED:  # a call, which Python's pool does not find by its name
                    request.file_containing_symbol = service_name
                yield request

        async for answer in self.reflection.ServerReflectionInfo(asked(), context):
            await context.write(answer)

    async def ServerMetadata(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        return _message_of("ServerMetadataResponse", **self.inference.server_metadata())

    async def ModelMetadata(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        metadata = self.inference.model_metadata(request.name, request.version)
        metadata.pop("class_names", None)  # for which the message has no field
        return _message_of("ModelMetadataResponse", **metadata)

    async def ModelConfig(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        metadata = self.inference.model_metadata(request.name, request.version)
        config = configuration(metadata, self.inference.limits.batch)
        return json_format.ParseDict({"config": config}, message("ModelConfigResponse")())

    async def ModelStatistics(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        return _message_of("ModelStatisticsResponse", **self.inference.statistics(request.name, request.version))

    async def SystemSharedMemoryStatus(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        regions = {region["name"]: region for region in self.regions.status(_address(context), request.name)}
        return json_format.ParseDict({"regions": regions}, message("SystemSharedMemoryStatusResponse")())

    async def SystemSharedMemoryRegister(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        who = _address(context)
        self.regions.register(who, request.name, request.key, request.offset, request.byte_size)
        return _message_of("SystemSharedMemoryRegisterResponse")

    async def SystemSharedMemoryUnregister(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        self.regions.unregister(_address(context), request.name)
        return _message_of("SystemSharedMemoryUnregisterResponse")

    async def CudaSharedMemoryStatus(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        return _message_of("CudaSharedMemoryStatusResponse")

    async def CudaSharedMemoryUnregister(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        return _message_of("CudaSharedMemoryUnregisterResponse")

    async def RepositoryIndex(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        return _message_of("RepositoryIndexResponse", models=self.inference.index(request.ready))

    async def RepositoryModelLoad(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        asked = {"parameters": read_parameters(request.parameters)}
        await self._operate(LOAD, request.model_name, asked, context)
        return _message_of("RepositoryModelLoadResponse")

    async def RepositoryModelUnload(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        await self._operate(UNLOAD, request.model_name, {}, context)
        return _message_of("RepositoryModelUnloadResponse")

    async def _operate(self, operation: Operation, name: str, asked: Mapping[str, Any], context: Any) -> Any:
        """Perform a call beside inference.

        Raises AccessError off the admin surface, and as `Operation.perform`.
        """
        if operation.admin and not self.admin:
            raise AccessError(f"{operation.admin} on the admin surface (--admin-grpc), not here", known=True)
        return await operation.perform(self.inference, name, asked, _address(context))

    async def operate(self, operation: Operation, request: bytes, context: Any) -> bytes:
        """Answer a call of a service of our own, of JSON bytes as REST has them beside the model's name.

        Raises ProtocolError without a name, and as `Operation.perform`.
        """
        asked = read_json(request)
        name = asked.pop("model", None)
        if not isinstance(name, str):
            raise ProtocolError(f"model must be the name of a model, not {abbreviate(name)}")
        return json.dumps(await self._operate(operation, name, asked, context)).encode()

    async def ModelInfer(self, request: Any, context: Any) -> ProtoMessage:  # noqa: N802
        began, call, status = time.perf_counter(), None, "CANCELLED"  # unless it ends otherwise
        trace, who = _echo_trace(context), _address(context)
        ended: ModelAnswer | Exception | None = None
        fetched = _Message(who)
        try:
            call = self._read(request, who, fetched)
            call.trace = trace
            ended = answer = await self.inference.infer(call)
            made, status = write_answer(answer, call, self.regions.store(who)), "OK"
            return made
        except Exception as error:
            if call is None:
                self.inference.count_refusal(request.model_name, error)
            status, ended = status_of(error).grpc, error
            raise
        finally:
            self.held.drop(fetched)
            if self.journal.on:
                self.journal.note(call, status, began, trace, ended)

    def _read(self, request: Any, who: str, holder: _Message) -> Call:
        """Read a call, and hold what of it came from shared memory. Raises as `read_call`, QueueFullError."""
        call = read_call(request, self.inference.bounds(request.model_name), self.regions.fetch(who))
        for place in call.places.values():
            self.regions.check(who, place)
        if call.fetched and not self.held.take(holder, call.fetched):
            raise QueueFullError("the server holds as many bytes as it may, and this address has most of them")
        return call

    async def ModelStreamInfer(self, requests: Any, context: Any) -> None:  # noqa: N802
        """Answer the requests of a stream as they are done, not in the order of their arrival."""
        done: asyncio.Queue[Any] = asyncio.Queue()
        room = asyncio.Semaphore(self.inference.limits.streamed)
        trace, who = _echo_trace(context), _address(context)  # of all requests of the stream
        tasks: set[asyncio.Task[None]] = set()

        async def serve(request: _Sent) -> None:
            try:
                done.put_nowait(await self._answer_streamed(request, who, trace))
            finally:
                room.release()

        async def read() -> None:
            while (request := await context.read()) is not grpc.aio.EOF:
                await room.acquire()  # the client's flow control stops it, instead of a queue without bound
                task = asyncio.create_task(serve(request))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if tasks:
                await asyncio.wait(tasks)

        reader = asyncio.create_task(read())
        reader.add_done_callback(lambda _: done.put_nowait(None))
        try:
            while (answer := await done.get()) is not None:
                await context.write(answer)
        finally:
            reader.cancel()
            for task in tasks:
                task.cancel()

    async def _answer_streamed(self, sent: _Sent, address: str, trace: str) -> ProtoMessage:
        began, status, call = time.perf_counter(), "OK", None
        ended: ModelAnswer | Exception | None = None
        request, holder = sent.message, _Message(address)
        made: Any
        try:
            self._hold(holder, sent)
            call = self._read(request, address, holder)
            call.trace = trace
            ended = answer = await self.inference.infer(call)
            made = _StreamResponse(infer_response=write_answer(answer, call, self.regions.store(address)))
        except Exception as error:
            _note(error)
            if call is None and request is not None:
                self.inference.count_refusal(request.model_name, error)
            status, ended = status_of(error).grpc, error
            id = "" if request is None else request.id
            made = _StreamResponse(error_message=f"[{type(error).__name__}] {sentence_of(error)}")
            made.infer_response.id = id[:256]
        finally:
            self.held.drop(holder)
        if self.journal.on:
            self.journal.note(call, status, began, trace, ended)
        return made


def _message_of(kind: str, /, **fields: Any) -> ProtoMessage:
    made: ProtoMessage = message(kind)(**fields)
    return made


def _echo_trace(context: Any) -> str:
    """Give a well-formed traceparent back to the client, and to the log."""
    for key, value in context.invocation_metadata() or ():
        if key == "traceparent" and isinstance(value, str) and TRACEPARENT.fullmatch(value):
            context.set_trailing_metadata((("traceparent", value),))
            return value
    return ""


def _address(context: Any) -> str:
    """Return the client's address without its port.

    >>> class Context:
    ...     def peer(self): return "ipv4:10.0.0.7:4711"
    >>> _address(Context())
    'ipv4:10.0.0.7'
    """
    return str(context.peer()).rpartition(":")[0]


def _note(error: BaseException) -> None:
    if not isinstance(error, HostError):
        _log.error("a gRPC request failed in a way that nobody foresaw", exc_info=error)


async def _abort(error: Exception, context: Any) -> None:
    """End the call with the error's code, sentence and hints."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    _note(error)
    status = status_of(error)
    hints = [("error-type", type(error).__name__)]
    if status.retry:
        hints += [("grpc-retry-pushback-ms", str(RETRY_MS)), ("retry-after-ms", str(RETRY_MS))]
    await context.abort(grpc.StatusCode[status.grpc], sentence_of(error), tuple(hints))
