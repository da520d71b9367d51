"""A plan that follows the traffic: counted exits, a forecast, a detector, stragglers, one decision.

The server's front and the twin run this same object. Whoever serves tells it what was seen (`left`, `took`),
and asks at every tick what to do (`step`). It knows no clock of its own. Exits are counted by the
product-limit rule (Kaplan and Meier, 1958): a sample whose end nobody saw still says which exits it passed.

>>> from fluidnpu.scheduler.placement.testing import toy_fleet
>>> follower = Follower(Replanner(toy_fleet(4), slo_ns=10**8), window_ns=10**9)
>>> follower.start(0).why
'first plan'
>>> follower.left(0, 160)
>>> follower.left(1, 40)
>>> decision = follower.step(10**8)
>>> decision.reason, [round(rate, 1) for rate in decision.fleet.networks["toy"].exit_rates]
('drift', [0.8, 0.2])
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from statistics import median_low

import numpy as np
from numpy.typing import NDArray

from ..errors import FleetError, PlacementError
from .forecast import DriftDetector, Forecast, make_forecast
from .plan import Plan
from .replanning import WINDOW_NS, Decision, Replanner, Straggler

LEAST_SAMPLES = 100  # since a drift, before its rates are believed
TICKS = 8  # of a window: how often whoever serves should ask
PROBATION = 5  # windows after which a straggler may show itself again


@dataclass
class ExitCounts:
    """Samples that came to each exit, and those that left there.

    >>> counts = ExitCounts(3)
    >>> counts.add(0, 60), counts.add(1, 20), counts.add(2, 10)
    (None, None, None)
    >>> counts.passed(0, 10)  # that many passed the first exit, and nobody saw their end
    >>> counts.take()
    [60, 27, 13]
    """

    exits: int
    came: NDArray[np.int64] = field(init=False)
    went: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.came, self.went = np.zeros(self.exits, np.int64), np.zeros(self.exits, np.int64)

    def add(self, exit: int, samples: int = 1, first: int = 0) -> None:
        """Count samples that left at an exit; `first`: as from which exit they were seen."""
        self.passed(exit, samples, first)
        self.went[exit] += samples

    def passed(self, exit: int, samples: int = 1, first: int = 0) -> None:
        """Count samples that came as far as an exit and did not leave there."""
        self.came[first : exit + 1] += samples

    def take(self) -> list[int]:
        """Give the counts of exits that these samples stand for, and begin anew."""
        total = int(self.came[0])
        stay = np.cumprod(1 - self.went / np.maximum(self.came, 1))
        stay[-1] = 0.0  # whoever comes to the last exit leaves there
        edges = np.rint(total * np.concatenate([[1.0], stay])).astype(np.int64)
        self.__post_init__()
        return [int(count) for count in edges[:-1] - edges[1:]]


@dataclass
class Follower:
    """Keeps the plan of one network in step with what is seen. Raises FleetError for a window of no time.

    `window_ns`: of the forecast named `forecast`, and of the timer. A board that is away for two ticks is
    lost. A board whose smoothed measured over predicted time stands above that of its pool for two windows
    is left out, and may show itself again after `PROBATION` windows.
    """

    replanner: Replanner
    window_ns: int = WINDOW_NS
    forecast: str = "ewma"
    stragglers: dict[str, Straggler] = field(default_factory=dict)
    decision: Decision | None = None  # the latest one

    def __post_init__(self) -> None:
        if self.window_ns <= 0:
            raise FleetError(f"a window must last above zero, not {self.window_ns} ns")
        fleet = self.replanner.fleet
        self.network = self.replanner.network or next(iter(fleet.networks))
        rates = fleet.networks[self.network].exit_rates
        if rates is None:
            raise FleetError(f"network '{self.network}' must have exit_rates to begin with, and the fleet has none")
        self.counts, self._window = ExitCounts(len(rates)), np.zeros(len(rates), np.int64)
        self._forecast, self._detector = self._new_forecast(), DriftDetector(rates)
        self._away, self._out = set[str](), dict[str, int]()
        self._ends_ns = 0

    def _new_forecast(self) -> Forecast:
        return make_forecast(self.forecast, self.counts.exits)

    @property
    def plan(self) -> Plan:
        """The plan that holds. Raises FleetError before `start`."""
        if self.replanner.plan is None:
            raise FleetError("a plan must be started before it is followed")
        return self.replanner.plan

    @property
    def rates(self) -> tuple[float, ...]:
        """The exit rates that are believed."""
        return self._detector.rates

    def start(self, now_ns: int, plan: Plan | None = None) -> Decision:
        """Begin with a plan for the fleet, or with the best one. Raises FleetError and PlacementError."""
        self._ends_ns = now_ns + self.window_ns
        if plan is None:
            self.decision = self.replanner.consider(now_ns, "start")
        else:
            plan.check(self.replanner.fleet)
            self.replanner.plan = plan
            self.decision = Decision(
                reason="start", plan=plan, fleet=self.replanner.fleet, changed=True, why="the plan that was given"
            )
        return self.decision

    def left(self, exit: int, samples: int = 1, first: int = 0) -> None:
        """Learn that samples left at an exit; `first`: as from which exit this was seen."""
        self.counts.add(exit, samples, first)

    def passed(self, exit: int, samples: int = 1, first: int = 0) -> None:
        """Learn that samples passed an exit, wherever they leave."""
        self.counts.passed(exit, samples, first)

    def took(self, device: str, measured_ns: float, predicted_ns: float) -> None:
        """Learn how long a device took for a batch, beside the predicted time."""
        if predicted_ns > 0:
            self.stragglers.setdefault(device, Straggler()).see(measured_ns, predicted_ns)

    def step(self, now_ns: int, away: Collection[str] = ()) -> Decision | None:
        """Decide at a tick; None where nothing asks for a decision. `away`: devices that take no requests."""
        gone, rates, reason = self.replanner.gone, None, ""
        counts = self.counts.take()
        self._window += counts
        if now_ns >= self._ends_ns:
            self._ends_ns += self.window_ns * (1 + (now_ns - self._ends_ns) // self.window_ns)
            self._close_window()
            if self._window.sum() >= LEAST_SAMPLES:  # fewer wait for the next window's
                self._forecast.see([int(count) for count in self._window])
                self._window[:] = 0
                reason, rates = "timer", _floor(self._forecast.rates())
        if self._detector.see(counts) and sum(since := self._detector.suspected) >= LEAST_SAMPLES:
            self._forecast = self._new_forecast()  # what was before is another world
            self._forecast.see(since)
            self._window[:] = 0
            rates = _floor((np.array(since) + 0.5) / (sum(since) + 0.5 * len(since)))
            reason = "drift"
        absent = set(away)
        missing = (absent & self._away) | set(self._out)
        self._away = absent
        lost, back = missing - gone, gone - absent - set(self._out)
        if lost:
            reason = "straggler" if lost <= set(self._out) else "lost"
        elif back and reason in ("", "timer"):
            reason = "back"
        return self._consider(now_ns, reason, lost, back, rates) if reason else None

    def _consider(
        self, now_ns: int, reason: str, lost: set[str], back: set[str], rates: tuple[float, ...] | None
    ) -> Decision:
        gone, out = self.replanner.gone, self._out
        try:
            self.decision = self.replanner.consider(
                now_ns, reason, lost=lost, back=back, exit_rates=rates, until_ns=now_ns + self.window_ns
            )
        except (PlacementError, FleetError) as error:  # better the old plan than none, and a slow board than none
            self.replanner.gone = gone | (lost - out.keys())
            self._out = {device: left for device, left in out.items() if device in gone}
            self.decision = Decision(
                reason=reason,
                plan=self.plan,
                fleet=self.replanner.fleet,
                changed=False,
                why=f"there is no other plan: {error}",
            )
        if rates is not None:
            self._detector.reset(rates)
        return self.decision

    def _close_window(self) -> None:
        """End a window of the stragglers."""
        for device in [device for device, left in self._out.items() if left <= 1]:
            del self._out[device]
            self.stragglers[device] = Straggler()
        self._out = {device: left - 1 for device, left in self._out.items()}
        for pool in self.plan.pools:
            peers = {device: self.stragglers[device] for device in pool.devices if device in self.stragglers}
            usual = median_low([peer.ratio for peer in peers.values()]) if peers else 1.0
            for device, peer_rate in peers.items():
                if peer_rate.close_window(usual) and peer_rate.excluded:
                    self._out[device] = PROBATION


def _floor(rates: Collection[float]) -> tuple[float, ...]:
    """Keep every exit possible: a plan that gave nobody its blocks could not serve who goes there."""
    least = np.maximum(np.asarray(rates, float), 1e-3)
    return tuple(float(rate) for rate in least / least.sum())
