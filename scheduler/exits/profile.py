"""The facts about each exit that are known before a run: latency, work, accuracy, modelled energy.

>>> table = LatencyTable(ns=((100, 150), (80, 120)))
>>> profile = ExitProfile(latency=table, macs=(500, 900))
>>> profile.alone_ns, profile.next_ns, profile.fact("macs", 1)
((100, 180), (80,), 900.0)
>>> profile.with_power(PowerModel(idle_w=1.0, active_w=3.0)).energy_nj
(300.0, 540.0)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from fluidnpu.dse import Design, LatencyTable

from ..errors import CriterionError, SchedulerError
from .rule import StageCosts


@dataclass(frozen=True, kw_only=True)
class PowerModel:
    """Watts of a board whose NPU does nothing, and whose NPU works; energies made of it are modelled."""

    idle_w: float
    active_w: float
    source: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.idle_w <= self.active_w < 1e6:
            raise SchedulerError(f"power must be 0 <= idle <= active, not {self.idle_w:g} and {self.active_w:g} W")

    @classmethod
    def of(cls, design: Design) -> PowerModel | None:
        """Return the watts of the board that a design carries; None where its facts have none."""
        power = None if design.facts is None else design.facts.power
        return None if power is None else cls(idle_w=power.idle_w, active_w=power.active_w)

    def energy_nj(self, busy_ns: float, wall_ns: float | None = None) -> float:
        """Return the energy of `busy_ns` of work within `wall_ns` (default: no idle time), in nJ."""
        idle_ns = 0.0 if wall_ns is None else wall_ns - busy_ns
        return self.active_w * busy_ns + self.idle_w * idle_ns


@dataclass(frozen=True, kw_only=True)
class ExitProfile:
    """The profile of a network's exits on one design; columns that are not known are None.

    `macs`, `energy_nj` and `accuracy` are those of one sample that leaves there; energy is modelled: active
    power over the time that the sample runs alone. `samples`: the number that the accuracies were measured
    on.
    """

    latency: LatencyTable
    macs: tuple[int, ...] | None = None
    energy_nj: tuple[float, ...] | None = None
    accuracy: tuple[float, ...] | None = None
    samples: int = 0

    def __post_init__(self) -> None:
        for name in ("macs", "energy_nj", "accuracy"):
            column = getattr(self, name)
            if column is not None and len(column) != self.exits:
                raise SchedulerError(f"{name} must name {self.exits} exits, not {len(column)}")

    @classmethod
    def of(cls, design: Design, power: PowerModel | None = None) -> ExitProfile:
        """Return the profile of a design, with energy where its board's power is known."""
        macs = tuple(accumulate(StageCosts.of(design).macs))
        return cls(latency=design.latency, macs=macs).with_power(power)

    @classmethod
    def of_stages(
        cls, latency: LatencyTable, macs: Sequence[int] | None = None, power: PowerModel | None = None
    ) -> ExitProfile:
        """Return the profile of a latency table with the multiply-accumulates of each stage."""
        return cls(latency=latency, macs=None if macs is None else tuple(accumulate(macs))).with_power(power)

    def with_power(self, power: PowerModel | None) -> ExitProfile:
        """Return the profile with the energy that this power gives; without power, as it is."""
        if power is None:
            return self
        return dataclasses.replace(self, energy_nj=tuple(power.energy_nj(ns) for ns in self.alone_ns))

    def with_costs(self, costs: StageCosts) -> ExitProfile:
        """Return the profile with the costs of stages, as far as they are known."""
        macs = tuple(accumulate(costs.macs)) if costs.macs else self.macs
        energy = tuple(accumulate(costs.energy_nj)) if costs.energy_nj else self.energy_nj
        return dataclasses.replace(self, macs=macs, energy_nj=energy)

    @property
    def exits(self) -> int:
        """The number of exits."""
        return self.latency.stages

    @property
    def alone_ns(self) -> tuple[int, ...]:
        """The time in ns to each exit of a sample that runs alone."""
        return tuple(accumulate(row[0] for row in self.latency.ns))

    @property
    def next_ns(self) -> tuple[int, ...]:
        """The least time in ns from each exit but the last to the next: its stage, alone in the batch."""
        return tuple(row[0] for row in self.latency.ns[1:])

    def fact(self, quantity: str, exit: int) -> float:
        """Return what is the same for all samples at an exit (from 0). Raises CriterionError if not known."""
        if quantity == "exit_number":
            return float(exit + 1)
        column = {"macs": self.macs, "energy": self.energy_nj, "accuracy": self.accuracy}[quantity]
        if column is None:
            raise CriterionError(f"a criterion over {quantity} must have {_WANTED[quantity]}, and there is none")
        return float(column[exit])


_WANTED = {
    "macs": "the multiply-accumulates of each exit, as a design has them",
    "energy": "a power model of the board, the table [power] of its file",
    "accuracy": "the accuracy of each exit, as recorded confidences of labelled samples give it",
}
