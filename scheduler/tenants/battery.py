r"""An energy budget over time: mean watts that may be spent, and joules that can be saved up. All modelled.

The board takes its idle watts whatever happens, and more while its NPU works. A budget above the idle watts
fills a battery; runs empty it. So a budget bounds the time that the NPU may work, and what was saved may be
spent at once. Where the battery is empty the NPU waits.

>>> power = PowerModel(idle_w=2.0, active_w=6.0)
>>> budget = PowerBudget(over_idle=1.5, battery_j=0.001)
>>> budget.duty(power)
0.25
>>> charge = Charge(budget, power)
>>> charge.spend(500_000), charge.level_nj, charge.ready_ns()
(None, -1000000.0, 1000001)
>>> charge.refill(2_000_000), charge.level_nj
(None, 1000000.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import SchedulerError
from ..exits.profile import PowerModel

NJ = 1e9  # in a joule


@dataclass(frozen=True, kw_only=True)
class PowerBudget:
    """A bound on power: `over_idle` times the board's idle watts on average, `battery_j` more at once.

    Raises SchedulerError.
    """

    over_idle: float
    battery_j: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.over_idle) and self.over_idle > 1):
            raise SchedulerError(f"an energy budget must be above the idle power, 1, not {self.over_idle:g} times it")
        if not 0 < self.battery_j <= 1e9:
            raise SchedulerError(f"a battery must hold more than nothing and at most 1 GJ, not {self.battery_j:g} J")

    def duty(self, power: PowerModel) -> float:
        """Return the share of time that the NPU may work for ever. Raises SchedulerError."""
        extra_w = power.active_w - power.idle_w
        if not (power.idle_w > 0 and extra_w > 0):
            raise SchedulerError(
                f"an energy budget must have idle watts above 0 and more at work, not {power.idle_w:g} and "
                f"{power.active_w:g} W"
            )
        return min(1.0, (self.over_idle - 1) * power.idle_w / extra_w)


class Charge:
    """The battery's level over time, full at the beginning; a run may take it below zero once.

    `spent_nj` is what runs took above the idle power since the beginning.
    """

    def __init__(self, budget: PowerBudget, power: PowerModel) -> None:
        self.duty = budget.duty(power)
        self.budget, self.power = budget, power
        self.level_nj = self._most_nj = budget.battery_j * NJ
        self.spent_nj = 0.0
        self._rate_w = (budget.over_idle - 1) * power.idle_w
        self._at_ns = 0

    def refill(self, now_ns: int) -> None:
        """Add what the budget leaves above the idle power since the last time."""
        elapsed, self._at_ns = max(0, now_ns - self._at_ns), max(now_ns, self._at_ns)
        self.level_nj = min(self._most_nj, self.level_nj + self._rate_w * elapsed)

    def spend(self, run_ns: float) -> None:
        """Take what a run needs above the idle power."""
        cost = (self.power.active_w - self.power.idle_w) * run_ns
        self.level_nj -= cost
        self.spent_nj += cost

    def ready_ns(self) -> int:
        """Return the time from now until the battery holds something; 0 while it does."""
        return 0 if self.level_nj > 0 else int(-self.level_nj / self._rate_w) + 1

    def share(self, interval_ns: int) -> float:
        """Return the share of the next interval in which the NPU may work, with what was saved up."""
        saved_ns = max(self.level_nj, 0.0) / (self.power.active_w - self.power.idle_w)
        return min(1.0, self.duty + saved_ns / interval_ns)
