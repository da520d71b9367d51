"""The study as one self-contained HTML page, and its excerpt for documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..drawing.page import inline_figure, page_template
from ..statements import tally
from . import tables
from .verdicts import TITLES, count_missed, mean_of, split_rows, verdicts

Body = Mapping[str, Any]


def render_study(study: Body, command: str, figures: Mapping[str, str]) -> str:
    """Render the page.

    `command` is the one that made the study, for the reader to repeat; `figures` are SVG text.
    """
    parts, judgements = study["parts"], verdicts(study)
    shown = {
        "resnet101": _cells(tables.resnet101(parts)),
        "heads_cost": _cells(tables.heads(parts)),
        "selections": _cells(tables.selections(parts["selection"])),
        "splits": _cells(tables.splits(parts)),
        "arrivals": _cells(tables.arrivals(parts["arrival"])),
        "maps": _cells(tables.maps(parts["maps"])),
        "drift": _cells(tables.drift(parts["drift"]["fashion"])),
        "adaptation": _cells(tables.adaptation(parts["adaptation"]["fashion"])),
    }
    checks, map_checks = (
        [_cells(block.split("\n")) for block in "\n".join(lines).split("\n\n")]
        for lines in (tables.checks(parts["checks"]), tables.map_checks(parts["maps"]))
    )
    return page_template(__package__, "study.html.j2").render(
        command=command,
        titles=TITLES,
        verdicts=judgements,
        tally=tally(judgements),
        figures={name: inline_figure(svg, name) for name, svg in figures.items()},
        heads=[rows[0] for rows in (*shown.values(), *checks, *map_checks)],
        checks=checks,
        map_checks=map_checks,
        **shown,
    )


def _cells(lines: Sequence[str]) -> list[list[str]]:
    """Take the rows of a Markdown table apart, without the line below its head."""
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    return [row for row in rows if set("".join(row)) != {"-"}]


def study_excerpt(study: Body) -> dict[str, Any]:
    """Give the part that documents quote: ResNet-101's times and the splits."""
    rows = split_rows(study["parts"])
    return {
        "resnet101": study["parts"]["resnet101"]["times"],
        "splits": {
            which: {
                "missed": count_missed(rows, which),
                "average_change_pct": mean_of(rows, which, "average_change_pct"),
                "tail_change_pct": mean_of(rows, which, "tail_change_pct"),
            }
            for which in ("naive", "guaranteed")
        },
    }
