"""The study of Fluid Batching, as the catalogue finds it: its tasks and the schedules that it shows."""

from __future__ import annotations

from typing import Any

from fluidnpu.scheduler.comparison import Source

from ..drawing.excerpts import decisions_from, first_merge, first_schedules
from ..drawing.page import inline_figure
from ..drawing.timeline import schedule_timeline
from ..running.exhibits import Exhibits
from ..running.study import Size, Study, StudyTask
from .design_tasks import batch_16, codesign, fig1b, fig10, table1
from .figures import study_figures
from .paper import TABLE_1, sweeps, table2_rows
from .settings import DIALS, MAP_LOADS, THRESHOLDS, worlds
from .simulations import accuracy, at_own_load, drift, fig1a, lazy, map_column, sweep_point, table2

SHOWN = ("serial", "greedy", "fluid", "credit")  # timelines and decisions
SHOWN_REQUESTS = 300


def study_tasks(size: Size) -> list[StudyTask]:
    """Give every piece of the study, the longest first."""
    tasks: list[StudyTask] = []
    for row in table2_rows():
        tasks.append(StudyTask("table2", row.name, table2, (row, size)))
        tasks.append(StudyTask("lazy", row.name, lazy, (row, size)))
        tasks.append(StudyTask("frontier", row.name, at_own_load, (row, ("fluid", "optimal", *DIALS), size)))
        for label, truth in worlds(row).items():
            tasks.append(StudyTask("drift", f"{row.name}: {label}", drift, (row, truth, size)))
        tasks.append(StudyTask("codesign", row.name, codesign, (row, size)))
    for sweep in sweeps():
        for x in sweep.rates_per_s:
            tasks.append(StudyTask(sweep.figures[0], f"{x:g}", sweep_point, (sweep, x, sweep.slo_ms, size)))
        for x in sweep.slos_ms:
            tasks.append(StudyTask(sweep.figures[1], f"{x:g}", sweep_point, (sweep, sweep.rate_per_s, x, size)))
        for load in MAP_LOADS:
            tasks.append(StudyTask(f"map, {sweep.row.name}", f"{load:g}", map_column, (sweep.row, load, size)))
    for threshold in THRESHOLDS:
        tasks.append(StudyTask("accuracy", f"{threshold:g}", accuracy, (threshold, size)))
    tasks += [StudyTask("Table I", f"{row.network}, {row.board}", table1, (row,)) for row in TABLE_1]
    tasks += [
        StudyTask("Fig. 1a", row.name, fig1a, (row, slo_ms, size))
        for row, slo_ms in zip(table2_rows(), (400, 200), strict=False)
    ]
    tasks.append(StudyTask("Fig. 1b", "GOP/s", fig1b, ()))
    tasks.append(StudyTask("fig10", "share of peak", fig10, ()))
    tasks.append(StudyTask("fig10", "batch 16", batch_16, ()))
    return tasks


def stretches() -> list[dict[str, Any]]:
    """Draw batches over time and list decisions on the first row's first seed, simulated anew: the study's
    file holds none.
    """
    row = table2_rows()[0]
    source = Source(rate_per_s=row.rate_per_s, slo_ns=row.slo_ns, count=SHOWN_REQUESTS)
    schedules = first_schedules(row.serving, source, SHOWN)
    first = first_merge(schedules["fluid"], at_least=3) or 0
    exits = tuple(f"exit {k}" for k in range(1, row.serving.latency.stages + 1))
    return [
        {
            "name": name,
            "figure": inline_figure(schedule_timeline(schedule, first, exits), f"Batches over time, {name}"),
            "said": decisions_from(schedule, first),
        }
        for name, schedule in schedules.items()
    ]


STUDY = Study(
    name="fluid-batching",
    exhibits=Exhibits.of(__package__),
    tasks=study_tasks,
    figures=study_figures,
    excerpt=("table2", "frontier", "codesign", "accuracy"),
    stretches=stretches,
)
