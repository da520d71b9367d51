"""What the statements of TETRIS are judged by: functions of the parts of a run or a drawn profile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..writing import by_number

Parts = Mapping[str, Any]
STOCK, LEAVE, SHRINK, TETRIS, BLACK = (
    "stock",
    "exits, all must leave",
    "exits, shrinking",
    "TETRIS",
    "TETRIS, black box",
)
MIXED = "TETRIS, mixed types"


def gains(part: Parts, over: str, of: str = TETRIS, *, zeros: bool = False) -> dict[str, float]:
    """Per cent by which one line is above another, by key in its order; `zeros`: rates of 0 count, too."""
    rows = by_number(part).items()
    return {key: 100 * (row[of] / row[over] - 1) for key, row in rows if row[over] and (zeros or row[of])}


def gpus(parts: Parts) -> dict[str, Any]:
    """Give what splitting gains, in per cent, over each baseline and in each exhibit about GPUs."""
    equal, cost, parallel = parts["homogeneous"], by_number(parts["cost"]), parts["parallel"]
    over_leave = {
        name: gains(parts[name], LEAVE)
        for name in ("homogeneous", "mixed types", "mixes", "patience", "tolerance", "objective")
    }
    return {
        "over leave": over_leave,
        "over stock": {name: gains(parts[name], STOCK) for name in ("homogeneous", "mixes")},
        "over shrink": gains(equal, SHRINK),
        "over black": gains(equal, BLACK),
        "leave over stock": {key: row[LEAVE] / row[STOCK] for key, row in by_number(equal).items()},
        "mixed over equal": gains(parts["heterogeneity"], "16 V100", "6 V100, 8 P100, 15 K80", zeros=True),
        "fewest": all(
            row[TETRIS]["gpus"] <= min(row[STOCK]["gpus"], row[LEAVE]["gpus"])
            for row in cost.values()
            if row[TETRIS]["gpus"] and row[STOCK]["gpus"] and row[LEAVE]["gpus"]
        ),
        "cheaper": {
            key: 100 * (1 - row[MIXED]["cost"] / row[LEAVE]["cost"])
            for key, row in cost.items()
            if row[MIXED]["cost"] and row[LEAVE]["cost"]
        },
        "over barrier": gains(parallel, "off, with a barrier", "pipelined", zeros=True),
        "turns": gains(parallel, "pipelined", "in turns, without a barrier", zeros=True),
    }


def table_1(parts: Parts) -> list[dict[str, Any]]:
    """Give for each network of Table 1 which fleets the optimiser plans within the paper's seconds."""
    printed = {"ResNet-50": "1.13 s, 2.62 s mixed", "BERT-Base": "0.87 s, 2.09 s", "BERT-Large": "1.53 s, 3.63 s"}
    return [{"network": name, "paper": text, "kept": parts["Table 1"][name]} for name, text in printed.items()]


def ramps(parts: Parts) -> dict[str, Any]:
    """Give the samples of sixteen that are left at each ramp, and the share in the middle."""
    left = tuple(parts["batches"]["left"]["left"])
    return {"left": left, "middle": left[len(left) // 2] / left[0]}


def adapted(parts: Parts) -> dict[str, Any]:
    """Give what the plan for 80:20 loses against each mix's own, in per cent."""
    return {
        "lost": {mix: 100 * (1 - row["plan of 0.8"] / row["own plan"]) for mix, row in parts["adapt"]["mixes"].items()}
    }


def any_mix(parts: Parts) -> dict[str, Any]:
    """Give what any mix gains over one pipeline, and its distance from the optimum, in per cent."""
    return {
        "more": gains(parts["space"], "one pipeline", "mix", zeros=True),
        "gap": gains(parts["space"], "mix", "bound", zeros=True),
    }


def boards(parts: Parts) -> dict[str, Any]:
    """Give by boards and link what a pipeline gains over data parallel, in per cent."""
    rows = {key: {form: one["planned"] for form, one in row.items()} for key, row in _links(parts).items()}
    return {"gain": gains(rows, "data parallel", "pipeline", zeros=True)}


def board_rates(parts: Parts) -> dict[str, Any]:
    """Give planned rates and those of the twin by boards and link."""
    kinds = ("planned", "twin")
    return {
        key: {form: tuple(one[k] for k in kinds if k in one) for form, one in row.items()}
        for key, row in _links(parts).items()
    }


def _links(parts: Parts) -> dict[str, Any]:
    return {f"{key}, {link}": row for key, links in parts["boards"].items() for link, row in links.items()}


def costs(parts: Parts) -> dict[str, Any]:
    """Give GPUs and dollars an hour for 6,000 samples a second."""
    return {key: {name: (one["gpus"], one["cost"]) for name, one in row.items()} for key, row in parts["cost"].items()}


def forecasts(parts: Parts) -> dict[str, Any]:
    """Give each forecast's mean error in points by world, and the better of the simple ones."""
    rows = {world: {name: one["mean"] for name, one in row.items()} for world, row in parts["forecast"].items()}
    return {
        "mean": rows,
        "arima": {world: row["arima"][0] if "arima" in row else math.inf for world, row in rows.items()},
        "best": {world: min(row["last"][0], row["ewma"][0]) for world, row in rows.items()},
        "missing": "" if all("arima" in row for row in rows.values()) else "; statsmodels was not installed",
    }


def errors(parts: Parts) -> dict[str, Any]:
    """Give the mean and the worst error of each forecast by world."""
    return {w: {n: (one["mean"], one["worst"]) for n, one in row.items()} for w, row in parts["forecast"].items()}


def left(parts: Parts) -> dict[str, Any]:
    """Give the samples left by ramp."""
    return {"samples": {f"{ramp}": x for ramp, x in enumerate(ramps(parts)["left"], 1)}}
