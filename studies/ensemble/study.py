"""The study of ensembles: its tasks and its figure, as the catalogue finds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..drawing.charts import line_panels
from ..running.exhibits import Exhibits
from ..running.study import Size, Study, StudyTask
from .quantities import WAYS
from .simulations import TABLE_3, best_batch, cell, matrix, optimum, overhead, simulate_drawn_world
from .worlds import ENSEMBLES, NAMES

GPUS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
DRAWN = 40  # worlds


def study_tasks(size: Size) -> list[StudyTask]:
    """Give every piece of the study, the longest first; a small size draws fewer worlds."""
    cases = [("GPU", "IMN4", 4), ("GPU", "IMN12", 8), ("GPU", "IMN12", 16)]
    cases += [("board", "IMN4", 4), ("board", "IMN12", 8), ("board", "IMN12", 12), ("board", "IMN12", 16)]
    tasks = [
        StudyTask("optimum", f"{name}, {count} {kind}s", optimum, (kind, name, count)) for kind, name, count in cases
    ]
    worlds = min(DRAWN, max(3, size.requests // 500))
    tasks += [StudyTask("drawn", f"{seed}", simulate_drawn_world, (seed,)) for seed in range(worlds)]
    tasks += [StudyTask("table1", f"{name} on {count}", cell, (name, count)) for name in NAMES for count in GPUS]
    tasks += [StudyTask("table3", f"{name} on {count}", best_batch, (name, count)) for name, count in TABLE_3.items()]
    return [*tasks, StudyTask("table2", "IMN4 on 4", matrix, ()), StudyTask("overhead", "IMN12", overhead, ())]


def study_figures(study: Mapping[str, Any]) -> dict[str, str]:
    """Draw the rate of each ensemble against the number of GPUs."""
    part = study["parts"]["table1"]
    panels = {
        name: {way: [(n, (part.get(f"{name} on {n}") or {}).get(way)) for n in GPUS] for way in WAYS}
        for name in ENSEMBLES
    }
    return {"rate": line_panels(panels, "GPUs", "samples a second (made-up times)")}


STUDY = Study(
    name="ensemble", exhibits=Exhibits.of(__package__), tasks=study_tasks, figures=study_figures, excerpt=("optimum",)
)
