"""The list of tasks of the study."""

from __future__ import annotations

from ..running.study import Size, StudyTask
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


def study_tasks(size: Size) -> list[StudyTask]:
    """Give every piece of the study, the longest first; few seeds mean few splits."""
    groups = min(GROUPS, max(1, size.seeds // 3))
    per_group = SPLITS // GROUPS if size.seeds >= GROUPS else 2
    tasks = [StudyTask("splits", f"{group}", splits, ("fashion", 0.99, group, per_group)) for group in range(groups)]
    tasks += [StudyTask("resnet101", "times", resnet101, (size,)), StudyTask("resnet101", "simple", simple_head, ())]
    tasks += [StudyTask("Fig. 18", f"{tau}", parallel_batches, (tau, size)) for tau in TAUS]
    tasks += [StudyTask("Fig. 17", name, head_costs, (name,)) for name in ("resnet101", "landmarks")]
    tasks += [StudyTask("arrival", f"fashion, {load:g}", from_arrival, ("fashion", load, size)) for load in LOADS]
    tasks += [StudyTask("arrival", f"resnet101, {load:g}", resnet101_from_arrival, (load, size)) for load in LOADS]
    for name in NAMES:
        tasks += [StudyTask("selection", f"{name}, {eta:g}", selection, (name, eta)) for eta in ETAS]
        tasks += [StudyTask("accuracy", name, accuracies, (name,)), StudyTask("matrices", name, matrices, (name,))]
        tasks += [StudyTask("checks", name, checks, (name,))]
    tasks += [StudyTask("maps", name, dense, (name,)) for name in MAPS]
    tasks += [StudyTask("adaptation", "fashion", adaptation, ("fashion", size))]
    return [*tasks, StudyTask("drift", "fashion", drift, ("fashion",))]
