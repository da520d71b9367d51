"""Figures of the study as SVG text: pure functions of the study's dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..drawing.charts import Cell, Curve, Dot, Look, Panel, curves, frontier, line_panels, looks, value_of, winner_map
from .paper import Sweep, sweeps, table2_rows
from .settings import MAPPED, ON_FLUID_HARDWARE, SOLVED_ONCE

Body = Mapping[str, Any]
LETTERS = dict(zip(MAPPED, "SGAFOCU", strict=True))
DRAWN = (*ON_FLUID_HARDWARE, *SOLVED_ONCE)  # in colours of their own
TITLES = {"violations_pct": "violations (%)", "average_ms": "average latency (ms)", "p99_ms": "p99 latency (ms)"}


def study_figures(study: Body) -> dict[str, str]:
    """Draw every figure of the study, by name."""
    parts, out = study["parts"], {}
    for sweep in sweeps():
        out[sweep.figures[0]], out[sweep.figures[1]] = _sweep(sweep, parts)
        out[f"map, {sweep.row.name}"] = _map(parts[f"map, {sweep.row.name}"])
    return out | {"Fig. 10": _fig10(parts["fig10"]["share of peak"]), "frontier": _frontier(parts["frontier"])}


def _curve(part: Body, name: str, keys: Sequence[str]) -> Curve:
    return [(float(x), {key: value_of(part[x]["lines"][name][key]) for key in keys}) for x in sorted(part, key=float)]


def _sweep(sweep: Sweep, parts: Body) -> tuple[str, str]:
    """Draw Figs. 7 and 9a, or 8 and 9b."""
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
    """Give policies on fluid hardware colours of their own; FC and R have two, with dashes for S, M and L."""
    dashes = {"s": "-", "m": "--", "l": ":"}
    out = looks([n for n in names if n in DRAWN])
    for name in names:
        if name not in out:
            out[name] = Look(colour="#7a869a" if name.startswith("FC") else "#8c510a", dashes=dashes[name[-1]])
    return out


def _fig10(part: Body) -> str:
    """Draw the share of peak by batch size: a line a way, a panel a board and network."""
    panels = {
        row.name: {
            way: list(enumerate(part[row.name][way]["share_pct"], 1))
            for way in ("fluid + stackable", "fluid", "R", "P")
        }
        for row in table2_rows()
    }
    return line_panels(panels, "batch size", "share of the device's peak (%)")


def _frontier(part: Body) -> str:
    panels = {}
    for row in table2_rows():
        dots = []
        for name, cells in sorted(part[row.name].items()):
            p99, missed = value_of(cells["p99_ms"]), value_of(cells["violations_pct"])
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
        for key, title in TITLES.items()
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


def _cell(winner: Body) -> Cell:
    if winner["best"] is None:
        return Cell(winner="", text="unstable")
    value = winner["value"]
    text = f"{value:.2g}" if value < 10 else f"{value:.0f}"
    if len(winner["equal"]) == len(LETTERS) - 1:
        return Cell(winner="", text=f"{text}\nall alike")
    equal = "".join(LETTERS[name] for name in winner["equal"])
    return Cell(winner=winner["best"], text=f"{text}\n{LETTERS[winner['best']]}" + (f"={equal}" if equal else ""))
