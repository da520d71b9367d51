"""What the statements of Delen are judged by: pure functions of the parts of a run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from ..writing import plus_minus, share_interval
from .energy import POLICIES, SPLIT_POLICIES
from .modes import MODES
from .settings import IDLE_W, LEVELS, NETWORKS, RATE, RATES, SLO_MS, THRESHOLD
from .shares import BURST_MS, FLOODS, LIMIT_RATES, LONGEST_STAGE_MS

Parts = Mapping[str, Any]
LIMITED = ("full", f"C > {THRESHOLD}", "per-workload", "Pareto")
SHORT = {f"C > {THRESHOLD}": "confidence", f"response > {SLO_MS} ms": "response"}  # modes as relations name them
JUDGED = ("response", "confidence", "either", "per-workload", "Pareto")
SERVED = 0.97  # of the rate: "serves everybody", since the last arrivals of a finite run are still under way


def mean(value: Any) -> float:
    """Give the middle of an interval; infinity where there is none."""
    return math.inf if value is None or value[0] is None else float(value[0])


def modes_by(parts: Parts, key: str) -> dict[str, dict[float, Any]]:
    """Give one number of every mode by rate."""
    return {SHORT.get(mode, mode): {rate: parts["modes"][f"{mode}, {rate:g}"][key] for rate in RATES} for mode in MODES}


def host(parts: Parts) -> list[dict[str, Any]]:
    """Give which of Table 3's times this host keeps: bounds and no times, so that studies can be compared."""
    named = (
        ("ask", "evaluating a criterion", "100 us a request"),
        ("pareto", "updating a criterion from a front", "2.6 ms"),
        ("per-workload", "updating the other criteria", "70 us (printed as 70 ps)"),
    )
    return [{"kept": parts["Table 3"]["bounds"][key], "what": what, "paper": text} for key, what, text in named]


def exits(parts: Parts) -> dict[str, Any]:
    """Give accuracy in per cent by network and exit."""
    rows = {name: tuple(parts["Fig. 3"][name]["accuracy_pct"]) for name in NETWORKS}
    return {
        "accuracy": rows,
        "first exit": {name: row[0] for name, row in rows.items()},
        "last exit": {name: row[-1] for name, row in rows.items()},
    }


def modes(parts: Parts) -> dict[str, Any]:
    """Give the modes at 30 requests a second."""
    cells = {
        key: {mode: row[RATE] for mode, row in modes_by(parts, key).items()}
        for key in ("accuracy_pct", "answered_per_s")
    }
    accuracy = {mode: mean(cells["accuracy_pct"][mode]) for mode in JUDGED}
    answered = {mode: mean(value) for mode, value in cells["answered_per_s"].items()}
    serving = [mode for mode in JUDGED if answered[mode] >= SERVED * RATE]
    return {
        "accuracy": accuracy,
        "shown": {mode: cells["accuracy_pct"][mode] for mode in JUDGED},
        "answered": answered,
        "bar": SERVED * RATE,
        "serving": tuple(serving),
        "best": max((accuracy[mode] for mode in serving), default=math.nan),
        "either over confidence": accuracy["either"] - accuracy["confidence"],
    }


def energy(parts: Parts) -> dict[str, Any]:
    """Give energy over the whole network's by policy and network, and how often the constraint is missed."""
    splits, one = parts["guarantee"], parts["Fig. 8"]
    of = splits[NETWORKS[0]]["splits"]
    of_policy = {p: {n: splits[n][p]["energy"] for n in NETWORKS} for p in SPLIT_POLICIES}
    missed = {p: {n: splits[n][p]["missed"] for n in NETWORKS} for p in SPLIT_POLICIES}
    less = {n: of_policy["Pareto"][n][0] / of_policy["per-workload"][n][0] - 1 for n in NETWORKS}
    return {
        **of_policy,
        "less": less,
        "splits": of,
        "missed": missed,
        "surely": {p: {n: share_interval(count, of)[0] for n, count in row.items()} for p, row in missed.items()},
        "oracle on one": {n: one[n]["oracle"]["energy"] for n in NETWORKS},
        "Pareto on one": {n: one[n]["Pareto"]["energy"] for n in NETWORKS},
        "missed guarded": max(splits[n]["Pareto guarded"]["missed"] / splits[n]["splits"] for n in NETWORKS),
    }


def levels(parts: Parts) -> dict[str, Any]:
    """Give energy a request over the whole network's by network, at each level of the battery."""
    steps = {n: tuple(parts["Fig. 9"][f"{n}, {level}"]["energy"] for level in LEVELS) for n in NETWORKS}
    falls = {n: all(a >= b for a, b in itertools.pairwise(row)) and row[0] > row[-1] for n, row in steps.items()}
    return {"steps": steps, "falls": falls}


def lifetimes(parts: Parts) -> dict[str, Any]:
    """Give lifetimes over the whole network's at 10/s, by policy, one for each idle power in watts."""
    rows = parts["Fig. 10"]["lifetimes"]["ratios"]["10/s"]
    named = {f"{watts:g} W": value for watts, value in zip(IDLE_W, rows["Pareto"], strict=True)}
    return {"Pareto": tuple(rows["Pareto"]), "per-workload": tuple(rows["per-workload"]), "by watts": named}


def over_rates(parts: Parts) -> dict[str, Any]:
    """Give what the modes do over the rate."""
    accuracy, response, p99 = (modes_by(parts, key) for key in ("accuracy_pct", "average_ms", "p99_ms"))
    last = {mode: mean(row[RATES[-1]]) for mode, row in accuracy.items()}
    exits = {rate: parts["modes"][f"per-workload, {rate:g}"]["criterion"] for rate in RATES}
    return {
        "first": next((rate for rate, text in exits.items() if text == "exit_number == 1"), math.nan),
        "gain": last["Pareto"] - last["per-workload"],
        "last": last,
        "response": {mode: {f"{r}/s": mean(x) for r, x in row.items()} for mode, row in response.items()},
        "last response": {mode: mean(row[RATES[-1]]) for mode, row in response.items()},
        "p99": {mode: mean(row[RATES[-1]]) for mode, row in p99.items()},
        "lost": last["Pareto or limit"] - last["Pareto"],
    }


def limits(parts: Parts) -> dict[str, Any]:
    """Give the share of the NPU under a limit of a half, by mode, one for each rate."""
    used = {SHORT.get(m, m): tuple(mean(parts["Fig. 13"][f"{m}, {r:g}"]) for r in LIMIT_RATES) for m in LIMITED}
    most = {mode: max(row) for mode, row in used.items()}
    return {
        "used": used,
        "over": max(most.values()),
        "most": most,
        "mindful": max(most["per-workload"], most["Pareto"]),
    }


def burst(parts: Parts) -> dict[str, Any]:
    """Give what a burst of img1 changes: service times as ratios, accuracy in points."""

    def both(kind: str, name: str, key: str) -> tuple[float, float]:
        part = parts["Figs. 14, 15"][kind]
        return mean(part[f"{name} during"][key]), mean(part[f"{name} before"][key])

    def change(kind: str, name: str) -> float:
        during, before = both(kind, name, "accuracy_pct")
        return during - before

    service = {name: during / before for name in NETWORKS for during, before in [both("alone", name, "service_ms")]}
    losses = {name: change("together", name) for name in NETWORKS}
    return {
        "service": service["img1"],
        "alone": change("alone", "img1"),
        "others": {name: service[name] for name in ("img2", "digits")},
        "losses": losses,
        "others lose": min(losses["img2"], losses["digits"]),
    }


def isolation(parts: Parts) -> dict[str, Any]:
    """Give a victim's p99 beside each flood in ms, and the most that it may be."""
    part = parts["isolation"]
    return {
        "beside": {f"{flood}/s": mean(part[f"{flood:g}"]["tenants"]) for flood in FLOODS},
        "queue": {f"{flood}/s": mean(part[f"{flood:g}"]["one queue"]) for flood in FLOODS},
        "bar": mean(part["0"]["tenants"]) + LONGEST_STAGE_MS + BURST_MS,
    }


def criteria_rows(parts: Parts) -> dict[str, Any]:
    """Give which criteria of Table 1 are read."""
    return {f"`{text}`": {"read": able} for text, able in parts["Table 1"]["criteria"].items()}


def bound_rows(parts: Parts) -> dict[str, Any]:
    """Give which times of Table 3 are kept."""
    return {what: {"within the paper's time": kept} for what, kept in parts["Table 3"]["bounds"].items()}


def mode_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give the modes at the usual rate."""
    return [{"mode": mode, **parts["modes"][f"{mode}, {RATE:g}"]} for mode in MODES]


def rate_rows(parts: Parts) -> dict[str, Any]:
    """Give accuracy and mean response over the rate."""

    def cell(part: Parts) -> str:
        return f"{plus_minus(part['accuracy_pct'])} ({part['average_ms'][0]:.0f})"

    return {mode: {f"{rate}/s": cell(parts["modes"][f"{mode}, {rate:g}"]) for rate in RATES} for mode in MODES}


def split_rows(parts: Parts) -> dict[str, Any]:
    """Give energy over the whole network's and accuracy on the one split of Fig. 8."""

    def cell(part: Parts) -> str:
        said = f" ({part['said']})" if part["said"] else ""
        return f"{part['energy']:.2f}, {part['accuracy_pct']:.2f}{'' if part['met'] else ', missed'}{said}"

    return {network: {policy: cell(parts["Fig. 8"][network][policy]) for policy in POLICIES} for network in NETWORKS}


def lifetime_rows(parts: Parts) -> dict[str, Any]:
    """Give lifetimes by policy and idle watts."""
    rows = parts["Fig. 10"]["lifetimes"]["ratios"]["10/s"]
    return {policy: {f"{watts}": x for watts, x in zip(IDLE_W, row, strict=True)} for policy, row in rows.items()}


def limit_rows(parts: Parts) -> dict[str, Any]:
    """Give the share of the NPU by mode and rate."""
    return {mode: {f"{rate}/s": parts["Fig. 13"][f"{mode}, {rate:g}"] for rate in LIMIT_RATES} for mode in LIMITED}


def burst_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give what each tenant gets before and during the burst."""
    kinds = (("fixed", "alone"), ("cooperative", "together"))
    return [
        {"kind": k, "tenant": t, **row} for k, part in kinds for t, row in sorted(parts["Figs. 14, 15"][part].items())
    ]


def isolation_rows(parts: Parts) -> dict[str, Any]:
    """Give a victim's p99 beside each flood."""
    return {f"{flood}/s": parts["isolation"][f"{flood:g}"] for flood in FLOODS}


def guarantee_rows(parts: Parts) -> dict[str, Any]:
    """Give how often each policy misses its constraint, and its energy."""
    rows: dict[str, Any] = {}
    for network in NETWORKS:
        part = parts["guarantee"][network]
        cells = {
            p: f"{part[p]['missed']} of {part['splits']}, {plus_minus(part[p]['energy'], 3)}" for p in SPLIT_POLICIES
        }
        rows[network] = cells
    return rows


def level_rows(parts: Parts) -> dict[str, Any]:
    """Give energy and accuracy by the battery's level."""
    cells = {key: f"{one['energy']:.2f}, {one['accuracy_pct']:.2f} %" for key, one in parts["Fig. 9"].items()}
    asked = {level: f"{level}: {100 * share:g} %" for level, share in LEVELS.items()}
    return {n: {asked[level]: cells[f"{n}, {level}"] for level in LEVELS} for n in NETWORKS}


def head_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give what exits cost."""
    work, time = parts["Fig. 16"]["heads"], parts["Fig. 16"]["times"]
    macs = {"without": f"{work['macs'] - work['early_heads']:,}", "with": f"{work['macs']:,}"}
    return [
        {
            "what": "time, us",
            "without": f"{time['single_us']:.1f}",
            "with": f"{time['us']:.1f}",
            "more": time["share_pct"],
        },
        {"what": "multiply-accumulates", **macs, "more": work["share_pct"]},
    ]
