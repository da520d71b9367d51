"""Prints who misses what under EdgeServing's stability score and under our policies, two networks on one NPU.

    python benchmarks/stability.py [--requests N] [--seeds N] [--markdown]

Simulated. ResNet-50 and MobileNet-v2, each with four exits at equal work, lie side by side on the array that
the quick search by the paper's model finds for an average request on the ZCU104. Each asks for half of the
NPU, and its objective is five times the time of a sample alone, to the last exit. All policies meet the same
arrivals and samples. *Early*: answered at an earlier exit than the exit rule says, so perhaps wrong; *late*:
after the objective; *p95*: in objectives. Means over seeds with intervals of 95 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache

import numpy as np

from fluidnpu.boards import load_board
from fluidnpu.dse import LatencyTable, Question, answer
from fluidnpu.models.exits import equidistant_exits
from fluidnpu.models.zoo import full_size
from fluidnpu.scheduler import Policy, Request, World, poisson, simulate
from fluidnpu.scheduler.policies.stability import Stability
from fluidnpu.scheduler.simulation import Networks
from fluidnpu.scheduler.simulation.metrics import interval
from fluidnpu.scheduler.tenants import Shared, Tenancy, Tenant, room_for

NAMES = ("resnet50", "mobilenet_v2")
EXITS, RATES = 4, (0.4, 0.2, 0.2, 0.2)  # of samples that leave at each exit
PATIENCE = 5  # objective over the time of a sample alone
LOADS = (0.5, 0.8, 1.0, 1.3)  # of what the NPU answers in full batches
B_MAX = 8
TENANCY = Tenancy(tenants=tuple(Tenant(name=name, share=0.5, network=name) for name in NAMES))
SIDE = Networks(
    stages=(EXITS, EXITS), slots=room_for(B_MAX, (1, 1)), of_tenant={name: i for i, name in enumerate(NAMES)}
)
POLICIES: dict[str, Callable[[], Policy]] = {
    "stability score": lambda: Stability(networks=SIDE),
    "its order alone, no forced exits": lambda: Stability(networks=SIDE, forces=False),
    "tenants of fluid": lambda: Shared(TENANCY, "fluid", networks=SIDE),
    "tenants of fluid, 3 % anytime": lambda: Shared(TENANCY, "fluid:anytime=3%", networks=SIDE),
    "tenants of fluid, any anytime": lambda: Shared(TENANCY, "fluid:anytime=100%", networks=SIDE),
}
Row = dict[str, list[float]]


@cache
def table() -> LatencyTable:
    """The stages of both networks on the array of their mix."""
    mix = [(equidistant_exits(full_size(name).workload, EXITS), 0.5) for name in NAMES]
    design = answer(Question.of_mix(mix, load_board("zcu104"), b_max=B_MAX, model="paper", core="rtl")).design
    return design.latency


def served(policy: Policy, load: float, requests: int, seed: int) -> dict[tuple[str, str], float]:
    """Give late and early shares in per cent and p95 in objectives, by network, of one seed."""
    arrivals, latency = [], table()
    for index, one in enumerate(SIDE.tables(latency)):
        reach = 1 - np.concatenate([[0], np.cumsum(RATES)[:-1]])
        sample_ns = sum(share * row[-1] / B_MAX for share, row in zip(reach, one.ns, strict=True))
        slo_ns = PATIENCE * one.between(0, EXITS - 1, 1)
        rate = load * 0.5 / sample_ns * 1e9
        drawn = poisson(rate, requests, slo_ns=slo_ns, rng=np.random.default_rng([seed, index]))
        arrivals += [(r.arrival_ns, index, r.deadline_ns) for r in drawn]
    until = min(max(at for at, index, _ in arrivals if index == which) for which in range(len(NAMES)))
    rows = sorted(row for row in arrivals if row[0] <= until)  # the quicker traffic ends first
    stream = [Request(i, at, due, NAMES[index]) for i, (at, index, due) in enumerate(rows)]
    leave = np.random.default_rng([seed, 99]).choice(EXITS, len(stream), p=RATES)
    exits = [int(exit) + SIDE.entry(one) for exit, one in zip(leave, stream, strict=True)]
    world = World(latency=latency, exits=exits, exit_rates=RATES * len(NAMES), networks=SIDE)
    done = simulate(stream, policy, world)
    done.check()
    found = {}
    for name in NAMES:
        mine = [i for i, one in enumerate(stream) if one.tenant == name]
        ends = np.array([done.end_ns[i] for i in mine], float)
        objective = stream[mine[0]].deadline_ns - stream[mine[0]].arrival_ns
        waited = (ends - [stream[i].arrival_ns for i in mine]) / objective
        found[name, "late"] = 100 * float((waited > 1).mean())
        found[name, "early"] = 100 * float(np.mean([done.exit[i] < exits[i] for i in mine]))
        found[name, "p95"] = float(np.percentile(waited, 95))
    return found


def main() -> None:
    """Print a row a load and policy."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--requests", type=int, default=2000, help="of each network at most")
    words.add_argument("--seeds", type=int, default=5)
    words.add_argument("--markdown", action="store_true")
    options = words.parse_args()
    heads = [f"{name} {what}" for name in NAMES for what in ("late %", "early %", "p95")]
    bar, edge = (" | ", "| ") if options.markdown else ("  ", "")
    print(edge + bar.join(["load", "policy", *heads]) + edge[::-1])
    if options.markdown:
        print("|" + "---|" * (2 + len(heads)))
    for load in LOADS:
        for policy, make in POLICIES.items():
            rows = [served(make(), load, options.requests, seed) for seed in range(options.seeds)]
            cells = []
            for name in NAMES:
                for what in ("late", "early", "p95"):
                    each = interval([row[name, what] for row in rows])
                    cells.append(f"{each.mean:.3g} ± {(each.high - each.low) / 2:.2g}")
            print(edge + bar.join([f"{load:g}", policy, *cells]) + edge[::-1], flush=True)


if __name__ == "__main__":
    main()
