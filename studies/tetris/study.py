"""The study of TETRIS: its tasks and its figures, as the catalogue finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..drawing.charts import line_panels
from ..running.exhibits import Exhibits
from ..running.study import Size, Study, StudyTask
from ..writing import by_number
from . import simulations as run
from .quantities import LEAVE, SHRINK, STOCK, TETRIS
from .quantities import MIXED as MIXED_TYPES

DRAWN = 60  # profiles
SPACES = {
    "6 + 8 + 15": run.MIXED,
    "16 + 16 + 16": {"V100": 16, "P100": 16, "K80": 16},
    "5 types x 8": {"V100": 8, "P100": 8, "K80": 8, "T4": 8, "M60": 8},
}
BOARDS = ((0, 4), (4, 4))


def study_tasks(size: Size) -> list[StudyTask]:
    """Give every piece of the study, the longest first."""
    tasks = [
        StudyTask("boards", f"{first} + {last}, {exits}", run.board_point, (first, last, exits == "easy", size))
        for first, last in BOARDS
        for exits in ("as published", "easy")
    ]

    def add(part: str, function: Callable[..., Any], keyed: Mapping[str, tuple[Any, ...]]) -> None:
        tasks.extend(StudyTask(part, key, function, arguments) for key, arguments in keyed.items())

    def of(values: Iterable[Any], *before: Any, after: tuple[Any, ...] = ()) -> dict[str, tuple[Any, ...]]:
        return {f"{x:g}": (*before, x, *after) for x in values}

    add(
        "forecast",
        run.forecast_point,
        {f"{kind}, 240 a window": (kind, 240) for kind in ("steps", "slow day", "still")},
    )
    add("space", run.space_point, {name: (counts,) for name, counts in SPACES.items()})
    add("drawn", run.simulate_drawn_point, of(range(min(DRAWN, max(5, size.requests // 80)))))
    add("homogeneous", run.batch_point, of(run.SIZES, run.V100S, 0.5))
    add("mixed types", run.batch_point, of(run.SIZES, run.MIXED, 0.5))
    add("cost", run.cost_point, of(run.SIZES))
    add("heterogeneity", run.heterogeneity_point, of(run.SIZES))
    add("parallel", run.parallel_point, of(run.SIZES))
    add("patience", run.patience_point, of((1, 2, 3)))
    add("Table 1", run.optimiser, {network: (network,) for network in run.TABLE_1})
    add("mixes", run.batch_point, of(run.MIXES, run.V100S, after=(8,)))
    add("tolerance", run.tolerance_point, of((0.3, 0.35, 0.4, 0.45, 0.5)))
    add("objective", run.slo_point, of((8.0, 12.0, 20.0, 50.0, 100.0)))
    add("adapt", run.adapt_point, {"mixes": ()})
    add("batches", run.shrinking_batches, {"left": ()})
    return tasks


def study_figures(study: Mapping[str, Any]) -> dict[str, str]:
    """Draw goodput and cost by largest batch."""
    parts = study["parts"]

    def lines(part: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, list[tuple[float, Any]]]:
        return {name: [(int(batch), row[name]) for batch, row in by_number(part).items()] for name in names}

    goodput = {
        title: lines(parts[part], (STOCK, LEAVE, SHRINK, TETRIS, "ours, one pipeline"))
        for part, title in (("homogeneous", "16 V100"), ("mixed types", "6 V100, 8 P100, 15 K80"))
    }
    dollars = {size: {name: one["cost"] for name, one in row.items()} for size, row in parts["cost"].items()}
    cost = {"dollars an hour for 6,000/s": lines(dollars, (STOCK, LEAVE, TETRIS, MIXED_TYPES))}
    sizes = [int(batch) for batch in by_number(parts["cost"])]
    return {
        "goodput": line_panels(goodput, "largest batch", "samples a second (planned)", ticks=sizes, doubling=True),
        "cost": line_panels(cost, "largest batch", "dollars an hour", ticks=sizes, doubling=True),
    }


STUDY = Study(
    name="tetris",
    exhibits=Exhibits.of(__package__),
    tasks=study_tasks,
    figures=study_figures,
    excerpt=("space", "boards"),
)
