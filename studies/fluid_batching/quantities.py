"""What the statements of Fluid Batching are judged by: pure functions of the parts of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..writing import by_number, plus_minus
from .paper import FBCB_PCT, NETWORKS, TABLE_1, PaperRow, Sweep, sweeps, table2_rows
from .settings import ADAPTIVE, ANYTIME, BASELINES, DRIFT, OURS, YARDSTICKS, worlds

Parts = Mapping[str, Any]
LEAST_OVER_ALONE = 4.0  # an objective below this many times one sample alone is "excessively low"
FEW_PCT = 1.0  # "no violations": a p99 objective is met
GAIN_RANGES = {"Fig. 7": (5.0, 18.0, 20.4), "Fig. 8": (25.0, 35.0, 13.5)}  # rates a second, utilisation gain in %
SUSTAINED = {"Fig. 7": 20.0, "Fig. 8": 55.0}  # requests a second
HEADLINE_LATENCY, HEADLINE_VIOLATIONS = 1.97, 6.7  # of the abstract
POLICIES = (*BASELINES[:-2], "lazy", *BASELINES[-2:], *OURS, *ANYTIME)  # lazy has a name of its own in each row
GOALS = (
    ("minus_fluid", "`fluid`", ("credit", "guarded")),
    ("minus_half_of_fluid", "half of `fluid`'s violations, its average and p99", ANYTIME[1:]),
)


def figure_1a(parts: Parts) -> dict[str, Any]:
    """Give the utilisation of adaptive batching over single samples, with and without exits."""
    key, ratios = "busy_mac_efficiency_pct", {}
    for label in ("without", "with exits"):
        rows = {name: row[label] for name, row in parts["Fig. 1a"].items()}
        ratios[label] = {name: row["adaptive-m"][key][0] / row["serial"][key][0] for name, row in rows.items()}
    return {**ratios, **{f"gain {label}": {n: x - 1 for n, x in row.items()} for label, row in ratios.items()}}


def figure_1b(parts: Parts) -> dict[str, Any]:
    """Give the best ways of batching by part of the network, and those that are best for every part."""
    part = parts["Fig. 1b"]["GOP/s"]
    ways = {name: part[name] for name in ("SERIAL", "FC", "R", "P")}
    most = [max(column) for column in zip(*ways.values(), strict=True)]
    best = [{name for name, row in ways.items() if row[k] >= 0.999 * most[k]} for k in range(len(most))]
    alike = sorted(set.intersection(*best))
    return {
        "best": {f"part {k}": tuple(sorted(names)) for k, names in enumerate(best, 1)},
        "alike": len(alike),
        "named": ", ".join(alike) or "no way",
    }


def headline(parts: Parts) -> list[dict[str, Any]]:
    """Give the two ratios of the abstract over adaptive batching, in geometric means."""
    slower: list[float] = []
    later: list[float] = []
    for sweep in sweeps():
        for key, figure, ratios in (("average_ms", 0, slower), ("violations_pct", 1, later)):
            for at in lines_of(parts[sweep.figures[figure]]).values():
                fluid = mean(at["fluid"], key)
                if fluid or key == "average_ms":
                    ratios += [mean(v, key) / fluid for k, v in at.items() if k[:2] in ("FC", "R-")]
    rows = []
    for statement, paper, ratios in (
        ("lower average latency than streaming systems of the day", HEADLINE_LATENCY, slower),
        ("fewer violations of a tail objective than those", HEADLINE_VIOLATIONS, later),
    ):
        logs = [math.log(ratio) for ratio in ratios if 0 < ratio < math.inf]
        value = math.exp(sum(logs) / max(1, len(logs)))
        points = {"points": len(logs), "none": len(ratios) - len(logs)}
        rows.append({"statement": statement, "printed": paper, "value": value, **points})
    return rows


def lines_of(part: Parts) -> dict[float, Parts]:
    """Give the lines of a sweep by x, in order."""
    return {float(x): at["lines"] for x, at in by_number(part).items()}


def mean(cell: Parts, key: str) -> float:
    """Give the mean of a number; infinity where the load is unstable."""
    value = cell[key]
    return math.inf if value is None else float(value[0])


def table_1(parts: Parts) -> list[dict[str, Any]]:
    """Give the designs that the search finds beside the printed ones."""
    rows = []
    for row in TABLE_1:
        ours = parts["Table I"][f"{row.network}, {row.board}"]
        rows.append(
            {
                **ours,
                "network": NETWORKS[row.network],
                "board": row.board.upper(),
                "printed": ", ".join(map(str, row.point)),
                "printed dsp": row.dsp_pct,
                "printed memory": row.memory_pct,
                "ours": ", ".join(map(str, ours["point"])),
                "same": tuple(ours["point"]) == row.point,
            }
        )
    return rows


def fbcb(parts: Parts) -> dict[str, Any]:
    """Give the control block's share of the registers, beside the printed one."""
    rows = {f"{NETWORKS[name]}, {board.upper()}": (name, board) for name, board in FBCB_PCT}
    return {
        "ours": {text: parts["Table I"][", ".join(key)]["fbcb_pct"] for text, key in rows.items()},
        "printed": {text: FBCB_PCT[key] for text, key in rows.items()},
    }


def rates(parts: Parts) -> list[dict[str, Any]]:
    """Give what section IV states about rates, of Figs. 7 and 8."""
    return [_rates(sweep, parts[sweep.figures[0]]) for sweep in sweeps()]


def _rates(sweep: Sweep, part: Parts) -> dict[str, Any]:
    lines, figure = lines_of(part), sweep.figures[0]
    first = next(iter(lines.values()))
    average = {name: mean(line, "average_ms") for name, line in first.items()}
    low, high, gain = GAIN_RANGES[figure]
    span = [at for x, at in lines.items() if low <= x <= high]
    latency = [mean(at["fluid"], "average_ms") / mean(at["serial"], "average_ms") for at in span]
    more = [100 * (efficiency(at, "fluid") / efficiency(at, "serial") - 1) for at in span]
    alone, full = (sweep.row.serving.latency.between(0, 3, b) / b for b in (1, 8))
    lightest = next(iter(by_number(part).values()))
    limit = {kind: lightest["rate_per_s"] / load for kind, load in lightest["least_load"].items()}
    steady = max(x for x, at in lines.items() if not at["fluid"]["unstable"])
    return {
        "figure": figure,
        "row": sweep.row.name,
        "board": sweep.row.board,
        "slo": sweep.slo_ms,
        "lowest": f"{next(iter(lines)):g}/s",
        "waits": {name: average[name] for name in ("R-s", "R-m", "R-l", "fluid")},
        "serial": average["serial"],
        "others": min(v for k, v in average.items() if k not in ("serial", "credit", "guarded")),
        "efficiency": {name: efficiency(first, name) for name in ("serial", "greedy", "fluid")},
        "range": f"{low:g} to {high:g}/s",
        "latency least": min(latency),
        "latency most": max(latency),
        "p99 most": max(mean(at["fluid"], "p99_ms") for at in span),
        "met": max((x for x, at in lines.items() if mean(at["fluid"], "p99_ms") <= sweep.slo_ms), default=0),
        "more": sum(more) / len(more),
        "printed gain": gain,
        "least gain": gain / 1.5,
        "full over alone": 100 * (alone / full - 1),
        "limit": limit,
        "steady": steady,
        "target": SUSTAINED[figure],
        "busy": lines[steady]["fluid"]["busy_pct"][0],
        "busy efficiency": efficiency(lines[steady], "fluid"),
        "middle": sweep.rate_per_s,
        **_over_serial(sweep, lines),
    }


def efficiency(lines: Parts, name: str) -> float:
    """Give the busy MAC efficiency of one line at one rate."""
    return float(lines[name]["busy_mac_efficiency_pct"][0])


def _over_serial(sweep: Sweep, lines: Mapping[float, Parts]) -> dict[str, Any]:
    """Give SERIAL over Fluid where both are stable, above the middle of the range: least and most."""
    both = [
        at
        for x, at in lines.items()
        if x > sweep.rate_per_s and not (at["serial"]["unstable"] or at["fluid"]["unstable"])
    ]
    keys = {"average": "average_ms", "p99": "p99_ms"}
    gains = {k: [mean(at["serial"], key) / mean(at["fluid"], key) for at in both] for k, key in keys.items()}
    return {
        "least": {name: min(values, default=0.0) for name, values in gains.items()},
        "most": {name: max(values, default=0.0) for name, values in gains.items()},
    }


def table_2(parts: Parts) -> list[dict[str, Any]]:
    """Give the numbers of each row of Table II, and what a layer must cost LazyBatching."""
    return [_table_2(row, parts["table2"][row.name], parts["lazy"][row.name]) for row in table2_rows()]


def _table_2(row: PaperRow, part: Parts, lazy: Parts) -> dict[str, Any]:
    fluid, free = part["policies"]["fluid"], part["policies"][f"lazy:layers={row.layers}"]
    fitted, cost = lazy["fitted"], lazy["fitted_cost_us"]
    return {
        "where": f"Table II: {row.name}, {part['rate_per_s']:g}/s, {part['slo_ms']:g} ms",
        "average": fluid["average_ms"],
        "violations": fluid["violations_pct"],
        "gap": fluid["violations_pct"][0] - part["paper"]["fluid"]["violations_pct"],
        "printed": part["paper"]["fluid"],
        "lazy": part["paper"]["lazy"],
        "free": free["average_ms"],
        "against fluid": 100 * (free["average_ms"][0] / fluid["average_ms"][0] - 1),
        "cost": "none up to 800" if cost is None else cost,
        "fitted": fitted and fitted["violations_pct"],
        "free violations": free["violations_pct"],
    }


def calls(parts: Parts) -> dict[str, Any]:
    """Give the questions to LazyBatching over those to Fluid."""
    every = {name: row["calls_over_fluid"] for name, row in parts["lazy"].items()}
    return {"every": every, "resnet": {name: x for name, x in every.items() if name.startswith("ResNet")}}


def objectives(parts: Parts) -> list[dict[str, Any]]:
    """Give violations by objective, of Figs. 9a and 9b."""
    rows = []
    for sweep in sweeps():
        lines = lines_of(parts[sweep.figures[1]])
        loose = {k: mean(v, "violations_pct") for k, v in lines[max(lines)].items()}
        fluid, serial = (
            {f"{x:g} ms": mean(at[name], "violations_pct") for x, at in lines.items()} for name in ("fluid", "serial")
        )
        far = LEAST_OVER_ALONE * sweep.row.serving.latency.between(0, 3, 1) / 1e6
        rows.append(
            {
                "where": f"{sweep.figures[1]}: {sweep.row.name}, {sweep.rate_per_s:g}/s",
                "widest": max(lines),
                "adaptive": {k: v for k, v in loose.items() if k[:2] in ("FC", "R-")},
                "fluid": fluid,
                "serial": serial,
                "slo": sweep.slo_ms,
                "at figure": fluid[f"{sweep.slo_ms:g} ms"],
                "good": min((x for x in lines if fluid[f"{x:g} ms"] < FEW_PCT), default=math.inf),
                "relaxed": tuple(fluid[f"{x:g} ms"] for x in lines if x >= far),
            }
        )
    return rows


def figure_10(parts: Parts) -> dict[str, Any]:
    """Give shares of the peak by way of batching, and what each gains by batch size."""
    best = {
        n: {way: row["share_pct"] for way, row in ways.items()} for n, ways in parts["fig10"]["share of peak"].items()
    }
    over = {
        way: max(a - b for ways in best.values() for a, b in zip(ways["fluid"], ways[way], strict=True))
        for way in ("R", "P")
    }
    pairs = {n: list(zip(ways["fluid + stackable"], ways["fluid"], strict=True)) for n, ways in best.items()}
    large = {n: ways["fluid + stackable"][3:] for n, ways in best.items() if n.startswith("ResNet")}
    return {
        "fluid": {n: tuple(ways["fluid"]) for n, ways in best.items()},
        "uniform": {n: tuple(map(max, ways["R"], ways["P"])) for n, ways in best.items()},
        "over": over,
        "resnet least": {n: min(values) for n, values in large.items()},
        "resnet most": {n: max(values) for n, values in large.items()},
        "at 1": {n: row[0][0] / row[0][1] - 1 for n, row in pairs.items()},
        "at 8": {n: row[-1][0] / row[-1][1] - 1 for n, row in pairs.items()},
    }


# -- tables --------------------------------------------------------------------------------------------------


def three(cell: Parts, digits: int = 0, first: int = 1, sign: bool = False) -> str:
    """Write violations, average and p99."""
    return " / ".join(plus_minus(cell[k], first if k == "violations_pct" else digits, sign=sign) for k in YARDSTICKS)


def table_2_rows(parts: Parts) -> dict[str, dict[str, str]]:
    """Give a row a policy, a column a row of Table II, with the bound and the paper's Fluid below."""
    rows: dict[str, dict[str, str]] = {}
    for row in table2_rows():
        part, head = parts["table2"][row.name], f"{row.name}, {row.rate_per_s:g}/s, {row.slo_ms} ms"
        for name in POLICIES:
            cell = part["policies"][f"lazy:layers={row.layers}" if name == "lazy" else name]
            rows.setdefault(f"`{name}`", {})[head] = three(cell)
        rows.setdefault("clairvoyant lower bound", {})[head] = plus_minus(part["bound_pct"], 2) + " %"
        paper = f"{row.fluid_violations_pct:g} % / {row.fluid_average_ms:g} ms"
        rows.setdefault("the paper's Fluid", {})[head] = paper
    return rows


def detail_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give every number of every policy in the rows of Table II."""
    return [
        {"row": row.name, "policy": f"`{name}`", **cell}
        for row in table2_rows()
        for name, cell in parts["table2"][row.name]["policies"].items()
    ]


def point(values: Sequence[int]) -> str:
    """Write a design point."""
    return f"<{', '.join(map(str, values))}>"


def design_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give the designs of Table I."""
    return [{**one, "key": key, "design": point(one["point"])} for key, one in parts["Table I"].items()]


def motivation_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give the numbers of Fig. 1."""
    rows: list[dict[str, Any]] = []
    for name, lines in parts["Fig. 1a"].items():
        for label, row in lines.items():
            cells = tuple(row[policy]["busy_mac_efficiency_pct"] for policy in ("serial", *ADAPTIVE))
            rows.append({"what": f"{name}, {label}, %", "cells": tuple(plus_minus(cell) for cell in cells)})
    for name in ("SERIAL", "FC", "R", "P"):
        cells = tuple(f"{x:.0f}" for x in parts["Fig. 1b"]["GOP/s"][name])
        rows.append({"what": f"{name}, GOP/s of parts 1 to 4", "cells": cells})
    return rows


def goal_rows(parts: Parts) -> list[dict[str, Any]]:
    """Compare our policies with `fluid`; a goal holds where all intervals exclude zero."""
    rows = []
    for field, against, names in GOALS:
        for name in names:
            cells = {row.name: parts["table2"][row.name][field][name] for row in table2_rows()}
            highs = [cell[key][2] for cell in cells.values() for key in YARDSTICKS]
            holds = all(high is not None and high < 0 for high in highs)
            texts = {row: three(cell, 1, sign=True) for row, cell in cells.items()}
            rows.append({"policy": f"`{name}`", "against": against, "cells": texts, "holds": holds})
    return rows


def lazy_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give what a layer must cost LazyBatching."""
    rows = []
    for row in table2_rows():
        part = parts["lazy"][row.name]
        cost, fitted = part["fitted_cost_us"], part["fitted"]
        texts = {
            "cost": "none up to 800" if cost is None else cost,
            "there": fitted["violations_pct"] if fitted else "-",
        }
        free = part["policies"][f"lazy:layers={row.layers}"]
        printed = {"printed average": row.lazy_average_ms, "printed violations": row.lazy_violations_pct}
        rows.append({"row": row.name, **free, **printed, **texts, "calls": part["calls_over_fluid"]})
    return rows


def dial_rows(parts: Parts) -> dict[str, dict[str, str]]:
    """Give violations and p99 by the dial's place, `fluid` and `optimal` beside it."""
    part = parts["frontier"]
    names = sorted(
        part[table2_rows()[0].name], key=lambda n: (n.partition(":dial=")[0], float(n.partition("=")[2] or 0))
    )

    def cell(one: Parts) -> str:
        return f"{plus_minus(one['violations_pct'], 1)} % / {plus_minus(one['p99_ms'], 0)} ms"

    return {f"`{name}`": {row.name: cell(part[row.name][name]) for row in table2_rows()} for name in names}


def drift_spans(parts: Parts) -> dict[str, dict[str, str]]:
    """Give ratios to `fluid` on the same streams, lowest to highest over the rows."""
    rows: dict[str, dict[str, str]] = {}
    for label in worlds(table2_rows()[0]):
        for name in DRIFT[1:]:
            ratios = [parts["drift"][f"{row.name}: {label}"]["over_fluid"][name] for row in table2_rows()]
            rows.setdefault(f"`{name}`", {})[label] = " / ".join(
                span([one[key] for one in ratios]) for key in YARDSTICKS
            )
    return rows


def span(values: Sequence[float | None]) -> str:
    """Write the least and the greatest of the values that there are."""
    measured = [value for value in values if value is not None]
    if not measured:
        return "unstable"
    low, high = f"{min(measured):.2f}", f"{max(measured):.2f}"
    text = low if low == high else f"{low}-{high}"
    return text if len(measured) == len(values) else f"{text} (unstable in {len(values) - len(measured)})"


def drift_rows(parts: Parts) -> dict[str, dict[str, str]]:
    """Give ratios to `fluid` on the same streams, row by row."""
    rows: dict[str, dict[str, str]] = {}
    for label in worlds(table2_rows()[0]):
        for row in table2_rows():
            for name, ratio in parts["drift"][f"{row.name}: {label}"]["over_fluid"].items():
                text = " / ".join(span([ratio[key]]) for key in YARDSTICKS)
                rows.setdefault(f"{label}: `{name}`", {})[row.name] = text
    return rows


def codesign_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give each step of the loop: the design that the weights give, and its serving."""
    return [
        {
            "row": row.name,
            "step": "w_b = 1" if not number else f"{number}",
            "design": point(step["point"]),
            "served": three(step, 2, 2),
            "shares": " ".join(f"{share:.2f}" for share in step["batch_shares"]),
        }
        for row in table2_rows()
        for number, step in enumerate(parts["codesign"][row.name]["steps"])
    ]


def accuracy_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give the gain and cost of anytime answers by threshold."""
    return [
        {"threshold": threshold, "policy": f"`{name}`", "served": three(cell, 2, 2), **cell}
        for threshold, part in by_number(parts["accuracy"]).items()
        for name, cell in part["policies"].items()
    ]
