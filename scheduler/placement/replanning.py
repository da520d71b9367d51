"""Plans that are made again for a reason, and change only where the gain is worth the switch.

Reasons: a timer, a board lost or back, drift of the exits, a straggler. A plan is changed only where its gain
over the time until the next one pays for the switch, and is above a threshold; a board that is gone leaves no
choice.

>>> from fluidnpu.scheduler.placement import place
>>> from fluidnpu.scheduler.placement.testing import toy_fleet
>>> replanner = Replanner(toy_fleet(4), slo_ns=10**8)
>>> replanner.consider(0, "start").changed, replanner.consider(10**9, "timer").changed
(True, False)
>>> len(replanner.consider(2 * 10**9, "lost", lost={"board-1"}).plan.devices)
3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import FleetError
from .fleet import Fleet
from .plan import RAMPS, Plan
from .planner import place

GAIN = 0.05  # that a plan must bring before a running one is changed
WINDOW_NS = 120 * 10**9
REASONS = ("start", "timer", "lost", "back", "drift", "straggler")
SLOW, WELL = 1.2, 1.05  # measured over predicted time: above it a straggler, below it well again
LEAST_BATCHES, WEIGHT, WINDOWS = 20, 0.2, 2


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The outcome of one reason: the plan that holds now, if it is a new one, and why.

    `fleet`: the devices that are left, with the exit rates that are believed; a new plan is for it.
    """

    reason: str
    plan: Plan
    fleet: Fleet
    changed: bool
    why: str


@dataclass
class Straggler:
    """Measured over predicted time of one device, smoothed; excluded after two windows above `SLOW`."""

    ratio: float = 1.0
    batches: int = 0
    windows: int = 0
    excluded: bool = False

    def see(self, measured_ns: float, predicted_ns: float) -> None:
        """Learn from one batch."""
        ratio = measured_ns / predicted_ns
        self.ratio = ratio if not self.batches else (1 - WEIGHT) * self.ratio + WEIGHT * ratio
        self.batches += 1

    def close_window(self, usual: float = 1.0) -> bool:
        """End a window; True where the device's standing changed. `usual`: the ratio of its peers."""
        if self.batches < LEAST_BATCHES:
            return False
        self.windows = self.windows + 1 if self.ratio > SLOW * usual else 0
        before = self.excluded
        if self.windows >= WINDOWS:
            self.excluded = True
        elif self.ratio < WELL * usual:
            self.excluded = False
        return self.excluded != before


@dataclass
class Replanner:
    """Keeps the plan of one network. `switch_ns`: time in which a board that changes its job serves nothing.

    Where every board holds all weights a switch is a drain; another bitstream is its time to load. `ramps`:
    as `place` takes them; a plan whose exits are counted must run them all.
    """

    fleet: Fleet
    slo_ns: int
    network: str | None = None
    switch_ns: int = 0
    gain: float = GAIN
    forms: Sequence[str] = ("stock", "data parallel", "serial", "pipeline", "mix")
    ramps: Sequence[str] = RAMPS
    plan: Plan | None = None
    gone: set[str] = field(default_factory=set)

    def consider(
        self,
        now_ns: int,
        reason: str,
        *,
        lost: set[str] | None = None,
        back: set[str] | None = None,
        exit_rates: tuple[float, ...] | None = None,
        until_ns: int | None = None,
    ) -> Decision:
        """Plan again for a reason; change where it is worth it. Raises FleetError and PlacementError.

        `until_ns`: when the next plan is due, a window from now by default. A plan that needs a lost device
        is always changed.
        """
        if reason not in REASONS:
            raise FleetError(f"a reason must be one of {', '.join(REASONS)}, not '{reason}'")
        self.gone = (self.gone | (lost or set())) - (back or set())
        if exit_rates is not None:
            self.fleet = fleet_with_rates(self.fleet, exit_rates, self.network)
        left = self.fleet.without(self.gone) if self.gone else self.fleet
        new = place(left, self.network, slo_ns=self.slo_ns, forms=self.forms, ramps=self.ramps).plan
        old = self.plan

        def change(why: str) -> Decision:
            self.plan = new
            return Decision(reason=reason, plan=new, fleet=left, changed=True, why=why)

        if old is None:
            return change("first plan")
        if needed := sorted(self.gone & set(old.devices)):
            return change(f"the plan needs {', '.join(needed)}, which {'is' if len(needed) == 1 else 'are'} gone")
        held = self._held(old, left)
        span = (until_ns if until_ns is not None else now_ns + WINDOW_NS) - now_ns
        moved = len(moves(old, new)) / max(1, len(new.devices))
        net = new.rate_per_s * (1 - moved * self.switch_ns / span) if span > 0 else 0.0
        if net > held * (1 + self.gain):
            return change(
                f"{100 * (net / held - 1):.1f} % more, switch paid" if held else "the old plan carries nothing"
            )
        return Decision(
            reason=reason,
            plan=old,
            fleet=left,
            changed=False,
            why=f"the best plan brings {100 * (net / held - 1):+.1f} %, below {100 * self.gain:g} %",
        )

    def _held(self, old: Plan, fleet: Fleet) -> float:
        """The rate that the running plan carries in the world as it is now believed."""
        from .holding import carried

        return carried(fleet, old)


def moves(old: Plan, new: Plan) -> list[str]:
    """Devices whose jobs a change of plan changes, rates and weights apart."""

    def jobs(plan: Plan) -> Mapping[str, tuple[object, ...]]:
        return {
            device: tuple((job.network, job.first, job.last, job.batch, job.ramps) for job in pool.jobs)
            for device, pool in plan.devices.items()
        }

    before, after = jobs(old), jobs(new)
    return sorted(device for device in before.keys() | after.keys() if before.get(device) != after.get(device))


def fleet_with_rates(fleet: Fleet, exit_rates: tuple[float, ...], network: str | None = None) -> Fleet:
    """The same fleet with other exit rates of a network."""
    name = network or next(iter(fleet.networks))
    networks = {**fleet.networks, name: replace(fleet.networks[name], exit_rates=tuple(exit_rates))}
    return replace(fleet, networks=networks)
