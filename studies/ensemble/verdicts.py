"""Statements of Pochelu et al. and what came out here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..statements import Verdict, judged

Body = Mapping[str, Any]
ROOMY = "our CPU has room for every network; the paper does not say how much its own has"
MADE_UP = "times are made up in proportion to the work of each network"
COUNTS = (1, 2, 3, 4, 5, 6, 8, 12, 16)


def verdicts(study: Body) -> list[Verdict]:
    """Judge every statement."""
    table, best, third = study["parts"]["table1"], study["parts"]["optimum"], study["parts"]["table3"]
    cells = {key: one for key, one in table.items() if one is not None}
    worse = [key for key, one in cells.items() if one["bounded greedy"] < one["worst-fit"]]
    gain = {key: one["bounded greedy"] / one["worst-fit"] for key, one in cells.items()}
    first = min(n for n in COUNTS if table[f"IMN12 on {n}"] is not None)
    cpu = [key for key, one in cells.items() if key.startswith(("IMN1 ", "IMN4")) and one["cpu used"]]
    one, many = cells["IMN1 on 1"]["bounded greedy"], cells["IMN1 on 16"]["bounded greedy"]
    four = cells["IMN4 on 8"]["instances"]
    spread = max(one["spread"] for key, one in cells.items() if key.startswith("IMN12"))
    calm = max(one["spread"] for key, one in cells.items() if key.startswith("IMN1 "))
    speedup = third["IMN12 on 12"]["bounded greedy, 20"] / third["IMN12 on 12"]["best batch"]
    turns = {key: 100 * one["turns"] / one["rate"] for key, one in best.items()}
    gaps = {key: one["gap"] for key, one in best.items()}
    soft = {
        key: 100 * (cells[key]["soft greedy"] / cells[key]["bounded greedy"] - 1)
        for key in cells
        if key.startswith("IMN12")
    }

    def said(where: str, statement: str, paper: str, ours: str, verdict: str, why: str = MADE_UP) -> Verdict:
        return Verdict(where=where, statement=statement, paper=paper, ours=ours, verdict=verdict, why=why)

    return [
        said(
            "Table I",
            "Algorithm 2 is never below algorithm 1",
            "yes",
            f"{len(cells) - len(worse)} of {len(cells)}",
            judged(not worse),
        ),
        said(
            "Table I",
            "It gains the most where devices outnumber networks",
            "106 to 1897 (IMN1, 16 GPUs)",
            f"IMN1 on 16: {gain['IMN1 on 16']:.1f} times; IMN12 on 4: {gain['IMN12 on 4']:.1f} times",
            judged(gain["IMN1 on 16"] == max(gain.values())),
        ),
        said("Table I", "Twelve networks fit four GPUs, and not three", "4", str(first), judged(first == 4), ROOMY),
        said(
            "IV.B",
            "The CPU idles once GPUs have room",
            "yes",
            f"used in {len(cpu)} cells of IMN1 and IMN4",
            judged(not cpu),
            ROOMY,
        ),
        said(
            "IV.B",
            "Sixteen GPUs scale one network by 87 %",
            "87 %",
            f"{100 * many / (16 * one):.0f} %",
            judged(many / (16 * one) > 0.8),
            "no queue and no shared memory is counted here, which is what the paper loses 13 % in",
        ),
        said(
            "IV.B",
            "The slowest network gets the most instances",
            "yes",
            ", ".join(f"{name} {count}" for name, count in four.items()) + " (IMN4 on 8)",
            judged(four["VGG19"] == max(four.values())),
        ),
        said(
            "IV.B",
            "Where few neighbours are looked at, results scatter, up to 16 %",
            "16 %",
            f"up to {spread:.0f} % for IMN12, {calm:.0f} % for IMN1",
            judged(spread > calm),
        ),
        said(
            "Table III",
            "Up to 2.76 times the best batch on a GPU a network",
            "2.76",
            f"{speedup:.2f} times (IMN12)",
            judged(speedup > 1.5),
        ),
        said(
            "algorithm 2",
            "Ten rounds of a hundred neighbours are a good bound of the search",
            "12 hours",
            ", ".join(f"{value:+.0f} % at {key.split()[-1]}" for key, value in soft.items()),
            judged(max(soft.values()) < 5),
            "gain of a soft score over all neighbours, in under a second; " + MADE_UP,
        ),
        said(
            "ours",
            "The allocation is near the proven optimum",
            "no bound",
            ", ".join(f"{value:.1f} % at {key}" for key, value in gaps.items()),
            judged(
                max(value for key, value in gaps.items() if "board" in key and ("12 b" in key or "16 b" in key)) <= 3
            ),
            "the bound is an integer programme over pooled devices; judged on 12 and 16 boards",
        ),
        said(
            "ours",
            "Turns by a queue carry what the matrix can",
            "implied",
            ", ".join(f"{value:.0f} % at {key}" for key, value in turns.items()),
            judged(min(turns.values()) > 97),
            "equal turns against planned shares of device time",
        ),
    ]
