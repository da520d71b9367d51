"""The demo's HTML report: one self-contained file, figures inline, no script and no font from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from fluidnpu.dse import Exploration
from fluidnpu.scheduler import Schedule

from .figures import Bar, SampleRow, batch_timeline, heat_map, load_curves, throughput_bars

if TYPE_CHECKING:
    from ..commands.demo import Demo

TIMELINE_SAMPLES = 14


def template(name: str) -> Template:
    """A page template of this package; an unknown name inside it is an error, not an empty string."""
    environment = Environment(
        loader=PackageLoader("fluidnpu"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def write_report(demo: Demo, path: Path) -> None:
    """Render the report and write it."""
    path.write_text(render_report(demo), encoding="utf-8")


def render_report(demo: Demo) -> str:
    """The report as HTML text."""
    design = demo.designs[0].design
    return template("demo.html.j2").render(
        demo=demo,
        board=demo.designs[0].board,
        design=design,
        throughput=Markup(
            throughput_bars(
                {one.board.name: one.fitted_gops for one in demo.designs},
                {one.board.name: one.design.peak_gops for one in demo.designs},
            )
        ),
        plan=Markup(plan_map(demo.designs[0])),
        curves=Markup(load_curves(demo.curves, demo.slo_ns / 1e6, demo.rate_per_s)),
        paper_curves=Markup(load_curves(demo.paper.curves, demo.paper.slo_ms)) if demo.paper else None,
        timelines=[
            (one.schedule.policy, Markup(timeline(one.schedule, [s.schedule for s in demo.served], design.exits)))
            for one in reversed(demo.served)
        ],
    )


def plan_map(found: Exploration) -> str:
    """Layers by batch sizes: the array's use in the design's cycle model, with the k and B_R that the FBCB holds."""
    design = found.design
    values, cells = [], []
    for index, row in enumerate(design.plans):
        values.append(list(found.layer_efficiency_pct(index)))
        cells.append(
            [_cell(design.mode(index, batch).name, plan.k.value, plan.b_r) for batch, plan in enumerate(row, 1)]
        )
    title = f"{found.board.name}: share of peak (colour), k and B_R (text) by layer and batch size"
    return heat_map(values, [layer.name for layer in design.layers], cells, title)


def _cell(mode: str, k: str, b_r: int) -> str:
    if mode.endswith("POOL"):
        return "pool"
    return f"k={k} B_R={b_r}" + (" lanes" if mode == "LANES" else "")


def timeline(schedule: Schedule, chosen_from: Sequence[Schedule], exits: tuple[str, ...]) -> str:
    """The paper's Fig. 6 for a stretch of real requests: the first in which one of `chosen_from` preempts and merges again."""
    first = next((at for at in map(_first_merge, chosen_from) if at), 0)
    window = {r.id: row for row, r in enumerate(schedule.requests[first : first + TIMELINE_SAMPLES])}
    rows = [
        SampleRow(
            label=f"sample {r.request.id}", arrival_us=r.request.arrival_ns / 1e3, end_us=r.end_ns / 1e3, exit=r.exit
        )
        for r in schedule.records
        if r.request.id in window
    ]
    bars = [
        Bar(row=window[key], start_us=run.start_ns / 1e3, end_us=run.end_ns / 1e3, stage=run.stage, batch=len(run.ids))
        for run in schedule.runs
        for key in run.ids
        if key in window
    ]
    return batch_timeline(rows, bars, exits)


def _first_merge(schedule: Schedule) -> int:
    """Index of the request from which on a preempted batch and a newer one are seen to merge; 0 when none ever do."""
    started: dict[int, int] = {}
    position = {r.id: i for i, r in enumerate(schedule.requests)}
    for number, run in enumerate(schedule.runs):
        if run.stage == 0:
            started.update(dict.fromkeys(run.ids, number))
        elif len({started[key] for key in run.ids}) > 1:
            return max(0, min(position[key] for key in run.ids) - 2)
    return 0
