"""The study of TETRIS: its tasks and its figures, as the catalogue finds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..drawing.charts import line_panels
from ..running.exhibits import Exhibits
from ..running.study import Size, Study, StudyTask
from .quantities import LEAVE, SHRINK, STOCK, TETRIS
from .quantities import MIXED as MIXED_TYPES
from .simulations import (
    MIXED,
    MIXES,
    SIZES,
    TABLE_1,
    V100S,
    adapt_point,
    batch_point,
    board_point,
    cost_point,
    forecast_point,
    heterogeneity_point,
    optimiser,
    parallel_point,
    patience_point,
    shrinking_batches,
    simulate_drawn_point,
    slo_point,
    space_point,
    tolerance_point,
)

DRAWN = 60  # profiles
SPACES = {
    "6 + 8 + 15": MIXED,
    "16 + 16 + 16": {"V100": 16, "P100": 16, "K80": 16},
    "5 types x 8": {"V100": 8, "P100": 8, "K80": 8, "T4": 8, "M60": 8},
}
BOARDS = ((0, 4), (4, 4))


def study_tasks(size: Size) -> list[StudyTask]:
    """Give every piece of the study, the longest first."""
    tasks = [
        StudyTask(
            "boards",
            f"{zc706} + {zcu104}, {'easy' if easy else 'as published'}",
            board_point,
            (zc706, zcu104, easy, size),
        )
        for zc706, zcu104 in BOARDS
        for easy in (False, True)
    ]
    tasks += [
        StudyTask("forecast", f"{world}, {samples} a window", forecast_point, (world, samples))
        for world in ("steps", "slow day", "still")
        for samples in (240,)
    ]
    tasks += [StudyTask("space", name, space_point, (counts,)) for name, counts in SPACES.items()]
    tasks += [
        StudyTask("drawn", f"{seed}", simulate_drawn_point, (seed,))
        for seed in range(min(DRAWN, max(5, size.requests // 80)))
    ]
    for batch in SIZES:
        tasks.append(StudyTask("homogeneous", f"{batch}", batch_point, (V100S, 0.5, batch)))
        tasks.append(StudyTask("mixed types", f"{batch}", batch_point, (MIXED, 0.5, batch)))
        tasks.append(StudyTask("cost", f"{batch}", cost_point, (batch,)))
        tasks.append(StudyTask("heterogeneity", f"{batch}", heterogeneity_point, (batch,)))
        tasks.append(StudyTask("parallel", f"{batch}", parallel_point, (batch,)))
    tasks += [StudyTask("patience", f"{count}", patience_point, (count,)) for count in (1, 2, 3)]
    tasks += [StudyTask("Table 1", network, optimiser, (network,)) for network in TABLE_1]
    tasks += [StudyTask("mixes", f"{easy:g}", batch_point, (V100S, easy, 8)) for easy in MIXES]
    tasks += [
        StudyTask("tolerance", f"{entropy:g}", tolerance_point, (entropy,)) for entropy in (0.3, 0.35, 0.4, 0.45, 0.5)
    ]
    tasks += [StudyTask("objective", f"{slo:g}", slo_point, (slo,)) for slo in (8.0, 12.0, 20.0, 50.0, 100.0)]
    tasks.append(StudyTask("adapt", "mixes", adapt_point, ()))
    tasks.append(StudyTask("batches", "left", shrinking_batches, ()))
    return tasks


def study_figures(study: Mapping[str, Any]) -> dict[str, str]:
    """Draw goodput and cost by largest batch."""
    parts = study["parts"]

    def lines(part: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, list[tuple[float, Any]]]:
        return {name: [(batch, part[f"{batch}"][name]) for batch in SIZES] for name in names}

    goodput = {
        title: lines(parts[part], (STOCK, LEAVE, SHRINK, TETRIS, "ours, one pipeline"))
        for part, title in (("homogeneous", "16 V100"), ("mixed types", "6 V100, 8 P100, 15 K80"))
    }
    dollars = {size: {name: one["cost"] for name, one in row.items()} for size, row in parts["cost"].items()}
    cost = {"dollars an hour for 6,000/s": lines(dollars, (STOCK, LEAVE, TETRIS, MIXED_TYPES))}
    return {
        "goodput": line_panels(goodput, "largest batch", "samples a second (planned)", ticks=SIZES, doubling=True),
        "cost": line_panels(cost, "largest batch", "dollars an hour", ticks=SIZES, doubling=True),
    }


STUDY = Study(
    name="tetris",
    exhibits=Exhibits.of(__package__),
    tasks=study_tasks,
    figures=study_figures,
    excerpt=("space", "boards"),
)
