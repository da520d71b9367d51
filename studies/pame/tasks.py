"""The list of tasks of the study."""

from __future__ import annotations

from ..running.study import Size, Task
from .arrivals import LOADS, from_arrival, resnet101_from_arrival
from .load import adaptation
from .maps import dense
from .simulations import (
    ETAS,
    TAUS,
    accuracies,
    checks,
    drift,
    head_costs,
    matrices,
    parallel_batches,
    resnet101,
    selection,
    simple_head,
    splits,
)

SPLITS = 200
GROUPS = 10
NAMES = ("fashion", "digits")
MAPS = ("landmarks", "segmentation")


def study_tasks(size: Size) -> list[Task]:
    """Give every piece of the study, the longest first; few seeds mean few splits."""
    groups = min(GROUPS, max(1, size.seeds // 3))
    each = SPLITS // GROUPS if size.seeds >= GROUPS else 2
    tasks = [Task("splits", f"{group}", splits, ("fashion", 0.99, group, each)) for group in range(groups)]
    tasks += [Task("resnet101", "times", resnet101, (size,)), Task("resnet101", "simple", simple_head, ())]
    tasks += [Task("Fig. 18", f"{tau}", parallel_batches, (tau, size)) for tau in TAUS]
    tasks += [Task("Fig. 17", name, head_costs, (name,)) for name in ("resnet101", "landmarks")]
    tasks += [Task("arrival", f"fashion, {load:g}", from_arrival, ("fashion", load, size)) for load in LOADS]
    tasks += [Task("arrival", f"resnet101, {load:g}", resnet101_from_arrival, (load, size)) for load in LOADS]
    for name in NAMES:
        tasks += [Task("selection", f"{name}, {eta:g}", selection, (name, eta)) for eta in ETAS]
        tasks += [Task("accuracy", name, accuracies, (name,)), Task("matrices", name, matrices, (name,))]
        tasks += [Task("checks", name, checks, (name,))]
    tasks += [Task("maps", name, dense, (name,)) for name in MAPS]
    tasks += [Task("adaptation", "fashion", adaptation, ("fashion", size))]
    return [*tasks, Task("drift", "fashion", drift, ("fashion",))]
