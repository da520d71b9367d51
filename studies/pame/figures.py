"""Figures of the study as SVG text: pure functions of the study's dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..drawing.canvas import INK, PALETTE, new_figure, to_svg
from .verdicts import MAPS, NAMES, split_rows

Body = Mapping[str, Any]


def study_figures(study: Body) -> dict[str, str]:
    """Draw every figure of the study, by name."""
    parts = study["parts"]
    return {
        "Fig. 2": _accuracy(parts["accuracy"]),
        "Fig. 12": _alone(parts["selection"]),
        "Fig. 13": _boundary(parts["resnet101"]["times"]),
        "splits": _splits(split_rows(parts)),
        "maps": _maps(parts["maps"]),
    }


def _accuracy(part: Body) -> str:
    figure, axes = new_figure(11, 3.0, 2)
    for axis, (name, entry) in zip(axes, sorted(part.items(), reverse=True), strict=True):
        blocks = entry["blocks"]
        axis.plot(blocks, entry["exits_pct"][:-1], "o-", color=PALETTE[0], label="early exits")
        axis.axhline(entry["exits_pct"][-1], color=PALETTE[2], linewidth=1, label="last exit")
        axis.axhline(
            entry["reference_pct"], color=INK, linewidth=0.8, linestyle="--", label="single exit trained as long"
        )
        axis.set_title(f"{NAMES[name]}: accuracy (%) by block", fontsize=10, color=INK, loc="left")
        axis.set_xticks(blocks)
    axes[0].legend(frameon=False, fontsize=9, labelcolor=INK)
    return to_svg(figure)


def _alone(part: Body) -> str:
    figure, axes = new_figure(11, 3.0, 2)
    for axis, name in zip(axes, NAMES, strict=True):
        rows = part[f"{name}, 0.99"]["alone"]
        places = range(1, len(rows) + 1)
        axis.bar(places, [row.get("average_change_pct", 0) for row in rows], color=PALETTE[0], width=0.6)
        title = f"{NAMES[name]}: average in service with one exit (%), eta 0.99"
        axis.set_title(title, fontsize=10, color=INK, loc="left")
        axis.set_xticks(list(places))
    return to_svg(figure)


def _maps(part: Body) -> str:
    figure, axes = new_figure(11, 3.0, 2)
    for axis, (name, title) in zip(axes, MAPS.items(), strict=True):
        entry = part[name]
        blocks = entry["blocks"]
        axis.plot(blocks, entry["checks"]["count 0.5"], "o-", color=PALETTE[0], label="the surest half leaves")
        axis.plot(blocks, entry["checks"]["random"], "x--", color=PALETTE[3], label="a random half leaves")
        axis.plot(blocks, entry["exits_pct"][:-1], "o:", color=PALETTE[2], label="all leave")
        axis.axhline(entry["exits_pct"][-1], color=INK, linewidth=0.8, linestyle="--")
        axis.set_title(f"{title}: score (%) by block", fontsize=10, color=INK, loc="left")
        axis.set_xticks(blocks)
    axes[0].legend(frameon=False, fontsize=9, labelcolor=INK)
    return to_svg(figure)


def _boundary(times: Body) -> str:
    figure, axes = new_figure(11, 2.8)
    axis = axes[0]
    axis.plot(times["blocks"], times["allowed"], "o-", color=PALETTE[0], label="from the times")
    axis.plot(times["blocks"], times["allowed_by_work"], "x", color=PALETTE[3], label="n (1 - head / rest)")
    axis.set_ylim(0, 16.5)
    axis.set_title("ResNet-101: samples of 16 that may move on, by block", fontsize=10, color=INK, loc="left")
    axis.set_xticks(times["blocks"])
    axis.legend(frameon=False, fontsize=9, labelcolor=INK)
    return to_svg(figure)


def _splits(rows: list[Body]) -> str:
    figure, axes = new_figure(11, 3.0)
    axis = axes[0]
    for which, colour in (("naive", PALETTE[3]), ("guaranteed", PALETTE[0])):
        drawn_rows = [row[which] for row in rows if row[which] is not None]
        axis.plot(
            [row["kept_pct"] for row in drawn_rows],
            [row["average_change_pct"] for row in drawn_rows],
            "o",
            color=colour,
            markersize=3.5,
            alpha=0.7,
            label=which,
        )
    axis.axvline(99, color=INK, linewidth=0.8, linestyle="--")
    axis.set_xlabel("precision kept on the other quarter (%)", fontsize=9, color=INK)
    axis.set_title("Fashion-MNIST: average in service (%) of each split", fontsize=10, color=INK, loc="left")
    axis.legend(frameon=False, fontsize=9, labelcolor=INK)
    return to_svg(figure)
