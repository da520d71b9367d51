"""Bounds on what criteria cost the host (Table 3): kept or not, no times, so that two runs can be compared.

`benchmarks/criteria.py` prints the times.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np

from fluidnpu.scheduler import Request
from fluidnpu.scheduler.exits import NEVER, Criteria, make_mode

from .settings import NETWORKS, SLO_MS, THRESHOLD, profile, samples

BATCH = 8
ASK_US, FRONT_US, OTHER_US = 100.0, 2600.0, 70.0  # the paper's, on a Jetson Nano
REPEATS, CALLS = 15, 50
EITHER = f"response_time > {SLO_MS}ms or confidence > {THRESHOLD}"


def host_bounds() -> dict[str, Any]:
    """Return for each of Table 3's figures if the least CPU time on this host keeps it."""
    network = NETWORKS[0]
    facts, data = profile(network), samples(network, "select")
    criteria = Criteria(facts, EITHER)
    requests, started = [Request(i, 0, 10**9) for i in range(BATCH)], [5] * BATCH
    sure = np.linspace(0.1, 0.6, BATCH).tolist()
    checks = {"ask": least_us(lambda: criteria.leaving(requests, started, 0, 10**6, sure)) / BATCH <= ASK_US}
    for name, most_us in (("pareto", FRONT_US), ("per-workload", OTHER_US)):
        mode = make_mode(name, facts, NEVER, data)
        budgets = cycle((20e6, 30e6))
        checks[name] = least_us(lambda m=mode, b=budgets: criteria.set(m.criterion(next(b)), tenant="a")) <= most_us  # type: ignore[misc]
    return checks


def least_us(work: Callable[[], object], calls: int = CALLS) -> float:
    """Return the least CPU time of one call in us, which other work on the machine hardly changes."""
    return 1e6 * min(timeit.repeat(work, timer=time.process_time, number=calls, repeat=REPEATS)) / calls
