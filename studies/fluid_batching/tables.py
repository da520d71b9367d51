"""The study's tables as Markdown, for documentation: generated, so never edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..writing import plus_minus, table_head, table_row
from .paper import table2_rows
from .settings import ADAPTIVE, ANYTIME, BASELINES, DRIFT, OURS, YARDSTICKS, worlds
from .verdicts import TITLES

Body = Mapping[str, Any]
GOAL_A, GOAL_B = ("credit", "guarded"), ("credit:anytime=3%", "guarded:anytime=3%")


def tables_markdown(study: Body, command: str) -> str:
    """Write Table II with its bound and our goals, the dial, drift, the co-design loop, accuracy."""
    parts = study["parts"]
    blocks = [
        ["# Tables of the study", "", f"Written by `{command}`; do not edit. Simulated."],
        ["## Table II", "", "Violations % / average ms / p99 ms.", "", *table2(parts["table2"])],
        *(
            [f"## {name}", "", *table_head(head), *map(table_row, rows)]
            for name, (head, *rows) in design_rows(parts).items()
        ),
        ["## Goals: paired differences over seeds on the same requests", "", *goals(parts["table2"])],
        ["## The dial", "", *dial(parts["frontier"])],
        ["## When the world is not as told: over `fluid`, lowest to highest over the rows", "", *drift(parts["drift"])],
        ["## Co-design loop", "", *codesign(parts["codesign"])],
        ["## Accuracy given up by anytime answers", "", *accuracy(parts["accuracy"])],
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def design_rows(parts: Body) -> dict[str, list[list[str]]]:
    """Give the tables of designs by title, as rows of text, the head first."""
    rows = [["network, board", "design", "designs", "DSPs %", "memory %", "FBCB % of registers"]]
    for key, entry in parts["Table I"].items():
        numbers = [f"{entry[name]:.2f}" for name in ("dsp_pct", "memory_pct", "fbcb_pct")]
        rows.append([key, f"<{', '.join(map(str, entry['point']))}>", str(entry["designs"]), *numbers])
    first = [["what", "serial", *(f"timeout {name[-1].upper()}" for name in ADAPTIVE)]]
    for name, lines in parts["Fig. 1a"].items():
        for label, row in lines.items():
            cells = [plus_minus(row[policy]["busy_mac_efficiency_pct"]) for policy in ("serial", *ADAPTIVE)]
            first.append([f"{name}, {label}, %", *cells])
    ways = parts["Fig. 1b"]["GOP/s"]
    first += [
        [f"{name}, GOP/s of parts 1 to 4", *(f"{x:.0f}" for x in ways[name])] for name in ("SERIAL", "FC", "R", "P")
    ]
    return {TITLES["Table I"]: rows, TITLES["Fig. 1"]: first}


def table2(part: Body) -> list[str]:
    """Write a row a policy, a column a row of Table II."""
    rows = table2_rows()
    heads = [f"{row.name}, {row.rate_per_s:g}/s, {row.slo_ms} ms" for row in rows]
    lines = table_head(["policy", *heads])
    for name in (*BASELINES[:-2], "lazy", *BASELINES[-2:], *OURS, *ANYTIME):  # lazy has a name of its own in each row
        cells = []
        for row in rows:
            policies = part[row.name]["policies"]
            entry = policies[f"lazy:layers={row.layers}" if name == "lazy" else name]
            cells.append(" / ".join(plus_minus(entry[k], 1 if k == "violations_pct" else 0) for k in YARDSTICKS))
        lines.append(table_row([f"`{name}`", *cells]))
    bounds = [plus_minus(part[row.name]["bound_pct"], 2) + " %" for row in rows]
    paper = [f"{row.fluid_violations_pct:g} % / {row.fluid_average_ms:g} ms" for row in rows]
    return [*lines, table_row(["clairvoyant lower bound", *bounds]), table_row(["the paper's Fluid", *paper])]


def goals(part: Body) -> list[str]:
    """Compare our policies with `fluid`, or with half of its violations; a goal holds where the interval
    excludes zero.
    """
    lines = table_head(["policy", "compared with", *(row.name for row in table2_rows()), "holds"])
    for names, field, against in (
        (GOAL_A, "minus_fluid", "`fluid`"),
        (GOAL_B, "minus_half_of_fluid", "half of `fluid`'s violations, its average and p99"),
    ):
        for name in names:
            cells = [part[row.name][field][name] for row in table2_rows()]
            holds = all(below(cell[k]) for cell in cells for k in YARDSTICKS)
            texts = [" / ".join(plus_minus(cell[k], sign=True) for k in YARDSTICKS) for cell in cells]
            lines.append(table_row([f"`{name}`", against, *texts, "yes" if holds else "no"]))
    return lines


def below(value: Sequence[float | None]) -> bool:
    """Return whether the interval of a difference lies below zero.

    >>> below([-2.0, -3.0, -1.0]), below([-2.0, -5.0, 1.0]), below([-2.0, None, None])
    (True, False, False)
    """
    return value[2] is not None and value[2] < 0


def dial(part: Body) -> list[str]:
    """Write violations and p99 by the dial's place, `fluid` and `optimal` beside it."""
    lines = table_head(["policy", *(row.name for row in table2_rows())])
    for name in sorted(
        part[table2_rows()[0].name], key=lambda n: (n.partition(":dial=")[0], float(n.partition("=")[2] or 0))
    ):
        cells = [part[row.name][name] for row in table2_rows()]
        text = [f"{plus_minus(c['violations_pct'], 1)} % / {plus_minus(c['p99_ms'], 0)} ms" for c in cells]
        lines.append(table_row([f"`{name}`", *text]))
    return lines


def drift(part: Body) -> list[str]:
    """Write ratios to `fluid` on the same streams, over the four rows."""
    labels = list(worlds(table2_rows()[0]))
    lines = table_head(["policy", *labels])
    for name in DRIFT:
        if name == "fluid":
            continue
        cells = []
        for label in labels:
            ratios = [part[f"{row.name}: {label}"]["over_fluid"][name] for row in table2_rows()]
            cells.append(" / ".join(_span([ratio[key] for ratio in ratios]) for key in YARDSTICKS))
        lines.append(table_row([f"`{name}`", *cells]))
    return lines


def codesign(part: Body) -> list[str]:
    """Write each step of the loop: the design that the weights give, and its serving."""
    lines = table_head(["row", "step", "design", "violations % / average ms / p99 ms", "shares of batches 1 to B_max"])
    for row in table2_rows():
        for number, step in enumerate(part[row.name]["steps"]):
            point = "<" + ", ".join(map(str, step["point"])) + ">"
            served = " / ".join(plus_minus(step[key], 2) for key in YARDSTICKS)
            shares = " ".join(f"{share:.2f}" for share in step["batch_shares"])
            lines.append(table_row([row.name, "w_b = 1" if not number else f"{number}", point, served, shares]))
    return lines


def accuracy(part: Body) -> list[str]:
    """Write the gain and cost of anytime answers by threshold."""
    lines = table_head(
        ["threshold", "policy", "violations % / average ms / p99 ms", "anytime %", "accuracy %", "points lost"]
    )
    for threshold in sorted(part, key=float):
        for name, entry in part[threshold]["policies"].items():
            served = " / ".join(plus_minus(entry[key], 2) for key in YARDSTICKS)
            rest = [plus_minus(entry[key], 2) for key in ("anytime_pct", "accuracy_pct", "accuracy_lost_points")]
            lines.append(table_row([threshold, f"`{name}`", served, *rest]))
    return lines


def _span(values: Sequence[float | None]) -> str:
    measured = [value for value in values if value is not None]
    if not measured:
        return "unstable"
    low, high = f"{min(measured):.2f}", f"{max(measured):.2f}"
    text = low if low == high else f"{low}-{high}"
    return text if len(measured) == len(values) else f"{text} (unstable in {len(values) - len(measured)})"
