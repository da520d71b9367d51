"""The circumstances that a policy is solved or tuned for: latency table, exit rates, load and objective."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fluidnpu.dse import LatencyTable

from ..errors import OverloadError, SchedulerError
from .solving.decision_process import CountTable, solve_counts, table_key

SETTLES = 0.951  # of what the NPU serves at best: above it the process settles very slowly or never
INSTEAD = 0.9  # what it is solved for then; 1.6 % worse on average at 0.95
LOWER = 0.85  # where slots keep the NPU from serving even that much, solve for so much less, and again


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The expected circumstances; none of them has to hold at run time, they only shape the tables.

    `traffic`: its kind, as `generate` names it, for the choice of weights. `solved`: a table made beforehand
    for exactly these, and `chosen` the weights by the name of their policy, so that a board need neither
    solve nor choose. Raises SchedulerError.
    """

    latency: LatencyTable
    exit_rates: tuple[float, ...]
    rate_per_s: float
    slo_ns: int
    b_max: int | None = None
    slots: int | None = None
    traffic: str = "poisson"
    solved: CountTable | None = field(default=None, compare=False, repr=False)
    chosen: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.rate_per_s > 0:
            raise SchedulerError(f"the expected rate must be above zero, not {self.rate_per_s}")
        if self.slo_ns <= 0:
            raise SchedulerError(f"the latency objective must be above zero, not {self.slo_ns} ns")

    def count_table(self) -> CountTable:
        """Return the decision process on counts for this setting, as given, or solved once in this program.

        Where more comes than can be served it is solved for the load that can be (`CountTable.rate_per_s`): a
        policy for a long queue. Raises SchedulerError.
        """
        if self.solved is not None:
            b_max = self.latency.b_max if self.b_max is None else self.b_max
            if self.solved.key != table_key(self.latency, self.exit_rates, self.rate_per_s, b_max, self.slots or b_max):
                raise SchedulerError(
                    "the solved table must be for this latency table, exit rates and rate; solve it again"
                )
            return self.solved
        return _solved(self.latency, self.exit_rates, self.rate_per_s, self.b_max, self.slots)


@lru_cache(maxsize=32)
def _solved(
    latency: LatencyTable, exit_rates: tuple[float, ...], rate: float, b_max: int | None, slots: int | None
) -> CountTable:
    largest = b_max or latency.b_max
    work_ns = least_work_ns(LatencyTable(ns=tuple(row[:largest] for row in latency.ns)), exit_rates)
    lower = rate if rate * work_ns <= SETTLES * 1e9 else INSTEAD * 1e9 / work_ns
    while True:
        try:
            solved = solve_counts(latency, exit_rates, rate_per_s=lower, b_max=b_max, slots=slots)
        except OverloadError:
            lower *= LOWER
        else:
            return dataclasses.replace(solved, key=table_key(latency, exit_rates, rate, largest, slots or largest))


def least_work_ns(latency: LatencyTable, exit_rates: tuple[float, ...]) -> float:
    """Return the mean time in ns that a request costs the NPU with every run at its most efficient batch.

    It is a lower bound for every policy that answers all in full.

    >>> least_work_ns(LatencyTable(ns=((10, 10), (10, 20))), (0.5, 0.5))
    10.0
    """
    staying, work = 1.0, 0.0
    for row, rate in zip(latency.ns, exit_rates, strict=True):
        work += staying * min(ns / b for b, ns in enumerate(row, 1))
        staying -= rate
    return work
