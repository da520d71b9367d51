"""Rules that combine the answers of several networks: exact, order-free, each part counted once.

Logits are integers with a scale, at 16 bits a power of two. They are brought to the finest scale of the
ensemble and summed as 64-bit integers, so that a sum is the same bits in any order; only the last step, a
mean, leaves the integers. A rule of one's own (`own.py`) is asked at that last step, with the parts in the
order of the networks.

>>> tally = Rule(networks=("a", "b"), fractions=(4, 5)).tally(samples=1, classes=2)
>>> [tally.add(name, 0, np.array([row])) for name, row in (("b", [32, 0]), ("a", [0, 16]), ("b", [9, 9]))]
[1, 1, 0]
>>> tally.whole, tally.scores.tolist(), tally.labels.tolist()
(True, [[0.5, 0.5]], [0])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FleetError
from .own import Combiner, Floats, find_combiner, scores_of

MOST_SHIFT = 16
MOST_WEIGHT = 1 << 14  # so that sums fit 63 bits, beside 31 bits of a logit at its network's finest scale


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A combination rule over networks. Raises FleetError.

    `name`: one of `RULES`, or of `COMBINERS`, rules of one's own. `fractions`: fraction bits of each
    network's logits, 0 for all by default. `weights`: whole numbers, for `weighted` and rules of one's own.
    `majority` counts each network's first largest class; ties go to the larger sum of logits, then to the
    smaller class.
    """

    networks: tuple[str, ...]
    name: str = "average"
    weights: tuple[int, ...] = ()
    fractions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        own = self.combiner is not None
        if not self.networks or len(set(self.networks)) < len(self.networks):
            raise FleetError(f"an ensemble must have networks of names of their own, not {list(self.networks)}")
        count = len(self.networks)
        for what, values, default in (("weights", self.weights, 1), ("fractions", self.fractions, 0)):
            given = tuple(values) or (default,) * count
            if len(given) != count or any(not isinstance(v, int) or isinstance(v, bool) or v < 0 for v in given):
                raise FleetError(f"{what} must be {count} whole numbers from 0, one a network, not {list(values)}")
            object.__setattr__(self, what, given)
        if not any(self.weights):
            raise FleetError("weights must not all be 0")
        if self.name != "weighted" and not own and len(set(self.weights)) > 1:
            raise FleetError(f"only 'weighted' and rules of one's own take weights, not '{self.name}'")
        if max(self.fractions) - min(self.fractions) > MOST_SHIFT:
            raise FleetError(f"fractions must lie within {MOST_SHIFT} bits, not {list(self.fractions)}")
        if sum(self.weights) > MOST_WEIGHT:
            raise FleetError(f"weights must sum to at most {MOST_WEIGHT}, so that sums fit 64 bits, not {self.weights}")

    @property
    def combiner(self) -> Combiner | None:
        """The function of a rule of one's own; None for those of `RULES`."""
        return find_combiner(self.name)

    def tally(self, samples: int, classes: int) -> EnsembleTally:
        """Begin a number of samples."""
        return EnsembleTally(self, samples, classes)


class EnsembleTally:
    """Running sums of many samples, as pieces of the parts come; what comes again changes nothing.

    `total`, int64 (samples, classes), is the weighted sum at the finest scale, `seen`, bool (samples,
    networks), says whose parts are in it. The same parts give the same bits in any order. Parts themselves
    are held only for a rule of one's own.

    >>> tally = Rule(networks=("a", "b")).tally(samples=2, classes=2)
    >>> tally.add("b", 0, np.array([[3, 0], [0, 5]])), tally.add("b", 1, np.array([[9, 9]]))
    (2, 0)
    >>> tally.add("a", 0, np.array([[0, 4]])), tally.whole, tally.parts.tolist(), tally.labels.tolist()
    (1, False, [2, 1], [1, 1])
    """

    def __init__(self, rule: Rule, samples: int, classes: int) -> None:
        self.rule = rule
        self.total = np.zeros((samples, classes), np.int64)
        self.votes = np.zeros((samples, classes), np.int64)
        self.seen = np.zeros((samples, len(rule.networks)), bool)
        self._present = np.zeros(samples, np.int64)  # sum of the weights of the parts that came
        self._own = rule.combiner
        self._held = np.zeros((samples, len(rule.networks), classes)) if self._own else None

    def add(self, network: str, first: int, logits: NDArray[Any]) -> int:
        """Add logits, integers (count, classes), of samples from `first` on; return how many were new.

        Raises FleetError for a network or a shape that the ensemble does not have.
        """
        if network not in self.rule.networks:
            raise FleetError(f"a part must come from one of {', '.join(self.rule.networks)}, not '{network}'")
        values = np.asarray(logits)
        if values.ndim != 2 or values.shape[1] != self.total.shape[1] or not np.issubdtype(values.dtype, np.integer):
            raise FleetError(
                f"logits of '{network}' must be integers (count, {self.total.shape[1]}), not {values.dtype} {values.shape}"
            )
        if not 0 <= first <= first + len(values) <= len(self.total):
            raise FleetError(
                f"parts of '{network}' must lie in samples 0..{len(self.total) - 1}, not {first}..{first + len(values) - 1}"
            )
        place = self.rule.networks.index(network)
        rows = first + np.flatnonzero(~self.seen[first : first + len(values), place])
        new = values[rows - first].astype(np.int64)
        weight, shift = self.rule.weights[place], max(self.rule.fractions) - self.rule.fractions[place]
        self.total[rows] += weight * (new << shift)
        self.votes[rows, new.argmax(axis=1)] += 1
        if self._held is not None:
            self._held[rows, place] = np.ldexp(new.astype(float), -self.rule.fractions[place])
        self.seen[rows, place] = True
        self._present[rows] += weight
        return len(rows)

    @property
    def parts(self) -> NDArray[np.int64]:
        """Networks whose part has come, by sample, (samples,)."""
        return np.asarray(self.seen.sum(axis=1), np.int64)

    @property
    def whole(self) -> bool:
        """True when every part of every sample has come."""
        return bool(self.seen.all())

    @property
    def missing(self) -> tuple[str, ...]:
        """Networks of which a part of any sample is missing, in their order."""
        there = self.seen.all(axis=0)
        return tuple(name for name, here in zip(self.rule.networks, there, strict=True) if not here)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The classes decided for, (samples,): the first largest of what the rule counts; without parts,
        class 0.
        """
        if self._own:
            return np.asarray(self.scores.argmax(axis=1), np.int64)
        if self.rule.name == "majority":
            winner = self.votes == self.votes.max(axis=1, keepdims=True)
            return np.asarray(np.where(winner, self.total, np.iinfo(np.int64).min).argmax(axis=1), np.int64)
        return np.asarray(self.total.argmax(axis=1), np.int64)

    @property
    def scores(self) -> Floats:
        """Mean logits (samples, classes) of the parts that came, in real units; for `majority` the shares of
        votes.

        A rule of one's own gives its own. Raises FleetError where what it gives are no scores.
        """
        if self._own and self._held is not None:
            return scores_of(self.rule.name, self._own, self._held, self.seen, self.rule.weights)
        if self.rule.name == "majority":
            return np.asarray(self.votes / np.maximum(1, self.parts)[:, None], float)
        unit = np.maximum(1, self._present) * float(1 << max(self.rule.fractions))
        return np.asarray(self.total / unit[:, None], float)
