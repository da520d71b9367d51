"""An amount that addresses share: bytes of requests, connections, messages that arrive. No I/O.

Where it runs out, the address that holds most loses its idlest holder, so one address cannot shut another
out. All is used on one event loop.

>>> class Name(Holder):
...     idle = True
...     def evict(self): print("evicted:", self.address)
>>> budget, greedy = Budget("places", lambda: 2), [Name("a"), Name("a")]
>>> [budget.take(each, 1) for each in greedy], budget.take(Name("b"), 1)
evicted: a
([True, True], True)
>>> budget.held, budget.evicted
(2, 1)
"""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

_log = logging.getLogger(__name__)
SAID_S = 60.0  # between two lines in the log about one budget


class Holder(ABC):
    """A connection or a request of an address; what is `idle` may be evicted."""

    def __init__(self, address: str) -> None:
        self.address = address

    @property
    @abstractmethod
    def idle(self) -> bool:
        """True while the server waits for the client."""

    @property
    def half_sent(self) -> bool:
        """True while a request has begun and not ended."""
        return self.idle

    @abstractmethod
    def evict(self) -> None:
        """End it; what it held is given back already."""


class Budget:
    """The amount in all, and what every holder has of it, by address; in each the idlest holder is first."""

    def __init__(self, name: str, most: Callable[[], int]) -> None:
        self._name, self._most = name, most
        self._holders: dict[str, dict[Holder, int]] = {}
        self._sums: dict[str, int] = {}
        self.held = self.evicted = self.refused = 0
        self._said_s = -math.inf

    def take(self, holder: Holder, amount: int) -> bool:
        """Give a holder more, and call it the least idle; False where only those with less could give way."""
        address = holder.address
        while self.held + amount > self._most():
            loser = self._loser(address, self._sums.get(address, 0) + amount, holder)
            self._say()
            if loser is None:
                self.refused += 1
                return False
            self.drop(loser)
            self.evicted += 1
            loser.evict()
        own = self._holders.setdefault(address, {})
        own[holder] = own.pop(holder, 0) + amount
        self._sums[address] = self._sums.get(address, 0) + amount
        self.held += amount
        return True

    def touch(self, holder: Holder) -> None:
        """Call a holder the least idle of its address."""
        own = self._holders.get(holder.address)
        if own is not None and holder in own:
            own[holder] = own.pop(holder)

    def drop(self, holder: Holder) -> None:
        """Take back all that a holder has."""
        own = self._holders.get(holder.address)
        amount = None if own is None else own.pop(holder, None)
        if own is None or amount is None:
            return
        self.held -= amount
        self._sums[holder.address] -= amount
        if not own:
            del self._holders[holder.address], self._sums[holder.address]

    def holders(self) -> list[Holder]:
        """Return all holders."""
        return [holder for holders in self._holders.values() for holder in holders]

    def _say(self) -> None:
        """Leave a line in the log that there is no more, once a minute."""
        now = time.monotonic()
        if now - self._said_s >= SAID_S:
            self._said_s, most = now, max(self._sums, key=lambda address: self._sums[address], default="nobody")
            _log.warning(
                "%s run out, of which %s has most: %d holders were evicted so far, and %d refused",
                self._name,
                most,
                self.evicted,
                self.refused,
            )

    def _loser(self, address: str, own_sum: int, asking: Holder) -> Holder | None:
        """Return the idlest holder of the address with most, of those with no less than the one that asks."""
        sums = sorted(self._sums.items(), key=lambda item: -item[1])
        for other, held in sums:
            if held >= own_sum or other == address:
                for holder in self._holders[other]:
                    if holder.idle and holder is not asking:
                        return holder
        return None
