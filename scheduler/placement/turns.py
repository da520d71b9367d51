"""Deficit round robin among the networks of one device: whole batches, by planned weights. Pure arithmetic.

A network's deficit is the device time that it may use. It grows by the weight in every round in which the
network has work, and a batch takes its time from it. Rounds that would let nobody go are passed at once.

>>> turns = Turns({"big": 0.75, "small": 0.25})
>>> [turns.next({"big": 3.0, "small": 1.0}) for _ in range(4)]
['big', 'small', 'big', 'small']
>>> turns = Turns({"big": 0.75, "small": 0.25})
>>> [turns.next({"big": 1.0, "small": 1.0}) for _ in range(8)].count("big")
6
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import FleetError

_LEAST = 1e-6  # of a weight: less is a network that the plan has, and gives nothing to


class Turns:
    """The turns of one device. `weights`: planned shares of its time, above zero. Raises FleetError."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        if not weights or not all(0 <= weight < float("inf") for weight in weights.values()):
            raise FleetError(f"turns need at least one network with a weight from 0, not {dict(weights)}")
        self._weights = {name: max(weight, _LEAST) for name, weight in weights.items()}
        self._deficits = dict.fromkeys(weights, 0.0)
        self._order = {name: place for place, name in enumerate(weights)}

    @property
    def deficits(self) -> Mapping[str, float]:
        """Device time that each network may use, in the unit of the costs; negative where it used more."""
        return dict(self._deficits)

    def next(self, costs: Mapping[str, float]) -> str | None:
        """Choose whose batch goes next, and charge its cost; None where nobody waits.

        `costs`: predicted time of the next batch of every network that has one. A network without work keeps
        no claim to time that it did not need, but what it used beyond its share stays on its account.
        """
        for name in self._deficits:
            if name not in costs:
                self._deficits[name] = min(0.0, self._deficits[name])
        if not costs:
            return None
        rounds = {name: (cost - self._deficits[name]) / self._weights[name] for name, cost in costs.items()}
        chosen = min(rounds, key=lambda name: (rounds[name], self._order[name]))
        passed = max(0.0, rounds[chosen])
        for name in costs:
            self._deficits[name] += passed * self._weights[name]
        self._deficits[chosen] -= costs[chosen]
        return chosen

    def settle(self, name: str, predicted: float, took: float) -> None:
        """Correct a charge by what a batch has taken."""
        self._deficits[name] += predicted - took
