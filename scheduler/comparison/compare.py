"""Policies side by side on the same requests: means over seeds, with intervals.

All policies (and all kinds of traffic) meet the same samples (`sources.py`). The policies believe the table
and the exit rates they are given; `truth` may differ.

>>> from fluidnpu.dse import LatencyTable
>>> what = Serving(latency=LatencyTable(ns=((10**6, 18 * 10**5), (10**6, 15 * 10**5))), exit_rates=(0.4, 0.6))
>>> result = compare(what, ["serial", "greedy"], rate_per_s=400, slo_ns=10**7, requests=500, seeds=2)
>>> sorted(result.to_dict()["policies"]["greedy"]["p99_ms"])
['high', 'low', 'mean']
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fluidnpu.dse import Design, has_numba

from ..errors import SchedulerError
from ..policies.registry import make_policy
from ..policies.setting import Setting
from ..policy import Policy, traits_of
from ..simulation.metrics import Metrics, interval, measure, merge_metrics
from ..simulation.schedule import Tally
from ..simulation.traffic import check_load, check_objective, coverage
from .engines import HERE, Engine, Progress, in_order
from .serving import Serving, Truth, least_load_of, tally_stream
from .sources import Source

RISE = 0.1  # of the average latency: a rise through the run that a reader must know of
STEADY = ("poisson", "bursty", "mmpp")  # traffic whose mean rate is the same at any time of the run
ENDLESS = ("poisson", "bursty", "mmpp", "diurnal")  # traffic with a mean rate that never stops
WORTH_COMPILING = 100_000  # requests of all policies and seeds: the engine takes several seconds for them


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The metrics of each policy, one per seed, and the circumstances they hold in."""

    serving: Serving
    rate_per_s: float
    slo_ns: int
    requests: int
    truth: Truth
    metrics: Mapping[str, tuple[Metrics, ...]]
    notes: Mapping[str, str] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)  # `true_load` at the batches and costs of each policy

    def unstable(self, policy: str) -> bool:
        """Return whether latencies mean nothing: the backlog grows, or more comes than can be served.

        The first is said when it grew in at least half of the seeds. The second is arithmetic (`loads`), so
        it is said of a short run, too; it does not hold for a recorded trace, which ends, nor for policies
        that shed or answer early.
        """
        runs = self.metrics[policy]
        load = self.loads.get(policy, self.true_load)
        if self._traffic in ENDLESS and load >= 1 and not any(m.shed_pct or m.anytime_pct for m in runs):
            return True
        return 2 * sum(m.unstable for m in runs) >= len(runs)

    def note(self, policy: str) -> str:
        """Return the remark that a reader needs beside a policy's numbers, or an empty text."""
        notes = [self.notes[policy]] if policy in self.notes else []
        rise = interval([m.rise_ms for m in self.metrics[policy]])
        usual = interval([m.average_ms for m in self.metrics[policy]]).mean
        if (
            self._traffic in STEADY
            and not self.unstable(policy)
            and rise.mean - rise.half > 0
            and rise.mean > RISE * usual
        ):
            notes.append(
                f"latency still rose through the runs, by {rise.mean:.3g} ms from their earlier to their later half, "
                "so the numbers depend on their length: more requests a seed would settle it"
            )
        return "; ".join(notes)

    @property
    def coverage(self) -> str:
        """A remark where the run covers too little of its traffic's periods, or an empty text."""
        return coverage(self.truth.traffic, self.truth.rate_per_s or self.rate_per_s, self.requests)

    @property
    def _traffic(self) -> str:
        return self.truth.traffic.partition(":")[0]

    @property
    def true_load(self) -> float:
        """`Serving.least_load` of the true world."""
        rates = self.truth.exit_rates or self.serving.exit_rates
        serving = dataclasses.replace(self.serving, exit_rates=rates)
        return serving.least_load(self.truth.rate_per_s or self.rate_per_s) * self.truth.latency_factor

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types: per policy each metric as mean, low and high (95 %).

        Latencies are null when the load is unstable.
        """
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
            **({"true_rate_per_s": self.truth.rate_per_s} if self.truth.rate_per_s else {}),
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
        """Return `to_dict` as text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def table(self) -> str:
        """Return a plain text table: one line per policy, mean and half-width of the interval."""
        lines = [
            f"{'policy':28} {'violations %':>15} {'average ms':>15} {'p99 ms':>17} {'anytime %':>10} {'busy %':>7}"
        ]
        for name, runs in self.metrics.items():
            m = merge_metrics(runs)
            if self.unstable(name):
                lines.append(f"{name:28} unstable: the backlog grows as long as requests come")
                continue
            cells = [f"{m[k].mean:.1f} ± {m[k].half:.1f}" for k in ("violations_pct", "average_ms", "p99_ms")]
            lines.append(
                f"{name:28} {cells[0]:>15} {cells[1]:>15} {cells[2]:>17} "
                f"{m['anytime_pct'].mean:10.1f} {m['busy_pct'].mean:7.1f}"
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
    assumed: str = "poisson",
    engine: Engine = HERE,
    warmup: int | None = None,
    progress: Progress | None = None,
    compiled: bool | None = None,
) -> Comparison:
    """Serve `requests` requests per seed (or seeds 0..n-1) with every policy.

    Raises SchedulerError.

    `assumed`: the kind of traffic that weights are chosen for; a server assumes Poisson arrivals, whatever
    comes. `progress` is called with the seeds done and their number, first with none done. `compiled`:
    through the loop that Numba compiles, whose schedules are the same; None: where it is installed and there
    is enough to do to pay for starting it.
    """
    serving = Serving.of(what) if isinstance(what, Design) else what
    check_load(rate_per_s, requests)
    check_objective(slo_ns)
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    if len(chosen) < 1 or not policies:
        raise SchedulerError("a comparison needs at least one policy and one seed")
    believed = truth or Truth()
    check_load(believed.rate_per_s or rate_per_s, requests)
    made = make_policies(policies, serving.setting(rate_per_s, slo_ns, assumed))
    names = [policy.name for policy in made]
    if len(set(names)) < len(names):
        raise SchedulerError(f"policies must be named once each, not {', '.join(names)}")
    if compiled is None:
        compiled = has_numba() and requests * len(chosen) * len(made) >= WORTH_COMPILING
    source = Source(rate_per_s=rate_per_s, slo_ns=slo_ns, count=requests, truth=believed)

    def measure_seed(seed: int) -> list[Metrics]:
        drawn, rows = source.draw(serving, seed), []
        for policy in made:
            tally = tally_stream(serving, policy, drawn.requests, drawn.exits, source.truth, compiled=compiled)
            rows.append(measure_policy(serving, policy, tally, warmup=warmup))
        return rows

    per_seed = in_order(engine, [partial(measure_seed, seed) for seed in chosen], progress)
    return Comparison(
        serving=serving,
        rate_per_s=rate_per_s,
        slo_ns=slo_ns,
        requests=requests,
        truth=source.truth,
        metrics={name: tuple(row[k] for row in per_seed) for k, name in enumerate(names)},
        notes={policy.name: note for policy in made if (note := _origin(policy, rate_per_s))},
        loads={policy.name: least_load_of(serving, policy, rate_per_s, source.truth) for policy in made},
    )


def make_policies(policies: Sequence[str | Policy], setting: Setting) -> list[Policy]:
    """Make those that are given by name. Raises SchedulerError."""
    return [make_policy(policy, setting) if isinstance(policy, str) else policy for policy in policies]


def measure_policy(serving: Serving, policy: Policy, tally: Tally, *, warmup: int | None = None) -> Metrics:
    """Return the metrics of a policy's tally, without efficiency where batches are counted by layer."""
    macs = None if traits_of(policy).layers else serving.macs
    return measure(tally, warmup=warmup, macs=macs, peak_macs_per_s=serving.peak_macs_per_s)


def _origin(policy: Policy, rate_per_s: float) -> str:
    """Return the origin of the tables of a solved or tuned policy; empty for the others."""
    traits, notes = traits_of(policy), []
    if traits.weights_from:
        notes.append(f"weights: {traits.weights_from}")
    if traits.solved_for_per_s is not None and traits.solved_for_per_s < rate_per_s:
        notes.append(
            f"solved for {traits.solved_for_per_s:.3g}/s: more is not, or hardly, served even by the best schedule"
        )
    return "; ".join(notes)
