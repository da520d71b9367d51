"""The study's tables, figures and page: pure functions of its dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..drawing.canvas import INK, new_figure, to_svg
from ..drawing.charts import looks
from ..drawing.page import statements_page
from ..writing import plus_minus, share_text, table_head, table_row
from .verdicts import of_gpus, verdicts

Body = Mapping[str, Any]
Rows = list[list[str]]
TITLE = "TETRIS on made-up GPUs and on our boards"
CAUTION = "Planned rates on made-up and drawn GPU profiles, since the paper prints no latencies; boards are simulated."
TITLES = {
    "homogeneous": "Figs. 7, 8, 19: 16 V100, samples a second by largest batch",
    "mixed types": "Figs. 9, 10: 6 V100, 8 P100, 15 K80, by largest batch",
    "mixes": "Fig. 11: 16 V100, batch up to 8, by share of easy samples",
    "patience": "Fig. 14: 16 V100, batch up to 16, by PABEE's patience",
    "tolerance": "Fig. 15: 16 V100, batch up to 8, by entropy",
    "objective": "Fig. 18: 16 V100, by objective in ms",
    "heterogeneity": "Fig. 16: equal cost, by largest batch",
    "parallel": "Fig. 17: splits over devices and in series, by largest batch",
}


def rows_of(study: Body) -> dict[str, Rows]:
    """Give every table as rows of text, the head first."""
    parts = study["parts"]
    out = {title: _plain(parts[part]) for part, title in TITLES.items()}
    out["Figs. 12, 13: 6,000 samples a second, GPUs and dollars an hour"] = _nested(parts["cost"], ("gpus", "cost"))
    out["Fig. 5: one pipeline against any mix of pieces"] = _plain(parts["space"])
    boards = {f"{key}, {link}": forms for key, links in parts["boards"].items() for link, forms in links.items()}
    out["ResNet-50 on ZC706 + ZCU104, samples a second within 200 ms: planned, in the twin"] = _nested(
        boards, ("planned", "twin")
    )
    out["Forecasts: mean and worst error of reach, in points"] = _forecasts(parts["forecast"])
    out["Fig. 4: samples of sixteen left at each ramp"] = _ramps(parts["batches"]["left"]["left"])
    out["Table 1: the optimiser within the paper's seconds"] = _kept(parts["Table 1"])
    out["Drawn profiles: shares on which a statement holds"] = _shares(parts)
    out["Fig. 11: a plan for 80:20 in other mixes"] = _plain(parts["adapt"]["mixes"])
    return out


def _forecasts(part: Body) -> Rows:
    names = list(dict.fromkeys(name for entry in part.values() for name in entry))
    cells = {
        key: [
            f"{plus_minus(entry[name]['mean'])} / {entry[name]['worst']:.1f}" if name in entry else "-"
            for name in names
        ]
        for key, entry in part.items()
    }
    return [["", *names], *([key, *row] for key, row in cells.items())]


def _ramps(left: list[float]) -> Rows:
    return [["ramp", *map(str, range(1, len(left) + 1))], ["samples", *(f"{x:.1f}" for x in left)]]


def _kept(part: Body) -> Rows:
    fleets = list(next(iter(part.values())))
    return [["", *fleets], *([name, *("yes" if entry[f] else "no" for f in fleets)] for name, entry in part.items())]


def _shares(parts: Body) -> Rows:
    drawn = [of_gpus(body) for body in parts["drawn"].values()]
    rows = [["where", "statement", "holds on"]]
    for place, example in enumerate(of_gpus(parts)):
        kept = sum(all(checks[place].holds) for checks in drawn)
        rows.append([example.where, example.statement, share_text(kept, len(drawn))])
    return rows


def _keys(part: Body) -> list[str]:
    def order(key: str) -> tuple[int, float, str]:
        try:
            return 0, float(key), key
        except ValueError:
            return 1, 0.0, key

    return sorted(part, key=order)


def _plain(part: Body) -> Rows:
    columns = list(dict.fromkeys(name for key in _keys(part) for name in part[key]))
    return [["", *columns], *([key, *(_text(part[key].get(name)) for name in columns)] for key in _keys(part))]


def _nested(part: Body, inner: tuple[str, ...]) -> Rows:
    columns = list(dict.fromkeys(name for key in _keys(part) for name in part[key]))
    rows = [
        [
            key,
            *(
                " / ".join(
                    _text(part[key].get(name, {}).get(key_)) for key_ in inner if key_ in part[key].get(name, {})
                )
                for name in columns
            ),
        ]
        for key in _keys(part)
    ]
    return [["", *columns], *rows]


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def tables_markdown(study: Body, command: str) -> str:
    """Write the tables as Markdown: generated, so never edited."""
    blocks = [f"# Tables of TETRIS\n\nWritten by `{command}`; do not edit.\n{CAUTION}"]
    for title, (head, *rows) in rows_of(study).items():
        blocks.append("\n".join([f"## {title}", "", *table_head(head), *(table_row(row) for row in rows)]))
    return "\n\n".join(blocks) + "\n"


def study_figures(study: Body) -> dict[str, str]:
    """Draw goodput and cost."""
    parts = study["parts"]
    names = ["stock", "exits, all must leave", "exits, shrinking", "TETRIS", "ours, one pipeline"]
    figure, axes = new_figure(11.2, 3.6, 2)
    look = looks(names)
    for axis, (part, title) in zip(
        axes, (("homogeneous", "16 V100"), ("mixed types", "6 V100, 8 P100, 15 K80")), strict=True
    ):
        keys = _keys(parts[part])
        for name in names:
            axis.plot(
                [int(k) for k in keys],
                [parts[part][k][name] for k in keys],
                marker="o",
                markersize=3,
                color=look[name].colour,
                label=name,
            )
        axis.set_xscale("log", base=2)
        axis.set_xticks([int(k) for k in keys], keys)
        axis.set_title(title, fontsize=10, color=INK, loc="left")
        axis.set_xlabel("largest batch", fontsize=9, color=INK)
    axes[0].set_ylabel("samples a second (planned)", fontsize=9, color=INK)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=9, frameon=False, fontsize=9, labelcolor=INK)
    cost, (axis,) = new_figure(11.2, 3.2, 1)
    names = ["stock", "exits, all must leave", "TETRIS", "TETRIS, mixed types"]
    look = looks(names)
    keys = _keys(parts["cost"])
    for name in names:
        values = [parts["cost"][k][name]["cost"] for k in keys]
        axis.plot(
            [int(k) for k in keys],
            [float("nan") if v is None else v for v in values],
            marker="o",
            markersize=3,
            color=look[name].colour,
            label=name,
        )
    axis.set_xscale("log", base=2)
    axis.set_xticks([int(k) for k in keys], keys)
    axis.set_ylabel("dollars an hour for 6,000/s", fontsize=9, color=INK)
    axis.set_xlabel("largest batch", fontsize=9, color=INK)
    axis.legend(frameon=False, fontsize=9, labelcolor=INK)
    return {"goodput": to_svg(figure), "cost": to_svg(cost)}


def render_study(study: Body, command: str, figures: Mapping[str, str]) -> str:
    """Render the page."""
    return statements_page(
        title=TITLE,
        lead="Splitting early-exit networks over many devices: what the paper says, and what came out here.",
        caution=CAUTION,
        command=command,
        verdicts=verdicts(study),
        figures=figures,
        tables=rows_of(study),
    )


def study_excerpt(study: Body) -> dict[str, Any]:
    """Give the part that documents quote: the spaces and the boards."""
    return {"space": study["parts"]["space"], "boards": study["parts"]["boards"]}
