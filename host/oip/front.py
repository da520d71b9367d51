"""The contract between the transports and the thing that answers: one board's `Inference`, or a fleet's
front.

REST and gRPC parse and print; everything that they ask is here. All methods run on the event loop's thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from .admission.limits import Bounds, Limits
from .calls import Call, ModelAnswer
from .observing.metric_table import Row


class Front(Protocol):
    """The calls of the protocol, and the pages around them. Errors are those of `host.errors`."""

    version: str
    limits: Limits
    draining: bool  # set before a stop: nothing new is taken

    async def start(self) -> None:
        """Get ready to answer; an error leaves nothing running that `close` does not end."""

    async def close(self) -> None:
        """Answer what was taken, then let go of every device."""

    @property
    def live(self) -> bool:
        """False when only a restart of the process can help."""

    @property
    def ready(self) -> bool:
        """True when every model that is to be served is."""

    def check(self, name: str, version: str = "") -> None:
        """Raise UnknownModelError for a model that is not served here."""

    def bounds(self, name: str = "") -> Bounds:
        """Return the bounds of a request to a model, or of the largest that any takes.

        Raises ModelUnavailableError.
        """

    def is_ready(self, name: str, version: str = "") -> bool:
        """Tell if a model takes requests. Raises UnknownModelError."""

    def identity(self, name: str) -> dict[str, str]:
        """Return the facts by which a fleet tells one board from another: design, program, instance."""

    def server_metadata(self) -> dict[str, Any]:
        """Return the server's metadata."""

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """Return a model's metadata. Raises UnknownModelError, ModelUnavailableError."""

    async def infer(self, call: Call) -> ModelAnswer:
        """Answer a call."""

    def refused(self, name: str, error: Exception) -> None:
        """Count a request to a model that could not be read, by its error."""

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Return the statistics extension's object, of one model or of all. Raises UnknownModelError."""

    def index(self, ready_only: bool = False) -> list[dict[str, str]]:
        """Return name, version, state and reason of every model."""

    def tenants(self, name: str) -> dict[str, Any]:
        """Return criteria and tenants of a model."""

    def change(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Change criteria and tenants of a model while it is served, and return them."""

    async def exits(self, name: str) -> dict[str, Any]:
        """Return the active exits of a model and what adaptation sees."""

    async def change_exits(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Change the active exits of a model while it is served, and return them."""

    def shares(self, name: str) -> dict[str, Any]:
        """Return the shares of a model's versions."""

    def change_shares(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Change the shares of versions, or go back to those of before, and return them."""

    def feedback(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Take the true classes of answered requests."""

    async def load(self, name: str, parameters: Any = None) -> None:
        """Read a model's bundle again and serve it; no request is lost."""

    async def unload(self, name: str) -> None:
        """Answer what a model has taken, then stop it."""

    async def act(self, board: str, act: str) -> dict[str, Any]:
        """Drain, restore or reload a board of a fleet."""

    def metrics(self) -> Iterable[Row]:
        """Yield the rows of the table of metrics."""

    def snapshot(self) -> dict[str, Any]:
        """Return the numbers that the live page draws."""

    def page(self) -> str:
        """Return the live page."""

    def openapi(self, *, admin: bool) -> dict[str, Any]:
        """Return the document of the REST surface."""
