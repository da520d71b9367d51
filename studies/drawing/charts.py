"""Curves with intervals, maps and frontiers as SVG text. They know numbers and labels, not their origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .canvas import GREY, GRID, INK, PALETTE, WIDTH, logarithmic, new_figure, to_svg

Value = tuple[float, float, float] | None  # mean, low, high; None where the load is unstable
Curve = Sequence[tuple[float, Mapping[str, Value]]]  # x, and values by key
COLOURS = (*PALETTE[:6], "#000000", GREY, "#8c510a")  # without the yellow, which is hard to read as a line


def value_of(value: Sequence[float | None] | None) -> Value:
    """Give a mean, low and high: None where the load is unstable, the mean three times with one seed."""
    if value is None or value[0] is None:
        return None
    low, high = (value[0] if x is None else x for x in value[1:])
    return value[0], low, high


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One set of axes: its title, the key of the value that it shows, its scale.

    `line_at` is a dashed line.
    """

    title: str
    key: str
    logarithmic: bool = False
    percent: bool = False
    line_at: float | None = None
    line_name: str = ""


@dataclass(frozen=True, kw_only=True)
class Look:
    """Colour and dashes of a policy's line, the same on every figure of a page."""

    colour: str
    dashes: str = "-"


def looks(names: Sequence[str]) -> dict[str, Look]:
    """Give each policy a look: colours first, then dashes."""
    dashes = ("-", "--", ":")
    return {
        name: Look(colour=COLOURS[k % len(COLOURS)], dashes=dashes[k // len(COLOURS) % 3])
        for k, name in enumerate(names)
    }


def curves(
    lines: Mapping[str, Curve], panels: Sequence[Panel], x_label: str, *, look: Mapping[str, Look], columns: int = 2
) -> str:
    """Draw a line a policy, its interval as a band.

    A line ends with a cross where the next point is unstable.
    """
    rows = -(-len(panels) // columns)
    figure, axes = new_figure(WIDTH, 0.5 + 2.7 * rows, columns, rows)
    for axis, panel in zip(axes, panels, strict=False):
        for name, points in lines.items():
            _curve(axis, name, [(x, values[panel.key]) for x, values in points], look[name])
        _dress(axis, panel)
        axis.set_xlabel(x_label, fontsize=9, color=INK)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    _legend(figure, axes)
    return to_svg(figure)


def line_panels(
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float | None]]]],
    x_label: str,
    y_label: str = "",
    *,
    height: float = 3.4,
    ticks: Sequence[float] = (),
    doubling: bool = False,
    joined: bool = True,
    upright: float | None = None,
) -> str:
    """Draw lines of plain points (x, y) by title and name, a panel a title; a point without y is left out.

    `ticks`: of x; `doubling`: x is logarithmic to base 2; `joined`: points are joined; `upright`: x of a
    dashed line.
    """
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    figure, axes = new_figure(WIDTH, height, len(panels))
    look = looks(names)
    for axis, (title, lines) in zip(axes, panels.items(), strict=True):
        for name, points in lines.items():
            xs, ys = [x for x, y in points if y is not None], [y for _, y in points if y is not None]
            line = look[name].dashes if joined else ""
            axis.plot(xs, ys, line, color=look[name].colour, marker="o", markersize=3, label=name)
        if doubling:
            axis.set_xscale("log", base=2)
        if ticks:
            axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        if upright is not None:
            axis.axvline(upright, color=INK, linewidth=0.8, linestyle="--")
        axis.set_title(title, fontsize=10, color=INK, loc="left")
        axis.set_xlabel(x_label, fontsize=9, color=INK)
    axes[0].set_ylabel(y_label, fontsize=9, color=INK)
    _legend(figure, axes)
    return to_svg(figure)


def _legend(figure: Any, axes: Sequence[Any]) -> None:
    """Name every line once, above the panels."""
    named = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named, loc="outside upper left", ncols=12, frameon=False, fontsize=9, labelcolor=INK)


def _curve(axis: Any, name: str, points: Sequence[tuple[float, Value]], look: Look) -> None:
    kept = [(x, value) for x, value in points if value is not None]
    xs, means = [x for x, _ in kept], [value[0] for _, value in kept]
    axis.plot(xs, means, look.dashes, color=look.colour, label=name, marker="o", markersize=2.5, linewidth=1.5)
    axis.fill_between(
        xs, [max(v[1], 0.0) for _, v in kept], [v[2] for _, v in kept], color=look.colour, alpha=0.15, linewidth=0
    )
    if kept and len(kept) < len(points) and points[-1][1] is None:
        axis.plot(xs[-1], means[-1], "x", color=look.colour, markersize=8, markeredgewidth=2)


def _dress(axis: Any, panel: Panel) -> None:
    if panel.logarithmic:
        axis.set_yscale("log")
        logarithmic(axis.yaxis)
    else:
        axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]) if panel.percent else None)
    if panel.line_at is not None:
        axis.axhline(panel.line_at, color=INK, linewidth=0.8, linestyle="--")
        where = (1.005, panel.line_at)  # beside the axes, where no curve runs
        axis.annotate(panel.line_name, where, xycoords=("axes fraction", "data"), va="center", fontsize=8, color=INK)
    axis.set_title(panel.title, fontsize=10, color=INK, loc="left")


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A point with intervals: p99 in ms, violations in per cent, and the name beside it."""

    name: str
    p99_ms: tuple[float, float, float]
    violations_pct: tuple[float, float, float]
    dial: bool = False  # a point of the dial's line


def frontier(panels: Mapping[str, Sequence[Dot]]) -> str:
    """Draw violations against p99 (lower left is better); the points of the dial are joined."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = new_figure(WIDTH, 0.3 + 3.1 * rows, columns, rows)
    for axis, (title, dots) in zip(axes, panels.items(), strict=False):
        line = [d for d in dots if d.dial]
        axis.plot([d.p99_ms[0] for d in line], [d.violations_pct[0] for d in line], color=PALETTE[0], linewidth=1.2)
        for dot in dots:
            x, y = dot.p99_ms, dot.violations_pct
            colour = PALETTE[0] if dot.dial else PALETTE[3]
            axis.errorbar(
                x[0], y[0], xerr=[[x[0] - x[1]], [x[2] - x[0]]], yerr=[[y[0] - y[1]], [y[2] - y[0]]],
                fmt="o", color=colour, markersize=4, elinewidth=0.8,
            )  # fmt: skip
            axis.annotate(dot.name, (x[0], y[0]), xytext=(5, 4), textcoords="offset points", fontsize=8, color=INK)
        middles = [d.p99_ms[0] for d in dots]
        axis.set_xlim(0.9 * min(middles), 1.08 * max(middles))
        axis.set_ylim(0, 1.15 * max(d.violations_pct[0] for d in dots))
        axis.set_xlabel("p99 latency (ms)", fontsize=9, color=INK)
        axis.set_title(f"{title}: SLO violations (%)", fontsize=10, color=INK, loc="left")
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    return to_svg(figure)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One circumstance of the map: the winner (the first of equals; empty where nobody is stable) and the
    cell's text.
    """

    winner: str
    text: str


def winner_map(
    maps: Mapping[str, Sequence[Sequence[Cell]]],
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    look: Mapping[str, Look],
    labels: tuple[str, str],
) -> str:
    """Draw the winners, one panel a yardstick; rows from the bottom up, `labels` of x and y."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Patch

    figure, axes = new_figure(14, 0.9 + 0.44 * len(row_labels), len(maps))
    for axis, (title, cells) in zip(axes, maps.items(), strict=True):
        axis.grid(False)
        colours = [
            [to_rgba(look[c.winner].colour, 0.42) if c.winner else to_rgba(GRID, 0.5) for c in row] for row in cells
        ]
        axis.imshow(colours, aspect="auto", origin="lower")
        for y, row in enumerate(cells):
            for x, cell in enumerate(row):
                axis.text(x, y, cell.text, ha="center", va="center", fontsize=7, color=INK)
        axis.set_xticks(range(len(column_labels)), column_labels, fontsize=8)
        axis.set_yticks(range(len(row_labels)), row_labels, fontsize=8)
        axis.tick_params(length=0)
        axis.set_xlabel(labels[0], fontsize=9, color=INK)
        axis.set_title(title, fontsize=10, color=INK, loc="left")
    axes[0].set_ylabel(labels[1], fontsize=9, color=INK)
    seen = {cell.winner for cells in maps.values() for row in cells for cell in row} - {""}
    handles = [Patch(color=to_rgba(look[n].colour, 0.42), label=n) for n in look if n in seen]
    figure.legend(handles=handles, loc="outside upper left", ncols=9, frameon=False, fontsize=9, labelcolor=INK)
    return to_svg(figure)
