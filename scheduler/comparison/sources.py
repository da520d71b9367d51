"""Streams of requests and exits by seed: synthetic traffic, a recorded trace, recorded confidences.

Seed s draws arrivals from generator [ARRIVALS, s] and exits from [EXITS, s], so all policies (and all kinds
of traffic) meet the same samples.

>>> from fluidnpu.dse import LatencyTable
>>> what = Serving(latency=LatencyTable(ns=((10**6,), (10**6,))), exit_rates=(0.4, 0.6))
>>> drawn = Source(rate_per_s=400, slo_ns=10**7, count=3).draw(what, seed=0)
>>> [r.arrival_ns // 10**6 for r in drawn.requests], drawn.exits
([4, 7, 8], [0, 1, 1])
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..errors import TrafficError
from ..exits.criteria import Criteria
from ..exits.evaluation import Bound
from ..exits.recorded import Recorded
from ..exits.ruled import RuledExits
from ..policy import Request
from ..simulation.traffic import draw_exits, generate, read_trace
from ..simulation.world import LiveExits, check_rates
from .serving import Serving, Truth

ARRIVALS, EXITS, OBJECTIVES = (
    70,
    71,
    73,
)  # first words of the generators' keys; tuning uses another, so no reported seed was trained on


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The stream of one seed: requests, the exit each would take, and its recorded sample, if any.

    `live` decides exits that depend on time when samples reach them; `exits` is empty then.
    """

    requests: list[Request]
    exits: list[int]
    samples: NDArray[np.int64] | None = None
    live: LiveExits | None = None

    @property
    def leave(self) -> list[int] | LiveExits:
        """The exits, in the form that the simulator takes."""
        return self.exits if self.live is None else self.live


@dataclass(frozen=True, kw_only=True)
class Source:
    """The streams of all seeds.

    With `trace` the arrivals are recorded, with `trace_exits` the exits, too.

    What is recorded is the same for every seed. Policies are solved for `rate_per_s` and `slo_ns`, and
    synthetic traffic obeys them; `truth` says where the world differs. `criteria` decides the exits of all
    requests, in place of rates and thresholds.
    """

    rate_per_s: float
    slo_ns: int
    count: int
    truth: Truth = field(default_factory=Truth)
    trace: tuple[Request, ...] = ()
    trace_exits: tuple[int, ...] = ()
    recorded: Recorded | None = None
    thresholds: tuple[float, ...] = ()
    criteria: Bound | None = None

    @classmethod
    def of_trace(
        cls,
        text: str,
        *,
        slo_ns: int | None,
        rate_per_s: float | None,
        source: str = "trace",
        truth: Truth | None = None,
        stages: int | None = None,
    ) -> Source:
        """Make it from a CSV trace (see `read_trace`). Raises TrafficError.

        Rate and objective, where not given, are the trace's mean rate and its median objective.
        """
        requests, exits = read_trace(text, slo_ns=slo_ns, source=source, stages=stages)
        span_ns = requests[-1].arrival_ns - requests[0].arrival_ns
        if rate_per_s is None:
            if span_ns <= 0:
                raise TrafficError(f"{source} must hold arrivals at more than one time, or a rate must be given")
            rate_per_s = (len(requests) - 1) / span_ns * 1e9
        objective = slo_ns or int(np.median([r.deadline_ns - r.arrival_ns for r in requests]))
        return cls(
            rate_per_s=rate_per_s,
            slo_ns=objective,
            count=len(requests),
            truth=dataclasses.replace(truth or Truth(), traffic=source),
            trace=tuple(requests),
            trace_exits=() if exits is None else tuple(int(e) for e in exits),
        )

    @property
    def fixed(self) -> bool:
        """True when every seed gives the same stream."""
        return bool(self.trace_exits)

    def draw(self, serving: Serving, seed: int) -> Drawn:
        """Return the stream of one seed.

        Raises SchedulerError when a trace names an exit that the table lacks.
        """
        if self.trace_exits:
            stages = serving.latency.stages
            if max(self.trace_exits) >= stages:
                raise TrafficError(f"exits in the trace must be 0..{stages - 1}, not {max(self.trace_exits)}")
            return Drawn(requests=list(self.trace), exits=list(self.trace_exits))
        if self.trace:
            requests = list(self.trace)
        else:
            arrivals = np.random.default_rng([ARRIVALS, seed])
            rate = self.truth.rate_per_s or self.rate_per_s
            requests = generate(self.truth.traffic, rate, self.count, slo_ns=self.slo_ns, rng=arrivals)
            requests = mixed_objectives(requests, self.truth.objectives, np.random.default_rng([OBJECTIVES, seed]))
        if self.criteria is not None:
            return self._ruled(self.criteria, requests, seed)
        rates = self.truth.exit_rates or serving.exit_rates
        check_rates(rates, serving.latency.stages)
        exits = [int(e) for e in draw_exits(rates, self.count, np.random.default_rng([EXITS, seed]))]
        if self.recorded is None:
            return Drawn(requests=requests, exits=exits)
        samples, leave = self.recorded.draw(self.thresholds, self.count, np.random.default_rng([EXITS + 1, seed]))
        return Drawn(requests=requests, exits=[int(e) for e in leave], samples=samples)

    def exits_alone(self) -> NDArray[np.int64]:
        """Return the exit of each recorded sample (samples,) that has the NPU for itself; one without
        records.

        Raises SchedulerError.
        """
        if self.criteria is None:
            assert self.recorded is not None
            return self.recorded.exits(self.thresholds)
        if self.recorded is None:
            return self.criteria.exits_alone({}, count=1)
        return self.criteria.exits_alone({"confidence": np.asarray(self.recorded.confidences)})

    def _ruled(self, criteria: Bound, requests: list[Request], seed: int) -> Drawn:
        """Return a stream whose exits a criterion decides: now, if it does not depend on time."""
        confidences, samples, rng = {}, None, np.random.default_rng([EXITS + 1, seed])
        if self.recorded is not None:
            samples = self.recorded.draw_samples(len(requests), rng)
            if not criteria.timed:
                return Drawn(requests=requests, exits=self.exits_alone()[samples].tolist(), samples=samples)
            rows = np.asarray(self.recorded.confidences)[samples].tolist()
            confidences = {request.id: row for request, row in zip(requests, rows, strict=True)}
        rule = Criteria(criteria.profile, criteria.criterion)
        live = RuledExits(rule=rule, confidences=confidences)
        return Drawn(requests=requests, exits=[], samples=samples, live=live)


def mixed_objectives(
    requests: list[Request], objectives: Sequence[tuple[float, int]], rng: np.random.Generator
) -> list[Request]:
    """Give random shares of the requests objectives of their own, in ns."""
    if not objectives:
        return requests
    edges = np.cumsum([share for share, _ in objectives])
    of = np.searchsorted(edges, rng.random(len(requests)), side="right")
    slos = [slo for _, slo in objectives]
    return [
        r if k == len(slos) else dataclasses.replace(r, deadline_ns=r.arrival_ns + slos[k])
        for r, k in zip(requests, of.tolist(), strict=True)
    ]
