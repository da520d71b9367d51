"""The calls on models and boards beside inference: one row a call, for REST, gRPC, the log and OpenAPI.

A row's method is one of a protocol in `front`. The front of a fleet has no `ModelAdmin`, a server with models
no `BoardAdmin`, so either refuses here what the other does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from ..errors import ProtocolError, UnsupportedError
from .admission.access import acting
from .front import BoardAdmin, Front, ModelAdmin
from .wire.bodies import FLEET, SERVER, Body, ExitsChange, Feedback, LoadOrder, SharesChange, TenantsChange, parse_body
from .wire.parameters import abbreviate

ACTS = ("drain", "restore", "reload")  # on a board


@dataclass(frozen=True)
class Operation:
    """One call, by the method of what answers. Its words, schema of the answer and `also` are for OpenAPI.

    `also`: statuses beside those that all refusals have. `needs`: the protocol of the method, where not every
    front has it, and `elsewhere` the refusal of one that has not. `admin`: the words before "on the admin
    surface" in a refusal (empty: every surface has the call). `rpc`: service and name over gRPC. `act`: a
    change, as the log names it.
    """

    method: str
    verb: str
    path: str
    summary: str
    answer: str
    also: tuple[int, ...] = ()
    body: type[Body] | None = None
    needs: type | None = None
    elsewhere: str = ""
    admin: str = ""
    rpc: str = ""
    act: str = ""

    @property
    def refusals(self) -> tuple[int, ...]:
        """The HTTP statuses of refusals."""
        return (*((400, 404, 408, 409, 413) if self.verb == "POST" else (404,)), *self.also)

    async def perform(self, front: Front, name: str, asked: Mapping[str, Any], who: str) -> Any:
        """Check what is asked and do it; a change leaves one line in the log, with its address.

        Raises UnsupportedError where the front cannot, ProtocolError for a wrong body, and as the method.
        """
        act = self.act.format(name=name[:100], asked=json.dumps(asked)[:200], act=str(asked.get("act"))[:60])
        with acting(who, act) if act else nullcontext():
            if not self.is_of(front):
                raise UnsupportedError(self.elsewhere)
            return await getattr(front, self.method)(name, *self._arguments(front, asked))

    def is_of(self, front: Front) -> bool:
        """Return whether a front has the method."""
        return self.needs is None or isinstance(front, self.needs)

    def _arguments(self, front: Front, asked: Mapping[str, Any]) -> list[Any]:
        """Return what the method takes beside a name: the parsed body, or the act of the path."""
        if self.body is LoadOrder:
            asked = asked.get("parameters") or {}
            if not isinstance(asked, Mapping):
                raise ProtocolError(f"parameters must be an object, not {abbreviate(asked)}")
        if self.body is not None:
            return [parse_body(self.body, asked, FLEET if isinstance(front, BoardAdmin) else SERVER)]
        return [asked["act"]] if self.needs is BoardAdmin else []


_TENANTS: dict[str, Any] = {
    "needs": ModelAdmin,
    "elsewhere": "tenants must be read and changed at the admin surface of a board, not of a fleet",
    "admin": "tenants must be read and changed",
}
_EXITS: dict[str, Any] = {"admin": "active exits must be read and changed"}
_SHARES: dict[str, Any] = {
    "needs": ModelAdmin,
    "elsewhere": "versions with shares must be read and changed at one server, not at a fleet's front",
    "admin": "shares of versions must be read and changed",
}
_LOADS: dict[str, Any] = {"admin": "models must be loaded and unloaded"}
_TO = "of model '{name}' to {asked}"

# fmt: off
LOAD = Operation(  # a row is two lines or three
    "load", "POST", "/v2/repository/models/{name}/load", "load a model", "Any", (501, 503),
    body=LoadOrder, act="load of model '{name}'", **_LOADS,
)
UNLOAD = Operation(
    "unload", "POST", "/v2/repository/models/{name}/unload", "unload a model", "Any", (503,),
    needs=ModelAdmin, act="unload of model '{name}'", **_LOADS,
    elsewhere="a model of a fleet stays: boards are drained one by one, POST /v2/boards/NAME/drain",
)
OPERATIONS = (
    LOAD,
    UNLOAD,
    Operation(
        "tenants", "GET", "/v2/models/{name}/tenants", "criteria and tenants", "Tenants", (503,),
        rpc="fluidnpu.Tenants/Tenants", **_TENANTS,
    ),
    Operation(
        "change_tenants", "POST", "/v2/models/{name}/tenants", "change them", "Tenants", (503,),
        rpc="fluidnpu.Tenants/ChangeTenants", body=TenantsChange, act=f"change of the tenants {_TO}", **_TENANTS,
    ),
    Operation(
        "exits", "GET", "/v2/models/{name}/exits", "active exits", "Exits", (400, 501, 503),
        rpc="fluidnpu.Exits/Exits", **_EXITS,
    ),
    Operation(
        "change_exits", "POST", "/v2/models/{name}/exits", "change them", "Exits", (501, 503),
        rpc="fluidnpu.Exits/ChangeExits", body=ExitsChange, act=f"change of the exits {_TO}", **_EXITS,
    ),
    Operation(
        "shares", "GET", "/v2/models/{name}/shares", "shares of versions", "Shares", (409,),
        rpc="fluidnpu.Versions/Shares", **_SHARES,
    ),
    Operation(
        "change_shares", "POST", "/v2/models/{name}/shares", "change them, or go back", "Shares",
        rpc="fluidnpu.Versions/ChangeShares", body=SharesChange, act=f"change of the shares {_TO}", **_SHARES,
    ),
    Operation(
        "feedback", "POST", "/v2/models/{name}/feedback", "true classes of answered requests", "Fed", (503,),
        rpc="fluidnpu.Exits/Feedback", body=Feedback, needs=ModelAdmin,
        elsewhere="true classes must go to the board that answered, not to the front of a fleet",
    ),
    Operation(
        "act", "POST", "/v2/boards/{name}/{act}", "drain, restore or load a board", "Acted", (501, 503),
        needs=BoardAdmin, admin="boards must be drained and loaded", act="{act} of board '{name}'",
        elsewhere="boards are drained and loaded at the front of a fleet, and this server is none",
    ),
)
# fmt: on


def operations_of(front: Front, *, admin: bool) -> Iterator[Operation]:
    """Yield the operations that a surface of a front has."""
    for operation in OPERATIONS:
        if (admin or not operation.admin) and operation.is_of(front):
            yield operation
