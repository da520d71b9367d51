"""Batches over time, a row a request (Fig. 6 of Fluid Batching)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fluidnpu.scheduler import Schedule

from .canvas import GRID, INK, ON_COLOUR, PALETTE, WIDTH, new_figure, to_svg

LEAST_NUMBERED = 0.018  # share of the axis from which a bar has room for its number
LIGHT = {PALETTE[1], *PALETTE[4:7]}  # colours too light for white letters
SAMPLES = 14  # rows of a timeline that fits a page
MILLISECONDS_FROM_US = 20_000  # a longer stretch is labelled in milliseconds


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A sample's stretch in a stage; times in microseconds."""

    row: int
    start_us: float
    end_us: float
    stage: int
    batch: int


@dataclass(frozen=True, kw_only=True)
class SampleRow:
    """One sample of a timeline: its arrival, and the time and exit at which it left."""

    label: str
    arrival_us: float
    end_us: float
    exit: int


def schedule_timeline(
    schedule: Schedule,
    first: int,
    exits: Sequence[str],
    *,
    label: str = "request",
    answers: Mapping[int, str] | None = None,
) -> str:
    """Draw a stretch of `SAMPLES` requests of a schedule, from the one at index `first` on.

    `answers`: what a request was answered, by its number.
    """
    window = {r.id: row for row, r in enumerate(schedule.requests[first : first + SAMPLES])}
    rows = [
        SampleRow(
            label=f"{label} {r.request.id}" + (f", {answers[r.request.id]}" if answers else ""),
            arrival_us=r.request.arrival_ns / 1e3,
            end_us=r.end_ns / 1e3,
            exit=max(r.exit, 0),
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


def batch_timeline(rows: Sequence[SampleRow], bars: Sequence[Bar], exits: Sequence[str]) -> str:
    """Draw samples over time: grey while waiting, coloured by stage while running, a dot at the exit."""
    from matplotlib.patches import Patch

    figure, (axis,) = new_figure(WIDTH, 0.6 + 0.24 * max(6, len(rows)))
    axis.grid(False)
    origin = min((row.arrival_us for row in rows), default=0.0)
    last = max((row.end_us for row in rows), default=0.0)
    unit = _time_unit(axis, last - origin)
    for index, row in enumerate(rows):
        end, colour = row.end_us - origin, PALETTE[row.exit % 8]
        axis.plot([row.arrival_us - origin, end], [index, index], color=GRID, linewidth=2, zorder=1)
        axis.plot(end, index, "o", color=colour, markersize=6, markeredgecolor="white", zorder=4)
    for bar in bars:
        _draw_bar(axis, bar, origin, last - origin)
    axis.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel(
        f"time ({unit}); the number in a bar is the batch it ran in, the dot is the exit it took", fontsize=9, color=INK
    )
    handles = [Patch(color=PALETTE[s % 8], label=f"to {name}") for s, name in enumerate(exits)]
    axis.legend(
        handles=[*handles, Patch(color=GRID, label="waits")],
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        ncol=len(exits) + 1,
        loc="lower left",
        bbox_to_anchor=(0, 1),
    )
    return to_svg(figure)


def _time_unit(axis: Any, span_us: float) -> str:
    """Label a long stretch in milliseconds."""
    from matplotlib.ticker import FuncFormatter

    if span_us <= MILLISECONDS_FROM_US:
        return "µs"
    axis.xaxis.set_major_formatter(FuncFormatter(lambda us, _: f"{us / 1e3:g}"))
    return "ms"


def _draw_bar(axis: Any, bar: Bar, origin_us: float, span_us: float) -> None:
    """Draw a bar, and in it the batch, unless it is too short for a number."""
    start, width, colour = bar.start_us - origin_us, bar.end_us - bar.start_us, PALETTE[bar.stage % 8]
    axis.barh(bar.row, width, left=start, height=0.7, color=colour, edgecolor="white", linewidth=0.5, zorder=3)
    if width < LEAST_NUMBERED * span_us:
        return
    middle = {"ha": "center", "va": "center", "zorder": 5, "clip_on": True}
    ink = ON_COLOUR if colour in LIGHT else "white"
    axis.text(start + width / 2, bar.row, str(bar.batch), color=ink, fontsize=8, **middle)
