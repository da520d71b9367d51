"""Shares of the NPU: water-filling of demands, cooperative re-weighting, Jain's index. Pure arithmetic.

>>> water_filling([0.2, 0.9, 0.9], [1, 1, 2])
(0.2, 0.26..., 0.53...)
>>> round(jain([0.5, 0.5]), 3), round(jain([1.0, 0.0]), 3)
(1.0, 0.5)
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import SchedulerError

EXACT = 1e-12


def water_filling(
    demands: Sequence[float],
    weights: Sequence[float],
    capacity: float = 1.0,
    floors: Sequence[float] | None = None,
) -> tuple[float, ...]:
    """Return shares of a capacity: nobody above its demand while another is below.

    First each gets its floor, as far as it demands it. What is left rises in all that demand more, as water
    in vessels, each as wide as its weight, until it is full or the capacity is spent. Raises SchedulerError.
    """
    least = [0.0] * len(demands) if floors is None else list(floors)
    if not len(demands) == len(weights) == len(least):
        raise SchedulerError(
            f"there must be a weight and a floor a demand, not {len(demands)}, {len(weights)} and {len(least)}"
        )
    if any(not weight > 0 for weight in weights) or any(demand < 0 for demand in demands) or capacity < 0:
        raise SchedulerError("demands and capacity must not be negative, and weights must be above zero")
    shares = [min(demand, floor) for demand, floor in zip(demands, least, strict=True)]
    if sum(shares) > capacity + EXACT:
        raise SchedulerError(f"floors must fit into the capacity {capacity:g}, and they sum to {sum(shares):g}")
    left = capacity - sum(shares)
    while left > EXACT and (hungry := [i for i, demand in enumerate(demands) if demand - shares[i] > EXACT]):
        # the level rises by water a width, above what each has already: the lowest vessels first
        levels = {i: shares[i] / weights[i] for i in hungry}
        lowest = min(levels.values())
        low = [i for i in hungry if levels[i] <= lowest + EXACT]
        above = [level for level in levels.values() if level > lowest + EXACT]
        rise = min(
            left / sum(weights[i] for i in low),
            min(demands[i] / weights[i] for i in low) - lowest,
            min(above, default=float("inf")) - lowest,
        )
        for i in low:
            shares[i] += max(rise, 0.0) * weights[i]
        left -= max(rise, 0.0) * sum(weights[i] for i in low)
        if rise <= EXACT:
            break
    return tuple(shares)


def cooperative_shares(
    *,
    shares: Sequence[float],
    priorities: Sequence[float],
    rates_per_s: Sequence[float],
    full_ns: Sequence[float],
    cooperates: Sequence[bool],
    keeps: float = 0.5,
    growth: float = 4.0,
) -> tuple[float, ...]:
    """Return the shares of the next interval: Delen's Algorithm 3 as we read it.

    Those that cooperate put their shares together and divide them by water-filling of their demands, arrival
    rate times the whole network's time, with weights priority times rate. Two bounds keep a flood from being
    rewarded: everybody keeps `keeps` of its share as far as it demands it, and a weight counts at most
    `growth` times the owner's share. What nobody demands is divided as the shares. The others keep theirs.
    """
    together = [i for i, takes_part in enumerate(cooperates) if takes_part]
    pool, given = sum(shares[i] for i in together), list(shares)
    if len(together) < 2 or pool <= 0:
        return tuple(given)
    demands = [rates_per_s[i] * full_ns[i] / 1e9 for i in together]
    total = sum(priorities[i] * demand for i, demand in zip(together, demands, strict=True)) or 1.0
    weights = [
        max(min(priorities[i] * demand / total * pool, growth * shares[i]), 1e-9)
        for i, demand in zip(together, demands, strict=True)
    ]
    floors = [keeps * shares[i] for i in together]
    filled = water_filling(demands, weights, pool, floors)
    spare = (pool - sum(filled)) / pool
    for i, share in zip(together, filled, strict=True):
        given[i] = share + spare * shares[i]
    return tuple(given)


def jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 when all are equal, 1/n when one has everything; 1 of nothing."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0
