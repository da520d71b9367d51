"""Statements of TETRIS and what came out here. Figures carry no readable data, so signs and trends are
judged.

The paper prints no latencies. What it says of GPUs is judged on many drawn profiles: a part of a rule holds
where it surely holds on most of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ..statements import Verdict, judge_drawn, link_statements, untested
from ..writing import plus_minus

Body = Mapping[str, Any]
STOCK, LEAVE, SHRINK, TETRIS, BLACK = (
    "stock",
    "exits, all must leave",
    "exits, shrinking",
    "TETRIS",
    "TETRIS, black box",
)
MADE_UP = "made-up and drawn GPU profiles; the paper prints no latencies"
RAMPS_OFF_PCT = 16.0
ARIMA_WITHIN = 1.1
TITLES = {  # of the table or figure that has the numbers of a statement, by how its place begins
    "Fig. 2": "goodput",
    "Fig. 4": "Fig. 4: samples of sixteen left at each ramp",
    "Fig. 5": "Fig. 5: one pipeline against any mix of pieces",
    "Figs. 7, 18": "goodput",
    "Fig. 7": "goodput",
    "Fig. 9": "goodput",
    "Fig. 11, a plan": "Fig. 11: a plan for 80:20 in other mixes",
    "Fig. 11": "Fig. 11: 16 V100, batch up to 8, by share of easy samples",
    "Fig. 12": "cost",
    "Fig. 13": "cost",
    "Fig. 14": "Fig. 14: 16 V100, batch up to 16, by PABEE's patience",
    "Fig. 15": "Fig. 15: 16 V100, batch up to 8, by entropy",
    "Fig. 16": "Fig. 16: equal cost, by largest batch",
    "Fig. 17": "Fig. 17: splits over devices and in series, by largest batch",
    "Fig. 18": "Fig. 18: 16 V100, by objective in ms",
    "Fig. 19": "goodput",
    "Table 1": "Table 1: the optimiser within the paper's seconds",
    "on our boards": "ResNet-50 on ZC706 + ZCU104, samples a second within 200 ms: planned, in the twin",
    "3.1": "Forecasts: mean and worst error of reach, in points",
}


def gains(part: Body, over: str, of: str = TETRIS) -> dict[str, float]:
    """Per cent by which one line is above another, by key in order of its number."""
    return {
        key: 100 * (part[key][of] / part[key][over] - 1)
        for key in sorted(part, key=float)
        if part[key][over] and part[key][of]
    }


def spoken(values: Mapping[str, float], what: str = "") -> str:
    """Write gains by key."""
    return ", ".join(f"{value:+.0f} % at {what}{key}" for key, value in values.items())


def verdicts(study: Body) -> list[Verdict]:
    """Judge every statement."""
    parts = study["parts"]
    rules = [
        *_shown_elsewhere(),
        *_batches(parts),
        *judge_drawn(of_gpus(parts), [of_gpus(body) for body in parts["drawn"].values()], "on profiles"),
        *_table_1(parts["Table 1"]),
    ]
    rules += [*_adapted(parts["adapt"]["mixes"]), *_space(parts["space"]), *_boards(parts["boards"]), *_forecast(parts)]
    return link_statements(rules, TITLES)


def of_gpus(parts: Body) -> list[Verdict]:
    """Judge what the paper says of GPUs on one profile."""
    return [
        *_homogeneous(parts["homogeneous"]),
        *_mixed(parts["mixed types"], parts["heterogeneity"]),
        *_mixes(parts["mixes"]),
        *_cost(parts["cost"]),
        *_small(parts),
    ]


def _shown_elsewhere() -> list[Verdict]:
    return [
        untested(
            "Figs. 1, 3, 6",
            "a network with exits, the architecture, model-parallel execution",
            "drawings",
            "a drawing states no number; `serve --fleet --plan` executes the splits, and its tests hold answers to the bit",
        ),
        untested(
            "Figs. 8, 10",
            "vision networks on GPUs: up to +74 % over exits, and better still on mixed types",
            "ResNet-50 on ImageNet",
            "the drawn profiles have BERT's equal layers; ResNet-50 is judged on our boards, where its cycles were counted",
        ),
    ]


def _said(where: str, statement: str, paper: str, ours: str, holds: Sequence[bool], why: str = MADE_UP) -> Verdict:
    return Verdict(where=where, statement=statement, paper=paper, ours=ours, holds=holds, why=why)


def _homogeneous(part: Body) -> list[Verdict]:
    leave, stock, shrink = gains(part, LEAVE), gains(part, STOCK), gains(part, SHRINK)
    return [
        _said(
            "Fig. 7",
            "On 16 equal GPUs splitting beats the network with exits whose batch must leave together, the more the larger "
            "the batch",
            "up to +44 %",
            spoken(leave),
            [max(leave.values()) > 20, leave["16"] > leave["1"]],
        ),
        _said(
            "Fig. 7",
            "Splitting beats the network without exits",
            "up to +30 to +58 %",
            spoken(stock),
            [min(stock.values()) > 0],
        ),
        _said(
            "Figs. 7, 18",
            "At batch 1 splitting is slightly below the network with exits",
            "3 % (5.6) and 1 % (5.5.5) below",
            f"{leave['1']:+.1f} %",
            [-5 <= leave["1"] < -0.05],
            "our space holds the whole network on every device, so it is hardly ever below; the two figures of the paper disagree",
        ),
        _said(
            "Fig. 7",
            "Against exits whose batch shrinks and is formed anew the gain is smaller",
            "not compared",
            spoken(shrink),
            [max(shrink.values()) < max(leave.values()), min(shrink.values()) > -1],
            "the fair baseline: the paper compares with the weakest only; " + MADE_UP,
        ),
    ]


def _mixed(part: Body, equal: Body) -> list[Verdict]:
    leave = gains(part, LEAVE)
    steps = {
        key: 100 * (equal[key]["6 V100, 8 P100, 15 K80"] / equal[key]["16 V100"] - 1)
        for key in sorted(equal, key=float)
    }
    values = list(steps.values())
    return [
        _said(
            "Fig. 9",
            "On mixed types splitting beats exits, at every largest batch",
            "up to +70 %",
            spoken(leave),
            [max(leave.values()) > 20, min(leave.values()) > 0],
        ),
        _said(
            "Fig. 16",
            "At equal cost mixed types beat equal ones, most at small batches",
            "up to +34 %, shrinking as the batch grows",
            spoken(steps),
            [values[0] > 10, values[0] > values[-1], min(values) > 0],
            "10 % at batch 1, more than at the largest, and a gain at each; " + MADE_UP,
        ),
    ]


def _mixes(part: Body) -> list[Verdict]:
    stock, leave = gains(part, STOCK), gains(part, LEAVE)
    return [
        _said(
            "Fig. 11",
            "The gain over the stock network shrinks as samples get harder; at 20:80 it is a loss",
            "up to 23 % below at 20:80",
            spoken(stock),
            [stock["0.8"] > stock["0.5"] > stock["0.2"], stock["0.2"] < 0],
            "the paper's space has no network without exits, ours may leave ramps out; " + MADE_UP,
        ),
        _said(
            "Fig. 11",
            "It stays above the network with exits in every mix",
            "yes",
            spoken(leave),
            [min(leave.values()) > 0],
        ),
    ]


def _adapted(adapt: Body) -> list[Verdict]:
    lost = {mix: 100 * (1 - entry["plan of 0.8"] / entry["own plan"]) for mix, entry in adapt.items()}
    return [
        _said(
            "Fig. 11, a plan",
            "Planning again for each mix pays",
            "adapts",
            ", ".join(f"{value:.1f} % lost at {mix}" for mix, value in lost.items()),
            [max(lost.values()) > 5],
            "with serial splits in the space the plan for 80:20 is nearly the best for every mix",
        ),
    ]


def _table_1(part: Body) -> list[Verdict]:
    return [
        _said(
            "Table 1",
            f"the optimiser plans {network} within seconds",
            paper,
            "; ".join(f"{fleet}: {'at most' if kept else 'more than'} that" for fleet, kept in part[network].items()),
            [*part[network].values()],
            "CPU time of the second run on this host, whose machine is not the paper's; `benchmarks/placement.py` has times",
        )
        for network, paper in (
            ("ResNet-50", "1.13 s, 2.62 s mixed"),
            ("BERT-Base", "0.87 s, 2.09 s"),
            ("BERT-Large", "1.53 s, 3.63 s"),
        )
    ]


def _cost(part: Body) -> list[Verdict]:
    cheaper = {
        key: 100 * (1 - entry["TETRIS, mixed types"]["cost"] / entry[LEAVE]["cost"])
        for key, entry in sorted(part.items(), key=lambda item: float(item[0]))
        if entry["TETRIS, mixed types"]["cost"] and entry[LEAVE]["cost"]
    }
    fewer = all(
        entry["TETRIS"]["gpus"] <= min(entry[STOCK]["gpus"], entry[LEAVE]["gpus"])
        for entry in part.values()
        if entry["TETRIS"]["gpus"] and entry[STOCK]["gpus"] and entry[LEAVE]["gpus"]
    )
    return [
        _said(
            "Fig. 12",
            "6,000 samples a second take the fewest GPUs at every batch",
            "yes",
            "yes" if fewer else "not always",
            [fewer],
        ),
        _said(
            "Fig. 13",
            "They cost least, 35 to 78 % less than with exits",
            "35 to 78 % (caption: up to 35 %)",
            ", ".join(f"{value:.0f} % less at {key}" for key, value in cheaper.items()),
            [min(cheaper.values()) > 0, max(cheaper.values()) >= 35],
            "caption, text and abstract of the paper disagree; " + MADE_UP,
        ),
    ]


def _small(parts: Body) -> list[Verdict]:
    black = gains(parts["homogeneous"], BLACK)
    loose = gains(parts["tolerance"], LEAVE)
    slo = gains(parts["objective"], LEAVE)
    parallel = parts["parallel"]
    on = {
        key: 100 * (entry["pipelined"] / entry["off, with a barrier"] - 1)
        for key, entry in sorted(parallel.items(), key=lambda i: float(i[0]))
    }
    patience = gains(parts["patience"], LEAVE)
    turns = {
        key: 100 * (entry["in turns, without a barrier"] / entry["pipelined"] - 1)
        for key, entry in sorted(parallel.items(), key=lambda i: float(i[0]))
    }
    return [
        _said(
            "Fig. 14",
            "Exits by a counter, PABEE's, gain as well",
            "up to +55 %",
            spoken(patience, "patience "),
            [max(patience.values()) > 20, min(patience.values()) > 0],
            "who leaves is recorded from a network trained here, not from BERT; " + MADE_UP,
        ),
        _said(
            "Fig. 19",
            "Ramps off inside a split help",
            "up to +16 %",
            spoken(black),
            [min(black.values()) > -0.1, max(black.values()) >= RAMPS_OFF_PCT / 2],
            "clearly: half of the paper's gain at the best batch, and no loss at any; " + MADE_UP,
        ),
        _said(
            "Fig. 15",
            "The gain over exits holds from entropy 0.3 to 0.5",
            "up to +43 %",
            spoken(loose),
            [min(loose.values()) > 0],
        ),
        _said(
            "Fig. 18",
            "A looser objective brings larger batches and a larger gain",
            "-1 to +63 %",
            spoken(slo),
            [list(slo.values())[-1] > next(iter(slo.values()))],
        ),
        _said(
            "Fig. 17",
            "Splits pipelined over GPUs beat splits in series with a barrier",
            "significant, no number",
            spoken(on),
            [on["16"] > 5],
        ),
        _said(
            "Fig. 17",
            "The gain comes from several GPUs",
            "yes",
            f"in turns on one device without the barrier: {spoken(turns)} beside pipelined",
            [max(turns.values()) < 0],
            "the barrier is what costs; re-forming batches on one device needs neither barrier nor link",
        ),
    ]


def _space(part: Body) -> list[Verdict]:
    more = {name: 100 * (entry["mix"] / entry["one pipeline"] - 1) for name, entry in part.items()}
    gap = {name: 100 * (entry["bound"] / entry["mix"] - 1) for name, entry in part.items()}
    return [
        _said(
            "Fig. 5",
            "One type a split and one pipeline are enough",
            "the recurrence",
            ", ".join(f"any mix {value:+.0f} % on {name}" for name, value in more.items()),
            [max(more.values()) < 5],
            "mixes are bounded: at most "
            + ", ".join(f"{value:.1f} %" for value in gap.values())
            + " from the optimum; "
            + MADE_UP,
        )
    ]


def _boards(part: Body) -> list[Verdict]:
    rows = {}
    for key, links in part.items():
        for link, forms in links.items():
            plain = forms["data parallel"]["planned"]
            rows[f"{key}, {link}"] = 100 * (forms["pipeline"]["planned"] / plain - 1)
    return [
        _said(
            "on our boards",
            "Splitting ResNet-50 over boards pays",
            "for GPUs",
            ", ".join(f"{value:+.0f} % ({key})" for key, value in rows.items()),
            [*(value > 0 for value in rows.values())],
            "planned, against data parallel with exits on the same boards; batching gains 3 to 9 % there, and a cut tensor "
            "takes 3 to 14 ms of the link",
        )
    ]


def _batches(parts: Body) -> list[Verdict]:
    left = parts["batches"]["left"]["left"]
    over = {key: entry[LEAVE] / entry[STOCK] for key, entry in parts["homogeneous"].items()}
    return [
        _said(
            "Fig. 2",
            "Exits win alone and lose in a batch: the larger it is, the less of their gain is left",
            "a fall below the network without exits",
            ", ".join(f"x {over[key]:.2f} at {key}" for key in sorted(over, key=float))
            + " of the network without exits",
            [over["1"] > 1, over["16"] < 1, over["16"] < over["4"] < over["1"]],
            "a batch leaves a ramp together; " + MADE_UP,
        ),
        replace(
            _said(
                "Fig. 4",
                "Batches shrink from ramp to ramp, to half in the middle",
                "16, ..., 8, ...",
                ", ".join(f"{x:.1f}" for x in left),
                [all(a >= b for a, b in pairwise(left)), abs(left[len(left) // 2] / left[0] - 0.5) < 0.05],
                "the made-up mix was chosen so",
            ),
            fitted=True,
        ),
    ]


def _forecast(parts: Body) -> list[Verdict]:
    rows = {
        key: {name: by_name["mean"] for name, by_name in by_name.items()} for key, by_name in parts["forecast"].items()
    }
    text = "; ".join(
        f"{key}: " + ", ".join(f"{n} {plus_minus(v)}" for n, v in entry.items()) for key, entry in rows.items()
    )
    none = [math.inf] * 3

    def near(mean: Body, others: Sequence[str]) -> bool:
        return bool(mean.get("arima", none)[0] <= ARIMA_WITHIN * min(mean[other][0] for other in others))

    return [
        _said(
            "3.1",
            "ARIMA predicts the batch profile with high confidence",
            "yes",
            f"mean error in points: {text}",
            [near(row, ("last", "ewma")) for row in rows.values()],
            f"in each world as good as the better of the last window and a mean, within {100 * (ARIMA_WITHIN - 1):.0f} %. At a step every "
            "forecast is wrong for a window, so a detector on the counts asks for a plan"
            + ("" if all("arima" in row for row in rows.values()) else "; statsmodels was not installed"),
        ),
    ]
