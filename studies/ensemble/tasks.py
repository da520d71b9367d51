"""The list of tasks of the study."""

from __future__ import annotations

from ..running.study import Size, Task
from .simulations import best_batch, cell, optimum
from .worlds import ENSEMBLES

GPUS = (1, 2, 3, 4, 5, 6, 8, 12, 16)


def study_tasks(size: Size) -> list[Task]:
    """Give every piece of the study, the longest first; nothing is drawn, so the size changes nothing."""
    cases = [("GPU", "IMN4", 4), ("GPU", "IMN12", 8), ("GPU", "IMN12", 16)]
    cases += [("board", "IMN4", 4), ("board", "IMN12", 8), ("board", "IMN12", 12), ("board", "IMN12", 16)]
    tasks = [Task("optimum", f"{name}, {count} {kind}s", optimum, (kind, name, count)) for kind, name, count in cases]
    tasks += [Task("table1", f"{name} on {count}", cell, ("GPU", name, count)) for name in ENSEMBLES for count in GPUS]
    tasks += [
        Task("table3", f"{name} on {count}", best_batch, (name, count))
        for name, count in (("IMN1", 1), ("IMN4", 4), ("IMN12", 12))
    ]
    return tasks
