"""The study of PAME: its tasks and its figures, as the catalogue finds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..drawing.charts import line_panels
from ..running.exhibits import Exhibits
from ..running.study import Size, Study, StudyTask
from . import simulations as run
from .arrivals import LOADS, from_arrival, resnet101_from_arrival
from .load import adaptation
from .maps import dense
from .quantities import MAPS, NAMES, split_rows

SPLITS = 200
GROUPS = 10


def study_tasks(size: Size) -> list[StudyTask]:
    """Give every piece of the study, the longest first; few seeds mean few splits."""
    groups = min(GROUPS, max(1, size.seeds // 3))
    per_group = SPLITS // GROUPS if size.seeds >= GROUPS else 2
    tasks = [
        StudyTask("splits", f"{group}", run.splits, ("fashion", 0.99, group, per_group)) for group in range(groups)
    ]
    tasks += [
        StudyTask("resnet101", "times", run.resnet101, (size,)),
        StudyTask("resnet101", "simple", run.simple_head, ()),
    ]
    tasks += [StudyTask("Fig. 18", f"{tau}", run.parallel_batches, (tau, size)) for tau in run.TAUS]
    tasks += [StudyTask("Fig. 17", name, run.head_costs, (name,)) for name in ("resnet101", "landmarks")]
    tasks += [StudyTask("arrival", f"fashion, {load:g}", from_arrival, ("fashion", load, size)) for load in LOADS]
    tasks += [StudyTask("arrival", f"resnet101, {load:g}", resnet101_from_arrival, (load, size)) for load in LOADS]
    for name in NAMES:
        tasks += [StudyTask("selection", f"{name}, {eta:g}", run.selection, (name, eta)) for eta in run.ETAS]
        tasks += [
            StudyTask("accuracy", name, run.accuracies, (name,)),
            StudyTask("matrices", name, run.matrices, (name,)),
        ]
        tasks += [StudyTask("checks", name, run.checks, (name,))]
    tasks += [StudyTask("maps", name, dense, (name,)) for name in MAPS]
    tasks += [StudyTask("adaptation", "fashion", adaptation, ("fashion", size))]
    return [*tasks, StudyTask("drift", "fashion", run.drift, ("fashion",))]


def study_figures(study: Mapping[str, Any]) -> dict[str, str]:
    """Draw every figure of the study, by name."""
    parts = study["parts"]
    times, seen = parts["resnet101"]["times"], parts["accuracy"]
    accuracy = {
        f"{NAMES[name]}: accuracy (%) by block": {
            "early exits": list(zip(seen[name]["blocks"], seen[name]["exits_pct"][:-1], strict=True)),
            "last exit": [(block, seen[name]["exits_pct"][-1]) for block in seen[name]["blocks"]],
            "single exit trained as long": [(block, seen[name]["reference_pct"]) for block in seen[name]["blocks"]],
        }
        for name in NAMES
    }
    alone = {
        f"{title}: average in service with one exit (%), eta 0.99": {
            "one exit": [
                (place, row.get("average_change_pct", 0))
                for place, row in enumerate(parts["selection"][f"{name}, 0.99"]["alone"], 1)
            ]
        }
        for name, title in NAMES.items()
    }
    allowed = {
        "ResNet-101: samples of 16 that may move on": {
            "from the times": list(zip(times["blocks"], times["allowed"], strict=True)),
            "n (1 - head / rest)": list(zip(times["blocks"], times["allowed_by_work"], strict=True)),
        }
    }
    each = {which: [row[which] for row in split_rows(parts) if row[which]] for which in ("naive", "guaranteed")}
    dots = {which: [(row["kept_pct"], row["average_change_pct"]) for row in rows] for which, rows in each.items()}
    return {
        "Fig. 2": line_panels(accuracy, "block"),
        "Fig. 12": line_panels(alone, "candidate"),
        "Fig. 13": line_panels(allowed, "block", ticks=times["blocks"]),
        "splits": line_panels(
            {"Fashion-MNIST: average in service (%) of each split": dots},
            "precision kept on the other quarter (%)",
            joined=False,
            upright=99,
        ),
        "maps": line_panels(
            {f"{title}: score (%)": _scores(parts["maps"][name]) for name, title in MAPS.items()}, "block"
        ),
    }


def _scores(part: Mapping[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """Give the score by block: the surest half leaves, a random half, all, and nobody."""
    rows = {
        "the surest half leaves": part["checks"]["count 0.5"],
        "a random half leaves": part["checks"]["random"],
        "all leave": part["exits_pct"][:-1],
        "nobody leaves": [part["exits_pct"][-1]] * len(part["blocks"]),
    }
    return {name: list(zip(part["blocks"], values, strict=True)) for name, values in rows.items()}


STUDY = Study(
    name="pame",
    exhibits=Exhibits.of(__package__),
    tasks=study_tasks,
    figures=study_figures,
)
