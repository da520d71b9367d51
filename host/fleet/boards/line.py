"""The line before a board with several networks: pieces wait at the front until their network has its turn.

The board itself takes what comes. So that it follows the plan's shares, no more is sent ahead than keeps it
busy while an answer travels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from fluidnpu.scheduler import placement

from ..duties import Duty
from ..piece import Piece

Cost = Callable[[str, int], float]  # predicted seconds of a batch of a network


class BoardQueue:
    """Pieces that wait for one board, a queue a network, in turns by deficit round robin."""

    def __init__(self, duties: Mapping[str, Duty]) -> None:
        self.duties = duties
        self._queues: dict[str, deque[Piece]] = {network: deque() for network in duties}
        self._turns = placement.Turns({network: duty.weight for network, duty in duties.items()})

    def __len__(self) -> int:
        """Pieces that wait."""
        return sum(map(len, self._queues.values()))

    def put(self, piece: Piece) -> None:
        """Put a piece at the end of its network's queue."""
        self._queues[piece.call.model].append(piece)

    def take(self, cost_s: Cost) -> list[Piece]:
        """Take the next turn: pieces of one network, a planned batch at most, but one piece at least."""
        heads: dict[str, int] = {}
        for network in self._queues:
            if batch := sum(piece.count for piece in self._head(network)):
                heads[network] = batch
        chosen = self._turns.next({network: cost_s(network, batch) for network, batch in heads.items()})
        if chosen is None:
            return []
        taken = list(self._head(chosen))
        for _ in taken:
            self._queues[chosen].popleft()
        return taken

    def _head(self, network: str) -> Iterable[Piece]:
        """Yield the pieces of a network's next batch; those that need no answer any more are dropped."""
        queue, room = self._queues[network], self.duties[network].batch
        while queue and queue[0].future.done():
            queue.popleft()
        for place, piece in enumerate(queue):
            room -= piece.count
            if room < 0 and place:
                return
            yield piece

    def empty(self) -> list[Piece]:
        """Take all pieces out, in no promised order among networks."""
        pieces = [piece for queue in self._queues.values() for piece in queue]
        for queue in self._queues.values():
            queue.clear()
        return pieces

    def wait_s(self, network: str, ahead_s: float, cost_s: Cost) -> float:
        """Predict the time until a new piece of a network begins: its queue at its share, or all of it."""
        own, every = 0.0, ahead_s
        for name, queue in self._queues.items():
            batch = self.duties[name].batch
            work_s = cost_s(name, batch) * sum(piece.count for piece in queue) / batch
            every += work_s
            own = work_s if name == network else own
        return min(every, ahead_s + own / max(1e-3, self.duties[network].weight))
