"""Tenants: a limit, a burst, a victim beside a flood (Figs. 13 to 15, and ours)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluidnpu.scheduler import Request, World, make_policy, simulate
from fluidnpu.scheduler.exits import NEVER, Criteria, RuledExits, make_mode
from fluidnpu.scheduler.simulation import interval
from fluidnpu.scheduler.tenants import Shared, Tenancy, Tenant, measure_tenants, npu_ns_by_tenant

from ..running.study import Size
from ..writing import mean_low_high
from .modes import criterion_of
from .settings import BURST, FULL_MS, PHASE_S, STAGES, TENANTS, profile, samples, seeds_of, table

SLO_NS = 10**11  # nobody is refused, and lateness is not the question here
LIMIT_RATES = (5, 10, 15, 20, 25)
LIMIT = 0.5
FLOODS = (0, 5, 20, 80)
VICTIM_PER_S, FLOOD_S, BURST_MS = 10.0, 30, 100


def serve_limited(mode: str, rate_per_s: float, size: Size) -> list[float | None]:
    """Return the share of the NPU that one application uses whose limit is a half, until its last arrival."""
    criterion, used = criterion_of(mode, rate_per_s, share=LIMIT), []
    test = samples("img1", "test")
    for seed in seeds_of(size):
        arrivals = poisson_ns(rate_per_s, PHASE_S, np.random.default_rng([83, seed]))
        requests = [Request(i, at, at + SLO_NS, "app") for i, at in enumerate(arrivals)]
        drawn = test.draw_samples(len(requests), np.random.default_rng([84, seed]))
        live = RuledExits(
            rule=Criteria(profile("img1"), criterion),
            confidences=dict(enumerate(np.asarray(test.confidences)[drawn].tolist())),
        )
        tenancy = Tenancy(tenants=(Tenant(name="app", share=LIMIT, burst_ns=10**7, borrow=False),))
        done = simulate(requests, Shared(tenancy, "serial"), world(live, slots=2))
        used.append(npu_ns_by_tenant(done, arrivals[-1])["app"] / arrivals[-1])
    return mean_low_high(interval(used))


def world(exits: Any, slots: int) -> World:
    """Return the NPU of the study with these exits."""
    return World(latency=table(), exits=exits, exit_rates=(1 / len(STAGES),) * len(STAGES), slots=slots)


def poisson_ns(rate_per_s: float, seconds: float, rng: np.random.Generator) -> list[int]:
    """Return arrivals in ns of a Poisson process of this length."""
    times = np.cumsum(rng.exponential(1e9 / rate_per_s, int(2 * rate_per_s * seconds) + 50))
    return [int(at) for at in times[times < seconds * 1e9]]


def burst(cooperative: bool, size: Size) -> dict[str, Any]:
    """Return what three applications get before and during a burst of the first.

    Each has the mode Pareto on a network of its own; the three networks take equally long.
    """
    rows: dict[str, dict[str, list[float]]] = {}
    for seed in seeds_of(size):
        for key, row in _burst_once(cooperative, seed).items():
            for name, value in row.items():
                rows.setdefault(key, {}).setdefault(name, []).append(value)
    return {key: {name: mean_low_high(interval(v)) for name, v in row.items()} for key, row in rows.items()}


def _burst_once(cooperative: bool, seed: int) -> dict[str, dict[str, float]]:
    names, total = list(TENANTS), sum(TENANTS.values())
    tenants = tuple(
        Tenant(name=n, share=r / total, mode="pareto", cooperative=cooperative, rate_per_s=r, burst_ns=20 * 10**6)
        for n, r in TENANTS.items()
    )
    stream: list[tuple[int, str]] = []
    for index, (name, rate) in enumerate(TENANTS.items()):
        rng = np.random.default_rng([85, seed, index])
        for phase in range(3):
            more = BURST if name == "img1" and phase == 1 else 1.0
            since = phase * PHASE_S * 10**9
            stream += [(since + at, name) for at in poisson_ns(more * rate, PHASE_S, rng)]
    stream.sort()
    requests = [Request(i, at, at + SLO_NS, name) for i, (at, name) in enumerate(stream)]
    owners = np.array([name for _, name in stream])
    drawn = np.zeros(len(stream), np.int64)
    rows: dict[int, list[float]] = {}
    for index, name in enumerate(names):
        own = np.flatnonzero(owners == name)
        test = samples(name, "test")
        drawn[own] = test.draw_samples(len(own), np.random.default_rng([86, seed, index]))
        rows |= dict(zip(own.tolist(), np.asarray(test.confidences)[drawn[own]].tolist(), strict=True))
    criteria = Criteria(profile("img1"), NEVER)
    modes = {name: make_mode("pareto", profile(name), NEVER, samples(name, "select")) for name in names}
    policy = Shared(Tenancy(tenants=tenants), "serial", criteria=criteria, modes=modes)
    done = simulate(requests, policy, world(RuledExits(rule=criteria, confidences=rows), slots=len(names) + 1))
    left, start, end = (np.array(x) for x in (done.exit, done.start_ns, done.end_ns))
    arrival = np.array([request.arrival_ns for request in done.requests])
    shares: dict[str, dict[str, float]] = {}
    for label, low, high in (("before", 5, PHASE_S), ("during", PHASE_S + 3, 2 * PHASE_S)):
        within = (arrival >= low * 10**9) & (arrival < high * 10**9)
        for name in names:
            own = within & (owners == name)
            shares[f"{name} {label}"] = _phase(name, own, left, start, end, arrival, drawn)
    return shares


def _phase(
    name: str, own: NDArray[np.bool_], left: Any, start: Any, end: Any, arrival: Any, drawn: NDArray[np.int64]
) -> dict[str, float]:
    """Return service (NPU time of the exit), response and accuracy of some requests."""
    alone = np.asarray(profile(name).alone_ns) / 1e6
    right = np.asarray(samples(name, "test").correct)[drawn[own], left[own]]
    response = (end - arrival)[own] / 1e6
    return {
        "service_ms": float(alone[left[own]].mean()),
        "response_ms": float(response.mean()),
        "p99_ms": float(np.percentile(response, 99)),
        "accuracy_pct": 100 * float(right.mean()),
    }


def isolation(flood_per_s: float, size: Size) -> dict[str, Any]:
    """Return a victim's p99 in ms beside a flood: with tenants, and with one queue for all."""
    test = samples("img1", "test")
    bound = criterion_of("Pareto", 4 * VICTIM_PER_S)  # it wants half of its share
    waits: dict[str, list[float]] = {"tenants": [], "one queue": []}
    for seed in seeds_of(size):
        rng = np.random.default_rng([87, seed])
        victims = poisson_ns(VICTIM_PER_S, FLOOD_S, rng)
        flood = poisson_ns(flood_per_s, FLOOD_S, rng) if flood_per_s else []
        stream = sorted([(at, "victim") for at in victims] + [(at, "flood") for at in flood])
        requests = [Request(i, at, at + SLO_NS, name) for i, (at, name) in enumerate(stream)]
        drawn = test.draw_samples(len(requests), np.random.default_rng([88, seed]))
        confidences = dict(enumerate(np.asarray(test.confidences)[drawn].tolist()))
        tenancy = Tenancy(
            tenants=tuple(Tenant(name=n, share=0.5, burst_ns=BURST_MS * 10**6) for n in ("victim", "flood"))
        )
        for key, policy in (("tenants", Shared(tenancy, "serial")), ("one queue", make_policy("serial"))):
            criteria = Criteria(profile("img1"), "false")
            criteria.set(bound, tenant="victim")
            done = simulate(requests, policy, world(RuledExits(rule=criteria, confidences=confidences), slots=3))
            waits[key].append(measure_tenants(done)["victim"].p99_ms)
    return {key: mean_low_high(interval(values)) for key, values in waits.items()}


LONGEST_STAGE_MS = max(STAGES) * FULL_MS
