"""The hardware to be served, the truth about the world, and one schedule in it.

>>> from fluidnpu.dse import LatencyTable
>>> from fluidnpu.scheduler import Request, make_policy
>>> table = LatencyTable(ns=((10**6, 18 * 10**5), (10**6, 15 * 10**5)))
>>> serving = Serving(latency=table, exit_rates=(0.4, 0.6))
>>> round(serving.least_load(400), 3)
0.54
>>> done = serve_stream(serving, make_policy("greedy"), [Request(0, 0, 10**7)], [1])
>>> done.end_ns
(2000000,)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fluidnpu.dse import Design, DesignError, LatencyTable

from ..errors import SchedulerError
from ..exits.profile import PowerModel
from ..exits.rule import StageCosts
from ..policies.peers import layered, layered_rates
from ..policies.setting import Setting, least_work_ns
from ..policies.wrappers.anytime import Anytime
from ..policy import Policy, Request, traits_of, wrapping
from ..simulation.engine import simulate
from ..simulation.schedule import Schedule, Tally
from ..simulation.world import LiveExits, World, check_rates

LONGEST_RUN_NS = 10**12
MOST_NS = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Serving:
    """The hardware's latency table, the exits' shares and, if known, MACs per stage, the peak and the watts.

    Raises SchedulerError.
    """

    latency: LatencyTable
    exit_rates: tuple[float, ...]
    name: str = "table"
    macs: tuple[int, ...] | None = None
    peak_macs_per_s: float | None = None
    power: PowerModel | None = None

    def __post_init__(self) -> None:
        check_rates(self.exit_rates, self.latency.stages)
        if (longest := max(map(max, self.latency.ns))) > LONGEST_RUN_NS:
            raise SchedulerError(f"a run must take at most {LONGEST_RUN_NS // 10**9} s, not {longest} ns")
        if self.macs is not None and len(self.macs) != self.latency.stages:
            raise SchedulerError(f"macs must name {self.latency.stages} stages, not {len(self.macs)}")

    @classmethod
    def of(cls, design: Design, exit_rates: Sequence[float] | None = None) -> Serving:
        """Make it from a design; `exit_rates` replace the design's own.

        Raises SchedulerError when neither has any.
        """
        rates = exit_rates if exit_rates is not None else design.exit_rates
        if rates is None and design.stages == 1:
            rates = (1.0,)
        if rates is None:
            raise SchedulerError(
                f"the design of '{design.network}' has no exit rates, so they must be given, or be measured on data"
            )
        return cls(
            latency=design.latency,
            exit_rates=tuple(rates),
            name=f"{design.network} on {design.board}",
            macs=StageCosts.of(design).macs,
            peak_macs_per_s=float(design.macs_per_cycle * design.clock_hz),
            power=PowerModel.of(design),
        )

    @classmethod
    def loads(cls, text: str, source: str = "table") -> Serving:
        """Read it from the text of a design file or of `{"latency_ns": [[...]], "exit_rates": [...]}`.

        Raises SchedulerError or DesignError.
        """
        try:
            raw = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise SchedulerError(f"{source} must be JSON: {error}") from None
        if isinstance(raw, Mapping) and "digest" in raw:
            return cls.of(Design.loads(text, source))
        if not isinstance(raw, Mapping) or "latency_ns" not in raw or "exit_rates" not in raw:
            raise SchedulerError(f"{source} must be a design or hold latency_ns and exit_rates")
        try:
            table = LatencyTable(ns=tuple(tuple(row) for row in raw["latency_ns"]))
            rates = tuple(float(x) for x in raw["exit_rates"])
        except (TypeError, ValueError) as error:
            if isinstance(error, DesignError):
                raise
            raise SchedulerError(
                f"{source} must hold latency_ns as rows of numbers and exit_rates as numbers"
            ) from None
        return cls(latency=table, exit_rates=rates, name=str(raw.get("name", source)))

    def setting(self, rate_per_s: float, slo_ns: int, traffic: str = "poisson") -> Setting:
        """Return the setting that solved policies are solved for, and weights chosen for."""
        latency, rates = self.latency, self.exit_rates
        return Setting(latency=latency, exit_rates=rates, rate_per_s=rate_per_s, slo_ns=slo_ns, traffic=traffic)

    def least_load(self, rate_per_s: float) -> float:
        """Return the share of time that the NPU is busy with every run at its most efficient batch.

        At 1 or more no policy keeps up.
        """
        return rate_per_s * least_work_ns(self.latency, self.exit_rates) / 1e9


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The world where policies err: traffic (see `generate`), exit rates, latency by a factor, arrival rate.

    `objectives`: shares of the requests with objectives of their own, in ns; the others have the usual one.
    """

    traffic: str = "poisson"
    exit_rates: tuple[float, ...] | None = None
    latency_factor: float = 1.0
    rate_per_s: float | None = None
    objectives: tuple[tuple[float, int], ...] = ()

    def __post_init__(self) -> None:
        if any(not 0 < share <= 1 for share, _ in self.objectives) or sum(share for share, _ in self.objectives) > 1:
            raise SchedulerError(
                f"shares of objectives must lie above 0 and sum to at most 1, not {[s for s, _ in self.objectives]}"
            )


def serve_stream(
    serving: Serving,
    policy: Policy,
    stream: Sequence[Request],
    exits: Sequence[int] | LiveExits,
    truth: Truth | None = None,
) -> Schedule:
    """Serve the stream and return the schedule.

    Raises SchedulerError and PolicyError.

    A policy with layers as its trait is served layer by layer with its cost per layer, everything else
    stage by stage.
    """
    return simulate(stream, policy, world_of(serving, policy, exits, truth, requests=len(stream)))


def tally_stream(
    serving: Serving,
    policy: Policy,
    stream: Sequence[Request],
    exits: Sequence[int] | LiveExits,
    truth: Truth | None = None,
    *,
    compiled: bool = True,
) -> Tally:
    """Return the tally of the schedule that `serve_stream` gives.

    `compiled`: through the compiled loop if it is installed and the policy has a twin.
    """
    world = world_of(serving, policy, exits, truth, requests=len(stream))
    trace = None
    if compiled and world.live is None:
        from ..compiled.trace import serve_compiled  # loads Numba

        trace = serve_compiled(stream, policy, world)
    return Tally.of(simulate(stream, policy, world)) if trace is None else trace.tally()


def world_of(
    serving: Serving,
    policy: Policy,
    exits: Sequence[int] | LiveExits,
    truth: Truth | None = None,
    *,
    requests: int = 0,
) -> World:
    """Return the world of one schedule as the policy and the truth have it. Raises SchedulerError."""
    latency, rates, traits = serving.latency, serving.exit_rates, traits_of(policy)
    if traits.layers:
        if any(isinstance(inner, Anytime) for inner in wrapping(policy)):
            raise SchedulerError(
                "lazy runs by layers, and between layers there is no exit to answer from: anytime does not fit it"
            )
        latency = layered(serving.latency, traits.layers)
        parts = latency.stages // serving.latency.stages
        rates = layered_rates(rates, latency.stages)
        if isinstance(exits, LiveExits):
            raise SchedulerError(
                "lazy runs by layers, and criteria are looked at after whole stages: they do not fit it"
            )
        exits = [parts * e + parts - 1 for e in exits]
    factor = truth.latency_factor if truth else 1.0
    if not 0 < factor <= 1000:
        raise SchedulerError(f"the latency factor must be above zero and at most 1000, not {factor}")
    actual = None
    if factor != 1.0:
        actual = LatencyTable(ns=tuple(tuple(max(1, round(ns * factor)) for ns in row) for row in latency.ns))
    world = World(latency=latency, exits=exits, exit_rates=rates, actual=actual, overhead_ns=traits.cost_ns)
    longest = sum(map(max, world.run_ns)) * requests
    if longest > MOST_NS:
        raise SchedulerError(
            f"serving the requests one by one must take at most {MOST_NS / 1e9:g} s, which 64 bits hold, "
            f"not {longest / 1e9:g} s"
        )
    return world


def least_load_of(serving: Serving, policy: Policy, rate_per_s: float, truth: Truth) -> float:
    """Return `Serving.least_load` of the true world at the batches and the cost of a policy."""
    world, traits = world_of(serving, policy, (), truth), traits_of(policy)
    rates = truth.exit_rates or serving.exit_rates
    if traits.layers:
        rates = layered_rates(rates, world.latency.stages)
    took = LatencyTable(ns=tuple(row[: traits.b_max] for row in world.run_ns))
    return (truth.rate_per_s or rate_per_s) * least_work_ns(took, rates) / 1e9
