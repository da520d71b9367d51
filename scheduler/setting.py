"""What a policy that is solved or tuned offline must know beforehand: the hardware's table, the exits' shares, the load and the objective."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from dse import LatencyTable

from .counts import CountTable, solve_counts, table_key
from .errors import SchedulerError


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The expected circumstances; none of them has to hold at run time, they only shape the tables.

    `solved`: a table made beforehand for exactly these, so that a board need not solve it.
    """

    latency: LatencyTable
    exit_rates: tuple[float, ...]
    rate_per_s: float
    slo_ns: int
    b_max: int | None = None
    slots: int | None = None
    solved: CountTable | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.rate_per_s > 0:
            raise SchedulerError(f"the expected rate must be above zero, not {self.rate_per_s}")
        if self.slo_ns <= 0:
            raise SchedulerError(f"the latency objective must be above zero, not {self.slo_ns} ns")

    def count_table(self) -> CountTable:
        """The decision process on counts for this setting, as given, or solved once in this program."""
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
    return solve_counts(latency, exit_rates, rate_per_s=rate, b_max=b_max, slots=slots)
