"""The study as one self-contained HTML page: statement by statement, then every table and figure. A pure function of the study's dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from fluidnpu import show
from fluidnpu.reports.demo import template
from fluidnpu.reports.simulation import excerpt, first_schedules, interesting, timeline
from fluidnpu.scheduler import Source

from ..drawing.charts import Cell, Curve, Dot, Look, Panel, Value, ablation_bars, curves, frontier, looks, winner_map
from .paper import Sweep, sweeps, table2_rows
from .tasks import ANYTIME, BASELINES, DRIFT, MAPPED, ON_FLUID_HARDWARE, OURS, SOLVED_ONCE, worlds
from .verdicts import number, verdicts

Body = Mapping[str, Any]
ORDER = (*BASELINES, "lazy:layers=56", "lazy:layers=96", *OURS, *ANYTIME, *DRIFT)
SHOWN = ("serial", "greedy", "fluid", "credit")  # timelines and decisions
SHOWN_REQUESTS = 300
LETTERS = dict(zip(MAPPED, "SGAFOCU", strict=True))
DRAWN = (*ON_FLUID_HARDWARE, *SOLVED_ONCE)  # in colours of their own
YARDSTICKS = {"violations_pct": "violations (%)", "average_ms": "average latency (ms)", "p99_ms": "p99 latency (ms)"}


def render_study(study: Body, command: str) -> str:
    """The page. `command` is what made the study, for the reader to repeat."""
    parts, said = study["parts"], verdicts(study)
    return template("study.html.j2").render(
        study=study,
        command=command,
        verdicts=said,
        tally=Counter(v.verdict for v in said),
        number=number,
        rows=table2_rows(),
        sweeps=sweeps(),
        figures={name: Markup(svg) for name, svg in study_figures(study).items()},
        table2={name: {**one, "policies": _ordered(one["policies"])} for name, one in parts["table2"].items()},
        lazy=parts["lazy"],
        letters=", ".join(f"{letter} {name}" for name, letter in LETTERS.items()),
        drift=_drift(parts["drift"]),
        codesign=parts["codesign"],
        gain=codesign_gain(parts["codesign"]),
        accuracy=parts["accuracy"],
        shown=_shown(),
    )


def statements_markdown(study: Body, command: str) -> str:
    """The statements as Markdown, for documentation: generated, so never edited."""
    said = verdicts(study)
    tally = ", ".join(f"{count} {verdict}" for verdict, count in sorted(Counter(v.verdict for v in said).items()))
    lines = [
        "# What Fluid Batching says about serving, and what came out here",
        "",
        f"Written by `{command}`; do not edit. Simulated. {len(said)} statements: {tally}; *fitted* is no evidence.",
        "",
        "| | where | statement | paper | here | why |",
        "|---|---|---|---|---|---|",
    ]
    for v in said:
        cells = (f"**{v.verdict}**", v.where, v.statement, v.paper, v.ours, v.why)
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def study_figures(study: Body) -> dict[str, str]:
    """Every figure of the study by name, as SVG text."""
    parts, out = study["parts"], {}
    for sweep in sweeps():
        out[sweep.figures[0]], out[sweep.figures[1]] = _sweep(sweep, parts)
        out[f"map, {sweep.row.name}"] = _map(parts[f"map, {sweep.row.name}"])
    return out | {"fig10": _fig10(parts["fig10"]["share of peak"]), "frontier": _frontier(parts["frontier"])}


def _ordered(policies: Body) -> dict[str, Any]:
    """Baselines first, ours after them; a study read from its file is sorted by name."""
    return {
        name: policies[name] for name in sorted(policies, key=lambda n: ORDER.index(n) if n in ORDER else len(ORDER))
    }


def summary(study: Body, command: str) -> dict[str, Any]:
    """The small part of the study that documents quote: the statements, Table II, the dial, drift and co-design."""
    parts, said = study["parts"], verdicts(study)
    keys = ("violations_pct", "average_ms", "p99_ms")
    table2 = {
        name: {
            "policies": {p: {k: cells[k] for k in keys} for p, cells in row["policies"].items()},
            "bound_pct": row["bound_pct"],
            "minus_fluid": row["minus_fluid"],
            "minus_half_of_fluid": row["minus_half_of_fluid"],
        }
        for name, row in parts["table2"].items()
    }
    dial = {name: {p: {k: c[k] for k in keys} for p, c in one.items()} for name, one in parts["frontier"].items()}
    return {
        "command": command,
        **{
            key: study[key]
            for key in ("study", "schema", "seeds", "requests", "sweep_requests", "interval", "simulated")
        },
        "tally": dict(Counter(v.verdict for v in said)),
        "verdicts": [v.to_dict() for v in said],
        "table2": table2,
        "frontier": dial,
        "drift_over_fluid": {name: one["over_fluid"] for name, one in parts["drift"].items()},
        "codesign": parts["codesign"],
        "accuracy": {
            name: {
                p: {k: c[k] for k in (*keys, "anytime_pct", "accuracy_pct", "accuracy_lost_points")}
                for p, c in one["policies"].items()
            }
            for name, one in parts["accuracy"].items()
        },
    }


def _value(cell: Body, key: str) -> Value:
    value = cell[key]
    if value is None or value[0] is None:
        return None
    low, high = (value[0] if x is None else x for x in value[1:])
    return value[0], low, high


def _curve(part: Body, name: str, keys: Sequence[str]) -> Curve:
    return [(float(x), {key: _value(part[x]["lines"][name], key) for key in keys}) for x in sorted(part, key=float)]


def _sweep(sweep: Sweep, parts: Body) -> tuple[str, str]:
    """Figs. 7 and 9a, or 8 and 9b."""
    by_rate, by_slo = parts[sweep.figures[0]], parts[sweep.figures[1]]
    names = list(next(iter(by_rate.values()))["lines"])
    names.sort(key=lambda n: (n not in DRAWN, DRAWN.index(n) if n in DRAWN else 0, n))
    look = _line_looks(names)
    rate_panels = (
        Panel(
            title="average latency (ms)",
            key="average_ms",
            logarithmic=True,
            line_at=sweep.slo_ms,
            line_name="objective",
        ),
        Panel(title="p99 latency (ms)", key="p99_ms", logarithmic=True, line_at=sweep.slo_ms, line_name="objective"),
        Panel(title="SLO violations (%)", key="violations_pct", percent=True),
        Panel(
            title="busy MAC efficiency (%): multiply-accumulates over the peak while the NPU runs",
            key="busy_mac_efficiency_pct",
        ),
        Panel(title="NPU busy (% of the time)", key="busy_pct", percent=True),
        Panel(title="mean batch", key="mean_batch"),
    )
    slo_panels = (
        Panel(title="SLO violations (%)", key="violations_pct", percent=True),
        Panel(title="p99 latency (ms)", key="p99_ms", logarithmic=True),
    )
    rates = {n: _curve(by_rate, n, [p.key for p in rate_panels]) for n in names}
    slos = {n: _curve(by_slo, n, [p.key for p in slo_panels]) for n in names}
    return (
        curves(rates, rate_panels, "arrivals a second", look=look),
        curves(slos, slo_panels, "objective (ms)", look=look),
    )


def _line_looks(names: Sequence[str]) -> dict[str, Look]:
    """Policies on fluid hardware in colours of their own; FC and R in two colours, with dashes for S, M and L."""
    dashes = {"s": "-", "m": "--", "l": ":"}
    out = looks([n for n in names if n in DRAWN])
    for name in names:
        if name not in out:
            out[name] = Look(colour="#7a869a" if name.startswith("FC") else "#8c510a", dashes=dashes[name[-1]])
    return out


def _fig10(part: Body) -> str:
    panels = {name: {way: one["share_pct"] for way, one in ways.items()} for name, ways in part.items()}
    order = [name for row in table2_rows() for name in panels if name == row.name]
    return ablation_bars({name: panels[name] for name in order}, looks(["fluid + stackable", "fluid", "R", "P"]))


def _frontier(part: Body) -> str:
    panels = {}
    for row in table2_rows():
        dots = []
        for name, cells in sorted(part[row.name].items()):
            p99, missed = _value(cells, "p99_ms"), _value(cells, "violations_pct")
            if p99 is None or missed is None:
                continue
            dial = name.startswith("credit")
            dots.append(Dot(name=name.rpartition("=")[2] or name, p99_ms=p99, violations_pct=missed, dial=dial))
        panels[row.name] = dots
    return frontier(panels)


def _map(part: Body) -> str:
    loads = sorted(part, key=float)
    multiples = sorted(part[loads[0]]["objectives"], key=float)
    maps = {
        title: [[_cell(part[load]["objectives"][m][key]) for load in loads] for m in multiples]
        for key, title in YARDSTICKS.items()
    }
    alone = part[loads[0]]["alone_ms"]
    rows = [f"{float(m):g} × ({float(m) * alone:.0f} ms)" for m in multiples]
    columns = [f"{100 * float(load):.0f} %\n{part[load]['rate_per_s']:.1f}/s" for load in loads]
    return winner_map(
        maps,
        rows,
        columns,
        looks(list(LETTERS)),
        ("load: share of what the NPU can serve at best", "objective over one sample alone"),
    )


def _cell(found: Body) -> Cell:
    if found["best"] is None:
        return Cell(winner="", text="unstable")
    value = found["value"]
    text = f"{value:.2g}" if value < 10 else f"{value:.0f}"
    if len(found["equal"]) == len(LETTERS) - 1:
        return Cell(winner="", text=f"{text}\nall alike")
    equal = "".join(LETTERS[name] for name in found["equal"])
    return Cell(winner=found["best"], text=f"{text}\n{LETTERS[found['best']]}" + (f"={equal}" if equal else ""))


def _drift(part: Body) -> list[dict[str, Any]]:
    """A table a world: policies by rows of Table II, each the three ratios to fluid."""
    out = []
    for label in worlds(table2_rows()[0]):
        cells = {row.name: part[f"{row.name}: {label}"]["over_fluid"] for row in table2_rows()}
        names = [n for n in DRIFT if n != "fluid"]
        out.append({"label": label, "names": names, "cells": cells})
    return out


def codesign_gain(part: Body) -> str:
    """What the loop brought, in one sentence per outcome."""
    same, moved = [], []
    for row in table2_rows():
        steps = part[row.name]["steps"]
        if all(step["point"] == steps[0]["point"] for step in steps):
            same.append(row.name)
            continue
        first, last = (_value(step, "average_ms") for step in (steps[0], steps[-1]))
        change = "unstable" if first is None or last is None else f"average {100 * (last[0] / first[0] - 1):+.1f} %"
        moved.append(f"{row.name} ends at another design ({change} against w_b = 1)")
    text = f"{len(same)} of {len(same) + len(moved)} designs stay as they are, so the loop ends where it began."
    return " ".join([text, *(f"{one}." for one in moved)])


def _shown() -> list[dict[str, Any]]:
    """Batches over time and decisions on the first row's first seed; simulated anew, so that the study's file need not hold them."""
    row = table2_rows()[0]
    source = Source(rate_per_s=row.rate_per_s, slo_ns=row.slo_ns, count=SHOWN_REQUESTS)
    schedules = first_schedules(row.serving, source, SHOWN)
    first = interesting({"fluid": schedules["fluid"]})
    exits = tuple(f"exit {k}" for k in range(1, row.serving.latency.stages + 1))
    return [
        {"name": name, "figure": Markup(timeline(done, first, exits)), "said": excerpt(done, first)}
        for name, done in schedules.items()
    ]


def print_verdicts(study: Body) -> Any:
    """The statements as a table for a terminal."""
    rows = [(v.verdict, v.where, v.statement, v.paper, v.ours) for v in verdicts(study)]
    return show.table(
        "What the paper says, and what came out here (simulated)",
        ("", "where", "statement", "paper", "here"),
        rows,
        left=5,
    )
