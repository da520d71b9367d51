"""Streams of several tenants, merged in order of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Request, Schedule, World, simulate
from fluidnpu.scheduler.tenants import Shared, Tenancy, Tenant

MS = 10**6


def merged(arrivals_ns: Mapping[str, Sequence[int]], slo_ns: int) -> list[Request]:
    """Number the requests of all tenants in order of arrival."""
    rows = sorted((int(at), name) for name, times in arrivals_ns.items() for at in times)
    return [Request(i, at, at + slo_ns, tenant=name) for i, (at, name) in enumerate(rows)]


def poisson_ns(rate_per_s: float, seconds: float, seed: int) -> list[int]:
    rng = np.random.default_rng([90, seed])
    times = np.cumsum(rng.exponential(1e9 / rate_per_s, int(3 * rate_per_s * seconds) + 10))
    return [int(at) for at in times if at < seconds * 1e9]


def serve(
    table: LatencyTable, requests: Sequence[Request], policy: Shared, exits: Sequence[int] | None = None, slots: int = 8
) -> Schedule:
    leave = [table.stages - 1] * len(requests) if exits is None else exits
    rates = [0.0] * (table.stages - 1) + [1.0]
    done = simulate(requests, policy, World(latency=table, exits=leave, exit_rates=rates, slots=slots))
    done.check()
    return done


def equal_shares(*names: str, burst_ns: int = 20 * MS, **more: object) -> Tenancy:
    share = 1 / len(names)
    return Tenancy(tenants=tuple(Tenant(name=n, share=share, burst_ns=burst_ns, **more) for n in names))  # type: ignore[arg-type]


names = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)


@st.composite
def tenancies(draw: st.DrawFn) -> Tenancy:
    """Draw up to three tenants with any shares, bursts and terms."""
    chosen = draw(names)
    parts = [draw(st.integers(0, 5)) for _ in chosen]
    whole = max(1, sum(parts)) * draw(st.sampled_from([1, 2]))
    return Tenancy(
        tenants=tuple(
            Tenant(
                name=name,
                share=part / whole,
                burst_ns=draw(st.integers(1, 300)),
                at_limit=draw(st.sampled_from(["delay", "drop"])),
                borrow=draw(st.booleans()),
                cooperative=draw(st.booleans()),
            )
            for name, part in zip(chosen, parts, strict=True)
        ),
        interval_ns=draw(st.integers(20, 500)),
    )
