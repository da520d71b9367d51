"""The waiting lines divided by tenant, kept from decision to decision so that a long queue costs little.

>>> lines = Lines(["a", "b"])
>>> queue = [Request(0, 0, 9, tenant="a"), Request(1, 1, 9, tenant="b")]
>>> lines.read([queue, []]) == queue, [len(line) for line in lines.of("a")]
(True, [1, 0])
>>> lines.remove(queue[:1])
>>> lines.read([queue[1:], []]), [len(line) for line in lines.of("a")]
([], [0, 0])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import PolicyError
from ..policy import Request


class Lines:
    """The lines of each tenant. Raises PolicyError for a request of an unknown one."""

    def __init__(self, names: Iterable[str]) -> None:
        self._queue: list[Request] = []
        self._mine: dict[str, list[Request]] = {name: [] for name in names}
        self._later: dict[str, list[list[Request]]] = {}

    def read(self, waiting: Sequence[Sequence[Request]]) -> list[Request]:
        """Take the lines as they are now; return the requests of the queue that are new.

        Usually what was expected still stands there, which is checked at the speed of C, and the new ones
        come after it; anything else is divided again.
        """
        queue, count = list(waiting[0]), len(self._queue)
        if queue[:count] == self._queue:
            new = queue[count:]
        else:
            before = set(map(id, self._queue))
            new = [request for request in queue if id(request) not in before]
            for line in self._mine.values():
                line.clear()
            self._queue, count = [], 0
        for request in queue[count:]:
            self._known(request).append(request)
            self._queue.append(request)
        self._later = {name: [[] for _ in waiting[1:]] for name in self._mine}
        for stage, later in enumerate(waiting[1:]):
            for request in later:
                self._known(request)
                self._later[request.tenant][stage].append(request)
        return new

    def of(self, name: str) -> list[list[Request]]:
        """Return a tenant's lines, by stage."""
        return [self._mine[name], *self._later[name]]

    def remove(self, requests: Iterable[Request]) -> None:
        """Expect these to have left the queue."""
        for request in requests:
            self._queue.remove(request)
            self._mine[request.tenant].remove(request)

    def _known(self, request: Request) -> list[Request]:
        try:
            return self._mine[request.tenant]
        except KeyError:
            raise PolicyError(
                f"request {request.id} is of tenant '{request.tenant}', and there is no such tenant"
            ) from None
