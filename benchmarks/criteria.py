"""Prints what criteria cost on this machine, fronts and their updates, and how shares are held over a second.

    python benchmarks/criteria.py

CPU time, the least of many repeats, so other work on the machine hardly counts. Shares are simulated: three
tenants that always want the NPU, in the second after the first, which has the bursts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Request, World, simulate
from fluidnpu.scheduler.exits import (
    AdaptationMode,
    Bound,
    Criteria,
    ExitProfile,
    Recorded,
    front_of,
    make_mode,
    parse_criterion,
)
from fluidnpu.scheduler.tenants import Shared, Tenancy, Tenant, jain, npu_ns_by_tenant
from fluidnpu.studies.delen.host import least_us

TEXTS = (
    "confidence > 0.7",
    "response_time > 20ms or confidence > 0.7",
    "confidence > [0.9, 0.8, 0.7] or next_response_time > 100ms or slack < 5ms and not confidence < 0.2",
)
BATCH = 8
SHARES = {"a": 0.5, "b": 0.3, "c": 0.2}
SECOND_NS = 10**9


def held() -> str:
    """Return the shares of a second among tenants that all demand, and Jain's index of time over share."""
    table = LatencyTable(ns=tuple((1_000_000, 1_500_000, 2_000_000, 2_500_000) for _ in range(4)))
    tenancy = Tenancy(tenants=tuple(Tenant(name=n, share=s, burst_ns=5_000_000) for n, s in SHARES.items()))
    requests = [
        Request(i, 0, 10**12, tenant=name) for i, name in enumerate(name for name in SHARES for _ in range(700))
    ]
    world = World(latency=table, exits=[3] * len(requests), exit_rates=(0, 0, 0, 1), slots=7)
    done = simulate(requests, Shared(tenancy, "fluid"), world)
    first, both = (npu_ns_by_tenant(done, seconds * SECOND_NS) for seconds in (1, 2))
    got = {name: (both[name] - first[name]) / SECOND_NS for name in SHARES}
    off = max(abs(got[name] - share) for name, share in SHARES.items())
    index = jain([got[name] / share for name, share in SHARES.items()])
    told = ", ".join(f"{got[name]:.4f} of {share:g}" for name, share in SHARES.items())
    return f"shares over a second (simulated): {told}; at most {100 * off:.2f} points off; Jain's index {index:.6f}"


def main() -> None:
    """Print a row a criterion, then fronts and shares."""
    profile = ExitProfile(latency=LatencyTable(ns=((100, 150), (80, 120), (80, 120), (60, 90))))
    requests = [Request(i, 1000 * i, 10**9) for i in range(BATCH)]
    started, sure = [5] * BATCH, [0.1 * i for i in range(BATCH)]
    print(f"{'parse us':>9} {'bind us':>9} {f'ask {BATCH} us':>9}  criterion")
    for text in TEXTS:
        criterion = parse_criterion(text)
        criteria = Criteria(profile, criterion)
        asked = least_us(lambda one=criteria: one.leaving(requests, started, 0, 10**7, sure))  # type: ignore[misc]
        parsed = least_us(lambda one=text: parse_criterion.__wrapped__(one), 100)  # type: ignore[misc]
        bound = least_us(lambda one=criterion: Bound(one, profile), 100)  # type: ignore[misc]
        print(f"{parsed:9.1f} {bound:9.1f} {asked:9.1f}  {text}")
    rng = np.random.default_rng(0)
    table = np.sort(rng.random((5000, 4)), axis=1)
    recorded = Recorded(confidences=table, correct=rng.random(table.shape) < table)
    front = front_of(recorded, profile)
    made = least_us(lambda: front_of(recorded, profile), 1)
    print(f"front of {front.tried} combinations on 5000 samples: {made / 1e3:.1f} ms, {len(front.points)} points")
    for mode in ("pareto", "per-workload"):
        one = make_mode(mode, profile, parse_criterion("false"), recorded)
        criteria = Criteria(profile, "false")

        budgets = itertools.cycle((150, 250))

        def update(one: AdaptationMode = one, criteria: Criteria = criteria, budgets: Iterator[int] = budgets) -> None:
            criteria.set(one.criterion(next(budgets)), tenant="a")

        print(f"updating a criterion, {mode}: {least_us(update, 100):.1f} us")
    print(held())


if __name__ == "__main__":
    main()
