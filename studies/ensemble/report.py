"""The study's tables, figure and page: pure functions of its dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..drawing.canvas import INK, new_figure, to_svg
from ..drawing.charts import looks
from ..drawing.page import statements_page
from ..writing import share_text, table_head, table_row
from .tasks import GPUS
from .verdicts import TITLES, of_gpus, verdicts
from .worlds import ENSEMBLES, NAMES

Body = Mapping[str, Any]
TITLE = "Ensembles on made-up GPUs and on our boards"
CAUTION = "Arithmetic on made-up times, in proportion to each network's work; nothing here was measured on a GPU."


def rows_of(study: Body) -> dict[str, list[list[str]]]:
    """Give every table as rows of text, the head first."""
    parts = study["parts"]
    ways = ("worst-fit", "bounded greedy", "soft greedy")
    first = [["GPUs", *(f"{name}: {way}" for name in NAMES for way in ways)]]
    for count in GPUS:
        row = [str(count)]
        for name in NAMES:
            cells = parts["table1"][f"{name} on {count}"]
            row += ["-"] * len(ways) if cells is None else [f"{cells[way]:.4g}" for way in ways]
        first.append(row)
    second = [["case", "planned rate", "bound", "gap %", "planned shares", "turns", "endless turns", "found by"]]
    for key, cells in parts["optimum"].items():
        numbers = [f"{cells[name]:.4g}" for name in ("rate", "bound", "gap", "shares", "turns", "endless turns")]
        second.append([key, *numbers, cells["method"]])
    third = [["case", *next(iter(parts["table3"].values()))]]
    third += [[key, *(f"{value:.4g}" for value in entry.values())] for key, entry in parts["table3"].items()]
    return {
        "Table I: samples a second of the ensemble": first,
        TITLES["Table II"]: _matrix(parts["table2"]["IMN4 on 4"]),
        TITLES["ours"]: second,
        "Drawn worlds: shares in which a statement holds": _shares(parts),
        "Table III: a GPU a network at its best batch, and algorithm 2": third,
    }


def _matrix(part: Body) -> list[list[str]]:
    rows = [[device, *map(str, row)] for device, row in part.items() if device != "networks"]
    return [["device", *part["networks"]], *rows]


def _shares(parts: Body) -> list[list[str]]:
    drawn = [of_gpus(body) for body in parts["drawn"].values()]
    rows = [["where", "statement", "holds in"]]
    for place, example in enumerate(of_gpus(parts)):
        kept = sum(all(checks[place].holds) for checks in drawn)
        rows.append([example.where, example.statement, share_text(kept, len(drawn))])
    return rows


def tables_markdown(study: Body, command: str) -> str:
    """Write the tables as Markdown: generated, so never edited."""
    blocks = [f"# Tables of the ensembles\n\nWritten by `{command}`; do not edit.\n{CAUTION}"]
    for title, (head, *rows) in rows_of(study).items():
        blocks.append("\n".join([f"## {title}", "", *table_head(head), *(table_row(row) for row in rows)]))
    return "\n\n".join(blocks) + "\n"


def study_figures(study: Body) -> dict[str, str]:
    """Draw the rate of each ensemble against the number of GPUs."""
    part, ways = study["parts"]["table1"], ("worst-fit", "bounded greedy", "soft greedy")
    figure, axes = new_figure(11.2, 3.4, len(ENSEMBLES))
    look = looks(ways)
    for axis, name in zip(axes, ENSEMBLES, strict=True):
        for way in ways:
            points = [(count, part[f"{name} on {count}"]) for count in GPUS]
            shown = [(count, entry[way]) for count, entry in points if entry is not None]
            xs, ys = zip(*shown, strict=True)
            axis.plot(xs, ys, marker="o", markersize=3, color=look[way].colour, label=way)
        axis.set_title(name, fontsize=10, color=INK, loc="left")
        axis.set_xlabel("GPUs", fontsize=9, color=INK)
        axis.locator_params(axis="x", integer=True)
    axes[0].set_ylabel("samples a second (made-up times)", fontsize=9, color=INK)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=9, frameon=False, fontsize=9, labelcolor=INK)
    return {"rate": to_svg(figure)}


def render_study(study: Body, command: str, figures: Mapping[str, str]) -> str:
    """Render the page."""
    return statements_page(
        title=TITLE,
        lead="Several networks on several devices as a matrix: what the paper says, and what came out here.",
        caution=CAUTION,
        command=command,
        verdicts=verdicts(study),
        figures=figures,
        tables=rows_of(study),
    )


def study_excerpt(study: Body) -> dict[str, Any]:
    """Give the part that documents quote."""
    return {"optimum": study["parts"]["optimum"]}
