"""Curves of a plan: goodput and cost against the rate, and goodput over time as devices are lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fluidnpu.studies.drawing import GRID, HALF, INK, PALETTE, WIDTH, new_figure, to_svg


@dataclass(frozen=True, kw_only=True)
class Offered:
    """One offered rate: requests a second that were answered in time, and their share in per cent."""

    rate_per_s: float
    goodput_per_s: float
    in_time_pct: float


@dataclass(frozen=True, kw_only=True)
class Priced:
    """The cheapest plan for a rate: cost an hour and devices."""

    rate_per_s: float
    cost: float
    devices: int


def goodput_curves(lines: Mapping[str, Sequence[Offered]], planned_per_s: float, good_pct: float) -> dict[str, str]:
    """Draw goodput and share in time against the offered rate, a line a form; the planned rate is marked.

    Returns figures by title.
    """
    most = max(p.rate_per_s for points in lines.values() for p in points)
    figures = {}
    for title, key in (("requests answered in time, a second", "goodput_per_s"), ("share in time (%)", "in_time_pct")):
        figure, (axis,) = new_figure(*HALF)
        for colour, (name, points) in zip(PALETTE, lines.items(), strict=False):
            xs = [p.rate_per_s for p in points]
            axis.plot(
                xs, [getattr(p, key) for p in points], color=colour, marker="o", markersize=3, linewidth=1.6, label=name
            )
        axis.axvline(planned_per_s, color=GRID, linewidth=4, zorder=0)
        if key == "in_time_pct":
            axis.set_ylim(-2, 102)
            axis.axhline(good_pct, color=INK, linewidth=0.8, linestyle="--")
        else:
            axis.plot([0, most], [0, most], color=INK, linewidth=0.8, linestyle=":")
            axis.set_ylim(bottom=0)
        axis.legend(frameon=False, fontsize=9, labelcolor=INK)
        axis.set_xlabel("offered requests a second", fontsize=9, color=INK)
        axis.set_title(title, fontsize=10, color=INK, loc="left")
        figures[title] = to_svg(figure)
    return figures


def cost_curve(points: Sequence[Priced], unit: str) -> dict[str, str]:
    """Draw the least cost, and the devices of that plan, against the rate. Returns figures by title."""
    xs = [point.rate_per_s for point in points]
    panels = {"devices of the cheapest plan": [float(point.devices) for point in points]}
    if any(point.cost for point in points):
        panels = {f"least cost ({unit})": [point.cost for point in points], **panels}
    figures = {}
    for title, values in panels.items():
        figure, (axis,) = new_figure(*HALF)
        axis.step(xs, values, where="pre", color=PALETTE[0], linewidth=1.6)
        axis.plot(xs, values, "o", color=PALETTE[0], markersize=4)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("requests a second", fontsize=9, color=INK)
        axis.set_title(title, fontsize=10, color=INK, loc="left")
        figures[title] = to_svg(figure)
    return figures


def faults_over_time(
    seconds: Sequence[float], offered: Sequence[float], in_time: Sequence[float], lost_s: tuple[float, float]
) -> str:
    """Draw arrivals a second and those of them that are answered in time, by the time of their arrival.

    `lost_s`: from when to when devices are away.
    """
    figure, (axis,) = new_figure(WIDTH, 2.9)
    axis.axvspan(*lost_s, color=PALETTE[3], alpha=0.12, linewidth=0)
    axis.annotate("away", (lost_s[0], 0.97), xycoords=("data", "axes fraction"), va="top", fontsize=9, color=INK)
    axis.plot(seconds, offered, color=INK, linewidth=0.9, linestyle="--", label="offered")
    axis.plot(seconds, in_time, color=PALETTE[0], linewidth=1.6, label="of them in time")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("seconds", fontsize=9, color=INK)
    axis.set_title("requests a second, by the time of their arrival", fontsize=10, color=INK, loc="left")
    axis.legend(frameon=False, fontsize=9, labelcolor=INK, loc="lower right")
    return to_svg(figure)
