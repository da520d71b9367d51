"""Prints throughput and latency against the largest batch: tenants that share batches, and tenants apart.

    python benchmarks/tenants.py [--requests N] [--seeds N] [--design N]

Simulated. Four tenants with a quarter of the NPU each serve one network in four stages, on arrays for three
full-size networks (quick search by the paper's model). *Together* tenants share batches; *apart* each
tenant has batches of its own, as if its network were another one. Both meet the same arrivals: latencies at
nine tenths of what the NPU serves with full batches, and the most that is served at twice as much.
"""

from __future__ import annotations

import argparse

import numpy as np

from fluidnpu.boards import load_board
from fluidnpu.dse import LatencyTable, explore
from fluidnpu.models.exits import equidistant_exits
from fluidnpu.models.zoo import full_size
from fluidnpu.scheduler import Request, Serving, World, poisson, simulate
from fluidnpu.scheduler.simulation import Networks
from fluidnpu.scheduler.tenants import Shared, Tenancy, Tenant

NAMES = ("a", "b", "c", "d")
RATES = (0.4, 0.2, 0.2, 0.2)  # of samples that leave at each exit
LOAD, OVERLOAD = 0.9, 2.0
SHORT = 4  # an overload needs fewer requests by so much: its backlog is there at once
BATCHES = (1, 2, 4, 8)
DESIGNS = (("resnet50", "zcu104"), ("inception_v3", "zc706"), ("mobilenet_v2", "zc706"))


def serving_of(network: str, board: str) -> Serving:
    """Return the latency table of a quick design for a network cut into four stages."""
    return Serving.of(
        explore(equidistant_exits(full_size(network).workload, 4), load_board(board), model="paper", core="rtl").design,
        RATES,
    )


def served(
    serving: Serving, b_max: int, apart: bool, requests: int, seed: int, load: float = LOAD
) -> tuple[float, float, float]:
    """Return answers a second, the worst tenant's p99 in ms and the mean batch of one seed."""
    table = LatencyTable(ns=tuple(row[:b_max] for row in serving.latency.ns))
    rate = load / serving.least_load(1.0)
    arrivals = []
    for index, name in enumerate(NAMES):
        rng = np.random.default_rng([seed, index])
        drawn = poisson(rate / len(NAMES), requests // len(NAMES), slo_ns=10**12, rng=rng)
        arrivals += [(one.arrival_ns, name) for one in drawn]
    stream = [Request(i, at, at + 10**12, name) for i, (at, name) in enumerate(sorted(arrivals))]
    exits = np.random.default_rng([seed, 99]).choice(len(RATES), len(stream), p=RATES)
    each = (Tenant(name=name, share=1 / len(NAMES), network=name if apart else "") for name in NAMES)
    tenancy = Tenancy(tenants=tuple(each))
    side = None
    if apart:
        own = {name: index for index, name in enumerate(NAMES)}
        side = Networks(stages=(len(RATES),) * len(NAMES), slots=(8,) * len(NAMES), of_tenant=own)
        exits = exits + [side.entry(one) for one in stream]
        table = LatencyTable(ns=table.ns * len(NAMES))
    rates = RATES * (len(NAMES) if apart else 1)
    world = World(latency=table, exits=exits.tolist(), exit_rates=rates, slots=32, networks=side)
    done = simulate(stream, Shared(tenancy, "fluid", networks=side), world)
    done.check()
    ends, begins = np.array(done.end_ns), np.array([one.arrival_ns for one in stream])
    owners = np.array([one.tenant for one in stream])
    p99 = max(float(np.percentile((ends - begins)[owners == name], 99)) for name in NAMES)
    return len(stream) * 1e9 / (ends.max() - begins[0]), p99 / 1e6, float(np.mean([len(r.ids) for r in done.runs]))


def main() -> None:
    """Print a row a design and largest batch."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--requests", type=int, default=4000)
    words.add_argument("--seeds", type=int, default=3)
    words.add_argument("--design", type=int, choices=range(len(DESIGNS)), help="one of them alone")
    options = words.parse_args()
    print(f"simulated; most answers/s, then at a load of {LOAD:g}: answers/s, worst tenant's p99 in ms, mean batch")
    print(f"{'design':>26} {'b_max':>5} | {'together':>38} | {'apart':>38}")
    for network, board in DESIGNS if options.design is None else DESIGNS[options.design : options.design + 1]:
        serving = serving_of(network, board)
        for b_max in BATCHES:
            cells = []
            for apart in (False, True):
                rows = [served(serving, b_max, apart, options.requests, seed) for seed in range(options.seeds)]
                rate, p99, batch = np.mean(rows, axis=0)
                most = served(serving, b_max, apart, options.requests // SHORT, 0, OVERLOAD)[0]
                cells.append(f"{most:8.1f} {rate:9.1f} {p99:12.1f} {batch:6.2f}")
            print(f"{network + ' on ' + board:>26} {b_max:>5} | {cells[0]:>38} | {cells[1]:>38}", flush=True)


if __name__ == "__main__":
    main()
