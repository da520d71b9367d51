"""Rules that combine the answers of several networks: exact, order-free, each part counted once.

Logits are int16 with a power-of-two scale. They are shifted to the finest scale of the ensemble and summed as
64-bit integers, so that a sum is the same bits in any order; only the last step, a mean, leaves the integers.

>>> rule = Rule(networks=("a", "b"), fractions=(4, 5))
>>> parts = rule.begin()
>>> parts.add("b", np.array([32, 0])), parts.add("a", np.array([0, 16])), parts.add("b", np.array([9, 9]))
(True, True, False)
>>> parts.whole, rule.scores(parts).tolist(), rule.answer(parts).label
(True, [0.5, 0.5], 0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FleetError
from ..options import Floats

RULES = ("average", "weighted", "majority")
MOST_SHIFT = 32


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A combined answer: the class, how many networks it is of, and the names of those that are missing."""

    label: int
    parts: int
    of: int
    missing: tuple[str, ...]

    @property
    def partial(self) -> bool:
        """True where a network is missing."""
        return self.parts < self.of


@dataclass
class Parts:
    """The parts that have come for one sample: logits by network, in any order."""

    networks: tuple[str, ...]
    logits: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def add(self, network: str, logits: Sequence[int] | NDArray[Any]) -> bool:
        """Take one network's logits; False for a repeat, which changes nothing. Raises FleetError."""
        if network not in self.networks:
            raise FleetError(f"a part must come from one of {', '.join(self.networks)}, not '{network}'")
        values = np.asarray(logits)
        if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
            raise FleetError(f"logits of '{network}' must be a row of integers, not {values.dtype} {values.shape}")
        first = next(iter(self.logits.values()), values)
        if first.shape != values.shape:
            raise FleetError(f"logits of '{network}' must be {len(first)} as those of the others, not {len(values)}")
        if network in self.logits:
            return False
        self.logits[network] = values.astype(np.int64)
        return True

    @property
    def whole(self) -> bool:
        """True when every network has answered."""
        return len(self.logits) == len(self.networks)

    @property
    def missing(self) -> tuple[str, ...]:
        """Networks that have not answered, in their order."""
        return tuple(name for name in self.networks if name not in self.logits)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A combination rule over networks. Raises FleetError.

    `fractions`: fraction bits of each network's logits, 0 for all by default. `weights`: whole numbers, for
    `weighted`. `majority` counts each network's first largest class; ties go to the larger sum of logits,
    then to the smaller class.
    """

    networks: tuple[str, ...]
    name: str = "average"
    weights: tuple[int, ...] = ()
    fractions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in RULES:
            raise FleetError(f"a rule must be one of {', '.join(RULES)}, not '{self.name}'")
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
        if (self.name == "weighted") != (len(set(self.weights)) > 1) and self.name != "weighted":
            raise FleetError(f"only the rule 'weighted' takes weights, not '{self.name}'")
        if max(self.fractions) - min(self.fractions) > MOST_SHIFT:
            raise FleetError(f"fractions must lie within {MOST_SHIFT} bits, not {list(self.fractions)}")

    def begin(self) -> Parts:
        """Begin one sample."""
        return Parts(networks=self.networks)

    def total(self, parts: Parts) -> NDArray[np.int64]:
        """Weighted sum at the finest scale, as integers: the same bits in any order. Raises FleetError."""
        if not parts.logits:
            raise FleetError("an answer needs at least one part, and none has come")
        finest = max(self.fractions)
        facts: Mapping[str, tuple[int, int]] = {
            name: (weight, finest - bits)
            for name, weight, bits in zip(self.networks, self.weights, self.fractions, strict=True)
        }
        total = np.zeros_like(next(iter(parts.logits.values())))
        for name, logits in parts.logits.items():
            weight, shift = facts[name]
            total += weight * (logits << shift)
        return total

    def votes(self, parts: Parts) -> NDArray[np.int64]:
        """Votes by class."""
        self.total(parts)
        first = next(iter(parts.logits.values()))
        found = np.zeros(len(first), np.int64)
        for logits in parts.logits.values():
            found[int(logits.argmax())] += 1
        return found

    def scores(self, parts: Parts) -> Floats:
        """Mean logits of the parts that came, in real units; for `majority` the shares of votes."""
        if self.name == "majority":
            return np.asarray(self.votes(parts) / len(parts.logits), float)
        weights = dict(zip(self.networks, self.weights, strict=True))
        present = sum(weights[name] for name in parts.logits) or 1
        return np.asarray(self.total(parts) / float(present << max(self.fractions)), float)

    def answer(self, parts: Parts) -> Answer:
        """Decide, of all parts or of those that came, which the answer says."""
        total = self.total(parts)
        if self.name == "majority":
            votes = self.votes(parts)
            label = min(range(len(total)), key=lambda c: (-int(votes[c]), -int(total[c]), c))
        else:
            label = int(total.argmax())
        return Answer(label=label, parts=len(parts.logits), of=len(self.networks), missing=parts.missing)
