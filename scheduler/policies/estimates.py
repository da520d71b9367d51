"""Running estimates of rate, exits and durations, from what a policy sees; they tell when it was told wrong.

Each is an average that forgets: the mean gap between arrivals and the shares that go on past an exit over
about MEMORY requests, the true over the believed duration over about MEMORY runs. All begin at what the
policy was told, so a rate that is told wrong by half is believed after a few hundred requests.

A duration is known only where a request waited when the run began or stays after it: then the policy is asked
at the moment of its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..compiled.twin import records
from ..policy import Action, Run, View
from .setting import Setting
from .solving.decision_process import continue_shares

if TYPE_CHECKING:
    from ..compiled.estimates import EstimatesTwin

MEMORY = 1000
RAISED, CALM = 1.12, 1.06  # of the load told: above the first it is another world, below the second no more


class Estimates:
    """The estimates of one policy, for one stream; `see` before each decision, `note` after it."""

    def __init__(self, setting: Setting) -> None:
        self.told = setting
        self._gap_told = 1e9 / setting.rate_per_s
        self._on_told = continue_shares(setting.exit_rates)
        self._work = [min(ns / b for b, ns in enumerate(row, 1)) for row in setting.latency.ns]
        self._kept = [(1 - 1 / MEMORY) ** b for b in range(setting.latency.b_max + 1)]
        self.reset()
        self.load_told = self.load

    def reset(self) -> None:
        """Believe again what was told."""
        self.gap_ns, self.pace = self._gap_told, 1.0
        self.goes_on = list(self._on_told)
        self.raised = False
        self._arrival = -1
        self._run: tuple[int, int, int, int, int] | None = None  # time, stage, batch, believed ns, then at the next

    @property
    def rate_per_s(self) -> float:
        """Arrivals a second."""
        return 1e9 / self.gap_ns

    @property
    def exit_rates(self) -> tuple[float, ...]:
        """The share of all samples that leaves at each exit."""
        reaching, rates = 1.0, []
        for on in self.goes_on:
            rates.append(reaching * (1 - on))
            reaching *= on
        return tuple(rates)

    @property
    def latency_factor(self) -> float:
        """The duration of runs over the believed one."""
        return self.pace

    @property
    def load(self) -> float:
        """The share of time that the NPU is busy with every run at its most efficient batch."""
        work, reaching = 0.0, 1.0
        for ns, on in zip(self._work, self.goes_on, strict=True):
            work += reaching * ns
            reaching *= on
        return work * self.pace / self.gap_ns

    def arrive(self, arrival_ns: int) -> None:
        """Note the arrival of the next request."""
        if self._arrival >= 0:
            self.gap_ns += (arrival_ns - self._arrival - self.gap_ns) / MEMORY
        self._arrival = arrival_ns

    def see(self, view: View) -> None:
        """Learn from the run that has ended, and judge the load."""
        run, now, waiting = self._run, view.now_ns, view.waiting
        if run is None:
            return
        self._run = None
        began, stage, batch, believed, then = run
        if now <= began:
            return
        if stage + 1 < len(waiting):
            stayed = min(max(len(waiting[stage + 1]) - then, 0), batch)
            kept = self._kept[batch]
            self.goes_on[stage] = kept * self.goes_on[stage] + (1 - kept) * (stayed / batch)
        for line in waiting:
            if line and line[0].arrival_ns <= began:
                self.pace += ((now - began) / believed - self.pace) / MEMORY
                break
        self.raised = self.load > self.load_told * (CALM if self.raised else RAISED)

    def note(self, view: View, action: Action) -> Action:
        """Remember the action, and return it."""
        if isinstance(action, Run):
            stage, batch = action.stage, len(action.requests)
            then = len(view.waiting[stage + 1]) if stage + 1 < len(view.waiting) else 0
            self._run = (view.now_ns, stage, batch, view.latency.ns[stage][batch - 1], then)
        return action

    def compiled(self) -> EstimatesTwin:
        """Return the twin for the compiled loop."""
        from ..compiled.estimates import ESTIMATES, EstimatesTwin

        memory = records(ESTIMATES)
        memory[0].gap, memory[0].pace, memory[0].arrival, memory[0].stage = self._gap_told, 1.0, -1, -1
        return EstimatesTwin(
            memory=memory,
            goes_on=np.array(self._on_told, np.float64),
            work=np.array(self._work, np.float64),
            told=self.load_told,
            kept=np.array(self._kept, np.float64),
            span=float(MEMORY),
            up=RAISED,
            down=CALM,
        )


def estimates_of(policy: object) -> Estimates | None:
    """Return the running estimates of a policy or of the one that it wraps; None where it keeps none."""
    while policy is not None:
        own = getattr(policy, "estimates", None)
        if isinstance(own, Estimates):
            return own
        policy = getattr(policy, "inner", None)
    return None


def true_setting(estimates: Estimates) -> Setting:
    """Return the setting as it is by the estimates: what to solve and choose weights for anew."""
    import dataclasses

    true = estimates.told
    ns: Sequence[Sequence[int]] = [[max(1, round(x * estimates.pace)) for x in row] for row in true.latency.ns]
    rates = estimates.exit_rates
    rates = (*rates[:-1], max(0.0, 1 - sum(rates[:-1])))
    latency = dataclasses.replace(true.latency, ns=tuple(map(tuple, ns)))
    return dataclasses.replace(true, latency=latency, exit_rates=rates, rate_per_s=estimates.rate_per_s, solved=None)
