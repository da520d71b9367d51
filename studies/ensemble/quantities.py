"""What the statements of Pochelu et al. are judged by: functions of the parts of a run or a drawn world."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..writing import by_number
from .worlds import NAMES

Parts = Mapping[str, Any]
WAYS = ("worst-fit", "bounded greedy", "soft greedy")


def table_1(parts: Parts) -> dict[str, Any]:
    """Give both algorithms' rates, what the second gains, and which numbers of GPUs have room."""
    table = parts["table1"]
    cells = {key: cell for key, cell in table.items() if cell is not None}
    gain = {key: cell["bounded greedy"] / cell["worst-fit"] for key, cell in cells.items()}
    lone = {name: gain[f"{name} on 16"] for name in NAMES if f"{name} on 16" in gain}
    alone, many = (cells[f"IMN1 on {count}"]["bounded greedy"] for count in (1, 16))
    spread = {
        name: [cell["spread"] for key, cell in cells.items() if key.startswith(name)] for name in ("IMN1 ", "IMN12")
    }
    soft = {
        key.split()[-1]: c["soft greedy"] / c["bounded greedy"] - 1 for key, c in cells.items() if key[:5] == "IMN12"
    }
    eight = cells.get("IMN4 on 8", {"instances": {}, "slowest": ""})
    return {
        "greedy": {key: cell["bounded greedy"] for key, cell in cells.items()},
        "worst-fit": {key: cell["worst-fit"] for key, cell in cells.items()},
        "cells": len(cells),
        "not worse": sum(value >= 1 for value in gain.values()),
        "gain": gain,
        "at 16": lone,
        "IMN12": lone.get("IMN12", 0.0),
        "unpublished": {name: lone[name] for name in ("FOS14", "CIF36") if name in lone},
        "fits": {count: table[f"IMN12 on {count}"] is not None for count in ("3", "4")},
        "scaling": 100 * many / (16 * alone),
        "with CPU": sum(cell["cpu used"] for key, cell in cells.items() if key.startswith(("IMN1 ", "IMN4"))),
        "roomy": sum(key.startswith(("IMN1 ", "IMN4")) for key in cells),
        "instances": eight["instances"],
        "slowest": eight["instances"].get(eight["slowest"], 0),
        "spread": {name.strip(): max(values, default=0.0) for name, values in spread.items()},
        "soft": by_number(soft),
        "most soft": max(soft.values(), default=0.0),
    }


def table_2(parts: Parts) -> dict[str, Any]:
    """Give the matrix of IMN4 on four GPUs, and mean batches where a device is shared and where not."""
    four = parts["table2"]["IMN4 on 4"] or {}
    rows = {device: tuple(row) for device, row in four.items() if device not in ("networks", "cpu")}
    used = {device: sum(map(bool, row)) for device, row in rows.items()}
    return {
        "rows": {device: "/".join(map(str, row)) for device, row in rows.items()},
        "used": used,
        "on CPU": sum(four["cpu"]) if four else math.nan,
        "instances": sum(used.values()),
        "shared": _mean([b for d, row in rows.items() for b in row if b and used[d] > 1]),
        "single": _mean([b for d, row in rows.items() for b in row if b and used[d] == 1]),
    }


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else math.nan


def table_3(parts: Parts) -> dict[str, Any]:
    """Give algorithm 2 over a GPU a network at its best batch, with ten and with twenty rounds."""
    return {
        rounds: {
            k.split()[0]: one[f"bounded greedy, {rounds}"] / one["best batch"] for k, one in parts["table3"].items()
        }
        for rounds in ("10", "20")
    }


def allocations(parts: Parts) -> dict[str, Any]:
    """Give gaps, and in per cent what turns and planned shares carry, GPUs and boards apart."""
    best = parts["optimum"]

    def ratios(of: str, over: str) -> dict[str, dict[str, float]]:
        return {
            kind: {k: 100 * one[of] / one[over] for k, one in best.items() if kind in k} for kind in ("GPU", "board")
        }

    endless = [100 * one["endless turns"] / one["rate"] for one in best.values()]
    return {
        "gap": {kind: {k: one["gap"] for k, one in best.items() if kind in k} for kind in ("GPU", "board")},
        "turns": ratios("turns", "shares"),
        "planned": ratios("shares", "rate"),
        "endless least": min(endless),
        "endless most": max(endless),
    }


def rates(parts: Parts) -> dict[str, dict[str, Any]]:
    """Give the rates of Table I by the number of GPUs; none where the networks do not fit."""
    rows: dict[str, dict[str, Any]] = {}
    for name in NAMES:
        for key, cell in parts["table1"].items():
            if key.startswith(f"{name} on "):
                rows.setdefault(key.split()[-1], {}).update({f"{name}: {way}": cell and cell[way] for way in WAYS})
    return rows


def matrix(parts: Parts) -> dict[str, dict[str, int]]:
    """Give the matrix of Table II by device and network."""
    part = parts["table2"]["IMN4 on 4"]
    return {
        device: dict(zip(part["networks"], row, strict=True)) for device, row in part.items() if device != "networks"
    }
