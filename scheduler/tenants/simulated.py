r"""Tenants in the simulator, over seeds: their traffic, their samples, and what each of them got.

>>> from fluidnpu.dse import LatencyTable
>>> from .tenant import parse_tenants
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

from ..comparison.seeds import Progress
from ..comparison.serving import Serving
from ..errors import SchedulerError
from ..exits.adaptation import make_mode
from ..exits.criteria import Criteria
from ..exits.criterion import NEVER, Criterion
from ..exits.evaluation import Bound
from ..exits.profile import ExitProfile
from ..exits.recorded import Recorded
from ..exits.ruled import RuledExits
from ..policy import Request
from ..simulation.engine import simulate
from ..simulation.metrics import Interval, interval, within
from ..simulation.schedule import Schedule
from ..simulation.traffic import draw_exits, poisson
from ..simulation.world import LiveExits, World
from .measures import TenantMetrics, measure_tenants, npu_ns_by_tenant
from .shared import Shared
from .shares import jain
from .tenant import Tenancy

ARRIVALS, SAMPLES = 74, 75  # first words of the generators' keys


@dataclass(frozen=True, kw_only=True)
class TenantComparison:
    """Every tenant's metrics over seeds, as intervals; `jain`: of NPU time over share, of those with a share.

    `busy_pct`: of the NPU; `mixed_pct`: runs with samples of several tenants.
    """

    serving: Serving
    tenancy: Tenancy
    inner: str
    requests: int
    seeds: int
    tenants: Mapping[str, tuple[TenantMetrics, ...]]
    jain: Interval
    busy_pct: Interval
    mixed_pct: Interval
    criteria: Mapping[str, str] = field(default_factory=dict)  # in force at the end of the first seed

    def interval(self, tenant: str, metric: str) -> Interval:
        """Return one metric of a tenant over the seeds."""
        return within(interval([float(getattr(one, metric)) for one in self.tenants[tenant]]), metric)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types: per tenant each metric as mean, low and high (95 %)."""
        rows: dict[str, Any] = {}
        for name, runs in self.tenants.items():
            row: dict[str, Any] = {}
            for key, value in runs[0].to_dict().items():
                if isinstance(value, tuple):
                    row[key] = np.mean([getattr(one, key) for one in runs], axis=0).tolist()
                elif value is not None:
                    row[key] = self.interval(name, key).to_dict()
            if name in self.criteria:
                row["criteria"] = self.criteria[name]
            rows[name] = row
        return {
            "name": self.serving.name,
            "policy": self.inner,
            "requests": self.requests,
            "seeds": self.seeds,
            "simulated": True,
            "jain": self.jain.to_dict(),
            "busy_pct": self.busy_pct.to_dict(),
            "mixed_batches_pct": self.mixed_pct.to_dict(),
            "tenants": rows,
        }


def compare_tenants(
    serving: Serving,
    tenancy: Tenancy,
    inner: str = "fluid",
    *,
    requests: int = 20_000,
    seeds: int | Sequence[int] = 10,
    slo_ns: int | None = None,
    recorded: Recorded | None = None,
    usual: Criterion | None = None,
    slots: int | None = None,
    progress: Progress | None = None,
) -> TenantComparison:
    """Serve the tenants' Poisson streams together, `requests` in all a seed, and return what each got.

    With recorded samples criteria decide who leaves where (`usual`: of tenants that have none), without them
    exits are drawn by rates and criteria may not ask for confidence. `slots`: default the largest batch and
    one a tenant. Raises SchedulerError.
    """
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    tell = progress or (lambda done, of: None)
    tell(0, len(chosen))
    streams = _Streams(serving, tenancy, requests, slo_ns, recorded, usual)
    room = serving.latency.b_max + len(tenancy.tenants) if slots is None else slots
    rows: list[dict[str, TenantMetrics]] = []
    fair, busy, mixed = [], [], []
    criteria: dict[str, str] = {}
    for seed in chosen:
        stream, exits, policy, samples = streams.draw(seed, inner)
        world = World(latency=serving.latency, exits=exits, exit_rates=serving.exit_rates, slots=room)
        done = simulate(stream, policy, world)
        right = None
        if recorded is not None and samples is not None:
            left = np.array(done.exit)
            right = np.where(left >= 0, np.asarray(recorded.correct)[samples, left], False)
        rows.append(measure_tenants(done, right=right, names=[one.name for one in tenancy.all]))
        got = npu_ns_by_tenant(done)
        fair.append(jain([got.get(one.name, 0.0) / one.share for one in tenancy.tenants if one.share > 0]))
        whole = max(max(done.end_ns) - stream[0].arrival_ns, 1)
        busy.append(100 * sum(got.values()) / whole)
        mixed.append(_mixed_pct(done))
        tell(len(rows), len(chosen))
        if not criteria and isinstance(exits, RuledExits) and isinstance(exits.rule, Criteria):
            criteria = {name: one.text for name, one in exits.rule.tenants.items()}
    names = [one.name for one in tenancy.all if all(one.name in row for row in rows)]
    return TenantComparison(
        serving=serving,
        tenancy=tenancy,
        inner=inner,
        requests=requests,
        seeds=len(chosen),
        tenants={name: tuple(row[name] for row in rows) for name in names},
        jain=dataclasses.replace(interval(fair), least=0.0, most=1.0),
        busy_pct=within(interval(busy), "busy_pct"),
        mixed_pct=within(interval(mixed), "mixed_pct"),
        criteria=criteria,
    )


def _mixed_pct(done: Schedule) -> float:
    owners = {request.id: request.tenant for request in done.requests}
    runs = [len({owners[id] for id in run.ids}) > 1 for run in done.runs]
    return 100 * float(np.mean(runs)) if runs else 0.0


class _Streams:
    """The streams of all seeds. Every mode of the same tenants meets the same arrivals and samples."""

    def __init__(
        self,
        serving: Serving,
        tenancy: Tenancy,
        requests: int,
        slo_ns: int | None,
        recorded: Recorded | None,
        usual: Criterion | None,
    ) -> None:
        self.serving, self.tenancy, self.requests, self.recorded = serving, tenancy, requests, recorded
        self.slo_ns, self.usual = {}, NEVER if usual is None else usual
        for one in tenancy.tenants:
            if one.rate_per_s is None:
                raise SchedulerError(f"tenant '{one.name}' must have a rate, since its requests are simulated")
            slo = one.slo_ns or slo_ns
            if slo is None:
                raise SchedulerError(f"tenant '{one.name}' must have an slo, or --slo must be given for all")
            self.slo_ns[one.name] = slo
        profile = ExitProfile.of_stages(serving.latency, serving.macs)
        if recorded is not None:
            profile = dataclasses.replace(profile, accuracy=recorded.accuracy, samples=recorded.samples)
        self.profile = profile
        ruled = [one for one in tenancy.tenants if one.criterion is not None or one.mode != "fixed"]
        self.ruled = recorded is not None or bool(ruled) or usual is not None
        for one in ruled:
            if recorded is None and (one.mode != "fixed" or "confidence" in (one.criterion or NEVER).quantities):
                raise SchedulerError(
                    f"tenant '{one.name}' asks for confidence, so recorded confidences must be given (--confidences)"
                )
            if one.criterion is not None:
                Bound(one.criterion, profile)  # refused here, with the tenant's own words
        self.modes = {
            one.name: make_mode(one.mode, profile, one.criterion or self.usual, recorded)
            for one in tenancy.tenants
            if one.mode != "fixed"
        }

    def draw(
        self, seed: int, inner: str
    ) -> tuple[list[Request], Sequence[int] | LiveExits, Shared, np.ndarray[Any, Any] | None]:
        """Return requests, exits, a fresh policy and the recorded sample of each request."""
        total = sum(one.rate_per_s or 0.0 for one in self.tenancy.tenants)
        seconds, rows = self.requests / total, []
        for index, one in enumerate(self.tenancy.tenants):
            count = max(1, round((one.rate_per_s or 0.0) * seconds))
            rng = np.random.default_rng([ARRIVALS, seed, index])
            drawn = poisson(one.rate_per_s or 1.0, count, slo_ns=self.slo_ns[one.name], rng=rng)
            rows += [(r.arrival_ns, index, r.deadline_ns, one.name) for r in drawn]
        rows.sort()
        stream = [Request(i, at, until, tenant=name) for i, (at, _, until, name) in enumerate(rows)]
        rng = np.random.default_rng([SAMPLES, seed])
        setting = self.serving.setting(total, max(self.slo_ns.values()))
        if not self.ruled:
            exits = draw_exits(self.serving.exit_rates, len(stream), rng).tolist()
            return stream, exits, Shared(self.tenancy, inner, setting=setting), None
        criteria, confidences, samples = Criteria(self.profile, self.usual), {}, None
        if self.recorded is not None:
            samples = self.recorded.draw_samples(len(stream), rng)
            confidences = dict(enumerate(np.asarray(self.recorded.confidences)[samples].tolist()))
        policy = Shared(self.tenancy, inner, setting=setting, criteria=criteria, modes=self.modes)
        return stream, RuledExits(rule=criteria, confidences=confidences), policy, samples
