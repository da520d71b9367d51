"""Prints bounds on violations for the rows of Table II, without a limit on the tail and with some.

    python benchmarks/bounds.py [requests]

Each row's own rate and objective, one stream of the first seed. A limit lets at most one request in a hundred
take longer: `fluid`'s own p99 on the stream, and multiples of the least p99 that any scheduler could have.
Bounds are of schedulers that know the future; the violations of `fluid` beside them are simulated.
"""

from __future__ import annotations

import sys

import numpy as np

from fluidnpu.scheduler import SchedulerError, World, make_policy, simulate
from fluidnpu.scheduler.comparison import Source
from fluidnpu.scheduler.simulation import least_p99_ns, least_violations, least_violations_within
from fluidnpu.studies.fluid_batching.paper import table2_rows

REQUESTS = 4000
TIMES = (1.01, 1.5, 2.0)  # of the least p99


def main() -> None:
    """Print a line a row."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    limits = ["fluid's p99", *(f"{times:g} x least" for times in TIMES)]
    print(f"{'row':22} {'fluid':>6} {'bound':>6} {'least p99 ms':>13} " + " ".join(f"{one:>12}" for one in limits))
    for row in table2_rows():
        drawn = Source(rate_per_s=row.rate_per_s, slo_ns=row.slo_ns, count=count).draw(row.serving, 0)
        table, setting = row.serving.latency, row.serving.setting(row.rate_per_s, row.slo_ns)
        world = World(latency=table, exits=drawn.exits, exit_rates=row.serving.exit_rates)
        done = simulate(drawn.requests, make_policy("fluid", setting), world)
        took = np.sort([record.latency_ns for record in done.records])
        least = least_p99_ns(drawn.requests, drawn.exits, table)
        found = []
        for limit in (int(took[-1 - count // 100]), *(int(times * least) for times in TIMES)):
            try:
                found.append(str(least_violations_within(drawn.requests, drawn.exits, table, limit)))
            except SchedulerError:
                found.append("none" if limit >= row.slo_ns else "-")
        late = sum(record.late for record in done.records)
        plain = least_violations(drawn.requests, drawn.exits, table)
        print(f"{row.name:22} {late:6} {plain:6} {least / 1e6:13.1f} " + " ".join(f"{one:>12}" for one in found))
    print("none: no scheduler has that tail; -: the limit is below the objective, so the bound does not ask it")


if __name__ == "__main__":
    main()
