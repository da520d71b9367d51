r"""Tenants in the simulator, over seeds: their traffic, their samples, and what each of them got.

>>> from fluidnpu.dse import LatencyTable
>>> from ..tenants.tenant import parse_tenants
>>> text = "[tenant.a]\nshare = 0.5\nrate = 300\n[tenant.b]\nshare = 0.5\nrate = 100"
>>> what = Serving(latency=LatencyTable(ns=((10**6,), (10**6,))), exit_rates=(0.4, 0.6))
>>> found = compare_tenants(what, parse_tenants(text), requests=400, seeds=2, slo_ns=9_000_000)
>>> [name for name in found.tenants], 0.5 < found.jain.mean <= 1
(['a', 'b'], True)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fluidnpu.dse import LatencyTable

from ..errors import SchedulerError
from ..exits.adaptation import make_mode
from ..exits.criteria import Criteria
from ..exits.criterion import NEVER, Criterion
from ..exits.evaluation import Bound
from ..exits.profile import ExitProfile, PowerModel
from ..exits.recorded import Recorded
from ..exits.ruled import RuledExits
from ..policy import Request
from ..simulation.engine import simulate
from ..simulation.metrics import Interval, interval, within
from ..simulation.networks import Networks
from ..simulation.schedule import Schedule
from ..simulation.traffic import draw_exits, poisson
from ..simulation.world import LiveExits, SideBySide, World
from ..tenants.measures import TenantMetrics, measure_tenants, npu_ns_by_tenant
from ..tenants.shared import Shared
from ..tenants.shares import jain
from ..tenants.slots import network_of_tenants, room_for
from ..tenants.tenant import Tenancy
from .engines import Progress
from .serving import Serving

ARRIVALS, SAMPLES = 74, 75  # first words of the generators' keys


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """One network of an NPU: its table and exit rates, recorded samples, the criterion of who has none.

    `name`: the one by which tenants name it.
    """

    serving: Serving
    name: str = ""
    recorded: Recorded | None = None
    usual: Criterion | None = None


@dataclass(frozen=True, kw_only=True)
class TenantComparison:
    """Every tenant's metrics over seeds, as intervals; `jain`: of NPU time over share, of those with a share.

    `busy_pct`: of the NPU; `mixed_pct`: runs with samples of several tenants.
    """

    name: str
    tenancy: Tenancy
    inner: str
    requests: int
    seeds: int
    tenants: Mapping[str, tuple[TenantMetrics, ...]]
    jain: Interval
    busy_pct: Interval
    mixed_pct: Interval
    criteria: Mapping[str, str] = field(default_factory=dict)  # in force at the end of the first seed
    infeasible: tuple[str, ...] = ()  # tenants whose target accuracy nothing has
    power_over_idle: Interval | None = None  # mean, modelled; None without a power model

    def interval(self, tenant: str, metric: str) -> Interval:
        """Return one metric of a tenant over the seeds."""
        return within(interval([float(getattr(run, metric)) for run in self.tenants[tenant]]), metric)

    def over_all(self) -> dict[str, float]:
        """Return means over all requests, the worst tenant's p99, and the accuracy where it is known."""
        names = list(self.tenants)
        weights = [self.tenants[name][0].requests for name in names]
        summary = {"p99_ms": max(self.interval(name, "p99_ms").mean for name in names)}
        for key in ("violations_pct", "accuracy_pct"):
            if all(self.tenants[name][0].to_dict()[key] is not None for name in names):
                summary[key] = float(np.average([self.interval(name, key).mean for name in names], weights=weights))
        return summary

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types: per tenant each metric as mean, low and high (95 %)."""
        rows: dict[str, Any] = {}
        for name, runs in self.tenants.items():
            row: dict[str, Any] = {}
            for key, value in runs[0].to_dict().items():
                if isinstance(value, tuple):
                    row[key] = np.mean([getattr(run, key) for run in runs], axis=0).tolist()
                elif value is not None:
                    row[key] = self.interval(name, key).to_dict()
            if name in self.criteria:
                row["criteria"] = self.criteria[name]
            if name in self.infeasible:
                row["target"] = "infeasible"
            rows[name] = row
        return {
            "name": self.name,
            "policy": self.inner,
            "requests": self.requests,
            "seeds": self.seeds,
            "simulated": True,
            "jain": self.jain.to_dict(),
            "busy_pct": self.busy_pct.to_dict(),
            "mixed_batches_pct": self.mixed_pct.to_dict(),
            "tenants": rows,
            **({} if self.power_over_idle is None else {"power_over_idle_modelled": self.power_over_idle.to_dict()}),
        }


def compare_tenants(
    serving: Serving | Sequence[Hosted],
    tenancy: Tenancy,
    inner: str = "fluid",
    *,
    requests: int = 20_000,
    seeds: int | Sequence[int] = 10,
    slo_ns: int | None = None,
    recorded: Recorded | None = None,
    usual: Criterion | None = None,
    slots: int | None = None,
    power: PowerModel | None = None,
    progress: Progress | None = None,
) -> TenantComparison:
    """Serve the tenants' Poisson streams together, `requests` in all a seed, and return what each got.

    With recorded samples criteria decide who leaves where (`usual`: of tenants that have none), without them
    exits are drawn by rates and criteria may not ask for confidence. `slots`: default the largest batch and
    one a tenant. `power`: watts of the board, for energies, all modelled.

    Networks side by side come as a sequence, each with its own samples and criterion. Raises SchedulerError.
    """
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    tell = progress or (lambda done, of: None)
    tell(0, len(chosen))
    hosted = (Hosted(serving=serving, recorded=recorded, usual=usual),) if isinstance(serving, Serving) else serving
    streams = _Streams(hosted, tenancy, requests, slo_ns, slots, power)
    rows: list[dict[str, TenantMetrics]] = []
    fair, busy, mixed = [], [], []
    criteria: dict[str, str] = {}
    for seed in chosen:
        stream, exits, policy, samples = streams.draw(seed, inner)
        done = simulate(stream, policy, streams.world(exits))
        right = streams.right(done, samples)
        rows.append(measure_tenants(done, right=right, names=[tenant.name for tenant in tenancy.all]))
        got = npu_ns_by_tenant(done)
        fair.append(jain([got.get(tenant.name, 0.0) / tenant.share for tenant in tenancy.tenants if tenant.share > 0]))
        whole = max(max(done.end_ns) - stream[0].arrival_ns, 1)
        busy.append(100 * sum(got.values()) / whole)
        mixed.append(_mixed_pct(done))
        tell(len(rows), len(chosen))
        criteria = criteria or streams.criteria(exits)
    names = [tenant_.name for tenant_ in tenancy.all if all(tenant_.name in row for row in rows)]
    return TenantComparison(
        name=" and ".join(network.serving.name for network in hosted),
        tenancy=tenancy,
        inner=inner,
        requests=requests,
        seeds=len(chosen),
        tenants={name: tuple(row[name] for row in rows) for name in names},
        jain=dataclasses.replace(interval(fair), least=0.0, most=1.0),
        busy_pct=within(interval(busy), "busy_pct"),
        mixed_pct=within(interval(mixed), "mixed_pct"),
        power_over_idle=None if power is None else interval([_over_idle(power, pct / 100) for pct in busy]),
        criteria=criteria,
        infeasible=policy.infeasible,
    )


def _mixed_pct(done: Schedule) -> float:
    owners = {request.id: request.tenant for request in done.requests}
    runs = [len({owners[id] for id in run.ids}) > 1 for run in done.runs]
    return 100 * float(np.mean(runs)) if runs else 0.0


class _Streams:
    """The streams of all seeds. Every mode of the same tenants meets the same arrivals and samples."""

    def __init__(
        self,
        hosted: Sequence[Hosted],
        tenancy: Tenancy,
        requests: int,
        slo_ns: int | None,
        slots: int | None,
        power: PowerModel | None,
    ) -> None:
        self.power = power
        self.hosted, self.tenancy, self.requests = tuple(hosted), tenancy, requests
        self.latency = LatencyTable(ns=tuple(row for own in self.hosted for row in own.serving.latency.ns))
        self.exit_rates = tuple(rate for own in self.hosted for rate in own.serving.exit_rates)
        self.of_tenant = network_of_tenants(tenancy, [own.name for own in self.hosted])
        counts = [list(self.of_tenant.values()).count(index) for index in range(len(self.hosted))]
        b_max = self.latency.b_max
        self.side = None
        if len(self.hosted) > 1:
            stages = tuple(own.serving.latency.stages for own in self.hosted)
            self.side = Networks(stages=stages, slots=room_for(b_max, counts), of_tenant=self.of_tenant)
        self.slots = b_max + len(tenancy.tenants) if slots is None else slots
        self.slo_ns = {}
        for member in tenancy.tenants:
            if member.rate_per_s is None:
                raise SchedulerError(f"tenant '{member.name}' must have a rate, since its requests are simulated")
            slo = member.slo_ns or slo_ns
            if slo is None:
                raise SchedulerError(f"tenant '{member.name}' must have an slo, or --slo must be given for all")
            self.slo_ns[member.name] = slo
        self.usual = [NEVER if own.usual is None else own.usual for own in self.hosted]
        self.profiles = [_profile(own, power) for own in self.hosted]
        ruled = [tenant for tenant in tenancy.tenants if tenant.criterion is not None or tenant.mode != "fixed"]
        named = any(own.recorded is not None or own.usual is not None for own in self.hosted)
        self.ruled = named or bool(ruled)
        for member in ruled:
            network = self.of_tenant[member.name]
            asks = member.mode != "fixed" or "confidence" in (member.criterion or NEVER).quantities
            if self.hosted[network].recorded is None and asks:
                raise SchedulerError(
                    f"tenant '{member.name}' asks for confidence, so recorded confidences must be given (--confidences)"
                )
            if member.criterion is not None:
                Bound(member.criterion, self.profiles[network])  # refused here, with the tenant's own words
        if self.ruled and len(self.hosted) > 1:
            self._check_usual()
        self.modes = {}
        for member in tenancy.tenants:
            if member.mode != "fixed":
                at = self.of_tenant[member.name]
                usual = member.criterion or self.usual[at]
                recorded = self.hosted[at].recorded
                self.modes[member.name] = make_mode(
                    member.mode, self.profiles[at], usual, recorded, accuracy=member.accuracy
                )

    def _check_usual(self) -> None:
        """Refuse a network whose exits nothing decides, while criteria decide those of another."""
        for index, network in enumerate(self.hosted):
            bare = [t.name for t in self.tenancy.tenants if self.of_tenant[t.name] == index and t.criterion is None]
            if network.usual is None and network.recorded is None and bare:
                raise SchedulerError(
                    f"tenant '{bare[0]}' must have criteria, or its network '{network.name}' recorded confidences, since "
                    "criteria decide the exits of others"
                )

    def world(self, exits: Sequence[int] | LiveExits) -> World:
        """Return the world of one seed."""
        latency, rates = self.latency, self.exit_rates
        if self.side is not None:
            return World(latency=latency, exits=exits, exit_rates=rates, networks=self.side)
        return World(latency=latency, exits=exits, exit_rates=rates, slots=self.slots)

    def draw(
        self, seed: int, inner: str
    ) -> tuple[list[Request], Sequence[int] | LiveExits, Shared, np.ndarray[Any, Any] | None]:
        """Return requests, exits, a fresh policy and the recorded sample of each request (-1: none)."""
        total = sum(tenant.rate_per_s or 0.0 for tenant in self.tenancy.tenants)
        seconds, rows = self.requests / total, []
        for index, owner in enumerate(self.tenancy.tenants):
            count = max(1, round((owner.rate_per_s or 0.0) * seconds))
            rng = np.random.default_rng([ARRIVALS, seed, index])
            drawn = poisson(owner.rate_per_s or 1.0, count, slo_ns=self.slo_ns[owner.name], rng=rng)
            rows += [(r.arrival_ns, index, r.deadline_ns, owner.name) for r in drawn]
        rows.sort()
        stream = [Request(i, at, until, tenant=name) for i, (at, _, until, name) in enumerate(rows)]
        alone = len(self.hosted) == 1
        rngs = [np.random.default_rng([SAMPLES, seed, *(() if alone else (n,))]) for n in range(len(self.hosted))]
        settings = [hosted.serving.setting(total, max(self.slo_ns.values())) for hosted in self.hosted]
        network = np.array([self.of_tenant[request.tenant] for request in stream])
        samples = np.full(len(stream), -1)
        if not self.ruled:
            leave = np.zeros(len(stream), int)
            for n, host in enumerate(self.hosted):
                own = network == n
                first = 0 if self.side is None else self.side.first[n]
                leave[own] = first + draw_exits(host.serving.exit_rates, int(own.sum()), rngs[n])
            policy = Shared(self.tenancy, inner, setting=settings, networks=self.side, power=self.power)
            return stream, leave.tolist(), policy, None
        rules, ruled = [], []
        for n, host in enumerate(self.hosted):
            criteria, confidences = Criteria(self.profiles[n], self.usual[n]), {}
            if host.recorded is not None:
                own = np.flatnonzero(network == n)
                samples[own] = host.recorded.draw_samples(len(own), rngs[n])
                rows_of = np.asarray(host.recorded.confidences)[samples[own]].tolist()
                confidences = dict(zip(own.tolist(), rows_of, strict=True))
            rules.append(criteria)
            ruled.append(RuledExits(rule=criteria, confidences=confidences))
        policy = Shared(
            self.tenancy,
            inner,
            setting=settings,
            criteria=rules,
            modes=self.modes,
            networks=self.side,
            power=self.power,
        )
        exits = ruled[0] if self.side is None else SideBySide(networks=self.side, exits=tuple(ruled))
        return stream, exits, policy, samples if np.any(samples >= 0) else None

    def right(self, done: Schedule, samples: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any] | None:
        """Return by request whether its answer was right; None where no network has labelled samples."""
        if samples is None:
            return None
        left = np.array(done.exit)
        right = np.zeros(len(left), bool)
        network = np.array([self.of_tenant[request.tenant] for request in done.requests])
        for n, hosted in enumerate(self.hosted):
            own = (network == n) & (left >= 0) & (samples >= 0)
            if hosted.recorded is not None:
                first = 0 if self.side is None else self.side.first[n]
                right[own] = np.asarray(hosted.recorded.correct)[samples[own], left[own] - first]
        return right

    def criteria(self, exits: Sequence[int] | LiveExits) -> dict[str, str]:
        """Return the criteria of tenants as they are now."""
        recordings = exits.exits if isinstance(exits, SideBySide) else (exits,)
        rules = [recording.rule for recording in recordings if isinstance(recording, RuledExits)]
        return {k: v.text for rule in rules if isinstance(rule, Criteria) for k, v in rule.tenants.items()}


def _over_idle(power: PowerModel, busy: float) -> float:
    """Return the mean power over the idle one of an NPU that works that share of the time."""
    return (busy * power.active_w + (1 - busy) * power.idle_w) / power.idle_w if power.idle_w else float("nan")


def _profile(hosted: Hosted, power: PowerModel | None = None) -> ExitProfile:
    profile = ExitProfile.of_stages(hosted.serving.latency, hosted.serving.macs, power)
    if hosted.recorded is None:
        return profile
    return dataclasses.replace(profile, accuracy=hosted.recorded.accuracy, samples=hosted.recorded.samples)
