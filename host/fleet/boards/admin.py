"""The wire to a board's admin surface: loads in steps, unloads, active exits, and inference on trial."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import grpc

from ...errors import BoardError, HostError
from ...oip.wire.messages import message
from .link import BoardLink, error_of

LOAD_S = 120.0  # a large network on a slow board, with its warm-up


class AdminLink(BoardLink):
    """A channel to the gRPC admin surface of a board. Errors are the board's own, or BoardError."""

    async def load(self, model: str, step: str) -> None:
        """Take a step of a load (`oip.trials`)."""
        asked = message("RepositoryModelLoadRequest")(model_name=model)
        asked.parameters["step"].string_param = step
        await self._call(self._method("RepositoryModelLoad"), asked)

    async def unload(self, model: str) -> None:
        """Have what was taken answered, and the model stopped."""
        asked = message("RepositoryModelUnloadRequest")(model_name=model)
        await self._call(self._method("RepositoryModelUnload"), asked)

    async def exits(self, model: str) -> dict[str, Any]:
        """Return the active exits."""
        return await self._own("Exits", {"model": model})

    async def change_exits(self, model: str, thresholds: Mapping[str, float | None], why: str) -> dict[str, Any]:
        """Change active exits, and return them as they will be."""
        return await self._own("ChangeExits", {"model": model, "thresholds": dict(thresholds), "why": why})

    async def _own(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        call = self._channel.unary_unary(f"/fluidnpu.Exits/{name}")
        answer: dict[str, Any] = json.loads(await self._call(call, json.dumps(asked).encode()))
        return answer

    async def _call(self, call: Any, asked: Any) -> Any:
        try:
            return await call(asked, timeout=LOAD_S, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise _explain(error_of(error)) from None


def _explain(error: HostError) -> HostError:
    """Say of a link's error what it means here."""
    if isinstance(error, BoardError):
        return BoardError(f"its admin surface must answer, and it does not: {error}", silent=error.silent)
    return error
