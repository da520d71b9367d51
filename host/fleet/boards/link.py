"""The wire to one board: the Open Inference Protocol over gRPC, as it is served to everybody."""

from __future__ import annotations

from typing import Any

import grpc

from ...errors import BoardError, HostError
from ...oip.wire.calls import ModelAnswer
from ...oip.wire.grpc_body import read_answer
from ...oip.wire.messages import SERVICE, message
from ...oip.wire.statuses import error_named

_PREFIX = "fluidnpu-"
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a board's failures are its own
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 3_000),  # what a connection may take, TLS on a slow board included
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.keepalive_time_ms", 6_000),  # a link that is dead, with nobody to say so, is given up and made anew
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),  # who asks again, and whom, is the dispatcher's business
]


class BoardLink:
    """A channel to one board. Every call has a time limit; errors are the board's own, or BoardError.

    `ca`: PEM certificates; with them the channel speaks TLS, and the board's must be signed by one.
    """

    def __init__(self, address: str, token: str | None = None, ca: bytes | None = None) -> None:
        if ca is None:
            self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca), options=_OPTIONS)
        self.token = token
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self._infer, self._ready = self._method("ModelInfer"), self._method("ModelReady")

    def _method(self, name: str) -> Any:
        return self._channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=message(f"{name}Request").SerializeToString,
            response_deserializer=message(f"{name}Response").FromString,
        )

    async def infer(self, request: Any, timeout_s: float, trace: str = "") -> ModelAnswer:
        """Return the answer to a ModelInferRequest, which a client sent with a traceparent, or without.

        Raises the board's error, or BoardError.
        """
        metadata = (*self._metadata, ("traceparent", trace)) if trace else self._metadata
        try:
            return read_answer(await self._infer(request, timeout=timeout_s, metadata=metadata))
        except grpc.aio.AioRpcError as error:
            raise error_of(error) from None

    async def identity(self, model: str, timeout_s: float) -> tuple[bool, dict[str, str]]:
        """Return whether the board accepts requests for a model, and its design, program and process.

        Raises the board's error, or BoardError.
        """
        call = self._ready(message("ModelReadyRequest")(name=model), timeout=timeout_s, metadata=self._metadata)
        try:
            answer, facts = await call, await call.trailing_metadata()
        except grpc.aio.AioRpcError as error:
            raise error_of(error) from None
        identity = {key.removeprefix(_PREFIX): str(value) for key, value in facts or () if key.startswith(_PREFIX)}
        return bool(answer.ready), identity

    async def close(self) -> None:
        """Close the channel; calls that wait on it end."""
        await self._channel.close()


def error_of(error: Any) -> HostError:
    """Return the error that the board named; one that it did not name is the link's."""
    for key, value in error.trailing_metadata() or ():
        if key == "error-type":
            return error_named(str(value), str(error.details()))
    silent = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    return BoardError(str(error.details()), silent=silent)
