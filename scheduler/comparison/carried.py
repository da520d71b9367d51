"""The load that a policy carries: the most arrivals a second of which 99 % are answered in time.

All policies meet the same arrivals, a seed at a time, and the same search: halving between nothing and what
the latency table allows at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..policy import Policy
from ..simulation.metrics import Interval, interval
from ..simulation.traffic import requests_at
from .engines import Progress
from .serving import Serving, tally_stream

IN_TIME = 0.99  # share of the requests


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What a policy carries: a rate a second for each seed. `exits`: images leave where they are sure."""

    policy: str
    exits: bool
    rates_per_s: tuple[float, ...]

    @property
    def interval(self) -> Interval:
        """The mean over seeds with its 95 % interval."""
        return interval(self.rates_per_s)

    def ties(self, other: Carried) -> bool:
        """Tell if the difference to another over the same seeds is within its 95 % interval."""
        apart = interval([a - b for a, b in zip(self.rates_per_s, other.rates_per_s, strict=True)])
        return abs(apart.mean) <= apart.half

    def to_json(self) -> dict[str, object]:
        """Give the numbers in plain JSON types."""
        return {"policy": self.policy, "exits": self.exits, "rate_per_s": self.interval.to_dict()}


@dataclass(frozen=True, kw_only=True)
class OfferedLoad:
    """Requests of one objective. `exits` (seeds, requests): where each leaves; `gaps`: of mean 1e9 ns."""

    slo_ns: int
    exits: npt.NDArray[np.int64]
    gaps: npt.NDArray[np.float64]

    @classmethod
    def drawn(cls, exits: npt.NDArray[np.int64], slo_ns: int, seed: int, shape: tuple[int, int]) -> OfferedLoad:
        """Draw the exits of real images (images,) for `shape` (seeds, requests), and Poisson arrivals."""
        rng = np.random.default_rng(seed)
        return cls(slo_ns=slo_ns, exits=rng.choice(exits, shape), gaps=rng.exponential(1e9, shape))

    def late(self, serving: Serving, policy: Policy, rate_per_s: float, seed: int) -> float:
        """Give the share of late answers at a rate."""
        requests = requests_at(np.cumsum(self.gaps[seed] / rate_per_s).astype(np.int64), self.slo_ns)
        tally = tally_stream(serving, policy, requests, self.exits[seed].tolist())
        return float(np.mean(tally.end_ns > tally.deadline_ns))


def carried_load(
    serving: Serving,
    policy: Policy,
    load: OfferedLoad,
    *,
    exits: bool = True,
    steps: int = 7,
    progress: Progress | None = None,
) -> Carried:
    """Search what a policy carries, for each seed of the load.

    `steps` halvings leave 0.8 % of the range, and the rate is the middle of what is left.
    """
    seeds, most = len(load.exits), 1 / serving.least_load(1.0)
    rates = []
    for seed in range(seeds):
        low, high = 0.0, most
        for step in range(steps):
            middle = (low + high) / 2
            in_time = load.late(serving, policy, middle, seed) <= 1 - IN_TIME
            low, high = (middle, high) if in_time else (low, middle)
            if progress is not None:
                progress(seed * steps + step + 1, seeds * steps)
        rates.append((low + high) / 2)
    return Carried(policy=policy.name, exits=exits, rates_per_s=tuple(rates))
