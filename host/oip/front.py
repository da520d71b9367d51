"""The contracts between the transports and what answers: one server's `Inference`, or the front of a fleet.

REST and gRPC parse and print; everything that they ask is here. All methods run on the event loop's thread.
What answers has a data plane, a repository and pages; `ModelAdmin` and `BoardAdmin` are had by one kind each,
and `operations` refuses, by type, what the other cannot do. Errors are those of `host.errors`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from .admission.limits import Limits
from .observing.metric_table import Row
from .wire.bodies import ExitsChange, Feedback, LoadOrder, SharesChange, TenantsChange
from .wire.calls import Bounds, Call, ModelAnswer


class InferencePlane(Protocol):
    """Inference, and what is known of the models."""

    limits: Limits
    draining: bool  # set before a stop: no new request is accepted

    @property
    def live(self) -> bool:
        """False when only a restart of the process can help."""

    @property
    def ready(self) -> bool:
        """True when every model that is to be served is."""

    def check(self, name: str, version: str = "") -> None:
        """Raise UnknownModelError for a model that is not served here."""

    def bounds(self, name: str = "") -> Bounds:
        """Return the bounds of a request to a model, or of the largest that any accepts.

        Raises ModelUnavailableError.
        """

    def is_ready(self, name: str, version: str = "") -> bool:
        """Return whether a model accepts requests. Raises UnknownModelError."""

    def identity(self, name: str) -> dict[str, str]:
        """Return the facts by which a fleet knows one board from another: design, program, instance."""

    def server_metadata(self) -> dict[str, Any]:
        """Return the server's metadata."""

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """Return a model's metadata. Raises UnknownModelError, ModelUnavailableError."""

    async def infer(self, call: Call) -> ModelAnswer:
        """Answer a call."""

    def count_refusal(self, name: str, error: Exception) -> None:
        """Count a request to a model that could not be read, by its error."""

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Return the statistics extension's object, of one model or of all. Raises UnknownModelError."""


class ModelRepository(Protocol):
    """The models of a server, or of a fleet: listed, loaded, their exits changed."""

    def index(self, ready_only: bool = False) -> list[dict[str, str]]:
        """Return name, version, state and reason of every model."""

    async def load(self, name: str, order: LoadOrder) -> None:
        """Read a model's bundle again and serve it; no request is lost."""

    async def exits(self, name: str) -> dict[str, Any]:
        """Return the active exits of a model and what adaptation sees."""

    async def change_exits(self, name: str, change: ExitsChange) -> dict[str, Any]:
        """Change the active exits of a model while it is served, and return them."""


class ServerPages(Protocol):
    """The life of what answers, and its pages."""

    version: str

    async def start(self) -> None:
        """Get ready to answer; an error leaves nothing running that `close` does not end."""

    async def close(self) -> None:
        """Answer what was accepted, then release every device."""

    def metrics(self) -> Iterable[Row]:
        """Yield the rows of the table of metrics."""

    def snapshot(self) -> dict[str, Any]:
        """Return the numbers that the live page draws."""

    def page(self) -> str:
        """Return the live page."""

    def openapi(self, *, admin: bool) -> dict[str, Any]:
        """Return the document of the REST surface."""


class Front(InferencePlane, ModelRepository, ServerPages, Protocol):
    """The whole contract of both transports."""


@runtime_checkable
class ModelAdmin(Protocol):
    """Changes that a server makes to models of its own; a fleet has none."""

    async def unload(self, name: str) -> None:
        """Answer what a model has accepted, then stop it."""

    async def tenants(self, name: str) -> dict[str, Any]:
        """Return criteria and tenants of a model."""

    async def change_tenants(self, name: str, change: TenantsChange) -> dict[str, Any]:
        """Change criteria and tenants of a model while it is served, and return them."""

    async def shares(self, name: str) -> dict[str, Any]:
        """Return the shares of a model's versions."""

    async def change_shares(self, name: str, change: SharesChange) -> dict[str, Any]:
        """Change the shares of versions, or restore those of before, and return them."""

    async def feedback(self, name: str, feedback: Feedback) -> dict[str, Any]:
        """Accept the true classes of answered requests."""


@runtime_checkable
class BoardAdmin(Protocol):
    """Acts of a fleet's front on its boards."""

    async def act(self, board: str, act: str) -> dict[str, Any]:
        """Drain, restore or reload a board."""
