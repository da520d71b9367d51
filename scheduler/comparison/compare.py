"""Policies side by side on the same requests: `compare` serves every policy with every seed and gives means with intervals.

Seed s draws arrivals from generator [ARRIVALS, s] and exits from [EXITS, s], so all policies (and all kinds of traffic) meet the same
samples. The policies believe the table and the exit rates they are given; `truth` may differ.

>>> from fluidnpu.dse import LatencyTable
>>> what = Serving(latency=LatencyTable(ns=((10**6, 18 * 10**5), (10**6, 15 * 10**5))), exit_rates=(0.4, 0.6))
>>> result = compare(what, ["serial", "greedy"], rate_per_s=400, slo_ns=10**7, requests=500, seeds=2)
>>> sorted(result.to_dict()["policies"]["greedy"]["p99_ms"])
['high', 'low', 'mean']
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import numpy as np

from fluidnpu.dse import Design, DesignError, LatencyTable, has_numba

from ..errors import SchedulerError
from ..policies.baselines import Adaptive, Greedy, Serial
from ..policies.credit import Credit
from ..policies.guarded import Guarded
from ..policies.optimal import Optimal
from ..policies.peers import Lazy, layered, layered_rates
from ..policies.registry import make_policy
from ..policies.setting import Setting, least_work_ns
from ..policies.wrappers.anytime import Anytime
from ..policies.wrappers.shedding import Shedding, innermost
from ..policy import Policy, Request
from ..schedule import Schedule, Tally
from ..simulation.engine import simulate
from ..simulation.metrics import Metrics, interval, measure, merge_metrics
from ..simulation.traffic import check_load, check_objective, draw_exits, generate
from ..simulation.world import World, check_rates

RISE = 0.1  # of the average latency: a rise through the run that a reader must know of
STEADY = ("poisson", "bursty", "mmpp")  # traffic whose mean rate is the same at any time of the run
ENDLESS = ("poisson", "bursty", "mmpp", "diurnal")  # traffic with a mean rate that never stops
ARRIVALS, EXITS = 70, 71  # first words of the generators' keys; tuning uses another, so no reported seed was trained on
LONGEST_RUN_NS = 10**12
MOST_NS = 1 << 62
WORTH_COMPILING = 100_000  # requests of all policies and seeds: the engine takes several seconds for them


@dataclass(frozen=True, kw_only=True)
class Serving:
    """What is served: the table of the hardware, the exits' shares and, if known, what efficiency needs: MACs per stage and the peak."""

    latency: LatencyTable
    exit_rates: tuple[float, ...]
    name: str = "table"
    macs: tuple[int, ...] | None = None
    peak_macs_per_s: float | None = None

    def __post_init__(self) -> None:
        check_rates(self.exit_rates, self.latency.stages)
        if (longest := max(map(max, self.latency.ns))) > LONGEST_RUN_NS:
            raise SchedulerError(f"a run must take at most {LONGEST_RUN_NS // 10**9} s, not {longest} ns")
        if self.macs is not None and len(self.macs) != self.latency.stages:
            raise SchedulerError(f"macs must name {self.latency.stages} stages, not {len(self.macs)}")

    @classmethod
    def of(cls, design: Design, exit_rates: Sequence[float] | None = None) -> Serving:
        """From a design; `exit_rates` replace the design's own. Raises SchedulerError when neither has any."""
        rates = exit_rates if exit_rates is not None else design.exit_rates
        if rates is None:
            raise SchedulerError(f"the design of '{design.network}' has no exit rates, so they must be given")
        macs = [0] * design.stages
        for layer in design.layers:
            macs[layer.stage] += layer.macs
        peak = float(design.macs_per_cycle * design.clock_hz)
        name = f"{design.network} on {design.board}"
        return cls(latency=design.latency, exit_rates=tuple(rates), name=name, macs=tuple(macs), peak_macs_per_s=peak)

    @classmethod
    def loads(cls, text: str, source: str = "table") -> Serving:
        """From the text of a design file or of `{"latency_ns": [[...]], "exit_rates": [...]}`. Raises SchedulerError or DesignError."""
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

    def setting(self, rate_per_s: float, slo_ns: int) -> Setting:
        """The setting that solved policies are solved for."""
        return Setting(latency=self.latency, exit_rates=self.exit_rates, rate_per_s=rate_per_s, slo_ns=slo_ns)

    def least_load(self, rate_per_s: float) -> float:
        """The share of time that the NPU is busy at best: every run at its most efficient batch. At 1 or more no policy keeps up."""
        return rate_per_s * least_work_ns(self.latency, self.exit_rates) / 1e9


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What really happens where it differs from what policies believe: traffic (see `traffic.generate`), exit rates, latency by a factor."""

    traffic: str = "poisson"
    exit_rates: tuple[float, ...] | None = None
    latency_factor: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Metrics of each policy, one per seed, and the circumstances they hold in."""

    serving: Serving
    rate_per_s: float
    slo_ns: int
    requests: int
    truth: Truth
    metrics: Mapping[str, tuple[Metrics, ...]]
    notes: Mapping[str, str] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)  # `true_load` at the batches and costs of each policy

    def unstable(self, policy: str) -> bool:
        """Whether latencies mean nothing and are not given: the backlog grew through at least half of the seeds, or more comes than can be served.

        The second is arithmetic (`loads`), so it is said of a short run, too; it does not hold for a recorded trace, which ends, nor for
        policies that shed or answer early.
        """
        runs = self.metrics[policy]
        load = self.loads.get(policy, self.true_load)
        if self._traffic in ENDLESS and load >= 1 and not any(m.shed_pct or m.anytime_pct for m in runs):
            return True
        return 2 * sum(m.unstable for m in runs) >= len(runs)

    def note(self, policy: str) -> str:
        """What a reader must know of a policy's numbers; empty if nothing."""
        said = [self.notes[policy]] if policy in self.notes else []
        rise = interval([m.rise_ms for m in self.metrics[policy]])
        usual = interval([m.average_ms for m in self.metrics[policy]]).mean
        if (
            self._traffic in STEADY
            and not self.unstable(policy)
            and rise.mean - rise.half > 0
            and rise.mean > RISE * usual
        ):
            said.append(
                f"latency still rose through the runs, by {rise.mean:.3g} ms from their earlier to their later half, so the numbers depend on "
                "their length: more requests a seed would settle it"
            )
        return "; ".join(said)

    @property
    def _traffic(self) -> str:
        return self.truth.traffic.partition(":")[0]

    @property
    def true_load(self) -> float:
        """`Serving.least_load` of the world as it is, `truth` included."""
        rates = self.truth.exit_rates or self.serving.exit_rates
        serving = dataclasses.replace(self.serving, exit_rates=rates)
        return serving.least_load(self.rate_per_s) * self.truth.latency_factor

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: per policy each metric as mean, low and high (95 %); latencies are null when the load is unstable."""
        policies: dict[str, Any] = {}
        for name, runs in self.metrics.items():
            body: dict[str, Any] = {key: value.to_dict() for key, value in merge_metrics(runs).items()}
            body["unstable"] = self.unstable(name)
            if body["unstable"]:
                for key in ("average_ms", "p50_ms", "p95_ms", "p99_ms", "violations_pct", "goodput_per_s"):
                    body[key] = dict.fromkeys(("mean", "low", "high"))
            body["batches"] = np.sum([m.batches for m in runs], axis=0).tolist()
            if note := self.note(name):
                body["note"] = note
            policies[name] = body
        return {
            "name": self.serving.name,
            "rate_per_s": self.rate_per_s,
            "slo_ms": self.slo_ns / 1e6,
            "requests": self.requests,
            "seeds": len(next(iter(self.metrics.values()))),
            "warmup_requests": self.requests - next(iter(self.metrics.values()))[0].requests,
            "traffic": self.truth.traffic,
            "least_load": self.true_load,
            "simulated": True,
            "policies": policies,
        }

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def table(self) -> str:
        """A plain text table: one line per policy, mean and half-width of the interval."""
        lines = [f"{'policy':28} {'violations %':>15} {'average ms':>15} {'p99 ms':>17} {'early %':>8} {'busy %':>7}"]
        for name, runs in self.metrics.items():
            m = merge_metrics(runs)
            if self.unstable(name):
                lines.append(f"{name:28} unstable: the backlog grows as long as requests come")
                continue
            cells = [f"{m[k].mean:.1f} ± {m[k].half:.1f}" for k in ("violations_pct", "average_ms", "p99_ms")]
            lines.append(
                f"{name:28} {cells[0]:>15} {cells[1]:>15} {cells[2]:>17} {m['anytime_pct'].mean:8.1f} {m['busy_pct'].mean:7.1f}"
            )
        return "\n".join(lines)


def compare(
    what: Serving | Design,
    policies: Sequence[str | Policy],
    *,
    rate_per_s: float,
    slo_ns: int,
    requests: int = 20_000,
    seeds: int | Sequence[int] = 30,
    truth: Truth | None = None,
    processes: int = 1,
    warmup: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    compiled: bool | None = None,
) -> Comparison:
    """Serve `requests` requests per seed (or seeds 0..n-1) with every policy. Raises SchedulerError for bad input, in one sentence.

    `progress` is called with the seeds done and their number, first with none done. `compiled`: through the loop that Numba compiles, whose
    schedules are the same; None: where it is installed and there is enough to do to pay for starting it.
    """
    serving = Serving.of(what) if isinstance(what, Design) else what
    check_load(rate_per_s, requests)
    check_objective(slo_ns)
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    if len(chosen) < 1 or not policies:
        raise SchedulerError("a comparison needs at least one policy and one seed")
    setting = serving.setting(rate_per_s, slo_ns)
    made = [make_policy(p, setting) if isinstance(p, str) else p for p in policies]
    names = [p.name for p in made]
    if len(set(names)) < len(names):
        raise SchedulerError(f"policies must be named once each, not {', '.join(names)}")
    if compiled is None:
        compiled = has_numba() and requests * len(chosen) * len(made) >= WORTH_COMPILING
    job = _Job(serving, made, rate_per_s, slo_ns, requests, truth or Truth(), warmup, compiled)
    per_seed = _run_seeds(job, chosen, processes, progress or (lambda done, of: None))
    metrics = {name: tuple(row[k] for row in per_seed) for k, name in enumerate(names)}
    notes = {p.name: about for p in made if (about := _about(p, rate_per_s))}
    return Comparison(
        serving=serving,
        rate_per_s=rate_per_s,
        slo_ns=slo_ns,
        requests=requests,
        truth=job.truth,
        metrics=metrics,
        notes=notes,
        loads={p.name: _load(serving, p, rate_per_s, job.truth) for p in made},
    )


def _run_seeds(
    job: _Job, chosen: Sequence[int], processes: int, progress: Callable[[int, int], None]
) -> list[list[Metrics]]:
    """The metrics of every policy for each seed, in order."""
    per_seed = []
    progress(0, len(chosen))
    with ExitStack() as stack:
        if processes > 1:
            pool = ProcessPoolExecutor(processes, get_context("fork"), _set_job, (job,))
            found = stack.enter_context(pool).map(_run_job, chosen)
        else:
            found = map(job, chosen)
        for done, row in enumerate(found, 1):
            per_seed.append(row)
            progress(done, len(chosen))
    return per_seed


def _about(policy: Policy, rate_per_s: float) -> str:
    """What a reader must know of a solved or tuned policy; empty for the others."""
    policy = innermost(policy)
    said = []
    if isinstance(policy, Credit | Guarded):
        said.append(f"weights: {policy.weights_from}")
    if isinstance(policy, Optimal | Credit | Guarded) and policy.table.rate_per_s < rate_per_s:
        said.append(
            f"solved for {policy.table.rate_per_s:.3g}/s: more is not, or hardly, served even by the best schedule"
        )
    return "; ".join(said)


@dataclass(frozen=True)
class _Job:
    serving: Serving
    policies: Sequence[Policy]
    rate_per_s: float
    slo_ns: int
    requests: int
    truth: Truth
    warmup: int | None
    compiled: bool = False

    def __call__(self, seed: int) -> list[Metrics]:
        stream, exits = draw_stream(self.serving, self.truth, self.rate_per_s, self.slo_ns, self.requests, seed)
        out = []
        for policy in self.policies:
            done = serve_tally(self.serving, policy, stream, exits, self.truth, self.compiled)
            layered = isinstance(innermost(policy), Lazy)  # its batches are counted by layer, not by stage
            macs = None if layered else self.serving.macs
            out.append(measure(done, warmup=self.warmup, macs=macs, peak_macs_per_s=self.serving.peak_macs_per_s))
        return out


def draw_stream(
    serving: Serving, truth: Truth, rate_per_s: float, slo_ns: int, count: int, seed: int
) -> tuple[list[Request], list[int]]:
    """Requests and the exits they would leave at, for one seed."""
    stream = generate(truth.traffic, rate_per_s, count, slo_ns=slo_ns, rng=np.random.default_rng([ARRIVALS, seed]))
    rates = truth.exit_rates or serving.exit_rates
    check_rates(rates, serving.latency.stages)
    return stream, [int(e) for e in draw_exits(rates, count, np.random.default_rng([EXITS, seed]))]


def serve(
    serving: Serving, policy: Policy, stream: Sequence[Request], exits: Sequence[int], truth: Truth | None = None
) -> Schedule:
    """One schedule. `Lazy` (also inside `Shedding`) is served layer by layer with its cost per layer; everything else stage by stage."""
    return simulate(stream, policy, _world(serving, policy, exits, truth))


def serve_tally(
    serving: Serving,
    policy: Policy,
    stream: Sequence[Request],
    exits: Sequence[int],
    truth: Truth | None = None,
    compiled: bool = True,
) -> Tally:
    """What metrics need of the schedule that `serve` would give, through the compiled loop if it is installed and knows the policy."""
    world = _world(serving, policy, exits, truth)
    trace = None
    if compiled:
        from ..compiled.trace import serve_compiled  # loads Numba

        trace = serve_compiled(stream, policy, world)
    return Tally.of(simulate(stream, policy, world)) if trace is None else trace.tally()


def _world(serving: Serving, policy: Policy, exits: Sequence[int], truth: Truth | None) -> World:
    """The world of one schedule as the policy and the truth have it."""
    latency, rates, overhead = serving.latency, serving.exit_rates, 0
    own = innermost(policy)
    if isinstance(own, Lazy):
        if isinstance(policy.inner if isinstance(policy, Shedding) else policy, Anytime):
            raise SchedulerError(
                "lazy runs by layers, and between layers there is no exit to answer from: anytime does not fit it"
            )
        latency = layered(serving.latency, own.layers)
        parts = latency.stages // serving.latency.stages
        rates, overhead = layered_rates(rates, latency.stages), own.cost_ns
        exits = [parts * e + parts - 1 for e in exits]
    factor = truth.latency_factor if truth else 1.0
    if not 0 < factor <= 1000:
        raise SchedulerError(f"the latency factor must be above zero and at most 1000, not {factor}")
    actual = None
    if factor != 1.0:
        actual = LatencyTable(ns=tuple(tuple(max(1, round(ns * factor)) for ns in row) for row in latency.ns))
    longest = sum(max(row) + overhead for row in (actual or latency).ns) * len(exits)
    if longest > MOST_NS:
        raise SchedulerError(
            f"serving the requests one by one must take at most {MOST_NS / 1e9:g} s, which 64 bits hold, not {longest / 1e9:g} s"
        )
    return World(latency=latency, exits=exits, exit_rates=rates, actual=actual, overhead_ns=overhead)


def _load(serving: Serving, policy: Policy, rate_per_s: float, truth: Truth) -> float:
    """`Comparison.true_load` at the batches that a policy allows, with what it costs to ask it."""
    world, own = _world(serving, policy, (), truth), innermost(policy)
    rates = truth.exit_rates or serving.exit_rates
    if isinstance(own, Lazy):
        rates = layered_rates(rates, world.latency.stages)
    most = 1 if isinstance(own, Serial) else (own.b_max if isinstance(own, Greedy | Adaptive) else None)
    took = LatencyTable(ns=tuple(row[:most] for row in world.run_ns))
    return rate_per_s * least_work_ns(took, rates) / 1e9


_job: _Job | None = None


def _set_job(job: _Job) -> None:
    global _job
    _job = job


def _run_job(seed: int) -> list[Metrics]:
    assert _job is not None
    return _job(seed)
