"""The study as one self-contained HTML page, statement by statement and then every table, and its excerpt for
documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fluidnpu.scheduler.comparison import Source

from ..drawing.excerpts import decisions_from, first_merge, first_schedules
from ..drawing.page import inline_figure, page_template
from ..drawing.timeline import schedule_timeline
from ..statements import tally
from .figures import LETTERS, value_of
from .paper import sweeps, table2_rows
from .settings import ANYTIME, BASELINES, DRIFT, OURS, YARDSTICKS, worlds
from .tables import design_rows
from .verdicts import verdicts

Body = Mapping[str, Any]
ORDER = (*BASELINES, "lazy:layers=56", "lazy:layers=96", *OURS, *ANYTIME, *DRIFT)
SHOWN = ("serial", "greedy", "fluid", "credit")  # timelines and decisions
SHOWN_REQUESTS = 300


def render_study(study: Body, command: str, figures: Mapping[str, str]) -> str:
    """Render the page.

    `command` is the one that made the study, for the reader to repeat; `figures` are SVG text.
    """
    parts, judgements = study["parts"], verdicts(study)
    return page_template(__package__, "study.html.j2").render(
        study=study,
        command=command,
        verdicts=judgements,
        tally=tally(judgements),
        rows=table2_rows(),
        sweeps=sweeps(),
        figures={name: inline_figure(svg, name) for name, svg in figures.items()},
        table2={name: {**entry, "policies": _ordered(entry["policies"])} for name, entry in parts["table2"].items()},
        lazy=parts["lazy"],
        letters=", ".join(f"{letter} {name}" for name, letter in LETTERS.items()),
        drift=_drift(parts["drift"]),
        codesign=parts["codesign"],
        gain=codesign_gain(parts["codesign"]),
        accuracy=parts["accuracy"],
        shown=_shown(),
        designs=design_rows(parts),
    )


def _ordered(policies: Body) -> dict[str, Any]:
    """Put baselines first, ours after them; a study read from its file is sorted by name."""
    return {
        name: policies[name] for name in sorted(policies, key=lambda n: ORDER.index(n) if n in ORDER else len(ORDER))
    }


def study_excerpt(study: Body) -> dict[str, Any]:
    """Give the part that documents quote: Table II, the dial, drift, co-design, accuracy."""
    parts = study["parts"]

    def cells_of(policies: Body, *more: str) -> dict[str, Any]:
        return {name: {key: cells[key] for key in (*YARDSTICKS, *more)} for name, cells in policies.items()}

    of_accuracy = ("anytime_pct", "accuracy_pct", "accuracy_lost_points")
    differences = ("bound_pct", "minus_fluid", "minus_half_of_fluid")
    return {
        "table2": {
            name: {"policies": cells_of(row["policies"]), **{key: row[key] for key in differences}}
            for name, row in parts["table2"].items()
        },
        "frontier": {name: cells_of(policies) for name, policies in parts["frontier"].items()},
        "drift_over_fluid": {name: entry["over_fluid"] for name, entry in parts["drift"].items()},
        "codesign": parts["codesign"],
        "accuracy": {name: cells_of(entry["policies"], *of_accuracy) for name, entry in parts["accuracy"].items()},
    }


def _drift(part: Body) -> list[dict[str, Any]]:
    """Give a table a world: policies by rows of Table II, each the three ratios to fluid."""
    out = []
    for label in worlds(table2_rows()[0]):
        cells = {row.name: part[f"{row.name}: {label}"]["over_fluid"] for row in table2_rows()}
        names = [n for n in DRIFT if n != "fluid"]
        out.append({"label": label, "names": names, "cells": cells})
    return out


def codesign_gain(part: Body) -> str:
    """Say what the loop brought, in one sentence per outcome."""
    same, moved = [], []
    for row in table2_rows():
        steps = part[row.name]["steps"]
        if all(step["point"] == steps[0]["point"] for step in steps):
            same.append(row.name)
            continue
        first, last = (value_of(step, "average_ms") for step in (steps[0], steps[-1]))
        change = "unstable" if first is None or last is None else f"average {100 * (last[0] / first[0] - 1):+.1f} %"
        moved.append(f"{row.name} ends at another design ({change} against w_b = 1)")
    text = f"{len(same)} of {len(same) + len(moved)} designs stay as they are, so the loop ends where it began."
    return " ".join([text, *(f"{sentence}." for sentence in moved)])


def _shown() -> list[dict[str, Any]]:
    """Draw batches over time and list decisions on the first row's first seed, simulated anew: the study's
    file holds none.
    """
    row = table2_rows()[0]
    source = Source(rate_per_s=row.rate_per_s, slo_ns=row.slo_ns, count=SHOWN_REQUESTS)
    schedules = first_schedules(row.serving, source, SHOWN)
    first = first_merge(schedules["fluid"], at_least=3) or 0
    exits = tuple(f"exit {k}" for k in range(1, row.serving.latency.stages + 1))
    return [
        {
            "name": name,
            "figure": inline_figure(schedule_timeline(schedule, first, exits), f"Batches over time, {name}"),
            "said": decisions_from(schedule, first),
        }
        for name, schedule in schedules.items()
    ]
