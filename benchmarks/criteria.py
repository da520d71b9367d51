"""Prints what criteria cost on this machine: parsing, binding to a network, asking a batch of 8.

    python benchmarks/criteria.py

CPU time, the least of many repeats, so other work on the machine hardly counts.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable

from fluidnpu.dse import LatencyTable
from fluidnpu.scheduler import Request
from fluidnpu.scheduler.exits import Bound, Criteria, ExitProfile, parse_criterion

TEXTS = (
    "confidence > 0.7",
    "response_time > 20ms or confidence > 0.7",
    "confidence > [0.9, 0.8, 0.7] or next_response_time > 100ms or slack < 5ms and not confidence < 0.2",
)
BATCH = 8


def least_us(work: Callable[[], object], number: int = 500) -> float:
    """The least CPU time of one call, in us."""
    return 1e6 * min(timeit.repeat(work, timer=time.process_time, number=number, repeat=15)) / number


def main() -> None:
    """Print a row a criterion."""
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


if __name__ == "__main__":
    main()
