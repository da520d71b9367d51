"""Prints what the exit check of a sample costs the host: of classes, of heat maps and of label maps.

    python benchmarks/map_checks.py

CPU time of one process on this machine, a batch of 8, the least of several rounds. On a board's ARM it takes
longer; nothing was measured there.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from fluidnpu.models.exits import sureness
from fluidnpu.models.graph import Check, ExitCheck, MapCheck, MapTask, keypoints, label_map

BATCH = 8
ROUNDS = 7
CHECKS: tuple[tuple[str, Check, int], ...] = (
    ("1,000 classes, top", ExitCheck.TOP, 1000),
    *(
        (f"landmarks {side} x {side} x 16, top 5", MapCheck(task=MapTask.LANDMARKS, shape=(side, side, 16)), 0)
        for side in (24, 48, 96)
    ),
    *(
        (
            f"segmentation {side} x {side} x 19, every {every}",
            MapCheck(task=MapTask.SEGMENTATION, shape=(side, side, 19), every=every),
            0,
        )
        for side in (64, 128)
        for every in (1, 2, 4)
    ),
)


def least_us(work: Callable[[], object]) -> float:
    """Return the least CPU time of one call, in us a sample."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        work()
        found.append(time.process_time_ns() - start)
    return min(found) / 1e3 / BATCH


def main() -> None:
    """Print a line a check."""
    rng = np.random.default_rng(0)
    print(f"{'host CPU, us a sample':40} {'check':>9} {'answer':>9}")
    for name, check, classes in CHECKS:
        size = int(np.prod(check.shape)) if isinstance(check, MapCheck) else classes
        values = rng.normal(0, 3, (BATCH, size))
        row = f"{name:40} {least_us(lambda v=values, c=check: sureness(v, c)):9.1f}"  # type: ignore[misc]
        if isinstance(check, MapCheck):
            answer = keypoints if check.task is MapTask.LANDMARKS else label_map
            row += f" {least_us(lambda v=values, c=check, a=answer: a(v, c)):9.1f}"  # type: ignore[misc]
        print(row)


if __name__ == "__main__":
    main()
