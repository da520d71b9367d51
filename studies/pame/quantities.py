"""What the statements of PAME are judged by: pure functions of the parts of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fluidnpu.scheduler.simulation import interval

from ..writing import by_number, mean_low_high, share_interval, share_text
from .arrivals import LOADS

Parts = Mapping[str, Any]
ETAS = ("0.98", "0.99", "0.995")
LATE = 0.02  # tau_l
NAMES = {"fashion": "Fashion-MNIST", "digits": "digits"}
MAPS = {"landmarks": "composited landmarks", "segmentation": "composited segmentation"}
SOON = 100  # requests within which a drift is to be noticed
CHANGES = ("average_change_pct", "tail_change_pct", "kept_pct", "late_batches")


def best_exits(parts: Parts) -> dict[str, Any]:
    """Give the best early exit's precision in per cent of the single exit's that was trained as long."""
    return {"best": {NAMES[name]: part["best_over_reference_pct"] for name, part in sorted(parts["accuracy"].items())}}


def simple_head(parts: Parts) -> dict[str, Any]:
    """Give the work of the Simple head and how many of 16 samples may move on behind it, at each exit."""
    simple = parts["resnet101"]["simple"]
    return {
        **simple,
        "pct": (simple["printed_pct"], simple["needed_pct"]),
        "allowed": tuple(simple["allowed"]),
        "allowed_needed": tuple(simple["allowed_needed"]),
    }


def boundary(parts: Parts) -> dict[str, Any]:
    """Give how many of 16 samples may move on by block of ResNet-101, and where the closed form agrees."""
    times = parts["resnet101"]["times"]
    equal = sum(a == b for a, b in zip(times["allowed"], times["allowed_by_work"], strict=True))
    allowed = {f"H{block}": count for block, count in zip(times["blocks"], times["allowed"], strict=True)}
    return {"allowed": allowed, "equal": equal, "of": len(allowed)}


def parallel(parts: Parts) -> dict[str, Any]:
    """Give throughput, average and late samples by tau_b."""
    curve = by_number(parts["Fig. 18"])
    return {
        **{
            key: {tau: row[key] for tau, row in curve.items()}
            for key in ("throughput_change_pct", "average_ms", "late_pct")
        },
        "late to 4": max(row["late_pct"][2] for tau, row in curve.items() if int(tau) <= 4),
    }


def selections(parts: Parts) -> list[dict[str, Any]]:
    """Give for each data set what is selected at eta 0.99, how near the best it is, and what Eq. 2 misses."""
    rows = []
    for name, title in NAMES.items():
        at = parts["selection"][f"{name}, 0.99"]
        proven = {eta: parts["selection"][f"{name}, {eta}"]["proven"] for eta in ETAS}
        matrices = parts["matrices"][name]
        rows.append(
            {
                "name": title,
                **{key: at["greedy"][key] for key in CHANGES},
                "count": len(at["greedy"]["chain"]),
                "candidates": len(at["alone"]),
                "late": tuple(f"H{k}" for k, row in enumerate(at["alone"], 1) if row["late_batches"] > LATE),
                "best alone": at["first"]["chain"][0][0] if at["first"]["chain"] else -math.inf,
                "v1": max(abs(change) for change in matrices["1"]),
                "v2": max(abs(change) for change in matrices["2"]),
                "greedy above": {eta: row["greedy_above_pct"] for eta, row in proven.items()},
                "exchanged above": {eta: row["exchanged_above_pct"] for eta, row in proven.items()},
                "gap": max(row["gap_pct"] for row in proven.values()),
                "nodes": max(row["nodes"] for row in proven.values()),
                "samples": proven["0.99"]["samples"],
            }
        )
    return rows


def arrival(parts: Parts) -> dict[str, Any]:
    """Give changes from arrival by load: with the paper's movers, and with our selections."""
    part, loads = parts["arrival"], [f"{load:g}" for load in LOADS]
    paper = {load: part[f"resnet101, {load}"]["rows"]["H_13"] for load in loads}
    rows = {load: part[f"fashion, {load}"]["rows"] for load in loads}
    ours = {kind: {load: row[kind]["average_change_pct"] for load, row in rows.items()} for kind in rows[loads[0]]}
    return {
        "average": {load: row["average_change_pct"] for load, row in paper.items()},
        "p99": {load: row["p99_change_pct"] for load, row in paper.items()},
        "in service": paper[loads[0]]["in_service_change_pct"],
        "policy": part[f"resnet101, {loads[0]}"]["policy"],
        "selected": ours["in service"],
        "selected in service": rows[loads[0]]["in service"]["in_service_change_pct"],
        "from arrival": ours["from arrival"],
        "closest": max(ours["in service"][load][0] - ours["from arrival"][load][0] for load in loads),
        "same": sum(row["in service"]["chain"] == row["from arrival"]["chain"] for row in rows.values()),
    }


def split_rows(parts: Parts) -> list[Parts]:
    """Give the rows of all splits, group by group."""
    return [row for group in sorted(parts["splits"], key=int) for row in parts["splits"][group]["rows"]]


def split_summary(rows: Sequence[Parts], which: str, eta: float = 0.99) -> dict[str, Any]:
    """Give the share of splits that miss eta on the other part, and means over all splits with intervals.

    A split without a selection is the network with one exit, and misses nothing; splits share samples.
    """
    made = [row[which] for row in rows if row[which] is not None]
    none, missed = len(rows) - len(made), sum(row["kept_pct"] < 100 * eta for row in made)
    means = {}
    for key in CHANGES:
        values = interval([row[key] for row in made] + [100.0 if key == "kept_pct" else 0.0] * none)
        means[key] = [values.mean if x is None else x for x in mean_low_high(values)]
    return {
        "selection": which,
        "splits": len(rows),
        "none": none / max(1, len(rows)),
        "missed": missed / max(1, len(rows)),
        "missed surely": share_interval(missed, len(made))[0] if made else 0.0,
        "missed text": share_text(missed, len(made)) if made else "-",
        **means,
    }


def splits(parts: Parts) -> list[dict[str, Any]]:
    """Give the paper's rule and ours over all splits."""
    return [split_summary(split_rows(parts), which) for which in ("naive", "guaranteed")]


def promise(parts: Parts) -> dict[str, Any]:
    """Give both rules over all splits, by name."""
    return {row["selection"]: row for row in splits(parts)}


def maps(parts: Parts) -> list[dict[str, Any]]:
    """Give for each dense task its selection at 0.99, and the gain of the surest leavers over random ones."""
    printed = {"landmarks": "-24 % average, -11.8 % tail (MPII)", "segmentation": "-24.1 % both (Cityscapes)"}
    rows = []
    for name, title in MAPS.items():
        part = parts["maps"][name]
        chosen, checks = part["selected"]["0.99"], part["checks"]
        nothing = {"held_out": dict.fromkeys(CHANGES, math.nan), "random_kept_pct": math.nan}
        gain = [a - b for a, b in zip(checks["count 0.5"], checks["random"], strict=True)]
        rows.append(
            {
                "name": title,
                "paper": printed[name],
                **(chosen or nothing),
                "selected": chosen is not None,
                "gain": {f"H{index}": points for index, points in enumerate(gain, 1)},
            }
        )
    return rows


def segmentation(parts: Parts) -> dict[str, Any]:
    """Give the best early exit's score in per cent of the last one's, and that of the single exit's."""
    seen = parts["maps"]["segmentation"]
    last = seen["exits_pct"][-1]
    return {"best": 100 * max(seen["exits_pct"][:-1]) / last, "last": 100 * last / seen["reference_pct"]}


def load(parts: Parts) -> dict[str, Any]:
    """Give who moves on behind the first exit by eta, and what a second exit brings."""
    moving = {eta: parts["selection"][f"fashion, {eta}"]["first"]["rates"][-1] for eta in ETAS}
    at = parts["selection"]["fashion, 0.99"]
    gain = {key: at["first"][key] - at["greedy"][key] for key in ("average_change_pct", "tail_change_pct")}
    return {"moving": moving, **gain}


def drift(parts: Parts) -> dict[str, Any]:
    """Give easy and hard garments with exits chosen on the mix."""
    part = parts["drift"]["fashion"]
    return {
        **part,
        "late": max(part[phase]["late_batches"] for phase in ("easy", "hard")),
        "raised": part["hard, raised"],
    }


def adaptation(parts: Parts) -> dict[str, Any]:
    """Give when a drift is noticed, and what adapting exits keep during it."""
    part = parts["adaptation"]["fashion"]
    noticed = tuple(count for count in part["noticed"] if count is not None)
    return {
        **part,
        "noticed": len(noticed),
        "first": min(noticed, default=math.nan),
        "last": max(noticed, default=math.nan),
        "mean": sum(noticed) / len(noticed) if noticed else math.nan,
        "every one soon": len(noticed) == part["streams"] and max(noticed) <= SOON,
        **{side: part["phases"][side]["during"] for side in ("fixed", "adapted")},
        "after": part["phases"]["adapted"]["after"],
    }


def heads(parts: Parts) -> list[dict[str, Any]]:
    """Give what an exit costs, beside the paper's share of the model time."""
    printed = (
        ("resnet101", "an exit of ImageNet's network costs little", "Fig. 17, ImageNet", 8.9),
        ("landmarks", "an exit with maps costs a quarter of the time", "Fig. 17, composited landmarks", 27.9),
    )
    return [
        {"where": where, "statement": text, "most": most, **parts["Fig. 17"][name]}
        for name, text, where, most in printed
    ]


def checks(parts: Parts) -> list[dict[str, Any]]:
    """Give for each data set at which exits the surest half does better than a random one."""
    rows = []
    for name, title in NAMES.items():
        part = parts["checks"][name]
        above = tuple(sure > blind for sure, blind in zip(part["confidence"], part["random"], strict=True))
        rows.append({"name": title, "above": above, "better": sum(above), "of": len(above)})
    return rows


def movers(parts: Parts) -> list[dict[str, Any]]:
    """Give ResNet-101's times with the paper's movers: full batches alone, and parallel ones by tau_b."""
    times = parts["resnet101"]["times"]
    average = times["single_ms"] * (1 + times["average_change_pct"] / 100)
    late = f"{100 * times['late_batches']:.1f} of batches"
    alone = {"when": "never, batches always full", **times, "average_ms": average, "late_pct": late}
    return [alone, *({"when": f"tau_b {tau}", **row} for tau, row in by_number(parts["Fig. 18"]).items())]


def head_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give what a head costs: in time and in multiply-accumulates, and the Simple head's by arithmetic."""
    simple = parts["resnet101"]["simple"]
    rows = [{"head": f"{name}, candidate {row['candidate']}", **row} for name, row in parts["Fig. 17"].items()]
    for text, key in (("as printed", "printed_pct"), ("without inserted zeros", "needed_pct")):
        rows.append({"head": f"Simple, {text}", "time_pct": "-", "macs_pct": simple[key]})
    return rows


def chain_text(chain: Sequence[Sequence[float]]) -> str:
    """Write a chain of exits."""
    return ", ".join(f"H{int(exit)} > {threshold:g}" for exit, threshold in chain) or "none"


def selection_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give each selection: the first exit alone, one by one, exchanged, and the best that was found."""
    rows = []
    for key, part in sorted(parts["selection"].items()):
        best = part["proven"]
        above = {"greedy": f"{best['greedy_above_pct']:.2f}", "exchanged": f"{best['exchanged_above_pct']:.2f}"}
        for text, which in (("first exit", "first"), ("one by one", "greedy"), ("exchanged", "exchanged")):
            exits = chain_text(part[which]["chain"])
            rows.append({**part[which], "key": key, "text": text, "exits": exits, "above": above.get(which, "")})
        empty = dict.fromkeys(("tail_change_pct", "late_batches", "kept_pct"), "")
        found = {"text": f"best found on {best['samples']}", "exits": chain_text(best["chain"])}
        rows.append({**best, **empty, **found, "key": key, "above": f"gap at most {best['gap_pct']:.2f}"})
    return rows


def arrival_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give each load and selection, against the network with one exit under the same arrivals."""
    return [
        {"key": key, "chosen": chosen, "exits": chain_text(row["chain"]), "single": part["single_met_pct"], **row}
        for key, part in sorted(parts["arrival"].items())
        for chosen, row in part["rows"].items()
    ]


def check_rows(parts: Parts) -> dict[str, Any]:
    """Give the precision when the surest half leaves, by check and exit."""
    return {
        f"{NAMES[name]}, {check}": {f"H{k}": "-" if value is None else value for k, value in enumerate(values, 1)}
        for name, part in sorted(parts["checks"].items())
        for check, values in part.items()
    }


def map_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give each selection of a dense task, with random leavers at the same rates."""
    rows = []
    for name, title in MAPS.items():
        part, sure = parts["maps"][name], parts["maps"][name]["guaranteed"]
        found = [
            (eta, one and {**one["held_out"], "exits": chain_text(one["chain"]), "random": one["random_kept_pct"]})
            for eta, one in part["selected"].items()
        ]
        label = f"{sure['eta']:g} of the single exit guaranteed" if sure else "guaranteed"
        found.append((label, sure and {**sure, "exits": chain_text(sure["chain"]), "random": ""}))
        empty = {"exits": "none keeps it", **dict.fromkeys((*CHANGES, "random"), "")}
        rows += [{"key": f"{title}, {label}", **(row or empty)} for label, row in found]
    return rows


def map_check_rows(parts: Parts) -> dict[str, Any]:
    """Give the score when the surest half leaves, by check of principal values and exit."""
    rows: dict[str, Any] = {}
    for name, title in MAPS.items():
        part = parts["maps"][name]
        every = {f"H{k}": share for k, share in enumerate(part["exits_pct"][:-1], 1)}
        rows[f"{title}, each exit alone"] = {
            **every,
            "last": part["exits_pct"][-1],
            "single exit": part["reference_pct"],
        }
        for check, values in part["checks"].items():
            rows[f"{title}, {check}"] = {f"H{k}": value for k, value in enumerate(values, 1)}
    return rows


def drift_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give easy and hard garments with exits chosen on the mix, and with higher thresholds."""
    part = parts["drift"]["fashion"]
    return [
        {"key": key, **part[key], "first": part[key]["rates"][0]} for key in ("mix", "easy", "hard", "hard, raised")
    ]


def adaptation_rows(parts: Parts) -> list[dict[str, Any]]:
    """Give each third of the streams, with fixed exits and adapting, and the network with one exit."""
    part = parts["adaptation"]["fashion"]
    single = {"early_pct": "", "kept_pct": "", "p99_ms": "", "average_ms": part["single_average_ms"]}
    rows = [{"side": side, "load": load, **row} for side, rows in part["phases"].items() for load, row in rows.items()]
    return [*rows, {"side": "none", "load": "all thirds", **single}]
