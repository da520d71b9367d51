"""The server as a whole: models, both transports and the admin surface, started, drained and stopped.

`run_server` is the console command's; `in_background` runs the same in a thread, for programs and tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ..errors import DriverUsageError
from ..serving.models import Models
from .admission.access import AccessControl, is_loopback, read_token
from .admission.budget import Budget, Holder
from .admission.certificates import check_pair, ends
from .admission.limits import LEAST_HELD_BYTES, Limits, held_bytes
from .edges.rest import application
from .front import Front
from .inference import InferenceService
from .local import ADDRESS, SocketFolder
from .observing.journal import Journal, OpenTracer
from .observing.notify import keep_alive, notify
from .regions import Regions

_log = logging.getLogger(__name__)
SWITCH_S = 0.0005  # the interpreter's default of 5 ms is longer than an answer takes
LONGEST_HEAD = 64 << 10  # bytes of a request's line and headers
LOOPBACK = "127.0.0.1"
OpenFront = Callable[[Limits, str], Front]  # makes what answers, on the server's event loop


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The surfaces of a server; a port of None is closed, 0 is any free one.

    `unix`: a folder for UNIX sockets of both transports (`local`), with the permissions `unix_mode`.
    `certificate` and `key` are PEM files: with them all ports speak TLS, but not the sockets. `token_file`
    holds the bearer token that every request but the health probes must carry. `spans`: opens what takes a
    span of every inference request.
    """

    host: str = LOOPBACK
    http: int | None = 8000
    grpc: int | None = 8001
    admin: int | None = None
    admin_grpc: int | None = None
    unix: Path | None = None
    unix_mode: int = 0o660
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    spans: OpenTracer | None = None
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Raise DriverUsageError for surfaces that do not go together, and for files that cannot be used."""
        if self.http is None and self.grpc is None and self.unix is None:
            raise DriverUsageError("a server must have an HTTP port, a gRPC port or UNIX sockets, and it has none")
        if (self.certificate is None) != (self.key is None):
            raise DriverUsageError("TLS must have both a certificate and a key, and one of them is missing")
        admin = self.admin is not None or self.admin_grpc is not None
        if admin and self.token_file is None and not is_loopback(self.host):
            raise DriverUsageError(f"an admin surface off the loopback must have a token, and '{self.host}' has none")
        read_token(self.token_file)
        if self.certificate is not None and self.key is not None:
            check_pair(self.certificate, self.key)


class NetworkServer:
    """A server on an event loop. `start` binds all ports or none; `stop` drains."""

    def __init__(self, served: Models | OpenFront, options: ServeOptions) -> None:
        options.check()
        self.options = options
        self._served = served
        self.ports: dict[str, int] = {}  # by surface: http, grpc, admin, admin_grpc
        self.inference: Front | None = None
        self._http: list[tuple[_Uvicorn, asyncio.Task[None]]] = []
        self._grpc: list[Any] = []
        self._local = None if options.unix is None else SocketFolder(options.unix, options.unix_mode)
        self._held = Budget("bytes of requests", self._held_bytes)
        self._arriving: list[Budget] = []  # connections of HTTP and messages of gRPC
        self._regions = Regions(options.limits.shared_bytes)
        self._journal = Journal()

    @property
    def models(self) -> Models:
        """The models of a server that has boards of its own. Raises DriverUsageError for the front of a
        fleet.
        """
        if not isinstance(self._served, Models):
            raise DriverUsageError("the front of a fleet has no models of its own: its boards have them")
        return self._served

    @property
    def urls(self) -> dict[str, str]:
        """The address of every surface."""
        return {surface: self.url(surface) for surface in (*self.ports, *(self._local.paths if self._local else ()))}

    def url(self, surface: str = "http") -> str:
        """Return the address of a surface: a URL for HTTP, host and port for gRPC, or `unix:PATH`."""
        if surface.startswith("unix_") and self._local is not None:
            return f"unix:{self._local.paths[surface]}"
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        place = f"{host}:{self.ports[surface]}"
        if "grpc" in surface:
            return place
        return f"{'https' if self.options.certificate else 'http'}://{place}"

    def _held_bytes(self) -> int:
        return LEAST_HELD_BYTES if self.inference is None else held_bytes(self.inference.bounds())

    async def start(self) -> None:
        """Bind every port, load every model, then take requests.

        Raises DriverUsageError for a port in use, and what `Front.start` raises; nothing is left running
        then.
        """
        shown = self.options.certificate
        end_s = None if shown is None else ends(shown)
        if end_s is not None and end_s < time.time():
            _log.warning("the certificate in '%s' has ended, so clients that check it will not connect", shown)
        access = AccessControl(read_token(self.options.token_file), end_s)
        self._journal = Journal(None if self.options.spans is None else self.options.spans())
        limits, made = self.options.limits, self._served
        self.inference = (
            InferenceService(made, limits, _version()) if isinstance(made, Models) else made(limits, _version())
        )
        sockets: dict[str, socket.socket] = {}
        try:
            for name, port in (("http", self.options.http), ("admin", self.options.admin)):
                if port is not None:
                    sockets[name] = _bound(self.options.host, port)
            if self._local is not None:
                self._local.take()
                sockets["unix_http"] = self._local.bound("unix_http")
            await self.inference.start()
            self._bind_grpc(self.inference, access)
            for server in self._grpc:
                await server.start()
            for name, listening in sockets.items():
                await self._start_http(name, listening, access)
        except BaseException:
            await self.stop()
            for listening in sockets.values():
                listening.close()
            raise

    def _bind_grpc(self, inference: Front, access: AccessControl) -> None:
        for name, port in (("grpc", self.options.grpc), ("admin_grpc", self.options.admin_grpc)):
            if port is not None:
                from .edges.grpc_edge import bind

                host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
                server = self._grpc_server(name, inference, access)
                self.ports[name] = bind(server, f"{host}:{port}", self._grpc_credentials())
        if self._local is not None:
            from .edges.grpc_edge import bind

            server = self._grpc_server("unix_grpc", inference, access)
            with self._local.binding("unix_grpc") as address:
                bind(server, address)

    def _grpc_server(self, name: str, inference: Front, access: AccessControl) -> Any:
        from .edges.grpc_edge import grpc_server

        reading = Budget(f"places of {name} for messages", lambda: self.options.limits.reading)
        self._arriving.append(reading)
        shared = self._held, reading, self._regions, self._journal
        server = grpc_server(inference, access, *shared, admin=name == "admin_grpc")
        self._grpc.append(server)
        return server

    def _grpc_credentials(self) -> Any:
        if self.options.certificate is None or self.options.key is None:
            return None
        import grpc

        pair = (self.options.key.read_bytes(), self.options.certificate.read_bytes())
        return grpc.ssl_server_credentials([pair])

    async def _start_http(self, name: str, listening: socket.socket, access: AccessControl) -> None:
        inference = self.inference
        assert inference is not None
        limits, local = self.options.limits, name == "unix_http"
        open_now = Budget(f"connections of {name}", lambda: limits.connections)
        config = uvicorn.Config(
            application(inference, access, self._held, self._regions, self._journal, admin=name == "admin"),
            http=functools.partial(_BoundedProtocol, limits=limits, open_now=open_now),  # type: ignore[arg-type]
            loop="none",
            ws="none",
            lifespan="off",
            interface="asgi3",
            proxy_headers=False,  # nothing here asks for the client's address
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=round(limits.idle_s),
            timeout_graceful_shutdown=max(1, round(limits.drain_s)),
            ssl_certfile=None if local else self.options.certificate,
            ssl_keyfile=None if local else self.options.key,
        )
        self._arriving.append(open_now)
        server = _Uvicorn(config)
        task = asyncio.create_task(server.serve([listening]))
        self._http.append((server, task))
        if not local:
            self.ports[name] = listening.getsockname()[1]
        while not server.started and not task.done():
            await asyncio.sleep(0.005)
        if task.done():
            await task

    async def stop(self) -> None:
        """Take no more requests, answer those taken within `drain_s`, close every port and device.

        A request of which only a part has come is not taken.
        """
        if self.inference is not None:
            self.inference.draining = True
        drain_s = self.options.limits.drain_s
        for server, _ in self._http:
            server.should_exit = True
        ends = [server.stop(drain_s) for server in self._grpc]
        ended = asyncio.gather(*ends, *(task for _, task in self._http), return_exceptions=True)
        while not (await asyncio.wait([ended], timeout=0.05))[0]:
            for holder in [connection for budget in self._arriving for connection in budget.holders()]:
                if holder.half_sent:
                    holder.evict()
        self._http, self._grpc = [], []
        self._regions.close()
        if self._local is not None:
            self._local.release()
        if self.inference is not None:
            await self.inference.close()
        await self._journal.close()


def run_server(
    served: Models | OpenFront, options: ServeOptions, started: Callable[[NetworkServer], None] = lambda server: None
) -> None:
    """Serve until SIGTERM or SIGINT, then drain and return. `started` is called when requests are taken.

    A service manager sees all three, and hears no more of a server that only a restart can help.

    Raises as `NetworkServer.start`.
    """
    sys.setswitchinterval(SWITCH_S)

    async def main() -> None:
        server, ended = NetworkServer(served, options), asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)
        await server.start()
        alive = None
        try:
            started(server)
            inference = server.inference
            assert inference is not None
            alive = asyncio.create_task(keep_alive(lambda: inference.live))
            notify("READY=1")
            await ended.wait()
        finally:  # also when nobody is left to be told that it has started
            notify("STOPPING=1")
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)  # a second one ends the process
            _log.info("draining")
            await server.stop()  # while the watchdog hears that it is alive
            if alive is not None:
                alive.cancel()

    try:
        import uvloop
    except ImportError:  # it has no wheels for 32-bit boards
        asyncio.run(main())
    else:
        uvloop.run(main())


@contextmanager
def in_background(served: Models | OpenFront, options: ServeOptions | None = None) -> Iterator[NetworkServer]:
    """Serve in a thread of this process for the length of a `with` block. Raises as `NetworkServer.start`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="npu-network", daemon=True)
    thread.start()

    def done(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    server = NetworkServer(served, ServeOptions(http=0, grpc=0) if options is None else options)
    try:
        done(server.start())
        try:
            yield server
        finally:
            done(server.stop())
    finally:
        with contextlib.suppress(RuntimeError):
            done(loop.shutdown_default_executor())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that leaves signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class _BoundedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection with bounds on its head, in bytes and in time, and on the number of its like."""

    def __init__(self, *args: Any, limits: Limits, open_now: Budget, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits, self._open_now = limits, open_now
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._holder: _Connection | None = None

    def connection_made(self, transport: Any) -> None:
        """Take the connection, in place of the idlest where there are too many."""
        address = (transport.get_extra_info("peername") or (ADDRESS,))[0]
        holder = _Connection(address, self)
        if not self._open_now.take(holder, 1):
            transport.abort()
            return
        self._holder = holder
        super().connection_made(transport)
        self._arm()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and count and time what is not yet a request."""
        if self._holder is None:
            return
        self._open_now.touch(self._holder)
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._disarm()
        elif before is None or before.response_complete:
            self._head_bytes += len(data)
            self._arm()
            if self._head_bytes > LONGEST_HEAD:
                self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._disarm()
        if self._holder is not None:
            self._open_now.drop(self._holder)
            super().connection_lost(exc)

    def _arm(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._limits.head_s, self.transport.abort)

    def _disarm(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _Connection(Holder):
    """A connection's place among those of its surface."""

    def __init__(self, address: str, protocol: _BoundedProtocol) -> None:
        super().__init__(address)
        self._protocol = protocol

    @property
    def idle(self) -> bool:
        """True while no whole request is at work."""
        cycle = self._protocol.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    @property
    def half_sent(self) -> bool:
        """True while a body has begun and not ended."""
        cycle = self._protocol.cycle
        return cycle is not None and cycle.more_body and not cycle.response_complete

    def evict(self) -> None:
        """Close it at once."""
        self._protocol.transport.abort()


def _bound(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises DriverUsageError for a port in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise DriverUsageError(f"the host must be an address of this machine, and '{host}' is not: {error}") from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise DriverUsageError(f"the HTTP port must be free, and {host}:{port} is not: {error.strerror}") from None
    return made


def _version() -> str:
    try:
        return version("fluidnpu")
    except PackageNotFoundError:
        return "0"
