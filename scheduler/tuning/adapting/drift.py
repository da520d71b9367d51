"""A load that changes and changes back, served in the simulator with adaptation and without.

Samples are drawn from the plan's own recorded ones, so the load before and after is the one of the selection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SchedulerError
from ...exits.certificate import Promise
from ...exits.criteria import Criteria
from ...exits.profile import ExitProfile
from ...exits.ruled import RuledExits
from ...policies.registry import make_policy
from ...policies.setting import Setting
from ...simulation.active import ActiveExits, ExitSet, Watcher
from ...simulation.engine import simulate
from ...simulation.schedule import Schedule
from ...simulation.traffic import poisson
from ...simulation.world import World
from .adaptation import Adaptation, AdaptationEvent, Watching
from .certifying import Certifier
from .plan import AdaptationPlan
from .utility import Utility

DRIFTS = ("hard", "easy", "none")
PHASES = ("before", "during", "after")
CERTIFIED, UTILITY = "certified", "by utility"


@dataclass(frozen=True, kw_only=True)
class DriftPhase:
    """One third of a simulated stream; `kept`: precision over the last exit's on the same samples.

    `same`: answers that are the last exit's.
    """

    name: str
    early: float
    kept: float
    same: float
    average_ms: float
    p99_ms: float


@dataclass(frozen=True, kw_only=True)
class Drifted:
    """The outcome of one stream: phases without and with adaptation, and what adaptation did.

    `others`: phases under a certificate, and under Apparate's rules with its eta, where one was asked for;
    `certificate`: its report at the end. `noticed`: requests from the change of the load to the first alarm
    or change; None where none came. `shadow_pct`: NPU time of samples that ran on, over that of all others.
    """

    drift: str
    classes: tuple[int, ...]
    fixed: tuple[DriftPhase, ...]
    adapted: tuple[DriftPhase, ...]
    events: tuple[AdaptationEvent, ...]
    noticed: int | None
    shadow_pct: float
    others: Mapping[str, tuple[DriftPhase, ...]] = field(default_factory=dict)
    certificate: Mapping[str, Any] = field(default_factory=dict)


def simulate_drift(
    plan: AdaptationPlan,
    drift: str,
    *,
    rate_per_s: float,
    slo_ns: int,
    requests: int = 12_000,
    policy: str = "fluid",
    watching: Watching | None = None,
    promise: Promise | None = None,
    seed: int = 0,
) -> Drifted:
    """Serve a stream whose middle third holds the hard, or the easy, half of the classes alone.

    `promise`: that of a certificate, which is served, too, and beside it Apparate's rules. Hard classes are
    those of which fewest leave at the first active exit. Raises SchedulerError.
    """
    if drift not in DRIFTS:
        raise SchedulerError(f"a drift must be one of {', '.join(DRIFTS)}, not '{drift}'")
    if requests < len(PHASES):
        raise SchedulerError(f"a stream of three phases needs at least 3 requests, not {requests}")
    rng = np.random.default_rng([74, seed])
    chosen = _classes(plan, drift)
    third = requests // len(PHASES)
    pool, part = np.arange(len(plan.truths)), np.flatnonzero(np.isin(plan.truths, chosen))
    rows = np.concatenate([rng.choice(pool, third), rng.choice(part, third), rng.choice(pool, requests - 2 * third)])
    edges = (0, third, 2 * third, requests)
    stream = poisson(rate_per_s, requests, slo_ns=slo_ns, rng=rng)

    def served(way: str) -> tuple[Schedule, Any]:
        times = plan.part_times
        criteria = Criteria(ExitProfile(latency=times.whole), "false")
        own = way in ("fixed", "adapting")
        first = plan.exits if own else ExitSet((1.0,) * len(plan.names))
        active = ActiveExits(times, first, plan.rates, criteria.obey)
        facts: dict[str, Any] = {
            "classes": dict(enumerate(plan.classes[rows].tolist())),
            "confidences": dict(enumerate(plan.confidence[rows].tolist())),
        }
        watch: Watcher | None = None
        if way == "adapting":
            watch = Adaptation(active, plan, watching, seed=seed, classes=facts["classes"])
        elif way == CERTIFIED and promise is not None:
            watch = Certifier(active, promise, batch=times.whole.b_max, seed=seed, **facts)
        elif way == UTILITY and promise is not None:
            watch = Utility(active, promise.eta, **facts)
        setting = Setting(latency=active.now.latency, exit_rates=plan.rates, rate_per_s=rate_per_s, slo_ns=slo_ns)
        world = World(
            latency=active.now.latency,
            exits=RuledExits(rule=criteria, confidences=facts["confidences"]),
            exit_rates=plan.rates,
            active=active,
            watch=watch,
        )
        return simulate(stream, make_policy(policy, setting), world), watch

    fixed, _ = served("fixed")
    adapted, watch = served("adapting")
    others, certificate = {}, {}
    if promise is not None:
        certified, certifier = served(CERTIFIED)
        certificate = certifier.report()
        others = {
            CERTIFIED: _phases(plan, rows, certified, edges),
            UTILITY: _phases(plan, rows, served(UTILITY)[0], edges),
        }
    acts = [event.requests for event in watch.events if event.requests > third]
    busy = sum(adapted.run_end_ns) - sum(run.start_ns for run in adapted.runs)
    return Drifted(
        drift=drift,
        classes=tuple(int(label) for label in chosen),
        fixed=_phases(plan, rows, fixed, edges),
        adapted=_phases(plan, rows, adapted, edges),
        events=tuple(watch.events),
        noticed=acts[0] - third if acts and drift != "none" else None,
        shadow_pct=100 * watch.counts.shadow_ns / max(1, busy - watch.counts.shadow_ns),
        others=others,
        certificate=certificate,
    )


def _classes(plan: AdaptationPlan, drift: str) -> NDArray[np.int64]:
    """Return the classes of a drift, by the share of each that leaves at the first active exit."""
    classes = np.unique(plan.truths)
    if drift == "none" or len(classes) < 2:
        return classes
    active = plan.exits.active
    if not active:
        raise SchedulerError("a plan without active exits has nothing that could drift")
    threshold = plan.exits.thresholds[active[0]]
    leaves = plan.confidence[:, active[0]] > (1.0 if threshold is None else threshold)
    order = classes[np.argsort([leaves[plan.truths == label].mean() for label in classes], kind="stable")]
    half = len(classes) // 2
    return np.sort(order[:half] if drift == "hard" else order[-half:])


def _phases(
    plan: AdaptationPlan, rows: NDArray[np.int64], schedule: Schedule, edges: tuple[int, ...]
) -> tuple[DriftPhase, ...]:
    exit = np.array(schedule.exit)
    answered = exit >= 0
    right = np.where(answered, plan.answers.right[rows, exit], False)
    last = plan.answers.right[rows, -1]
    same = answered & (plan.classes[rows, exit] == plan.classes[rows, -1])
    took = (np.array(schedule.end_ns) - np.array([request.arrival_ns for request in schedule.requests])) / 1e6
    changes = []
    for name, start, end in zip(PHASES, edges[:-1], edges[1:], strict=True):
        part = slice(start, end)
        changes.append(
            DriftPhase(
                name=name,
                early=float(np.mean(answered[part] & (exit[part] < len(plan.names)))),
                kept=float(right[part].sum() / max(1, last[part].sum())),
                same=float(same[part].mean()),
                average_ms=float(took[part].mean()),
                p99_ms=float(np.quantile(took[part], 0.99)),
            )
        )
    return tuple(changes)
